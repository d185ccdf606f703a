//! What a cluster needs of Hostwright, for one environment: the shipped objects (`assets/deploy`) with the environment's namespace, image,
//! targets, networks and settings put into them. Values are set as values: none can become structure.

mod ara;
mod config;

use ipnet::IpNet;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::OpError;
use crate::config::{DeploySettings, Settings};
use config::{Reader, config};

/// The shipped files, in the order in which a cluster takes them.
const FILES: [&str; 7] = [
    include_str!("../../../assets/deploy/namespace.yaml"),
    include_str!("../../../assets/deploy/rbac.yaml"),
    include_str!("../../../assets/deploy/admission.yaml"),
    include_str!("../../../assets/deploy/config.yaml"),
    include_str!("../../../assets/deploy/quota.yaml"),
    include_str!("../../../assets/deploy/network.yaml"),
    include_str!("../../../assets/deploy/server.yaml"),
];
/// The files of ARA, which an environment may go without.
const ARA_FILES: [&str; 4] = [
    include_str!("../../../assets/deploy/ara/settings.yaml"),
    include_str!("../../../assets/deploy/ara/network.yaml"),
    include_str!("../../../assets/deploy/ara/server.yaml"),
    include_str!("../../../assets/deploy/ara/prune.yaml"),
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

/// The annotation that lets the servers change over when their configuration changes.
const CONFIG_DIGEST: &str = "hostwright.dev/config";
/// The private networks, which the shipped network policies name (RFC 1918, RFC 4193).
const PRIVATE: &str = "10.0.0.0/8";

/// All objects for an environment, as one YAML stream for `kubectl apply -f -`.
///
/// # Errors
/// When the environment lacks what a cluster needs, or names an image that can change under its name.
pub fn render(settings: &Settings, deploy: &DeploySettings) -> Result<String, OpError> {
    let environment = &settings.environment;
    let namespace = environment.kubernetes.namespace.as_deref().unwrap_or(NAMESPACE);
    checked(settings, deploy)?;
    let place = Place { settings, deploy, namespace, config: config(settings, namespace, Reader::Server)? };
    let ara = ara::Ara::new(settings, namespace)?;
    let ara_files = ara.iter().flat_map(|_| ARA_FILES);
    let mut text = String::new();
    for file in FILES.into_iter().chain(ara_files) {
        let objects: Vec<Value> = serde_saphyr::from_multiple(file)
            .map_err(|error| OpError::Invalid(format!("a shipped file is no YAML: {error}")))?;
        for mut object in objects {
            place.put(&mut object)?;
            if let Some(ara) = &ara {
                ara.put(&mut object)?;
            }
            print(&mut text, &object)?;
        }
    }
    if let Some(class) = &deploy.ingress_class {
        print(&mut text, &ingress(settings, namespace, class)?)?;
    }
    Ok(text)
}

fn print(text: &mut String, object: &Value) -> Result<(), OpError> {
    let yaml = serde_saphyr::to_string(object)
        .map_err(|error| OpError::Invalid(format!("{} is no YAML: {error}", name(object))))?;
    text.push_str("---\n");
    text.push_str(&yaml);
    Ok(())
}

/// What ends TLS in front of the hook. Nothing else of the server is behind it: who may see metrics is inside.
fn ingress(settings: &Settings, namespace: &str, class: &str) -> Result<Value, OpError> {
    let hook = settings.environment.hook.as_deref().unwrap_or_default();
    let host = hook.strip_prefix("https://").and_then(|rest| rest.split(['/', ':']).next());
    let Some(host) = host.filter(|host| !host.is_empty() && !host.starts_with('[')) else {
        let text =
            format!("deploy.ingress_class needs the environment's hook: https:// and a name, not {hook:?}");
        return Err(OpError::Invalid(text));
    };
    if settings.server.proxies.is_empty() {
        let text = "deploy.ingress_class needs server.proxies: the networks of the Ingress controller's pods, \
                    whose X-Forwarded-For says which machine called";
        return Err(OpError::Invalid(text.to_owned()));
    }
    let service = json!({"name": "hostwright-server", "port": {"name": "hook"}});
    let path = json!({"path": "/host/online", "pathType": "Exact", "backend": {"service": service}});
    Ok(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "hostwright-hook", "namespace": namespace},
        "spec": {
            "ingressClassName": class,
            "tls": [{"hosts": [host], "secretName": "hostwright-hook-tls"}],
            "rules": [{"host": host, "http": {"paths": [path]}}],
        },
    }))
}

/// What must be right before anything is printed.
fn checked(settings: &Settings, deploy: &DeploySettings) -> Result<(), OpError> {
    if settings.environment.playground {
        let text = "this is a playground: deploy render is for an environment with a cluster of its own";
        return Err(OpError::Invalid(text.to_owned()));
    }
    // Without room for the running ones nothing would start, and machines would be told to wait by the wrong bound.
    if usize::try_from(deploy.jobs).unwrap_or(usize::MAX) <= settings.server.pending_limit {
        let text = format!(
            "deploy.jobs is {}, and server.pending_limit {}: the namespace needs room for more than the pending runs",
            deploy.jobs, settings.server.pending_limit
        );
        return Err(OpError::Invalid(text));
    }
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
    deploy: &'a DeploySettings,
    namespace: &'a str,
    /// The server's configuration.
    config: String,
}

impl Place<'_> {
    fn put(&self, object: &mut Value) -> Result<(), OpError> {
        self.settle(object);
        match (object.get("kind").and_then(Value::as_str), name(object)) {
            (Some("ConfigMap"), "hostwright-server") => {
                set(object, "/data", "config.toml", json!(self.config));
            }
            (Some("ConfigMap"), "hostwright-provision") => {
                let config = config(self.settings, self.namespace, Reader::Runs)?;
                set(object, "/data", "config.toml", json!(config));
            }
            (Some("Deployment"), "hostwright-server") => {
                set(object, "/spec", "replicas", json!(self.deploy.replicas));
                let digest = json!(data_encoding::HEXLOWER.encode(&Sha256::digest(&self.config)));
                set(object, "/spec/template/metadata", "annotations", json!({CONFIG_DIGEST: digest}));
            }
            (Some("ResourceQuota"), "hostwright-jobs") => {
                set(object, "/spec/hard", "count/jobs.batch", json!(self.deploy.jobs.to_string()));
            }
            (Some("NetworkPolicy"), name) => {
                let callers = name == "hostwright-server";
                self.networks(object, callers);
            }
            _ => {}
        }
        self.walk(object);
        Ok(())
    }

    /// The namespace, and the targets' name.
    fn settle(&self, object: &mut Value) {
        let targets = &self.settings.environment.targets;
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_targets = object.pointer("/metadata/namespace") == Some(&json!(TARGETS.0));
        if kind == "Namespace" {
            set(object, "/metadata", "name", json!(self.namespace));
        } else if kind == "ClusterRoleBinding" && self.namespace != NAMESPACE {
            // It is in no namespace: another environment of the same cluster has one of its own.
            let own = format!("{}-{}", name(object), self.namespace);
            set(object, "/metadata", "name", json!(own));
        } else if object.pointer("/metadata/namespace") == Some(&json!(NAMESPACE)) {
            set(object, "/metadata", "namespace", json!(self.namespace));
        } else if is_targets {
            set(object, "/metadata", "namespace", json!(targets.namespace));
            if kind == "ConfigMap" {
                set(object, "/metadata", "name", json!(targets.name));
            }
        }
    }

    /// Who may call, and whom one may call, where the settings say so.
    fn networks(&self, object: &mut Value, callers: bool) {
        let blocks = |networks: &mut dyn Iterator<Item = &IpNet>| -> Value {
            networks.map(|network| json!({"ipBlock": {"cidr": network.to_string()}})).collect()
        };
        let server = &self.settings.server;
        if callers && !server.networks.is_empty() {
            let from = blocks(&mut server.networks.iter().chain(&server.proxies));
            set(object, "/spec/ingress/0", "from", from);
        }
        let rules = object.pointer_mut("/spec/egress").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten() {
            if !self.deploy.egress.is_empty() && rule.pointer("/to/0/ipBlock/cidr") == Some(&json!(PRIVATE)) {
                set(rule, "", "to", blocks(&mut self.deploy.egress.iter()));
            }
        }
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
