//! The screens: one struct each, with its cursor, filter, sort and marks.

pub mod hosts;
pub mod list;
pub mod logview;
pub mod run;
pub mod runs;
pub mod stages;
pub mod tasks;

use super::items::Topic;

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
