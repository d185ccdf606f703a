//! What a table says when it has no rows: connecting, broken, empty and filtered look different and say what to do.

use ratatui::layout::Rect;

use super::pen::{Pen, columns, rows};
use super::text::{Piece, wrap};
use super::words::{health_role, until};
use crate::app::table::Table;
use crate::app::{Seen, State};
use crate::config::{Action, Role};
use crate::domain::{BackEnd, Health};

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
    let inner = columns(area, 3, area.width.saturating_sub(6).max(1));
    let mut y = (area.height / 5).max(u16::from(area.height > 4));
    // The same symbol as in the header: connecting, broken and empty are told apart at a glance.
    let health = state.store.health(BackEnd::Cluster);
    if !state.environment.name.is_empty() && !lines.is_empty() {
        pen.put(area, 1, y, pen.symbols().health(health), health_role(health));
    }
    for (text, role) in lines {
        let piece = Piece { text: super::text::harmless(text).into_owned(), style: pen.style(*role) };
        for line in wrap(&[piece], usize::from(inner.width)) {
            pen.put_pieces(rows(inner, y, 1), 0, 0, &line);
            y += 1;
        }
    }
}
