//! What the actions do inside a run.

use super::document::{self, END, LineKind};
use super::notice::Level;
use super::screens::run::{Pane, RunScreen, Shown};
use super::screens::tasks::RowKind;
use super::seen::Seen;
use super::state::State;
use super::table::Move;
use super::{input, update};
use crate::config::Action;

/// How many columns the log scrolls to the side.
const SIDE_STEP: usize = 16;

/// Goes into what is under the cursor: a group opens or closes, a task's result gets the focus, any other pane the screen.
pub(super) fn enter(state: &mut State) {
    let Some(run) = &mut state.run else { return };
    match run.focus {
        Pane::Tasks if matches!(run.row().map(|r| &r.kind), Some(RowKind::Task { .. })) => {
            run.focus = Pane::Result;
        }
        Pane::Tasks => {
            if !run.fold(None) {
                run.focus = Pane::Result;
            }
        }
        Pane::Result | Pane::Log => run.zoom = !run.zoom,
    }
    update::rest(state);
}

/// What is copied inside a run: exactly what the pane with the focus holds.
pub(super) fn text(state: &State, run: &RunScreen) -> Option<String> {
    match (run.focus, run.shown) {
        (Pane::Log, _) => state.store.log(&run.uid).map(super::log::LogBuffer::text),
        (_, Shown::Result(id)) => state.store.result(id).map(document::result_text),
        (_, Shown::Overview) => state.store.run(&run.uid).map(|r| r.name.clone()),
    }
}

/// Does an action of the run's screen.
pub(super) fn act(state: &mut State, seen: &Seen, action: Action) {
    let Some(run) = &mut state.run else { return };
    match action {
        Action::NextPane => run.focus = run.focus.next(),
        Action::PreviousPane => run.focus = run.focus.next().next(),
        Action::Zoom => run.zoom = !run.zoom,
        Action::Log => (run.focus, run.zoom) = (Pane::Log, run.focus == Pane::Log && !run.zoom),
        Action::Failed => {
            run.next_order();
            update::rest(state);
        }
        Action::Slowest => {
            run.slowest = !run.slowest;
            update::rest(state);
        }
        Action::Diff => diff(state),
        Action::Follow => {
            run.follow = !run.follow;
            run.focus = Pane::Log;
        }
        Action::Filter => {
            run.search.input = Some(super::edit::LineEdit::default());
            run.search.missed = false;
        }
        Action::NextMatch => search(state, false),
        Action::PreviousMatch => search(state, true),
        _ => move_in_run(state, seen, action),
    }
}

fn diff(state: &mut State) {
    let Some(run) = &mut state.run else { return };
    match run.doc().find_kind(LineKind::Hunk).or_else(|| run.doc().find_kind(LineKind::Added)) {
        Some(line) => {
            run.focus = Pane::Result;
            // The heading with the file's name stands right above.
            run.result_top = line.saturating_sub(1);
        }
        None => state.show(Level::Info, "this result has no diff"),
    }
}

fn move_in_run(state: &mut State, seen: &Seen, action: Action) {
    let Some(run) = &mut state.run else { return };
    match run.focus {
        Pane::Tasks => {
            match action {
                Action::Left => {
                    run.fold(Some(false));
                }
                Action::Right => {
                    run.fold(Some(true));
                }
                _ => {
                    if let Some(to) = input::movement(action, seen.tasks.page) {
                        run.go(to);
                    }
                }
            }
            update::rest(state);
        }
        Pane::Result => {
            if let Some(to) = input::movement(action, seen.result.page) {
                let last = run.doc().lines.len().saturating_sub(1);
                run.result_top = match to {
                    Move::By(lines) => run.result_top.saturating_add_signed(lines).min(last),
                    Move::First => 0,
                    Move::Last => END,
                };
            }
        }
        Pane::Log => move_in_log(state, seen, action),
    }
}

fn move_in_log(state: &mut State, seen: &Seen, action: Action) {
    let Some(run) = &mut state.run else { return };
    let Some(log) = state.store.log(&run.uid) else { return };
    match action {
        Action::Left => run.log_left = run.log_left.saturating_sub(SIDE_STEP),
        Action::Right => run.log_left = run.log_left.saturating_add(SIDE_STEP).min(4096),
        _ => {
            let page = seen.log.page.max(1);
            let Some(to) = input::movement(action, page) else { return };
            let last = log.end().saturating_sub(page as u64).max(log.dropped());
            let top = run.log_top.clamp(log.dropped(), last);
            run.log_top = match to {
                Move::By(lines) => top.saturating_add_signed(lines as i64).clamp(log.dropped(), last),
                Move::First => log.dropped(),
                Move::Last => last,
            };
            // Looking back stops the following, reaching the end takes it up again.
            run.follow = run.log_top >= last && !matches!(to, Move::First);
        }
    }
}

/// Goes to the next match in the pane with the focus.
pub(super) fn search(state: &mut State, backwards: bool) {
    let Some(run) = &mut state.run else { return };
    let needle = run.search.needle.clone();
    let found = if run.focus == Pane::Log {
        let log = state.store.log(&run.uid);
        let from = run.search.log_hit.or(run.log_top.checked_sub(1));
        let hit = log.and_then(|log| log.search(&needle, from, backwards));
        if let Some(row) = hit {
            (run.search.log_hit, run.log_top, run.follow) = (hit, row.saturating_sub(2), false);
        }
        hit.is_some()
    } else {
        let hit = run.doc().search(&needle, run.search.result_hit, backwards);
        if let Some(line) = hit {
            (run.search.result_hit, run.result_top) = (hit, line.saturating_sub(2));
        }
        hit.is_some()
    };
    run.search.missed = !found;
    if !found && !needle.is_empty() {
        state.show(Level::Warning, format!("{needle} is not there"));
    }
}
