//! What the screens beside hosts and runs list: targets, tokens, the queue, the activity. One kind of row for all of them, so that
//! table, filter, marks and drawing are the same everywhere.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;

use super::describe;
use super::document::{Document, LineKind};
use super::environment::EnvironmentInfo;
use super::filter::{Field, Record, contains};
use super::table::SortKey;
use crate::domain::activity::{Activity, Ending};
use crate::domain::target::Target;

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// The entries of the `scrape-collectd` ConfigMap.
    Targets,
    /// Who did what when.
    Activity,
}

impl Topic {
    /// All of them, in the order of the tabs.
    pub const ALL: [Self; 2] = [Self::Targets, Self::Activity];

    /// What one row is called.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Targets => "target",
            Self::Activity => "line of activity",
        }
    }

    /// The columns that it can be sorted by, in the order of the key.
    #[must_use]
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Targets => &["target", "host", "run"],
            Self::Activity => &["when", "who", "action", "on"],
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A target, or an entry of unknown form.
    Target(Target),
    /// Something that was done.
    Activity(Activity),
}

impl Item {
    /// What tells it from the others of its topic.
    #[must_use]
    pub fn key(&self) -> Arc<str> {
        match self {
            Self::Target(target) => target.unknown.as_ref().map_or(&*target.address, |u| &*u.text).into(),
            Self::Activity(activity) => activity.id.as_str().into(),
        }
    }

    /// What it is sorted by in this column.
    #[must_use]
    pub fn sort_key(&self, column: &str) -> SortKey {
        match (self, column) {
            (Self::Target(t), "host") => text(t.host.as_deref().unwrap_or("~")),
            (Self::Target(t), "run") => text(t.run.as_deref().unwrap_or("~")),
            (Self::Target(t), _) => text(&t.address),
            (Self::Activity(a), "who") => text(&a.who),
            (Self::Activity(a), "action") => text(&a.action),
            (Self::Activity(a), "on") => text(&a.on),
            (Self::Activity(a), _) => SortKey::Number(Reverse(a.at.as_millisecond()).0.saturating_neg()),
        }
    }

    /// What is not as it should be comes before the rest.
    #[must_use]
    pub fn group(&self) -> u8 {
        match self {
            Self::Target(target) => u8::from(target.unknown.is_none()),
            Self::Activity(_) => 0,
        }
    }

    /// What is copied of it: exactly as it is.
    #[must_use]
    pub fn copied(&self) -> String {
        match self {
            Self::Target(target) => {
                target.unknown.as_ref().map_or_else(|| target.address.clone(), |u| u.text.clone())
            }
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
            Self::Activity(_) => Vec::new(),
        }
    }

    /// All of it, to be read.
    #[must_use]
    pub fn document(&self, environment: &EnvironmentInfo, now: Timestamp) -> Document {
        let mut doc = Document::default();
        match self {
            Self::Target(target) => of_target(&mut doc, target),
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

fn text(text: &str) -> SortKey {
    SortKey::Text(text.to_lowercase())
}

impl Record for Item {
    fn name(&self) -> &str {
        match self {
            Self::Target(target) => target.unknown.as_ref().map_or(&*target.address, |u| &*u.text),
            Self::Activity(activity) => &activity.on,
        }
    }

    fn says(&self, word: &str) -> bool {
        contains(self.name(), word)
            || match self {
                Self::Target(_) => self.labels().iter().any(|label| contains(label, word)),
                Self::Activity(a) => [&a.who, &a.action, &a.text].iter().any(|text| contains(text, word)),
            }
    }

    fn has(&self, field: Field, value: &str) -> bool {
        match (self, field) {
            (Self::Target(t), Field::Host) => t.host.as_deref().is_some_and(|h| contains(h, value)),
            (Self::Target(t), Field::Address) => t.address.starts_with(value),
            (Self::Target(_), Field::Label) => self.labels().iter().any(|label| contains(label, value)),
            (Self::Activity(a), Field::By) => contains(&a.who, value),
            (Self::Activity(a), Field::Host) => contains(&a.on, value),
            (Self::Activity(a), Field::Kind) => contains(&a.action, value),
            _ => false,
        }
    }

    fn began(&self) -> Option<Timestamp> {
        match self {
            Self::Target(_) => None,
            Self::Activity(activity) => Some(activity.at),
        }
    }
}
