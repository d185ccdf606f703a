//! The playground's folder: what lies where, who holds it, and the files by which others find the playground.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cloud::Cloud;
use super::playground::PlayError;
use super::python::Python;
use super::services::private_file;
use crate::config::Secret;

const NAME: &str = "the playground";
const JOB: &str = include_str!("../../assets/play/job.yaml");

/// How a running playground is reached; also what `play --headless` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The process that runs it.
    pub pid: u32,
    /// For `kubectl` and every other client.
    pub kubeconfig: PathBuf,
    /// The configuration of the environment `play`.
    pub config: PathBuf,
    /// The base URL of the hook.
    pub hook: String,
    /// The base URL of ARA.
    pub ara: String,
    /// The broker, where there is one.
    pub amqp: Option<String>,
    /// The endpoint of every AWS service.
    pub aws: String,
    /// The folders that stand for hosts.
    pub hosts: PathBuf,
}

/// The folder, held by this process.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Locked while this process runs the playground; the lock goes with the process, however it ends.
    _lock: File,
}

/// The addresses that the configuration names.
pub(super) struct Addresses<'a> {
    pub(super) api: String,
    pub(super) token: &'a Secret,
    pub(super) hook: String,
    pub(super) ara: String,
    pub(super) amqp: Option<String>,
    pub(super) cloud: Cloud,
}

impl Folder {
    /// Makes the folder and takes its lock.
    pub(super) fn open(root: &Path) -> Result<Self, PlayError> {
        let file = |error| PlayError::File { path: root.to_owned(), error };
        for part in ["", "api", "hook", "logs", "pods", "hosts", "services"] {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(root.join(part)).map_err(file)?;
        }
        let root = std::fs::canonicalize(root).map_err(file)?;
        let lock = File::create(root.join("lock")).map_err(file)?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(PlayError::Running(read_ready(&root).map(Box::new)));
            }
            Err(error) => return Err(file(error.into())),
        }
        // What an earlier playground left is not true any more.
        remove(&root.join("ready.json")).map_err(file)?;
        Ok(Self { root, _lock: lock })
    }

    pub(super) fn path(&self, part: &str) -> PathBuf {
        self.root.join(part)
    }

    /// The API's bearer token, made once.
    pub(super) fn token(&self) -> Result<Secret, PlayError> {
        let path = self.path("api/token");
        if let Some(token) = std::fs::read_to_string(&path).ok().filter(|t| t.len() == 32) {
            return Ok(Secret::new(token));
        }
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|e| PlayError::SetUp(e.to_string()))?;
        let token = data_encoding::HEXLOWER.encode(&bytes);
        private_file(NAME, &path, &token)?;
        Ok(Secret::new(token))
    }

    /// The cluster's root CA in PEM, made once. Nothing is ever signed with it: its key is not kept.
    pub(super) fn root_ca(&self) -> Result<String, PlayError> {
        let path = self.path("api/ca.crt");
        if let Ok(pem) = std::fs::read_to_string(&path) {
            return Ok(pem);
        }
        let failed = |e: rcgen::Error| PlayError::SetUp(format!("cannot make the root CA: {e}"));
        let key = rcgen::KeyPair::generate().map_err(failed)?;
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "playground-ca");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).map_err(failed)?.pem();
        private_file(NAME, &path, &pem)?;
        Ok(pem)
    }

    /// Writes the kubeconfig, the Job template, the configuration that everybody reads (`config.toml`: the environment alone) and
    /// the one of the server and the pods (`agents.toml`: settings of these programs too, which are nobody else's business).
    pub(super) fn write(&self, addresses: &Addresses<'_>, python: &Python) -> Result<(), PlayError> {
        self.toml("kubeconfig", None, &kubeconfig(addresses))?;
        private_file(NAME, &self.path("job.yaml"), JOB)?;
        let environment = self.environment(addresses);
        self.toml(
            "config.toml",
            Some("Written by `hostwright play` at each start."),
            &json!({"environments": {"play": environment}}),
        )?;
        let agents = json!({
            "server": {"listen": addresses.hook},
            "job": {"template": self.path("job.yaml"), "image": "hostwright:play", "backoff_limit": 1, "deadline": "30m", "grace": "10s"},
            "provision": {
                "message_timeout": "2m",
                "join_timeout": "1m",
                "ansible_playbook": python.ansible_playbook,
                "python": python.python,
            },
            "environments": {"play": environment},
        });
        self.toml("agents.toml", Some("Written by `hostwright play` at each start."), &agents)
    }

    fn environment(&self, addresses: &Addresses<'_>) -> Value {
        let hosts = self.path("hosts");
        let mut environment = json!({
            "playground": true,
            "hook": format!("http://{}", addresses.hook),
            "shell": ["env", "-C", format!("{}/{{host}}", hosts.display()), "bash"],
            "kubernetes": {"kubeconfig": self.path("kubeconfig"), "namespace": "hostwright"},
            "ara": {"url": addresses.ara},
            "aws": {"endpoint": addresses.cloud.endpoint, "credentials_file": addresses.cloud.credentials},
            "variables": addresses.cloud.variables,
            "secrets": addresses.cloud.secrets,
            "manifests": addresses.cloud.manifests,
            "policy": {"source": self.path("policy"), "variables": {"hosts_dir": hosts}},
        });
        if let (Some(url), Some(object)) = (&addresses.amqp, environment.as_object_mut()) {
            object.insert("amqp".to_owned(), json!({"url": url}));
        }
        environment
    }

    fn toml(&self, name: &str, comment: Option<&str>, value: &Value) -> Result<(), PlayError> {
        // The kubeconfig is YAML, and JSON is YAML.
        let text = match comment {
            None => format!("{value:#}\n"),
            Some(comment) => {
                let text = toml::to_string(value).map_err(|e| PlayError::SetUp(e.to_string()))?;
                format!("# {comment}\n{text}")
            }
        };
        Ok(private_file(NAME, &self.path(name), &text)?)
    }

    /// Tells others that the playground is ready.
    pub(super) fn announce(&self, ready: &Ready) -> Result<(), PlayError> {
        let text = serde_json::to_string(ready).unwrap_or_default();
        Ok(private_file(NAME, &self.path("ready.json"), &text)?)
    }

    /// Takes that back.
    pub(super) fn withdraw(&self) {
        if let Err(error) = remove(&self.path("ready.json")) {
            tracing::warn!(%error, "ready.json stays");
        }
    }
}

fn kubeconfig(addresses: &Addresses<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        // kubectl sends no bearer token over plain HTTP: the API takes it as the first part of the path too.
        "clusters": [{"name": "play", "cluster": {"server": format!("{}/{}", addresses.api, addresses.token.reveal())}}],
        "users": [{"name": "play", "user": {}}],
        "contexts": [{"name": "play", "context": {"cluster": "play", "user": "play", "namespace": "hostwright"}}],
        "current-context": "play",
    })
}

/// How the playground in this folder is reached, when one has said that it is ready.
pub(super) fn read_ready(root: &Path) -> Option<Ready> {
    serde_json::from_slice(&std::fs::read(root.join("ready.json")).ok()?).ok()
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
