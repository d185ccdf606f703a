//! The configuration files in the cluster: what server and runs need of this environment, each without what is the other's.

use serde_json::{Map, Value, json};

use super::{ACCOUNT, PORT, SECRETS, set};
use crate::config::{Approval, Ara, AraCredentials, Settings, Signer};
use crate::ops::OpError;

/// Whose configuration it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The server: its token, its broker user.
    Server,
    /// The runs' pods: another broker user, and what they record in ARA with.
    Runs,
}

/// The configuration of this environment alone. Secrets are files, of which each reader has its own.
pub(super) fn config(settings: &Settings, namespace: &str, reader: Reader) -> Result<String, OpError> {
    let job = &settings.job;
    let mut config = json!({
        "environment": settings.environment.name,
        "environments": {settings.environment.name.as_str(): environment(settings, namespace, reader)},
    });
    let tables = match reader {
        Reader::Server => vec![
            ("server", server(settings)),
            (
                "job",
                json!({
                    "image": job.image,
                    "service_account": job.service_account.as_deref().unwrap_or(ACCOUNT),
                    "backoff_limit": job.backoff_limit,
                    "deadline": seconds(job.deadline),
                    "grace": seconds(job.grace),
                }),
            ),
        ],
        Reader::Runs => vec![("provision", provision(settings))],
    };
    for (name, table) in tables {
        set(&mut config, "", name, table);
    }
    toml::to_string(&config)
        .map_err(|error| OpError::Invalid(format!("the configuration is no TOML: {error}")))
}

fn provision(settings: &Settings) -> Value {
    let provision = &settings.provision;
    json!({
        "message_timeout": seconds(provision.message_timeout),
        "ansible_playbook": provision.ansible_playbook,
        "python": provision.python,
        "token_lifetime": seconds(provision.token_lifetime),
        "join_timeout": seconds(provision.join_timeout),
        "signer": match provision.signer {
            Signer::Required => "required",
            Signer::Off => "off",
        },
    })
}

fn server(settings: &Settings) -> Value {
    let server = &settings.server;
    let texts = |networks: &[ipnet::IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut table = json!({
        // Both families; the server takes the one that there is.
        "listen": format!("[::]:{PORT}"),
        "request_timeout": milliseconds(server.request_timeout),
        "repair_interval": milliseconds(server.repair_interval),
        "networks": texts(&server.networks),
        "proxies": texts(&server.proxies),
        "pending_limit": server.pending_limit,
        "keep_runs": server.keep_runs,
        "keep_for": seconds(server.keep_for),
        "runs_at_once": server.runs_at_once,
    });
    if server.token_file.is_some() {
        set(&mut table, "", "token_file", json!(format!("{SECRETS}/hook-token")));
    }
    table
}

fn environment(settings: &Settings, namespace: &str, reader: Reader) -> Value {
    let environment = &settings.environment;
    let targets = &environment.targets;
    let mut policy = json!({"source": environment.policy.source, "playbook": environment.policy.playbook});
    if let Some(branch) = &environment.policy.branch {
        set(&mut policy, "", "branch", json!(branch));
    }
    if !environment.policy.variables.is_empty() {
        set(&mut policy, "", "variables", json!(environment.policy.variables));
    }
    let mut table = json!({
        "guarded": environment.guarded,
        "cluster_groups": environment.cluster_groups,
        "approval": match &environment.approval {
            Approval::Manual => json!("manual"),
            Approval::Auto => json!("auto"),
            Approval::Hosts(hosts) => json!({"hosts": hosts}),
        },
        "kubernetes": {"namespace": namespace},
        "policy": policy,
        "targets": {
            "namespace": targets.namespace, "name": targets.name, "key": targets.key, "port": targets.port,
        },
    });
    if let Some(amqp) = &environment.amqp {
        let amqp = json!({
            "url_file": format!("{SECRETS}/amqp-url"), "exchange": amqp.exchange, "dead_letter": amqp.dead_letter,
        });
        set(&mut table, "", "amqp", amqp);
    }
    let recorded = environment.ara.as_ref().filter(|ara| {
        // The server only asks whether ARA is there, and has no credentials to ask with.
        reader == Reader::Runs || matches!(ara.credentials, AraCredentials::Anonymous) && ara.ca.is_none()
    });
    if let Some(settings) = recorded {
        set(&mut table, "", "ara", ara(settings));
    }
    table
}

fn ara(settings: &Ara) -> Value {
    let mut table = Map::from_iter([("url".to_owned(), json!(settings.url))]);
    let file = |name: &str| json!(format!("{SECRETS}/{name}"));
    match &settings.credentials {
        AraCredentials::Anonymous => {}
        AraCredentials::Basic { username, .. } => table.extend([
            ("username".to_owned(), json!(username)),
            ("password_file".to_owned(), file("ara-password")),
        ]),
        AraCredentials::Bearer(_) => table.extend([("token_file".to_owned(), file("ara-token"))]),
        AraCredentials::Header { name, .. } => table.extend([
            ("header".to_owned(), json!(name)),
            ("header_value_file".to_owned(), file("ara-header")),
        ]),
    }
    if settings.ca.is_some() {
        table.insert("ca".to_owned(), file("ara-ca.pem"));
    }
    Value::Object(table)
}

fn seconds(time: std::time::Duration) -> String {
    format!("{}s", time.as_secs())
}

fn milliseconds(time: std::time::Duration) -> String {
    format!("{}ms", time.as_millis())
}
