//! The kinds of a deployment: what the API server fills in and refuses of Roles, services, workloads and policies.
//!
//! Nothing here runs them: they are kept, enforced where they say who may do what (`rbac`, `admission`), and shown.

use serde_json::{Value, json};

use super::kinds::{Kind, RBAC};
use super::meta::{self, child, default, items, text};
use super::status::Faults;
use super::{admission, podspec};

/// Fills in what an object leaves out.
pub(super) fn fill(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Deployment => fill_deployment(child(object, "spec")),
        Kind::CronJob => {
            let spec = child(object, "spec");
            for (field, value) in [
                ("concurrencyPolicy", json!("Allow")),
                ("suspend", json!(false)),
                ("successfulJobsHistoryLimit", json!(3)),
                ("failedJobsHistoryLimit", json!(1)),
            ] {
                default(spec, field, value);
            }
            podspec::fill(child(child(child(child(spec, "jobTemplate"), "spec"), "template"), "spec"));
        }
        Kind::Service => {
            let spec = child(object, "spec");
            default(spec, "type", "ClusterIP");
            default(spec, "sessionAffinity", "None");
            default(spec, "internalTrafficPolicy", "Cluster");
            for port in list(spec, "ports") {
                default(port, "protocol", "TCP");
                let number = port.get("port").cloned().unwrap_or_default();
                default(port, "targetPort", number);
            }
        }
        Kind::AdmissionPolicy => {
            let spec = child(object, "spec");
            default(spec, "failurePolicy", "Fail");
            let constraints = child(spec, "matchConstraints");
            default(constraints, "matchPolicy", "Equivalent");
            default(constraints, "namespaceSelector", json!({}));
            default(constraints, "objectSelector", json!({}));
            for rule in list(constraints, "resourceRules") {
                default(rule, "scope", "*");
            }
        }
        Kind::RoleBinding | Kind::ClusterRoleBinding => {
            default(child(object, "roleRef"), "apiGroup", RBAC);
            for subject in list(object, "subjects") {
                if text(subject, "/kind") != Some("ServiceAccount") {
                    default(subject, "apiGroup", RBAC);
                }
            }
        }
        _ => {}
    }
}

fn list<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn fill_deployment(spec: &mut Value) {
    for (field, value) in [
        ("replicas", json!(1)),
        ("revisionHistoryLimit", json!(10)),
        ("progressDeadlineSeconds", json!(600)),
        ("strategy", json!({})),
    ] {
        default(spec, field, value);
    }
    let strategy = child(spec, "strategy");
    default(strategy, "type", "RollingUpdate");
    if text(strategy, "/type") == Some("RollingUpdate") {
        let update = child(strategy, "rollingUpdate");
        default(update, "maxUnavailable", "25%");
        default(update, "maxSurge", "25%");
    }
    podspec::fill(child(child(spec, "template"), "spec"));
}

/// Checks an object that is to be stored.
pub(super) fn check(kind: Kind, object: &Value, faults: &mut Faults) {
    match kind {
        Kind::AdmissionPolicy => admission::check_policy(object, faults),
        Kind::AdmissionBinding => check_admission_binding(object, faults),
        Kind::Role | Kind::ClusterRole => check_role(kind, object, faults),
        Kind::RoleBinding | Kind::ClusterRoleBinding => check_binding(kind, object, faults),
        Kind::Deployment => check_deployment(object, faults),
        Kind::Service => check_service(object, faults),
        _ => {}
    }
}

/// Checks what may not change.
pub(super) fn check_update(kind: Kind, old: &Value, new: &Value, faults: &mut Faults) {
    let fixed: &[(&str, &str)] = match kind {
        Kind::RoleBinding | Kind::ClusterRoleBinding => &[("roleRef", "/roleRef")],
        Kind::Deployment => &[("spec.selector", "/spec/selector")],
        _ => &[],
    };
    for (field, at) in fixed {
        if old.pointer(at) != new.pointer(at) {
            faults.invalid(field, new.pointer(at).cloned().unwrap_or_default(), "cannot change");
        }
    }
}

fn check_admission_binding(binding: &Value, faults: &mut Faults) {
    if text(binding, "/spec/policyName").is_none_or(str::is_empty) {
        faults.required("spec.policyName", "");
    }
    let actions = items(binding, "/spec/validationActions");
    if actions.is_empty() {
        faults.required("spec.validationActions", "");
    }
    for action in actions.iter().filter_map(Value::as_str) {
        if !["Audit", "Deny", "Warn"].contains(&action) {
            faults.unsupported("spec.validationActions", action, &["Audit", "Deny", "Warn"]);
        }
    }
}

fn check_role(kind: Kind, role: &Value, faults: &mut Faults) {
    for (at, rule) in items(role, "/rules").iter().enumerate() {
        let field = |name: &str| format!("rules[{at}].{name}");
        if items(rule, "/verbs").is_empty() {
            faults.required(&field("verbs"), "verbs must contain at least one value");
        }
        if !items(rule, "/nonResourceURLs").is_empty() {
            if kind == Kind::Role {
                let why = "namespaced rules cannot apply to non-resource URLs";
                faults.invalid(&field("nonResourceURLs"), "", why);
            }
            continue;
        }
        if items(rule, "/apiGroups").is_empty() {
            faults.required(&field("apiGroups"), "resource rules must supply at least one api group");
        }
        if items(rule, "/resources").is_empty() {
            faults.required(&field("resources"), "resource rules must supply at least one resource");
        }
    }
}

fn check_binding(kind: Kind, binding: &Value, faults: &mut Faults) {
    let of = text(binding, "/roleRef/kind").unwrap_or_default();
    let roles: &[&str] = if kind == Kind::RoleBinding { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !roles.contains(&of) {
        faults.unsupported("roleRef.kind", of, roles);
    }
    if text(binding, "/roleRef/name").is_none_or(str::is_empty) {
        faults.required("roleRef.name", "");
    }
    for (at, subject) in items(binding, "/subjects").iter().enumerate() {
        let kind = text(subject, "/kind").unwrap_or_default();
        if !["ServiceAccount", "User", "Group"].contains(&kind) {
            let field = format!("subjects[{at}].kind");
            faults.unsupported(&field, kind, &["Group", "ServiceAccount", "User"]);
        }
        if text(subject, "/name").is_none_or(str::is_empty) {
            faults.required(&format!("subjects[{at}].name"), "");
        }
        if kind == "ServiceAccount" && text(subject, "/namespace").is_none_or(str::is_empty) {
            faults.required(&format!("subjects[{at}].namespace"), "");
        }
    }
}

fn check_deployment(deployment: &Value, faults: &mut Faults) {
    let wanted = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels = deployment.pointer("/spec/template/metadata/labels");
    if wanted.is_none_or(|w| w.iter().any(|(key, value)| labels.and_then(|l| l.get(key)) != Some(value))) {
        let why = "`selector` does not match template `labels`";
        faults.invalid("spec.template.metadata.labels", labels.cloned().unwrap_or_default(), why);
    }
    meta::check_labels(labels, "spec.template.labels", faults);
    let pod = deployment.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    podspec::check(pod, "spec.template.spec", &["Always"], faults);
}

fn check_service(service: &Value, faults: &mut Faults) {
    let ports = items(service, "/spec/ports");
    if ports.is_empty() && text(service, "/spec/clusterIP") != Some("None") {
        faults.required("spec.ports", "");
    }
    for (at, port) in ports.iter().enumerate() {
        if meta::number(port, "/port").is_none_or(|port| !(1..=65535).contains(&port)) {
            let value = port.get("port").cloned().unwrap_or_default();
            faults.invalid(
                &format!("spec.ports[{at}].port"),
                value,
                "must be between 1 and 65535, inclusive",
            );
        }
    }
}
