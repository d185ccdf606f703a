//! The queues of runs, and the dead letters: messages that could not be used.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{HostName, Phase};

/// The queue of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunQueue {
    /// The run's UID.
    pub uid: String,
    /// Its Job's name.
    pub run: String,
    /// Its host.
    pub host: HostName,
    /// Where it stands.
    pub phase: Phase,
    /// The queue's name.
    pub queue: String,
    /// When the run's message was confirmed by the broker.
    pub delivered: Option<Timestamp>,
    /// What is in the queue; none when there is no such queue (yet, or any more).
    pub state: Option<QueueState>,
}

/// What the broker says of a run's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QueueState {
    /// Messages that wait; one that a pod holds is not counted.
    pub messages: u32,
    /// Pods that wait for the message.
    pub consumers: u32,
}

/// A message that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// What it is called here: its message id, with a part of its digest where several have the same.
    pub id: String,
    /// The UID of the run that it is for, when that can be told.
    pub run: Option<String>,
    /// The run's name, when the message can be read.
    pub name: Option<String>,
    /// The host, when the message can be read.
    pub host: Option<String>,
    /// Why it is here.
    pub reason: String,
    /// Since when, when that is known.
    pub at: Option<Timestamp>,
    /// How many bytes it has.
    pub size: usize,
    /// Whether it can be read: only then is it of any use in a queue.
    pub readable: bool,
    /// Its message id.
    #[serde(skip)]
    pub message_id: Option<String>,
    /// The SHA-256 of its bytes.
    #[serde(skip)]
    pub digest: String,
}

impl DeadLetter {
    /// Whether it may have been called so before others left: names get shorter when nothing is the same any more.
    #[must_use]
    pub fn was(&self, id: &str) -> bool {
        let full = full_id(self.message_id.as_deref(), &self.digest);
        let rest = id.strip_prefix(&full);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok())
        })
    }
}

/// The dead letters that were looked at, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeadLetters {
    /// The letters.
    pub letters: Vec<DeadLetter>,
    /// How many more there are that were not looked at.
    pub more: u32,
}

/// All queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queues {
    /// Those of runs that are not over, and of those whose queue is still to be deleted.
    pub runs: Vec<RunQueue>,
    /// The dead letters.
    #[serde(flatten)]
    pub dead: DeadLetters,
}

/// What letters are called: by message id; with the beginning of the digest where ids are missing or the same; numbered where
/// even that is the same, and so it does not matter which is meant.
#[must_use]
pub fn letter_ids(letters: &[(Option<&str>, &str)]) -> Vec<String> {
    let mut same: BTreeMap<&str, usize> = BTreeMap::new();
    for id in letters.iter().filter_map(|(id, _)| *id) {
        *same.entry(id).or_default() += 1;
    }
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    let name = |(id, digest): &(Option<&str>, &str)| {
        let name = match id.filter(|id| same.get(id) == Some(&1)) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => full_id(*id, digest),
        };
        let times = used.entry(name.clone()).or_default();
        *times += 1;
        if *times == 1 { name } else { format!("{name}-{times}") }
    };
    letters.iter().map(name).collect()
}

fn full_id(id: Option<&str>, digest: &str) -> String {
    let part: String = digest.chars().take(8).collect();
    id.filter(|id| !id.is_empty()).map_or_else(|| part.clone(), |id| format!("{id}-{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_letters_are_called_the_same() {
        let letters = [
            (Some("a"), "0123456789"),
            (Some("b"), "1123456789"),
            (Some("b"), "2123456789"),
            (Some("b"), "2123456789"),
            (None, "3123456789"),
            (Some(""), "4123456789"),
        ];
        let ids = letter_ids(&letters);
        assert_eq!(ids, ["a", "b-11234567", "b-21234567", "b-21234567-2", "31234567", "41234567"]);
    }

    #[test]
    fn a_letter_is_found_by_what_it_was_called() {
        let letter = DeadLetter {
            id: "b".to_owned(),
            run: None,
            name: None,
            host: None,
            reason: String::new(),
            at: None,
            size: 0,
            readable: false,
            message_id: Some("b".to_owned()),
            digest: "2123456789".to_owned(),
        };
        assert!(letter.was("b-21234567") && letter.was("b-21234567-2"));
        assert!(!letter.was("b-11234567") && !letter.was("b-21234567-x") && !letter.was("c"));
    }
}
