//! What each action of the table does. Whether it can be done is asked of `permit`.

use super::describe;
use super::dialog::{Dialog, Palette, TextKind};
use super::effect::{Effect, EffectId};
use super::fetch::Fetch;
use super::items::{Item, Topic};
use super::notice::Level;
use super::screens::Screen;
use super::screens::run::Pane;
use super::seen::Seen;
use super::state::State;
use super::{
    act_list, act_run, approvals, flight, input, open, permit, place, rights, screens, secrets, texts, update,
};
use crate::config::Action;
use crate::domain::secret::tree::{Order, folder_of, key_of};

/// Does an action, or says why it cannot be done.
pub(super) fn act(state: &mut State, seen: &Seen, action: Action) {
    state.touch();
    place::go_on(state, action);
    if let Some(reason) = permit::elsewhere(state, action) {
        state.show(Level::Warning, format!("{action}: {reason}"));
        return;
    }
    if let Some(reason) = permit::read_only(state, action) {
        state.say(Level::Warning, reason, "");
        return;
    }
    if let Some(reason) = rights::forbidden(state, action) {
        rights::refuse(state, action, &reason);
        return;
    }
    if let Some(verb) = permit::verb(action) {
        let uids = subjects(state, seen);
        if uids.is_empty() {
            state.show(Level::Warning, "there is no row under the cursor");
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
        Action::GoTargets => open::go(state, Screen::List(Topic::Targets)),
        Action::GoSecrets => open::go(state, Screen::Secrets),
        Action::GoTokens => open::go(state, Screen::List(Topic::Tokens)),
        Action::GoQueue => open::go(state, Screen::List(Topic::Queue)),
        Action::GoActivity => open::go(state, Screen::List(Topic::Activity)),
        Action::PreviousScreen => {
            open::back(state);
        }
        Action::Open => enter(state, seen),
        Action::Back => back(state),
        Action::Copy => copy(state, seen),
        Action::CopyCommand => copy_text(state, super::command::of(state, seen)),
        Action::Utc => {
            state.environment.toggle_zone();
            let zone = if state.environment.in_utc() { "UTC" } else { "the local time zone" };
            state.show(Level::Info, format!("times are in {zone}"));
        }
        Action::Why => texts::why(state, seen.subject.as_deref()),
        Action::Messages => texts::messages(state),
        Action::Help => texts::help(state),
        Action::Palette => state.dialogs.push(Dialog::Palette(Palette::default())),
        Action::Interrupt => input::interrupt(state),
        Action::Redraw => state.outbox.push(Effect::Redraw),
        Action::Suspend => state.outbox.push(Effect::Suspend),
        Action::Quit => quit(state),
        Action::HoldApprovals | Action::ReleaseApprovals => approvals::ask(state, action),
        Action::Boot => {
            flight::start(state, Effect::BootMachine { id: EffectId(0) });
        }
        Action::Yaml | Action::Shell => {
            let run = seen.subject.as_ref().and_then(|uid| state.store.run(uid)).or(state.current());
            let Some(run) = run.map(open::run_ref) else {
                return state.show(Level::Warning, "there is no row under the cursor");
            };
            let id = EffectId(0);
            flight::start(
                state,
                match action {
                    Action::Shell => Effect::Shell { id, run },
                    _ => Effect::Fetch { id, what: Fetch::Yaml(run) },
                },
            );
        }
        _ if secrets::act::owns(state, action) => secrets::act::act(state, seen, action),
        _ if act_list::owns(action) => act_list::act(state, seen, action),
        _ if state.screen == Screen::Run => act_run::act(state, seen, action),
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
        run.turn_page(false);
        return update::rest(state);
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
        state.clear_notices();
    }
}

fn enter(state: &mut State, seen: &Seen) {
    if state.shown_list().is_some() {
        act_list::open(state, seen);
        return;
    }
    if state.screen == Screen::Run {
        act_run::enter(state);
    } else if state.screen == Screen::Secrets {
        secrets::act::enter(state, seen);
    } else if state.screen == Screen::Versions {
        secrets::act::open_version(state, seen);
    } else if let Some(uid) = &seen.subject {
        open::open_run(state, uid);
        update::rest(state);
    }
}

fn copy(state: &mut State, seen: &Seen) {
    if state.screen == Screen::Run {
        act_run::copy(state);
        return;
    }
    let run = seen.subject.as_ref().and_then(|uid| state.store.run(uid));
    let text = match state.screen {
        Screen::List(_) => {
            let item = seen.subject.as_ref().and_then(|key| state.shown_list()?.item(key));
            item.map(Item::copied)
        }
        Screen::Secrets => {
            seen.subject.as_deref().map(|id| key_of(id).or(folder_of(id)).unwrap_or(id).to_owned())
        }
        Screen::Versions => seen.subject.clone(),
        Screen::Differences => return secrets::pages::copy(state),
        Screen::Runs => run.map(|r| r.name.clone()),
        _ => run.map(|r| r.host.to_string()),
    };
    copy_text(state, text);
}

/// Copies a text, or says that there is none.
pub(super) fn copy_text(state: &mut State, text: Option<String>) {
    match text.filter(|t| !t.is_empty()) {
        Some(text) => {
            flight::start(state, Effect::Copy { id: EffectId(0), text });
        }
        None => state.show(Level::Warning, "there is nothing to copy here yet"),
    }
}

fn act_in_table(state: &mut State, seen: &Seen, action: Action) {
    let page = seen.list.page;
    let screen = state.screen;
    if matches!(action, Action::Details | Action::Overview) {
        details(state, seen, action == Action::Overview);
        return;
    }
    let Some(table) = state.table_mut() else { return };
    match action {
        Action::Filter => table.start_filter(),
        Action::Sort => table.next_column(match screen {
            Screen::Hosts => screens::hosts::COLUMNS.len(),
            Screen::List(topic) => topic.columns().len(),
            Screen::Secrets => Order::COLUMNS.len(),
            _ => screens::runs::COLUMNS.len(),
        }),
        Action::Reverse => table.reverse(),
        Action::Wide => table.toggle_wide(),
        Action::Left | Action::Right => table.side(action == Action::Right),
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

/// The page of the row: beside the table where there is room for it, unless the whole screen is asked for.
fn details(state: &mut State, seen: &Seen, whole: bool) {
    if state.size.0 >= super::WIDE && !state.hosts.table.wide && !whole {
        state.hosts.details = !state.hosts.details;
        update::rest(state);
        return;
    }
    let Some(run) = seen.subject.as_ref().and_then(|uid| state.store.run(uid)) else { return };
    let (uid, title, host) = (run.uid.clone(), describe::title(run), run.host.to_string());
    let known = state.store.details(&uid);
    let doc = describe::overview(&state.store, &state.environment, run, known, state.now);
    texts::text(state, TextKind::Details(uid.clone()), title, doc, host);
    open::fetch_details(state, &uid);
}
