//! The two reviews that this program asks for: may I, and who am I. In the playground everybody may do everything.

use serde_json::{Value, json};

use super::meta;
use super::status::{Answer, Failure};

fn check_kind(review: &Value, group: &str, kind: &str) -> Answer<()> {
    let version = format!("{group}/v1");
    for (field, expected) in [("apiVersion", version.as_str()), ("kind", kind)] {
        let found = meta::text(review, &format!("/{field}")).unwrap_or(expected);
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
pub(super) fn access(review: &Value) -> Answer<Value> {
    let (group, kind) = ("authorization.k8s.io", "SelfSubjectAccessReview");
    check_kind(review, group, kind)?;
    let spec = review.get("spec").cloned().unwrap_or_default();
    let asks = |field: &str| spec.get(field).is_some_and(Value::is_object);
    if asks("resourceAttributes") == asks("nonResourceAttributes") {
        return Err(Failure::bad_request(
            "spec.resourceAttributes: Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ));
    }
    let status = json!({ "allowed": true, "reason": "the playground allows everything" });
    Ok(answer(group, kind, spec, status))
}

/// `POST selfsubjectreviews`.
///
/// # Errors
/// 400 when it is no such review.
pub(super) fn identity(review: &Value, user: &str) -> Answer<Value> {
    let (group, kind) = ("authentication.k8s.io", "SelfSubjectReview");
    check_kind(review, group, kind)?;
    let groups = ["system:masters", "system:authenticated"];
    Ok(answer(group, kind, Value::Null, json!({ "userInfo": { "username": user, "groups": groups } })))
}
