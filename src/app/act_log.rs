//! What the actions do in a run's log, and the ways between its lines and the tasks that they belong to.

use super::act;
use super::effect::{Effect, EffectId};
use super::flight;
use super::input;
use super::log::{Heading, Line, LogBuffer, LogRow};
use super::notice::Level;
use super::screens::logview::Only;
use super::screens::run::{Pane, RunScreen};
use super::screens::tasks::{self, RowKind};
use super::seen::Seen;
use super::state::State;
use crate::config::Action;
use crate::domain::results::{RunResults, TaskResult};

/// Moves in the log.
pub(super) fn go(state: &mut State, seen: &Seen, action: Action) {
    let Some(run) = &mut state.run else { return };
    let Some(log) = state.store.log(&run.uid) else { return };
    match action {
        Action::Left => run.log.side(false),
        Action::Right => run.log.side(true),
        _ => {
            if let Some(to) = input::movement(action, seen.log.page) {
                run.log.go(log, to);
            }
        }
    }
}

/// Follows the end of the log, or stands still.
pub(super) fn follow(state: &mut State) {
    let Some(run) = &mut state.run else { return };
    run.focus = Pane::Log;
    if let Some(log) = state.store.log(&run.uid) {
        run.log.set_follow(log, !run.log.follows());
    }
}

/// Copies the line under the cursor, or all that are shown where only some are.
pub(super) fn copy(state: &mut State) {
    let lines = state.run.as_ref().and_then(|run| {
        let log = state.store.log(&run.uid)?;
        let line = |row: u64| match log.row(row)? {
            LogRow::Line(line) => Some(line.bytes),
            LogRow::Attempt(_) => None,
        };
        if run.log.only() == Only::All {
            return line(run.log.cursor_row(log)?).map(<[u8]>::to_vec);
        }
        let rows = (0..run.log.len(log)).filter_map(|place| run.log.row(log, place));
        Some(rows.filter_map(line).flat_map(|line| [line, b"\n"].concat()).collect())
    });
    match lines.map(String::from_utf8) {
        // What is no text is copied byte by byte too.
        Some(Err(error)) => {
            flight::start(state, Effect::CopyBytes { id: EffectId(0), bytes: error.into_bytes() });
        }
        Some(Ok(text)) => act::copy_text(state, Some(text)),
        None => act::copy_text(state, None),
    }
}

/// What the log and the results of the open run are, with its screen.
fn parts(state: &State) -> Option<(&RunScreen, &LogBuffer, Option<&RunResults>)> {
    let run = state.run.as_ref()?;
    let results = state.store.results(&run.uid).and_then(|e| e.results.as_deref());
    Some((run, state.store.log(&run.uid)?, results))
}

/// The task under the cursor in the tree, or the first of the group.
fn task_under_cursor<'a>(run: &RunScreen, results: &'a RunResults) -> Option<&'a TaskResult> {
    let below = run.rows().get(run.position()..)?;
    let id = below.iter().find_map(|row| match row.kind {
        RowKind::Task { id, .. } => Some(id),
        RowKind::Group { .. } => None,
    })?;
    results.results.iter().find(|task| task.id == id)
}

/// The section of a task: that of its name which began nearest to it.
#[must_use]
pub(super) fn section_of(log: &LogBuffer, task: &TaskResult) -> Option<u32> {
    let title = tasks::title(task);
    let began = task.started.and_then(|at| i64::try_from(at.as_nanosecond()).ok());
    let named = log.sections().filter(|(_, section)| section.heading == Heading::Task(title.as_str().into()));
    // Without times the newest is as good as any: older attempts are rarely looked at.
    named
        .min_by_key(|(number, section)| (apart(section.at, began), u32::MAX - number))
        .map(|(number, _)| number)
}

/// The task that a line belongs to: of the section's name, on the line's host where that is known, nearest in time.
#[must_use]
pub(super) fn task_of<'a>(
    log: &LogBuffer,
    line: &Line<'_>,
    results: &'a RunResults,
) -> Option<&'a TaskResult> {
    let section = log.section(line.section)?;
    let Heading::Task(name) = &section.heading else { return None };
    let host = usize::from(line.host).checked_sub(1).and_then(|at| log.hosts().get(at));
    let named = results.results.iter().filter(|task| tasks::title(task) == **name);
    named.min_by_key(|task| {
        let began = task.started.and_then(|at| i64::try_from(at.as_nanosecond()).ok());
        let other = host.is_some_and(|host| **host != *task.host);
        (other, apart(section.at, began))
    })
}

fn apart(one: Option<i64>, other: Option<i64>) -> u64 {
    one.zip(other).map_or(u64::MAX, |(one, other)| one.abs_diff(other))
}

/// From a line of the log to its task in the tree.
pub(super) fn to_task(state: &mut State) {
    let found = parts(state).map(|(run, log, results)| {
        let Some(LogRow::Line(line)) = run.log.cursor_row(log).and_then(|row| log.row(row)) else {
            return Err("there is no line under the cursor");
        };
        match log.section(line.section).map(|s| &s.heading) {
            Some(Heading::Task(_)) => {}
            _ => return Err("this line belongs to no task"),
        }
        let task = results.and_then(|results| task_of(log, &line, results));
        task.cloned().ok_or("ARA has no result of this task yet")
    });
    match found {
        Some(Ok(task)) => {
            let Some(run) = &mut state.run else { return };
            run.reveal(&task);
            (run.focus, run.zoom) = (Pane::Tasks, false);
        }
        Some(Err(reason)) => state.show(Level::Info, reason),
        None => state.show(Level::Info, "there is no log yet"),
    }
}

/// From a task to its heading in the log; while a run goes on and nobody moved the cursor, to the log's end.
pub(super) fn from_task(state: &mut State) {
    let over = state.current().is_some_and(crate::domain::Run::is_over);
    let found = parts(state).filter(|(run, ..)| over || run.is_moved()).and_then(|(run, log, results)| {
        let task = task_under_cursor(run, results?)?;
        Some(section_of(log, task).and_then(|number| log.section(number)).map(|section| section.row))
    });
    let Some(run) = &mut state.run else { return };
    (run.focus, run.zoom) = (Pane::Log, false);
    let Some(log) = state.store.log(&run.uid) else { return };
    match found {
        Some(Some(row)) => {
            // What is filtered away cannot be stood on.
            if run.log.only() != Only::All {
                run.log.show_only(Only::All);
            }
            run.log.top = row;
            run.log.stand(log, row.max(log.first()));
        }
        Some(None) => state.show(Level::Info, "the log has no line of this task any more, or not yet"),
        None => {}
    }
}

/// Only the lines of the task under the cursor, or all again.
pub(super) fn only_task(state: &mut State) {
    let found = parts(state).and_then(|(run, log, results)| {
        if matches!(run.log.only(), Only::Section(_)) {
            return Some(Only::All);
        }
        if run.focus != Pane::Log {
            return section_of(log, task_under_cursor(run, results?)?).map(Only::Section);
        }
        match log.row(run.log.cursor_row(log)?)? {
            LogRow::Line(line) if line.section > 0 => Some(Only::Section(line.section)),
            _ => None,
        }
    });
    show_only(state, found, "no line of the log belongs to a task here");
}

/// Only the lines of the host under the cursor, or all again.
pub(super) fn only_host(state: &mut State) {
    let one = parts(state).is_some_and(|(run, log, _)| log.hosts().len() < 2 && run.log.only() == Only::All);
    let found = parts(state).filter(|_| !one).and_then(|(run, log, results)| {
        if matches!(run.log.only(), Only::Host(_)) {
            return Some(Only::All);
        }
        let number = |host: &str| log.hosts().iter().position(|known| **known == *host);
        if run.focus != Pane::Log {
            let at = number(&task_under_cursor(run, results?)?.host)?;
            return u16::try_from(at + 1).ok().map(Only::Host);
        }
        match log.row(run.log.cursor_row(log)?)? {
            LogRow::Line(line) if line.host > 0 => Some(Only::Host(line.host)),
            _ => None,
        }
    });
    let why =
        if one { "this log speaks of one host only" } else { "the line under the cursor speaks of no host" };
    show_only(state, found, why);
}

fn show_only(state: &mut State, only: Option<Only>, otherwise: &str) {
    let Some(run) = &mut state.run else { return };
    match (only, state.store.log(&run.uid)) {
        (Some(only), Some(log)) => {
            let row = run.log.cursor_row(log);
            run.log.show_only(only);
            run.log.arrange(log);
            // A task's lines are read from their beginning.
            match (only, row) {
                (Only::Section(_), _) => run.log.go(log, super::table::Move::First),
                (_, Some(row)) if !run.log.follows() => run.log.stand(log, row),
                _ => {}
            }
            if run.focus != Pane::Log {
                (run.focus, run.zoom) = (Pane::Log, false);
            }
        }
        _ => state.show(Level::Info, otherwise),
    }
}
