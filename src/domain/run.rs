//! Runs: one attempt to provision one host, its phase, and the names that it has in Kubernetes.

use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Announcement, Decision, HostName, Mark, Outcome, Parameters, Stop, Verdict, Wait};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It provisions the host.
    Provision,
    /// It says what provisioning would change, and changes nothing.
    Check,
}

impl Kind {
    /// `provision` or `check`: the label's value and the first part of the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Check => "check",
        }
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It waits for a decision.
    Pending,
    /// Approved; its pod is not ready yet.
    Queued,
    /// Its pod runs.
    Running,
    /// Its pod is being ended.
    Stopping,
    /// An operator stopped it.
    Stopped,
    /// It ended badly.
    Failed,
    /// An operator said no.
    Rejected,
    /// The host is provisioned.
    Ready,
}

impl Phase {
    /// All of them, in the order of a table: what needs somebody first.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Queued,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
        Self::Rejected,
        Self::Ready,
    ];

    /// The word on screen, in filters and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Ready => "ready",
        }
    }

    /// True when nothing happens to the run any more by itself.
    #[must_use]
    pub fn finished(self) -> bool {
        matches!(self, Self::Ready | Self::Failed | Self::Rejected | Self::Stopped)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a Job's spec and status say; the phase is read from nothing else.
///
/// Not from the Suspended condition, which lags behind `spec.suspend`, nor from `uncountedTerminatedPods`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobState {
    /// `spec.suspend`.
    pub suspend: bool,
    /// Condition Complete is true.
    pub complete: bool,
    /// Condition Failed is true.
    pub failed: bool,
    /// Condition FailureTarget is true.
    pub failure_target: bool,
    /// `status.ready`.
    pub ready: i32,
    /// `status.active`.
    pub active: i32,
    /// `status.terminating`.
    pub terminating: i32,
    /// The label that says an operator rejected or stopped it.
    pub verdict: Option<Held>,
}

/// Why a Job is held suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It was rejected.
    Rejected,
    /// It was stopped.
    Stopped,
    /// Not for good: it is approved, and waits for a place among the runs that go on.
    Place,
}

impl JobState {
    /// The phase; the first match wins.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if self.complete {
            return Phase::Ready;
        }
        if self.failed || self.failure_target {
            return Phase::Failed;
        }
        if self.suspend {
            return match self.verdict {
                Some(Held::Rejected) => Phase::Rejected,
                Some(Held::Stopped) if self.active > 0 || self.terminating > 0 => Phase::Stopping,
                Some(Held::Stopped) => Phase::Stopped,
                Some(Held::Place) => Phase::Queued,
                None => Phase::Pending,
            };
        }
        if self.ready >= 1 {
            Phase::Running
        } else if self.terminating >= 1 && self.active == 0 {
            Phase::Stopping
        } else {
            Phase::Queued
        }
    }
}

/// A run, as small as a row of a table needs it (about 0.3 KB).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The Job's UID: the run's identity.
    pub uid: String,
    /// The Job's name.
    pub name: String,
    /// The Job's resource version: what a decision is conditional on.
    #[serde(skip)]
    pub resource_version: String,
    /// The host.
    pub host: HostName,
    /// What it is for.
    pub kind: Kind,
    /// The host's first run of this kind is 1.
    pub number: u32,
    /// Where it stands.
    pub phase: Phase,
    /// Why it stands there, when the Job says so; else empty.
    pub reason: String,
    /// When the host first announced itself for this run.
    pub created: Timestamp,
    /// When the host last called.
    pub seen: Timestamp,
    /// When the Job first had a pod.
    pub started: Option<Timestamp>,
    /// When it finished.
    pub finished: Option<Timestamp>,
    /// The announcement's digest.
    pub digest: String,
    /// The boot that the host announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Where the host is reached.
    pub address: Option<IpAddr>,
    /// The branch: the decision's, else the announced one.
    pub branch: Option<String>,
    /// The groups: the decision's, else the announced ones.
    pub groups: Vec<String>,
    /// The first key's algorithm and fingerprint.
    pub key: Option<String>,
    /// The decision, once there is one.
    pub decision: Option<Decision>,
    /// It is approved and waits for a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Wait>,
    /// When its message was confirmed by the broker, or found unnecessary.
    pub delivered: Option<Timestamp>,
    /// How it ended, once `provision` said so.
    pub outcome: Option<Outcome>,
    /// Who stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// An operator wants it retried.
    pub retry: Option<Mark>,
    /// An operator wants it checked first.
    pub check: Option<Mark>,
    /// An operator wants its host forgotten: all runs that are over deleted.
    pub forget: Option<Mark>,
    /// The ids of its playbooks in ARA.
    pub playbooks: Vec<u64>,
    /// How its newest attempt ended that another may mend. It ends nothing: only [`Run::outcome`] does.
    pub last_attempt: Option<Outcome>,
    /// The mark that it was made from.
    #[serde(skip)]
    pub answers: Option<String>,
    /// Its queue is still to be deleted.
    #[serde(skip)]
    pub queue: bool,
    /// The Job is being deleted: it counts as finished.
    pub deleting: bool,
    /// How many pods of it have failed.
    pub failed_pods: u32,
}

impl Run {
    /// True when no more happens to it: a new announcement of its host starts a new run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.deleting || self.phase.finished()
    }

    /// What is known of how it went: the outcome, else the newest attempt that ended without one.
    #[must_use]
    pub fn last_outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref().or(self.last_attempt.as_ref())
    }

    /// True when it has a place among the runs that go on at a time: provisioning or checking, until its pod is gone.
    #[must_use]
    pub fn has_place(&self) -> bool {
        let goes_on = matches!(self.phase, Phase::Queued | Phase::Running | Phase::Stopping);
        goes_on && self.waits.is_none() && !self.is_over()
    }

    /// True when it was approved, has its place, and its message is not known to be with the broker.
    #[must_use]
    pub fn undelivered(&self) -> bool {
        let approved = self.decision.as_ref().is_some_and(|d| d.verdict == Verdict::Approved);
        approved && self.waits.is_none() && self.delivered.is_none() && !self.is_over()
    }
}

/// A run with everything that is written on its Job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDetails {
    /// The row.
    #[serde(flatten)]
    pub run: Run,
    /// What the host said.
    pub announcement: Announcement,
    /// What is applied, once decided.
    pub parameters: Option<Parameters>,
}

/// The newest provision run of each host, sorted by host name.
#[must_use]
pub fn newest_by_host(runs: &[Run]) -> Vec<&Run> {
    let mut newest = std::collections::BTreeMap::new();
    for run in runs.iter().filter(|r| r.kind == Kind::Provision) {
        let slot = newest.entry(&run.host).or_insert(run);
        if (run.number, run.created) > (slot.number, slot.created) {
            *slot = run;
        }
    }
    newest.into_values().collect()
}

/// The part of a run's name that all runs of a host share.
#[must_use]
pub fn run_prefix(kind: Kind, host: &HostName) -> String {
    format!("{}-{}-{}", kind.as_str(), host.slug(), host.hash())
}

/// The Job's name: at most 57 characters, from where on a pod's name would lose its tail.
#[must_use]
pub fn run_name(kind: Kind, host: &HostName, number: u32) -> String {
    format!("{}-{number}", run_prefix(kind, host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Host names as people and machines write them, of any length and in any case.
    fn written() -> impl Strategy<Value = String> {
        let label = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
        let name = format!("({label}\\.){{0,5}}[a-zA-Z]([a-zA-Z0-9-]{{0,61}}[a-zA-Z0-9])?\\.?");
        let names = proptest::string::string_regex(&name).unwrap();
        names.prop_filter("a host name", |name| HostName::parse(name).is_ok())
    }

    proptest! {
        #[test]
        fn every_host_has_a_name_for_its_jobs(name in written(), number in 1..=99_999_u32) {
            let host = HostName::parse(&name).unwrap();
            for kind in [Kind::Provision, Kind::Check] {
                let job = run_name(kind, &host, number);
                prop_assert!(job.len() <= 57, "{job}");
                prop_assert!(job.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{job}");
                prop_assert!(!job.starts_with('-') && !job.ends_with('-'), "{job}");
                // However many runs there are, it stays a name: a Job's may have 63 characters.
                prop_assert!(run_name(kind, &host, u32::MAX).len() <= 63);
                for spelling in [name.to_ascii_uppercase(), name.to_ascii_lowercase()] {
                    prop_assert_eq!(run_name(kind, &HostName::parse(&spelling).unwrap(), number), job.as_str());
                }
            }
        }

        #[test]
        fn two_hosts_never_share_a_name_of_a_job(one in written(), other in written(), cut in 0..60_usize) {
            let long = format!("{}.example.org", "a".repeat(cut + 1));
            let tails = [format!("b.{long}"), format!("c.{long}"), format!("{long}.x"), format!("{long}.y")];
            let hosts: std::collections::BTreeSet<HostName> =
                [one, other].iter().chain(&tails).map(|name| HostName::parse(name).unwrap()).collect();
            // Hyphens and dots look alike in a name.
            let dotted = hosts.iter().filter_map(|host| HostName::parse(&host.as_str().replacen('.', "-", 1)).ok());
            let hosts: std::collections::BTreeSet<HostName> = dotted.chain(hosts.iter().cloned()).collect();
            let names: std::collections::BTreeSet<String> =
                hosts.iter().map(|host| run_name(Kind::Provision, host, 1)).collect();
            prop_assert_eq!(names.len(), hosts.len(), "{:?}", hosts);
        }
    }

    #[test]
    fn the_longest_name_leaves_room_for_the_pods_tail() {
        let host = HostName::parse(&format!("{}.example.org", "a".repeat(60))).unwrap();
        assert!(run_name(Kind::Provision, &host, 99_999).len() <= 57);
    }

    #[test]
    fn phases_as_the_design_has_them() {
        let run = JobState::default();
        let held = |verdict, active| JobState { suspend: true, verdict, active, ..run }.phase();
        assert_eq!(JobState { complete: true, suspend: true, ..run }.phase(), Phase::Ready);
        assert_eq!(JobState { failed: true, suspend: true, ..run }.phase(), Phase::Failed);
        assert_eq!(JobState { failure_target: true, ready: 1, ..run }.phase(), Phase::Failed);
        assert_eq!(held(None, 0), Phase::Pending);
        assert_eq!(held(Some(Held::Rejected), 0), Phase::Rejected);
        assert_eq!(held(Some(Held::Stopped), 0), Phase::Stopped);
        assert_eq!(held(Some(Held::Stopped), 1), Phase::Stopping);
        assert_eq!(held(Some(Held::Place), 0), Phase::Queued);
        assert_eq!(JobState { ready: 1, active: 1, ..run }.phase(), Phase::Running);
        assert_eq!(JobState { terminating: 1, ..run }.phase(), Phase::Stopping);
        assert_eq!(JobState { active: 1, ..run }.phase(), Phase::Queued);
        assert_eq!(run.phase(), Phase::Queued);
    }
}
