//! Decisions: who said yes or no to a run, when, and with which parameters; and the marks that ask the server for a new run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::announcement::{check_branch, check_group};

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

/// Ansible's own variables that an approval may set. The others tell Ansible how to reach a host, and with them whoever may
/// approve could run programs in the pod, under its account.
const ALLOWED: [&str; 2] = ["ansible_user", "ansible_port"];

impl Parameters {
    /// Checks that the playbook is a path inside the policy; whether the policy has it, the policy tells.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check_playbook(&self) -> Result<(), String> {
        let outside = self.playbook.starts_with('/') || self.playbook.split('/').any(|part| part == "..");
        if outside || self.playbook.is_empty() || self.playbook.starts_with('-') {
            return Err(format!("playbook {:?} is no path inside the policy", self.playbook));
        }
        Ok(())
    }

    /// Checks what else a person or a program wrote into them.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        self.groups.iter().try_for_each(|name| check_group(name)).map_err(|e| e.to_string())?;
        if let Some(branch) = &self.branch {
            check_branch(branch).map_err(|e| e.to_string())?;
        }
        self.variables.keys().try_for_each(|name| check_variable(name))?;
        let limit = self.limit.as_deref().unwrap_or_default();
        if limit.split([',', ':']).any(|part| part.trim_start_matches(['&', '!', ' ']).starts_with('@')) {
            return Err(format!("the limit {limit:?} names a file"));
        }
        if self.limit.is_some() && limit.trim_matches([' ', ',', ':']).is_empty() {
            return Err("the limit is empty, which Ansible takes for all hosts: leave it out".to_owned());
        }
        Ok(())
    }
}

fn check_variable(name: &str) -> Result<(), String> {
    let mut letters = name.bytes();
    let start = letters.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !start || !letters.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("{name:?} is no name of a variable"));
    }
    let reserved = name.starts_with("ansible_") || name.starts_with("hostwright_");
    if reserved && !ALLOWED.contains(&name) {
        return Err(format!(
            "variable {name} cannot be set at the approval: it belongs in the policy, or in the environment's policy.variables"
        ));
    }
    Ok(())
}

/// An approved run waits until fewer runs go on than may at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Since when, exactly: who waits longest comes first.
    pub since: Timestamp,
    /// How many runs may go on at a time, as it was then.
    pub of: usize,
}

impl Wait {
    /// Why the run is queued.
    #[must_use]
    pub fn words(&self) -> String {
        match self.of {
            0 => "waits for a place".to_owned(),
            of => format!("waits for a place: {of} of {of} runs go on"),
        }
    }
}

/// The end of a run by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The operator.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A wish that an operator left on a run and that the server turns into a new one: retry or check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The operator.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The announcement that the operator looked at.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The run that the server made of it; absent while the mark waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
}

impl Mark {
    /// Whether the server has still to answer it.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.answered.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_could_never_be_applied_is_refused() {
        let good = Parameters { playbook: "plays/site.yml".into(), ..Parameters::default() };
        assert_eq!(good.check_playbook().and_then(|()| good.check()), Ok(()));
        for wrong in [
            Parameters { playbook: "../x.yml".into(), ..good.clone() },
            Parameters { playbook: "/etc/x.yml".into(), ..good.clone() },
            Parameters { playbook: String::new(), ..good.clone() },
            Parameters { groups: vec!["a b".into()], ..good.clone() },
            Parameters { branch: Some("--x".into()), ..good.clone() },
            Parameters { limit: Some("web,@/etc/passwd".into()), ..good.clone() },
            Parameters { variables: BTreeMap::from([("a-b".into(), json!(1))]), ..good.clone() },
            Parameters { variables: BTreeMap::from([("ansible_connection".into(), json!("local"))]), ..good },
        ] {
            assert!(wrong.check_playbook().and_then(|()| wrong.check()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_approval_cannot_tell_ansible_how_to_run() {
        let check = |variable: &str, limit: Option<&str>| {
            let variables = BTreeMap::from([(variable.to_owned(), json!(1))]);
            let limit = limit.map(str::to_owned);
            Parameters { playbook: "site.yml".into(), variables, limit, ..Parameters::default() }.check()
        };
        for name in ["size", "_x9", "ansible_user", "ansible_port"] {
            assert_eq!(check(name, None), Ok(()));
        }
        for name in
            ["ansible_connection", "ansible_ssh_common_args", "hostwright_run", "a-b", "", "9a", "a b"]
        {
            assert!(check(name, None).is_err(), "{name}");
        }
        for limit in ["@/etc/passwd", "web,@x", "web:&@x", "web:!@x", "", " ", ",", ": "] {
            assert!(check("a", Some(limit)).is_err(), "{limit}");
        }
        assert_eq!(check("a", Some("web:!db")), Ok(()));
    }
}
