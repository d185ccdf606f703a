//! Where the console is, and who it works for.

use jiff::tz::TimeZone;

use crate::config::{Environment, Settings};

/// What the console knows of where it is and who it works for.
#[derive(Debug, Clone)]
pub struct EnvironmentInfo {
    /// The environment's name; empty when nothing is configured.
    pub name: String,
    /// Dangerous actions ask for the name to be typed.
    pub guarded: bool,
    /// This is the playground.
    pub playground: bool,
    /// The names of the others.
    pub others: Vec<String>,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Who we are, as decisions will say it.
    pub operator: String,
    /// Where the cluster is: context and namespace, for messages.
    pub cluster: String,
    /// The environment has a queue.
    pub amqp: bool,
    /// The environment has ARA.
    pub ara: bool,
    /// The port of a target that names none.
    pub target_port: u16,
    /// The playbook that is applied.
    pub playbook: String,
    /// The branch when a host asks for none; none: the repository's default.
    pub branch: Option<String>,
    /// The zone of absolute times: the operator's, or UTC.
    pub zone: TimeZone,
    /// The operator's zone.
    pub local: TimeZone,
}

impl EnvironmentInfo {
    /// What the settings say; `cluster` is the context and namespace in words, `zone` the operator's.
    #[must_use]
    pub fn new(settings: &Settings, operator: String, cluster: String, zone: TimeZone) -> Self {
        let Environment { name, guarded, playground, amqp, ara, policy, targets, .. } = &settings.environment;
        Self {
            name: name.clone(),
            guarded: *guarded,
            playground: *playground,
            others: settings.environments.iter().filter(|other| *other != name).cloned().collect(),
            read_only: settings.read_only,
            operator,
            cluster,
            amqp: amqp.is_some(),
            ara: ara.is_some(),
            target_port: targets.port,
            playbook: policy.playbook.clone(),
            branch: policy.branch.clone(),
            zone: if settings.console.utc { TimeZone::UTC } else { zone.clone() },
            local: zone,
        }
    }

    /// Times are shown in UTC.
    #[must_use]
    pub fn in_utc(&self) -> bool {
        self.zone == TimeZone::UTC
    }

    /// Times in UTC, or in the operator's zone again.
    pub(super) fn toggle_zone(&mut self) {
        self.zone = if self.zone == TimeZone::UTC { self.local.clone() } else { TimeZone::UTC };
    }
}
