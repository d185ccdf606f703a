//! ARA's objects as they come over the wire, as far as we read them. Unknown fields are ignored; what another version may lack
//! has a default.

use jiff::Timestamp;
use serde::Deserialize;

use crate::domain::results::{Playbook, PlaybookStatus};

/// An object of a list, known by its id.
pub(super) trait Row {
    fn id(&self) -> u64;
}

macro_rules! rows {
    ($($name:ident),*) => {
        $(impl Row for $name {
            fn id(&self) -> u64 {
                self.id
            }
        })*
    };
}

rows!(RawPlaybook, RawPlay, RawTask, RawHost, RawResult);

/// A playbook, in lists and inside a result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct RawPlaybook {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) items: Items,
    #[serde(default)]
    status: RawPlaybookStatus,
    #[serde(default)]
    started: Option<Timestamp>,
    #[serde(default)]
    ended: Option<Timestamp>,
    #[serde(default)]
    labels: Vec<Label>,
    #[serde(default)]
    path: Option<String>,
}

/// How many objects a playbook has so far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub(super) struct Items {
    #[serde(default)]
    pub(super) results: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Label {
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawPlaybookStatus {
    Running,
    Completed,
    Failed,
    Expired,
    #[default]
    #[serde(other)]
    Unknown,
}

impl RawPlaybook {
    pub(super) fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|l| l.name.eq_ignore_ascii_case(label))
    }

    /// Ansible has ended it, and written the hosts' counters.
    pub(super) fn over(&self) -> bool {
        matches!(self.status, RawPlaybookStatus::Completed | RawPlaybookStatus::Failed)
    }

    /// Nothing more is recorded.
    pub(super) fn closed(&self) -> bool {
        self.over() || self.status == RawPlaybookStatus::Expired
    }

    pub(super) fn into_playbook(self) -> Playbook {
        Playbook {
            id: self.id,
            status: match self.status {
                RawPlaybookStatus::Completed => PlaybookStatus::Completed,
                RawPlaybookStatus::Failed => PlaybookStatus::Failed,
                RawPlaybookStatus::Expired => PlaybookStatus::Expired,
                // The callback sets none of its own before it starts.
                RawPlaybookStatus::Running | RawPlaybookStatus::Unknown => PlaybookStatus::Running,
            },
            started: self.started,
            ended: self.ended,
            labels: self.labels.into_iter().map(|l| l.name).collect(),
            path: self.path.unwrap_or_default(),
        }
    }
}

/// A play.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RawPlay {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) name: Option<String>,
}

/// A task.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RawTask {
    pub(super) id: u64,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    pub(super) action: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    lineno: Option<u64>,
}

impl RawTask {
    /// The role, when it belongs to one, and the name without it.
    ///
    /// ARA has both in one text, `role : task`, and a task's own name may hold a colon. A role's tasks lie in a folder of its name;
    /// the role of a collection is called `namespace.collection.role`.
    pub(super) fn role_and_name(&self) -> (Option<String>, String) {
        let full = self.name.as_deref().unwrap_or_default();
        let path = self.path.as_deref().unwrap_or_default();
        let lies_in = |role: &str| !role.is_empty() && path.contains(&format!("/{role}/"));
        match full.split_once(" : ") {
            Some((role, name)) if lies_in(role) || role.rsplit('.').next().is_some_and(lies_in) => {
                (Some(role.to_owned()), name.to_owned())
            }
            _ if full.is_empty() => (None, self.action.clone().unwrap_or_default()),
            _ => (None, full.to_owned()),
        }
    }

    /// Path and line.
    pub(super) fn place(&self) -> String {
        match (&self.path, self.lineno) {
            (Some(path), Some(line)) => format!("{path}:{line}"),
            (Some(path), None) => path.clone(),
            (None, _) => String::new(),
        }
    }
}

/// A host, with Ansible's own counters, which are written when the playbook is over.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RawHost {
    pub(super) id: u64,
    pub(super) name: String,
    #[serde(default)]
    pub(super) ok: u32,
    #[serde(default)]
    pub(super) changed: u32,
    #[serde(default)]
    pub(super) failed: u32,
    #[serde(default)]
    pub(super) skipped: u32,
    #[serde(default)]
    pub(super) unreachable: u32,
}

/// A result of a list.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RawResult {
    pub(super) id: u64,
    pub(super) play: u64,
    pub(super) task: u64,
    pub(super) host: u64,
    #[serde(flatten)]
    pub(super) how: How,
}

/// What a result says of itself, in lists and alone.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct How {
    pub(super) status: Status,
    #[serde(default)]
    pub(super) changed: bool,
    #[serde(default)]
    ignore_errors: bool,
    #[serde(default)]
    pub(super) started: Option<Timestamp>,
    #[serde(default)]
    ended: Option<Timestamp>,
}

/// A result's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Changed,
    Skipped,
    Failed,
    Ignored,
    Unreachable,
    /// None that we know: shown as a failure, so that somebody looks.
    #[serde(other)]
    Unknown,
}

impl How {
    /// The status; before 1.8 an ignored failure was a failure with a flag.
    pub(super) fn status(&self) -> Status {
        match self.status {
            Status::Failed | Status::Unknown if self.ignore_errors => Status::Ignored,
            Status::Unknown => Status::Failed,
            Status::Ok if self.changed => Status::Changed,
            other => other,
        }
    }

    pub(super) fn duration_ms(&self) -> u64 {
        let span = self.started.zip(self.ended).map(|(from, to)| to.duration_since(from).as_millis());
        span.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0)
    }
}

/// One result alone: everything that it refers to is in it.
#[derive(Debug, Deserialize)]
pub(super) struct RawDetails {
    pub(super) id: u64,
    pub(super) playbook: RawPlaybook,
    pub(super) play: RawPlay,
    pub(super) task: RawTask,
    pub(super) host: RawHost,
    #[serde(flatten)]
    pub(super) how: How,
    #[serde(default)]
    pub(super) content: serde_json::Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, path: &str) -> (Option<String>, String) {
        let json = serde_json::json!({"id": 1, "name": name, "action": "debug", "path": path, "lineno": 7});
        let task: RawTask = serde_json::from_value(json).unwrap();
        assert_eq!(task.place(), format!("{path}:7"));
        task.role_and_name()
    }

    #[test]
    fn roles_are_told_from_colons() {
        let own = |role: &str, name: &str| (Some(role.to_owned()), name.to_owned());
        let none = |name: &str| (None, name.to_owned());
        assert_eq!(task("web : Write", "/p/roles/web/tasks/main.yml"), own("web", "Write"));
        assert_eq!(task("web : a : b", "/p/roles/web/handlers/main.yml"), own("web", "a : b"));
        assert_eq!(task("ns.c.web : W", "/c/ns/c/roles/web/tasks/main.yml"), own("ns.c.web", "W"));
        assert_eq!(task("a.docker : W", "/p/roles/a.docker/tasks/main.yml"), own("a.docker", "W"));
        assert_eq!(task("web : Write", "/p/site.yml"), none("web : Write"));
        assert_eq!(task(" : Write", "/p/site.yml"), none(" : Write"));
        assert_eq!(task("Write", "/p/roles/web/tasks/main.yml"), none("Write"));
        assert_eq!(task("", "/p/site.yml"), none("debug"));
    }

    #[test]
    fn the_status_of_other_versions() {
        let how = |json| serde_json::from_value::<How>(json).unwrap().status();
        assert_eq!(how(serde_json::json!({"status": "failed", "ignore_errors": true})), Status::Ignored);
        assert_eq!(how(serde_json::json!({"status": "ok", "changed": true})), Status::Changed);
        assert_eq!(how(serde_json::json!({"status": "new"})), Status::Failed);
    }
}
