//! ResourceQuotas: how many objects of a kind a namespace may hold. They count what is there, so they need no controller.
//!
//! Sums over what pods ask for (`requests.cpu`) are not kept here.

use serde_json::Value;

use super::Attempt;
use crate::play::api::kinds::{Kind, RESOURCES, Resource};
use crate::play::api::status::{Answer, Failure};
use crate::play::api::store::{Inner, Key};

/// Refuses an object that is one too many.
///
/// # Errors
/// 403 in a real API server's words.
pub(super) fn judge(inner: &Inner, attempt: &Attempt<'_>) -> Answer<()> {
    let Key { kind, namespace, name } = attempt.key;
    if namespace.is_empty() {
        return Ok(());
    }
    for quota in inner.of(Kind::Quota, namespace) {
        let spec = quota.value();
        let hard = spec.pointer("/spec/hard").and_then(Value::as_object);
        for (counted, most) in hard.into_iter().flatten() {
            let Some(limit) = most.as_str().and_then(whole).filter(|_| counts(counted) == Some(*kind)) else {
                continue;
            };
            let used = inner.of(*kind, namespace).len();
            if u64::try_from(used).unwrap_or(u64::MAX) < limit {
                continue;
            }
            let words = format!(
                "{} \"{name}\" is forbidden: exceeded quota: {}, requested: {counted}=1, used: {counted}={used}, limited: \
                 {counted}={limit}",
                attempt.resource.qualified(),
                quota.key.name
            );
            return Err(Failure::forbidden(words, attempt.resource.group, attempt.resource.plural, name));
        }
    }
    Ok(())
}

/// The kind that a quota's key counts: `count/jobs.batch`, or the old short names.
fn counts(key: &str) -> Option<Kind> {
    let known = |wanted: &dyn Fn(&Resource) -> bool| RESOURCES.iter().find(|r| wanted(r)).map(|r| r.kind);
    match key.strip_prefix("count/") {
        Some(whole) => known(&|r| r.namespaced && r.qualified() == whole),
        None => {
            let short = ["configmaps", "pods", "resourcequotas", "secrets", "services"];
            known(&|r| r.group.is_empty() && r.plural == key && short.contains(&key))
        }
    }
}

/// A whole quantity: `5`, `5k`.
fn whole(quantity: &str) -> Option<u64> {
    let digits = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match quantity.get(digits.len()..)? {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "Ki" => 1_024,
        "Mi" => 1_048_576,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_count_kinds_and_quantities_are_read() {
        assert_eq!(counts("count/jobs.batch"), Some(Kind::Job));
        assert_eq!(counts("count/secrets"), Some(Kind::Secret));
        assert_eq!(counts("pods"), Some(Kind::Pod));
        assert_eq!((counts("jobs"), counts("requests.cpu"), counts("count/nodes")), (None, None, None));
        assert_eq!(
            [whole("5000"), whole("5k"), whole("1Ki"), whole("-1"), whole("x")],
            [Some(5000), Some(5000), Some(1024), None, None]
        );
    }
}
