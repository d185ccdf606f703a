//! Recording in ARA: results that nobody recorded are a pity, but never a reason to fail a run.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::session::Session;
use crate::backend::ansible::{self, Plugins, PolicyConfig};
use crate::backend::ara::Ara;
use crate::config;
use crate::domain::results::run_label;

/// How long ARA may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Whether this attempt is recorded.
#[derive(Debug)]
pub(super) enum Recording {
    /// The environment has no ARA.
    Off,
    /// It is.
    On {
        /// To ask what was recorded.
        ara: Ara,
        /// What records.
        plugins: Plugins,
    },
    /// It should be, but cannot.
    Not(String),
}

/// Looks whether ARA answers and where its plug-ins are. Asked once before the playbook, an ARA that is away costs seconds; asked
/// by the plug-in at every task it would cost hours.
pub(super) async fn prepare(session: &Session<'_>) -> Recording {
    let Some(settings) = &session.settings.environment.ara else { return Recording::Off };
    let (ara, plugins) = tokio::join!(answering(settings), Plugins::find(&session.settings.provision.python));
    match (ara, plugins) {
        (Ok(ara), Ok(plugins)) => Recording::On { ara, plugins },
        (Err(reason), _) => Recording::Not(reason),
        (_, Err(error)) => Recording::Not(error.to_string()),
    }
}

async fn answering(settings: &config::Ara) -> Result<Ara, String> {
    let ara = Ara::new(settings).map_err(|error| error.problem().to_string())?;
    match timeout(ANSWER_LIMIT, ara.ping()).await {
        Ok(Ok(())) => Ok(ara),
        Ok(Err(error)) => Err(error.problem().to_string()),
        Err(_) => Err(late(settings)),
    }
}

fn late(settings: &config::Ara) -> String {
    format!("no answer from ARA at {} within {} s", settings.url, ANSWER_LIMIT.as_secs())
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
            (Self::On { plugins, .. }, Some(ara)) => {
                let labels = [run_label(&session.own.uid), format!("host:{}", session.own.host)];
                ansible::recording(ara, plugins, &labels, private, config)
            }
            _ => Vec::new(),
        }
    }

    /// The ids of the playbooks that ARA has of this run, oldest first: one for each attempt.
    pub(super) async fn playbooks(&self, session: &Session<'_>) -> Result<Vec<u64>, String> {
        let (Self::On { ara, .. }, Some(settings)) = (self, &session.settings.environment.ara) else {
            return Ok(Vec::new());
        };
        match timeout(ANSWER_LIMIT, ara.playbooks(&run_label(&session.own.uid))).await {
            Ok(Ok(playbooks)) => Ok(playbooks.into_iter().map(|playbook| playbook.id).collect()),
            Ok(Err(error)) => Err(error.problem().to_string()),
            Err(_) => Err(late(settings)),
        }
    }
}
