//! What is done on the rows of a topic.

use super::change::Change;
use super::dialog::{Button, Confirm, Dialog, Intent, TextKind, Typed};
use super::edit::LineEdit;
use super::effect::{Effect, EffectId};
use super::fetch::Fetch;
use super::filter::Record;
use super::form::Form;
use super::items::Item;
use super::notice::Level;
use super::seen::Seen;
use super::state::State;
use super::{flight, open, texts};
use crate::config::{Action, Risk};

/// So many rows are named in a question about several.
const NAMED: usize = 8;

/// Whether an action is one of these.
pub(super) fn owns(action: Action) -> bool {
    use Action as A;
    matches!(
        action,
        A::Refresh
            | A::AddTarget
            | A::LabelTargets
            | A::RemoveTargets
            | A::MintToken
            | A::RevokeTokens
            | A::JoinCommand
            | A::Cluster
            | A::Requeue
            | A::DropLetters
    )
}

/// Does one of them.
pub(super) fn act(state: &mut State, seen: &Seen, action: Action) {
    let Some(list) = state.shown_list() else { return };
    match action {
        Action::Refresh => {
            let topic = list.topic;
            return state.outbox.push(Effect::Look(topic));
        }
        Action::AddTarget => return open::form(state, Form::add_target()),
        Action::MintToken => return open::form(state, Form::mint_token()),
        Action::Cluster => return fetch(state, Fetch::Cluster),
        _ => {}
    }
    let rows: Vec<Item> = rows(state, seen).into_iter().filter(|item| takes(action, item)).collect();
    if rows.is_empty() {
        return state.show(Level::Warning, "there is no row under the cursor that this could be done on");
    }
    match (action, rows.as_slice()) {
        (Action::JoinCommand, [Item::Token(token), ..]) => fetch(state, Fetch::JoinCommand(token.id.clone())),
        (Action::LabelTargets, _) => {
            let labels = if let [one] = rows.as_slice() { one.labels() } else { Vec::new() };
            open::form(state, Form::label_targets(names(&rows), &labels));
        }
        _ => ask(state, action, &rows),
    }
}

/// One row, whole.
pub(super) fn open(state: &mut State, seen: &Seen) {
    let Some(item) = seen.subject.as_ref().and_then(|key| state.shown_list()?.item(key)) else { return };
    let (doc, copy) = (item.document(&state.environment, state.now), item.copied());
    let title = item.name().lines().next().unwrap_or_default().to_owned();
    texts::text(state, TextKind::Item, title, doc, copy);
}

fn fetch(state: &mut State, what: Fetch) {
    flight::start(state, Effect::Fetch { id: EffectId(0), what });
}

/// The rows that an action is for: the marked ones, else the one that was drawn under the cursor.
fn rows(state: &State, seen: &Seen) -> Vec<Item> {
    let Some(list) = state.shown_list() else { return Vec::new() };
    let marks = list.table.marks();
    if marks.is_empty() {
        return seen.subject.iter().filter_map(|key| list.item(key)).cloned().collect();
    }
    marks.iter().filter_map(|key| list.item(key)).cloned().collect()
}

/// Whether an action can be done on a row. What has an unknown form is kept as it is.
pub(super) fn takes(action: Action, item: &Item) -> bool {
    match (action, item) {
        (Action::LabelTargets | Action::RemoveTargets, Item::Target(target)) => target.unknown.is_none(),
        (Action::JoinCommand, Item::Token(token)) => token.malformed.is_empty(),
        (Action::Requeue, Item::Letter(letter)) => letter.readable,
        (Action::RevokeTokens, Item::Token(_)) | (Action::DropLetters, Item::Letter(_)) => true,
        _ => false,
    }
}

fn names(rows: &[Item]) -> Vec<String> {
    rows.iter().map(|item| item.name().to_owned()).collect()
}

/// Asks before rows are changed.
fn ask(state: &mut State, action: Action, rows: &[Item]) {
    let info = action.info();
    let (title, note) = match action {
        Action::RemoveTargets => {
            ("Remove", "Not scraped any more. A host that is provisioned again is added again.")
        }
        Action::RevokeTokens => ("Revoke", "Machines that are about to join with it cannot any more."),
        Action::Requeue => ("Put back", "The run's pod gets its message again."),
        _ => ("Throw away", "The message is lost. The run can be retried."),
    };
    let what = match names(rows).as_slice() {
        [one] => one.clone(),
        several => format!("{} rows", several.len()),
    };
    let intents = changes(action, rows);
    let buttons =
        vec![Button { label: info.label.to_owned(), key: 'y', intent: Some(Intent::Changes(intents)) }];
    let mut confirm = Confirm::new(format!("{title} {what}"), buttons, "cancel");
    confirm.fields.extend(names(rows).into_iter().take(NAMED).map(|name| (String::new(), name)));
    if rows.len() > NAMED {
        confirm.fields.push((String::new(), format!("and {} more", rows.len() - NAMED)));
    }
    confirm.notes.push(note.to_owned());
    if info.risk == Risk::Typed && state.environment.guarded {
        let expected = state.environment.name.clone();
        confirm.typed = Some(Typed { expected, input: LineEdit::default() });
    }
    state.dialogs.push(Dialog::Confirm(Box::new(confirm)));
    state.touch();
}

/// What is done on these rows: targets in one write, everything else row by row.
fn changes(action: Action, rows: &[Item]) -> Vec<Change> {
    if action == Action::RemoveTargets {
        return vec![Change::RemoveTargets(names(rows))];
    }
    let change = |item: &Item| match item {
        Item::Token(token) => Some(Change::RevokeToken(token.clone())),
        Item::Letter(letter) => {
            let (id, key) = (letter.id.clone(), item.key().to_string());
            Some(if action == Action::Requeue {
                Change::Requeue(id, key)
            } else {
                Change::DropLetter(id, key)
            })
        }
        _ => None,
    };
    rows.iter().filter_map(change).collect()
}
