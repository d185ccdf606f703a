//! Pods of a run, as far as a person wants to know.

use jiff::Timestamp;
use serde::Serialize;

/// One attempt of a run: its pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`, as Kubernetes says it.
    pub phase: String,
    /// Why its container waits or ended; empty when there is nothing to say.
    pub reason: String,
    /// When it was made.
    pub created: Timestamp,
    /// When its container started.
    pub started: Option<Timestamp>,
    /// When its container ended.
    pub finished: Option<Timestamp>,
    /// How its container ended.
    pub exit_code: Option<i32>,
    /// It is being ended.
    pub deleting: bool,
}

impl Pod {
    /// Whether it has a log that can be read.
    #[must_use]
    pub fn has_log(&self) -> bool {
        self.started.is_some() || self.exit_code.is_some()
    }

    /// Whether nothing more comes of it.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.phase == "Succeeded" || self.phase == "Failed"
    }
}

/// One line of a pod's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When the node took it.
    pub at: Option<Timestamp>,
    /// The line without its end, exactly as the program wrote it.
    pub text: Vec<u8>,
    /// Whether its end was read: what is read may end within a line.
    pub whole: bool,
}
