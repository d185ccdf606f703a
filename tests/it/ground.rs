//! A cluster of the test's own without Python: the loopback API, settings for it, and the program's commands on it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use hostwright::backend::kube::{Kube, NewRun};
use hostwright::config::{Amqp, Kubernetes, Permit, Settings};
use hostwright::domain::{Announcement, Kind};
use hostwright::play::api::{Api, Options};
use k8s_openapi::NamespaceResourceScope;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::stage::{CA, settings_of};
use crate::support;
use crate::support::apiserver::{ApiServer, kubeconfig};

pub(crate) struct Ground {
    pub(crate) dir: TempDir,
    pub(crate) settings: Settings,
    pub(crate) kube: Kube,
    pub(crate) url: String,
    _server: Server,
}

/// What answers; it ends when dropped.
enum Server {
    Any(ApiServer),
    Loopback(tokio_util::sync::DropGuard),
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// What it printed, when it did what it was asked to.
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.done()).unwrap()
    }
}

impl Ground {
    /// On a real API server where there is one, else on the loopback API.
    pub(crate) async fn new() -> Self {
        let dir = support::temp();
        let server = ApiServer::start(dir.path()).await;
        let url = server.url();
        Self::on(dir, url, Server::Any(server)).await
    }

    /// On the loopback API, for what only that one has: pods' logs, which are a kubelet's, and options.
    pub(crate) async fn loopback(change: impl FnOnce(&mut Options)) -> Self {
        let dir = support::temp();
        let shutdown = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut options = Options::new(dir.path().join("logs"), CA, "https://[2001:db8::1]:6443");
        change(&mut options);
        tokio::spawn(Api::open(options).unwrap().run(listener, shutdown.clone()));
        Self::on(dir, url, Server::Loopback(shutdown.drop_guard())).await
    }

    async fn on(dir: TempDir, url: String, server: Server) -> Self {
        let kubeconfig = dir.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, &url);
        let (none, nothing) = (dir.path(), Path::new("/bin/false"));
        let settings = settings_of(&kubeconfig, none, none, nothing, nothing);
        let kube = Kube::connect(&settings.environment.kubernetes).await.unwrap().of_environment("test");
        Self { dir, settings, kube, url, _server: server }
    }

    /// With a queue.
    pub(crate) fn with_amqp(mut self, amqp: Amqp) -> Self {
        self.settings.environment.amqp = Some(amqp);
        self
    }

    pub(crate) fn permit(&self) -> Permit {
        self.settings.permit().unwrap()
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> kube::Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        kube::Api::namespaced(self.kube.client(), namespace)
    }

    /// A template of Jobs as the playground's.
    pub(crate) fn template(&self) -> hostwright::backend::kube::JobTemplate {
        let text = include_str!("../../assets/play/job.yaml");
        hostwright::backend::kube::JobTemplate::parse(text, &self.settings.job).unwrap()
    }

    pub(crate) fn config(&self) -> PathBuf {
        let environment = &self.settings.environment;
        let mut text = json!({"environments": {"test": {
            "kubernetes": {"kubeconfig": environment.kubernetes.kubeconfig},
            "policy": {"source": environment.policy.source},
        }}});
        if let Some(amqp) = &environment.amqp {
            text["environments"]["test"]["amqp"] = json!({
                "url": amqp.url.reveal(), "exchange": amqp.exchange, "dead_letter": amqp.dead_letter,
            });
        }
        let path = self.dir.path().join("config.toml");
        std::fs::write(&path, toml::to_string(&text).unwrap()).unwrap();
        // It may hold the broker's password.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(support::exe());
        command.arg("--config").arg(self.config()).args(arguments);
        command.env_clear().env("HOME", self.dir.path()).env("PATH", "/usr/bin:/bin").env("USER", "ann");
        command.env("XDG_STATE_HOME", self.dir.path().join("state")).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Said {
        let done = self.command(arguments).output().await.unwrap();
        Said {
            code: done.status.code().unwrap(),
            out: String::from_utf8(done.stdout).unwrap(),
            err: String::from_utf8(done.stderr).unwrap(),
        }
    }

    /// The lines of the activity file.
    pub(crate) fn activity_file(&self) -> Vec<Value> {
        let path = self.dir.path().join("state/hostwright/activity.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A cluster that answers as these routes do, on loopback, and a client of it.
pub(crate) async fn answering(routes: axum::Router) -> (Kube, TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dir = support::temp();
    let kubeconfig = dir.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, &format!("http://{}", listener.local_addr().unwrap()));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let place = Kubernetes { kubeconfig: Some(kubeconfig), context: None, namespace: None };
    (Kube::connect(&place).await.unwrap(), dir)
}

/// A host's first run, pending.
pub(crate) fn first_run(announcement: &Announcement) -> NewRun<'_> {
    NewRun {
        kind: Kind::Provision,
        number: 1,
        announcement,
        seen: jiff::Timestamp::now(),
        decided: None,
        waits: None,
        answers: None,
        queue: false,
    }
}

pub(crate) fn write_kubeconfig(path: &Path, url: &str) {
    std::fs::write(path, kubeconfig(url).to_string()).unwrap();
}
