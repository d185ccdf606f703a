//! The hold on all approvals, as the console knows it: what it keeps from being done, and how it is asked for and ended.

use super::describe;
use super::dialog::{Button, Confirm, Dialog, Intent, Verb};
use super::form::Form;
use super::notice::Level;
use super::open;
use super::state::State;
use crate::config::Action;
use crate::domain::approvals::{Hold, Standing};
use crate::domain::{Phase, Run};

/// What a hold does, for whoever is about to begin or end one.
const MEANING: &str = "Nobody approves or retries, and the rule waits, until somebody releases approvals. Checks, stops and rejections go on.";

/// News of the hold.
pub(super) fn told(state: &mut State, standing: Standing) {
    if state.store.approvals == standing {
        return;
    }
    match (&state.store.approvals, &standing) {
        (_, Standing::Unreadable(why)) => {
            let text = format!("whether approvals are held cannot be seen: {why}");
            state.note(Level::Warning, text);
        }
        // What is so when the console starts needs no news.
        (Standing::Unknown, _) => {}
        (before, Standing::Known(now)) if now.hold.as_ref() != before.hold() => {
            let (level, text, by) = match (&now.hold, &now.released) {
                (Some(hold), _) => {
                    (Level::Warning, format!("approvals are {}", words(state, hold)), hold.by.as_str())
                }
                (None, Some(end)) => {
                    (Level::Info, format!("approvals are released by {}", end.by), end.by.as_str())
                }
                (None, None) => (Level::Info, "approvals are not held any more".to_owned(), ""),
            };
            // Who did it is told so by the answer.
            if by == state.environment.operator {
                state.note(level, text);
            } else {
                state.say(level, text, "");
            }
        }
        _ => {}
    }
    state.store.approvals = standing;
    state.touch();
}

/// Who holds approvals, since when and why.
#[must_use]
pub fn words(state: &State, hold: &Hold) -> String {
    let since = describe::moment(hold.at, state.now, &state.environment);
    format!("held by {} since {since}: {}", hold.by, hold.reason)
}

/// Why a deed is held up on a run, when it is: an approval, and what starts as one does.
#[must_use]
pub fn held(state: &State, verb: Verb, run: Option<&Run>) -> Option<String> {
    let hold = state.store.approvals.hold()?;
    let starts = match verb {
        Verb::Approve => true,
        // What was rejected only becomes pending again.
        Verb::Retry => run.is_none_or(|run| run.phase != Phase::Rejected),
        Verb::Check | Verb::Reject | Verb::Stop | Verb::Forget => false,
    };
    starts.then(|| {
        let key = state.keymap.key_text(state.scope(), Action::ReleaseApprovals);
        format!("approvals are {} ({key} releases them)", words(state, hold))
    })
}

/// Why approvals can be held, or released, no further.
#[must_use]
pub fn refusal(state: &State, action: Action) -> Option<String> {
    match (action, state.store.approvals.hold()) {
        (Action::HoldApprovals, Some(hold)) => Some(format!("approvals are {} already", words(state, hold))),
        (Action::ReleaseApprovals, None) => Some("approvals are not held".to_owned()),
        _ => None,
    }
}

/// What is to be known before an approval where nobody can tell whether approvals are held.
pub(super) fn doubt(state: &State) -> Option<String> {
    match &state.store.approvals {
        Standing::Unreadable(why) => Some(format!("Whether approvals are held cannot be seen: {why}.")),
        Standing::Unknown | Standing::Known(_) => None,
    }
}

/// Asks why approvals are to be held, or whether they are to be released.
pub(super) fn ask(state: &mut State, action: Action) {
    let Some(hold) = state.store.approvals.hold().cloned() else {
        let mut form = Form::hold();
        form.warnings.push(MEANING.to_owned());
        return open::form(state, form);
    };
    let label = action.info().label.to_owned();
    let buttons = vec![Button { label, key: 'y', intent: Some(Intent::Release(hold.clone())) }];
    let mut confirm = Confirm::new("Release approvals".to_owned(), buttons, "cancel");
    confirm.fields = vec![
        ("held by".to_owned(), hold.by.clone()),
        ("since".to_owned(), describe::moment(hold.at, state.now, &state.environment)),
        ("reason".to_owned(), hold.reason),
    ];
    confirm.notes.push("Operators approve again, and what waited for the rule goes on at once.".to_owned());
    state.dialogs.push(Dialog::Confirm(Box::new(confirm)));
    state.touch();
}
