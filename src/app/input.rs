//! Keys and pasted text: what is in front gets them first.

use super::dialog::{Dialog, Intent, Palette, PaletteRow, TextDialog, palette_rows};
use super::document::END;
use super::edit::{Edited, LineEdit};
use super::effect::{Effect, EffectId};
use super::notice::Level;
use super::screens::Screen;
use super::seen::{Hit, Mouse, Seen};
use super::state::State;
use super::table::Move;
use super::{act, answers, flight, open, secrets, update};
use crate::config::{Action, Code, Found, Key};

/// How many rows one notch of the wheel moves.
const WHEEL: usize = 3;

/// A key was pressed.
pub(super) fn key(state: &mut State, seen: &Seen, key: Key) {
    let seen = &take_over(state, seen);
    if is_interrupt(state, key) {
        state.chord.clear();
        interrupt(state);
        return;
    }
    if !state.dialogs.is_empty() {
        dialog_key(state, seen, key);
    } else if typing(state).is_some() {
        line_key(state, seen, key);
    } else {
        screen_key(state, seen, key);
    }
}

/// What the last frame showed is where moves start from, and what actions mean; where the operator typed ahead of the frames it is what
/// they moved to.
fn take_over(state: &mut State, seen: &Seen) -> Seen {
    let mut seen = seen.clone();
    if state.table().is_some_and(super::table::Table::is_ahead) {
        seen.subject = match state.screen {
            Screen::List(_) | Screen::Secrets | Screen::Versions => {
                state.table().and_then(|t| t.cursor()).map(str::to_owned)
            }
            _ => state.current().map(|r| r.uid.clone()),
        };
    }
    if let Some(table) = state.table_mut() {
        table.seen(seen.list.top, seen.left_most);
    }
    secrets::act::seen(state, &seen);
    if let Some(run) = &mut state.run {
        run.seen(seen.tasks.top);
        if run.result_top == END {
            run.result_top = seen.result.top;
        }
        run.log.top = seen.log.top as u64;
    }
    seen
}

fn is_interrupt(state: &State, key: Key) -> bool {
    state.keymap.find(state.scope(), &[key]) == Found::Action(Action::Interrupt)
}

/// Ctrl-C: closes or cancels what is open, then asks to quit.
pub(super) fn interrupt(state: &mut State) {
    state.touch();
    if let Some(dialog) = state.dialogs.pop() {
        // Pressed again in the question whether to quit it is an answer.
        if matches!(&dialog, Dialog::Confirm(c) if c.buttons.iter().any(|b| b.intent == Some(Intent::Quit))) {
            state.outbox.push(Effect::Quit);
        }
        return;
    }
    if end_typing(state, false) || flight::cancel_all(state) {
        return;
    }
    open::ask_quit(state);
}

/// The mouse: the wheel moves as the arrows do, a click chooses. Questions are answered with keys only.
pub(super) fn mouse(state: &mut State, seen: &Seen, what: Mouse, x: u16, y: u16) {
    let turned = match what {
        Mouse::Up => Some(Code::Up),
        Mouse::Down => Some(Code::Down),
        Mouse::Click => None,
    };
    if let Some(code) = turned {
        if !matches!(state.dialogs.last(), Some(Dialog::Confirm(_) | Dialog::Form(_))) {
            for _ in 0..WHEEL {
                key(state, seen, Key::plain(code));
            }
        }
        return;
    }
    let hit = seen.regions.iter().rev().find(|region| region.holds(x, y));
    let (Some(region), true) = (hit, state.dialogs.is_empty()) else { return };
    let line = usize::from(y - region.y);
    match region.hit {
        Hit::Action(action) => act::act(state, seen, action),
        Hit::Rows(top) => {
            state.coming_back = None;
            if let Some(table) = state.table_mut() {
                let key = table.rows().get(top + line).map(|row| row.key.clone());
                key.inspect(|key| table.select(key));
            }
            update::rest(state);
        }
        Hit::Tasks(top) => {
            if let Some(run) = &mut state.run {
                let by =
                    isize::try_from(top + line).unwrap_or(0) - isize::try_from(run.position()).unwrap_or(0);
                run.focus = super::screens::run::Pane::Tasks;
                run.go(Move::By(by));
            }
            update::rest(state);
        }
    }
    state.touch();
}

/// Text was pasted: it goes where text is typed, and nowhere else.
pub(super) fn paste(state: &mut State, text: &str) {
    match state.dialogs.last_mut() {
        Some(Dialog::Confirm(confirm)) => {
            if let Some(typed) = &mut confirm.typed {
                typed.input.insert(text);
            }
        }
        Some(Dialog::Palette(palette)) => {
            palette.input.insert(text);
            palette.at = 0;
        }
        Some(Dialog::Form(form)) => form.paste(text),
        Some(Dialog::Text(_)) => {}
        None => {
            if let Some(line) = typing(state) {
                line.insert(text);
                typed(state);
            } else {
                state.show(Level::Warning, "pasted text was not taken for keys: / starts a filter");
            }
        }
    }
    state.touch();
}

/// The line that is being typed on the screen itself: a filter or a search.
fn typing(state: &mut State) -> Option<&mut LineEdit> {
    match state.screen {
        Screen::Hosts | Screen::Runs | Screen::List(_) | Screen::Secrets | Screen::Versions => {
            state.table_mut()?.input.as_mut()
        }
        Screen::Differences => state.secrets.differences.as_mut()?.input.as_mut(),
        Screen::Run => state.run.as_mut()?.search.input.as_mut(),
    }
}

/// Ends typing. Returns whether anything was being typed.
fn end_typing(state: &mut State, keep: bool) -> bool {
    if typing(state).is_none() {
        return false;
    }
    state.touch();
    if let Some(table) = state.table_mut() {
        table.end_filter(keep);
        update::rest(state);
    } else if let (Screen::Differences, Some(page)) = (state.screen, &mut state.secrets.differences) {
        let line = page.input.take().filter(|_| keep);
        if let Some(line) = line {
            secrets::pages::search(state, line.text());
        }
    } else if let Some(run) = &mut state.run
        && let Some(line) = run.search.input.take()
        && keep
    {
        super::act_search::start(state, line.text());
    }
    true
}

/// The text that is being typed is another one.
fn typed(state: &mut State) {
    if let Some(table) = state.table_mut()
        && let Some(text) = table.input.as_ref().map(|line| line.text().to_owned())
    {
        table.set_filter(&text);
        update::rest(state);
    }
}

fn line_key(state: &mut State, seen: &Seen, key: Key) {
    match key.code {
        Code::Enter => {
            end_typing(state, true);
        }
        Code::Esc => {
            end_typing(state, false);
        }
        // The rows can be looked through while the filter is typed.
        Code::Up | Code::Down | Code::PageUp | Code::PageDown
            if !matches!(state.screen, Screen::Run | Screen::Differences) =>
        {
            screen_key(state, seen, key);
        }
        _ => {
            let edited = typing(state).map(|line| line.key(key));
            if edited == Some(Edited::Changed) {
                typed(state);
            }
        }
    }
    state.touch();
}

fn screen_key(state: &mut State, seen: &Seen, key: Key) {
    state.chord.push(key);
    match state.keymap.find(state.scope(), &state.chord) {
        Found::Action(action) => {
            state.chord.clear();
            act::act(state, seen, action);
        }
        Found::Prefix => state.touch(),
        Found::Nothing => {
            let chord = state.chord.len() > 1;
            state.chord.clear();
            if chord {
                state.touch();
            }
        }
    }
}

fn dialog_key(state: &mut State, seen: &Seen, key: Key) {
    state.touch();
    let Some(mut dialog) = state.dialogs.pop() else { return };
    let stays = match &mut dialog {
        Dialog::Confirm(confirm) => answers::confirm_key(state, confirm, key),
        Dialog::Form(form) => answers::form_key(state, form, key),
        Dialog::Text(text) => text_key(state, seen, text, key),
        Dialog::Palette(palette) => palette_key(state, seen, palette, key),
    };
    if stays {
        state.dialogs.push(dialog);
    }
}

fn text_key(state: &mut State, seen: &Seen, text: &mut TextDialog, key: Key) -> bool {
    text.top = seen.dialog.top;
    let page = seen.dialog.page.max(1);
    let Found::Action(action) = state.keymap.find(state.scope(), &[key]) else {
        return !matches!(key.code, Code::Enter);
    };
    match action {
        Action::Back
        | Action::Quit
        | Action::Help
        | Action::Why
        | Action::Messages
        | Action::Open
        | Action::Overview
        | Action::Details => {
            return false;
        }
        Action::Down => text.top = text.top.saturating_add(1),
        Action::Up => text.top = text.top.saturating_sub(1),
        Action::HalfDown => text.top = text.top.saturating_add(page / 2),
        Action::HalfUp => text.top = text.top.saturating_sub(page / 2),
        Action::PageDown => text.top = text.top.saturating_add(page),
        Action::PageUp => text.top = text.top.saturating_sub(page),
        Action::Top => text.top = 0,
        Action::Bottom => text.top = END,
        Action::Copy if !text.copy.is_empty() => {
            flight::start(state, Effect::Copy { id: EffectId(0), text: text.copy.clone() });
        }
        Action::Redraw | Action::Suspend => act::act(state, seen, action),
        _ => {}
    }
    true
}

fn palette_key(state: &mut State, seen: &Seen, palette: &mut Palette, key: Key) -> bool {
    let rows = palette_rows(state, palette);
    let last = rows.len().saturating_sub(1);
    match (key.code, key.ctrl) {
        (Code::Esc, _) => return false,
        (Code::Down | Code::Tab, _) | (Code::Char('n'), true) => palette.at = (palette.at + 1).min(last),
        (Code::Up, _) | (Code::Char('p'), true) => palette.at = palette.at.saturating_sub(1),
        (Code::PageDown, _) => palette.at = (palette.at + seen.dialog.page).min(last),
        (Code::PageUp, _) => palette.at = palette.at.saturating_sub(seen.dialog.page),
        (Code::Enter, _) => {
            match rows.get(palette.at) {
                Some(PaletteRow::Action(action)) => act::act(state, seen, *action),
                Some(PaletteRow::Environment(name)) => open::switch(state, name),
                None => {}
            }
            return false;
        }
        _ => {
            if palette.input.key(key) == Edited::Changed {
                palette.at = 0;
            }
        }
    }
    true
}

/// Where a move goes, for the actions that move.
pub(super) fn movement(action: Action, page: usize) -> Option<Move> {
    let rows = |n: usize| isize::try_from(n.max(1)).unwrap_or(isize::MAX);
    Some(match action {
        Action::Down => Move::By(1),
        Action::Up => Move::By(-1),
        Action::HalfDown => Move::By(rows(page / 2)),
        Action::HalfUp => Move::By(-rows(page / 2)),
        Action::PageDown => Move::By(rows(page)),
        Action::PageUp => Move::By(-rows(page)),
        Action::Top => Move::First,
        Action::Bottom => Move::Last,
        _ => return None,
    })
}
