//! Pod specs, alone and in the template of a Job: what the API server fills in, and what it refuses.
//!
//! The whole of pod validation is not here: what this program writes is, and what a mistake in it would look like.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::meta::{self, child, default, items, text};
use super::status::Faults;

/// Fills in what a pod spec leaves out.
pub(super) fn fill(spec: &mut Value) {
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", "default-scheduler");
    if let Some(account) = text(spec, "/serviceAccountName").map(str::to_owned) {
        // The old name of the same field: the API server keeps both.
        default(spec, "serviceAccount", account);
    }
    for kind in ["initContainers", "containers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(kind) {
            containers.iter_mut().for_each(fill_container);
        }
    }
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.iter_mut().for_each(fill_volume);
    }
}

/// Fills in what only a pod itself gets, not a template.
pub(super) fn fill_pod(spec: &mut Value) {
    fill(spec);
    default(spec, "serviceAccountName", "default");
    let account = text(spec, "/serviceAccountName").unwrap_or("default").to_owned();
    default(spec, "serviceAccount", account);
    default(spec, "enableServiceLinks", true);
    default(spec, "preemptionPolicy", "PreemptLowerPriority");
    default(spec, "priority", 0);
}

fn fill_container(container: &mut Value) {
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    default(container, "resources", json!({}));
    let image = text(container, "/image").unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let latest = last.ends_with(":latest") || !last.contains([':', '@']);
    default(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
    if let Some(Value::Array(variables)) = container.get_mut("env") {
        for variable in variables {
            if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
                default(field, "apiVersion", "v1");
            }
        }
    }
    if let Some(Value::Array(ports)) = container.get_mut("ports") {
        ports.iter_mut().for_each(|port| default(port, "protocol", "TCP"));
    }
}

fn fill_volume(volume: &mut Value) {
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            default(source, "defaultMode", 420);
            fill_field_refs(source);
        }
    }
    if let Some(Value::Array(sources)) = volume.pointer_mut("/projected/sources") {
        sources.iter_mut().filter_map(|s| s.get_mut("downwardAPI")).for_each(fill_field_refs);
    }
}

fn fill_field_refs(source: &mut Value) {
    if let Some(Value::Array(files)) = source.get_mut("items") {
        files.iter_mut().filter_map(|f| f.get_mut("fieldRef")).for_each(|f| default(f, "apiVersion", "v1"));
    }
}

/// Checks a pod spec; `path` is its field, `policies` the restart policies that are allowed there.
pub(super) fn check(spec: &Value, path: &str, policies: &[&str], faults: &mut Faults) {
    let policy = text(spec, "/restartPolicy").unwrap_or_default();
    if !policies.contains(&policy) {
        let all = ["Always", "OnFailure", "Never"];
        if all.contains(&policy) {
            let names: Vec<String> = policies.iter().map(|p| format!("\"{p}\"")).collect();
            let why = format!("valid values: {}", names.join(", "));
            faults.required(&format!("{path}.restartPolicy"), why);
        } else {
            faults.unsupported(&format!("{path}.restartPolicy"), policy, policies);
        }
    }
    if meta::number(spec, "/terminationGracePeriodSeconds").is_some_and(|n| n < 0) {
        let why = "must be greater than or equal to 0";
        faults.invalid(&format!("{path}.terminationGracePeriodSeconds"), -1, why);
    }
    if meta::number(spec, "/activeDeadlineSeconds").is_some_and(|n| n < 1) {
        faults.invalid(&format!("{path}.activeDeadlineSeconds"), 0, "must be greater than 0");
    }
    if items(spec, "/containers").is_empty() {
        faults.required(&format!("{path}.containers"), "");
    }
    let volumes = check_volumes(spec, path, faults);
    let mut names = BTreeSet::new();
    for kind in ["initContainers", "containers"] {
        for (at, container) in items(spec, &format!("/{kind}")).iter().enumerate() {
            let field = format!("{path}.{kind}[{at}]");
            check_container(container, &field, &mut names, &volumes, faults);
        }
    }
}

fn check_volumes<'a>(spec: &'a Value, path: &str, faults: &mut Faults) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, volume) in items(spec, "/volumes").iter().enumerate() {
        let field = format!("{path}.volumes[{at}].name");
        check_part_name(volume, &field, &mut names, faults);
    }
    names
}

fn check_part_name<'a>(part: &'a Value, field: &str, names: &mut BTreeSet<&'a str>, faults: &mut Faults) {
    let name = text(part, "/name").unwrap_or_default();
    if name.is_empty() {
        faults.required(field, "");
    } else if !meta::is_dns_label(name) {
        faults.invalid(field, name, "must be a lowercase RFC 1123 label of at most 63 characters");
    } else if !names.insert(name) {
        faults.duplicate(field, name);
    }
}

fn check_container<'a>(
    container: &'a Value,
    field: &str,
    names: &mut BTreeSet<&'a str>,
    volumes: &BTreeSet<&str>,
    faults: &mut Faults,
) {
    check_part_name(container, &format!("{field}.name"), names, faults);
    if text(container, "/image").unwrap_or_default().is_empty() {
        faults.required(&format!("{field}.image"), "");
    }
    for (at, mount) in items(container, "/volumeMounts").iter().enumerate() {
        let name = text(mount, "/name").unwrap_or_default();
        if !volumes.contains(name) {
            faults.not_found(&format!("{field}.volumeMounts[{at}].name"), name);
        }
        if text(mount, "/mountPath").unwrap_or_default().is_empty() {
            faults.required(&format!("{field}.volumeMounts[{at}].mountPath"), "");
        }
    }
    for (at, variable) in items(container, "/env").iter().enumerate() {
        let field = format!("{field}.env[{at}]");
        if text(variable, "/name").unwrap_or_default().is_empty() {
            faults.required(&format!("{field}.name"), "");
        }
        if variable.get("valueFrom").is_some() && text(variable, "/value").is_some_and(|v| !v.is_empty()) {
            faults.invalid(
                &format!("{field}.valueFrom"),
                "",
                "may not be specified when `value` is not empty",
            );
        }
    }
}

/// Fills in a new pod.
pub(super) fn create(pod: &mut Value) {
    let spec = child(pod, "spec");
    fill_pod(spec);
    meta::set(pod, "status", Some(json!({ "phase": "Pending", "qosClass": "BestEffort" })));
}

/// Checks a new pod.
pub(super) fn check_pod(pod: &Value, faults: &mut Faults) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    check(spec, "spec", &["Always", "OnFailure", "Never"], faults);
}

/// Checks a changed pod: nearly all of its spec is fixed.
pub(super) fn check_pod_update(old: &Value, new: &Value, faults: &mut Faults) {
    let fixed = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or_default();
        for free in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
            meta::set(&mut spec, free, None);
        }
        for kind in ["containers", "initContainers"] {
            if let Some(Value::Array(containers)) = spec.get_mut(kind) {
                containers.iter_mut().for_each(|c| meta::set(c, "image", None));
            }
        }
        spec
    };
    if fixed(old) != fixed(new) {
        faults.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_pulled_as_their_tag_says() {
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1.36", "IfNotPresent"),
            ("registry:5000/busybox", "Always"),
            ("busybox@sha256:00", "IfNotPresent"),
        ] {
            let mut container = json!({ "image": image });
            fill_container(&mut container);
            assert_eq!(text(&container, "/imagePullPolicy"), Some(policy), "{image}");
        }
    }

    #[test]
    fn a_mount_needs_its_volume_and_names_occur_once() {
        let spec = json!({
            "restartPolicy": "Always",
            "containers": [
                {"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/x"}]},
                {"name": "a", "image": ""},
            ],
        });
        let mut faults = Faults::default();
        check(&spec, "spec", &["Never"], &mut faults);
        let text = faults.done(crate::play::api::kinds::Kind::Pod.resource(), "p").unwrap_err().to_string();
        for part in [
            "spec.restartPolicy: Required value: valid values: \"Never\"",
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
            "spec.containers[1].name: Duplicate value: \"a\"",
            "spec.containers[1].image: Required value",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
