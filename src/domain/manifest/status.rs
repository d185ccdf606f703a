//! What a node says of itself: an object in the bucket, `status/sync/NODE.json`.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::sync::Memory;
use crate::domain::secret::{Checksum, shown};

/// Where the nodes' objects are.
pub const STATUS_PREFIX: &str = "status/sync/";
/// How large one may be, in bytes. Files that have no room are counted.
pub const STATUS_LIMIT: usize = 256 * 1024;
/// How many problems are told, and how long each may be, in characters.
const PROBLEMS: usize = 20;
const PROBLEM_LENGTH: usize = 500;
/// The form in which it is written.
const SCHEMA: u32 = 1;
/// How the names of the objects end.
const SUFFIX: &str = ".json";

/// A node's name, as part of a key: letters, digits, dots, hyphens and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct NodeName(String);

/// It can be no node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is no name for a node: 1 to 253 letters, digits, dots, hyphens and underscores, with a letter or digit at both ends: give one with --node", shown(.0))]
pub struct NodeNameError(pub String);

impl NodeName {
    /// Reads a name.
    ///
    /// # Errors
    /// When it can be none.
    pub fn parse(text: &str) -> Result<Self, NodeNameError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let end = |c: char| c.is_ascii_alphanumeric();
        let right = (1..=253).contains(&text.len())
            && text.bytes().all(legal)
            && text.starts_with(end)
            && text.ends_with(end);
        if right { Ok(Self(text.to_owned())) } else { Err(NodeNameError(text.to_owned())) }
    }

    /// The node whose object this key is.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        Self::parse(key.strip_prefix(STATUS_PREFIX)?.strip_suffix(SUFFIX)?).ok()
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{STATUS_PREFIX}{}{SUFFIX}", self.0)
    }

    /// It.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file that the node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    /// The object's key.
    pub key: String,
    /// Its ETag, quotes and all.
    pub etag: String,
    /// Its version, where the bucket keeps versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// What the file is.
    pub sha256: Checksum,
}

/// Something that the node could not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProblem {
    /// What, and why. It may be cut.
    pub text: String,
    /// The object that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The form: higher ones may say more.
    pub schema: u32,
    /// Its name.
    pub node: String,
    /// The version of Hostwright that runs there.
    #[serde(default)]
    pub version: String,
    /// When this was written.
    pub written: Timestamp,
    /// When all was last as in the bucket; none: it never was.
    #[serde(default)]
    pub synced: Option<Timestamp>,
    /// The longest time until it writes this again, in seconds, though nothing changes.
    pub again_within: u64,
    /// The folders of the bucket that it takes.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Its files, by path.
    #[serde(default)]
    pub files: Vec<NodeFile>,
    /// How many files had no room here.
    #[serde(default)]
    pub more_files: usize,
    /// What it could not do.
    #[serde(default)]
    pub problems: Vec<NodeProblem>,
}

/// Why what a node says cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// It is larger than any that is written.
    #[error("it is larger than {STATUS_LIMIT} bytes")]
    TooLarge,
    /// It is none.
    #[error("it cannot be read (line {line}, column {column})")]
    Broken {
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
    },
    /// It is that of another node.
    #[error("it says that it is of {}", shown(.0))]
    Other(String),
}

impl NodeStatus {
    /// What a node is to say: `memory` has its files, `problems` what it could not do.
    #[must_use]
    pub fn new(node: &NodeName, version: &str, written: Timestamp, memory: &Memory) -> Self {
        let there = memory.iter().filter(|(_, taken)| !taken.is_pending());
        let files = there.map(|(_, taken)| NodeFile {
            key: taken.key.clone(),
            etag: taken.etag.clone(),
            version_id: taken.version_id.clone(),
            sha256: taken.sha256,
        });
        Self {
            schema: SCHEMA,
            node: node.0.clone(),
            version: version.to_owned(),
            written,
            synced: None,
            again_within: 0,
            prefixes: Vec::new(),
            files: files.collect(),
            more_files: 0,
            problems: Vec::new(),
        }
    }

    /// Adds something that it could not do; what has no room is left out.
    pub fn problem(&mut self, key: Option<&str>, text: &str) {
        if self.problems.len() < PROBLEMS {
            let text = text.chars().take(PROBLEM_LENGTH).collect();
            self.problems.push(NodeProblem { text, key: key.map(str::to_owned) });
        }
    }

    /// As it is written: never larger than [`STATUS_LIMIT`].
    #[must_use]
    pub fn to_json(mut self) -> Vec<u8> {
        loop {
            // Nothing in it can fail to be JSON.
            let bytes = serde_json::to_vec(&self).unwrap_or_default();
            if bytes.len() <= STATUS_LIMIT || self.files.is_empty() {
                return bytes;
            }
            // What is to go, by its share; a little more, so that this ends soon.
            let keep = self.files.len() * STATUS_LIMIT / bytes.len();
            let keep = keep.saturating_sub(keep / 50 + 1);
            self.more_files += self.files.len() - keep;
            self.files.truncate(keep);
        }
    }

    /// Reads what the node of this name says. What is not known in it is not looked at.
    ///
    /// # Errors
    /// When it is none, or another node's.
    pub fn parse(node: &NodeName, bytes: &[u8]) -> Result<Self, StatusError> {
        if bytes.len() > STATUS_LIMIT {
            return Err(StatusError::TooLarge);
        }
        let read: Self = serde_json::from_slice(bytes)
            .map_err(|error| StatusError::Broken { line: error.line(), column: error.column() })?;
        if read.node == node.0 { Ok(read) } else { Err(StatusError::Other(read.node)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sync::Taken;
    use super::*;
    use crate::domain::secret::relative;

    fn node() -> NodeName {
        NodeName::parse("node-1.example.org").unwrap()
    }

    fn memory(count: usize) -> Memory {
        let mut memory = Memory::new("b");
        for number in 0..count {
            let key = format!("manifests/{number:06}");
            let sha256 = Checksum::of(key.as_bytes());
            let taken = Taken { key: key.clone(), etag: "\"e\"".into(), version_id: None, size: 1, sha256 };
            memory.remember(relative(&key).unwrap(), taken);
        }
        memory
    }

    #[test]
    fn a_name_is_part_of_a_key_and_of_nothing_else() {
        assert_eq!(node().key(), "status/sync/node-1.example.org.json");
        assert_eq!(NodeName::of_key(&node().key()), Some(node()));
        for wrong in ["", "..", "a/b", ".a", "a.", "a b", "ü", &"a".repeat(254)] {
            assert!(NodeName::parse(wrong).is_err(), "{wrong}");
        }
        for key in ["status/sync/", "status/sync/.json", "status/sync/a/b.json", "status/a.json", "a.json"] {
            assert_eq!(NodeName::of_key(key), None, "{key}");
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_what_is_new_in_it_is_no_error() {
        let mut status = NodeStatus::new(&node(), "1.2.3", Timestamp::UNIX_EPOCH, &memory(3));
        status.problem(Some("a/x"), "no room");
        status.synced = Some(Timestamp::UNIX_EPOCH);
        let json = status.clone().to_json();
        assert_eq!(NodeStatus::parse(&node(), &json).unwrap(), status);
        let text = String::from_utf8(json).unwrap();
        let newer = text.replace("\"schema\":1", "\"schema\":7,\"mood\":{\"a\":[1]}");
        assert_eq!(NodeStatus::parse(&node(), newer.as_bytes()).unwrap().schema, 7);
        let least =
            r#"{"schema":1,"node":"node-1.example.org","written":"2026-01-01T00:00:00Z","again_within":60}"#;
        assert_eq!(NodeStatus::parse(&node(), least.as_bytes()).unwrap().synced, None);
    }

    #[test]
    fn what_is_no_status_or_anothers_is_refused() {
        let json = NodeStatus::new(&node(), "1", Timestamp::UNIX_EPOCH, &memory(1)).to_json();
        let other = NodeName::parse("node-2").unwrap();
        assert!(matches!(NodeStatus::parse(&other, &json), Err(StatusError::Other(_))));
        for bytes in [b"".as_slice(), b"[]", b"{}", &json[..json.len() - 1]] {
            assert!(matches!(NodeStatus::parse(&node(), bytes), Err(StatusError::Broken { .. })));
        }
        let large = vec![b' '; STATUS_LIMIT + 1];
        assert_eq!(NodeStatus::parse(&node(), &large), Err(StatusError::TooLarge));
    }

    #[test]
    fn however_much_there_is_it_stays_small() {
        let mut status = NodeStatus::new(&node(), "1", Timestamp::UNIX_EPOCH, &memory(20_000));
        (0..1_000).for_each(|_| status.problem(Some(&"k".repeat(1_024)), &"\u{1f600}".repeat(10_000)));
        let json = status.to_json();
        assert!((STATUS_LIMIT / 2..=STATUS_LIMIT).contains(&json.len()), "{}", json.len());
        let read = NodeStatus::parse(&node(), &json).unwrap();
        assert_eq!(read.files.len() + read.more_files, 20_000);
        assert_eq!(read.problems.len(), PROBLEMS);
    }
}
