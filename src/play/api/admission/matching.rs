//! What a policy is about: operations on resources, and selectors of objects and of their namespaces.

use serde_json::Value;

use super::Attempt;
use crate::play::api::kinds::Kind;
use crate::play::api::meta::{items, text};
use crate::play::api::store::{Inner, Key};

/// Whether `matchConstraints` of a policy, or `matchResources` of a binding, mean what is attempted.
pub(super) fn matches(inner: &Inner, constraints: &Value, attempt: &Attempt<'_>) -> bool {
    let rules = items(constraints, "/resourceRules");
    let named = rules.is_empty() || rules.iter().any(|rule| rule_matches(rule, attempt));
    let spared = items(constraints, "/excludeResourceRules").iter().any(|rule| rule_matches(rule, attempt));
    named && !spared && place_matches(inner, constraints, attempt) && object_matches(constraints, attempt)
}

fn rule_matches(rule: &Value, attempt: &Attempt<'_>) -> bool {
    let has = |list: &str, wanted: &str| items(rule, list).iter().any(|v| v == "*" || v == wanted);
    let sub = attempt.sub;
    let resource = items(rule, "/resources").iter().filter_map(Value::as_str).any(|pattern| {
        let (of, part) = pattern.split_once('/').unwrap_or((pattern, ""));
        ["*", attempt.resource.plural].contains(&of) && ["*", sub].contains(&part)
    });
    let scope = match text(rule, "/scope") {
        Some("Cluster") => !attempt.resource.namespaced,
        Some("Namespaced") => attempt.resource.namespaced,
        _ => true,
    };
    let names = items(rule, "/resourceNames");
    has("/operations", attempt.operation)
        && has("/apiGroups", attempt.resource.group)
        && has("/apiVersions", "v1")
        && resource
        && scope
        && (names.is_empty() || names.iter().any(|name| *name == attempt.key.name))
}

/// What has no namespace is in every place, but for namespaces themselves.
fn place_matches(inner: &Inner, constraints: &Value, attempt: &Attempt<'_>) -> bool {
    let Some(selector) = constraints.get("namespaceSelector") else { return true };
    if attempt.key.kind == Kind::Namespace {
        return attempt.object.or(attempt.old).is_some_and(|object| selects(selector, object));
    }
    if !attempt.resource.namespaced {
        return true;
    }
    let namespace = inner.get(&Key::new(Kind::Namespace, "", &attempt.key.namespace));
    namespace.is_some_and(|namespace| selects(selector, &namespace.value()))
}

/// Either of what an object was and shall be counts.
fn object_matches(constraints: &Value, attempt: &Attempt<'_>) -> bool {
    let Some(selector) = constraints.get("objectSelector") else { return true };
    [attempt.object, attempt.old].into_iter().flatten().any(|object| selects(selector, object))
}

/// Whether a label selector means an object. An empty one means every object.
fn selects(selector: &Value, object: &Value) -> bool {
    let label = |key: &str| object.pointer("/metadata/labels").and_then(|labels| labels.get(key));
    let mut wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    wanted.all(|(key, value)| label(key) == Some(value))
        && items(selector, "/matchExpressions").iter().all(|rule| {
            let found = label(text(rule, "/key").unwrap_or_default());
            let among = found.is_some_and(|found| items(rule, "/values").contains(found));
            match text(rule, "/operator") {
                Some("In") => among,
                Some("NotIn") => !among,
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        })
}
