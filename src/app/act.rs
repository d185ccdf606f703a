//! What each action of the table does. Whether it can be done is asked of `permit`.

use super::describe;
use super::dialog::{Dialog, Palette, TextKind};
use super::document::{self, END, LineKind};
use super::effect::{Effect, EffectId};
use super::notice::Level;
use super::screens::Screen;
use super::screens::run::{Pane, RunScreen, Shown};
use super::screens::tasks::RowKind;
use super::seen::Seen;
use super::state::State;
use super::table::Move;
use super::{flight, input, open, permit, screens, update};
use crate::config::Action;

/// How many columns the log scrolls to the side.
const SIDE_STEP: usize = 16;

/// Does an action, or says why it cannot be done.
pub(super) fn act(state: &mut State, seen: &Seen, action: Action) {
    state.touch();
    if !action.in_scope(state.scope()) {
        return;
    }
    if let Some(verb) = permit::verb(action) {
        let uids = subjects(state, seen);
        if uids.is_empty() && permit::read_only(state, action).is_none() {
            state.show(Level::Warning, "there is no row under the cursor");
            return;
        }
        if let Some(reason) = permit::read_only(state, action) {
            state.say(Level::Warning, reason, "");
            return;
        }
        open::ask(state, verb, &uids);
        return;
    }
    if let Some(reason) = permit::unavailable(state, action) {
        state.show(Level::Warning, reason);
        return;
    }
    match action {
        Action::GoHosts => open::go(state, Screen::Hosts),
        Action::GoRuns => open::go(state, Screen::Runs),
        Action::Open => enter(state, seen),
        Action::Back => back(state),
        Action::Copy => copy(state, seen),
        Action::Why => open::why(state, seen.subject.as_deref()),
        Action::Messages => open::messages(state),
        Action::Help => open::help(state),
        Action::Palette => state.dialogs.push(Dialog::Palette(Palette::default())),
        Action::Interrupt => input::interrupt(state),
        Action::Redraw => state.outbox.push(Effect::Redraw),
        Action::Suspend => state.outbox.push(Effect::Suspend),
        Action::Quit => quit(state),
        Action::Boot => {
            flight::start(state, Effect::BootMachine { id: EffectId(0) });
        }
        _ if state.screen == Screen::Run => act_in_run(state, seen, action),
        _ => act_in_table(state, seen, action),
    }
}

/// The runs that an action is for: the marked ones, else the one that was drawn under the cursor.
fn subjects(state: &State, seen: &Seen) -> Vec<String> {
    if let Some(table) = state.table()
        && !table.marks().is_empty()
    {
        let marked = |key: &str| state.run_of_row(key).map(|r| r.uid.clone());
        // In the order of the screen, those that the filter hides last.
        let shown = table.rows().iter().filter(|r| table.is_marked(&r.key)).filter_map(|r| marked(&r.key));
        let mut uids: Vec<String> = shown.collect();
        for uid in table.marks().iter().filter_map(|key| marked(key)) {
            if !uids.contains(&uid) {
                uids.push(uid);
            }
        }
        return uids;
    }
    match (&state.run, state.screen) {
        (Some(run), Screen::Run) => vec![run.uid.clone()],
        _ => seen.subject.iter().cloned().collect(),
    }
}

fn quit(state: &mut State) {
    if state.in_flight.iter().any(|f| f.effect.changes()) {
        open::ask_quit(state);
    } else {
        state.outbox.push(Effect::Quit);
    }
}

fn back(state: &mut State) {
    if let Some(run) = &mut state.run
        && state.screen == Screen::Run
        && (run.zoom || (run.focus != Pane::Tasks && !run.rows().is_empty()))
    {
        (run.zoom, run.focus) = (false, Pane::Tasks);
        return;
    }
    if state.table_mut().is_some_and(super::table::Table::clear_marks) {
        return;
    }
    if let Some(table) = state.table_mut()
        && !table.filter.text().is_empty()
    {
        table.set_filter("");
        update::rest(state);
        return;
    }
    if !open::back(state) {
        state.notice = None;
    }
}

fn enter(state: &mut State, seen: &Seen) {
    if state.screen != Screen::Run {
        if let Some(uid) = &seen.subject {
            open::open_run(state, uid);
            update::rest(state);
        }
        return;
    }
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

fn copy(state: &mut State, seen: &Seen) {
    let text = match (&state.run, state.screen) {
        (Some(run), Screen::Run) => run_text(state, run),
        (_, Screen::Runs) => {
            seen.subject.as_ref().and_then(|uid| state.store.run(uid)).map(|r| r.name.clone())
        }
        _ => seen.subject.as_ref().and_then(|uid| state.store.run(uid)).map(|r| r.host.to_string()),
    };
    match text.filter(|t| !t.is_empty()) {
        Some(text) => {
            flight::start(state, Effect::Copy { id: EffectId(0), text });
        }
        None => state.show(Level::Warning, "there is nothing to copy here yet"),
    }
}

fn run_text(state: &State, run: &RunScreen) -> Option<String> {
    match (run.focus, run.shown) {
        (Pane::Log, _) => state.store.log(&run.uid).map(super::log::LogBuffer::text),
        (_, Shown::Result(id)) => state.store.result(id).map(document::result_text),
        (_, Shown::Overview) => state.store.run(&run.uid).map(|r| r.name.clone()),
    }
}

fn act_in_table(state: &mut State, seen: &Seen, action: Action) {
    let page = seen.list.page;
    let screen = state.screen;
    if action == Action::Details {
        details(state, seen);
        return;
    }
    let Some(table) = state.table_mut() else { return };
    match action {
        Action::Filter => table.start_filter(),
        Action::Sort if screen == Screen::Hosts => table.next_column(screens::hosts::COLUMNS.len()),
        Action::Sort => table.next_column(screens::runs::COLUMNS.len()),
        Action::Reverse => table.reverse(),
        Action::Mark => table.toggle_mark(),
        Action::Invert => table.invert_marks(),
        _ => {
            if let Some(to) = input::movement(action, page) {
                table.go(to);
            }
        }
    }
    update::rest(state);
}

fn details(state: &mut State, seen: &Seen) {
    if state.size.0 >= super::WIDE {
        state.hosts.details = !state.hosts.details;
        update::rest(state);
        return;
    }
    let Some(run) = seen.subject.as_ref().and_then(|uid| state.store.run(uid)) else { return };
    let (uid, title, host) = (run.uid.clone(), describe::title(run), run.host.to_string());
    let known = state.store.details(&uid);
    let doc = describe::overview(&state.store, &state.environment, run, known, state.now);
    open::text(state, TextKind::Details(uid.clone()), title, doc, host);
    open::fetch_details(state, &uid);
}

fn act_in_run(state: &mut State, seen: &Seen, action: Action) {
    let Some(run) = &mut state.run else { return };
    match action {
        Action::NextPane => run.focus = run.focus.next(),
        Action::PreviousPane => run.focus = run.focus.next().next(),
        Action::Zoom => run.zoom = !run.zoom,
        Action::Log => (run.focus, run.zoom) = (Pane::Log, run.focus == Pane::Log && !run.zoom),
        Action::Failed => {
            run.order = run.order.next();
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
