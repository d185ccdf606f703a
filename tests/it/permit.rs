//! A permit, as writable settings give it.

use std::time::Duration;

use hostwright::config::{
    Approval, ConsoleSettings, Environment, JobSettings, Kubernetes, Permit, Policy, ProvisionSettings,
    ServerSettings, Settings, Signer, Symbols, TargetSettings,
};

/// Leave to change what the test made.
pub(crate) fn permit() -> Permit {
    settings().permit().unwrap()
}

fn settings() -> Settings {
    let second = Duration::from_secs(1);
    Settings {
        console: ConsoleSettings {
            theme: "dark".into(),
            symbols: Symbols::Ascii,
            utc: true,
            keys: Default::default(),
        },
        server: ServerSettings {
            listen: ([127, 0, 0, 1], 0).into(),
            token_file: None,
            networks: vec![],
            proxies: vec![],
            request_timeout: second,
            repair_interval: second,
            pending_limit: 1,
            keep_runs: 1,
        },
        job: JobSettings {
            template: None,
            image: "none".into(),
            service_account: None,
            backoff_limit: 0,
            deadline: second,
            grace: second,
        },
        provision: ProvisionSettings {
            message_timeout: second,
            work_dir: None,
            ansible_playbook: "ansible-playbook".into(),
            python: "python3".into(),
            token_lifetime: second,
            signer: Signer::Off,
        },
        environment: environment(),
        environments: vec!["test".into()],
        read_only: false,
    }
}

fn environment() -> Environment {
    Environment {
        name: "test".into(),
        guarded: false,
        playground: true,
        read_only: false,
        kubernetes: Kubernetes { kubeconfig: None, context: None, namespace: None },
        amqp: None,
        ara: None,
        policy: Policy {
            source: "/nowhere".into(),
            branch: None,
            playbook: "site.yml".into(),
            variables: Default::default(),
        },
        targets: TargetSettings {
            namespace: "default".into(),
            name: "scrape-collectd".into(),
            key: "targets".into(),
            port: 25826,
        },
        cluster_groups: vec![],
        approval: Approval::Manual,
        hook: None,
        hook_token_file: None,
        shell: vec![],
    }
}
