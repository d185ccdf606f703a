//! Deletion: preconditions, finalizers, grace periods, and what becomes of dependents.
//!
//! The verb only decides and marks; `collect` does what the marks ask for.

use std::sync::Arc;

use serde_json::Value;

use super::admission::{self, Attempt};
use super::identity::Caller;
use super::kinds::{Kind, Resource};
use super::meta::{self, number, set, text};
use super::params::Params;
use super::status::{Answer, Failure, Faults};
use super::store::{Key, Store, Stored};
use super::verbs;

/// The finalizer of an object whose dependents are to be set free.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer of an object whose dependents go first.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay and forget their owner.
    Orphan,
}

/// What a deletion asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    grace: Option<i64>,
    policy: Option<Policy>,
    uid: Option<String>,
    rv: Option<String>,
    dry: bool,
}

/// What a deletion did.
pub(super) enum Deleted {
    /// The object is gone.
    Gone(Arc<Stored>),
    /// The object is marked and waits for its finalizers or its grace period.
    Going(Arc<Stored>),
}

impl Options {
    /// A deletion by a controller.
    pub(super) fn by_controller(uid: &str, policy: Policy) -> Self {
        Self { policy: Some(policy), uid: Some(uid.to_owned()), ..Self::default() }
    }

    /// Reads the body, if there is one, and what the query says instead.
    ///
    /// # Errors
    /// 400 and 422 for what cannot be.
    pub(super) fn read(params: &Params, body: &Value) -> Answer<Self> {
        let orphan = body
            .pointer("/orphanDependents")
            .and_then(Value::as_bool)
            .or(params.flag_if_set("orphanDependents")?);
        let policy =
            text(body, "/propagationPolicy").or(params.get("propagationPolicy")).filter(|p| !p.is_empty());
        let mut faults = Faults::default();
        let policy = match (policy, orphan) {
            (Some(_), Some(_)) => {
                faults.invalid(
                    "propagationPolicy",
                    "",
                    "orphanDependents and deletionPropagation cannot be both set",
                );
                None
            }
            (Some("Background"), None) | (None, Some(false)) => Some(Policy::Background),
            (Some("Foreground"), None) => Some(Policy::Foreground),
            (Some("Orphan"), None) | (None, Some(true)) => Some(Policy::Orphan),
            (Some(other), None) => {
                faults.unsupported("propagationPolicy", other, &["Background", "Foreground", "Orphan"]);
                None
            }
            (None, None) => None,
        };
        let grace = match number(body, "/gracePeriodSeconds") {
            Some(grace) => Some(grace),
            None => params.number("gracePeriodSeconds")?,
        };
        faults.done(&OPTIONS, "")?;
        Ok(Self {
            // A negative grace period means one second.
            grace: grace.map(|g| if g < 0 { 1 } else { g }),
            policy,
            uid: text(body, "/preconditions/uid").map(str::to_owned),
            rv: text(body, "/preconditions/resourceVersion").map(str::to_owned),
            dry: params.get("dryRun").is_some() || !meta::items(body, "/dryRun").is_empty(),
        })
    }
}

/// How errors call the options.
static OPTIONS: Resource = options("deleteoptions", "DeleteOptions");
/// How errors call the options of an apply.
pub(super) static PATCH_OPTIONS: Resource = options("patchoptions", "PatchOptions");

const fn options(plural: &'static str, name: &'static str) -> Resource {
    Resource {
        kind: Kind::ConfigMap,
        group: "meta.k8s.io",
        plural,
        singular: plural,
        name,
        short: &[],
        namespaced: false,
        verbs: &[],
        status: false,
    }
}

/// Deletes an object, or marks it. Admission is asked about the caller; none is the server itself.
///
/// # Errors
/// When it is not there, or not the one that the preconditions mean.
pub(super) fn delete(
    store: &Store,
    resource: &Resource,
    key: &Key,
    options: &Options,
    caller: Option<&Caller>,
) -> Answer<Deleted> {
    store.with(|inner| {
        let Some(old) = inner.get(key).cloned() else { return Err(Failure::not_found(resource, &key.name)) };
        check_preconditions(resource, &old, options)?;
        let mut object = old.value();
        if let Some(caller) = caller {
            let (old, dry) = (Some(&object), options.dry);
            let attempt =
                Attempt { caller, operation: "DELETE", resource, sub: "", key, object: None, old, dry };
            admission::judge(inner, &attempt)?;
        }
        apply_policy(resource.kind, &mut object, options.policy);
        let grace = grace(resource.kind, &object, options.grace);
        let held = !meta::finalizers(&object).is_empty();
        if !held && !old.going && resource.kind != Kind::Pod && !options.dry {
            // Nothing to wait for: it goes as it is, without the marks of one that waits.
            return inner.remove(key, object).map(Deleted::Gone);
        }
        apply_grace(&mut object, grace);
        let waits = held || number(&object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) > 0;
        if object == old.value() {
            return Ok(Deleted::Going(old));
        }
        let written = verbs::write(inner, key, object, options.dry)?;
        Ok(if waits { Deleted::Going(written) } else { Deleted::Gone(written) })
    })
}

fn check_preconditions(resource: &Resource, old: &Stored, options: &Options) -> Answer<()> {
    let name = &old.key.name;
    if let Some(uid) = options.uid.as_ref().filter(|uid| **uid != old.uid) {
        return Err(Failure::conflict(resource, name, &verbs::uid_differs(uid, &old.uid)));
    }
    let current = old.rv.to_string();
    if let Some(rv) = options.rv.as_ref().filter(|rv| **rv != current) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {rv}, ResourceVersion in object meta: {current}"
        );
        return Err(Failure::conflict(resource, name, &why));
    }
    Ok(())
}

/// The finalizers that say what becomes of dependents.
fn apply_policy(kind: Kind, object: &mut Value, policy: Option<Policy>) {
    let mut finalizers = meta::finalizers(object);
    let marked = finalizers.iter().any(|f| f == ORPHAN || f == FOREGROUND);
    let policy = match policy {
        Some(policy) => policy,
        // What was asked before stands.
        None if marked => return,
        // For the sake of its first version batch/v1 leaves the pods behind when nothing is said.
        None if kind == Kind::Job => Policy::Orphan,
        None => Policy::Background,
    };
    finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
    match policy {
        Policy::Background => {}
        Policy::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Policy::Orphan => finalizers.push(ORPHAN.to_owned()),
    }
    meta::set_finalizers(object, finalizers);
}

/// How long the object may stay: only pods that run somewhere have a grace period.
fn grace(kind: Kind, object: &Value, asked: Option<i64>) -> i64 {
    let placed = text(object, "/spec/nodeName").is_some_and(|n| !n.is_empty());
    let finished = matches!(text(object, "/status/phase"), Some("Succeeded" | "Failed"));
    if kind != Kind::Pod || !placed || finished {
        return 0;
    }
    asked.or_else(|| number(object, "/spec/terminationGracePeriodSeconds")).unwrap_or(30)
}

/// Sets or shortens the time at which the object goes; it is never put off.
fn apply_grace(object: &mut Value, grace: i64) {
    let before = number(object, "/metadata/deletionGracePeriodSeconds");
    let going = meta::is_going(object);
    if going && before.unwrap_or(0) <= grace {
        return;
    }
    let now = jiff::Timestamp::now();
    let at = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(now);
    if !going {
        meta::bump_generation(object);
    }
    let metadata = meta::metadata(object);
    set(metadata, "deletionTimestamp", Some(meta::time(at).into()));
    set(metadata, "deletionGracePeriodSeconds", Some(grace.into()));
}
