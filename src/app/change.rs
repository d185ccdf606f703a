//! What the console changes of what is listed: targets, tokens, dead letters.

use super::items::Topic;
use crate::domain::Token;
use crate::domain::target::{LabelChange, NewTarget};

/// A change of something that is listed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Add a target.
    AddTarget(NewTarget),
    /// Remove the targets of these addresses, in one write.
    RemoveTargets(Vec<String>),
    /// Mint a token.
    MintToken {
        /// How long it is good, in seconds.
        lifetime: u64,
        /// The groups that it gives.
        groups: Vec<String>,
        /// What it is for.
        description: String,
    },
    /// Revoke this token.
    RevokeToken(Token),
    /// Put the dead letter of this id back on its run's queue; with the key of its row.
    Requeue(String, String),
    /// Throw the dead letter of this id away; with the key of its row.
    DropLetter(String, String),
    /// Change the labels of the targets of these addresses, in one write.
    LabelTargets(Vec<String>, LabelChange),
}

impl Change {
    /// What it changes, as the start of a sentence in the making.
    #[must_use]
    pub fn doing(&self) -> String {
        let several = |addresses: &[String]| match addresses {
            [one] => one.clone(),
            several => format!("{} targets", several.len()),
        };
        match self {
            Self::AddTarget(new) => format!("adding {}", new.address),
            Self::RemoveTargets(addresses) => format!("removing {}", several(addresses)),
            Self::LabelTargets(addresses, _) => format!("labelling {}", several(addresses)),
            Self::MintToken { .. } => "minting a token".to_owned(),
            Self::RevokeToken(token) => format!("revoking token {}", token.id),
            Self::Requeue(id, _) => format!("putting letter {id} back"),
            Self::DropLetter(id, _) => format!("throwing letter {id} away"),
        }
    }

    /// The rows that it is about: topic and keys.
    #[must_use]
    pub fn rows(&self) -> (Topic, Vec<&str>) {
        match self {
            Self::AddTarget(new) => (Topic::Targets, vec![&new.address]),
            Self::MintToken { .. } => (Topic::Tokens, Vec::new()),
            Self::RevokeToken(token) => (Topic::Tokens, vec![&token.name]),
            Self::Requeue(_, key) | Self::DropLetter(_, key) => (Topic::Queue, vec![key]),
            Self::RemoveTargets(addresses) | Self::LabelTargets(addresses, _) => {
                (Topic::Targets, addresses.iter().map(String::as_str).collect())
            }
        }
    }
}
