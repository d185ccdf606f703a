//! The table of runs.

use super::empty;
use super::hosts::last;
use super::layout::Layout;
use super::pen::{Pen, columns};
use super::table::{self, Column, Shape};
use super::words::{age, phase_role};
use crate::app::screens::runs::COLUMNS;
use crate::app::{Seen, State, describe, time};
use crate::config::Role;
use crate::domain::{Counts, Kind, Run};

const fn column(name: &'static str, min: u16, max: u16, leaves: u8, right: bool) -> Column {
    Column { name, min, max, leaves, right }
}

const TABLE: [Column; 10] = [
    column("host", 22, 44, 0, false),
    column("run", 9, 9, 2, false),
    column("phase", 9, 9, 0, false),
    column("started", 7, 7, 4, true),
    column("duration", 8, 8, 5, true),
    column("ok", 4, 4, 7, true),
    column("changed", 7, 7, 7, true),
    column("unreach", 7, 7, 7, true),
    column("failed", 6, 6, 6, true),
    // Why it failed says more than how many tasks did.
    column("last", 14, 60, 3, false),
];

const TINY: [Column; 2] = [column("host", 8, 60, 0, false), column("phase", 9, 9, 1, false)];

/// Draws the screen.
pub(crate) fn draw(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    let runs = &state.runs.table;
    table::summary(pen, layout.summary, state, runs, seen);
    let area = columns(layout.body, 0, layout.body.width.saturating_sub(1));
    let range = table::window(table::split(area).1, state, runs, seen);
    if runs.rows().is_empty() {
        empty::runs(pen, area, state, seen);
    }
    let sorted = COLUMNS.get(runs.column).copied().unwrap_or_default();
    let shape = Shape { columns: &TABLE, tiny: &TINY, name: "host", sorted };
    let lines = table::runs(pen, runs, range, |key| state.store.run(key));
    table::draw(
        pen,
        area,
        &shape,
        runs,
        &lines,
        |pen, run, column, seen| cell(pen, run, column, state, seen),
        seen,
    );
}

/// What is counted of a run: what its outcome says, else what ARA has so far or its last attempt said, whichever is newer.
pub(crate) fn run_counts(run: &Run, state: &State) -> Option<Counts> {
    let recorded = state.store.results(&run.uid).and_then(|r| r.results.as_ref());
    let recorded = recorded.filter(|r| !r.results.is_empty()).map(|r| r.counts);
    let attempt = run.last_attempt.as_ref().and_then(|o| o.counts);
    let (first, second) = if run.is_over() { (attempt, recorded) } else { (recorded, attempt) };
    run.outcome.as_ref().and_then(|o| o.counts).or(first).or(second)
}

fn cell(pen: &Pen<'_>, run: &Run, column: &str, state: &State, seen: &mut Seen) -> (String, Role) {
    let counts = run_counts(run, state);
    let number = |of: fn(Counts) -> u32, role: Role| match counts.map(of) {
        None => (String::new(), Role::Muted),
        Some(0) => ("0".to_owned(), Role::Muted),
        Some(n) => (n.to_string(), role),
    };
    match column {
        "run" if run.kind == Kind::Check => (format!("check #{}", run.number), Role::Muted),
        "run" => (format!("#{}", run.number), Role::Muted),
        "phase" => (run.phase.as_str().to_owned(), phase_role(run.phase)),
        "started" => match run.started {
            Some(at) => (age(at, state.now, seen), Role::Text),
            None => (pen.symbols().nothing().to_owned(), Role::Muted),
        },
        "duration" => (duration(run, state, seen), Role::Text),
        "ok" => number(|c| c.ok, Role::Ok),
        "changed" => number(|c| c.changed, Role::Changed),
        "unreach" => number(|c| c.unreachable, Role::Unreachable),
        "failed" => number(|c| c.failed, Role::Failed),
        _ => last(pen, run, state, seen),
    }
}

/// How long a run took, or takes so far.
pub(crate) fn duration(run: &Run, state: &State, seen: &mut Seen) -> String {
    let Some(ms) = describe::duration(run, state.now) else { return String::new() };
    if run.is_over() {
        return time::length(ms);
    }
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let rest = i64::try_from(1000 - ms % 1000).unwrap_or(1000);
    let next = state.now.checked_add(jiff::SignedDuration::from_millis(rest));
    seen.wake_at(next.unwrap_or(state.now));
    time::length_so_far(seconds)
}
