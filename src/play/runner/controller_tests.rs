//! The controller's decisions, in tables and under random histories held against the rules of a real API server.
#![allow(clippy::needless_pass_by_value)] // `json!` makes values

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::conditions::{condition, is_true};
use super::controller::{Action, Backoff, Decision, decide, is_at_rest};
use super::failure::delay;
use super::{pod_status, pods};

const BACKOFF: Backoff = Backoff { base: Duration::from_secs(10), most: Duration::from_secs(6 * 60) };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn time(second: i64) -> String {
    at(second).to_string()
}

/// A Job with the design's failure policy, changed by `spec` and `status`.
fn job(spec: Value, status: Value) -> Job {
    let mut whole = json!({
        "backoffLimit": 2, "completions": 1, "parallelism": 1, "suspend": false,
        "template": {"metadata": {"labels": {"l": "v"}, "annotations": {"a": "v"}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "provision", "image": "hostwright"}]}},
        "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [10, 11, 12, 13]}}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": {"name": "provision-x", "namespace": "hw", "uid": "job-uid", "resourceVersion": "1"},
        "spec": whole, "status": status,
    }))
    .unwrap()
}

/// A tracked pod: `state` is a phase, or an exit code and the second of its end.
fn pod(name: &str, state: Value) -> Pod {
    let mut pod = pods::from_template(&job(json!({}), json!({})), "playground", "xxxxx").unwrap();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("{name}-uid"));
    let status = match state {
        Value::Array(ended) => {
            let code = ended[0].as_i64().unwrap();
            json!({"phase": if code == 0 { "Succeeded" } else { "Failed" }, "containerStatuses": [{
                "name": "provision", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "finishedAt": time(ended[1].as_i64().unwrap())}}}]})
        }
        Value::String(phase) => json!({"phase": phase, "conditions": [{"type": "Ready", "status":
            if phase == "Running" { "True" } else { "False" }}]}),
        _ => json!({}),
    };
    pod.status = serde_json::from_value(status).unwrap();
    pod
}

fn untracked(mut pod: Pod) -> Pod {
    pod.metadata.finalizers = None;
    pod
}

fn deleting(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = Some(at(0).into());
    pod
}

/// Actions in short: `+` start, `-NAME` end, `~NAME` release, `x` expire.
fn short(decision: &Decision) -> String {
    let words: Vec<String> = decision
        .actions
        .iter()
        .map(|a| match a {
            Action::Start => "+".to_owned(),
            Action::End(w) => format!("-{}", w.name),
            Action::Release(w) => format!("~{}", w.name),
            Action::Expire => "x".to_owned(),
        })
        .collect();
    words.join(" ")
}

fn run(job: &Job, pods: &[Pod], second: i64) -> Decision {
    let decision = decide(job, pods, at(second), BACKOFF, false);
    if let Some(status) = &decision.status {
        accept(job, status).unwrap();
    }
    decision
}

/// The conditions that hold, with their reasons.
fn conditions(status: &JobStatus) -> Vec<(&str, &str, &str)> {
    let all = status.conditions.iter().flatten();
    all.map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_deref().unwrap_or_default())).collect()
}

#[test]
fn a_new_job_gets_a_start_time_and_a_pod() {
    let decision = run(&job(json!({}), json!({})), &[], 5);
    let status = decision.status.as_ref().unwrap();
    assert_eq!(status.start_time.as_ref().unwrap().0, at(5));
    assert_eq!((status.active, status.ready, status.terminating), (None, Some(0), Some(0)));
    assert_eq!(short(&decision), "+");
}

#[test]
fn a_pod_is_made_from_the_template() {
    let pod =
        pods::from_template(&job(json!({}), json!({})), "playground", &pods::suffix([0, 26, 27, 255, 5]))
            .unwrap();
    assert_eq!(pods::name(&pod), "provision-x-b9bqh");
    let labels = pod.metadata.labels.as_ref().unwrap();
    for (key, value) in [(pods::JOB_NAME, "provision-x"), (pods::CONTROLLER_UID, "job-uid"), ("l", "v")] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value));
    }
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()["a"], "v");
    assert_eq!(pods::owner(&pod), Some(("provision-x", "job-uid")));
    assert!(pods::is_tracked(&pod) && pods::is_on_node(&pod, "playground"));
}

#[test]
fn an_active_pod_is_counted_and_nothing_else_happens() {
    let started = json!({"startTime": time(0)});
    let decision = run(&job(json!({}), started), &[pod("a", json!("Running"))], 5);
    let status = decision.status.as_ref().unwrap();
    assert_eq!((status.active, status.ready), (Some(1), Some(1)));
    assert_eq!(short(&decision), "");
    let again = run(&job(json!({}), serde_json::to_value(status).unwrap()), &[pod("a", json!("Running"))], 6);
    assert!(again.status.is_none() && again.actions.is_empty(), "nothing to write twice");
}

#[test]
fn success_is_counted_before_the_job_completes() {
    let decision =
        run(&job(json!({}), json!({"startTime": time(0), "active": 1})), &[pod("a", json!([0, 9]))], 9);
    let status = decision.status.as_ref().unwrap();
    assert_eq!(conditions(status), [("SuccessCriteriaMet", "True", "CompletionsReached")]);
    assert_eq!((short(&decision).as_str(), status.succeeded, status.active), ("~a", None, None));
    let next = job(json!({}), serde_json::to_value(status).unwrap());
    let still = run(&next, &[pod("a", json!([0, 9]))], 9);
    assert!(still.status.is_none() && short(&still) == "~a", "waits for the finalizer");
    let done = run(&next, &[untracked(pod("a", json!([0, 9])))], 10);
    let status = done.status.as_ref().unwrap();
    assert_eq!(conditions(status)[1], ("Complete", "True", "CompletionsReached"));
    assert_eq!((status.succeeded, status.completion_time.as_ref().map(|t| t.0)), (Some(1), Some(at(10))));
    assert!(is_at_rest(&job(json!({}), serde_json::to_value(status).unwrap())));
}

#[test]
fn failures_wait_longer_each_time_until_the_limit() {
    let mut status = json!({"startTime": time(0)});
    for (failures, wait) in [(1, 10), (2, 20)] {
        let name = format!("p{failures}");
        let failed = pod(&name, json!([1, 50]));
        let seen = run(&job(json!({}), status), std::slice::from_ref(&failed), 50);
        assert_eq!((short(&seen), seen.again), (format!("~{name}"), Some(at(50 + wait))));
        let next = job(json!({}), serde_json::to_value(seen.status.unwrap()).unwrap());
        let counted = run(&next, &[untracked(failed.clone())], 51);
        let after = counted.status.as_ref().unwrap();
        assert_eq!((after.failed, short(&counted).as_str()), (Some(failures), ""));
        status = serde_json::to_value(after).unwrap();
        let due = run(&job(json!({}), status.clone()), &[untracked(failed)], 50 + wait);
        assert_eq!(short(&due), "+");
    }
    let seen = run(&job(json!({}), status), &[pod("p3", json!([1, 90]))], 90);
    let after = seen.status.as_ref().unwrap();
    assert_eq!(conditions(after), [("FailureTarget", "True", "BackoffLimitExceeded")]);
    let next = job(json!({}), serde_json::to_value(after).unwrap());
    let done = run(&next, &[untracked(pod("p3", json!([1, 90])))], 91);
    let after = done.status.as_ref().unwrap();
    assert_eq!(conditions(after)[1], ("Failed", "True", "BackoffLimitExceeded"));
    assert_eq!((after.failed, short(&done).as_str()), (Some(3), ""));
}

#[test]
fn the_wait_doubles_up_to_six_minutes() {
    let waits: Vec<u64> = [0, 1, 2, 3, 6, 7, 40, u32::MAX]
        .iter()
        .map(|n| delay(BACKOFF.base, BACKOFF.most, *n).as_secs())
        .collect();
    assert_eq!(waits, [10, 10, 20, 40, 320, 360, 360, 360]);
}

#[test]
fn the_failure_policy_decides_by_its_first_rule_that_fits() {
    let started = json!({"startTime": time(0)});
    let mut disrupted = pod("a", json!([11, 9]));
    let conditions = &mut disrupted.status.as_mut().unwrap().conditions;
    *conditions = serde_json::from_value(json!([{"type": "DisruptionTarget", "status": "True"}])).unwrap();
    let ignored = run(&job(json!({}), started.clone()), &[disrupted], 9);
    let status = ignored.status.as_ref().unwrap();
    assert!(
        status.conditions.is_none() && status.uncounted_terminated_pods.as_ref().unwrap().failed.is_none()
    );
    assert_eq!((short(&ignored).as_str(), ignored.again), ("~a", Some(at(19))));

    let failed = run(&job(json!({}), started.clone()), &[pod("a", json!([11, 9]))], 9);
    let status = failed.status.as_ref().unwrap();
    let target = condition(status, "FailureTarget").unwrap();
    assert_eq!(target.reason.as_deref(), Some("PodFailurePolicy"));
    let message =
        "Container provision for pod hw/a failed with exit code 11 matching FailJob rule at index 1";
    assert_eq!(target.message.as_deref(), Some(message));

    for (rule, code, fails) in [
        (json!({"operator": "NotIn", "values": [3]}), 3, false),
        (json!({"operator": "NotIn", "values": [3]}), 4, true),
        (json!({"operator": "In", "values": [3], "containerName": "other"}), 3, false),
        (json!({"operator": "In", "values": [3], "containerName": "provision"}), 3, true),
    ] {
        let spec = json!({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": rule}]}});
        let decision = run(&job(spec, started.clone()), &[pod("a", json!([code, 9]))], 9);
        assert_eq!(is_true(&decision.status.unwrap(), "FailureTarget"), fails, "{rule} {code}");
    }
}

#[test]
fn a_suspended_job_ends_its_pods_and_forgets_its_start() {
    let suspended = json!({"suspend": true});
    let running = json!({"startTime": time(0), "active": 1, "ready": 1});
    let decision = run(&job(suspended.clone(), running), &[pod("a", json!("Running"))], 9);
    let status = decision.status.as_ref().unwrap();
    assert_eq!((short(&decision).as_str(), status.start_time.is_none()), ("~a -a", true));
    assert_eq!(conditions(status), [("Suspended", "True", "JobSuspended")]);
    let stored = serde_json::to_value(status).unwrap();
    let ending = deleting(untracked(pod("a", json!("Running"))));
    let next = run(&job(suspended.clone(), stored), std::slice::from_ref(&ending), 10);
    let status = next.status.as_ref().unwrap();
    assert_eq!(
        (status.active, status.ready, status.terminating, short(&next).as_str()),
        (None, Some(0), Some(1), "")
    );
    let stored = serde_json::to_value(status).unwrap();
    assert!(!is_at_rest(&job(suspended.clone(), stored.clone())));
    // Resumed while the old one is still ending: the replacement waits for its end.
    let resumed = run(&job(json!({}), stored.clone()), &[ending], 20);
    let status = resumed.status.as_ref().unwrap();
    assert_eq!((short(&resumed).as_str(), status.start_time.as_ref().map(|t| t.0)), ("", Some(at(20))));
    assert_eq!(conditions(status), [("Suspended", "False", "JobResumed")]);
    let gone = run(&job(json!({}), serde_json::to_value(status).unwrap()), &[], 21);
    assert_eq!((short(&gone).as_str(), gone.status.unwrap().failed), ("+", None));
    // Or nothing comes, and it is at rest.
    let rest = run(&job(suspended.clone(), stored), &[], 21);
    assert!(is_at_rest(&job(suspended, serde_json::to_value(rest.status.unwrap()).unwrap())));
}

#[test]
fn a_pod_that_was_given_up_is_ended_though_the_job_goes_on() {
    let given_up = untracked(pod("a", json!("Running")));
    let decision = run(&job(json!({}), json!({"startTime": time(0)})), &[given_up], 9);
    assert_eq!(short(&decision), "-a");
}

#[test]
fn without_waiting_for_the_old_a_pod_asked_to_end_is_replaced_at_once() {
    let spec = json!({"podFailurePolicy": null, "podReplacementPolicy": "TerminatingOrFailed"});
    let started = json!({"startTime": time(0)});
    let decision = run(&job(spec, started.clone()), &[deleting(pod("a", json!("Running")))], 9);
    assert_eq!(short(&decision), "~a +");
    let status = decision.status.unwrap();
    assert_eq!(status.uncounted_terminated_pods.unwrap().failed.unwrap(), ["a-uid"]);
    let waits = run(
        &job(json!({"podReplacementPolicy": "Failed"}), started),
        &[deleting(pod("a", json!("Running")))],
        9,
    );
    assert_eq!(short(&waits), "");
}

#[test]
fn a_deadline_ends_the_job_also_while_it_runs() {
    let spec = json!({"activeDeadlineSeconds": 30});
    let running = json!({"startTime": time(0), "active": 1});
    let before = run(&job(spec.clone(), running.clone()), &[pod("a", json!("Running"))], 29);
    assert_eq!((short(&before).as_str(), before.again), ("", Some(at(30))));
    let after = run(&job(spec.clone(), running), &[pod("a", json!("Running"))], 30);
    let status = after.status.as_ref().unwrap();
    assert_eq!((short(&after).as_str(), conditions(status)[0].2), ("-a", "DeadlineExceeded"));
    let stored = job(spec.clone(), serde_json::to_value(status).unwrap());
    let ended = run(&stored, &[deleting(pod("a", json!([143, 31])))], 31);
    let stored = job(spec, serde_json::to_value(ended.status.unwrap()).unwrap());
    let failed = run(&stored, &[], 32).status.unwrap();
    assert_eq!((failed.failed, conditions(&failed)[1]), (Some(1), ("Failed", "True", "DeadlineExceeded")));
    let suspended = job(json!({"suspend": true, "activeDeadlineSeconds": 1}), json!({"startTime": time(0)}));
    assert!(!is_true(&run(&suspended, &[], 99).status.unwrap(), "FailureTarget"));
}

#[test]
fn a_job_that_is_deleted_or_finished_leaves_no_pod() {
    let mut gone = job(json!({}), json!({"startTime": time(0)}));
    gone.metadata.deletion_timestamp = Some(at(3).into());
    let pods = [pod("a", json!("Running")), pod("b", json!([0, 2]))];
    let decision = run(&gone, &pods, 9);
    assert_eq!((short(&decision).as_str(), decision.status), ("~a ~b -a", None));
    let complete = json!([{"type": "Complete", "status": "True", "lastTransitionTime": time(5)}]);
    let finished = job(json!({"ttlSecondsAfterFinished": 60}), json!({"conditions": complete}));
    let decision = run(&finished, &[], 64);
    assert_eq!((short(&decision).as_str(), decision.again), ("", Some(at(65))));
    assert_eq!(short(&run(&finished, &[], 65)), "x");
    assert!(!is_at_rest(&finished));
}

#[test]
fn what_is_not_done_here_is_refused() {
    let restarts =
        json!({"template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}}});
    for spec in [json!({"completionMode": "Indexed"}), json!({"successPolicy": {"rules": []}}), restarts] {
        let decision = run(&job(spec.clone(), json!({})), &[], 9);
        let status = decision.status.as_ref().unwrap();
        let reasons: Vec<_> = conditions(status).iter().map(|c| c.2.to_owned()).collect();
        assert_eq!((reasons, short(&decision).as_str()), (vec!["NotSupported".to_owned(); 2], ""), "{spec}");
    }
}

#[test]
fn several_completions_run_side_by_side_and_no_more_than_wanted() {
    let spec = json!({"completions": 3, "parallelism": 2});
    let started = json!({"startTime": time(0)});
    assert_eq!(short(&run(&job(spec.clone(), started.clone()), &[], 1)), "+ +");
    let pods = [pod("a", json!([0, 5])), pod("b", json!("Running"))];
    assert_eq!(short(&run(&job(spec.clone(), started.clone()), &pods, 5)), "~a +");
    let pods = [
        pod("a", json!([0, 5])),
        pod("b", json!([0, 6])),
        pod("c", json!("Running")),
        pod("d", json!("Pending")),
    ];
    assert_eq!(short(&run(&job(spec, started), &pods, 6)), "~a ~b ~d -d");
}

#[test]
fn while_closing_nothing_starts() {
    let decision = decide(&job(json!({}), json!({"startTime": time(0)})), &[], at(1), BACKOFF, true);
    assert_eq!(short(&decision), "");
}

/// What a real API server (1.36) refuses in a Job's status, in our words.
fn accept(old: &Job, new: &JobStatus) -> Result<(), String> {
    let before = old.status.clone().unwrap_or_default();
    let suspended = old.spec.as_ref().unwrap().suspend == Some(true);
    let holds = |kind: &str| is_true(new, kind);
    let held = |kind: &str| is_true(&before, kind);
    let finished = holds("Complete") || holds("Failed");
    let uncounted = new.uncounted_terminated_pods.clone().unwrap_or_default();
    let mut uids: Vec<String> = uncounted.succeeded.into_iter().chain(uncounted.failed).flatten().collect();
    let all = uids.len();
    uids.sort();
    uids.dedup();
    let number = |n: Option<i32>| n.unwrap_or(0);
    let start = |s: &JobStatus| s.start_time.as_ref().map(|t| t.0);
    let rules = [
        (all != uids.len() || uids.iter().any(String::is_empty), "uncounted pods empty or twice"),
        (holds("Complete") && holds("Failed"), "complete and failed"),
        (
            holds("SuccessCriteriaMet") && (holds("FailureTarget") || holds("Failed")),
            "success met and failure",
        ),
        (holds("Complete") && !holds("SuccessCriteriaMet"), "complete without criteria"),
        (holds("Failed") && !holds("FailureTarget"), "failed without target"),
        (
            holds("Complete") != new.completion_time.is_some(),
            "completion time without complete, or the reverse",
        ),
        (
            new.completion_time.as_ref().map(|t| t.0) < start(new) && holds("Complete"),
            "completed before start",
        ),
        (finished && start(new).is_none(), "finished without start"),
        (finished && number(new.active) > 0, "finished and active"),
        (finished && number(new.terminating) > 0, "finished and terminating"),
        (finished && all > 0, "finished and uncounted"),
        (number(new.ready) > number(new.active), "more ready than active"),
        (number(new.failed) < number(before.failed), "failed went down"),
        (number(new.succeeded) < number(before.succeeded), "succeeded went down"),
        (start(&before).is_some() && start(&before) != start(new) && !suspended, "start time changed"),
        (
            ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"]
                .iter()
                .any(|k| held(k) && !holds(k)),
            "an end was taken back",
        ),
    ];
    match rules.iter().find(|(broken, _)| *broken) {
        Some((_, rule)) => Err(format!("{rule}: {new:?}")),
        None => Ok(()),
    }
}

/// A small world: one Job, its pods, and what may happen to them.
struct World {
    job: Job,
    pods: Vec<Pod>,
    now: i64,
    made: usize,
    /// Pods that succeeded without ever being given up.
    succeeded: Vec<String>,
}

#[derive(Debug, Clone)]
enum Happening {
    /// The runner looks and gets so far with its actions (it may be killed between any two).
    Look(usize),
    Wait(i64),
    Run(usize),
    End(usize, i32),
    Delete(usize),
    Suspend(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Look(usize::MAX)),
        3 => (0..3usize).prop_map(Happening::Look),
        3 => (1..40i64).prop_map(Happening::Wait),
        3 => (0..9usize).prop_map(Happening::Run),
        3 => (0..9usize, prop_oneof![Just(0), Just(1), Just(1), Just(11), Just(143)]).prop_map(|(p, c)| Happening::End(p, c)),
        1 => (0..9usize).prop_map(Happening::Delete),
        3 => any::<bool>().prop_map(Happening::Suspend),
    ]
}

impl World {
    fn happen(&mut self, what: &Happening) -> Result<(), String> {
        match *what {
            Happening::Look(acts) => return self.look(acts),
            Happening::Wait(seconds) => self.now += seconds,
            Happening::Suspend(suspend) => self.job.spec.as_mut().unwrap().suspend = Some(suspend),
            Happening::Delete(which) => self.delete(which % self.pods.len().max(1)),
            Happening::Run(which) => self.change(which, &json!("Running")),
            Happening::End(which, code) => self.change(which, &json!([code, self.now])),
        }
        Ok(())
    }

    fn change(&mut self, which: usize, state: &Value) {
        let which = which % self.pods.len().max(1);
        let Some(old) = self.pods.get_mut(which).filter(|p| !pods::is_terminal(p)) else { return };
        old.status = pod("any", state.clone()).status;
        if pods::is_terminal(old) {
            if pods::phase(old) == "Succeeded" && pods::is_tracked(old) {
                self.succeeded.push(pods::uid(old).to_owned());
            }
            self.sweep();
        }
    }

    fn delete(&mut self, which: usize) {
        if let Some(pod) = self.pods.get_mut(which) {
            pod.metadata.deletion_timestamp.get_or_insert(at(self.now).into());
        }
        self.sweep();
    }

    /// The API server removes what is deleted, finished and held by nobody.
    fn sweep(&mut self) {
        self.pods.retain(|p| {
            p.metadata.deletion_timestamp.is_none() || !pods::is_terminal(p) || pods::is_tracked(p)
        });
    }

    fn look(&mut self, acts: usize) -> Result<(), String> {
        let decision = decide(&self.job, &self.pods, at(self.now), BACKOFF, false);
        if decision.again.is_some_and(|a| a <= at(self.now)) {
            return Err("due again at once: a hot loop".into());
        }
        if let Some(status) = decision.status {
            accept(&self.job, &status)?;
            let stored = serde_json::to_value(status).unwrap();
            self.job.status = serde_json::from_value(stored).unwrap();
        }
        for action in decision.actions.iter().take(acts) {
            match action {
                Action::Start => {
                    self.made += 1;
                    self.pods.push(pod(&format!("p{}", self.made), json!("Pending")));
                }
                Action::End(which) => {
                    let found = self.pods.iter().position(|p| pods::name(p) == which.name);
                    self.delete(found.ok_or("ends a pod that is not there")?);
                }
                Action::Release(which) => {
                    if let Some(pod) = self.pods.iter_mut().find(|p| pods::uid(p) == which.uid) {
                        pod.metadata.finalizers = None;
                    }
                    self.sweep();
                }
                Action::Expire => return Err("expires without a time to live".into()),
            }
        }
        let kept =
            self.pods.iter().filter(|p| pods::is_tracked(p) && pods::standing(p) == pods::Standing::Active);
        if kept.count() > 1 {
            return Err("two pods at once".into());
        }
        let given_up = |p: &Pod| pods::standing(p) == pods::Standing::Active && !pods::is_tracked(p);
        if acts > decision.actions.len() && self.pods.iter().any(given_up) {
            return Err("a pod runs that nobody will count".into());
        }
        Ok(())
    }

    /// From here on all goes well: the Job must end, and stay as it is.
    fn settle(&mut self) -> Result<(), String> {
        self.job.spec.as_mut().unwrap().suspend = Some(false);
        for _ in 0..200 {
            self.look(usize::MAX)?;
            self.now += 10;
            for which in 0..self.pods.len() {
                let code = if self.pods.get(which).is_some_and(|p| p.metadata.deletion_timestamp.is_some()) {
                    143
                } else {
                    0
                };
                self.change(which, &json!([code, self.now]));
            }
        }
        let status = self.job.status.clone().unwrap_or_default();
        if !(is_true(&status, "Complete") || is_true(&status, "Failed")) {
            return Err(format!("never ends: {status:?}"));
        }
        if self.pods.iter().any(|p| !pods::is_terminal(p) || pods::is_tracked(p)) {
            return Err("a pod is left".into());
        }
        let decision = decide(&self.job, &self.pods, at(self.now), BACKOFF, false);
        if decision.status.is_some() || !decision.actions.is_empty() || !is_at_rest(&self.job) {
            return Err("it does not rest".into());
        }
        let succeeded = usize::try_from(status.succeeded.unwrap_or(0)).unwrap();
        if succeeded > self.succeeded.len() || is_true(&status, "Complete") != (succeeded > 0) {
            return Err(format!("{succeeded} counted of {:?}", self.succeeded));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_with_statuses_that_an_api_server_accepts(
        history in proptest::collection::vec(happening(), 0..60),
        replace in any::<bool>(),
        suspend in any::<bool>(),
    ) {
        let mut spec = json!({"suspend": suspend});
        if replace {
            spec["podFailurePolicy"] = Value::Null;
            spec["podReplacementPolicy"] = json!("TerminatingOrFailed");
        }
        let mut world = World { job: job(spec, json!({})), pods: Vec::new(), now: 0, made: 0, succeeded: Vec::new() };
        for what in &history {
            world.happen(what).map_err(TestCaseError::fail)?;
        }
        world.settle().map_err(TestCaseError::fail)?;
    }
}

#[test]
fn a_pod_passes_through_the_statuses_of_a_kubelet() {
    use pod_status::{End, LOST, Step, after};
    let mut pod = pod("a", Value::Null);
    let wait = Step::Waiting { reason: "ContainerCreating", message: None };
    pod.status = Some(after(&pod, &wait, at(1)));
    assert_eq!((pods::phase(&pod), pods::is_ready(&pod)), ("Pending", false));
    pod.status = Some(after(&pod, &Step::Running { started: at(2), pid: Some(7) }, at(2)));
    assert_eq!((pods::phase(&pod), pods::is_ready(&pod)), ("Running", true));
    let foreign = serde_json::from_value(json!({"type": "Foreign", "status": "True"})).unwrap();
    pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(foreign);
    let end = End {
        code: 137,
        reason: "Error",
        message: None,
        started: Some(at(2)),
        finished: at(3),
        disruption: Some(LOST),
    };
    let status = after(&pod, &Step::Ended(end.clone()), at(3));
    let text = serde_json::to_value(&status).unwrap();
    assert_eq!((text["phase"].as_str(), text["reason"].as_str()), (Some("Failed"), Some("NodeLost")));
    assert_eq!(text["startTime"], time(1));
    let container = &text["containerStatuses"][0];
    assert_eq!((&container["containerID"], &container["ready"]), (&json!("process://7"), &json!(false)));
    assert_eq!(container["state"]["terminated"]["exitCode"], 137);
    let conditions: Vec<(&str, &str)> =
        status.conditions.iter().flatten().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
    assert_eq!(
        conditions,
        [
            ("PodScheduled", "True"),
            ("Initialized", "True"),
            ("ContainersReady", "False"),
            ("Ready", "False"),
            ("Foreign", "True"),
            ("DisruptionTarget", "True")
        ]
    );
    let fine = after(&pod, &Step::Ended(End { code: 0, reason: "Completed", ..end }), at(3));
    assert_eq!((fine.phase.as_deref(), fine.reason), (Some("Succeeded"), None));
}
