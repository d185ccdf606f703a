//! The Job controller's part: given a Job, its pods and the time, which status is due and what is to be done.
//!
//! Pure, and the whole of the policy; `jobs.rs` reads, calls [`decide`], writes the status and carries out the actions, in this
//! order, so that no action follows from a Job that has changed meanwhile. Every status is one that a real API server accepts:
//! counters never go down, `Complete` and `Failed` come after `SuccessCriteriaMet` and `FailureTarget` and only when no pod is left
//! active, terminating or uncounted, and the start time changes under suspension only.
//!
//! A finished pod is counted once: its UID goes into `uncountedTerminatedPods`, its finalizer is removed, and only a UID whose pod
//! has lost the finalizer moves on into the counter.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions::{condition, finish, is_true, set_condition, target};
use super::failure;
use super::pods::{self, Standing};
use super::tally::{self, Tally, waits_for_the_old};

/// How the wait between attempts grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    /// After the first failure.
    pub(super) base: Duration,
    /// The longest wait.
    pub(super) most: Duration,
}

/// A pod meant by an action: its name, and its UID so that no namesake is hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Which {
    /// The pod's name.
    pub(super) name: String,
    /// The pod's UID.
    pub(super) uid: String,
}

impl Which {
    /// Names `pod`.
    pub(super) fn of(pod: &Pod) -> Self {
        Self { name: pods::name(pod).to_owned(), uid: pods::uid(pod).to_owned() }
    }
}

/// What is to be done once the status is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Take the tracking finalizer off a pod: it is counted, or is not to be.
    Release(Which),
    /// Delete a pod, with its own grace period.
    End(Which),
    /// Create one pod.
    Start,
    /// Delete the Job, whose time after its end is over.
    Expire,
}

/// What is due for one Job.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// The status to write; `None` when it is written already.
    pub(super) status: Option<JobStatus>,
    /// What to do afterwards, in this order.
    pub(super) actions: Vec<Action>,
    /// When to decide again though nothing has changed.
    pub(super) again: Option<Timestamp>,
}

impl Decision {
    fn again_at(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |known| known.min(at)));
    }
}

/// What a finished Job or one at rest needs: nothing. Spares the reading of its pods, whose own changes bring it up again.
pub(super) fn is_at_rest(job: &Job) -> bool {
    let (Some(spec), Some(status)) = (&job.spec, &job.status) else { return false };
    if job.metadata.deletion_timestamp.is_some() {
        return false;
    }
    if finish(status).is_some() {
        return spec.ttl_seconds_after_finished.is_none();
    }
    spec.suspend == Some(true)
        && is_true(status, "Suspended")
        && status.start_time.is_none()
        && status.active.unwrap_or(0) == 0
        && status.terminating.unwrap_or(0) == 0
        && !is_true(status, "FailureTarget")
        && !is_true(status, "SuccessCriteriaMet")
        && status.uncounted_terminated_pods.as_ref().is_none_or(|u| tally::length(u) == 0)
}

/// Decides for one Job. `own` are the pods that this very Job controls; with `closing` no pod is started.
pub(super) fn decide(job: &Job, own: &[Pod], now: Timestamp, backoff: Backoff, closing: bool) -> Decision {
    let mut decision = Decision::default();
    let Some(spec) = &job.spec else { return decision };
    let before = job.status.clone().unwrap_or_default();
    if job.metadata.deletion_timestamp.is_some() {
        // Whoever deletes a Job may set its pods free; then they go on without it.
        if !job.metadata.finalizers.iter().flatten().any(|f| f == "orphan") {
            end_all(own, &mut decision);
        }
        return decision;
    }
    if let Some(finished) = finish(&before) {
        end_all(own, &mut decision);
        expire(spec, finished, now, &mut decision);
        return decision;
    }

    let now = whole_seconds(now);
    let suspended = spec.suspend == Some(true);
    let mut after = before.clone();
    let tally = Tally::count(spec, own, &mut after, &mut decision);

    if target(&after).is_none() && !suspended && after.start_time.is_none() {
        after.start_time = Some(Time(now));
    }
    if target(&after).is_none() {
        aim(spec, suspended, &tally, &mut after, now, &mut decision);
    }
    if target(&after).is_some() {
        end_active(own, &mut decision, false);
        conclude(&tally, &mut after, now);
    } else if suspended {
        after.start_time = None;
        end_active(own, &mut decision, true);
        set_condition(&mut after, "Suspended", true, "JobSuspended", "Job suspended", now);
    } else {
        if condition(&after, "Suspended").is_some() {
            set_condition(&mut after, "Suspended", false, "JobResumed", "Job resumed", now);
        }
        if !closing {
            replenish(spec, own, &tally, &after, now, backoff, &mut decision);
        }
    }
    if after != before {
        decision.status = Some(after);
    }
    decision
}

/// Decides whether the Job is about to end, and how.
fn aim(
    spec: &JobSpec,
    suspended: bool,
    tally: &Tally,
    status: &mut JobStatus,
    now: Timestamp,
    decision: &mut Decision,
) {
    let complete = match spec.completions {
        Some(wanted) => tally.succeeded >= wanted,
        None => tally.succeeded > 0 && tally.active == 0,
    };
    let mut fail =
        |reason: &str, message: &str| set_condition(status, "FailureTarget", true, reason, message, now);
    if let Some(message) = &tally.verdict {
        fail("PodFailurePolicy", message);
    } else if tally.failed > spec.backoff_limit.unwrap_or(6) {
        fail("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    } else if complete {
        let message = "Reached expected number of succeeded pods";
        set_condition(status, "SuccessCriteriaMet", true, "CompletionsReached", message, now);
    } else if suspended {
        // No time runs while a Job is suspended.
    } else if let Some(wish) = unsupported(spec) {
        fail("NotSupported", &format!("the playground's Job runner does not do {wish}"));
    } else if let Some(deadline) = deadline(spec, status) {
        if now >= deadline {
            set_condition(
                status,
                "FailureTarget",
                true,
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
                now,
            );
        } else {
            decision.again_at(deadline);
        }
    }
}

/// Ends the Job once nothing of it is left to wait for.
fn conclude(tally: &Tally, status: &mut JobStatus, now: Timestamp) {
    if tally.active > 0 || tally.terminating > 0 || tally.uncounted > 0 {
        return;
    }
    let Some(aimed) = target(status) else { return };
    let (failed, reason, message) = (
        aimed.type_ == "FailureTarget",
        aimed.reason.clone().unwrap_or_default(),
        aimed.message.clone().unwrap_or_default(),
    );
    // A finished Job has a start time; one that was suspended while it ended lost none, since it was not reset then.
    let started = status.start_time.get_or_insert(Time(now)).0;
    if failed {
        set_condition(status, "Failed", true, &reason, &message, now);
    } else {
        status.completion_time = Some(Time(now.max(started)));
        set_condition(status, "Complete", true, &reason, &message, now);
    }
}

/// Starts the pods that are missing, when their time has come, and ends those that are too many.
fn replenish(
    spec: &JobSpec,
    own: &[Pod],
    tally: &Tally,
    status: &JobStatus,
    now: Timestamp,
    backoff: Backoff,
    decision: &mut Decision,
) {
    let parallel = spec.parallelism.unwrap_or(1);
    let wanted = match spec.completions {
        Some(completions) => parallel.min(completions.saturating_sub(tally.succeeded)),
        None if tally.succeeded > 0 => tally.active.min(parallel),
        None => parallel,
    };
    // An active pod that is no longer tracked was given up (the Job was suspended for a moment): its end would count for nothing.
    let (kept, given_up): (Vec<&Pod>, Vec<&Pod>) =
        own.iter().filter(|p| pods::standing(p) == Standing::Active).partition(|p| pods::is_tracked(p));
    let active = i32::try_from(kept.len()).unwrap_or(i32::MAX);
    let surplus = usize::try_from(active.saturating_sub(wanted)).unwrap_or(0);
    decision.actions.extend(given_up.iter().map(|p| Action::End(Which::of(p))));
    for pod in kept.iter().rev().take(surplus) {
        decision.actions.push(Action::Release(Which::of(pod)));
        decision.actions.push(Action::End(Which::of(pod)));
    }
    let waiting = i32::try_from(given_up.len()).unwrap_or(i32::MAX).saturating_add(tally.terminating);
    let occupied = active.saturating_add(if waits_for_the_old(spec) { waiting } else { 0 });
    let missing = usize::try_from(wanted.saturating_sub(occupied)).unwrap_or(0);
    if missing == 0 {
        return;
    }
    match next_attempt(own, tally, status, backoff) {
        Some(at) if at > now => decision.again_at(at),
        _ => decision.actions.extend(std::iter::repeat_n(Action::Start, missing)),
    }
}

/// When the next pod may start: after the last failure and a wait that doubles with each.
fn next_attempt(own: &[Pod], tally: &Tally, status: &JobStatus, backoff: Backoff) -> Option<Timestamp> {
    let last = |wanted: Standing| {
        own.iter().filter(|p| pods::standing(p) == wanted).filter_map(pods::finished_at).max()
    };
    let failed = last(Standing::Failed)?;
    // What failed before the Job was suspended and resumed does not delay it now.
    if status.start_time.as_ref().is_some_and(|s| s.0 > failed) {
        return None;
    }
    let succeeded = last(Standing::Succeeded);
    if succeeded.is_some_and(|s| s > failed) {
        return None;
    }
    let failures = match succeeded {
        None => u32::try_from(tally.failed).unwrap_or(0),
        Some(at) => {
            let later = |p: &&Pod| pods::standing(p) == Standing::Failed && pods::finished_at(p) > Some(at);
            u32::try_from(own.iter().filter(later).count()).unwrap_or(u32::MAX)
        }
    };
    failed.checked_add(failure::delay(backoff.base, backoff.most, failures)).ok()
}

/// Ends every pod that has not finished and releases those that have: for a Job that is being deleted or has ended.
fn end_all(own: &[Pod], decision: &mut Decision) {
    for pod in own {
        if pods::is_tracked(pod) {
            decision.actions.push(Action::Release(Which::of(pod)));
        }
    }
    decision.actions.extend(active(own).map(|p| Action::End(Which::of(p))));
}

/// Ends the active pods; with `forget` their end counts for nothing.
fn end_active(own: &[Pod], decision: &mut Decision, forget: bool) {
    for pod in active(own) {
        if forget && pods::is_tracked(pod) {
            decision.actions.push(Action::Release(Which::of(pod)));
        }
        decision.actions.push(Action::End(Which::of(pod)));
    }
}

fn active(own: &[Pod]) -> impl Iterator<Item = &Pod> {
    own.iter().filter(|p| pods::standing(p) == Standing::Active)
}

/// Deletes the Job when its time after the end is over.
fn expire(spec: &JobSpec, finished: Timestamp, now: Timestamp, decision: &mut Decision) {
    let Some(ttl) = spec.ttl_seconds_after_finished.and_then(|s| u64::try_from(s).ok()) else { return };
    match finished.checked_add(Duration::from_secs(ttl)) {
        Ok(due) if due <= now => decision.actions.push(Action::Expire),
        Ok(due) => decision.again_at(due),
        Err(_) => {}
    }
}

/// What the Job asks for that this runner does not do.
fn unsupported(spec: &JobSpec) -> Option<&'static str> {
    let pod = spec.template.spec.as_ref();
    if spec.completion_mode.as_deref() == Some("Indexed") {
        Some("completionMode Indexed")
    } else if spec.success_policy.is_some() {
        Some("successPolicy")
    } else if pod.and_then(|s| s.restart_policy.as_deref()).is_some_and(|p| p != "Never") {
        Some("restartPolicy OnFailure: use Never")
    } else {
        None
    }
}

fn deadline(spec: &JobSpec, status: &JobStatus) -> Option<Timestamp> {
    let seconds = u64::try_from(spec.active_deadline_seconds?).ok()?;
    status.start_time.as_ref()?.0.checked_add(Duration::from_secs(seconds)).ok()
}

/// Kubernetes stores times in whole seconds.
pub(super) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
