//! Searching inside a run: its tasks, a result, the log.

use super::log::{Jump, LogBuffer};
use super::notice::Level;
use super::screens::run::Pane;
use super::screens::tasks;
use super::state::State;
use super::update;
use crate::domain::results::TaskResult;
use crate::domain::text::Needle;

/// A needle was typed: goes to its first match.
pub(super) fn start(state: &mut State, needle: &str) {
    let Some(run) = &mut state.run else { return };
    run.search.needle = Needle::new(needle);
    (run.search.result_hit, run.search.task_hit) = (None, None);
    run.log.search.set(needle);
    if let Some(log) = state.store.log(&run.uid) {
        run.log.search.advance(log);
    }
    next(state, false);
}

/// Goes to the next match in the pane with the focus; from the tasks on to the log, where no task has it.
pub(super) fn next(state: &mut State, backwards: bool) {
    let Some(run) = &mut state.run else { return };
    let needle = run.search.needle.clone();
    if needle.is_empty() {
        return;
    }
    let found = match run.focus {
        Pane::Log => in_log(state, backwards),
        Pane::Result => in_result(state, &needle, backwards),
        Pane::Tasks => {
            let task = in_tasks(state, &needle, backwards);
            if !task && in_log(state, backwards) {
                if let Some(run) = &mut state.run {
                    (run.focus, run.zoom) = (Pane::Log, false);
                }
                state.show(Level::Info, format!("no task has {}: this is the log", needle.text()));
                return;
            }
            task
        }
    };
    if let Some(run) = &mut state.run {
        run.search.missed = !found;
    }
    if !found {
        state.show(Level::Warning, format!("{} is not there", needle.text()));
    }
}

fn in_result(state: &mut State, needle: &Needle, backwards: bool) -> bool {
    let Some(run) = &mut state.run else { return false };
    let hit = run.doc().search(needle, run.search.result_hit, backwards);
    if let Some(line) = hit {
        (run.search.result_hit, run.result_top) = (hit, line.saturating_sub(2));
    }
    hit.is_some()
}

/// True when there is a match, or may be one that is not found yet.
fn in_log(state: &mut State, backwards: bool) -> bool {
    let Some(run) = &mut state.run else { return false };
    let Some(log) = state.store.log(&run.uid) else { return false };
    match jump(&mut run.log, log, backwards) {
        Jump::To(row) => {
            run.log.stand(log, row);
            true
        }
        Jump::Later => true,
        Jump::Nowhere => false,
    }
}

/// The next match among the lines that are shown.
fn jump(view: &mut super::screens::logview::LogView, log: &LogBuffer, backwards: bool) -> Jump {
    let mut from = view.cursor_row(log);
    for _ in 0..=view.search.count() {
        match view.search.jump(from, backwards) {
            Jump::To(row) if !view.shows(log, row) => from = Some(row),
            found => return found,
        }
    }
    Jump::Nowhere
}

/// Names, hosts, and the messages of the results that were looked at.
fn in_tasks(state: &mut State, needle: &Needle, backwards: bool) -> bool {
    let Some(run) = &mut state.run else { return false };
    let Some(results) = state.store.results(&run.uid).and_then(|e| e.results.as_deref()) else {
        return false;
    };
    let has = |task: &TaskResult| {
        let message = || state.store.result(task.id).is_some_and(|d| needle.is_in(d.message.as_bytes()));
        needle.is_in(tasks::title(task).as_bytes())
            || needle.is_in(task.host.as_bytes())
            || needle.is_in(task.action.as_bytes())
            || needle.is_in(task.play.as_bytes())
            || message()
    };
    let all = tasks::in_order(results, run.look());
    let here = match run.under_cursor() {
        super::screens::run::Shown::Result(id) => all.iter().position(|task| task.id == id),
        super::screens::run::Shown::Overview => None,
    };
    let hits: Vec<usize> = all.iter().enumerate().filter(|(_, task)| has(task)).map(|(at, _)| at).collect();
    let Some(last) = hits.len().checked_sub(1) else { return false };
    let place = match (here, backwards) {
        (None, false) => 0,
        (None, true) => last,
        (Some(here), false) => hits.iter().position(|at| *at > here).unwrap_or(0),
        (Some(here), true) => hits.iter().rposition(|at| *at < here).unwrap_or(last),
    };
    if let Some(task) = hits.get(place).and_then(|at| all.get(*at)) {
        run.reveal(task);
        run.search.task_hit = Some((place + 1, hits.len()));
    }
    update::rest(state);
    true
}
