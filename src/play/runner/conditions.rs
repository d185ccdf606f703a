//! The conditions in a Job's status: found, and set as the Job controller sets them.
//!
//! Pure; called by the controller's part.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// When the Job finished, if it has.
pub(super) fn finish(status: &JobStatus) -> Option<Timestamp> {
    let done =
        ["Complete", "Failed"].iter().find_map(|t| condition(status, t).filter(|c| c.status == "True"))?;
    Some(done.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0))
}

/// The condition that says how the Job is about to end.
pub(super) fn target(status: &JobStatus) -> Option<&JobCondition> {
    ["FailureTarget", "SuccessCriteriaMet"]
        .iter()
        .find_map(|t| condition(status, t).filter(|c| c.status == "True"))
}

/// The condition of this type.
pub(super) fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|c| c.type_ == kind)
}

/// Whether the condition of this type holds.
pub(super) fn is_true(status: &JobStatus, kind: &str) -> bool {
    condition(status, kind).is_some_and(|c| c.status == "True")
}

/// Sets a condition, unless it stands so already: then its time and reason stay.
pub(super) fn set_condition(
    status: &mut JobStatus,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let state = if holds { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|c| c.type_ == kind && c.status == state) {
        return;
    }
    conditions.retain(|c| c.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: state.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
}
