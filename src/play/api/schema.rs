//! Objects in and out of their types: what has the wrong shape is refused, what the type does not know is dropped, times and
//! numbers get their one spelling. The types are those of k8s-openapi, as a real API server decodes into its own.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, LimitRange, Namespace, Node, Pod, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::kinds::{Kind, Resource};
use super::status::{Answer, Failure};
use super::{events, meta};

fn round<T: DeserializeOwned + Serialize>(object: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object)?)
}

/// An object as it is stored: through its type, without `kind` and `apiVersion`.
///
/// # Errors
/// 400 when a field has the wrong shape.
pub(super) fn normalise(kind: Kind, mut object: Value) -> Answer<Value> {
    let resource = kind.resource();
    meta::metadata(&mut object);
    meta::set(&mut object, "kind", Some(resource.name.into()));
    meta::set(&mut object, "apiVersion", Some(resource.api_version().into()));
    let object = match kind {
        Kind::AdmissionBinding => round::<ValidatingAdmissionPolicyBinding>(object),
        Kind::AdmissionPolicy => round::<ValidatingAdmissionPolicy>(object),
        Kind::ClusterRole => round::<ClusterRole>(object),
        Kind::ClusterRoleBinding => round::<ClusterRoleBinding>(object),
        Kind::ConfigMap => round::<ConfigMap>(object),
        Kind::CronJob => round::<CronJob>(object),
        Kind::Deployment => round::<Deployment>(object),
        Kind::DisruptionBudget => round::<PodDisruptionBudget>(object),
        Kind::Event => round::<Event>(object),
        Kind::Job => round::<Job>(object),
        Kind::Lease => round::<Lease>(object),
        Kind::LimitRange => round::<LimitRange>(object),
        Kind::Namespace => round::<Namespace>(object),
        Kind::NetworkPolicy => round::<NetworkPolicy>(object),
        Kind::Node => round::<Node>(object),
        Kind::Pod => round::<Pod>(object),
        Kind::Quota => round::<ResourceQuota>(object),
        Kind::Role => round::<Role>(object),
        Kind::RoleBinding => round::<RoleBinding>(object),
        Kind::Secret => round::<Secret>(object),
        Kind::Service => round::<Service>(object),
        Kind::ServiceAccount => round::<ServiceAccount>(object),
    };
    let mut object = object.map_err(|error| {
        let name = resource.name;
        Failure::bad_request(format!("{name} in version \"v1\" cannot be handled as a {name}: {error}"))
    })?;
    meta::set(&mut object, "kind", None);
    meta::set(&mut object, "apiVersion", None);
    prune(&mut object);
    Ok(object)
}

/// An object that came in for this resource, as it is stored.
///
/// # Errors
/// 400 when it is another kind, has the wrong shape or, if `strict`, fields that its type does not know.
pub(super) fn accept(resource: &Resource, object: Value, strict: bool) -> Answer<Value> {
    if !object.is_object() {
        return Err(Failure::bad_request("the body of the request is no JSON object"));
    }
    for (key, expected) in [("apiVersion", resource.api_version()), ("kind", resource.name.to_owned())] {
        match meta::text(&object, &format!("/{key}")) {
            None | Some("") => {}
            Some(found) if found == expected => {}
            Some(found) => {
                return Err(Failure::bad_request(format!(
                    "the {key} in the data ({found}) does not match the expected {key} ({expected})"
                )));
            }
        }
    }
    let object = if resource.is_core_event() { events::from_core(object)? } else { object };
    let sent = strict.then(|| object.clone());
    let stored = normalise(resource.kind, object)?;
    if let Some(sent) = sent {
        let mut unknown = Vec::new();
        find_unknown(&sent, &stored, "", &mut unknown);
        unknown.retain(|f| f != "kind" && f != "apiVersion");
        if !unknown.is_empty() {
            let fields: Vec<String> = unknown.iter().map(|f| format!("unknown field \"{f}\"")).collect();
            return Err(Failure::bad_request(format!("strict decoding error: {}", fields.join(", "))));
        }
    }
    Ok(stored)
}

/// An object as a resource shows it: with `kind` and `apiVersion`, events in the form of the group that was asked.
pub(super) fn show(resource: &Resource, object: Value) -> Value {
    let object = if resource.is_core_event() { events::to_core(object) } else { object };
    let mut shown = json!({ "kind": resource.name, "apiVersion": resource.api_version() });
    if let (Value::Object(shown), Value::Object(object)) = (&mut shown, object) {
        shown.extend(object);
    }
    shown
}

/// Drops empty lists everywhere and empty maps where Go's encoder does: "none" has one spelling.
fn prune(object: &mut Value) {
    const MAPS: [&str; 8] = [
        "labels",
        "annotations",
        "data",
        "binaryData",
        "stringData",
        "nodeSelector",
        "matchLabels",
        "limits",
    ];
    match object {
        Value::Object(map) => {
            map.retain(|key, value| match value {
                Value::Array(list) => !list.is_empty(),
                Value::Object(inner) => !inner.is_empty() || !MAPS.contains(&key.as_str()),
                _ => true,
            });
            map.values_mut().for_each(prune);
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

fn find_unknown(sent: &Value, kept: &Value, path: &str, out: &mut Vec<String>) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (key, value) in sent {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match kept.get(key) {
                    Some(kept) => find_unknown(value, kept, &path, out),
                    None if is_nothing(value) => {}
                    None => out.push(path),
                }
            }
        }
        (Value::Array(sent), Value::Array(kept)) => {
            for (at, (sent, kept)) in sent.iter().zip(kept).enumerate() {
                find_unknown(sent, kept, &format!("{path}[{at}]"), out);
            }
        }
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_type_does_not_know_is_dropped_or_named() {
        let job = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"suspend": true, "wat": 1,
            "template": {"spec": {"containers": []}}}});
        let resource = Kind::Job.resource();
        let stored = accept(resource, job.clone(), false).unwrap();
        assert!(stored.pointer("/spec/wat").is_none());
        assert!(stored.pointer("/metadata/labels").is_none());
        assert!(stored.get("kind").is_none());
        let error = accept(resource, job, true).unwrap_err();
        assert_eq!(error.to_string(), "strict decoding error: unknown field \"spec.wat\"");
    }

    #[test]
    fn a_wrong_shape_is_refused() {
        let resource = Kind::ConfigMap.resource();
        assert!(accept(resource, json!({"data": {"a": 1}}), false).is_err());
        assert!(accept(resource, json!({"kind": "Secret"}), false).is_err());
        assert!(accept(resource, json!([]), false).is_err());
        assert!(accept(resource, json!({"metadata": null}), false).is_ok());
    }

    #[test]
    fn going_through_the_type_twice_changes_nothing() {
        let event = json!({"metadata": {"name": "e", "creationTimestamp": "2026-12-01T10:00:00.5Z"},
            "eventTime": "2026-12-01T10:00:00Z"});
        let once = normalise(Kind::Event, event).unwrap();
        assert_eq!(meta::text(&once, "/metadata/creationTimestamp"), Some("2026-12-01T10:00:00Z"));
        assert_eq!(meta::text(&once, "/eventTime"), Some("2026-12-01T10:00:00.000000Z"));
        assert_eq!(normalise(Kind::Event, once.clone()).unwrap(), once);
    }
}
