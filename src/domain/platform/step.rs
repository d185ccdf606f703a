//! The steps of bring-up, in their order.

use serde::Serialize;

/// One step. Each can be run alone, changes only what is missing, and can be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The environment's variables and AWS credentials are looked at.
    Check,
    /// The buckets of the secrets and of Terraform's state are made.
    Buckets,
    /// The secrets are fetched.
    Fetch,
    /// The operators' SSH key pair is made.
    KeyPair,
    /// CA, certificates, tokens and configurations are made.
    Certificates,
    /// What was made is uploaded.
    Upload,
    /// The manifests are rendered and pushed.
    Manifests,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 7] = [
        Self::Check,
        Self::Buckets,
        Self::Fetch,
        Self::KeyPair,
        Self::Certificates,
        Self::Upload,
        Self::Manifests,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Buckets => "buckets",
            Self::Fetch => "fetch",
            Self::KeyPair => "key-pair",
            Self::Certificates => "certificates",
            Self::Upload => "upload",
            Self::Manifests => "manifests",
        }
    }

    /// The step of a name.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        for step in Step::ALL {
            assert_eq!(Step::parse(step.word()), Some(step));
            assert_eq!(serde_json::to_value(step).unwrap(), step.word());
        }
        assert_eq!(Step::parse("apply"), None);
    }
}
