//! The console without any configuration: it explains itself, and speaks to no back end.

use std::collections::BTreeMap;

use super::{Approval, AwsSettings, Config, Environment, Kubernetes, Policy, Settings, TargetSettings};

impl Config {
    /// Settings with an environment that has no name and no back end.
    #[must_use]
    pub fn without_environment(&self) -> Settings {
        Settings {
            console: self.console.clone(),
            server: self.server.clone(),
            job: self.job.clone(),
            provision: self.provision.clone(),
            environment: Environment {
                name: String::new(),
                guarded: false,
                playground: false,
                read_only: true,
                kubernetes: Kubernetes { kubeconfig: None, context: None, namespace: None },
                amqp: None,
                aws: AwsSettings::default(),
                variables: None,
                secrets: None,
                manifests: None,
                ara: None,
                ara_server: None,
                policy: Policy {
                    source: String::new(),
                    branch: None,
                    playbook: String::new(),
                    variables: BTreeMap::new(),
                },
                targets: TargetSettings {
                    namespace: String::new(),
                    name: String::new(),
                    key: String::new(),
                    port: 0,
                },
                cluster_groups: Vec::new(),
                approval: Approval::Manual,
                hook: None,
                hook_token_file: None,
                shell: Vec::new(),
            },
            environments: Vec::new(),
            read_only: true,
        }
    }
}
