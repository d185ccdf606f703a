//! Keys in a question or a form: they have meanings of their own there.

use super::dialog::{Confirm, Dialog, Intent, Subject, Verb};
use super::edit::Edited;
use super::effect::{Effect, EffectId};
use super::form::{Form, Wanted};
use super::notice::Level;
use super::seen::Seen;
use super::state::State;
use super::{act, flight, open, permit, secrets};
use crate::config::{Action, Code, Found, Key};
use crate::domain::Parameters;

/// The least columns and rows in which a question can be read, and so be answered.
const READABLE: (u16, u16) = (20, 6);

/// Returns whether the question stays.
pub(super) fn confirm_key(state: &mut State, confirm: &mut Confirm, key: Key) -> bool {
    let count = confirm.buttons.len().max(1);
    match key.code {
        Code::Esc => return false,
        Code::Tab if key.shift => confirm.focus = (confirm.focus + count - 1) % count,
        Code::Tab => confirm.focus = (confirm.focus + 1) % count,
        Code::Left | Code::Up if confirm.typed.is_none() => confirm.focus = confirm.focus.saturating_sub(1),
        Code::Right | Code::Down if confirm.typed.is_none() => {
            confirm.focus = (confirm.focus + 1).min(count - 1);
        }
        Code::Enter => return press(state, confirm, confirm.focus),
        _ => {
            if let Some(typed) = &mut confirm.typed {
                typed.input.key(key);
                // Once the word is there the answer that it is for gets the focus; Enter presses it.
                confirm.focus = if typed.matches() { 0 } else { count - 1 };
                return true;
            }
            if state.keymap.find(state.scope(), &[key]) == Found::Action(Action::CopyCommand) {
                // The command is made of the question in front, which was taken off for this key.
                state.dialogs.push(Dialog::Confirm(Box::new(confirm.clone())));
                let command = super::command::of(state, &Seen::default());
                state.dialogs.pop();
                act::copy_text(state, command);
                return true;
            }
            let pressed = key.text().and_then(|c| confirm.buttons.iter().position(|b| b.key == c));
            return pressed.is_none_or(|at| press(state, confirm, at));
        }
    }
    true
}

/// An answer is given. Returns whether the question stays.
fn press(state: &mut State, confirm: &Confirm, at: usize) -> bool {
    let Some(intent) = confirm.buttons.get(at).and_then(|b| b.intent.clone()) else { return false };
    let (width, height) = state.size;
    if (width < READABLE.0 || height < READABLE.1) && intent != Intent::Quit {
        state.show(Level::Warning, "the terminal is too small to see what is asked: nothing was done");
        return true;
    }
    if let Some(typed) = &confirm.typed
        && !typed.matches()
    {
        state.show(Level::Warning, format!("type {} first", typed.expected));
        return true;
    }
    match intent {
        Intent::Quit => state.outbox.push(Effect::Quit),
        Intent::Switch(name) => state.outbox.push(Effect::Switch(name)),
        Intent::Release(hold) => {
            flight::start(state, Effect::Release { id: EffectId(0), hold });
        }
        Intent::Edit => open::edit(state, confirm),
        Intent::Secrets(deed) => secrets::act::start(state, deed),
        Intent::EditShow(id) => {
            state.outbox.push(Effect::EditShow(id));
            return true;
        }
        Intent::EditAgain(id) => state.outbox.push(Effect::EditAgain(id)),
        Intent::Changes(changes) => flight::changes(state, changes),
        Intent::Do(verb, subjects) => decided(state, verb, subjects, None),
    }
    false
}

/// The operator wants a deed done on runs, unless one of them is another by now.
fn decided(state: &mut State, verb: Verb, subjects: Vec<Subject>, parameters: Option<&Parameters>) {
    if let Some(changed) = subjects.iter().find(|s| outdated(state, s)) {
        let host = &changed.run.host;
        let text = format!("{host} changed while you looked: nothing was done");
        state.say(Level::Error, text, "Look at it again, then decide.");
        return;
    }
    // Somebody else may have decided meanwhile: of one row that is said at once, of several each answer says it.
    if let [one] = subjects.as_slice()
        && let Some(reason) =
            state.store.run(&one.run.uid).and_then(|run| permit::row_refusal(state, verb, run))
    {
        state.say(Level::Error, reason, "");
        return;
    }
    flight::perform(state, verb, subjects, parameters);
}

/// Returns whether the form stays.
pub(super) fn form_key(state: &mut State, form: &mut Form, key: Key) -> bool {
    let (submit, cancel) = (form.fields.len(), form.fields.len() + 1);
    match key.code {
        Code::Esc => return false,
        Code::Tab if key.shift => form.focus = (form.focus + cancel) % (cancel + 1),
        Code::Tab => form.focus = (form.focus + 1) % (cancel + 1),
        Code::Up => form.focus = form.focus.saturating_sub(1),
        Code::Down => form.focus = (form.focus + 1).min(cancel),
        Code::Left if form.focus == cancel => form.focus = submit,
        Code::Right if form.focus == submit => form.focus = cancel,
        // As in fish: what is offered is taken by going over it.
        Code::Right | Code::End if form.complete() => {}
        Code::Enter if form.focus == cancel => return false,
        Code::Enter if form.focus < submit => form.focus += 1,
        Code::Enter => return !submit_form(state, form),
        _ => {
            if let Some(field) = form.fields.get_mut(form.focus)
                && field.input.key(key) == Edited::Changed
            {
                field.problem = None;
            }
        }
    }
    true
}

/// Sends a form off, if it is right. Returns whether it was.
fn submit_form(state: &mut State, form: &mut Form) -> bool {
    match form.read(state) {
        Ok(Wanted::Hold(reason)) => {
            flight::start(state, Effect::Hold { id: EffectId(0), reason });
        }
        Ok(Wanted::Grant(deed)) => secrets::act::start(state, deed),
        Ok(Wanted::Code(code)) => state.outbox.push(Effect::GiveCode(code)),
        Ok(Wanted::Change(change)) => flight::changes(state, vec![change]),
        Ok(Wanted::Approve(subjects, parameters)) => {
            decided(state, Verb::Approve, subjects, Some(&parameters));
        }
        Err((at, problem)) => {
            form.focus = at;
            if let Some(field) = form.fields.get_mut(at) {
                field.problem = Some(problem);
            }
            return false;
        }
    }
    true
}

/// True when a run is not what the operator looked at any more.
pub(super) fn outdated(state: &State, subject: &Subject) -> bool {
    state.store.run(&subject.run.uid).is_none_or(|run| run.digest != subject.digest)
}
