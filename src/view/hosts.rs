//! The table of hosts, with the details beside it where there is room.

use ratatui::layout::Rect;

use super::layout::Layout;
use super::pen::{Pen, columns, rows};
use super::table::{self, Column, Shape};
use super::words::{age, phase_role, spinner};
use super::{doc, empty};
use crate::app::screens::hosts::COLUMNS;
use crate::app::{Seen, State, WIDE, describe, time};
use crate::config::Role;
use crate::domain::{Kind, Phase, Run};

/// How wide the details are, with the divider.
const DETAILS: u16 = 50;

const fn column(name: &'static str, min: u16, max: u16, leaves: u8, right: bool) -> Column {
    Column { name, min, max, leaves, right }
}

const TABLE: [Column; 9] = [
    column("host", 24, 44, 0, false),
    column("groups", 10, 20, 9, false),
    column("address", 15, 24, 7, false),
    column("phase", 9, 9, 0, false),
    column("age", 4, 4, 4, true),
    column("seen", 4, 4, 8, true),
    column("run", 4, 4, 5, true),
    // The details name them too.
    column("by", 6, 10, 10, false),
    // Why it failed: as long as there is any room.
    column("last", 20, 60, 3, false),
];

/// Where even these have no room, host and phase share what there is.
const TINY: [Column; 2] = [column("host", 8, 60, 0, false), column("phase", 9, 9, 1, false)];

/// Draws the screen.
pub(crate) fn draw(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    let hosts = &state.hosts.table;
    table::summary(pen, layout.summary, state, hosts, seen);
    let beside = state.details_beside() && layout.body.width >= WIDE;
    let wide = if beside { layout.body.width - DETAILS } else { layout.body.width };
    let area = columns(layout.body, 0, wide - 1);
    let range = table::window(table::split(area).1, state, hosts, seen);
    if hosts.rows().is_empty() {
        empty::hosts(pen, area, state, seen);
    }
    let sorted = COLUMNS.get(hosts.column).copied().unwrap_or_default();
    let shape = Shape { columns: &TABLE, tiny: &TINY, name: "host", sorted };
    let lines = table::runs(pen, hosts, range, |key| state.store.head(key));
    table::draw(
        pen,
        area,
        &shape,
        hosts,
        &lines,
        |pen, run, column, seen| cell(pen, run, column, state, seen),
        seen,
    );
    if beside {
        details(pen, columns(layout.body, wide, DETAILS), state, seen);
    }
}

fn cell(pen: &Pen<'_>, run: &Run, column: &str, state: &State, seen: &mut Seen) -> (String, Role) {
    match column {
        "groups" => (run.groups.join(" "), Role::Muted),
        "address" => {
            let nothing = || pen.symbols().nothing().to_owned();
            (run.address.map_or_else(nothing, |a| a.to_string()), Role::Muted)
        }
        "phase" => (run.phase.as_str().to_owned(), phase_role(run.phase)),
        "age" => (age(run.created, state.now, seen), Role::Text),
        "seen" => (age(run.seen, state.now, seen), Role::Muted),
        "run" => (format!("#{}", run.number), Role::Muted),
        "by" => (run.decision.as_ref().map_or(String::new(), |d| d.by.clone()), Role::Muted),
        _ => last(pen, run, state, seen),
    }
}

/// What is worth knowing of a row now: what is being done, what went wrong, what happened before.
pub(crate) fn last(pen: &Pen<'_>, run: &Run, state: &State, seen: &mut Seen) -> (String, Role) {
    if let Some(flight) = state.flight_of(&run.uid) {
        let word = flight.effect.doing();
        let word = word.split(' ').next().unwrap_or_default().to_owned();
        let words = if flight.progress.is_empty() { word } else { flight.progress.clone() };
        return match spinner(pen, flight.since, state.now, seen) {
            Some(picture) => (format!("{picture} {words}"), Role::Running),
            None => (String::new(), Role::Text),
        };
    }
    if let Some(verdict) = state.verdict(&run.uid) {
        return (verdict.to_owned(), Role::Error);
    }
    let waits = |mark: &Option<crate::domain::Mark>| {
        mark.as_ref().filter(|m| m.answered.is_none()).map(|m| m.by.clone())
    };
    if let Some(by) = waits(&run.forget) {
        return (format!("{by} wants it forgotten"), Role::Queued);
    }
    if let Some(by) = waits(&run.retry) {
        return (format!("retry asked for by {by}"), Role::Queued);
    }
    if let Some(by) = waits(&run.check) {
        return (format!("check asked for by {by}"), Role::Queued);
    }
    match run.phase {
        Phase::Pending => before(run, state, seen),
        Phase::Failed => (describe::ending(run), Role::Failed),
        Phase::Ready => (describe::ending(run), Role::Muted),
        _ if !run.reason.is_empty() => (run.reason.clone(), Role::Muted),
        Phase::Queued if run.undelivered() => ("to be delivered".to_owned(), Role::Muted),
        Phase::Running if run.failed_pods > 0 => (format!("attempt {}", run.failed_pods + 1), Role::Warning),
        _ => (String::new(), Role::Muted),
    }
}

fn before(run: &Run, state: &State, seen: &mut Seen) -> (String, Role) {
    let mut others =
        state.store.runs_of(run.host.as_str()).filter(|r| r.uid != run.uid && r.created <= run.created);
    let Some(other) = others.next() else { return (String::new(), Role::Muted) };
    let at = other.finished.unwrap_or(other.created);
    let what = if other.kind == Kind::Check { "check " } else { "" };
    let role = if other.phase == Phase::Failed { Role::Failed } else { Role::Muted };
    (format!("{what}{} {} ago", other.phase, age(at, state.now, seen)), role)
}

fn details(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let divider = pen.symbols().divider();
    for y in 0..area.height {
        pen.put(area, 0, y, divider, Role::Rule);
    }
    let inner = columns(area, 2, area.width.saturating_sub(3));
    let Some(run) = state.settled.as_ref().and_then(|uid| state.store.run(uid)) else { return };
    pen.put(inner, 0, 0, run.host.as_str(), Role::Strong);
    let known = state.store.details(&run.uid);
    let document = describe::overview(&state.store, &state.environment, run, known, state.now);
    doc::draw(pen, rows(inner, 2, inner.height), &document, 0, None);
    document.changes.inspect(|at| seen.wake_at(*at));
    if known.is_none()
        && let Some(flight) =
            state.in_flight.iter().find(|f| f.effect.run() == Some(&run.uid) && !f.effect.changes())
        && let Some(picture) = spinner(pen, flight.since, state.now, seen)
    {
        pen.put_right(rows(inner, 0, 1), 0, picture, Role::Running);
    }
}

/// One line of details, where they have no room beside the table.
pub(crate) fn details_line(run: &Run, state: &State) -> String {
    let mut parts =
        vec![format!("announced {}", describe::moment(run.created, state.now, &state.environment))];
    if let Some(address) = run.address {
        parts.push(format!("from {address}"));
    }
    if let Some(branch) = &run.branch {
        parts.push(format!("branch {branch}"));
    }
    if let Some(key) = &run.key {
        parts.push(key.clone());
    }
    if let Some(ms) = describe::duration(run, state.now).filter(|_| run.is_over()) {
        parts.push(format!("took {}", time::length(ms)));
    }
    parts.join("   ")
}
