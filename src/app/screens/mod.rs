//! The screens: one struct each, with its cursor, filter, sort and marks.

pub mod hosts;
pub mod list;
pub mod logview;
pub mod run;
pub mod runs;
pub mod secret_pages;
pub mod secrets;
pub mod stages;
pub mod tasks;

use super::items::Topic;
use crate::config::Scope;

/// The screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Screen {
    /// The table of hosts.
    #[default]
    Hosts,
    /// The table of runs.
    Runs,
    /// Inside one run.
    Run,
    /// The secrets.
    Secrets,
    /// The versions of one secret.
    Versions,
    /// What differs in one secret.
    Differences,
    /// The rows of one topic.
    List(Topic),
}

impl Screen {
    /// The scope that keys count in.
    #[must_use]
    pub fn scope(self) -> Scope {
        match self {
            Self::Hosts => Scope::Hosts,
            Self::Runs => Scope::Runs,
            Self::Run => Scope::Run,
            Self::Secrets => Scope::Secrets,
            Self::Versions => Scope::Versions,
            Self::Differences => Scope::Differences,
            Self::List(Topic::Targets) => Scope::Targets,
            Self::List(Topic::Tokens) => Scope::Tokens,
            Self::List(Topic::Queue) => Scope::Queue,
            Self::List(Topic::Activity) => Scope::Activity,
        }
    }
}
