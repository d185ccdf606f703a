//! Jobs: what the API server fills in, what it refuses, and what may still change once a Job exists.
//!
//! Its status has rules of its own, in `jobstatus`.

use serde_json::{Value, json};

use super::meta::{self, child, default, items, number, set, text};
use super::podspec;
use super::status::Faults;

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";

/// Fills in a new Job; its name and UID are set already.
pub(super) fn create(job: &mut Value) {
    fill(job);
    set(job, "status", Some(json!({})));
    let uid = text(job, "/metadata/uid").unwrap_or_default().to_owned();
    let name = text(job, "/metadata/name").unwrap_or_default().to_owned();
    let spec = child(job, "spec");
    if meta::truth(spec, "/manualSelector") {
        return;
    }
    // Someone who brought labels or a selector of these names keeps them, and is refused by `check`.
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        (UID_LABEL, &uid),
        (NAME_LABEL, &name),
        // The names of before 1.27, kept by the API server beside the new ones.
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        default(labels, key, value.as_str());
    }
    default(child(child(spec, "selector"), "matchLabels"), UID_LABEL, uid);
    fill_labels(job);
}

/// A Job without labels has those of its template, the generated ones too.
fn fill_labels(job: &mut Value) {
    let labels = job.pointer("/spec/template/metadata/labels").cloned();
    if job.pointer("/metadata/labels").is_none()
        && let Some(labels) = labels
    {
        set(meta::metadata(job), "labels", Some(labels));
    }
}

/// Fills in what a Job leaves out, at creation and at each update.
pub(super) fn fill(job: &mut Value) {
    fill_labels(job);
    let spec = child(job, "spec");
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let per_index = spec.get("backoffLimitPerIndex").is_some();
    default(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let replaced = if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", replaced);
    if let Some(Value::Array(rules)) = spec.pointer_mut("/podFailurePolicy/rules") {
        for rule in rules {
            if let Some(Value::Array(patterns)) = rule.get_mut("onPodConditions") {
                patterns.iter_mut().for_each(|p| default(p, "status", "True"));
            }
        }
    }
    podspec::fill(child(child(spec, "template"), "spec"));
}

/// Checks the spec of a Job.
pub(super) fn check(job: &Value, faults: &mut Faults) {
    let spec = job.get("spec").unwrap_or(&Value::Null);
    for field in
        ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"]
    {
        if let Some(n) = spec.get(field).and_then(Value::as_i64).filter(|n| *n < 0) {
            faults.invalid(&format!("spec.{field}"), n, "must be greater than or equal to 0");
        }
    }
    let mode = text(spec, "/completionMode").unwrap_or_default();
    if !["NonIndexed", "Indexed"].contains(&mode) {
        faults.unsupported("spec.completionMode", mode, &["Indexed", "NonIndexed"]);
    } else if mode == "Indexed" && spec.get("completions").is_none() {
        faults.required("spec.completions", "when completion mode is Indexed");
    }
    let replaced = text(spec, "/podReplacementPolicy").unwrap_or_default();
    let policy = spec.get("podFailurePolicy");
    if policy.is_some() && replaced != "Failed" {
        faults.unsupported("spec.podReplacementPolicy", replaced, &["Failed"]);
    } else if !["Failed", "TerminatingOrFailed"].contains(&replaced) {
        faults.unsupported("spec.podReplacementPolicy", replaced, &["Failed", "TerminatingOrFailed"]);
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    let (labels, annotations) =
        (template.pointer("/metadata/labels"), template.pointer("/metadata/annotations"));
    meta::check_labels(labels, "spec.template.labels", faults);
    meta::check_annotations(annotations, "spec.template.annotations", faults);
    check_selector(job, faults);
    let pod = template.get("spec").unwrap_or(&Value::Null);
    podspec::check(pod, "spec.template.spec", &["OnFailure", "Never"], faults);
    if let Some(policy) = policy {
        check_failure_policy(policy, pod, faults);
    }
}

fn check_selector(job: &Value, faults: &mut Faults) {
    let wanted = job.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels = job.pointer("/spec/template/metadata/labels");
    let matches = wanted.is_some_and(|wanted| {
        wanted.iter().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
    });
    if !matches {
        faults.invalid("spec.template.metadata.labels", "", "`selector` does not match template `labels`");
    }
    if meta::truth(job, "/spec/manualSelector") {
        return;
    }
    let uid = text(job, "/metadata/uid").unwrap_or_default();
    let name = text(job, "/metadata/name").unwrap_or_default();
    let generated =
        wanted.is_some_and(|w| w.len() == 1 && w.get(UID_LABEL).and_then(Value::as_str) == Some(uid));
    if !generated {
        faults.invalid("spec.selector", "", "`selector` not auto-generated");
    }
    for (key, value) in [(UID_LABEL, uid), (NAME_LABEL, name), ("controller-uid", uid), ("job-name", name)] {
        let found = labels.and_then(|l| l.get(key)).and_then(Value::as_str).unwrap_or_default();
        if found != value {
            faults.invalid("spec.template.labels", found, format!("must be '{value}' for the label {key}"));
        }
    }
}

fn check_failure_policy(policy: &Value, pod: &Value, faults: &mut Faults) {
    if text(pod, "/restartPolicy") != Some("Never") {
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        faults.invalid(
            "spec.template.spec.restartPolicy",
            pod.get("restartPolicy").cloned().unwrap_or_default(),
            why,
        );
    }
    let rules = items(policy, "/rules");
    if rules.len() > 20 {
        faults.invalid("spec.podFailurePolicy.rules", rules.len(), "must have at most 20 items");
    }
    for (at, rule) in rules.iter().enumerate() {
        let field = format!("spec.podFailurePolicy.rules[{at}]");
        let action = text(rule, "/action").unwrap_or_default();
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        if !actions.contains(&action) {
            faults.unsupported(&format!("{field}.action"), action, &actions);
        }
        let conditions = items(rule, "/onPodConditions");
        match rule.get("onExitCodes") {
            Some(codes) if conditions.is_empty() => check_exit_codes(codes, pod, &field, faults),
            None if !conditions.is_empty() => {}
            Some(_) => {
                faults.invalid(
                    &field,
                    "",
                    "specifying both OnExitCodes and OnPodConditions is not supported",
                );
            }
            None => {
                faults.invalid(&field, "", "specifying one of OnExitCodes and OnPodConditions is required");
            }
        }
    }
}

fn check_exit_codes(codes: &Value, pod: &Value, field: &str, faults: &mut Faults) {
    let operator = text(codes, "/operator").unwrap_or_default();
    if !["In", "NotIn"].contains(&operator) {
        faults.unsupported(&format!("{field}.onExitCodes.operator"), operator, &["In", "NotIn"]);
    }
    if let Some(name) = text(codes, "/containerName") {
        let mut containers = items(pod, "/containers").iter().chain(items(pod, "/initContainers"));
        if !containers.any(|c| text(c, "/name") == Some(name)) {
            let why = "must be one of the container or initContainer names in the pod template";
            faults.invalid(&format!("{field}.onExitCodes.containerName"), name, why);
        }
    }
    let values: Vec<i64> = items(codes, "/values").iter().filter_map(Value::as_i64).collect();
    let field = format!("{field}.onExitCodes.values");
    if values.is_empty() || values.len() > 255 {
        faults.invalid(&field, values.len(), "at least one and at most 255 values are required");
    }
    if operator == "In" && values.contains(&0) {
        faults.invalid(&field, 0, "must not be 0 for the In operator");
    }
    if !values.is_sorted_by(|a, b| a < b) {
        faults.invalid(&field, "", "must be ordered and without duplicates");
    }
}

/// Checks a changed Job.
pub(super) fn check_update(old: &Value, new: &Value, faults: &mut Faults) {
    let same = |pointer: &str| old.pointer(pointer) == new.pointer(pointer);
    let now = |pointer: &str| new.pointer(pointer).cloned().unwrap_or_default();
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        let pointer = format!("/spec/{field}");
        if !same(&pointer) {
            faults.immutable(&format!("spec.{field}"), now(&pointer));
        }
    }
    // An indexed Job may be scaled by moving both together.
    let indexed = text(new, "/spec/completionMode") == Some("Indexed");
    let together = number(new, "/spec/completions") == number(new, "/spec/parallelism");
    let scaled = indexed && together;
    if !scaled && !same("/spec/completions") {
        faults.immutable("spec.completions", now("/spec/completions"));
    }
    if !same("/spec/template") {
        let mut was = old.pointer("/spec/template").cloned().unwrap_or_default();
        if may_move(old) {
            adopt_scheduling(&mut was, &now("/spec/template"));
        }
        if new.pointer("/spec/template") != Some(&was) {
            faults.immutable("spec.template", "core.PodTemplateSpec");
        }
    }
}

/// Whether the template may still change in part: the Job is suspended and never had a pod.
fn may_move(job: &Value) -> bool {
    meta::truth(job, "/spec/suspend") && job.pointer("/status/startTime").is_none()
}

/// Takes over what may change in the template of a Job that has not started.
fn adopt_scheduling(was: &mut Value, now: &Value) {
    for key in ["labels", "annotations"] {
        let value = now.pointer(&format!("/metadata/{key}")).cloned();
        set(child(was, "metadata"), key, value);
    }
    let spec = child(was, "spec");
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        set(spec, key, now.pointer(&format!("/spec/{key}")).cloned());
    }
    let affinity = now.pointer("/spec/affinity/nodeAffinity").cloned();
    if affinity.is_some() || spec.get("affinity").is_some() {
        set(child(spec, "affinity"), "nodeAffinity", affinity);
        // An affinity with nothing in it is none.
        if now.pointer("/spec/affinity").is_none() && spec.get("affinity").is_some_and(|a| *a == json!({})) {
            set(spec, "affinity", None);
        }
    }
}
