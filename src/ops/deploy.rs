//! What a cluster needs of Hostwright, for one environment: the shipped objects (`assets/deploy`) with the environment's namespace, image,
//! targets, networks and settings put into them. Values are set as values: none can become structure.

use serde_json::{Map, Value, json};

use super::OpError;
use crate::config::{Approval, AraCredentials, Settings, Signer};

/// The shipped files, in the order in which a cluster takes them.
const FILES: [&str; 7] = [
    include_str!("../../assets/deploy/namespace.yaml"),
    include_str!("../../assets/deploy/rbac.yaml"),
    include_str!("../../assets/deploy/admission.yaml"),
    include_str!("../../assets/deploy/config.yaml"),
    include_str!("../../assets/deploy/quota.yaml"),
    include_str!("../../assets/deploy/network.yaml"),
    include_str!("../../assets/deploy/server.yaml"),
];
/// The namespace and the image that they have.
const NAMESPACE: &str = "hostwright";
const IMAGE: &str = "hostwright:0.1.0";
const TARGETS: (&str, &str) = ("default", "scrape-collectd");
/// The account of the runs' pods.
const ACCOUNT: &str = "hostwright-provision";
/// Where the pods find what must not stand in a ConfigMap.
const SECRETS: &str = "/etc/hostwright-secrets";
/// The port that server, Service and network policy have in common.
const PORT: u16 = 8470;

/// All objects for an environment, as one YAML stream for `kubectl apply -f -`.
///
/// # Errors
/// When the environment lacks what a cluster needs, or names an image that can change under its name.
pub fn render(settings: &Settings) -> Result<String, OpError> {
    let environment = &settings.environment;
    let namespace = environment.kubernetes.namespace.as_deref().unwrap_or(NAMESPACE);
    checked(settings)?;
    let place = Place { settings, namespace };
    let mut text = String::new();
    for file in FILES {
        let objects: Vec<Value> = serde_saphyr::from_multiple(file)
            .map_err(|error| OpError::Invalid(format!("a shipped file is no YAML: {error}")))?;
        for mut object in objects {
            place.put(&mut object);
            if object.get("kind") == Some(&json!("ConfigMap")) && name(&object) == "hostwright-config" {
                set(&mut object, "/data", "config.toml", json!(config(settings, namespace)?));
            }
            let yaml = serde_saphyr::to_string(&object)
                .map_err(|error| OpError::Invalid(format!("{} is no YAML: {error}", name(&object))))?;
            text.push_str("---\n");
            text.push_str(&yaml);
        }
    }
    Ok(text)
}

/// What must be right before anything is printed.
fn checked(settings: &Settings) -> Result<(), OpError> {
    let image = &settings.job.image;
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let fixed = image.contains("@sha256:") || tag.is_some_and(|tag| !tag.is_empty() && tag != "latest");
    if !fixed {
        let text = format!("job.image {image:?} can change under its name: give it a fixed tag or a digest");
        return Err(OpError::Invalid(text));
    }
    let namespace = settings.environment.kubernetes.namespace.as_deref().unwrap_or(NAMESPACE);
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if namespace.is_empty() || namespace.len() > 63 || !namespace.bytes().all(legal) {
        return Err(OpError::Invalid(format!("{namespace:?} is no namespace: see kubernetes.namespace")));
    }
    // Pod security and network policies are for the whole namespace.
    if namespace == "default" || namespace.starts_with("kube-") {
        let text = format!("kubernetes.namespace is {namespace}: runs need a namespace of their own");
        return Err(OpError::Invalid(text));
    }
    if settings.job.service_account.as_deref().is_some_and(|account| account != ACCOUNT) {
        let text =
            format!("job.service_account: what is rendered has the account {ACCOUNT}: leave the setting out");
        return Err(OpError::Invalid(text));
    }
    if settings.job.template.is_some() {
        let text = "job.template is a file of this machine: mount yours into the server and name it in its ConfigMap";
        return Err(OpError::Invalid(text.to_owned()));
    }
    source(&settings.environment.policy.source)
}

/// The pods need a git URL, and it stands in a ConfigMap.
fn source(source: &str) -> Result<(), OpError> {
    if source.starts_with('/') || source.starts_with("file:") {
        let text = "policy.source is a folder of this machine: the pods need a git URL";
        return Err(OpError::Invalid(text.to_owned()));
    }
    let Some((scheme, rest)) = source.split_once("://") else { return Ok(()) };
    let user = rest.split('/').next().and_then(|host| host.rsplit_once('@')).map(|(user, _)| user);
    // For HTTP the name alone may be a token.
    if user.is_some_and(|user| user.contains(':') || scheme.starts_with("http")) {
        let text =
            "policy.source holds a password or token, which would stand in a ConfigMap: use an SSH key";
        return Err(OpError::Invalid(text.to_owned()));
    }
    Ok(())
}

/// Where the objects are to go.
struct Place<'a> {
    settings: &'a Settings,
    namespace: &'a str,
}

impl Place<'_> {
    fn put(&self, object: &mut Value) {
        let targets = &self.settings.environment.targets;
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_targets = object.pointer("/metadata/namespace") == Some(&json!(TARGETS.0));
        if kind == "Namespace" {
            set(object, "/metadata", "name", json!(self.namespace));
        } else if object.pointer("/metadata/namespace") == Some(&json!(NAMESPACE)) {
            set(object, "/metadata", "namespace", json!(self.namespace));
        } else if is_targets {
            set(object, "/metadata", "namespace", json!(targets.namespace));
            if kind == "ConfigMap" {
                set(object, "/metadata", "name", json!(targets.name));
            }
        }
        let networks = &self.settings.server.networks;
        if kind == "NetworkPolicy" && name(object) == "hostwright-server" && !networks.is_empty() {
            let from: Vec<Value> =
                networks.iter().map(|network| json!({"ipBlock": {"cidr": network.to_string()}})).collect();
            set(object, "/spec/ingress/0", "from", json!(from));
        }
        self.walk(object);
    }

    /// The names inside: subjects, selectors, expressions, resource names, images.
    fn walk(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.iter_mut().for_each(|(key, value)| self.entry(key, value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item)),
            _ => {}
        }
    }

    fn entry(&self, key: &str, value: &mut Value) {
        let account = format!("system:serviceaccount:{NAMESPACE}:");
        match (key, value.as_str()) {
            ("image", Some(IMAGE)) => *value = json!(self.settings.job.image),
            ("namespace" | "kubernetes.io/metadata.name", Some(NAMESPACE)) => *value = json!(self.namespace),
            ("expression", Some(text)) if text.contains(&account) => {
                let ours = format!("system:serviceaccount:{}:", self.namespace);
                *value = json!(text.replace(&account, &ours));
            }
            ("resourceNames", None) if *value == json!([TARGETS.1]) => {
                *value = json!([self.settings.environment.targets.name]);
            }
            _ => self.walk(value),
        }
    }
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn set(object: &mut Value, at: &str, key: &str, value: Value) {
    if let Some(Value::Object(map)) = object.pointer_mut(at) {
        map.insert(key.to_owned(), value);
    }
}

/// The configuration that server and pods read: this environment alone. Secrets are files of the Secret `hostwright-secrets`.
fn config(settings: &Settings, namespace: &str) -> Result<String, OpError> {
    let environment = environment(settings, namespace);
    let job = &settings.job;
    let config = json!({
        "environment": settings.environment.name,
        "server": server(settings),
        "job": {
            "image": job.image,
            "service_account": job.service_account.as_deref().unwrap_or(ACCOUNT),
            "backoff_limit": job.backoff_limit,
            "deadline": seconds(job.deadline),
            "grace": seconds(job.grace),
        },
        "provision": {
            "message_timeout": seconds(settings.provision.message_timeout),
            "ansible_playbook": settings.provision.ansible_playbook,
            "python": settings.provision.python,
            "token_lifetime": seconds(settings.provision.token_lifetime),
            "signer": match settings.provision.signer {
                Signer::Required => "required",
                Signer::Off => "off",
            },
        },
        "environments": {settings.environment.name.as_str(): environment},
    });
    toml::to_string(&config)
        .map_err(|error| OpError::Invalid(format!("the configuration is no TOML: {error}")))
}

fn server(settings: &Settings) -> Value {
    let server = &settings.server;
    let texts = |networks: &[ipnet::IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut table = json!({
        "listen": format!("0.0.0.0:{PORT}"),
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

fn environment(settings: &Settings, namespace: &str) -> Value {
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
    if let Some(ara) = &environment.ara {
        let mut of_ara = Map::from_iter([("url".to_owned(), json!(ara.url))]);
        let file = |name: &str| json!(format!("{SECRETS}/{name}"));
        match &ara.credentials {
            AraCredentials::Anonymous => {}
            AraCredentials::Basic { username, .. } => of_ara.extend([
                ("username".to_owned(), json!(username)),
                ("password_file".to_owned(), file("ara-password")),
            ]),
            AraCredentials::Bearer(_) => of_ara.extend([("token_file".to_owned(), file("ara-token"))]),
            AraCredentials::Header { name, .. } => of_ara.extend([
                ("header".to_owned(), json!(name)),
                ("header_value_file".to_owned(), file("ara-header")),
            ]),
        }
        if ara.ca.is_some() {
            of_ara.insert("ca".to_owned(), file("ara-ca.pem"));
        }
        set(&mut table, "", "ara", Value::Object(of_ara));
    }
    table
}

fn seconds(time: std::time::Duration) -> String {
    format!("{}s", time.as_secs())
}

fn milliseconds(time: std::time::Duration) -> String {
    format!("{}ms", time.as_millis())
}
