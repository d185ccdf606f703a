//! Create and update: from the object that came in to the one that is stored.
//!
//! Called for requests and by the controllers in this folder. An update is one step under the store's lock, so two writers never
//! see the same old object.

use std::sync::Arc;

use serde_json::Value;

use super::admission::{self, Attempt};
use super::identity::Caller;
use super::kinds::{Kind, Resource};
use super::meta::{self, set, text};
use super::status::{Answer, Failure, Faults};
use super::store::{Inner, Key, Store, Stored};
use super::{rules, schema};

/// How many generated names are tried before the collision is the caller's.
const NAME_TRIES: usize = 8;

/// What a write may ask for beside the object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner<'a> {
    /// Answer as if it were done, and do nothing.
    pub(super) dry: bool,
    /// Refuse fields that the type does not know.
    pub(super) strict: bool,
    /// Who asks: admission is asked about it. None: the server itself.
    pub(super) caller: Option<&'a Caller>,
}

/// Which part of an object an update writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but the status.
    Main,
    /// Only the status.
    Status,
}

/// Creates an object.
///
/// # Errors
/// As the API server has them: bad shape, invalid, no such namespace, already there.
pub(super) fn create(
    store: &Store,
    resource: &Resource,
    namespace: &str,
    object: Value,
    manner: Manner<'_>,
) -> Answer<Arc<Stored>> {
    let mut object = schema::accept(resource, object, manner.strict)?;
    begin(resource, namespace, &mut object)?;
    let base = match (text(&object, "/metadata/name"), text(&object, "/metadata/generateName")) {
        (None | Some(""), Some(base)) if !base.is_empty() => Some(base.to_owned()),
        _ => None,
    };
    let mut tries = 1usize;
    loop {
        let mut object = object.clone();
        if let Some(base) = &base {
            let name = meta::generate_name(base).map_err(|e| Failure::internal(e.to_string()))?;
            set(meta::metadata(&mut object), "name", Some(name.into()));
        }
        let name = text(&object, "/metadata/name").unwrap_or_default().to_owned();
        rules::create(resource.kind, &mut object);
        let mut faults = Faults::default();
        rules::check_create(resource, &object, &mut faults);
        faults.done(resource, &name)?;
        let key = Key::new(resource.kind, namespace, &name);
        let made = store.with(|inner| insert(inner, resource, key, object, manner))?;
        match made {
            Some(stored) => return Ok(stored),
            None if base.is_some() && tries < NAME_TRIES => tries = tries.saturating_add(1),
            None => return Err(Failure::already_exists(resource, &name)),
        }
    }
}

/// `None` when the name is taken.
fn insert(
    inner: &mut Inner,
    resource: &Resource,
    key: Key,
    object: Value,
    manner: Manner<'_>,
) -> Answer<Option<Arc<Stored>>> {
    if resource.namespaced && inner.get(&Key::new(Kind::Namespace, "", &key.namespace)).is_none() {
        return Err(Failure::not_found(Kind::Namespace.resource(), &key.namespace));
    }
    if let Some(caller) = manner.caller {
        let object = Some(&object);
        let attempt = Attempt {
            caller,
            operation: "CREATE",
            resource,
            sub: "",
            key: &key,
            object,
            old: None,
            dry: manner.dry,
        };
        admission::judge(inner, &attempt)?;
    }
    if inner.get(&key).is_some() {
        return Ok(None);
    }
    if manner.dry {
        return Ok(Some(Arc::new(Stored::unsaved(key, object))));
    }
    inner.put(key, object).map(Some)
}

/// Gives a new object what only the server gives, and takes what only the server may give.
fn begin(resource: &Resource, namespace: &str, object: &mut Value) -> Answer<()> {
    if text(object, "/metadata/resourceVersion").is_some_and(|rv| !rv.is_empty() && rv != "0") {
        // A real API server answers 500 here, with these words.
        return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
    }
    check_namespace(resource, namespace, object)?;
    let metadata = meta::metadata(object);
    for key in [
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
        "generation",
    ] {
        set(metadata, key, None);
    }
    set(metadata, "namespace", resource.namespaced.then(|| namespace.into()));
    let uid = meta::new_uid().map_err(|e| Failure::internal(e.to_string()))?;
    set(metadata, "uid", Some(uid.into()));
    set(metadata, "creationTimestamp", Some(meta::time(jiff::Timestamp::now()).into()));
    Ok(())
}

fn check_namespace(resource: &Resource, namespace: &str, object: &Value) -> Answer<()> {
    let sent = text(object, "/metadata/namespace").unwrap_or_default();
    if resource.namespaced && !sent.is_empty() && sent != namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Updates an object: `change` gets it as this resource shows it and gives what it shall be.
///
/// A change that changes nothing writes nothing. A change that takes the last finalizer of an object on its way out removes it.
///
/// # Errors
/// As the API server has them: not there, conflict, bad shape, invalid.
pub(super) fn update(
    store: &Store,
    resource: &Resource,
    key: &Key,
    part: Part,
    manner: Manner<'_>,
    change: impl FnOnce(Value) -> Answer<Value>,
) -> Answer<Arc<Stored>> {
    store.with(|inner| {
        let Some(old) = inner.get(key).cloned() else { return Err(Failure::not_found(resource, &key.name)) };
        let was = old.value();
        let sent = change(schema::show(resource, was.clone()))?;
        let mut new = schema::accept(resource, sent, manner.strict)?;
        check_namespace(resource, &key.namespace, &new)?;
        check_identity(resource, key, &old, &new)?;
        match part {
            Part::Main => {
                meta::carry(&was, &mut new);
                if resource.kind.has_status() {
                    set(&mut new, "status", was.get("status").cloned());
                }
                rules::fill(resource.kind, &mut new);
            }
            Part::Status => {
                let status = new.get("status").cloned();
                new = was.clone();
                set(&mut new, "status", status);
            }
        }
        if new == was && manner.caller.is_none() {
            return Ok(old);
        }
        let mut faults = Faults::default();
        match part {
            Part::Main => rules::check_update(resource, &was, &new, &mut faults),
            Part::Status => rules::check_status(resource.kind, &was, &new, &mut faults),
        }
        faults.done(resource, &key.name)?;
        if resource.kind.has_generation() && was.get("spec") != new.get("spec") {
            meta::bump_generation(&mut new);
        }
        if let Some(caller) = manner.caller {
            let sub = if part == Part::Status { "status" } else { "" };
            let (object, old) = (Some(&new), Some(&was));
            let attempt =
                Attempt { caller, operation: "UPDATE", resource, sub, key, object, old, dry: manner.dry };
            admission::judge(inner, &attempt)?;
        }
        // Nothing to write: policies were asked all the same, as a real API server does.
        if new == was { Ok(old) } else { write(inner, key, new, manner.dry) }
    })
}

/// Stores a changed object, or removes it when it was only waiting for this.
pub(super) fn write(inner: &mut Inner, key: &Key, new: Value, dry: bool) -> Answer<Arc<Stored>> {
    if dry {
        return Ok(Arc::new(Stored::unsaved(key.clone(), new)));
    }
    let waited = meta::number(&new, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) > 0;
    if meta::is_going(&new) && meta::finalizers(&new).is_empty() && !waited {
        inner.remove(key, new)
    } else {
        inner.put(key.clone(), new)
    }
}

/// Whether what was sent is about this object, and this version of it.
fn check_identity(resource: &Resource, key: &Key, old: &Stored, new: &Value) -> Answer<()> {
    let sent = |field: &str| text(new, &format!("/metadata/{field}")).unwrap_or_default();
    if sent("name") != key.name {
        let name = sent("name");
        return Err(Failure::bad_request(if name.is_empty() {
            "name must be provided".to_owned()
        } else {
            format!("the name of the object ({name}) does not match the name on the URL ({})", key.name)
        }));
    }
    let uid = sent("uid");
    if !uid.is_empty() && uid != old.uid {
        return Err(Failure::conflict(resource, &key.name, &uid_differs(uid, &old.uid)));
    }
    match sent("resourceVersion") {
        // Leases are the kind that may not be written blindly.
        "" | "0" if resource.kind == Kind::Lease => {
            let mut faults = Faults::default();
            faults.invalid("metadata.resourceVersion", 0, "must be specified for an update");
            faults.done(resource, &key.name)
        }
        "" | "0" => Ok(()),
        rv => match rv.parse::<u64>() {
            Ok(rv) if rv == old.rv => Ok(()),
            Ok(_) => Err(Failure::modified(resource, &key.name)),
            Err(_) => Err(Failure::bad_request(format!("invalid resource version \"{rv}\""))),
        },
    }
}

/// The words for a UID that is another object's.
pub(super) fn uid_differs(asked: &str, found: &str) -> String {
    format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {found}")
}

/// Applies a JSON merge patch (RFC 7396).
pub(super) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.shift_remove(&key);
            } else {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merge_patches_as_the_rfc_has_them() {
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": 1}), json!({"a": null}), json!({"b": 1})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!([1, 2]), json!({"a": {"b": null}}), json!({"a": {}})),
            (json!({"e": 1}), json!([1]), json!([1])),
        ] {
            let mut out = target.clone();
            merge(&mut out, patch.clone());
            assert_eq!(out, result, "{target} {patch}");
        }
    }
}
