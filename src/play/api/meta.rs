//! The part that all objects have in common: names, labels, annotations, owners, finalizers, and small helpers on JSON.
//!
//! Called by the verbs and by the rules of each kind. Pure but for the clock and the random source at the end.

use serde_json::{Map, Value};

use super::kinds::Kind;
use super::status::Faults;

/// The most bytes that all annotations of an object may have together, names included.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The string at a JSON pointer.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// The number at a JSON pointer.
pub(super) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// Whether `true` stands at a JSON pointer.
pub(super) fn truth(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// The list at a JSON pointer, empty when there is none.
pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object under a key, made when it is missing or something else.
pub(super) fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    match object {
        Value::Object(map) => {
            let slot = map.entry(key).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            slot
        }
        // Made an object above: any other value stays as it is.
        other => other,
    }
}

/// Sets or, with `None`, removes a key of an object.
pub(super) fn set(object: &mut Value, key: &str, value: Option<Value>) {
    if let Value::Object(map) = object {
        match value {
            Some(value) => {
                map.insert(key.to_owned(), value);
            }
            None => {
                map.shift_remove(key);
            }
        }
    }
}

/// Sets a key that is not there yet.
pub(super) fn default(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(map) = object
        && map.get(key).is_none_or(Value::is_null)
    {
        map.insert(key.to_owned(), value.into());
    }
}

/// `metadata` as an object.
pub(super) fn metadata(object: &mut Value) -> &mut Value {
    child(object, "metadata")
}

/// The finalizers of an object.
pub(super) fn finalizers(object: &Value) -> Vec<String> {
    items(object, "/metadata/finalizers").iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Replaces the finalizers of an object.
pub(super) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let value = (!finalizers.is_empty()).then(|| Value::from(finalizers));
    set(metadata(object), "finalizers", value);
}

/// Whether the object is being deleted.
pub(super) fn is_going(object: &Value) -> bool {
    text(object, "/metadata/deletionTimestamp").is_some()
}

fn is_label_edge(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether a name is a DNS-1123 label.
pub(super) fn is_dns_label(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(is_label_edge)
        && name.ends_with(is_label_edge)
        && name.chars().all(|c| is_label_edge(c) || c == '-')
}

/// Whether a name is a DNS-1123 subdomain.
pub(super) fn is_dns_subdomain(name: &str) -> bool {
    let part = |p: &str| {
        p.starts_with(is_label_edge)
            && p.ends_with(is_label_edge)
            && p.chars().all(|c| is_label_edge(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

fn is_name_part(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    name.len() <= 63
        && name.starts_with(edge)
        && name.ends_with(edge)
        && name.chars().all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
}

/// Whether a name may be a label's or annotation's key.
pub(super) fn is_qualified_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name_part(name),
        None => is_name_part(name),
    }
}

/// Whether a text may be a label's value.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name_part(value)
}

const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character, at most 63 of them, with an optional DNS subdomain prefix and '/'";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character";
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character";

/// Checks a map of labels.
pub(super) fn check_labels(labels: Option<&Value>, field: &str, faults: &mut Faults) {
    let Some(Value::Object(labels)) = labels else { return };
    for (key, value) in labels {
        if !is_qualified_name(key) {
            faults.invalid(field, key.as_str(), KEY_RULE);
        }
        let value = value.as_str().unwrap_or_default();
        if value.len() > 63 {
            faults.invalid(field, value, "must be no more than 63 characters");
        } else if !is_label_value(value) {
            faults.invalid(field, value, VALUE_RULE);
        }
    }
}

/// Checks a map of annotations.
pub(super) fn check_annotations(annotations: Option<&Value>, field: &str, faults: &mut Faults) {
    let Some(Value::Object(annotations)) = annotations else { return };
    let mut size = 0usize;
    for (key, value) in annotations {
        // The API server checks the lower-cased key: annotations alone may have an upper-case prefix.
        if !is_qualified_name(&key.to_ascii_lowercase()) {
            faults.invalid(field, key.as_str(), KEY_RULE);
        }
        size = size.saturating_add(key.len()).saturating_add(value.as_str().map_or(0, str::len));
    }
    if size > ANNOTATIONS_MAX {
        faults.too_long(field, ANNOTATIONS_MAX);
    }
}

fn check_name(kind: Kind, name: &str, faults: &mut Faults) {
    let field = "metadata.name";
    if kind == Kind::Namespace {
        if !is_dns_label(name) {
            faults.invalid(field, name, LABEL_RULE);
        }
        return;
    }
    // Their names only have to fit into a path: `system:basic-user`.
    if matches!(kind, Kind::Role | Kind::RoleBinding | Kind::ClusterRole | Kind::ClusterRoleBinding) {
        if [".", ".."].contains(&name) || name.contains(['/', '%']) {
            faults.invalid(field, name, "may not be '.' or '..' and may not contain '/' or '%'");
        }
        return;
    }
    if kind == Kind::Service && !is_dns_label(name) {
        faults.invalid(field, name, LABEL_RULE);
        return;
    }
    if name.len() > 253 {
        faults.invalid(field, name, "must be no more than 253 characters");
    } else if !is_dns_subdomain(name) {
        faults.invalid(field, name, SUBDOMAIN_RULE);
    }
    // A Job's name becomes a label of its pods.
    if kind == Kind::Job && name.len() > 63 {
        faults.invalid(field, name, "must be no more than 63 characters");
    }
}

/// Checks what a new object's name is to begin with. It may end in a hyphen, and in nothing else that no name ends in.
pub(super) fn check_base(kind: Kind, object: &Value, faults: &mut Faults) {
    let Some(base) = text(object, "/metadata/generateName").filter(|base| !base.is_empty()) else { return };
    let whole = base
        .strip_suffix('-')
        .filter(|rest| !rest.is_empty())
        .map_or(base.to_owned(), |rest| format!("{rest}a"));
    let (fits, rule) = match kind {
        Kind::Namespace => (is_dns_label(&whole), LABEL_RULE),
        _ => (is_dns_subdomain(&whole), SUBDOMAIN_RULE),
    };
    if !fits {
        faults.invalid("metadata.generateName", base, rule);
    }
}

fn check_owners(object: &Value, faults: &mut Faults) {
    let mut controllers = 0usize;
    for (at, owner) in items(object, "/metadata/ownerReferences").iter().enumerate() {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                let why = "must not be empty";
                faults.invalid(&format!("metadata.ownerReferences[{at}].{key}"), "", why);
            }
        }
        controllers = controllers.saturating_add(usize::from(truth(owner, "/controller")));
    }
    if controllers > 1 {
        let why = "only one reference can have controller set to true";
        faults.invalid("metadata.ownerReferences", controllers, why);
    }
}

/// Checks the metadata of an object that is to be stored.
pub(super) fn check(kind: Kind, object: &Value, faults: &mut Faults) {
    match text(object, "/metadata/name") {
        Some(name) if !name.is_empty() => check_name(kind, name, faults),
        _ => faults.required("metadata.name", "name or generateName is required"),
    }
    check_labels(object.pointer("/metadata/labels"), "metadata.labels", faults);
    check_annotations(object.pointer("/metadata/annotations"), "metadata.annotations", faults);
    check_owners(object, faults);
    for finalizer in items(object, "/metadata/finalizers").iter().filter_map(Value::as_str) {
        let known = ["orphan", "foregroundDeletion"].contains(&finalizer);
        if !is_qualified_name(finalizer) {
            faults.invalid("metadata.finalizers", finalizer, KEY_RULE);
        } else if !known && !finalizer.contains('/') {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            faults.invalid("metadata.finalizers", finalizer, why);
        }
    }
}

/// Checks what may not happen to metadata in an update.
pub(super) fn check_update(old: &Value, new: &Value, faults: &mut Faults) {
    if is_going(old) {
        let had = finalizers(old);
        let added: Vec<String> = finalizers(new).into_iter().filter(|f| !had.contains(f)).collect();
        if !added.is_empty() {
            let why = "no new finalizers can be added if the object is being deleted, found new finalizers";
            faults.forbidden("metadata.finalizers", format!("{why} {added:?}"));
        }
    }
}

/// What a writer may not choose comes from the old object.
pub(super) fn carry(old: &Value, new: &mut Value) {
    let kept = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ];
    let metadata = metadata(new);
    for key in kept {
        set(metadata, key, old.pointer("/metadata").and_then(|m| m.get(key)).cloned());
    }
    set(metadata, "managedFields", None);
    set(metadata, "selfLink", None);
}

/// Counts a change of `spec` (or the start of a deletion).
pub(super) fn bump_generation(object: &mut Value) {
    if let Some(generation) = number(object, "/metadata/generation") {
        set(metadata(object), "generation", Some(generation.saturating_add(1).into()));
    }
}

/// A time as `metadata` has it: RFC 3339 in UTC with whole seconds.
pub(super) fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A random (version 4) UID.
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn new_uid() -> Result<String, getrandom::Error> {
    let mut raw = [0u8; 16];
    getrandom::fill(&mut raw)?;
    let n = u128::from_be_bytes(raw) & !(0xf000 << 64) | (0x4000 << 64);
    let n = n & !(0xc000 << 48) | (0x8000 << 48);
    Ok(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        n >> 96,
        (n >> 80) & 0xffff,
        (n >> 64) & 0xffff,
        (n >> 48) & 0xffff,
        n & 0xffff_ffff_ffff
    ))
}

/// A name that begins as asked and ends in five random characters.
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn generate_name(base: &str) -> Result<String, getrandom::Error> {
    // No vowels and no look-alikes, as Kubernetes has it.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut raw = [0u8; 5];
    getrandom::fill(&mut raw)?;
    let mut name: String = base.chars().take(58).collect();
    name.extend(
        raw.iter().filter_map(|b| ALPHABET.get(usize::from(*b) % ALPHABET.len())).map(|b| char::from(*b)),
    );
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_what_dns_allows() {
        for good in ["a", "a-b", "a.b-c.9", &"x".repeat(63)] {
            assert!(is_dns_subdomain(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a..b", "a_b", ".a", &"x".repeat(254)] {
            assert!(!is_dns_subdomain(bad), "{bad}");
        }
        assert!(!is_dns_label("a.b"));
        assert!(is_qualified_name("example.org/A_b.c"));
        assert!(!is_qualified_name("example.org/"));
        assert!(!is_qualified_name("a/b/c"));
        assert!(is_label_value(""));
        assert!(!is_label_value(&"v".repeat(64)));
    }

    #[test]
    fn uids_are_version_four_and_differ() {
        let (a, b) = (new_uid().unwrap(), new_uid().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(a.as_bytes()[14], b'4');
        assert!(matches!(a.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }

    #[test]
    fn an_object_on_its_way_out_takes_no_new_finalizer() {
        let old = json!({"metadata": {"deletionTimestamp": "x", "finalizers": ["a/b"]}});
        let mut faults = Faults::default();
        check_update(&old, &json!({"metadata": {"finalizers": ["a/b"]}}), &mut faults);
        check_update(&old, &json!({"metadata": {}}), &mut faults);
        assert_eq!(faults.len(), 0);
        check_update(&old, &json!({"metadata": {"finalizers": ["a/c"]}}), &mut faults);
        assert_eq!(faults.len(), 1);
    }
}
