//! What a failed pod means to its Job: the pod failure policy and the wait before the next attempt.
//!
//! Pure; called by the controller's decision only.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{PodFailurePolicy, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::Pod;

use super::pods;

/// What the policy says about one failed pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts against the back-off limit (also when no rule fits).
    Count,
    /// It does not count.
    Ignore,
    /// The whole Job has failed, with this message.
    FailJob(String),
}

/// The first rule of the policy that fits the failed pod decides.
pub(super) fn judge(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Verdict {
    let rules = policy.iter().flat_map(|p| p.rules.iter());
    for (index, rule) in rules.enumerate() {
        let Some(found) = matching(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => Verdict::Ignore,
            "FailJob" | "FailIndex" => {
                Verdict::FailJob(format!("{found} matching {} rule at index {index}", rule.action))
            }
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

/// What of the pod fits the rule, in words.
fn matching(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pods::name(pod);
    if let Some(wanted) = &rule.on_exit_codes {
        return pods::ends(pod)
            .filter(|(_, end)| end.exit_code != 0)
            .filter(|(container, _)| wanted.container_name.as_deref().is_none_or(|n| n == *container))
            .find(|(_, end)| match wanted.operator.as_str() {
                "In" => wanted.values.contains(&end.exit_code),
                "NotIn" => !wanted.values.contains(&end.exit_code),
                _ => false,
            })
            .map(|(container, end)| {
                format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code {}",
                    end.exit_code
                )
            });
    }
    let patterns = rule.on_pod_conditions.iter().flatten();
    let conditions: Vec<_> = pod.status.iter().flat_map(|s| s.conditions.iter().flatten()).collect();
    patterns
        .filter_map(|p| conditions.iter().find(|c| c.type_ == p.type_ && c.status == p.status))
        .map(|c| format!("Pod {namespace}/{name} has condition {}", c.type_))
        .next()
}

/// How long to wait after the last of `failures` failures: the base doubled with each, never more than `most`.
pub(super) fn delay(base: Duration, most: Duration, failures: u32) -> Duration {
    let factor = 2u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    base.saturating_mul(factor).min(most)
}
