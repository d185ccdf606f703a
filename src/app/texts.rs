//! Texts in front of the screen: help, messages, why, what was fetched.

use super::describe;
use super::dialog::{Dialog, TextDialog, TextKind, Verb};
use super::document::{Document, LineKind};
use super::notice::Level;
use super::state::State;
use super::{permit, rights};
use crate::config::{ACTIONS, Scope};
use crate::domain::cluster::ClusterInfo;
use crate::domain::manifest::NodeView;

/// A text in front of the screen.
pub(super) fn text(state: &mut State, kind: TextKind, title: impl Into<String>, doc: Document, copy: String) {
    state.dialogs.push(Dialog::Text(TextDialog { kind, title: title.into(), doc, top: 0, copy }));
    state.touch();
}

/// A text that was fetched.
pub(super) fn shown(state: &mut State, title: String, content: String) {
    let mut doc = Document::default();
    for line in content.lines() {
        doc.push(LineKind::Foreign, line);
    }
    text(state, TextKind::Item, title, doc, content);
}

/// What is known of the cluster.
pub(super) fn cluster(state: &mut State, info: &ClusterInfo) {
    let (doc, copy) = describe::cluster(info, state.now, &state.environment);
    text(state, TextKind::Item, "Cluster", doc, copy);
}

/// Which node has which version of the manifests.
pub(super) fn nodes(state: &mut State, all: &[NodeView]) {
    let doc = super::nodes::nodes(all, state.now, &state.environment);
    let copy = doc.lines.iter().map(|line| format!("{} {}", line.label, line.text).trim().to_owned());
    let copy = copy.collect::<Vec<_>>().join("\n");
    text(state, TextKind::Item, "Manifests on the nodes", doc, copy);
}

/// The keys that count here.
pub(super) fn help(state: &mut State) {
    let scope = state.scope();
    let mut doc = Document::default();
    for part in [scope, Scope::Global] {
        doc.heading(part.title());
        for row in ACTIONS.iter().filter(|r| r.scopes.contains(&part)) {
            let keys: Vec<String> =
                state.keymap.keys(scope, row.action).iter().map(ToString::to_string).collect();
            let off = match (permit::read_only(state, row.action), rights::forbidden(state, row.action)) {
                (Some(_), _) => " (off: read-only)".to_owned(),
                (None, Some(reason)) => format!(" (off: {reason})"),
                (None, None) => String::new(),
            };
            doc.key(keys.join("  "), format!("{}{off}", row.description), off.is_empty());
        }
    }
    doc.heading("In a question");
    for (key, words) in [
        ("y", "yes"),
        ("e", "before an approval: change playbook, branch, groups, tags, limit, variables"),
        ("n  esc", "no"),
        ("tab  arrows", "move between the answers"),
        ("enter", "press the answer"),
    ] {
        doc.key(key, words, true);
    }
    doc.heading("In a filter");
    for (key, words) in [
        ("web9", "letters in this order (fuzzy); several words: all of them"),
        ("!web", "without this word"),
        ("phase:failed", "also phase:ready,failed"),
        ("group:storage", "part of a group's name; also host: address: kind: by:"),
        ("state:changed", "of secrets; also state:both area:locked key:other kind:pem"),
        ("age:<1h", "younger; age:>2d older"),
    ] {
        doc.key(key, words, true);
    }
    text(state, TextKind::Help, "Keys", doc, String::new());
}

/// What happened in this console.
pub(super) fn messages(state: &mut State) {
    let mut doc = Document::default();
    if state.activity.is_empty() {
        doc.push(LineKind::Muted, "Nothing happened yet.");
    }
    let mut copy = String::new();
    for entry in state.activity.iter().rev() {
        let kind = match entry.level {
            Level::Info => LineKind::Text,
            Level::Warning => LineKind::Warning,
            Level::Error => LineKind::Problem,
        };
        let at = describe::moment(entry.at, state.now, &state.environment);
        copy.push_str(&format!("{} {} {}\n", entry.at, entry.text, entry.advice));
        doc.lines.push(super::document::Line { kind, label: at, text: entry.text.clone() });
        for line in entry.advice.lines() {
            doc.lines.push(super::document::Line {
                kind: LineKind::Muted,
                label: String::new(),
                text: line.to_owned(),
            });
        }
    }
    text(state, TextKind::Messages, "Messages", doc, copy);
}

/// Why: the last problem in full while it is on screen, else the row's own reason.
pub(super) fn why(state: &mut State, subject: Option<&str>) {
    let mut doc = Document::default();
    let problem =
        state.last_problem.clone().filter(|_| state.notice.as_ref().is_some_and(|n| n.level == Level::Error));
    let mut copy = String::new();
    if let Some(entry) = problem {
        doc.push(LineKind::Problem, entry.text.as_str());
        doc.foreign(&entry.advice);
        copy = format!("{}\n{}", entry.text, entry.advice);
    }
    for back_end in crate::app::update::BACK_ENDS {
        if let crate::domain::Health::Down { problem, .. } = state.store.health(back_end) {
            doc.heading(back_end.word());
            doc.push(LineKind::Problem, problem.text.as_str());
            doc.foreign(&problem.advice);
            copy.push_str(&format!("{problem}\n"));
        }
    }
    if let Some(run) = subject.and_then(|uid| state.store.run(uid)) {
        doc.blank();
        doc.push(LineKind::Title, describe::title(run));
        let words = describe::why(run, state.now, &state.environment);
        copy.push_str(&words);
        doc.push(LineKind::Text, words);
        if let Some(reason) = state.verdict(&run.uid) {
            doc.push(LineKind::Problem, reason);
            copy.push_str(&format!("\n{reason}"));
        }
        for action in [Verb::Approve, Verb::Retry, Verb::Stop, Verb::Forget] {
            // What the cluster would refuse is told below, of all actions.
            if rights::forbidden(state, action.action()).is_none()
                && let Some(reason) = permit::refusal(state, action, run)
            {
                doc.field(format!("no {}", action.action().info().label), reason);
            }
        }
    }
    if let (super::Screen::Secrets, Some(id)) = (state.screen, subject) {
        super::secrets::why(state, id, &mut doc, &mut copy);
    }
    rights::explain(state, &mut doc, &mut copy);
    if doc.lines.is_empty() {
        doc.push(LineKind::Muted, "Nothing is wrong.");
    }
    text(state, TextKind::Why, "Why", doc, copy);
}
