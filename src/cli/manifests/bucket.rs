//! `manifests diff`, `push` and `status`: the bucket and the nodes.

use jiff::Timestamp;
use serde::Serialize;

use super::rendered;
use crate::cli::output::Table;
use crate::cli::{Failure, Output, code, fail, say};
use crate::config::Config;
use crate::domain::manifest::{NodeState, NodeView, State};
use crate::domain::secret::{RelativePath, shown};
use crate::domain::text::short_span;
use crate::ops::aws::{Cloud, connect};
use crate::ops::environment::named;
use crate::ops::manifests::{ManifestBucket, Pushed};

async fn open(config: &Config) -> Result<(Cloud, ManifestBucket), Failure> {
    let named = named(config, None)?;
    let cloud = code::asked(async |code| connect(config, &named, code).await).await?;
    let bucket = ManifestBucket::of(&cloud, config, &named);
    Ok((cloud, bucket))
}

/// A file, for programs.
#[derive(Debug, Serialize)]
struct Differing<'a> {
    path: &'a RelativePath,
    state: State,
    diff: String,
}

pub(super) async fn diff(config: &Config, names: &[String], output: Output) -> Result<(), Failure> {
    let files = rendered(config, names)?;
    let (_, bucket) = open(config).await?;
    let compared = bucket.compare(&files, names).await?;
    let mut all = Vec::new();
    for one in compared.iter().filter(|one| one.state != State::Same) {
        // What is only in the bucket stays there: it is named, and no push changes it.
        let diff = match one.state {
            State::OnlyThere => String::new(),
            _ => bucket.difference(one, &files).await?,
        };
        all.push(Differing { path: &one.path, state: one.state, diff });
    }
    match output {
        Output::Table => {
            all.iter()
                .filter(|one| !one.diff.is_empty())
                .try_for_each(|one| say(one.diff.trim_end_matches('\n')))?;
            let only_there = all.iter().filter(|one| one.state == State::OnlyThere);
            only_there.for_each(|one| {
                fail(&format!("{} is only in the bucket, and a push leaves it there", one.path));
            });
        }
        _ => output.print(&all, |_| Table::pairs())?,
    }
    if all.iter().any(|one| one.state.is_pushed()) { Err(Failure::said(1)) } else { Ok(()) }
}

/// A file that was to be pushed, for programs.
#[derive(Debug, Serialize)]
struct Told<'a> {
    path: &'a RelativePath,
    state: State,
    pushed: bool,
    error: Option<String>,
}

pub(super) async fn push(config: &Config, names: &[String], output: Output) -> Result<(), Failure> {
    let files = rendered(config, names)?;
    let (cloud, bucket) = open(config).await?;
    let compared = bucket.compare(&files, names).await?;
    let pushed = bucket.push(compared, &files, &cloud.signature().await?).await?;
    let told = |one: &'_ Pushed| -> (bool, Option<String>) {
        (
            matches!(one.outcome, Ok(true)),
            one.outcome.as_ref().err().map(|error| error.problem("").to_string()),
        )
    };
    match output {
        Output::Table => {
            for one in &pushed {
                match (told(one), one.state) {
                    ((true, _), state) => say(&format!("pushed {} ({})", one.path, state.words()))?,
                    ((_, Some(error)), _) => fail(&format!("{}: {error}", one.path)),
                    (_, State::OnlyThere) => {
                        fail(&format!("{} is only in the bucket, and stays there", one.path));
                    }
                    _ => {}
                }
            }
            let count = pushed.iter().filter(|one| told(one).0).count();
            let same = pushed.iter().filter(|one| one.state == State::Same).count();
            say(&format!("{count} pushed to {}, {same} as they were", shown(bucket.name())))?;
        }
        _ => {
            let all = pushed.iter().map(|one| {
                let (pushed, error) = told(one);
                Told { path: &one.path, state: one.state, pushed, error }
            });
            output.print(&all.collect::<Vec<_>>(), |_| Table::pairs())?;
        }
    }
    // The worst of them: refused is worse than failed.
    let failures =
        pushed.into_iter().filter_map(|one| one.outcome.err()).map(|error| Failure::from(error).code);
    failures.max().map_or(Ok(()), |code| Err(Failure::said(code)))
}

pub(super) async fn status(config: &Config, names: &[String], output: Output) -> Result<(), Failure> {
    let (_, bucket) = open(config).await?;
    let all = bucket.nodes().await?;
    let unknown: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !all.iter().any(|node| node.node.as_str() == *name))
        .collect();
    if !unknown.is_empty() {
        let text = format!("no node of that name has said anything: {}", unknown.join(", "));
        return Err(Failure { text, code: 3 });
    }
    let wanted = |node: &&NodeView| names.is_empty() || names.iter().any(|name| name == node.node.as_str());
    let nodes: Vec<&NodeView> = all.iter().filter(wanted).collect();
    output.print(&nodes, |nodes| if names.is_empty() { of_nodes(nodes) } else { of_files(nodes) })?;
    if output == Output::Table {
        if nodes.is_empty() {
            fail("no node has said anything yet: `hostwright sync` on a node does");
        }
        for node in &nodes {
            node.problems.iter().for_each(|problem| fail(&format!("{}: {problem}", node.node)));
        }
    }
    if nodes.iter().all(|node| node.state == NodeState::Current) { Ok(()) } else { Err(Failure::said(1)) }
}

fn age(at: Option<Timestamp>) -> String {
    let span = |at: Timestamp| short_span(Timestamp::now().as_second() - at.as_second());
    at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", span(at)))
}

fn of_nodes(nodes: &[&NodeView]) -> Table {
    let mut table = Table::new(&["NODE", "STATE", "SYNCED", "SAID", "FILES", "HOSTWRIGHT"]);
    for node in nodes {
        let files = format!("{}/{}", node.current(), node.files.len());
        let (name, version) = (node.node.to_string(), node.version.clone());
        table.row([name, node.state.word().to_owned(), age(node.synced), age(node.written), files, version]);
    }
    table
}

fn of_files(nodes: &[&NodeView]) -> Table {
    let mut table = Table::new(&["NODE", "FILE", "STATE", "VERSION", "HAS", "BUCKET"]);
    for node in nodes {
        for file in &node.files {
            let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let name = node.node.to_string();
            let (version, has, wanted) = (or_none(&file.version), or_none(&file.has), or_none(&file.wanted));
            table.row([name, shown(&file.key), file.state.word().to_owned(), version, has, wanted]);
        }
    }
    table
}
