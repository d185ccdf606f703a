//! How a run is written on a Job: the labels and annotations, and how they are read back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::run::Held;
use super::{
    Announcement, Decision, HostName, JobState, Kind, Mark, Outcome, Parameters, Phase, Run, RunDetails,
    Stop, Verdict, Wait,
};

/// Label: who made the Job. Its value is [`MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "hostwright";
/// Label: `provision` or `check`.
pub const KIND: &str = "hostwright.dev/kind";
/// Label: the host name's hash (a label's value ends at 63 characters, a host name at 253).
pub const HOST_HASH: &str = "hostwright.dev/host";
/// Label: `rejected` or `stopped`, on a Job that is suspended for good; `place` on one that is approved and waits for its place.
pub const HELD: &str = "hostwright.dev/held";
/// Annotation: the true host name.
pub const HOST: &str = "hostwright.dev/host";
/// Annotation: the run's number among those of its host and kind.
pub const NUMBER: &str = "hostwright.dev/number";
/// Annotation: the announcement, as JSON.
pub const ANNOUNCEMENT: &str = "hostwright.dev/announcement";
/// Annotation: the announcement's digest.
pub const DIGEST: &str = "hostwright.dev/digest";
/// Annotation: when the host last called.
pub const SEEN: &str = "hostwright.dev/last-seen";
/// Annotation: the boot that the host last called from, when that is not the announced one any more.
pub const BOOT: &str = "hostwright.dev/boot";
/// Annotation: a [`Stop`], who ended the run and when.
pub const STOP: &str = "hostwright.dev/stop";
/// Annotation: `approved` or `rejected`.
pub const DECISION: &str = "hostwright.dev/decision";
/// Annotation: a [`Wait`], since when an approved run waits for a place; it stays when the run has one.
pub const WAITS: &str = "hostwright.dev/waits";
/// Annotation: who decided.
pub const DECIDED_BY: &str = "hostwright.dev/decided-by";
/// Annotation: when it was decided.
pub const DECIDED_AT: &str = "hostwright.dev/decided-at";
/// Annotation: the parameters, as JSON.
pub const PARAMETERS: &str = "hostwright.dev/parameters";
/// Annotation: when the broker confirmed the message; also set where no message is needed.
pub const DELIVERED: &str = "hostwright.dev/delivered";
/// Annotation: why the message of an approved run is not with the broker yet, in a sentence; it goes with the delivery.
pub const DELIVERY_PROBLEM: &str = "hostwright.dev/delivery-problem";
/// Annotation: the outcome, as JSON.
pub const OUTCOME: &str = "hostwright.dev/outcome";
/// Annotation: how the newest attempt ended that another may mend, as JSON. For people only: it ends nothing.
pub const LAST_ATTEMPT: &str = "hostwright.dev/last-attempt";
/// Annotation: the ids of the run's playbooks in ARA, with commas.
pub const PLAYBOOKS: &str = "hostwright.dev/ara-playbooks";
/// Annotation: a [`Mark`] that asks for a retry.
pub const RETRY: &str = "hostwright.dev/retry";
/// Annotation: a [`Mark`] that asks for a check.
pub const CHECK: &str = "hostwright.dev/check";
/// Annotation: a [`Mark`] that asks to delete all runs of the host that are over.
pub const FORGET: &str = "hostwright.dev/forget";
/// Annotation: the mark that the run was made from, so that a mark is answered once; see [`answer_id`].
pub const ANSWERS: &str = "hostwright.dev/answers";
/// Finalizer: the run's queue is still to be deleted.
pub const QUEUE_FINALIZER: &str = "hostwright.dev/queue";

/// What is read of a Job, whatever client brought it.
#[derive(Debug, Clone)]
pub struct JobRecord<'a> {
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.resourceVersion`.
    pub resource_version: &'a str,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.labels`.
    pub labels: &'a BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: &'a BTreeMap<String, String>,
    /// `metadata.finalizers`.
    pub finalizers: &'a [String],
    /// Spec and status, without [`JobState::verdict`], which is read from the labels here.
    pub state: JobState,
    /// The message of the condition that ended it, or that holds it up.
    pub reason: String,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// `status.completionTime`, or when it failed.
    pub finished: Option<Timestamp>,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
    /// `status.failed`.
    pub failed_pods: u32,
}

/// A Job that carries our label but cannot be read as a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Job {job} is not a run: annotation {key} {what}")]
pub struct RecordError {
    /// The Job's name.
    pub job: String,
    /// The annotation.
    pub key: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl JobRecord<'_> {
    /// The whole run.
    ///
    /// # Errors
    /// When an annotation that a run cannot do without is missing, or one is malformed.
    pub fn read(&self) -> Result<RunDetails, RecordError> {
        let announcement: Announcement =
            self.json(ANNOUNCEMENT)?.ok_or_else(|| self.error(ANNOUNCEMENT, "is missing"))?;
        let parameters: Option<Parameters> = self.json(PARAMETERS)?;
        let host = HostName::parse(self.text(HOST).unwrap_or_default())
            .map_err(|e| self.error(HOST, &e.to_string()))?;
        if host != announcement.host {
            return Err(self.error(HOST, "is not the announcement's host"));
        }
        let state = JobState { verdict: self.held(), ..self.state };
        let outcome: Option<Outcome> = self.json(OUTCOME)?;
        let phase = match state.phase() {
            // The work is done and the Job is about to say so: between its pod's end and that there is a moment with neither.
            Phase::Queued if outcome.is_some() => Phase::Running,
            phase => phase,
        };
        // What the cluster says of a Job comes first. A pod that runs waits for the message too.
        let decision = self.decision()?;
        let waits = self.waits(&state, phase, decision.as_ref());
        let undelivered = matches!(phase, Phase::Queued | Phase::Running | Phase::Stopping)
            && outcome.is_none()
            && self.text(DELIVERED).is_none();
        let reason = match (&waits, self.text(DELIVERY_PROBLEM)) {
            (Some(wait), _) if self.reason.is_empty() => wait.words(),
            (None, Some(problem)) if undelivered && self.reason.is_empty() => problem.to_owned(),
            _ => self.reason.clone(),
        };
        let groups = parameters.as_ref().map_or(&announcement.groups, |p| &p.groups).clone();
        let branch =
            parameters.as_ref().and_then(|p| p.branch.clone()).or_else(|| announcement.branch.clone());
        let run = Run {
            uid: self.uid.to_owned(),
            name: self.name.to_owned(),
            resource_version: self.resource_version.to_owned(),
            host,
            kind: self.kind(),
            number: self.text(NUMBER).and_then(|n| n.parse().ok()).unwrap_or(0),
            phase,
            reason,
            created: self.created,
            seen: self.time(SEEN)?.unwrap_or(self.created),
            started: self.started,
            finished: self.finished,
            digest: announcement.digest(),
            boot: self.text(BOOT).map(str::to_owned).or_else(|| announcement.boot.clone()),
            address: announcement.address,
            branch,
            groups,
            key: announcement.keys.first().map(|k| format!("{} {}", k.algorithm(), k.fingerprint())),
            decision,
            waits,
            delivered: self.time(DELIVERED)?,
            outcome,
            stop: self.json::<Stop>(STOP)?,
            retry: self.json::<Mark>(RETRY)?,
            check: self.json::<Mark>(CHECK)?,
            forget: self.json::<Mark>(FORGET)?,
            playbooks: self.playbooks(),
            last_attempt: self.last_attempt(),
            answers: self.text(ANSWERS).map(str::to_owned),
            queue: self.finalizers.iter().any(|f| f == QUEUE_FINALIZER),
            deleting: self.deleting,
            failed_pods: self.failed_pods,
        };
        Ok(RunDetails { run, announcement, parameters })
    }

    fn kind(&self) -> Kind {
        if self.labels.get(KIND).is_some_and(|k| k == Kind::Check.as_str()) {
            Kind::Check
        } else {
            Kind::Provision
        }
    }

    fn held(&self) -> Option<Held> {
        match self.labels.get(HELD).map(String::as_str) {
            Some("rejected") => Some(Held::Rejected),
            Some("stopped") => Some(Held::Stopped),
            Some("place") => Some(Held::Place),
            _ => None,
        }
    }

    fn decision(&self) -> Result<Option<Decision>, RecordError> {
        let verdict = match self.text(DECISION) {
            None | Some("" | "pending") => return Ok(None),
            Some("approved") => Verdict::Approved,
            Some("rejected") => Verdict::Rejected,
            Some(_) => return Err(self.error(DECISION, "is neither approved nor rejected")),
        };
        let by = self.text(DECIDED_BY).unwrap_or("unknown").to_owned();
        Ok(Some(Decision { verdict, by, at: self.time(DECIDED_AT)?.unwrap_or(self.created) }))
    }

    /// What a run that waits for its place says. One that cannot be read waits since its approval.
    fn waits(&self, state: &JobState, phase: Phase, decision: Option<&Decision>) -> Option<Wait> {
        let waits = state.suspend && state.verdict == Some(Held::Place) && phase == Phase::Queued;
        let note = || self.text(WAITS).and_then(|text| serde_json::from_str(text).ok());
        let since = || decision.map_or(self.created, |d| d.at);
        waits.then(|| note().unwrap_or_else(|| Wait { since: since(), of: 0 }))
    }

    /// Only a note: one that cannot be read must not make the run unreadable.
    fn last_attempt(&self) -> Option<Outcome> {
        self.text(LAST_ATTEMPT).and_then(|text| serde_json::from_str(text).ok())
    }

    fn playbooks(&self) -> Vec<u64> {
        self.text(PLAYBOOKS).unwrap_or_default().split(',').filter_map(|id| id.trim().parse().ok()).collect()
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    fn time(&self, key: &'static str) -> Result<Option<Timestamp>, RecordError> {
        self.text(key).map(|t| t.parse().map_err(|_| self.error(key, "is not an RFC 3339 time"))).transpose()
    }

    fn json<T: DeserializeOwned>(&self, key: &'static str) -> Result<Option<T>, RecordError> {
        self.text(key)
            .map(|t| serde_json::from_str(t).map_err(|e| self.error(key, &format!("cannot be read: {e}"))))
            .transpose()
    }

    fn error(&self, key: &'static str, what: &str) -> RecordError {
        RecordError { job: self.name.to_owned(), key, what: what.to_owned() }
    }
}

/// A time as it is written in annotations: UTC, RFC 3339, whole seconds.
#[must_use]
pub fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What a run that answers a mark says in [`ANSWERS`]: the marked run, the annotation and the mark's time.
#[must_use]
pub fn answer_id(uid: &str, key: &str, mark: &Mark) -> String {
    format!("{uid} {key} {}", stamp(mark.at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Counts, ExitCode, RawAnnouncement};

    fn announcement() -> Announcement {
        RawAnnouncement {
            hostname: "web-1.example.org".into(),
            groups: vec!["web".into()],
            ..RawAnnouncement::default()
        }
        .check()
        .unwrap()
    }

    fn read(annotations: &[(&str, &str)], labels: &[(&str, &str)]) -> Result<RunDetails, RecordError> {
        let own =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (annotations, labels): (BTreeMap<_, _>, BTreeMap<_, _>) = (own(annotations), own(labels));
        record(&annotations, &labels, JobState { suspend: true, ..JobState::default() }).read()
    }

    fn record<'a>(
        annotations: &'a BTreeMap<String, String>,
        labels: &'a BTreeMap<String, String>,
        state: JobState,
    ) -> JobRecord<'a> {
        JobRecord {
            uid: "u",
            name: "provision-x-1",
            resource_version: "7",
            created: Timestamp::UNIX_EPOCH,
            labels,
            annotations,
            finalizers: &[],
            state,
            reason: String::new(),
            started: None,
            finished: None,
            deleting: false,
            failed_pods: 0,
        }
    }

    #[test]
    fn a_pending_run_is_read() {
        let json = announcement().to_json();
        let details =
            read(&[(HOST, "web-1.example.org"), (ANNOUNCEMENT, &json), (NUMBER, "3")], &[]).unwrap();
        assert_eq!(details.run.phase, Phase::Pending);
        assert_eq!((details.run.number, details.run.groups.as_slice()), (3, ["web".to_owned()].as_slice()));
        assert!(!details.run.undelivered());
    }

    #[test]
    fn a_queued_run_says_why_it_is_not_delivered() {
        let json = announcement().to_json();
        let reason = |delivered: Option<&str>, suspend: bool| {
            let mut annotations = BTreeMap::from(
                [(HOST, "web-1.example.org"), (ANNOUNCEMENT, &json), (DELIVERY_PROBLEM, "no broker")]
                    .map(|(k, v)| (k.to_owned(), v.to_owned())),
            );
            annotations.extend(delivered.map(|at| (DELIVERED.to_owned(), at.to_owned())));
            let labels = BTreeMap::new();
            let state = JobState { suspend, ..JobState::default() };
            record(&annotations, &labels, state).read().unwrap().run.reason
        };
        assert_eq!(reason(None, false), "no broker");
        assert_eq!(reason(Some("2026-01-01T00:00:00Z"), false), "");
        assert_eq!(reason(None, true), "");
    }

    #[test]
    fn an_approved_run_that_waits_for_its_place_is_queued_and_says_so() {
        let json = announcement().to_json();
        let base = [
            (HOST, "web-1.example.org"),
            (ANNOUNCEMENT, json.as_str()),
            (DECISION, "approved"),
            (DECIDED_BY, "ann"),
            (DELIVERY_PROBLEM, "no broker"),
        ];
        let wait = Wait { since: Timestamp::UNIX_EPOCH, of: 5 };
        let text = serde_json::to_string(&wait).unwrap();
        let run = |waits: &str, label: &str| {
            read(&[&base[..], &[(WAITS, waits)]].concat(), &[(HELD, label)]).unwrap().run
        };
        let waiting = run(&text, "place");
        assert_eq!((waiting.phase, waiting.waits.as_ref()), (Phase::Queued, Some(&wait)));
        assert_eq!(waiting.reason, "waits for a place: 5 of 5 runs go on");
        assert!(!waiting.undelivered() && !waiting.has_place());
        assert!(run("{", "place").waits.is_some(), "the label says it");
        let stopped = run(&text, "stopped");
        assert_eq!((stopped.phase, stopped.waits, stopped.reason.as_str()), (Phase::Stopped, None, ""));
    }

    #[test]
    fn the_label_tells_rejected_from_pending() {
        let json = announcement().to_json();
        let base = [
            (HOST, "web-1.example.org"),
            (ANNOUNCEMENT, json.as_str()),
            (DECISION, "rejected"),
            (DECIDED_BY, "ann"),
        ];
        let run = read(&base, &[(HELD, "rejected")]).unwrap().run;
        assert_eq!(run.phase, Phase::Rejected);
        assert_eq!(run.decision.unwrap().by, "ann");
    }

    #[test]
    fn an_attempt_is_no_outcome_and_a_bad_note_of_it_no_error() {
        let json = announcement().to_json();
        let attempt = Outcome {
            exit: ExitCode::UnreachableHost,
            at: Timestamp::UNIX_EPOCH,
            text: "no route".into(),
            counts: Some(Counts { unreachable: 1, ..Counts::default() }),
        };
        let last = |text: &str| {
            let base = [(HOST, "web-1.example.org"), (ANNOUNCEMENT, json.as_str()), (LAST_ATTEMPT, text)];
            read(&base, &[]).unwrap().run
        };
        let mut run = last(&serde_json::to_string(&attempt).unwrap());
        assert_eq!((&run.outcome, run.last_outcome()), (&None, Some(&attempt)));
        run.outcome = Some(Outcome { exit: ExitCode::Ready, ..attempt });
        assert_eq!(run.last_outcome().unwrap().exit, ExitCode::Ready);
        assert_eq!(last("{").last_attempt, None);
    }

    #[test]
    fn what_is_no_run_is_said_with_the_annotation() {
        let json = announcement().to_json();
        let err = |a: &[(&str, &str)]| read(a, &[]).unwrap_err().key;
        assert_eq!(err(&[(HOST, "web-1.example.org")]), ANNOUNCEMENT);
        assert_eq!(err(&[(HOST, "other.example.org"), (ANNOUNCEMENT, &json)]), HOST);
        assert_eq!(err(&[(HOST, "web-1.example.org"), (ANNOUNCEMENT, &json), (SEEN, "yesterday")]), SEEN);
        assert_eq!(err(&[(HOST, "web-1.example.org"), (ANNOUNCEMENT, "{")]), ANNOUNCEMENT);
    }
}
