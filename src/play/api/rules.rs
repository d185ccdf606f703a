//! What each kind fills in and refuses, by kind. The verbs call this for every object that is to be stored.

use serde_json::{Value, json};

use super::kinds::{Kind, Resource};
use super::meta::{self, child, default, set, text};
use super::status::Faults;
use super::{events, job, jobstatus, manifests, podspec};

/// The most bytes of data in a ConfigMap or Secret.
const DATA_MAX: usize = 1024 * 1024;

/// Fills in a new object; name, namespace and UID are set already.
pub(super) fn create(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Job => job::create(object),
        Kind::Pod => podspec::create(object),
        Kind::Namespace => {
            let name = text(object, "/metadata/name").unwrap_or_default().to_owned();
            set(child(meta::metadata(object), "labels"), "kubernetes.io/metadata.name", Some(name.into()));
            default(child(object, "spec"), "finalizers", json!(["kubernetes"]));
            set(object, "status", Some(json!({ "phase": "Active" })));
        }
        _ => {
            if kind.has_status() {
                set(object, "status", Some(json!({})));
            }
            fill(kind, object);
        }
    }
    if kind.has_generation() {
        set(meta::metadata(object), "generation", Some(1.into()));
    }
}

/// Fills in what an update leaves out.
pub(super) fn fill(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Job => job::fill(object),
        Kind::Pod => podspec::fill_pod(child(object, "spec")),
        Kind::Secret => fill_secret(object),
        _ => manifests::fill(kind, object),
    }
}

/// `stringData` is for writing only: it goes into `data`.
fn fill_secret(secret: &mut Value) {
    default(secret, "type", "Opaque");
    let Some(Value::Object(plain)) = secret.get("stringData").cloned() else { return };
    set(secret, "stringData", None);
    let data = child(secret, "data");
    for (key, value) in plain {
        let value = value.as_str().unwrap_or_default();
        set(data, &key, Some(data_encoding::BASE64.encode(value.as_bytes()).into()));
    }
}

/// Checks a new object.
pub(super) fn check_create(resource: &Resource, object: &Value, faults: &mut Faults) {
    meta::check_base(resource.kind, object, faults);
    meta::check(resource.kind, object, faults);
    if resource.kind == Kind::Event {
        events::check(object, resource.is_core_event(), faults);
    } else {
        check(resource.kind, object, faults);
    }
}

/// Checks a changed object.
pub(super) fn check_update(resource: &Resource, old: &Value, new: &Value, faults: &mut Faults) {
    meta::check(resource.kind, new, faults);
    meta::check_update(old, new, faults);
    match resource.kind {
        Kind::Pod => podspec::check_pod_update(old, new, faults),
        Kind::Job => job::check_update(old, new, faults),
        Kind::Event => events::check_update(old, new, resource.is_core_event(), faults),
        Kind::ConfigMap | Kind::Secret => check_sealed(old, new, faults),
        kind => manifests::check_update(kind, old, new, faults),
    }
    if !matches!(resource.kind, Kind::Pod | Kind::Event) {
        check(resource.kind, new, faults);
    }
}

/// Checks a changed status.
pub(super) fn check_status(kind: Kind, old: &Value, new: &Value, faults: &mut Faults) {
    if kind == Kind::Job {
        jobstatus::check(old, new, faults);
    }
}

fn check(kind: Kind, object: &Value, faults: &mut Faults) {
    match kind {
        Kind::Job => job::check(object, faults),
        Kind::Pod => podspec::check_pod(object, faults),
        Kind::ConfigMap => check_config_map(object, faults),
        Kind::Secret => check_secret(object, faults),
        Kind::Lease => check_lease(object, faults),
        _ => manifests::check(kind, object, faults),
    }
}

/// Checks the keys of a data map and adds up its values.
fn check_data(object: &Value, field: &str, size: impl Fn(&str) -> usize, faults: &mut Faults) -> usize {
    let mut total = 0usize;
    for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > 253 || !key.chars().all(fits) || key == "." || key.starts_with("..")
        {
            let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
            faults.invalid(&format!("{field}[{key}]"), key.as_str(), why);
        }
        total = total.saturating_add(size(value.as_str().unwrap_or_default()));
    }
    total
}

/// How many bytes a base64 text stands for.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4).saturating_mul(3).saturating_sub(padding)
}

fn check_config_map(map: &Value, faults: &mut Faults) {
    let text_size = check_data(map, "data", str::len, faults);
    let binary_size = check_data(map, "binaryData", decoded_len, faults);
    let both = |key: &String| map.pointer("/binaryData").is_some_and(|b| b.get(key).is_some());
    for (key, _) in map.get("data").and_then(Value::as_object).into_iter().flatten() {
        if both(key) {
            faults.invalid(&format!("data[{key}]"), key.as_str(), "duplicate of key present in binaryData");
        }
    }
    if text_size.saturating_add(binary_size) > DATA_MAX {
        faults.too_long("[]", DATA_MAX);
    }
}

fn check_secret(secret: &Value, faults: &mut Faults) {
    if check_data(secret, "data", decoded_len, faults) > DATA_MAX {
        faults.too_long("data", DATA_MAX);
    }
}

/// A ConfigMap or Secret that says it is immutable is; a Secret's type always is.
fn check_sealed(old: &Value, new: &Value, faults: &mut Faults) {
    if old.get("type") != new.get("type") {
        faults.immutable("type", new.get("type").cloned().unwrap_or_default());
    }
    if !meta::truth(old, "/immutable") {
        return;
    }
    if !meta::truth(new, "/immutable") {
        faults.forbidden("immutable", "field is immutable when `immutable` is set");
    }
    for field in ["data", "binaryData"] {
        if old.get(field) != new.get(field) {
            faults.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

fn check_lease(lease: &Value, faults: &mut Faults) {
    if let Some(seconds) = meta::number(lease, "/spec/leaseDurationSeconds").filter(|s| *s <= 0) {
        faults.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
    }
    if let Some(count) = meta::number(lease, "/spec/leaseTransitions").filter(|n| *n < 0) {
        faults.invalid("spec.leaseTransitions", count, "must be greater than or equal to 0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_take_plain_text_and_keep_base64() {
        let mut secret = json!({"data": {"a": "QQ=="}, "stringData": {"b": "B"}});
        fill(Kind::Secret, &mut secret);
        assert_eq!(secret, json!({"data": {"a": "QQ==", "b": "Qg=="}, "type": "Opaque"}));
        assert_eq!(decoded_len("QQ=="), 1);
        assert_eq!(decoded_len("QUJD"), 3);
    }

    #[test]
    fn a_config_map_holds_a_mebibyte_and_no_byte_more() {
        let fits = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(DATA_MAX)}});
        let mut faults = Faults::default();
        check_create(Kind::ConfigMap.resource(), &fits, &mut faults);
        assert_eq!(faults.len(), 0);
        let over = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(DATA_MAX), "l": "x"}});
        check_create(Kind::ConfigMap.resource(), &over, &mut faults);
        let text = faults.done(Kind::ConfigMap.resource(), "a").unwrap_err().to_string();
        assert_eq!(text, "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes");
    }
}
