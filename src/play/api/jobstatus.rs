//! What may be written into a Job's status: the transitions that a real API server (1.31 and later) accepts.
//!
//! So that a Job controller that works against the playground works against a cluster.

use serde_json::Value;

use super::meta::{self, items, number, text};
use super::status::Faults;

/// Whether a condition of this type stands at `True`.
fn has(job: &Value, condition: &str) -> bool {
    items(job, "/status/conditions")
        .iter()
        .any(|c| text(c, "/type") == Some(condition) && text(c, "/status") == Some("True"))
}

fn count(job: &Value, field: &str) -> i64 {
    number(job, &format!("/status/{field}")).unwrap_or(0)
}

/// Checks a changed status. `new` has the old spec.
pub(super) fn check(old: &Value, new: &Value, faults: &mut Faults) {
    for field in ["active", "ready", "succeeded", "failed", "terminating"] {
        if count(new, field) < 0 {
            faults.invalid(
                &format!("status.{field}"),
                count(new, field),
                "must be greater than or equal to 0",
            );
        }
    }
    if count(new, "ready") > count(new, "active") {
        faults.invalid("status.ready", count(new, "ready"), "cannot set more ready pods than active");
    }
    for field in ["succeeded", "failed"] {
        if count(new, field) < count(old, field) {
            faults.invalid(&format!("status.{field}"), count(new, field), "cannot decrease");
        }
    }
    check_conditions(old, new, faults);
    check_times(old, new, faults);
    if has(new, "Complete") || has(new, "Failed") {
        check_finished(new, faults);
    }
}

fn check_conditions(old: &Value, new: &Value, faults: &mut Faults) {
    let field = "status.conditions";
    let (complete, failed) = (has(new, "Complete"), has(new, "Failed"));
    if complete && failed {
        faults.invalid(field, "", "cannot set Complete=True and Failed=true conditions");
    }
    if complete && has(new, "FailureTarget") {
        faults.invalid(field, "", "cannot set Complete=True and FailureTarget=true conditions");
    }
    if complete && !has(new, "SuccessCriteriaMet") {
        faults.invalid(
            field,
            "",
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
    }
    if failed && !has(new, "FailureTarget") {
        faults.invalid(
            field,
            "",
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
    }
    if has(new, "SuccessCriteriaMet") && (failed || has(new, "FailureTarget")) {
        faults.invalid(field, "", "cannot set SuccessCriteriaMet=True and a failure's condition");
    }
    for condition in ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"] {
        if has(old, condition) && !has(new, condition) {
            faults.invalid(field, "", format!("cannot disable the terminal {condition}=True condition"));
        }
    }
    let mut seen = Vec::new();
    for (at, condition) in items(new, "/status/conditions").iter().enumerate() {
        let kind = text(condition, "/type").unwrap_or_default();
        if seen.contains(&kind) {
            faults.duplicate(&format!("{field}[{at}].type"), kind);
        }
        seen.push(kind);
        let status = text(condition, "/status").unwrap_or_default();
        if !["True", "False", "Unknown"].contains(&status) {
            faults.unsupported(&format!("{field}[{at}].status"), status, &["False", "True", "Unknown"]);
        }
    }
}

fn check_times(old: &Value, new: &Value, faults: &mut Faults) {
    let (started, was_started) = (text(new, "/status/startTime"), text(old, "/status/startTime"));
    let (ended, was_ended) = (text(new, "/status/completionTime"), text(old, "/status/completionTime"));
    // A suspended Job loses its start and gets a new one when it is resumed.
    if was_started.is_some() && started != was_started && !meta::truth(old, "/spec/suspend") {
        let done = if started.is_none() { "removed" } else { "modified" };
        faults.required("status.startTime", format!("startTime cannot be {done} for unsuspended job"));
    }
    if was_ended.is_some() && ended != was_ended {
        faults.immutable("status.completionTime", ended.unwrap_or_default());
    }
    let complete = has(new, "Complete");
    if complete && ended.is_none() {
        faults.required("status.completionTime", "completionTime is required for Complete jobs");
    }
    if !complete && ended.is_some() {
        let why = "completionTime cannot be set when there is no Complete=True condition";
        faults.invalid("status.completionTime", ended.unwrap_or_default(), why);
    }
    // Both are normalised to UTC with whole seconds: their text sorts as they do.
    if let (Some(started), Some(ended)) = (started, ended)
        && ended < started
    {
        faults.invalid("status.completionTime", ended, "completionTime cannot be set before startTime");
    }
}

fn check_finished(new: &Value, faults: &mut Faults) {
    if text(new, "/status/startTime").is_none() {
        faults.required("status.startTime", "startTime is required for finished job");
    }
    for field in ["active", "terminating"] {
        if count(new, field) > 0 {
            let why = format!("{field}>0 is invalid for finished job");
            faults.invalid(&format!("status.{field}"), count(new, field), why);
        }
    }
    let uncounted = ["succeeded", "failed"]
        .iter()
        .any(|field| !items(new, &format!("/status/uncountedTerminatedPods/{field}")).is_empty());
    if uncounted {
        let why = "uncountedTerminatedPods needs to be empty for finished job";
        faults.invalid("status.uncountedTerminatedPods", "", why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(old: &Value, new: &Value) -> usize {
        let mut faults = Faults::default();
        check(old, new, &mut faults);
        faults.len()
    }

    fn condition(kind: &str) -> Value {
        json!({ "type": kind, "status": "True" })
    }

    fn complete() -> Value {
        json!({ "status": {
            "startTime": "2026-12-01T10:00:00Z",
            "completionTime": "2026-12-01T10:00:05Z",
            "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        } })
    }

    fn without(mut job: Value, field: &str) -> Value {
        job["status"].as_object_mut().unwrap().remove(field);
        job
    }

    #[test]
    fn a_job_completes_only_with_all_that_belongs_to_it() {
        let running = json!({ "status": { "startTime": "2026-12-01T10:00:00Z", "active": 1 } });
        assert_eq!(faults(&running, &complete()), 0);
        assert_eq!(faults(&json!({}), &without(complete(), "startTime")), 1);
        assert_eq!(faults(&running, &without(complete(), "completionTime")), 1);
        let mut early = complete();
        early["status"]["completionTime"] = json!("2026-12-01T09:00:00Z");
        assert_eq!(faults(&running, &early), 1);
        let mut active = complete();
        active["status"]["active"] = json!(1);
        assert_eq!(faults(&running, &active), 1);
        let mut unmet = complete();
        unmet["status"]["conditions"] = json!([condition("Complete")]);
        assert_eq!(faults(&running, &unmet), 1);
    }

    #[test]
    fn a_job_fails_through_its_target_and_stays_finished() {
        let running = json!({ "status": { "startTime": "2026-12-01T10:00:00Z" } });
        let mut failed = running.clone();
        failed["status"]["conditions"] = json!([condition("Failed")]);
        assert_eq!(faults(&running, &failed), 1);
        failed["status"]["conditions"] = json!([condition("FailureTarget"), condition("Failed")]);
        assert_eq!(faults(&running, &failed), 0);
        assert!(faults(&failed, &running) > 0);
        assert!(faults(&complete(), &failed) > 0);
    }

    #[test]
    fn the_start_moves_only_while_suspended() {
        let running =
            json!({ "spec": { "suspend": false }, "status": { "startTime": "2026-12-01T10:00:00Z" } });
        let cleared = json!({ "spec": { "suspend": false }, "status": {} });
        assert_eq!(faults(&running, &cleared), 1);
        let suspended =
            json!({ "spec": { "suspend": true }, "status": { "startTime": "2026-12-01T10:00:00Z" } });
        assert_eq!(faults(&suspended, &cleared), 0);
    }
}
