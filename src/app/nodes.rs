//! The manifests on the nodes, in words: which version of each file each node has, and when it last synced.

use jiff::Timestamp;

use super::describe::moment;
use super::document::{Document, LineKind};
use super::environment::EnvironmentInfo;
use super::time;
use crate::domain::manifest::{FileState, NodeState, NodeView, View};

/// How much of an ETag or a version's id tells two of them apart.
const SHORT: usize = 8;

/// All nodes: first those that need a look, then file by file what is not as in the bucket, and last what is.
#[must_use]
pub(super) fn nodes(nodes: &[NodeView], now: Timestamp, environment: &EnvironmentInfo) -> Document {
    let mut doc = Document::default();
    if nodes.is_empty() {
        doc.push(LineKind::Text, "No node has said anything yet: `hostwright sync` does it on each of them.");
        return doc;
    }
    let good = nodes.iter().filter(|node| node.state == NodeState::Current).count();
    doc.push(LineKind::Text, format!("{good} of {} nodes have all that is in the bucket.", nodes.len()));
    for node in nodes {
        of_node(&mut doc, node, now, environment);
    }
    doc
}

fn of_node(doc: &mut Document, node: &NodeView, now: Timestamp, environment: &EnvironmentInfo) {
    doc.blank();
    doc.push(LineKind::Title, node.node.to_string());
    let files = format!("{} of {} files", node.current(), node.files.len());
    let kind = if node.state == NodeState::Current { LineKind::Text } else { LineKind::Warning };
    doc.push(kind, format!("{}: {files} as in the bucket", node.state.word()));
    let ago = |at: Timestamp| {
        format!("{}, {} ago", moment(at, now, environment), time::short(time::seconds_between(at, now)))
    };
    doc.field("last synced", node.synced.map_or_else(|| "never".to_owned(), ago));
    if node.written != node.synced {
        doc.field("last heard of", node.written.map_or_else(|| "never".to_owned(), ago));
    }
    if !node.version.is_empty() {
        doc.field("hostwright", node.version.as_str());
    }
    for problem in &node.problems {
        doc.push(LineKind::Problem, problem.as_str());
    }
    let current = |state: &FileState| *state == FileState::Current;
    for file in node.files.iter().filter(|file| !current(&file.state)) {
        let wanted = file.wanted.as_deref().map_or("none", short);
        let text = format!("{}: {} (has {}, the bucket {wanted})", file.key, file.state.word(), has(file));
        doc.push(LineKind::Warning, text);
    }
    for file in node.files.iter().filter(|file| current(&file.state)) {
        doc.push(LineKind::Foreign, format!("{}  {}", has(file), file.key));
    }
}

fn has(file: &View) -> &str {
    file.version.as_deref().or(file.has.as_deref()).map_or("none", short)
}

fn short(id: &str) -> &str {
    id.char_indices().nth(SHORT).map_or(id, |(at, _)| id.split_at(at).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::manifest::NodeName;

    #[test]
    fn each_node_says_what_it_has_and_since_when() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let file = |key: &str, state, has: &str| View {
            key: key.to_owned(),
            state,
            version: None,
            has: Some(has.to_owned()),
            wanted: Some("0123456789ab".to_owned()),
        };
        let node = NodeView {
            node: NodeName::parse("worker-1").unwrap(),
            state: NodeState::Behind,
            synced: "2026-03-01T11:58:00Z".parse().ok(),
            written: "2026-03-01T11:59:00Z".parse().ok(),
            version: "0.1.0".to_owned(),
            files: vec![
                file("manifests/a.yaml", FileState::Current, "0123456789ab"),
                file("manifests/b.yaml", FileState::Behind, "ffffffffffff"),
            ],
            problems: vec!["b.yaml: no room".to_owned()],
        };
        let environment = crate::app::sample::environment();
        let doc = nodes(&[node], now, &environment);
        let text: Vec<String> =
            doc.lines.iter().map(|line| format!("{}|{}", line.label, line.text)).collect();
        let all = text.join("\n");
        for part in [
            "0 of 1 nodes have all",
            "behind: 1 of 2 files",
            "last synced|11:58:00 UTC, 2m ago",
            "last heard of|11:59:00 UTC, 1m ago",
            "manifests/b.yaml: behind (has ffffffff, the bucket 01234567)",
            "01234567  manifests/a.yaml",
            "no room",
        ] {
            assert!(all.contains(part), "{part}:\n{all}");
        }
        assert!(nodes(&[], now, &environment).lines.iter().any(|line| line.text.contains("hostwright sync")));
    }
}
