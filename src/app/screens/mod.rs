//! The screens: one struct each, with its cursor, filter, sort and marks.

pub mod hosts;
pub mod list;
pub mod logview;
pub mod run;
pub mod runs;
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
            Self::List(Topic::Targets) => Scope::Targets,
            Self::List(Topic::Tokens) => Scope::Tokens,
            Self::List(Topic::Queue) => Scope::Queue,
            Self::List(Topic::Activity) => Scope::Activity,
        }
    }
}
