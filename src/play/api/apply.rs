//! Server-side apply: what a manifest says is merged into what is there, or made when there is nothing.
//!
//! Lists that a real API server merges by a key are merged by it here; others are replaced. There are no managed fields: one writer
//! can't take back by silence what it once said, and no other writer's fields are in conflict with it.

use serde_json::Value;

use super::meta::text;
use super::params::Params;
use super::status::{Answer, Failure, Faults};
use super::{delete, kinds::Resource};

/// Lists whose items have a key of their own.
const KEYED: [(&str, &str); 9] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("imagePullSecrets", "name"),
    ("secrets", "name"),
    ("ownerReferences", "uid"),
    ("conditions", "type"),
];

/// Reads a manifest and what comes with it.
///
/// # Errors
/// 422 without a field manager, 400 for what is no manifest of this resource.
pub(super) fn read(resource: &Resource, name: &str, params: &Params, body: &[u8]) -> Answer<Value> {
    if params.get("fieldManager").is_none() {
        let mut faults = Faults::default();
        faults.required("fieldManager", "is required for apply patch");
        faults.done(&delete::PATCH_OPTIONS, "")?;
    }
    let text_of = std::str::from_utf8(body).map_err(|error| Failure::bad_request(error.to_string()))?;
    let manifest: Value = serde_saphyr::from_str(text_of)
        .map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
    for (at, expected) in [
        ("/apiVersion", resource.api_version()),
        ("/kind", resource.name.to_owned()),
        ("/metadata/name", name.to_owned()),
    ] {
        let found = text(&manifest, at).unwrap_or_default();
        // The name may be left to the path.
        if found != expected && !(at == "/metadata/name" && found.is_empty()) {
            return Err(Failure::bad_request(format!(
                "{at} is {found:?}, and not {expected:?} as in the path"
            )));
        }
    }
    Ok(manifest)
}

/// Merges a manifest into an object.
pub(super) fn merge(object: &mut Value, manifest: Value) {
    let (Value::Object(object), Value::Object(manifest)) = (object, manifest) else { return };
    for (key, value) in manifest {
        let slot = object.entry(key.as_str()).or_insert(Value::Null);
        match (&key, slot, value) {
            (_, slot @ Value::Object(_), value @ Value::Object(_)) => merge(slot, value),
            (key, Value::Array(was), Value::Array(said)) if key == "finalizers" => {
                let new: Vec<Value> = said.into_iter().filter(|one| !was.contains(one)).collect();
                was.extend(new);
            }
            (key, Value::Array(was), Value::Array(said)) if key_of(key).is_some() => {
                merge_list(was, said, key_of(key).unwrap_or_default());
            }
            (_, slot, value) => *slot = value,
        }
    }
}

fn key_of(list: &str) -> Option<&'static str> {
    KEYED.iter().find(|(name, _)| *name == list).map(|(_, key)| *key)
}

fn merge_list(was: &mut Vec<Value>, said: Vec<Value>, key: &str) {
    for item in said {
        match was.iter_mut().find(|one| one.get(key).is_some() && one.get(key) == item.get(key)) {
            Some(one) => merge(one, item),
            None => was.push(item),
        }
    }
}

/// What an update with a manifest makes of an object.
pub(super) fn change(manifest: Value) -> impl FnOnce(Value) -> Answer<Value> {
    |mut object| {
        merge(&mut object, manifest);
        Ok(object)
    }
}

/// The error of an update that found nothing, told from others.
pub(super) fn is_absent<T>(done: &Answer<T>) -> bool {
    done.as_ref().is_err_and(|failure| failure.code() == http::StatusCode::NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_manifest_says_is_merged_and_the_rest_stays() {
        let mut object = json!({
            "metadata": {"labels": {"a": "1"}, "finalizers": ["x/y"]},
            "spec": {"containers": [{"name": "c", "image": "old", "tty": true}, {"name": "d"}], "list": [1, 2]},
        });
        merge(
            &mut object,
            json!({
                "metadata": {"labels": {"b": "2"}, "finalizers": ["x/z", "x/y"]},
                "spec": {"containers": [{"name": "c", "image": "new"}, {"name": "e"}], "list": [3]},
            }),
        );
        let merged = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x/y", "x/z"]},
            "spec": {"containers": [{"name": "c", "image": "new", "tty": true}, {"name": "d"}, {"name": "e"}], "list": [3]},
        });
        assert_eq!(object, merged);
    }
}
