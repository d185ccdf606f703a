//! What ARA recorded of a run: plays, tasks and results, joined and counted.

use jiff::Timestamp;
use serde::Serialize;

use super::Counts;

/// A playbook's status in ARA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaybookStatus {
    /// Still recording.
    Running,
    /// Every host ended well.
    Completed,
    /// A host failed or was unreachable.
    Failed,
    /// The recording broke off.
    Expired,
}

/// One playbook that ARA recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Playbook {
    /// ARA's id.
    pub id: u64,
    /// Its status.
    pub status: PlaybookStatus,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Its labels.
    pub labels: Vec<String>,
    /// The path of the playbook.
    pub path: String,
}

/// How one task ended on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultStatus {
    /// Failed, and nothing took care of it.
    Failed,
    /// The host could not be reached.
    Unreachable,
    /// Failed, and a rescue block took care of it.
    Rescued,
    /// Failed, and the policy ignores it.
    Ignored,
    /// Something was changed.
    Changed,
    /// Nothing was to do.
    Ok,
    /// Did not apply.
    Skipped,
}

impl ResultStatus {
    /// The word on screen and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unreachable => "unreachable",
            Self::Rescued => "rescued",
            Self::Ignored => "ignored",
            Self::Changed => "changed",
            Self::Ok => "ok",
            Self::Skipped => "skipped",
        }
    }
}

/// One task's result on one host; what a row of a list needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskResult {
    /// ARA's id of the result.
    pub id: u64,
    /// ARA's id of the playbook.
    pub playbook: u64,
    /// The play's name.
    pub play: String,
    /// The role, when the task belongs to one.
    pub role: Option<String>,
    /// The task's name, without the role.
    pub task: String,
    /// The module.
    pub action: String,
    /// The host.
    pub host: String,
    /// How it ended.
    pub status: ResultStatus,
    /// A failed task that changed something first counts as changed too.
    pub changed: bool,
    /// When it started.
    pub started: Option<Timestamp>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Where the task stands in the policy: path and line.
    pub place: String,
}

/// The whole of one result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultDetails {
    /// The row.
    #[serde(flatten)]
    pub result: TaskResult,
    /// What the module said.
    pub message: String,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// The exit code of a command.
    pub rc: Option<i64>,
    /// The exception of a module that broke.
    pub exception: String,
    /// What it changed.
    pub diffs: Vec<FileDiff>,
    /// The task asked for its result not to be recorded.
    pub censored: bool,
    /// All that the module returned, as JSON.
    pub content: serde_json::Value,
}

/// One change, as Ansible's diff mode reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDiff {
    /// What it was called before.
    pub before_header: String,
    /// What it is called now.
    pub after_header: String,
    /// The text before.
    pub before: String,
    /// The text after.
    pub after: String,
    /// A diff that the module prepared itself, instead of before and after.
    pub prepared: String,
}

/// Everything that ARA has of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunResults {
    /// The run's playbooks, oldest first (one an attempt).
    pub playbooks: Vec<Playbook>,
    /// The sum of the recaps of the last playbook's hosts.
    pub counts: Counts,
    /// The results of all playbooks, oldest first.
    pub results: Vec<TaskResult>,
    /// There are more results than are read of one run: some are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The label that ARA's callback gives a run's playbooks, and that they are found by.
#[must_use]
pub fn run_label(uid: &str) -> String {
    format!("run:{uid}")
}

impl RunResults {
    /// Counts as Ansible's recap does: ok includes changed and ignored; rescued failures are not failed.
    #[must_use]
    pub fn count(results: &[TaskResult]) -> Counts {
        let mut counts = Counts::default();
        for result in results {
            match result.status {
                ResultStatus::Ok | ResultStatus::Changed => counts.ok += 1,
                ResultStatus::Ignored => {
                    counts.ok += 1;
                    counts.ignored += 1;
                }
                ResultStatus::Failed => counts.failed += 1,
                ResultStatus::Unreachable => counts.unreachable += 1,
                ResultStatus::Rescued => counts.rescued += 1,
                ResultStatus::Skipped => counts.skipped += 1,
            }
            if result.changed
                && matches!(result.status, ResultStatus::Changed | ResultStatus::Ok | ResultStatus::Ignored)
            {
                counts.changed += 1;
            }
        }
        counts
    }
}
