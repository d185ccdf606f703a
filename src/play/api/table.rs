//! Tables, as kubectl prints them: the columns of each kind and the cells of an object.
//!
//! Ages are those of the moment in which the table is made, as a real API server has them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::{Kind, Resource};
use super::meta::{items, number, text, truth};
use super::schema;
use super::store::Stored;
use super::view::{self, Include};

/// Columns: name, type, and 0 for those always shown, 1 for the wide form.
type Columns = &'static [(&'static str, &'static str, u8)];

const NAME: (&str, &str, u8) = ("Name", "string", 0);
const AGE: (&str, &str, u8) = ("Age", "string", 0);

fn columns(kind: Kind) -> Columns {
    match kind {
        Kind::Job => &[
            NAME,
            ("Status", "string", 0),
            ("Completions", "string", 0),
            ("Duration", "string", 0),
            AGE,
            ("Containers", "string", 1),
            ("Images", "string", 1),
            ("Selector", "string", 1),
        ],
        Kind::Pod => &[
            NAME,
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            AGE,
            ("IP", "string", 1),
            ("Node", "string", 1),
        ],
        Kind::ConfigMap => &[NAME, ("Data", "integer", 0), AGE],
        Kind::Secret => &[NAME, ("Type", "string", 0), ("Data", "integer", 0), AGE],
        Kind::Event => &[
            ("Last Seen", "string", 0),
            ("Type", "string", 0),
            ("Reason", "string", 0),
            ("Object", "string", 0),
            ("Message", "string", 0),
            ("Name", "string", 1),
        ],
        Kind::Lease => &[NAME, ("Holder", "string", 0), AGE],
        Kind::Namespace => &[NAME, ("Status", "string", 0), AGE],
        Kind::ServiceAccount => &[NAME, ("Secrets", "integer", 0), AGE],
        Kind::Node => &[NAME, ("Status", "string", 0), ("Version", "string", 0), AGE],
        _ => &[NAME, AGE],
    }
}

fn cells(kind: Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = json!(text(object, "/metadata/name").unwrap_or_default());
    let age = json!(since(text(object, "/metadata/creationTimestamp"), now));
    let at = |pointer: &str| json!(text(object, pointer).unwrap_or_default());
    let len =
        |pointer: &str| object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    match kind {
        Kind::Job => job(object, name, age, now),
        Kind::Pod => pod(object, name, age),
        Kind::ConfigMap => vec![name, json!(len("/data").saturating_add(len("/binaryData"))), age],
        Kind::Secret => vec![name, at("/type"), json!(len("/data")), age],
        Kind::Event => event(object, name, now),
        Kind::Lease => vec![name, at("/spec/holderIdentity"), age],
        Kind::Namespace => vec![name, at("/status/phase"), age],
        Kind::ServiceAccount => vec![name, json!(items(object, "/secrets").len()), age],
        Kind::Node => vec![name, json!(node(object)), at("/status/nodeInfo/kubeletVersion"), age],
        _ => vec![name, age],
    }
}

/// As kubectl shows it: what the kubelet said last, and whether new pods are kept away.
fn node(object: &Value) -> String {
    let ready = items(object, "/status/conditions").iter().find(|c| text(c, "/type") == Some("Ready"));
    let status = match ready.and_then(|ready| text(ready, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if truth(object, "/spec/unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{status}{closed}")
}

fn job(object: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let has = |kind: &str| {
        items(object, "/status/conditions")
            .iter()
            .any(|c| text(c, "/type") == Some(kind) && text(c, "/status") == Some("True"))
    };
    let status = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if text(object, "/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else if truth(object, "/spec/suspend") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = number(object, "/status/succeeded").unwrap_or(0);
    let completions = match number(object, "/spec/completions") {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match number(object, "/spec/parallelism") {
            Some(wanted) if wanted > 1 => format!("{succeeded}/1 of {wanted}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let duration = match text(object, "/status/startTime").and_then(instant) {
        None => String::new(),
        Some(start) => span(start, text(object, "/status/completionTime").and_then(instant).unwrap_or(now)),
    };
    let containers = |key: &str| {
        let all = items(object, "/spec/template/spec/containers").iter();
        all.filter_map(|c| text(c, key)).collect::<Vec<_>>().join(",")
    };
    let selector = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object).map_or_else(
        || "<none>".to_owned(),
        |labels| {
            let pairs = labels.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
            pairs.collect::<Vec<_>>().join(",")
        },
    );
    let (names, images) = (containers("/name"), containers("/image"));
    vec![
        name,
        status.into(),
        completions.into(),
        duration.into(),
        age,
        names.into(),
        images.into(),
        selector.into(),
    ]
}

fn pod(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let statuses = items(object, "/status/containerStatuses");
    let total = items(object, "/spec/containers").len();
    let ready = statuses.iter().filter(|s| truth(s, "/ready")).count();
    let restarts: i64 = statuses.iter().filter_map(|s| number(s, "/restartCount")).sum();
    let phase = text(object, "/status/reason").or(text(object, "/status/phase")).unwrap_or("Unknown");
    let reason = statuses.iter().find_map(|s| {
        let waiting = text(s, "/state/waiting/reason").filter(|r| !r.is_empty());
        waiting.or_else(|| text(s, "/state/terminated/reason").filter(|r| !r.is_empty()))
    });
    let going = text(object, "/metadata/deletionTimestamp").is_some();
    let finished = matches!(phase, "Succeeded" | "Failed");
    let status = if going && !finished { "Terminating" } else { reason.unwrap_or(phase) };
    let or_none = |pointer: &str| text(object, pointer).filter(|t| !t.is_empty()).unwrap_or("<none>");
    let (ip, node) = (or_none("/status/podIP"), or_none("/spec/nodeName"));
    let ready = format!("{ready}/{total}");
    vec![name, ready.into(), status.into(), restarts.to_string().into(), age, ip.into(), node.into()]
}

fn event(object: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let seen =
        ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let last = seen.iter().find_map(|pointer| text(object, pointer));
    let kind = text(object, "/regarding/kind").unwrap_or_default().to_lowercase();
    let about = text(object, "/regarding/name").unwrap_or_default();
    let at = |pointer: &str| json!(text(object, pointer).unwrap_or_default());
    let note = text(object, "/note").unwrap_or_default().trim();
    vec![
        since(last, now).into(),
        at("/type"),
        at("/reason"),
        format!("{kind}/{about}").into(),
        note.into(),
        name,
    ]
}

fn instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn since(then: Option<&str>, now: Timestamp) -> String {
    then.and_then(instant).map_or_else(|| "<unknown>".to_owned(), |then| span(then, now))
}

/// A span in the short words of kubectl: two units while they are small, then one.
fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.as_second().saturating_sub(from.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ => two(days / 365, 'y', days % 365, 'd'),
    }
}

/// A table of these objects.
pub(super) fn table<'a>(
    resource: &Resource,
    objects: impl Iterator<Item = &'a Stored>,
    include: Include,
    headed: bool,
    metadata: &Value,
) -> Value {
    let now = Timestamp::now();
    let rows: Vec<Value> = objects
        .map(|stored| {
            let object = stored.value();
            let cells = cells(resource.kind, &object, now);
            match include {
                Include::None => json!({ "cells": cells }),
                Include::Metadata => json!({ "cells": cells, "object": view::partial(&object) }),
                Include::Object => json!({ "cells": cells, "object": schema::show(resource, object) }),
            }
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": if headed { definitions(resource.kind) } else { Value::Null },
        "rows": rows,
    })
}

/// A table that carries nothing but a resource version: the bookmark of a watch.
pub(super) fn mark(resource: &Resource, metadata: &Value) -> Value {
    let object = json!({ "kind": resource.name, "apiVersion": resource.api_version(), "metadata": metadata });
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": null,
        "rows": [{ "cells": [], "object": view::partial(&object) }],
    })
}

fn definitions(kind: Kind) -> Value {
    columns(kind)
        .iter()
        .map(|(name, form, priority)| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({ "name": name, "type": form, "format": format, "description": name, "priority": priority })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        let object = json!({ "metadata": { "name": "a" } });
        for resource in &crate::play::api::kinds::RESOURCES {
            let row = cells(resource.kind, &object, Timestamp::UNIX_EPOCH);
            assert_eq!(row.len(), columns(resource.kind).len(), "{}", resource.name);
        }
    }

    #[test]
    fn spans_are_short() {
        let at = |s: i64| span(Timestamp::UNIX_EPOCH, Timestamp::from_second(s).unwrap());
        let spans = [0, 119, 120, 121, 599, 600, 10_799, 10_800, 10_860, 30_000, 180_000, 700_000].map(at);
        let expected = ["0s", "119s", "2m", "2m1s", "9m59s", "10m", "179m", "3h", "3h1m", "8h", "2d2h", "8d"]
            .map(str::to_owned);
        assert_eq!(spans, expected);
    }
}
