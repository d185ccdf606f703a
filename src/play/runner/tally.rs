//! Counting a Job's pods, each finished one exactly once; the counting half of the controller's decision.
//!
//! Pure; called by `controller.rs` only.

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::controller::{Action, Decision, Which};
use super::failure::{self, Verdict};
use super::pods::{self, Standing};

/// The pods of one Job, counted.
pub(super) struct Tally {
    /// Neither finished nor asked to end.
    pub(super) active: i32,
    /// Asked to end and not finished.
    pub(super) terminating: i32,
    /// Succeeded so far, the uncounted among them.
    pub(super) succeeded: i32,
    /// Failed so far, the uncounted among them.
    pub(super) failed: i32,
    /// Pods that finished and are not in the counters yet.
    pub(super) uncounted: usize,
    /// The message of the failure policy, when it fails the Job.
    pub(super) verdict: Option<String>,
}

impl Tally {
    /// Counts, writes the counters into `status`, and has the pods released that are counted.
    pub(super) fn count(
        spec: &JobSpec,
        own: &[Pod],
        status: &mut JobStatus,
        decision: &mut Decision,
    ) -> Self {
        let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        let tracked = |uid: &String| own.iter().any(|p| pods::uid(p) == uid && pods::is_tracked(p));
        status.succeeded = move_on(&mut uncounted.succeeded, status.succeeded, tracked);
        status.failed = move_on(&mut uncounted.failed, status.failed, tracked);

        let (mut active, mut terminating, mut ready) = (0, 0, 0);
        let mut verdict = None;
        for pod in own {
            let standing = pods::standing(pod);
            match standing {
                Standing::Active => {
                    active += 1;
                    ready += i32::from(pods::is_ready(pod));
                }
                Standing::Terminating => terminating += 1,
                Standing::Succeeded | Standing::Failed => {}
            }
            if !pods::is_tracked(pod) {
                continue;
            }
            let (uid, which) = (pods::uid(pod).to_owned(), Which::of(pod));
            let known = uncounted.succeeded.iter().chain(&uncounted.failed).flatten().any(|u| *u == uid);
            let failed =
                standing == Standing::Failed || standing == Standing::Terminating && !waits_for_the_old(spec);
            if known {
                decision.actions.push(Action::Release(which));
            } else if standing == Standing::Succeeded {
                uncounted.succeeded.get_or_insert_default().push(uid);
                decision.actions.push(Action::Release(which));
            } else if failed {
                match failure::judge(spec.pod_failure_policy.as_ref(), pod) {
                    Verdict::Ignore => {}
                    Verdict::Count => uncounted.failed.get_or_insert_default().push(uid),
                    Verdict::FailJob(message) => {
                        verdict.get_or_insert(message);
                        uncounted.failed.get_or_insert_default().push(uid);
                    }
                }
                decision.actions.push(Action::Release(which));
            }
        }
        let counted = |list: &Option<Vec<String>>, counter: Option<i32>| {
            counter.unwrap_or(0).saturating_add(i32::try_from(len(list)).unwrap_or(i32::MAX))
        };
        let tally = Self {
            active,
            terminating,
            succeeded: counted(&uncounted.succeeded, status.succeeded),
            failed: counted(&uncounted.failed, status.failed),
            uncounted: length(&uncounted),
            verdict,
        };
        status.active = (active > 0).then_some(active);
        status.ready = Some(ready);
        status.terminating = Some(terminating);
        status.uncounted_terminated_pods = Some(uncounted);
        tally
    }
}

/// Adds those UIDs to the counter whose pod is no longer tracked, and keeps the others.
fn move_on(
    uids: &mut Option<Vec<String>>,
    counter: Option<i32>,
    tracked: impl Fn(&String) -> bool,
) -> Option<i32> {
    let list = uids.take().unwrap_or_default();
    let all = list.len();
    let stay: Vec<String> = list.into_iter().filter(tracked).collect();
    let moved = i32::try_from(all - stay.len()).unwrap_or(i32::MAX);
    *uids = (!stay.is_empty()).then_some(stay);
    if moved == 0 { counter } else { Some(counter.unwrap_or(0).saturating_add(moved)) }
}

fn len(list: &Option<Vec<String>>) -> usize {
    list.as_ref().map_or(0, Vec::len)
}

/// How many pods are finished and not in the counters yet.
pub(super) fn length(uncounted: &UncountedTerminatedPods) -> usize {
    len(&uncounted.succeeded) + len(&uncounted.failed)
}

/// Whether a new pod waits until the old one has ended, rather than starting as soon as it is told to.
pub(super) fn waits_for_the_old(spec: &JobSpec) -> bool {
    match spec.pod_replacement_policy.as_deref() {
        Some(policy) => policy == "Failed",
        None => spec.pod_failure_policy.is_some(),
    }
}
