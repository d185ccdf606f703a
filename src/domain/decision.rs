//! Decisions: who said yes or no to a run, when, and with which parameters; and the marks that ask the server for a new run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The run may start.
    Approved,
    /// The run never starts.
    Rejected,
}

impl Verdict {
    /// `approved` or `rejected`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
        }
    }
}

/// A decision on one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Yes or no.
    pub verdict: Verdict,
    /// The operator, or `rule` when the configuration decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What a run applies, fixed by the decision.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Parameters {
    /// The playbook's path inside the policy.
    pub playbook: String,
    /// The policy's branch; without it, the environment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The inventory groups that the host is put in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Only tasks with these tags; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// An Ansible limit inside the run's own inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Extra variables; no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, serde_json::Value>,
    /// Ansible's check mode: nothing is changed on the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
}

/// A wish that an operator left on a run and that the server turns into a new one: retry or check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The operator.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The run that the server made of it; absent while the mark waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
}
