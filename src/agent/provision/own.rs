//! What `provision` knows of itself: the pod's environment, which the Job's template fills from the pod's labels and annotations.

use std::path::PathBuf;

use crate::domain::{Announcement, HostName, Parameters};

/// The run that this process is the pod of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// `HOSTWRIGHT_RUN`: the Job's UID.
    pub uid: String,
    /// `HOSTWRIGHT_RUN_NAME`: the Job's name.
    pub name: String,
    /// `HOSTWRIGHT_HOST`: the host's name.
    pub host: HostName,
    /// `HOSTWRIGHT_ANNOUNCEMENT`, as it came.
    announcement: String,
    /// `HOSTWRIGHT_PARAMETERS`, as they came.
    parameters: String,
    /// `HOSTWRIGHT_DECISION`.
    decision: String,
    /// Where the reason of the end is written for the pod's status.
    pub(super) termination: Option<PathBuf>,
}

/// A variable that the Job's template should have set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot provision: {name} {what}: this runs in a Job's pod, made from the Job template")]
pub struct OwnError {
    /// The variable.
    pub name: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl Own {
    /// Reads the environment through `variable`.
    ///
    /// # Errors
    /// When the run, its name or the host is not there.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, OwnError> {
        let required = |name: &'static str| match variable(name) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(OwnError { name, what: "is not set".to_owned() }),
        };
        let optional = |name| variable(name).unwrap_or_default();
        let host = HostName::parse(&required("HOSTWRIGHT_HOST")?)
            .map_err(|error| OwnError { name: "HOSTWRIGHT_HOST", what: error.to_string() })?;
        Ok(Self {
            uid: required("HOSTWRIGHT_RUN")?,
            name: required("HOSTWRIGHT_RUN_NAME")?,
            host,
            announcement: optional("HOSTWRIGHT_ANNOUNCEMENT"),
            parameters: optional("HOSTWRIGHT_PARAMETERS"),
            decision: optional("HOSTWRIGHT_DECISION"),
            termination: variable("TERMINATION_MESSAGE_PATH").filter(|p| !p.is_empty()).map(PathBuf::from),
        })
    }

    /// What the pod itself carries, for an environment without a queue.
    pub(super) fn details(&self) -> Result<(Announcement, Parameters), String> {
        if self.decision != "approved" {
            return Err("the pod carries no approval (HOSTWRIGHT_DECISION)".to_owned());
        }
        let announcement = serde_json::from_str(&self.announcement)
            .map_err(|e| format!("the pod's announcement cannot be read (HOSTWRIGHT_ANNOUNCEMENT): {e}"))?;
        let parameters = serde_json::from_str(&self.parameters)
            .map_err(|e| format!("the pod's parameters cannot be read (HOSTWRIGHT_PARAMETERS): {e}"))?;
        Ok((announcement, parameters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Own, OwnError> {
        Own::from_env(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        assert_eq!(from(&[]).unwrap_err().name, "HOSTWRIGHT_HOST");
        assert_eq!(from(&[("HOSTWRIGHT_HOST", "a b")]).unwrap_err().name, "HOSTWRIGHT_HOST");
        assert_eq!(from(&[("HOSTWRIGHT_HOST", "web")]).unwrap_err().name, "HOSTWRIGHT_RUN");
    }

    #[test]
    fn details_need_an_approval() {
        let mut pairs = vec![
            ("HOSTWRIGHT_HOST", "web"),
            ("HOSTWRIGHT_RUN", "u"),
            ("HOSTWRIGHT_RUN_NAME", "n"),
            ("HOSTWRIGHT_ANNOUNCEMENT", r#"{"host":"web"}"#),
            ("HOSTWRIGHT_PARAMETERS", r#"{"playbook":"site.yml"}"#),
        ];
        assert!(from(&pairs).unwrap().details().unwrap_err().contains("HOSTWRIGHT_DECISION"));
        pairs.push(("HOSTWRIGHT_DECISION", "approved"));
        assert_eq!(from(&pairs).unwrap().details().unwrap().1.playbook, "site.yml");
        pairs[3].1 = "{";
        assert!(from(&pairs).unwrap().details().unwrap_err().contains("HOSTWRIGHT_ANNOUNCEMENT"));
    }
}
