//! What is fetched to be read.

use super::effect::RunRef;

/// Something to be fetched and shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Fetch {
    /// The command that a machine joins with under this token: [`Answer::Text`](super::Answer::Text).
    JoinCommand(String),
    /// What is known of the cluster: [`Answer::Cluster`](super::Answer::Cluster).
    Cluster,
    /// The run's Job as YAML: [`Answer::Text`](super::Answer::Text).
    Yaml(RunRef),
}

impl Fetch {
    /// What it fetches, as the start of a sentence in the making.
    #[must_use]
    pub fn doing(&self) -> String {
        match self {
            Self::JoinCommand(token) => format!("making the join command of {token}"),
            Self::Cluster => "looking at the cluster".to_owned(),
            Self::Yaml(run) => format!("fetching {}", run.name),
        }
    }
}
