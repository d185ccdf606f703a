//! Nodes: whether a host that was provisioned has joined.

use k8s_openapi::api::core::v1::Node;

use super::{Kube, KubeError};

/// The most characters of a kubelet's own words.
const WORDS: usize = 300;

/// How a Node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Its condition Ready is True: its kubelet has a certificate of its own, and pods can run.
    pub ready: bool,
    /// Why it is not ready, in the kubelet's words; empty when it is.
    pub why: String,
}

impl Kube {
    /// How a Node stands; none when there is no such Node.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn node(&self, name: &str) -> Result<Option<NodeState>, KubeError> {
        let api: ::kube::Api<Node> = ::kube::Api::all(self.client());
        let node = self.limited(format!("read node {name}"), api.get_opt(name)).await?;
        Ok(node.as_ref().map(state))
    }
}

fn state(node: &Node) -> NodeState {
    let not = |why: String| NodeState { ready: false, why: why.chars().take(WORDS).collect() };
    if node.metadata.deletion_timestamp.is_some() {
        return not("it is being deleted".to_owned());
    }
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    match conditions.into_iter().find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => NodeState { ready: true, why: String::new() },
        Some(ready) => {
            let words = [ready.reason.as_deref(), ready.message.as_deref()].into_iter().flatten();
            not(words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": "))
        }
        None => not("its kubelet has said nothing yet".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_ready_condition_that_is_true_counts() {
        let of = |value: serde_json::Value| state(&serde_json::from_value(value).unwrap());
        let ready = |status: &str| {
            json!({"status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": "no network plug-in"},
            ]}})
        };
        assert_eq!(of(ready("True")), NodeState { ready: true, why: String::new() });
        let not = of(ready("False"));
        assert_eq!((not.ready, not.why.as_str()), (false, "KubeletNotReady: no network plug-in"));
        assert!(!of(ready("Unknown")).ready);
        assert!(of(json!({})).why.contains("said nothing"));
        let mut going = ready("True");
        going["metadata"] = json!({"deletionTimestamp": "2026-12-01T10:00:00Z"});
        assert!(!of(going).ready);
    }
}
