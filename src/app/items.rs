//! What the screens beside hosts and runs list: targets, tokens, the queue, the activity. One kind of row for all of them, so that
//! table, filter, marks and drawing are the same everywhere.

use std::sync::Arc;

use jiff::Timestamp;

use super::describe;
use super::document::{Document, LineKind};
use super::environment::EnvironmentInfo;
use super::filter::{Field, Record, contains};
use super::table::SortKey;
use crate::domain::activity::{Activity, Ending};
use crate::domain::queue::{DeadLetter, RunQueue};
use crate::domain::target::Target;
use crate::domain::{Phase, Token};

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// The entries of the `scrape-collectd` ConfigMap.
    Targets,
    /// Bootstrap tokens.
    Tokens,
    /// The runs' queues, and the dead letters.
    Queue,
    /// Who did what when.
    Activity,
}

impl Topic {
    /// All of them, in the order of the tabs.
    pub const ALL: [Self; 4] = [Self::Targets, Self::Tokens, Self::Queue, Self::Activity];

    /// What one row is called.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Targets => "target",
            Self::Tokens => "token",
            Self::Queue => "queue",
            Self::Activity => "line of activity",
        }
    }

    /// The columns that it can be sorted by, in the order of the key.
    #[must_use]
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Targets => &["target", "host", "run"],
            Self::Tokens => &["expires", "token", "description"],
            Self::Queue => &["queue", "host", "messages"],
            Self::Activity => &["when", "who", "action", "on"],
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A target, or an entry of unknown form.
    Target(Target),
    /// A bootstrap token, or what only looks like one.
    Token(Token),
    /// The queue of a run.
    Queue(RunQueue),
    /// A message that could not be used.
    Letter(DeadLetter),
    /// Something that was done.
    Activity(Activity),
}

impl Item {
    /// What tells it from the others of its topic.
    #[must_use]
    pub fn key(&self) -> Arc<str> {
        match self {
            Self::Target(target) => target.unknown.as_ref().map_or(&*target.address, |u| &*u.text).into(),
            Self::Token(token) => token.name.as_str().into(),
            Self::Queue(queue) => queue.queue.as_str().into(),
            Self::Letter(letter) => format!("letter {}", letter.id).into(),
            Self::Activity(activity) => activity.id.as_str().into(),
        }
    }

    /// What it is sorted by in this column.
    #[must_use]
    pub fn sort_key(&self, column: &str) -> SortKey<'_> {
        match (self, column) {
            (Self::Target(t), "host") => text(t.host.as_deref().unwrap_or("~")),
            (Self::Target(t), "run") => text(t.run.as_deref().unwrap_or("~")),
            (Self::Target(t), _) => text(&t.address),
            (Self::Token(t), "token") => text(&t.id),
            (Self::Token(t), "description") => text(&t.description),
            // What ends first comes first, what never ends last.
            (Self::Token(t), _) => SortKey::Number(t.expires.map_or(i64::MAX, Timestamp::as_second)),
            (Self::Queue(q), "messages") => {
                SortKey::Number(q.state.map_or(1, |state| -i64::from(state.messages)))
            }
            (Self::Queue(q), "host") => text(q.host.as_str()),
            (Self::Queue(q), _) => text(&q.run),
            (Self::Letter(l), "host") => text(l.host.as_deref().unwrap_or("~")),
            (Self::Letter(l), _) => SortKey::Text(l.id.as_str().into()),
            (Self::Activity(a), "who") => text(&a.who),
            (Self::Activity(a), "action") => text(&a.action),
            (Self::Activity(a), "on") => text(&a.on),
            (Self::Activity(a), _) => SortKey::Number(-a.at.as_millisecond()),
        }
    }

    /// What is not as it should be comes before the rest.
    #[must_use]
    pub fn group(&self) -> u8 {
        match self {
            Self::Target(target) => u8::from(target.unknown.is_none()),
            Self::Token(token) => u8::from(token.malformed.is_empty()),
            Self::Queue(_) => 1,
            Self::Letter(_) | Self::Activity(_) => 0,
        }
    }

    /// What is copied of it: exactly as it is.
    #[must_use]
    pub fn copied(&self) -> String {
        match self {
            Self::Target(target) => {
                target.unknown.as_ref().map_or_else(|| target.address.clone(), |u| u.text.clone())
            }
            Self::Token(token) => token.id.clone(),
            Self::Queue(queue) => queue.queue.clone(),
            Self::Letter(letter) => letter.id.clone(),
            Self::Activity(a) => {
                format!("{} {} {} {} {}: {}", a.at, a.who, a.action, a.on, a.outcome.word(), a.text)
            }
        }
    }

    /// Its labels, as they are typed.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        match self {
            Self::Target(target) => {
                target.labels.iter().map(|(name, value)| format!("{name}={value}")).collect()
            }
            _ => Vec::new(),
        }
    }

    /// All of it, to be read.
    #[must_use]
    pub fn document(&self, environment: &EnvironmentInfo, now: Timestamp) -> Document {
        let mut doc = Document::default();
        match self {
            Self::Target(target) => of_target(&mut doc, target),
            Self::Token(token) => of_token(&mut doc, token, environment, now),
            Self::Queue(queue) => of_queue(&mut doc, queue, environment, now),
            Self::Letter(letter) => of_letter(&mut doc, letter, environment, now),
            Self::Activity(a) => {
                doc.field("when", describe::moment(a.at, now, environment));
                doc.field("who", a.who.as_str());
                doc.field("action", a.action.as_str());
                doc.field("on", a.on.as_str());
                let kind = if a.outcome == Ending::Done { LineKind::Text } else { LineKind::Problem };
                doc.field("outcome", a.outcome.word());
                doc.blank();
                doc.push(kind, a.text.as_str());
            }
        }
        doc
    }
}

fn of_target(doc: &mut Document, target: &Target) {
    if let Some(unknown) = &target.unknown {
        doc.push(
            LineKind::Warning,
            format!("An entry of unknown form: {}. It is kept as it is.", unknown.reason),
        );
        doc.blank();
        doc.foreign(&unknown.text);
        return;
    }
    doc.field("target", target.address.as_str());
    doc.field("host", target.host.as_deref().unwrap_or("not known"));
    let run = match (&target.run, target.guessed) {
        (Some(run), true) => format!("{run} (the host's newest ready run: the entry does not say)"),
        (Some(run), false) => run.clone(),
        (None, _) => "not known".to_owned(),
    };
    doc.field("run", run);
    doc.heading("labels");
    for (name, value) in &target.labels {
        doc.field(name.as_str(), value.as_str());
    }
}

fn of_token(doc: &mut Document, token: &Token, environment: &EnvironmentInfo, now: Timestamp) {
    for reason in &token.malformed {
        doc.push(LineKind::Problem, format!("It is no token: {reason}."));
    }
    doc.blank();
    doc.field("token", token.id.as_str());
    doc.field("secret", format!("kube-system/{}", token.name));
    let expires = token.expires.map(|at| describe::moment(at, now, environment));
    doc.field(
        "expires",
        expires.unwrap_or_else(|| "never: better revoke it and mint one that does".to_owned()),
    );
    doc.field("usages", token.usages.join(", "));
    for group in &token.groups {
        doc.field("group", group.as_str());
    }
    doc.field("what for", token.description.as_str());
}

fn of_queue(doc: &mut Document, queue: &RunQueue, environment: &EnvironmentInfo, now: Timestamp) {
    doc.field("queue", queue.queue.as_str());
    doc.field("run", queue.run.as_str());
    doc.field("host", queue.host.as_str());
    doc.field("phase", queue.phase.as_str());
    let delivered = queue.delivered.map(|at| describe::moment(at, now, environment));
    doc.field("delivered", delivered.unwrap_or_else(|| "not yet".to_owned()));
    match queue.state {
        None => doc.field("state", "there is no such queue"),
        Some(state) => {
            doc.field("messages", format!("{} waiting; one that a pod holds is not counted", state.messages));
            doc.field("consumers", state.consumers.to_string());
        }
    }
}

fn of_letter(doc: &mut Document, letter: &DeadLetter, environment: &EnvironmentInfo, now: Timestamp) {
    doc.push(LineKind::Problem, letter.reason.as_str());
    doc.blank();
    doc.field("letter", letter.id.as_str());
    let unknown = || "not known: the message cannot be read".to_owned();
    doc.field("run", letter.name.clone().or_else(|| letter.run.clone()).unwrap_or_else(unknown));
    doc.field("host", letter.host.clone().unwrap_or_else(unknown));
    if let Some(at) = letter.at {
        doc.field("since", describe::moment(at, now, environment));
    }
    doc.field("size", format!("{} bytes", letter.size));
}

fn text(text: &str) -> SortKey<'_> {
    SortKey::Text(text.to_lowercase().into())
}

impl Record for Item {
    fn name(&self) -> &str {
        match self {
            Self::Target(target) => target.unknown.as_ref().map_or(&*target.address, |u| &*u.text),
            Self::Token(token) => &token.id,
            Self::Queue(queue) => &queue.run,
            Self::Letter(letter) => letter.name.as_deref().unwrap_or(&letter.id),
            Self::Activity(activity) => &activity.on,
        }
    }

    fn says(&self, word: &str) -> bool {
        contains(self.name(), word)
            || match self {
                Self::Target(_) => self.labels().iter().any(|label| contains(label, word)),
                Self::Token(t) => {
                    contains(&t.description, word) || t.groups.iter().any(|group| contains(group, word))
                }
                Self::Queue(q) => contains(q.host.as_str(), word),
                Self::Letter(l) => {
                    contains(&l.reason, word) || l.host.as_deref().is_some_and(|host| contains(host, word))
                }
                Self::Activity(a) => [&a.who, &a.action, &a.text].iter().any(|text| contains(text, word)),
            }
    }

    fn has(&self, field: Field, value: &str) -> bool {
        match (self, field) {
            (Self::Target(t), Field::Host) => t.host.as_deref().is_some_and(|h| contains(h, value)),
            (Self::Target(t), Field::Address) => t.address.starts_with(value),
            (Self::Target(_), Field::Label) => self.labels().iter().any(|label| contains(label, value)),
            (Self::Token(t), Field::Group) => t.groups.iter().any(|group| contains(group, value)),
            (Self::Queue(q), Field::Host) => contains(q.host.as_str(), value),
            (Self::Letter(l), Field::Host) => l.host.as_deref().is_some_and(|h| contains(h, value)),
            (Self::Letter(_), Field::Kind) => "letter".starts_with(value),
            (Self::Queue(_), Field::Kind) => "queue".starts_with(value),
            (Self::Activity(a), Field::By) => contains(&a.who, value),
            (Self::Activity(a), Field::Host) => contains(&a.on, value),
            (Self::Activity(a), Field::Kind) => contains(&a.action, value),
            _ => false,
        }
    }

    fn began(&self) -> Option<Timestamp> {
        match self {
            Self::Target(_) | Self::Token(_) => None,
            Self::Queue(queue) => queue.delivered,
            Self::Letter(letter) => letter.at,
            Self::Activity(activity) => Some(activity.at),
        }
    }

    fn phase(&self) -> Option<Phase> {
        match self {
            Self::Queue(queue) => Some(queue.phase),
            _ => None,
        }
    }
}
