//! `cluster permissions`: what the cluster lets us do, action by action, and the rules that are missing; and what a run's pod may.

use clap::Args;
use serde::Serialize;

use super::output::{Output, Table, say};
use super::{Context, Failure};
use crate::config::{ACTIONS, Action, Need, Rights};
use crate::domain::Problem;
use crate::domain::rights::{Answer, Right, Rule, place, rules};
use crate::ops;

/// What is checked.
#[derive(Debug, Args)]
pub struct Permissions {
    /// Only these actions, named as in docs/keys.md; without any: all that need a right
    #[arg(value_parser = action, conflicts_with = "provision")]
    actions: Vec<Action>,
    /// What the account of the runs' pods needs, checked for whom the cluster takes you for now
    #[arg(long)]
    provision: bool,
}

fn action(name: &str) -> Result<Action, String> {
    let needing: Vec<&str> = all(true).map(|action| action.info().name).collect();
    Action::parse(name)
        .filter(|action| needing.contains(&action.info().name))
        .ok_or_else(|| format!("actions that need a right are: {}", needing.join(", ")))
}

/// The actions that need a right, in the order of the table. Machines are booted in the playground only.
fn all(playground: bool) -> impl Iterator<Item = Action> {
    let needs = |action: &Action| action.needs().is_some_and(|needs| !needs.is_empty());
    let here = move |action: &Action| playground || *action != Action::Boot;
    ACTIONS.iter().map(|row| row.action).filter(needs).filter(here)
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    /// Whom the cluster takes us for.
    user: Option<String>,
    actions: Vec<Row>,
    /// What Roles would have to say, by namespace.
    missing: Vec<Missing>,
    /// Why something is not known.
    problem: Option<Problem>,
}

#[derive(Serialize)]
struct Row {
    action: &'static str,
    /// None: not known.
    allowed: Option<bool>,
    needs: Vec<String>,
    missing: Vec<String>,
}

#[derive(Serialize)]
struct Missing {
    namespace: String,
    rule: Rule,
}

pub(super) async fn run(context: &Context<'_>, asked: &Permissions) -> Result<(), Failure> {
    let environment = &context.settings.environment;
    if asked.provision {
        let rights = ops::rights::look_for(&context.kube, environment, &Need::PROVISION).await;
        return print(context, &report(&rights, &[("provision", &Need::PROVISION[..])]));
    }
    let rights = ops::rights::look(&context.kube, environment).await;
    let actions: Vec<Action> = match asked.actions.as_slice() {
        [] => all(environment.playground).collect(),
        named => named.to_vec(),
    };
    print(context, &report(&rights, &needs(&actions)))
}

/// What each action needs.
fn needs(actions: &[Action]) -> Vec<(&'static str, &'static [Need])> {
    actions.iter().map(|action| (action.info().name, action.needs().unwrap_or_default())).collect()
}

fn print(context: &Context<'_>, report: &Report) -> Result<(), Failure> {
    context.output.print(report, table)?;
    if context.output == Output::Table {
        let mut namespace = None;
        for missing in &report.missing {
            if namespace.replace(&missing.namespace) != Some(&missing.namespace) {
                say(&format!("\nmissing in {}:", place(&missing.namespace)))?;
            }
            say(&missing.rule.to_string())?;
        }
    }
    match &report.problem {
        Some(problem) => Err(Failure { code: 1, ..problem.clone().into() }),
        None if !report.missing.is_empty() => Err(Failure::said(4)),
        None => Ok(()),
    }
}

fn report(rights: &Rights, rows: &[(&'static str, &[Need])]) -> Report {
    let answer = |need: &Need| rights.answers.get(need);
    let right = |need: &Need| answer(need).map(|(right, _)| right.to_string());
    let denied = |need: &Need| match answer(need) {
        Some((right, Answer::No(_))) => Some(right.clone()),
        _ => None,
    };
    let all = || rows.iter().flat_map(|(_, needs)| needs.iter());
    let mut missing: Vec<Right> = all().filter_map(denied).collect();
    missing.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    let problem = all().find_map(|need| match answer(need) {
        Some((_, Answer::Unknown(problem))) => Some(problem.clone()),
        _ => None,
    });
    let row = |(action, needs): &(&'static str, &[Need])| {
        let missing: Vec<String> = needs.iter().filter_map(denied).map(|right| right.to_string()).collect();
        let yes = |need: &Need| matches!(answer(need), Some((_, Answer::Yes)));
        let allowed = if missing.is_empty() { needs.iter().all(yes).then_some(true) } else { Some(false) };
        Row { action, allowed, needs: needs.iter().filter_map(right).collect(), missing }
    };
    Report {
        user: rights.who.clone(),
        actions: rows.iter().map(row).collect(),
        missing: rules(&missing).into_iter().map(|(namespace, rule)| Missing { namespace, rule }).collect(),
        problem,
    }
}

/// The rules that are missing for any action, and what is not known, in lines.
pub(super) fn summary(rights: &Rights) -> String {
    let report = report(rights, &needs(&all(false).collect::<Vec<_>>()));
    let who = report.user.unwrap_or_else(|| "not known".to_owned());
    let problem = report.problem.map(|problem| format!("\nnot known: {problem}")).unwrap_or_default();
    let missing: Vec<String> =
        report.missing.iter().map(|m| format!("\n{} {}", m.namespace, m.rule)).collect();
    let off: Vec<&str> = rights.off().map(|action| action.info().name).collect();
    let off = if off.is_empty() { String::new() } else { format!("\nmay not: {}", off.join(" ")) };
    format!("user {who}{problem}{off}{}", missing.concat())
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(&["ACTION", "ALLOWED", "NEEDS"]);
    for row in &report.actions {
        let allowed = match row.allowed {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not known",
        };
        // What is missing is what one wants to see.
        let needs = if row.missing.is_empty() { &row.needs } else { &row.missing };
        table.row([row.action.to_owned(), allowed.to_owned(), needs.join(", ")]);
    }
    table
}
