//! Ansible: the files that it reads, how it is started, and what its output tells.
//!
//! `provision` calls this. Ansible runs as a child process with an argument vector, in a process group of its own; no argument is
//! a secret and nothing goes through a shell.

mod ara;
mod inputs;
mod policy_config;
mod process;
mod stream;
mod watch;
mod yaml;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

pub use ara::{Plugins, recording};
pub use inputs::{Variables, inventory, known_hosts};
pub use policy_config::PolicyConfig;
pub use watch::Trouble;

use crate::domain::Counts;

/// Why Ansible could not be run.
#[derive(Debug, thiserror::Error)]
pub enum AnsibleError {
    /// The program is not there, or may not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Python has no ARA.
    #[error("{python} has no ARA: {why}")]
    NoAra {
        /// The Python that was asked.
        python: String,
        /// What it said.
        why: String,
    },
}

/// One call of `ansible-playbook`.
#[derive(Debug, Clone)]
pub struct Playbook<'a> {
    /// The program.
    pub program: &'a str,
    /// The policy's folder, where Ansible runs.
    pub policy: &'a Path,
    /// The policy's own settings.
    pub config: &'a PolicyConfig,
    /// The playbook's path.
    pub playbook: &'a Path,
    /// The inventory's path; it ends in `.yaml`.
    pub inventory: &'a Path,
    /// The path of the extra variables.
    pub variables: &'a Path,
    /// A private folder for what Ansible keeps while it runs.
    pub scratch: &'a Path,
    /// A private folder for SSH's sockets, with a short path.
    pub sockets: &'a Path,
    /// A limit inside the inventory.
    pub limit: Option<&'a str>,
    /// Only tasks with these tags; empty for all.
    pub tags: &'a [String],
    /// Check mode: nothing is changed.
    pub check: bool,
    /// More environment variables, ARA's for one.
    pub environment: Vec<(&'static str, OsString)>,
}

/// How a call of `ansible-playbook` ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// The sum of its recap; none when it did not get that far.
    pub counts: Option<Counts>,
    /// The hosts in its recap.
    pub hosts: Vec<String>,
    /// What went wrong last and was not ignored.
    pub trouble: Option<Trouble>,
    /// Its last lines, harmless to show.
    pub tail: Vec<String>,
    /// It was told to stop and did not finish.
    pub interrupted: bool,
}

impl Playbook<'_> {
    /// Runs it to its end, with its output passed through to `out`. When `shutdown` comes, its process group gets SIGTERM, and
    /// SIGKILL after `grace`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn run(
        &self,
        out: &mut (impl AsyncWrite + Unpin),
        shutdown: &CancellationToken,
        grace: Duration,
    ) -> Result<Finished, AnsibleError> {
        process::run(self, out, shutdown, grace).await
    }
}
