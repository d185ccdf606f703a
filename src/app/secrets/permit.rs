//! Whether something can be done on a secret as it stands, and if not, why.

use super::SecretDeed;
use crate::app::effect::Effect;
use crate::app::screens::Screen;
use crate::app::state::State;
use crate::config::Action;
use crate::domain::ProblemKind;
use crate::domain::secret::{FileState, Format, SecretRow, SecretVersion, shown};

/// Why an action cannot be done on a secret; nothing when it can.
#[must_use]
pub fn refusal(action: Action, row: &SecretRow) -> Option<String> {
    use FileState as F;
    let name = shown(&row.key);
    if let Some(problem) = &row.problem {
        return Some(format!("{name} is left out: {problem}"));
    }
    let nowhere = || Some(format!("{name} is gone, here and there"));
    match (action, row.state) {
        (_, F::Nowhere) => nowhere(),
        (Action::Grant, _) if !matches!(Format::of(&row.key), Format::Tokens | Format::Policy) => {
            Some(format!("{name} is no file of tokens or rules (tokens.csv, abac.jsonl)"))
        }
        (Action::Grant, _) if row.etag.is_none() => {
            Some(format!("the bucket has no {name}: upload it first"))
        }
        (Action::FetchSecrets | Action::UploadSecrets | Action::CompareSecret, F::Same) => {
            Some(format!("{name} is the same here and in the bucket"))
        }
        (Action::FetchSecrets, F::OnlyHere) => Some(format!("the bucket has no {name}")),
        (Action::FetchSecrets, F::Both) if row.etag.is_none() => {
            Some(format!("{name} was removed in the bucket and changed here: upload it, or remove your file"))
        }
        (Action::UploadSecrets, F::OnlyThere | F::RemovedHere) => {
            Some(format!("there is no file of {name} here"))
        }
        (Action::UploadSecrets, F::ChangedThere) => {
            Some(format!("only the bucket's {name} was changed: fetch it"))
        }
        (Action::EditSecret | Action::RemoveSecrets, _) if row.etag.is_none() => {
            let upload = if row.state == F::OnlyHere { ": upload it first" } else { "" };
            Some(format!("the bucket has no {name}{upload}"))
        }
        (Action::SecretVersions, F::OnlyHere) => Some(format!("the bucket never had {name}")),
        _ => None,
    }
}

/// Whether doing it loses what somebody changed or removed: it is asked for by itself, and done on one secret only. What nobody compared
/// is compared first.
#[must_use]
pub fn loses(action: Action, row: &SecretRow) -> bool {
    use FileState as F;
    match action {
        Action::FetchSecrets => !row.state.fetch_is_safe() && row.state != F::Unsure,
        Action::UploadSecrets => !row.state.upload_is_safe() && row.state != F::Unsure,
        _ => false,
    }
}

/// Whether doing it on the row under the cursor loses what somebody changed.
#[must_use]
pub fn loses_here(state: &State, action: Action) -> bool {
    let chosen = state.secrets.chosen(state.secrets.table.cursor());
    matches!(chosen.as_slice(), [one] if loses(action, one))
}

/// Why a version cannot be restored, or compared with what the bucket has; nothing when it can.
#[must_use]
pub fn version_refusal(action: Action, version: &SecretVersion) -> Option<String> {
    if version.newest && !version.is_removal() {
        return Some("this is what the bucket has".to_owned());
    }
    match action {
        Action::RestoreVersion if version.is_removal() => {
            Some("this version says that it was removed: restore the one before it".to_owned())
        }
        _ => None,
    }
}

/// Whether an action is one on secrets, wherever it is done.
#[must_use]
pub fn owns(action: Action) -> bool {
    use Action as A;
    matches!(
        action,
        A::FetchSecrets
            | A::UploadSecrets
            | A::EditSecret
            | A::CompareSecret
            | A::SecretVersions
            | A::RestoreVersion
            | A::RemoveSecrets
            | A::ShowValues
            | A::AboutSecret
            | A::GiveCode
            | A::Grant
            | A::Nodes
    )
}

/// Why an action cannot be done on the screen as it is now, as far as secrets are concerned.
#[must_use]
pub fn unavailable(state: &State, action: Action) -> Option<String> {
    match state.screen {
        Screen::Secrets if owns(action) => in_tree(state, action),
        Screen::Versions => in_versions(state, action),
        Screen::Differences => in_differences(state, action),
        _ => None,
    }
}

fn in_tree(state: &State, action: Action) -> Option<String> {
    let screen = &state.secrets;
    let chosen = screen.chosen(screen.table.cursor());
    let single =
        matches!(action, Action::EditSecret | Action::CompareSecret | Action::SecretVersions | Action::Grant);
    match (action, chosen.as_slice()) {
        (Action::GiveCode, _) => {
            let refused = screen.problem.as_ref().is_some_and(|p| p.kind == ProblemKind::NotAuthenticated);
            (!refused).then(|| "no code is asked for".to_owned())
        }
        (Action::Nodes, _) => None,
        (Action::AboutSecret, _) if screen.table.cursor().is_some() => None,
        (_, []) => Some("there is no row under the cursor".to_owned()),
        (_, [one]) => busy(state, &one.key, action).or_else(|| refusal(action, one)),
        (_, _) if single => single_of(state, action),
        (_, several) if several.iter().all(|row| refusal(action, row).is_some()) => {
            Some(format!("none of these {} can be: {}", several.len(), refusal(action, several.first()?)?))
        }
        _ => None,
    }
}

/// What is for one secret is done on the one under the cursor, whatever is marked.
fn single_of(state: &State, action: Action) -> Option<String> {
    match state.secrets.current() {
        Some(crate::app::screens::secrets::Node::File(row)) => {
            busy(state, &row.key, action).or_else(|| refusal(action, row))
        }
        _ => Some("put the cursor on one secret".to_owned()),
    }
}

/// What is under way for a secret, when this would come into its way.
fn busy(state: &State, key: &str, action: Action) -> Option<String> {
    let changes = action.info().changes || action == Action::FetchSecrets;
    let concerns = |deed: &SecretDeed| !deed.reads() && deed.is_on(key);
    let flight = state.in_flight.iter().filter(|_| changes).find_map(|flight| match &flight.effect {
        Effect::Secret { deed, .. } if concerns(deed) => Some(deed.doing()),
        _ => None,
    });
    flight.map(|doing| format!("{doing} is under way"))
}

fn in_versions(state: &State, action: Action) -> Option<String> {
    let versions = state.secrets.versions.as_ref()?;
    let version = match action {
        Action::RestoreVersion | Action::CompareSecret | Action::Open => versions.current(),
        _ => return None,
    };
    match version {
        None => Some("there is no version under the cursor".to_owned()),
        Some(version) => busy(state, &versions.key, action).or_else(|| version_refusal(action, version)),
    }
}

fn in_differences(state: &State, action: Action) -> Option<String> {
    let page = state.secrets.differences.as_ref()?;
    match action {
        Action::ShowValues | Action::Filter if page.doc.is_none() => Some("nothing is read yet".to_owned()),
        Action::NextMatch | Action::PreviousMatch if page.needle.is_empty() => {
            Some("nothing is searched for".to_owned())
        }
        Action::FetchSecrets | Action::UploadSecrets | Action::EditSecret => {
            match state.secrets.row(&page.key) {
                Some(row) => busy(state, &page.key, action).or_else(|| refusal(action, row)),
                None => Some(format!("{} is gone", shown(&page.key))),
            }
        }
        Action::Open => Some("there is nothing to open".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample::secret;

    #[test]
    fn each_state_takes_what_makes_sense_of_it() {
        use FileState as F;
        let takes = |action: Action, state| {
            let row = secret("common/a", state);
            match (refusal(action, &row), loses(action, &row)) {
                (Some(_), _) => '-',
                (None, true) => '!',
                (None, false) => '+',
            }
        };
        let states = [
            F::Same,
            F::ChangedHere,
            F::ChangedThere,
            F::Both,
            F::Unsure,
            F::OnlyHere,
            F::OnlyThere,
            F::RemovedHere,
            F::RemovedThere,
            F::Nowhere,
        ];
        let line = |action| states.map(|state| takes(action, state)).iter().collect::<String>();
        assert_eq!(line(Action::FetchSecrets), "-!+!+-++!-");
        assert_eq!(line(Action::UploadSecrets), "-+-!++--!-");
        assert_eq!(line(Action::EditSecret), "+++++-++--");
        assert_eq!(line(Action::RemoveSecrets), "+++++-++--");
        assert_eq!(line(Action::CompareSecret), "-++++++++-");
        assert_eq!(line(Action::SecretVersions), "+++++-+++-");
    }

    #[test]
    fn what_is_left_out_says_why_and_takes_nothing() {
        let mut row = secret("a//b", FileState::OnlyThere);
        row.problem = Some("it has two slashes".to_owned());
        for action in [Action::FetchSecrets, Action::EditSecret, Action::CompareSecret] {
            assert_eq!(refusal(action, &row).as_deref(), Some("a//b is left out: it has two slashes"));
        }
    }
}
