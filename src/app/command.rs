//! What is under the cursor, as a command: for a script, a note, or a colleague.

use super::change::Change;
use super::dialog::{Confirm, Dialog, Intent, Subject, Verb};
use super::items::{Item, Topic};
use super::screens::Screen;
use super::secrets;
use super::seen::Seen;
use super::state::State;
use crate::domain::{Kind, Phase, Run};

/// The command for what is asked, else for what is worth doing with what is under the cursor.
pub(super) fn of(state: &State, seen: &Seen) -> Option<String> {
    let words = match state.dialogs.last() {
        Some(Dialog::Confirm(confirm)) => of_question(confirm)?,
        _ => of_row(state, seen)?,
    };
    let environment = ["hostwright".to_owned(), "-e".to_owned(), state.environment.name.clone()];
    let quoted: Vec<String> =
        environment.iter().chain(&words).map(|word| shell_words::quote(word).into_owned()).collect();
    Some(quoted.join(" "))
}

pub(super) fn words(fixed: &str, rest: impl IntoIterator<Item = String>) -> Vec<String> {
    fixed.split(' ').map(str::to_owned).chain(rest).collect()
}

fn of_question(confirm: &Confirm) -> Option<Vec<String>> {
    // The safe answer, the last, does nothing; the one before it is what is asked.
    let intent = confirm.buttons.iter().rev().find_map(|button| button.intent.as_ref())?;
    match intent {
        Intent::Do(verb, subjects) => Some(of_deed(*verb, subjects)),
        Intent::Changes(changes) => of_changes(changes),
        Intent::Secrets(deed) => Some(secrets::command::of_deed(deed)),
        Intent::Release(_) => Some(words("approvals release", [])),
        Intent::Edit | Intent::EditAgain(_) | Intent::EditShow(_) | Intent::Switch(_) | Intent::Quit => None,
    }
}

fn of_deed(verb: Verb, subjects: &[Subject]) -> Vec<String> {
    let hosts = || subjects.iter().map(|subject| subject.run.host.to_string());
    match (verb, subjects) {
        // Bound to what was looked at, as the answer would be.
        (Verb::Approve, [one]) => {
            words("hosts approve", hosts().chain(["--digest".to_owned(), one.digest.clone()]))
        }
        (Verb::Approve, _) => words("hosts approve", hosts()),
        (Verb::Check, _) => words("hosts check", hosts()),
        (Verb::Reject, _) => words("hosts reject", hosts()),
        (Verb::Retry, _) => words("hosts retry", hosts()),
        (Verb::Forget, _) => words("hosts forget", hosts()),
        (Verb::Stop, _) => words("runs stop", subjects.iter().map(|subject| subject.run.name.clone())),
    }
}

fn of_changes(changes: &[Change]) -> Option<Vec<String>> {
    let ids = |of: fn(&Change) -> Option<String>| changes.iter().filter_map(of).collect::<Vec<_>>();
    Some(match changes.first()? {
        Change::RemoveTargets(addresses) => words("targets remove", addresses.clone()),
        Change::RevokeToken(_) => words(
            "tokens delete",
            ids(|c| match c {
                Change::RevokeToken(token) => Some(token.id.clone()),
                _ => None,
            }),
        ),
        Change::Requeue(..) => words(
            "queue requeue",
            ids(|c| match c {
                Change::Requeue(id, _) => Some(id.clone()),
                _ => None,
            }),
        ),
        Change::DropLetter(..) => words(
            "queue drop",
            ids(|c| match c {
                Change::DropLetter(id, _) => Some(id.clone()),
                _ => None,
            }),
        ),
        Change::AddTarget(_) | Change::LabelTargets(..) | Change::MintToken { .. } => return None,
    })
}

fn of_row(state: &State, seen: &Seen) -> Option<Vec<String>> {
    if matches!(state.screen, Screen::Secrets | Screen::Versions | Screen::Differences) {
        return Some(secrets::command::of_row(state, seen));
    }
    if let Screen::List(topic) = state.screen {
        return Some(match seen.subject.as_ref().and_then(|key| state.list(topic)?.item(key)) {
            Some(Item::Target(target)) if target.unknown.is_none() => {
                words("targets remove", [target.address.clone()])
            }
            Some(Item::Token(token)) => words("tokens join-command", [token.id.clone()]),
            Some(Item::Letter(letter)) => words("queue requeue", [letter.id.clone()]),
            Some(Item::Queue(queue)) => words("runs show", [queue.run.clone()]),
            _ => match topic {
                Topic::Targets => words("targets list", []),
                Topic::Tokens => words("tokens list", []),
                Topic::Queue => words("queue list", []),
                Topic::Activity => words("activity", []),
            },
        });
    }
    let run = seen.subject.as_ref().and_then(|uid| state.store.run(uid)).or(state.current())?;
    Some(of_run(run))
}

/// What is worth doing with a run as it stands.
fn of_run(run: &Run) -> Vec<String> {
    let host = || run.host.to_string();
    match run.phase {
        Phase::Pending => words("hosts approve", [host(), "--digest".to_owned(), run.digest.clone()]),
        Phase::Queued | Phase::Running | Phase::Stopping => {
            words("runs logs", ["-f".to_owned(), run.name.clone()])
        }
        Phase::Failed | Phase::Stopped | Phase::Rejected if run.kind == Kind::Provision => {
            words("hosts retry", [host()])
        }
        _ => words("runs results", [run.name.clone()]),
    }
}
