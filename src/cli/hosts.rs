//! `hosts list|show|approve|reject|retry|check|forget`; the others have files of their own.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::output::Table;
use super::{Context, Failure, Output, announce};
use crate::domain::text::short_span;
use crate::domain::{HostName, Phase, Problem, Run, RunDetails};
use crate::ops::decide::{Changes, Seen};
use crate::ops::marks::Wish;
use crate::ops::{self, OpError};

/// What is done with hosts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the hosts with their newest run, pending ones first
    List {
        /// Only hosts in this phase
        #[arg(long)]
        phase: Option<String>,
    },
    /// Show one host's announcement, keys, facts and run
    Show {
        /// The host
        host: HostName,
    },
    /// Call the hook, as the machine would
    Announce(announce::Announce),
    /// Let the run of pending hosts start
    Approve(Approve),
    /// Refuse pending hosts
    Reject {
        /// The hosts
        #[arg(required = true)]
        hosts: Vec<HostName>,
    },
    /// Run hosts again whose run is over; a rejected one becomes pending again
    Retry {
        /// The hosts
        #[arg(required = true)]
        hosts: Vec<HostName>,
        /// Follow the new runs to their end; exit 0 only when all are ready
        #[arg(long)]
        wait: bool,
    },
    /// Forget hosts whose runs are over: all their runs are deleted, and a host that calls again is new
    Forget {
        /// The hosts
        #[arg(required = true)]
        hosts: Vec<HostName>,
    },
    /// Open a shell on a host, trusting the keys that it announced
    Shell {
        /// The host
        host: HostName,
    },
    /// Say what provisioning would change, and change nothing
    Check {
        /// The hosts
        #[arg(required = true)]
        hosts: Vec<HostName>,
        /// Follow the checks to their end; exit 0 only when all went well
        #[arg(long)]
        wait: bool,
    },
}

/// An approval.
#[derive(Debug, Args)]
pub struct Approve {
    /// The hosts
    #[arg(required = true)]
    hosts: Vec<HostName>,
    /// Follow the runs to their end; exit 0 only when all are ready
    #[arg(long)]
    wait: bool,
    /// The digest of the announcement that you looked at (hosts show); approve nothing else
    #[arg(long)]
    digest: Option<String>,
    /// Another playbook of the policy
    #[arg(long)]
    playbook: Option<String>,
    /// Another branch of the policy
    #[arg(long)]
    branch: Option<String>,
    /// Put the host in these groups instead of those that it asks for; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Only tasks with this tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// An Ansible limit
    #[arg(long)]
    limit: Option<String>,
    /// An extra variable; the value is JSON when it can be read as such; may be repeated
    #[arg(long = "var", value_name = "NAME=VALUE")]
    variables: Vec<String>,
}

/// What came of one of several hosts.
#[derive(Debug, Serialize)]
struct Row {
    host: HostName,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Problem>,
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { phase } => list(context, phase).await,
        Command::Show { host } => show(context, &host).await,
        Command::Announce(args) => announce::announce(context.settings, context.output, args).await,
        Command::Approve(args) => approve(context, args).await,
        Command::Reject { hosts } => {
            let (permit, by) = (context.permit()?, context.operator().await?);
            let reject = async |host: &HostName| {
                let details = ops::runs::of_host(&context.kube, host).await?;
                ops::decide::reject(&context.kube, &permit, &Seen::from(&details.run), &by)
                    .await
                    .map(|d| d.run)
            };
            each(context, hosts, reject).await
        }
        Command::Forget { hosts } => {
            let (permit, by) = (context.permit()?, context.operator().await?);
            each(context, hosts, async |host| ops::forget::forget(&context.kube, &permit, host, &by).await)
                .await
        }
        Command::Shell { host } => super::shell::open(context, &host).await,
        Command::Retry { hosts, wait } => mark(context, hosts, Wish::Retry, wait).await,
        Command::Check { hosts, wait } => mark(context, hosts, Wish::Check, wait).await,
    }
}

async fn list(context: &Context<'_>, phase: Option<String>) -> Result<(), Failure> {
    let phase = phase.map(|word| {
        Phase::ALL.into_iter().find(|p| p.as_str() == word).ok_or_else(|| {
            let words: Vec<_> = Phase::ALL.iter().map(|p| p.as_str()).collect();
            Failure::usage(format!("{word} is no phase: one of {}", words.join(", ")))
        })
    });
    let phase = phase.transpose()?;
    let mut hosts = ops::runs::hosts(&context.kube).await?;
    hosts.retain(|run| phase.is_none_or(|p| run.phase == p));
    hosts.sort_by_key(|run| run.phase);
    let now = Timestamp::now();
    context.output.print(&hosts, |hosts| {
        let mut table = Table::new(&["HOST", "PHASE", "GROUPS", "ADDRESS", "AGE", "SEEN", "RUN", "BY"]);
        for run in hosts {
            table.row([
                run.host.to_string(),
                run.phase.to_string(),
                run.groups.join(" "),
                run.address.map(|a| a.to_string()).unwrap_or_default(),
                ago(now, run.created),
                ago(now, run.seen),
                run.name.clone(),
                run.decision.as_ref().map(|d| d.by.clone()).unwrap_or_default(),
            ]);
        }
        table
    })?;
    Ok(())
}

fn ago(now: Timestamp, then: Timestamp) -> String {
    short_span(now.duration_since(then).as_secs())
}

async fn show(context: &Context<'_>, host: &HostName) -> Result<(), Failure> {
    let details = ops::runs::of_host(&context.kube, host).await?;
    let details = ops::runs::explain(&context.kube, details).await;
    context.output.print(&details, table_of)?;
    Ok(())
}

pub(super) fn table_of(details: &RunDetails) -> Table {
    let RunDetails { run, announcement, parameters } = details;
    let mut table = Table::pairs();
    let mut pair = |name: &str, value: String| {
        if !value.is_empty() {
            table.row([name.to_owned(), value]);
        }
    };
    let or_empty = |value: Option<String>| value.unwrap_or_default();
    pair("host", run.host.to_string());
    pair("run", run.name.clone());
    pair("phase", run.phase.to_string());
    pair("reason", run.reason.clone());
    pair("waits since", or_empty(run.waits.as_ref().map(|w| w.since.to_string())));
    pair("announced", run.created.to_string());
    pair("last seen", run.seen.to_string());
    pair("address", or_empty(run.address.map(|a| a.to_string())));
    pair("groups", run.groups.join(" "));
    pair("branch", or_empty(run.branch.clone()));
    pair("boot", or_empty(run.boot.clone()));
    for key in &announcement.keys {
        pair("key", format!("{} {}", key.algorithm(), key.fingerprint()));
    }
    for (name, value) in &announcement.facts {
        pair("fact", format!("{name} = {value}"));
    }
    pair("digest", run.digest.clone());
    pair(
        "decision",
        or_empty(run.decision.as_ref().map(|d| format!("{} by {} at {}", d.verdict.as_str(), d.by, d.at))),
    );
    pair("stopped", or_empty(run.stop.as_ref().map(|s| format!("by {} at {}", s.by, s.at))));
    pair("playbook", or_empty(parameters.as_ref().map(|p| p.playbook.clone())));
    pair("delivered", or_empty(run.delivered.map(|t| t.to_string())));
    pair("started", or_empty(run.started.map(|t| t.to_string())));
    pair("finished", or_empty(run.finished.map(|t| t.to_string())));
    match (&run.outcome, &run.last_attempt) {
        (Some(outcome), _) => pair("outcome", outcome.text.clone()),
        (None, Some(attempt)) => pair("last attempt", format!("{}: {}", attempt.exit.words(), attempt.text)),
        (None, None) => {}
    }
    if let Some(c) = run.last_outcome().and_then(|o| o.counts) {
        pair("tasks", c.to_string());
    }
    table
}

async fn approve(context: &Context<'_>, args: Approve) -> Result<(), Failure> {
    let permit = context.permit()?;
    if args.digest.is_some() && args.hosts.len() > 1 {
        return Err(Failure::usage("--digest goes with one host"));
    }
    let changes = Changes {
        playbook: args.playbook,
        branch: args.branch,
        groups: (!args.groups.is_empty()).then_some(args.groups),
        tags: args.tags,
        limit: args.limit,
        variables: variables(&args.variables)?,
    };
    let by = context.operator().await?;
    let approve = async |host: &HostName| {
        let details = ops::runs::of_host(&context.kube, host).await?;
        let mut seen = Seen::from(&details.run);
        if let Some(digest) = &args.digest {
            seen.digest.clone_from(digest);
        }
        let environment = &context.settings.environment;
        let approved =
            ops::decide::approve(&context.kube, &permit, environment, &seen, &changes, &by).await?;
        if args.wait { follow(context, &approved.run).await } else { Ok(approved.run) }
    };
    let rows = all(args.hosts, approve).await;
    finish(context, &rows, args.wait)
}

fn variables(pairs: &[String]) -> Result<BTreeMap<String, Value>, Failure> {
    pairs
        .iter()
        .map(|pair| {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("--var {pair}: write NAME=VALUE")))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            Ok((name.to_owned(), value))
        })
        .collect()
}

async fn mark(context: &Context<'_>, hosts: Vec<HostName>, wish: Wish, wait: bool) -> Result<(), Failure> {
    let permit = context.permit()?;
    let by = context.operator().await?;
    let mark = async |host: &HostName| {
        let kube = &context.kube;
        let details = ops::runs::of_host(kube, host).await?;
        let marked = ops::marks::mark(kube, &permit, wish, &Seen::from(&details.run), &by).await?;
        if !wait {
            return Ok(marked.run);
        }
        let new = ops::marks::answered(kube, wish, &marked.run).await?;
        follow(context, &new).await
    };
    let rows = all(hosts, mark).await;
    finish(context, &rows, wait)
}

/// Follows a run to its end, telling each phase on standard error.
async fn follow(context: &Context<'_>, run: &Run) -> Result<Run, OpError> {
    let mut last = None;
    ops::runs::wait(&context.kube, run, |now| {
        if last != Some(now.phase) && context.output == Output::Table {
            super::fail(&format!("{}: {}", now.host, now.phase));
        }
        last = Some(now.phase);
    })
    .await
}

async fn each(
    context: &Context<'_>,
    hosts: Vec<HostName>,
    deed: impl AsyncFn(&HostName) -> Result<Run, OpError>,
) -> Result<(), Failure> {
    let rows = all(hosts, deed).await;
    finish(context, &rows, false)
}

/// Does the same with several hosts at once, and keeps their order.
async fn all(hosts: Vec<HostName>, deed: impl AsyncFn(&HostName) -> Result<Run, OpError>) -> Vec<Row> {
    let deeds = hosts.iter().map(|host| async {
        match deed(host).await {
            Ok(run) => Row { host: host.clone(), run: Some(run.name), phase: Some(run.phase), error: None },
            Err(error) => {
                let error = error.problem(host.to_string());
                Row { host: host.clone(), run: None, phase: None, error: Some(error) }
            }
        }
    });
    futures_util::future::join_all(deeds).await
}

/// Prints the rows. The exit code is that of the first that went wrong; with `ready`, a run that is not ready went wrong.
fn finish(context: &Context<'_>, rows: &[Row], ready: bool) -> Result<(), Failure> {
    context.output.print(&rows, |rows| {
        let mut table = Table::new(&["HOST", "PHASE", "RUN"]);
        for row in rows.iter().filter(|r| r.error.is_none()) {
            let phase = row.phase.map(|p| p.to_string()).unwrap_or_default();
            table.row([row.host.to_string(), phase, row.run.clone().unwrap_or_default()]);
        }
        table
    })?;
    let mut code = None;
    for row in rows {
        if let Some(problem) = &row.error {
            super::fail(&problem.to_string());
            code = code.or(Some(Failure::from(problem.clone()).code));
        } else if ready && row.phase != Some(Phase::Ready) {
            code = code.or(Some(1));
        }
    }
    code.map_or(Ok(()), |code| Err(Failure::said(code)))
}
