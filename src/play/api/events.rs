//! Events: one stored object, shown by `v1` and by `events.k8s.io/v1` under different names.
//!
//! Stored as `events.k8s.io/v1` has them. Called when such an object comes in or goes out, and by the rules.

use serde_json::{Map, Value};

use super::meta;
use super::status::{Answer, Failure, Faults};

/// The names in the core group and in the events group.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// What a report may not change once it stands.
const FIXED: [&str; 8] = [
    "regarding",
    "reason",
    "action",
    "note",
    "reportingController",
    "reportingInstance",
    "type",
    "eventTime",
];

fn rename(object: Value, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(map) = object else { return object };
    let renamed = map.into_iter().map(|(key, value)| match name(&key) {
        Some(other) => (other.to_owned(), value),
        None => (key, value),
    });
    Value::Object(renamed.collect::<Map<_, _>>())
}

/// An event of the core group as it is stored.
///
/// # Errors
/// 400 when it uses the other group's names.
pub(super) fn from_core(object: Value) -> Answer<Value> {
    if let Some((_, alien)) = NAMES.iter().find(|(_, theirs)| object.get(*theirs).is_some()) {
        return Err(Failure::bad_request(format!("unknown field \"{alien}\" in an Event of version v1")));
    }
    let mut stored =
        rename(object, |key| NAMES.iter().find(|(ours, _)| *ours == key).map(|(_, theirs)| *theirs));
    meta::set(&mut stored, "kind", None);
    meta::set(&mut stored, "apiVersion", None);
    Ok(stored)
}

/// A stored event as the core group shows it.
pub(super) fn to_core(object: Value) -> Value {
    rename(object, |key| NAMES.iter().find(|(_, theirs)| *theirs == key).map(|(ours, _)| *ours))
}

/// Checks a new event, with the stricter rules of the events group when it came through that.
pub(super) fn check(event: &Value, core: bool, faults: &mut Faults) {
    let namespace = meta::text(event, "/metadata/namespace").unwrap_or_default();
    let regarding = meta::text(event, "/regarding/namespace").unwrap_or_default();
    if core {
        // What regards something without a namespace is reported in default. The events group asks for neither.
        if regarding != namespace && !(regarding.is_empty() && namespace == "default") {
            faults.invalid("involvedObject.namespace", regarding, "does not match event.namespace");
        }
        return;
    }
    if event.get("eventTime").is_none_or(Value::is_null) {
        faults.required("eventTime", "");
    }
    for (field, most) in
        [("reportingController", 253), ("reportingInstance", 128), ("action", 128), ("reason", 128)]
    {
        let value = event.get(field).and_then(Value::as_str).unwrap_or_default();
        if value.is_empty() {
            faults.required(field, "");
        } else if value.len() > most {
            faults.invalid(field, "", format!("can have at most {most} characters"));
        }
    }
    let kind = meta::text(event, "/type").unwrap_or_default();
    if !["Normal", "Warning"].contains(&kind) {
        faults.invalid("type", kind, "has invalid value");
    }
    if meta::text(event, "/note").is_some_and(|note| note.len() > 1024) {
        faults.invalid("message", "", "can have at most 1024 characters");
    }
    if event.get("series").is_some() && meta::number(event, "/series/count").unwrap_or(0) < 2 {
        faults.invalid("series.count", "", "should be at least 2");
    }
}

/// Checks a changed event: through the events group only its series may grow.
pub(super) fn check_update(old: &Value, new: &Value, core: bool, faults: &mut Faults) {
    if core {
        return;
    }
    for field in FIXED {
        if old.get(field) != new.get(field) {
            faults.immutable(field, new.get(field).cloned().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_groups_show_the_same_event() {
        let core = json!({"involvedObject": {"name": "a"}, "message": "m", "count": 2, "reason": "r"});
        let stored = from_core(core.clone()).unwrap();
        assert_eq!(
            stored,
            json!({"regarding": {"name": "a"}, "note": "m", "deprecatedCount": 2, "reason": "r"})
        );
        assert_eq!(to_core(stored), core);
        assert!(from_core(json!({"note": "m"})).is_err());
    }
}
