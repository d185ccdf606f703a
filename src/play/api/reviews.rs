//! The reviews that callers ask for: may I, what may I, and who am I.

use serde_json::{Value, json};

use super::identity::Caller;
use super::meta::{self, text};
use super::rbac::{self, Ask};
use super::status::{Answer, Failure};
use super::store::Inner;

/// The group of the reviews of what is allowed.
const AUTHORIZATION: &str = "authorization.k8s.io";

fn check_kind(review: &Value, group: &str, kind: &str) -> Answer<()> {
    let version = format!("{group}/v1");
    for (field, expected) in [("apiVersion", version.as_str()), ("kind", kind)] {
        let found = text(review, &format!("/{field}")).unwrap_or(expected);
        if found != expected {
            return Err(Failure::bad_request(format!(
                "the {field} in the data ({found}) does not match the expected {field} ({expected})"
            )));
        }
    }
    Ok(())
}

fn answer(group: &str, kind: &str, spec: Value, status: Value) -> Value {
    let mut review = json!({
        "kind": kind,
        "apiVersion": format!("{group}/v1"),
        "metadata": { "creationTimestamp": null },
    });
    if !spec.is_null() {
        meta::set(&mut review, "spec", Some(spec));
    }
    meta::set(&mut review, "status", Some(status));
    review
}

/// `POST selfsubjectaccessreviews`.
///
/// # Errors
/// 400 when it is no such review, or asks for nothing.
pub(super) fn access(inner: &Inner, caller: &Caller, review: &Value) -> Answer<Value> {
    let kind = "SelfSubjectAccessReview";
    check_kind(review, AUTHORIZATION, kind)?;
    let spec = review.get("spec").cloned().unwrap_or_default();
    let asks = |field: &str| spec.get(field).is_some_and(Value::is_object);
    if asks("resourceAttributes") == asks("nonResourceAttributes") {
        return Err(Failure::bad_request(
            "spec.resourceAttributes: Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ));
    }
    let verdict = rbac::judge(inner, caller, &asked(&spec));
    let mut status = json!({ "allowed": verdict.allowed });
    if !verdict.reason.is_empty() {
        meta::set(&mut status, "reason", Some(verdict.reason.into()));
    }
    Ok(answer(AUTHORIZATION, kind, spec, status))
}

/// What a review asks for.
fn asked(spec: &Value) -> Ask<'_> {
    if spec.get("nonResourceAttributes").is_some_and(Value::is_object) {
        let part = |field: &str| text(spec, &format!("/nonResourceAttributes/{field}")).unwrap_or_default();
        return Ask { verb: part("verb"), path: part("path"), ..Ask::default() };
    }
    let part = |field: &str| text(spec, &format!("/resourceAttributes/{field}")).unwrap_or_default();
    Ask {
        namespace: part("namespace"),
        name: part("name"),
        sub: part("subresource"),
        ..Ask::of(part("verb"), part("group"), part("resource"))
    }
}

/// `POST selfsubjectrulesreviews`.
///
/// # Errors
/// 400 when it is no such review, or names no namespace.
pub(super) fn rules(inner: &Inner, caller: &Caller, review: &Value) -> Answer<Value> {
    let kind = "SelfSubjectRulesReview";
    check_kind(review, AUTHORIZATION, kind)?;
    let spec = review.get("spec").cloned().unwrap_or_default();
    let namespace = text(&spec, "/namespace").unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rbac::rules(inner, caller, namespace) {
        if rule.get("nonResourceURLs").is_some() { paths.push(rule) } else { resources.push(rule) }
    }
    let status = json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false });
    Ok(answer(AUTHORIZATION, kind, spec, status))
}

/// `POST selfsubjectreviews`.
///
/// # Errors
/// 400 when it is no such review.
pub(super) fn identity(review: &Value, caller: &Caller) -> Answer<Value> {
    let (group, kind) = ("authentication.k8s.io", "SelfSubjectReview");
    check_kind(review, group, kind)?;
    Ok(answer(group, kind, Value::Null, json!({ "userInfo": caller.info() })))
}
