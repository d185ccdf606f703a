//! The garbage collector: does what owner references and the finalizers of deletions ask for.
//!
//! Driven by `controllers` with each change. What it does makes changes of its own, which come back to it.

use std::sync::Arc;

use serde_json::Value;

use super::delete::{self, FOREGROUND, ORPHAN, Options, Policy};
use super::kinds::Kind;
use super::meta;
use super::status::{Answer, Failure};
use super::store::{Change, Store, Stored};
use super::verbs::{self, Manner, Part};

/// Reacts to a change.
///
/// # Errors
/// When the state file cannot be written.
pub(super) fn react(store: &Store, change: &Change) -> Answer<()> {
    let object = &change.now;
    if change.gone {
        for owned in store.with(|inner| inner.owned_by(&object.uid)) {
            judge(store, &owned)?;
        }
    } else {
        settle(store, object)?;
        judge(store, object)?;
    }
    // An owner that waits for its dependents may have waited for this one, or for what it no longer says.
    let before = change.before.as_ref().map(|b| b.owners.clone()).unwrap_or_default();
    for uid in object.owners.iter().chain(&before) {
        if let Some(owner) = store.with(|inner| inner.by_uid(uid).cloned()) {
            settle(store, &owner)?;
        }
    }
    Ok(())
}

/// Does for an object on its way out what its finalizers ask for.
fn settle(store: &Store, object: &Stored) -> Answer<()> {
    if !object.going {
        return Ok(());
    }
    let value = object.value();
    let finalizers = meta::finalizers(&value);
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    if has(ORPHAN) {
        for owned in store.with(|inner| inner.owned_by(&object.uid)) {
            forget(store, &owned, &[object.uid.as_str()])?;
        }
        release(store, object, ORPHAN)?;
    } else if has(FOREGROUND) {
        let owned = store.with(|inner| inner.owned_by(&object.uid));
        let blocking = owned.iter().filter(|o| blocks(o, &object.uid)).count();
        if blocking == 0 {
            return release(store, object, FOREGROUND);
        }
        for owned in owned.iter().filter(|o| !o.going) {
            let deeper = store.with(|inner| !inner.owned_by(&owned.uid).is_empty());
            end(store, owned, if deeper { Policy::Foreground } else { Policy::Background })?;
        }
    }
    Ok(())
}

/// Whether an object holds up the deletion of this owner.
fn blocks(object: &Stored, owner: &str) -> bool {
    let value = object.value();
    meta::items(&value, "/metadata/ownerReferences")
        .iter()
        .any(|o| meta::text(o, "/uid") == Some(owner) && meta::truth(o, "/blockOwnerDeletion"))
}

/// Ends an object all of whose owners are gone; one that still has an owner forgets the others.
fn judge(store: &Store, object: &Stored) -> Answer<()> {
    if object.owners.is_empty() || object.going {
        return Ok(());
    }
    let (lost, kept): (Vec<&str>, Vec<&str>) = store
        .with(|inner| object.owners.iter().map(String::as_str).partition(|uid| inner.by_uid(uid).is_none()));
    if lost.is_empty() {
        Ok(())
    } else if kept.is_empty() {
        end(store, object, Policy::Background)
    } else {
        forget(store, object, &lost)
    }
}

fn end(store: &Store, object: &Stored, policy: Policy) -> Answer<()> {
    let options = Options::by_controller(&object.uid, policy);
    unless_changed(delete::delete(store, object.key.kind.resource(), &object.key, &options, None).map(|_| ()))
}

/// Takes owners out of an object.
fn forget(store: &Store, object: &Stored, uids: &[&str]) -> Answer<()> {
    edit(store, object, |value| {
        let owners: Vec<Value> = meta::items(value, "/metadata/ownerReferences")
            .iter()
            .filter(|o| meta::text(o, "/uid").is_none_or(|uid| !uids.contains(&uid)))
            .cloned()
            .collect();
        let owners = (!owners.is_empty()).then(|| Value::from(owners));
        meta::set(meta::metadata(value), "ownerReferences", owners);
    })
}

/// Takes a finalizer out of an object.
fn release(store: &Store, object: &Stored, finalizer: &str) -> Answer<()> {
    edit(store, object, |value| {
        let left = meta::finalizers(value).into_iter().filter(|f| f != finalizer).collect();
        meta::set_finalizers(value, left);
    })
}

fn edit(store: &Store, object: &Stored, change: impl FnOnce(&mut Value)) -> Answer<()> {
    let apply = |mut value: Value| {
        if meta::text(&value, "/metadata/uid") != Some(object.uid.as_str()) {
            return Err(Failure::not_found(object.key.kind.resource(), &object.key.name));
        }
        change(&mut value);
        Ok(value)
    };
    let resource = object.key.kind.resource();
    let done = verbs::update(store, resource, &object.key, Part::Main, Manner::default(), apply);
    unless_changed(done.map(|_| ()))
}

/// What is gone meanwhile, or another object now, is no error: its own change comes by too.
fn unless_changed(done: Answer<()>) -> Answer<()> {
    match done {
        Err(failure)
            if [http::StatusCode::NOT_FOUND, http::StatusCode::CONFLICT].contains(&failure.code()) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Removes events that nobody touched for this long, as a real API server forgets them.
///
/// # Errors
/// When the state file cannot be written.
pub(super) fn forget_events(store: &Store, older_than: jiff::Timestamp) -> Answer<()> {
    let old: Vec<Arc<Stored>> = store.with(|inner| {
        let old = |s: &&Arc<Stored>| s.key.kind == Kind::Event && s.at < older_than.as_second();
        inner.all().filter(old).cloned().collect()
    });
    for event in old {
        end(store, &event, Policy::Background)?;
    }
    Ok(())
}
