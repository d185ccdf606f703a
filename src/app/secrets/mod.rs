//! Secrets in the console: what is done with them, whether it can be, and what is said of them.

pub(super) mod act;
pub(super) mod answers;
pub(super) mod command;
pub mod doc;
pub(super) mod edited;
pub(super) mod pages;
pub mod permit;

use super::document::Document;
use super::screens::secrets::Node;
use super::state::State;
use crate::config::Action;
use crate::domain::Problem;
use crate::domain::kube_auth::{NewRule, NewToken};
use crate::domain::secret::{BucketFacts, Compared, Setting, shown};
use crate::domain::text;

/// A secret as it was when the operator looked at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRef {
    /// The exact key.
    pub key: String,
    /// The object's ETag then; none: there was no object.
    pub etag: Option<String>,
}

/// What two contents are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sides {
    /// The bucket's and the local one; where both changed, all three.
    Here,
    /// What the bucket has now and this version of it.
    Version(String),
}

/// What is done with secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretDeed {
    /// Fetch them into the folder.
    Fetch {
        /// Which.
        secrets: Vec<SecretRef>,
        /// Also over files that were changed here; and files go whose objects were removed.
        over: bool,
    },
    /// Upload their files.
    Upload {
        /// Which.
        secrets: Vec<SecretRef>,
        /// Over what was seen there, although it is not what the file was made of.
        over: bool,
    },
    /// Remove them from the bucket.
    Remove(Vec<SecretRef>),
    /// Make an old version of one the newest.
    Restore {
        /// The exact key.
        key: String,
        /// The version's id.
        version: String,
    },
    /// Open the plain text of one in the operator's editor, and upload what comes back.
    Edit(SecretRef),
    /// Read the versions of one: [`Answer::Versions`](super::Answer::Versions).
    History(String),
    /// Compare contents of one: [`Answer::Compared`](super::Answer::Compared).
    Compare {
        /// The exact key.
        key: String,
        /// Which contents.
        sides: Sides,
        /// The values may be seen: the operator asked for them.
        values: bool,
    },
    /// Read who is known, for a line to be added to this file: [`Answer::Names`](super::Answer::Names).
    Names(String),
    /// Give somebody a token: a line of this file.
    GrantToken(String, NewToken),
    /// Let somebody do something: a line of this file.
    GrantRule(String, NewRule),
    /// Read which node has which version of the manifests: [`Answer::Nodes`](super::Answer::Nodes).
    Nodes,
}

impl SecretDeed {
    /// True when it changes something in the bucket: never done in read-only mode.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::Upload { .. }
            | Self::Remove(_)
            | Self::Restore { .. }
            | Self::Edit(_)
            | Self::GrantToken(..)
            | Self::GrantRule(..) => true,
            Self::Fetch { .. } | Self::History(_) | Self::Compare { .. } | Self::Names(_) | Self::Nodes => {
                false
            }
        }
    }

    /// True when it transfers files: it can be cancelled between them, and leaves none half done.
    #[must_use]
    pub fn transfers(&self) -> bool {
        matches!(self, Self::Fetch { .. } | Self::Upload { .. } | Self::Remove(_))
    }

    /// Whether it is about this secret.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        match self {
            Self::Fetch { secrets, .. } | Self::Upload { secrets, .. } | Self::Remove(secrets) => {
                secrets.iter().any(|secret| secret.key == key)
            }
            Self::Edit(secret) => secret.key == key,
            Self::Restore { key: other, .. }
            | Self::History(other)
            | Self::Compare { key: other, .. }
            | Self::Names(other)
            | Self::GrantToken(other, _)
            | Self::GrantRule(other, _) => other == key,
            Self::Nodes => false,
        }
    }

    /// True when it only reads, to show it.
    #[must_use]
    pub fn reads(&self) -> bool {
        matches!(self, Self::History(_) | Self::Compare { .. } | Self::Names(_) | Self::Nodes)
    }

    /// What it does, as the start of a sentence in the making.
    #[must_use]
    pub fn doing(&self) -> String {
        let several = |secrets: &[SecretRef]| match secrets {
            [one] => shown(&one.key),
            several => format!("{} secrets", several.len()),
        };
        match self {
            Self::Fetch { secrets, .. } => format!("fetching {}", several(secrets)),
            Self::Upload { secrets, .. } => format!("uploading {}", several(secrets)),
            Self::Remove(secrets) => format!("removing {}", several(secrets)),
            Self::Restore { key, .. } => format!("restoring {}", shown(key)),
            Self::Edit(secret) => format!("editing {}", shown(&secret.key)),
            Self::History(key) => format!("reading the versions of {}", shown(key)),
            Self::Compare { key, .. } => format!("comparing {}", shown(key)),
            Self::Names(key) => format!("reading who is known in {}", shown(key)),
            Self::GrantToken(key, new) => format!("giving {} a token in {}", new.user, shown(key)),
            Self::GrantRule(key, _) => format!("adding a rule to {}", shown(key)),
            Self::Nodes => "looking at the nodes".to_owned(),
        }
    }

    /// The word at the start of what is told of several.
    #[must_use]
    pub fn title(&self) -> &'static str {
        match self {
            Self::Fetch { .. } => "Fetch",
            Self::Upload { .. } => "Upload",
            Self::Remove(_) => "Remove",
            Self::Restore { .. } => "Restore",
            Self::Edit(_) => "Edit",
            Self::History(_) => "History",
            Self::Compare { .. } => "Diff",
            Self::Names(_) | Self::GrantToken(..) | Self::GrantRule(..) => "Grant",
            Self::Nodes => "Nodes",
        }
    }
}

/// All that is known of a row of the tree, and of the bucket: its name, and the text.
#[must_use]
pub fn about(state: &State, id: &str) -> Option<(String, Document)> {
    let mut document = Document::default();
    let name = match state.secrets.node(id)? {
        Node::Folder(path, rollup) => {
            doc::of_folder(&mut document, path, rollup, &state.environment, state.now);
            shown(path)
        }
        Node::File(row) => {
            let outcome = state.secrets.outcome(&row.key);
            doc::of_row(&mut document, row, outcome, &state.environment, state.now);
            shown(&row.key)
        }
    };
    if let Some(facts) = &state.secrets.facts {
        doc::of_bucket(&mut document, facts);
    }
    if let Some(reason) = &state.secrets.incomplete {
        document.push(super::document::LineKind::Warning, format!("Not everything was listed: {reason}"));
    }
    Some((name, document))
}

/// Why a row of the tree, or the bucket, is as it is: what went wrong, what is not as it must be, what cannot be done and why not.
pub(super) fn why(state: &State, id: &str, doc: &mut Document, copy: &mut String) {
    use super::document::LineKind;
    let mut say = |kind, text: String| {
        copy.push_str(&format!("\n{text}"));
        doc.push(kind, text);
    };
    let screen = &state.secrets;
    if let Some(reason) = &screen.incomplete {
        say(LineKind::Problem, format!("Not everything was listed: {reason}"));
    }
    if let Some(problem) = &screen.problem {
        say(LineKind::Problem, problem.to_string());
    }
    for (name, setting) in screen.facts.iter().flat_map(BucketFacts::settings) {
        match setting {
            Setting::Bad(text) => say(LineKind::Warning, format!("the bucket: {text}")),
            Setting::Unknown(why) => say(LineKind::Muted, format!("the bucket, {name}: {why}")),
            Setting::Good(_) => {}
        }
    }
    let Some(Node::File(row)) = screen.node(id) else { return };
    if let Some(Err(problem)) = screen.outcome(&row.key) {
        say(LineKind::Problem, problem.clone());
    }
    doc.blank();
    doc.push(LineKind::Title, shown(&row.key));
    doc.push(LineKind::Text, doc::meaning(row.state));
    for action in [Action::FetchSecrets, Action::UploadSecrets, Action::EditSecret, Action::RemoveSecrets] {
        if let Some(reason) = permit::refusal(action, row) {
            doc.field(format!("no {}", action.info().label), reason);
        }
    }
}

/// How far a transfer is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transfer {
    /// How many files are done.
    pub files: usize,
    /// How many there are.
    pub of_files: usize,
    /// How many bytes are done.
    pub bytes: u64,
    /// How many there are.
    pub of_bytes: u64,
}

impl Transfer {
    /// Its part of the whole, in thousandths: of the bytes, where there are any.
    #[must_use]
    pub fn part(&self) -> u16 {
        let (done, all) = match self.of_bytes {
            0 => (self.files as u64, self.of_files as u64),
            all => (self.bytes, all),
        };
        u16::try_from(done.saturating_mul(1000) / all.max(1)).unwrap_or(1000).min(1000)
    }

    /// It in words.
    #[must_use]
    pub fn words(&self) -> String {
        let noun = if self.of_files == 1 { "file" } else { "files" };
        let (bytes, of_bytes) = (text::bytes(self.bytes), text::bytes(self.of_bytes));
        format!("{} of {} {noun}, {bytes} of {of_bytes}", self.files, self.of_files)
    }
}

/// Why a text that was edited is not uploaded, and the operator is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Back {
    /// It is not what its name says: what is wrong. Nothing of it quotes the text.
    Wrong(Vec<String>),
    /// Somebody changed the secret meanwhile.
    Apart {
        /// What both made of it.
        compared: Box<Compared>,
        /// The values may be seen in it: they were asked for.
        values: bool,
    },
    /// The bucket did not take it.
    Failed(Problem),
}

/// What came of a deed on secrets, one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretsDone {
    /// The exact keys, each with what was done ("fetched"), or why not.
    pub outcomes: Vec<(String, Result<String, Problem>)>,
    /// It was cancelled: what is not among them was not begun.
    pub cancelled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_says_how_far_it_is() {
        let transfer = Transfer { files: 1, of_files: 4, bytes: 1_500, of_bytes: 3_000 };
        assert_eq!((transfer.part(), transfer.words().as_str()), (500, "1 of 4 files, 1.5 kB of 3.0 kB"));
        let empty = Transfer { files: 1, of_files: 2, ..Transfer::default() };
        assert_eq!((empty.part(), Transfer::default().part()), (500, 0));
        let more = Transfer { bytes: 9, of_bytes: 3, ..Transfer::default() };
        assert_eq!(more.part(), 1000);
    }
}
