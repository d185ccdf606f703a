//! What the actions do inside a run.

use super::document::{self, END, LineKind};
use super::effect::{Effect, EffectId};
use super::notice::Level;
use super::screens::run::{Pane, Shown};
use super::screens::tasks::RowKind;
use super::seen::Seen;
use super::state::State;
use super::table::Move;
use super::{act, act_log, act_search, flight, input, open, update};
use crate::config::Action;

/// Goes into what is under the cursor: a group opens or closes, a task's result gets the focus, a log's line leads to its task,
/// a result gets the screen.
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
        Pane::Result => run.zoom = !run.zoom,
        Pane::Log => act_log::to_task(state),
    }
    update::rest(state);
}

/// Copies what the pane with the focus holds, exactly.
pub(super) fn copy(state: &mut State) {
    let Some(run) = &state.run else { return };
    let text = match (run.focus, run.shown) {
        (Pane::Log, _) => return act_log::copy(state),
        (_, Shown::Result(id)) => state.store.result(id).map(document::result_text),
        (_, Shown::Overview) => state.store.run(&run.uid).map(|r| r.name.clone()),
    };
    act::copy_text(state, text);
}

/// Does an action of the run's screen.
pub(super) fn act(state: &mut State, seen: &Seen, action: Action) {
    let Some(run) = &mut state.run else { return };
    match action {
        Action::NextPane => run.focus = run.focus.next(),
        Action::PreviousPane => run.focus = run.focus.next().next(),
        Action::Zoom => run.zoom = !run.zoom,
        Action::Log if run.focus == Pane::Log => run.zoom = !run.zoom,
        Action::Log => act_log::from_task(state),
        Action::Failed => {
            run.next_order();
            update::rest(state);
        }
        Action::Slowest => {
            run.slowest = !run.slowest;
            update::rest(state);
        }
        Action::Overview => {
            let to_it = !run.on_page();
            run.turn_page(to_it);
            update::rest(state);
        }
        Action::EarlierRun => other_run(state, true),
        Action::LaterRun => other_run(state, false),
        Action::Diff => diff(state),
        Action::Follow => act_log::follow(state),
        Action::Wrap => (run.log.wrap, run.log.left) = (!run.log.wrap, 0),
        Action::Times => run.log.times = run.log.times.next(),
        Action::OnlyTask => act_log::only_task(state),
        Action::OnlyHost => act_log::only_host(state),
        Action::SaveLog => save(state),
        Action::Filter => {
            run.search.input = Some(super::edit::LineEdit::default());
            run.search.missed = false;
        }
        Action::NextMatch => act_search::next(state, false),
        Action::PreviousMatch => act_search::next(state, true),
        _ => move_in_run(state, seen, action),
    }
}

/// The run of the same host before or after this one, looked at in the same way.
fn other_run(state: &mut State, earlier: bool) {
    let Some((run, screen)) = state.current().zip(state.run.as_ref()) else { return };
    let host = run.host.to_string();
    let uids: Vec<String> = state.store.runs_of(&host).map(|other| other.uid.clone()).collect();
    // The newest comes first.
    let at = uids.iter().position(|uid| *uid == screen.uid);
    let other = at.and_then(|at| if earlier { at.checked_add(1) } else { at.checked_sub(1) });
    let Some(uid) = other.and_then(|at| uids.get(at)) else {
        let which = if earlier { "oldest" } else { "newest" };
        return state.show(Level::Info, format!("this is the {which} run of {host} that is kept"));
    };
    let (focus, zoom, page) = (screen.focus, screen.zoom, screen.on_page());
    open::back(state);
    open::open_run(state, uid);
    if let Some(screen) = &mut state.run {
        if page {
            screen.turn_page(true);
        } else if screen.focus == Pane::Tasks {
            screen.focus = focus;
        }
        screen.zoom = zoom;
    }
    update::rest(state);
}

fn save(state: &mut State) {
    let Some(run) = state.current().map(open::run_ref) else { return };
    if flight::start(state, Effect::SaveLog { id: EffectId(0), run }).is_none() {
        state.show(Level::Info, "the log is being saved already");
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
        Pane::Log => act_log::go(state, seen, action),
    }
}
