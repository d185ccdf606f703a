//! Secrets as commands.

use super::{SecretDeed, SecretRef, Sides};
use crate::app::command::words;
use crate::app::screens::Screen;
use crate::app::screens::secrets::Node;
use crate::app::seen::Seen;
use crate::app::state::State;
use crate::domain::secret::{FileState, SecretRow};

/// The command that does what is asked.
pub(in crate::app) fn of_deed(deed: &SecretDeed) -> Vec<String> {
    let keys = |secrets: &[SecretRef]| secrets.iter().map(|secret| secret.key.clone()).collect::<Vec<_>>();
    let over_it = |over: bool| over.then(|| "--over".to_owned());
    match deed {
        SecretDeed::Fetch { secrets, over } => {
            words("secrets fetch", keys(secrets).into_iter().chain(over_it(*over)))
        }
        SecretDeed::Upload { secrets, over } => {
            words("secrets upload", keys(secrets).into_iter().chain(over_it(*over)))
        }
        SecretDeed::Remove(secrets) => words("secrets rm", keys(secrets)),
        SecretDeed::Restore { key, version } => {
            words("secrets restore", [key.clone(), "--version".to_owned(), version.clone()])
        }
        SecretDeed::Edit(secret) => words("secrets edit", [secret.key.clone()]),
        SecretDeed::History(key) => words("secrets history", [key.clone()]),
        SecretDeed::Names(_) => words("secrets names", []),
        SecretDeed::Nodes => words("manifests status", []),
        SecretDeed::GrantToken(key, new) => {
            let groups = new.groups.iter().flat_map(|group| ["--group".to_owned(), group.clone()]);
            let uid = new.uid.iter().flat_map(|uid| ["--uid".to_owned(), uid.clone()]);
            let of = [new.user.clone(), "--key".to_owned(), key.clone()];
            words("secrets grant-token", of.into_iter().chain(groups).chain(uid))
        }
        SecretDeed::GrantRule(key, new) => {
            let texts = [
                ("--user", &new.user),
                ("--group", &new.group),
                ("--namespace", &new.namespace),
                ("--resource", &new.resource),
                ("--api-group", &new.api_group),
                ("--path", &new.path),
            ];
            let given = texts.into_iter().filter_map(|(name, text)| Some([name.to_owned(), text.clone()?]));
            let readonly = new.readonly.then(|| "--readonly".to_owned());
            let key = ["--key".to_owned(), key.clone()];
            words("secrets grant-rule", given.flatten().chain(readonly).chain(key))
        }
        SecretDeed::Compare { key, sides, values } => {
            let version = match sides {
                Sides::Here => Vec::new(),
                Sides::Version(id) => vec!["--version".to_owned(), id.clone()],
            };
            let show = values.then(|| "--show".to_owned());
            words("secrets diff", std::iter::once(key.clone()).chain(version).chain(show))
        }
    }
}

/// The command for what is worth doing with what is under the cursor.
pub(in crate::app) fn of_row(state: &State, seen: &Seen) -> Vec<String> {
    let screen = &state.secrets;
    match (state.screen, &screen.versions, &screen.differences) {
        (Screen::Versions, Some(page), _) => {
            let version = seen.subject.as_deref().and_then(|id| page.version(id));
            match version.filter(|version| !version.newest && !version.is_removal()) {
                Some(version) => {
                    of_deed(&SecretDeed::Restore { key: page.key.clone(), version: version.id.clone() })
                }
                None => of_deed(&SecretDeed::History(page.key.clone())),
            }
        }
        (Screen::Differences, _, Some(page)) => of_deed(&SecretDeed::Compare {
            key: page.key.clone(),
            sides: page.sides.clone(),
            values: page.values,
        }),
        _ => match seen.subject.as_deref().and_then(|id| screen.node(id)) {
            Some(Node::File(row)) => of_secret(row),
            Some(Node::Folder(path, _)) => words("secrets status", [path.to_owned()]),
            None => words("secrets status", []),
        },
    }
}

fn of_secret(row: &SecretRow) -> Vec<String> {
    use FileState as F;
    let verb = match row.state {
        F::ChangedThere | F::OnlyThere | F::RemovedHere => "secrets fetch",
        F::ChangedHere | F::OnlyHere => "secrets upload",
        F::Both | F::Unsure | F::RemovedThere => "secrets diff",
        F::Same => "secrets edit",
        F::Nowhere => "secrets history",
    };
    words(verb, [row.key.clone()])
}
