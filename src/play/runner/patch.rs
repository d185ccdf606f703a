//! Status updates as JSON merge patches that name only what changes, so that fields which this program does not know stay.
//!
//! Called by `jobs.rs` and `worker.rs`. Each patch carries the resource version: an API server refuses it when the object has
//! changed since it was read.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// A merge patch from the status `before` to `after` of the object at `version`; `None` when they are the same.
pub(super) fn status<T: Serialize>(
    before: Option<&T>,
    after: &T,
    version: Option<&str>,
) -> serde_json::Result<Option<Value>> {
    let before = before.map(serde_json::to_value).transpose()?.unwrap_or_else(|| json!({}));
    let after = serde_json::to_value(after)?;
    let Some(status) = difference(&before, &after) else { return Ok(None) };
    Ok(Some(json!({ "metadata": { "resourceVersion": version }, "status": status })))
}

/// What turns `before` into `after`; `None` when nothing has to.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut changes = Map::new();
    for (key, value) in new {
        let change = match old.get(key) {
            Some(known) => difference(known, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            changes.insert(key.clone(), change);
        }
    }
    for key in old.keys().filter(|k| !new.contains_key(*k)) {
        changes.insert(key.clone(), Value::Null);
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_what_changes() {
        let before = json!({"a": 1, "b": {"x": [1], "y": 2}, "c": "gone", "d": [1, 2], "same": {"k": 1}});
        let after = json!({"a": 1, "b": {"x": [1, 2]}, "d": [2], "e": {}, "same": {"k": 1}});
        let patch = status(Some(&before), &after, Some("7")).unwrap().unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"resourceVersion": "7"},
                "status": {"b": {"x": [1, 2], "y": null}, "d": [2], "e": {}, "c": null}})
        );
        assert_eq!(status(Some(&after), &after, None).unwrap(), None);
        assert_eq!(status(None, &json!({}), None).unwrap(), None);
    }
}
