//! What a table says when it has no rows: connecting, broken, empty and filtered look different and say what to do.

use ratatui::layout::Rect;

use super::pen::{Pen, columns, rows};
use super::text::{Piece, wrap};
use super::words::{health_role, until};
use crate::app::screens::list::ListScreen;
use crate::app::table::Table;
use crate::app::{Seen, State, Topic};
use crate::config::{Action, Role};
use crate::domain::{BackEnd, Health, Phase, Problem, ProblemKind};

/// The table of hosts has no rows.
pub(crate) fn hosts(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let mut lines = common(state, &state.hosts.table, "host", seen);
    if lines.is_empty() {
        lines.push(("No host has called yet.".to_owned(), Role::Text));
        lines.push(("A machine appears here when it calls POST /host/online.".to_owned(), Role::Muted));
        if state.environment.playground {
            let key = state.keymap.key_text(state.scope(), Action::Boot);
            lines.push((format!("{key} boots one."), Role::Key));
        } else {
            lines.push(("hostwright hosts announce NAME calls for one by hand.".to_owned(), Role::Muted));
        }
    }
    say(pen, area, &lines, state);
}

/// The table of runs has no rows.
pub(crate) fn runs(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let mut lines = common(state, &state.runs.table, "run", seen);
    if lines.is_empty() {
        lines.push(("There is no run yet.".to_owned(), Role::Text));
        lines.push(("One begins when a host calls, and waits for a decision.".to_owned(), Role::Muted));
    }
    say(pen, area, &lines, state);
}

/// The tree of secrets has no rows.
pub(crate) fn secrets(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let screen = &state.secrets;
    let again = || state.keymap.key_text(state.scope(), Action::Refresh);
    let mut lines = Vec::new();
    if state.environment.name.is_empty() || screen.table.total() > 0 {
        lines = common(state, &screen.table, "secret", seen);
    } else if let Some(problem) = &screen.problem {
        lines.push((problem.text.clone(), Role::Error));
        lines.extend(problem.advice.lines().map(|line| (line.to_owned(), Role::Text)));
        if problem.kind == ProblemKind::NotAuthenticated {
            let key = state.keymap.key_text(state.scope(), Action::GiveCode);
            lines.push((format!("{key} gives the code of an MFA device, where one is wanted."), Role::Text));
        }
        if let Some(at) = problem.retry_at {
            lines.push((
                format!("next try {}; {} tries at once.", until(at, state.now, seen), again()),
                Role::Muted,
            ));
        } else {
            lines.push((format!("{} tries again.", again()), Role::Muted));
        }
    } else if screen.fetched.is_none() {
        lines.push(("reading the bucket and the local copy".to_owned(), Role::Muted));
    } else if let Some(reason) = &screen.incomplete {
        lines.push((format!("Not everything was listed: {reason}"), Role::Error));
        lines.push((format!("{} lists again.", again()), Role::Muted));
    } else {
        let (bucket, folder) =
            screen.facts.as_ref().map_or(("", ""), |facts| (facts.bucket.as_str(), facts.folder.as_str()));
        lines.push((format!("The bucket {bucket} is empty, and so is {folder}."), Role::Text));
        lines.push((
            "A file that is put into the folder appears here, to be uploaded.".to_owned(),
            Role::Muted,
        ));
    }
    let (symbol, role) = state_of(pen, screen.problem.as_ref(), screen.fetched.is_some());
    lay_out(pen, area, &lines, Some((symbol, role)));
}

/// What stands before the words: broken, forbidden, on its way or empty are told apart at a glance.
fn state_of(pen: &Pen<'_>, problem: Option<&Problem>, fetched: bool) -> (&'static str, Role) {
    match problem {
        Some(problem) if problem.kind == ProblemKind::Forbidden => (pen.symbols().warning(), Role::Warning),
        Some(_) => (pen.symbols().phase(Phase::Failed), Role::Down),
        None if !fetched => (pen.symbols().health(&Health::Unknown), Role::Unknown),
        None => (pen.symbols().health(&Health::Up), Role::Up),
    }
}

/// A page of one secret has nothing to show: why, or that it is on its way.
pub(crate) fn page(pen: &mut Pen<'_>, area: Rect, state: &State, problem: Option<&Problem>, waits: &str) {
    let mut lines = Vec::new();
    match problem {
        Some(problem) => {
            lines.push((problem.text.clone(), Role::Error));
            lines.extend(problem.advice.lines().map(|line| (line.to_owned(), Role::Text)));
            let key = state.keymap.key_text(state.scope(), Action::Refresh);
            lines.push((format!("{key} tries again."), Role::Muted));
        }
        None => lines.push((waits.to_owned(), Role::Muted)),
    }
    let symbol = state_of(pen, problem, false);
    lay_out(pen, area, &lines, Some(symbol));
}

/// The table of a topic has no rows.
pub(crate) fn list(pen: &mut Pen<'_>, area: Rect, state: &State, list: &ListScreen, seen: &mut Seen) {
    let noun = list.topic.noun();
    let mut lines = Vec::new();
    if state.environment.name.is_empty() || list.table.total() > 0 {
        lines = common(state, &list.table, noun, seen);
    } else if let Some(problem) = &list.problem {
        lines.push((problem.text.clone(), Role::Error));
        lines.extend(problem.advice.lines().map(|line| (line.to_owned(), Role::Text)));
        let key = state.keymap.key_text(state.scope(), Action::Refresh);
        lines.push((format!("{key} tries again at once."), Role::Muted));
    } else if list.fetched.is_none() {
        lines.push((format!("reading every {noun}"), Role::Muted));
    } else {
        match list.topic {
            Topic::Targets => {
                lines.push(("Nothing is scraped yet.".to_owned(), Role::Text));
                let key = state.keymap.key_text(state.scope(), Action::AddTarget);
                lines.push((
                    format!("A host outside the cluster is added when it is ready; {key} adds one."),
                    Role::Muted,
                ));
            }
            Topic::Tokens => {
                lines.push(("There is no bootstrap token.".to_owned(), Role::Text));
                let key = state.keymap.key_text(state.scope(), Action::MintToken);
                lines
                    .push((format!("Runs of workers mint their own; {key} mints one by hand."), Role::Muted));
            }
            Topic::Queue => {
                lines.push(("No run has a queue now, and there is no dead letter.".to_owned(), Role::Text));
                lines
                    .push(("A queue begins with an approval and ends with its run.".to_owned(), Role::Muted));
            }
            Topic::Activity => {
                lines.push(("Nothing was done for a while.".to_owned(), Role::Text));
                lines.push(("The cluster forgets what was done after an hour.".to_owned(), Role::Muted));
            }
        }
    }
    let (symbol, role) = state_of(pen, list.problem.as_ref(), list.fetched.is_some());
    lay_out(pen, area, &lines, Some((symbol, role)));
}

fn common(state: &State, table: &Table, noun: &str, seen: &mut Seen) -> Vec<(String, Role)> {
    if state.environment.name.is_empty() {
        return vec![
            ("No environment is configured.".to_owned(), Role::Text),
            (
                "hostwright play starts the playground: everything on this machine, nothing to lose."
                    .to_owned(),
                Role::Muted,
            ),
            ("A real one is a table [environments.NAME] in config.toml.".to_owned(), Role::Muted),
        ];
    }
    if table.total() > 0 {
        let key = state.keymap.key_text(state.scope(), Action::Back);
        return vec![
            (format!("No {noun} passes the filter {}", table.filter.text()), Role::Text),
            (format!("{} hidden; {key} takes the filter away.", table.total()), Role::Muted),
        ];
    }
    let cluster = &state.environment.cluster;
    match state.store.health(BackEnd::Cluster) {
        Health::Down { problem, .. } => {
            let mut lines = vec![(problem.text.clone(), Role::Error)];
            if !problem.advice.is_empty() {
                lines.push((problem.advice.clone(), Role::Text));
            }
            if let Some(at) = problem.retry_at {
                lines.push((format!("next try {}", until(at, state.now, seen)), Role::Muted));
            }
            lines
        }
        _ if state.store.ever_listed() => Vec::new(),
        _ if state.store.is_listing() => vec![(format!("reading the runs of {cluster}"), Role::Muted)],
        _ => vec![(format!("connecting to the cluster {cluster}").trim_end().to_owned(), Role::Muted)],
    }
}

fn say(pen: &mut Pen<'_>, area: Rect, lines: &[(String, Role)], state: &State) {
    // The same symbol as in the header: connecting, broken and empty are told apart at a glance.
    let health = state.store.health(BackEnd::Cluster);
    let shown = !state.environment.name.is_empty();
    let symbol = shown.then(|| (pen.symbols().health(health), health_role(health)));
    lay_out(pen, area, lines, symbol);
}

fn lay_out(pen: &mut Pen<'_>, area: Rect, lines: &[(String, Role)], symbol: Option<(&str, Role)>) {
    let inner = columns(area, 3, area.width.saturating_sub(6).max(1));
    let mut y = (area.height / 5).max(u16::from(area.height > 4));
    if let Some((symbol, role)) = symbol.filter(|_| !lines.is_empty()) {
        pen.put(area, 1, y, symbol, role);
    }
    for (text, role) in lines {
        let piece = Piece { text: super::text::harmless(text).into_owned(), style: pen.style(*role) };
        for line in wrap(&[piece], usize::from(inner.width)) {
            pen.put_pieces(rows(inner, y, 1), 0, 0, &line);
            y += 1;
        }
    }
}
