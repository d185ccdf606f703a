//! What the server says of itself: its version, its groups and their resources.
//!
//! kubectl asks for all of this before its first request.

use serde_json::{Value, json};

use super::kinds::{GROUPS, RESOURCES, Resource};

/// `GET /version`.
pub(super) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "33",
        "gitVersion": concat!("v1.33.0+hostwright-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `GET /api`.
pub(super) fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

fn described(group: &str) -> Value {
    let version = json!({ "groupVersion": format!("{group}/v1"), "version": "v1" });
    json!({ "name": group, "versions": [version], "preferredVersion": version })
}

/// `GET /apis`.
pub(super) fn groups() -> Value {
    let groups: Vec<Value> = GROUPS.iter().map(|g| described(g)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `GET /apis/GROUP`, `None` for a group that is not served.
pub(super) fn group(name: &str) -> Option<Value> {
    GROUPS.contains(&name).then(|| {
        let mut group = json!({ "kind": "APIGroup", "apiVersion": "v1" });
        if let (Value::Object(group), Value::Object(described)) = (&mut group, described(name)) {
            group.extend(described);
        }
        group
    })
}

/// `GET /api/v1` and `GET /apis/GROUP/v1`, `None` for a group that is not served.
pub(super) fn resources(group: &str) -> Option<Value> {
    if !group.is_empty() && !GROUPS.contains(&group) {
        return None;
    }
    let mut list: Vec<Value> = RESOURCES.iter().filter(|r| r.group == group).flat_map(entries).collect();
    let review = |name: &str, kind: &str| json!({ "name": name, "singularName": "", "namespaced": false, "kind": kind, "verbs": ["create"] });
    match group {
        "authorization.k8s.io" => {
            list.push(review("selfsubjectaccessreviews", "SelfSubjectAccessReview"));
            list.push(review("selfsubjectrulesreviews", "SelfSubjectRulesReview"));
        }
        "authentication.k8s.io" => list.push(review("selfsubjectreviews", "SelfSubjectReview")),
        _ => {}
    }
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    Some(json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list }))
}

fn entries(resource: &Resource) -> Vec<Value> {
    let entry = |name: String, verbs: &[&str]| {
        json!({
            "name": name,
            "singularName": if name == resource.plural { resource.singular } else { "" },
            "namespaced": resource.namespaced,
            "kind": resource.name,
            "verbs": verbs,
        })
    };
    let mut first = entry(resource.plural.to_owned(), resource.verbs);
    if let Value::Object(map) = &mut first
        && !resource.short.is_empty()
    {
        map.insert("shortNames".to_owned(), json!(resource.short));
    }
    let mut entries = vec![first];
    if resource.status {
        entries.push(entry(format!("{}/status", resource.plural), &["get", "patch", "update"]));
    }
    if resource.plural == "serviceaccounts" {
        entries.push(entry("serviceaccounts/token".to_owned(), &["create"]));
    }
    if resource.plural == "pods" {
        entries.push(entry("pods/log".to_owned(), &["get"]));
    }
    entries
}
