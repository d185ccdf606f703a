//! All nodes beside the bucket: which version of each file each of them has, and when it last synced.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::status::{NodeFile, NodeName, NodeStatus, StatusError};
use crate::domain::bucket::Object;

/// By how much a node may be late with its word before it counts as late, in seconds: clocks differ, and a round takes its time.
const SLACK: i64 = 60;

/// How a node's file stands beside its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileState {
    /// The node has what is in the bucket.
    Current,
    /// It has another version.
    Behind,
    /// It does not have it yet.
    Missing,
    /// It has it, and the object is gone.
    Extra,
    /// The node has more files than it can name.
    Unknown,
}

impl FileState {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Behind => "behind",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Unknown => "unknown",
        }
    }
}

/// How a node stands: the first that is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// What it says cannot be read.
    Unreadable,
    /// It has said nothing for longer than it wanted to.
    Late,
    /// It says what it could not do.
    Failing,
    /// Not every file is as in the bucket.
    Behind,
    /// It has all that it should have.
    Current,
}

impl NodeState {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Late => "late",
            Self::Failing => "failing",
            Self::Behind => "behind",
            Self::Current => "current",
        }
    }
}

/// A file of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    /// The object's key.
    pub key: String,
    /// How it stands.
    pub state: FileState,
    /// The version that the node has, where the bucket keeps versions.
    pub version: Option<String>,
    /// The ETag of what it has, without its quotes.
    pub has: Option<String>,
    /// That of what is in the bucket.
    pub wanted: Option<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Its name.
    pub node: NodeName,
    /// How it stands.
    pub state: NodeState,
    /// When all was last as in the bucket.
    pub synced: Option<Timestamp>,
    /// When it last said so.
    pub written: Option<Timestamp>,
    /// The version of Hostwright that runs there.
    pub version: String,
    /// Its files, by key.
    pub files: Vec<View>,
    /// What it could not do; what is wrong with what it says.
    pub problems: Vec<String>,
}

impl NodeView {
    /// How many files are as in the bucket.
    #[must_use]
    pub fn current(&self) -> usize {
        self.files.iter().filter(|file| file.state == FileState::Current).count()
    }
}

/// Every node that said something, those that need a look first. `listing` is all of the bucket that any of them takes.
#[must_use]
pub fn overview(
    said: impl IntoIterator<Item = (NodeName, Result<NodeStatus, StatusError>)>,
    listing: &[Object],
    now: Timestamp,
) -> Vec<NodeView> {
    let mut nodes: Vec<NodeView> = said
        .into_iter()
        .map(|(node, said)| match said {
            Ok(status) => view(node, status, listing, now),
            Err(error) => NodeView {
                node,
                state: NodeState::Unreadable,
                synced: None,
                written: None,
                version: String::new(),
                files: Vec::new(),
                problems: vec![format!("what it says of itself cannot be used: {error}")],
            },
        })
        .collect();
    nodes.sort_by(|one, other| (one.state, &one.node).cmp(&(other.state, &other.node)));
    nodes
}

fn view(node: NodeName, status: NodeStatus, listing: &[Object], now: Timestamp) -> NodeView {
    let files = files(&status, listing);
    let within = i64::try_from(status.again_within).unwrap_or(i64::MAX);
    let age = now.as_second().saturating_sub(status.written.as_second());
    let state = if age > within.saturating_add(SLACK) {
        NodeState::Late
    } else if !status.problems.is_empty() {
        NodeState::Failing
    } else if files.iter().any(|file| !matches!(file.state, FileState::Current | FileState::Unknown)) {
        NodeState::Behind
    } else {
        NodeState::Current
    };
    let problem = |one: &super::status::NodeProblem| match &one.key {
        Some(key) => format!("{}: {}", crate::domain::secret::shown(key), one.text),
        None => one.text.clone(),
    };
    NodeView {
        node,
        state,
        synced: status.synced,
        written: Some(status.written),
        problems: status.problems.iter().map(problem).collect(),
        files,
        version: status.version,
    }
}

/// An ETag without its quotes.
fn bare(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

fn files(status: &NodeStatus, listing: &[Object]) -> Vec<View> {
    let has: BTreeMap<&str, &NodeFile> = status.files.iter().map(|file| (file.key.as_str(), file)).collect();
    let asked = |key: &str| status.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
    let there: BTreeMap<&str, &Object> = listing
        .iter()
        .filter(|object| asked(&object.key) && !(object.key.ends_with('/') && object.size == 0))
        .map(|object| (object.key.as_str(), object))
        .collect();
    let keys: BTreeSet<&str> = has.keys().chain(there.keys()).copied().collect();
    let view = |key: &str| {
        let (has, there) = (has.get(key), there.get(key));
        let state = match (has, there) {
            (Some(has), Some(there)) if has.etag == there.etag => FileState::Current,
            (Some(_), Some(_)) => FileState::Behind,
            (Some(_), None) => FileState::Extra,
            (None, _) if status.more_files > 0 => FileState::Unknown,
            (None, _) => FileState::Missing,
        };
        View {
            key: key.to_owned(),
            state,
            version: has.and_then(|file| file.version_id.clone()),
            has: has.map(|file| bare(&file.etag)),
            wanted: there.map(|object| bare(&object.etag)),
        }
    };
    keys.into_iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::manifest::Memory;
    use crate::domain::secret::Checksum;

    fn status(name: &str, files: &[(&str, &str)], written: i64) -> (NodeName, NodeStatus) {
        let node = NodeName::parse(name).unwrap();
        let written = Timestamp::from_second(written).unwrap();
        let mut status = NodeStatus::new(&node, "1", written, &Memory::new("b"));
        status.prefixes = vec!["m/".into()];
        status.again_within = 300;
        let file = |(key, etag): &(&str, &str)| NodeFile {
            key: (*key).into(),
            etag: (*etag).into(),
            version_id: None,
            sha256: Checksum::of(b""),
        };
        status.files = files.iter().map(file).collect();
        (node, status)
    }

    fn listing(objects: &[(&str, &str)]) -> Vec<Object> {
        let object = |(key, etag): &(&str, &str)| Object {
            key: (*key).into(),
            etag: (*etag).into(),
            size: u64::from(!key.ends_with('/')),
            modified: None,
        };
        objects.iter().map(object).collect()
    }

    #[test]
    fn those_that_need_a_look_come_first_with_the_state_of_each_file() {
        let listing = listing(&[("m/", "\"0\""), ("m/a", "\"1\""), ("m/b", "\"2\""), ("other/x", "\"3\"")]);
        let good = [("m/a", "\"1\""), ("m/b", "\"2\"")];
        let mut failing = status("d", &good, 1_000);
        failing.1.problem(None, "the command failed");
        let said = [
            status("a", &good, 1_000),
            status("b", &[("m/a", "\"0\""), ("m/gone", "\"1\"")], 1_000),
            status("c", &good, 1_000 - 361),
            failing,
        ];
        let mut said: Vec<_> = said.map(|(node, status)| (node, Ok(status))).into();
        said.push((NodeName::parse("e").unwrap(), Err(StatusError::TooLarge)));
        let nodes = overview(said, &listing, Timestamp::from_second(1_000).unwrap());
        let states: Vec<_> = nodes.iter().map(|node| (node.node.as_str(), node.state.word())).collect();
        let expected =
            [("e", "unreadable"), ("c", "late"), ("d", "failing"), ("b", "behind"), ("a", "current")];
        assert_eq!(states, expected);
        let behind = &nodes[3];
        let files: Vec<_> = behind.files.iter().map(|file| (file.key.as_str(), file.state.word())).collect();
        assert_eq!(files, [("m/a", "behind"), ("m/b", "missing"), ("m/gone", "extra")]);
        assert_eq!(
            (behind.files[0].has.as_deref(), behind.files[0].wanted.as_deref()),
            (Some("0"), Some("1"))
        );
        assert_eq!((nodes[4].current(), nodes[2].problems.len()), (2, 1));
    }

    #[test]
    fn a_node_with_more_files_than_it_can_name_is_not_taken_for_one_behind() {
        let (node, mut status) = status("a", &[("m/a", "\"1\"")], 1_000);
        status.more_files = 1;
        let listing = listing(&[("m/a", "\"1\""), ("m/b", "\"2\"")]);
        let nodes = overview([(node, Ok(status))], &listing, Timestamp::from_second(1_000).unwrap());
        assert_eq!((nodes[0].state, nodes[0].files[1].state), (NodeState::Current, FileState::Unknown));
    }
}
