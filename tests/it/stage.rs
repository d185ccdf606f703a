//! What `provision` needs around it, each piece real and the caller's own: a cluster, a policy, settings, approved runs. The tests
//! of `provision` and its bench share it.
#![allow(dead_code, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostwright::agent::provision::{self, Own};
use hostwright::backend::kube::{JobTemplate, Kube, NewRun};
use hostwright::config::{
    Approval, Ara, AraCredentials, AwsSettings, ConsoleSettings, Environment, JobSettings, Kubernetes,
    Policy, ProvisionSettings, ServerSettings, Settings, Signer, Symbols, TargetSettings,
};
use hostwright::domain::{
    Announcement, Decision, ExitCode, Kind, Parameters, RawAnnouncement, RunDetails, Verdict,
};
use hostwright::ops::targets;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support;
use crate::support::apiserver::{self, ApiServer};

pub(crate) const CA: &str = include_str!("../data/ca.pem");
pub(crate) const HOST: &str = "web-1.example.org";
/// Longer than anything here takes, also on a machine that is busy building.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster, a policy and settings of the test's own.
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) settings: Settings,
    pub(crate) kube: Kube,
    _server: ApiServer,
}

impl Stage {
    /// With a policy that is one playbook, `site.yml`.
    pub(crate) async fn new(playbook: &str) -> Self {
        let dir = support::temp();
        let server = ApiServer::start(dir.path()).await;
        Self::on(dir, server, playbook).await
    }

    /// The same on the loopback API, for what only that one does: bootstrap tokens make Nodes there.
    pub(crate) async fn loopback(playbook: &str) -> Self {
        let dir = support::temp();
        let server = ApiServer::loopback(dir.path()).await;
        Self::on(dir, server, playbook).await
    }

    async fn on(dir: TempDir, server: ApiServer, playbook: &str) -> Self {
        let python = support::python().await;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, apiserver::kubeconfig(&server.url()).to_string()).unwrap();
        let policy = dir.path().join("policy");
        for folder in [&policy, &dir.path().join("work")] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(policy.join("site.yml"), playbook).unwrap();
        let settings = settings(&kubeconfig, &policy, &dir.path().join("work"), python);
        let kube = Kube::connect(&settings.environment.kubernetes).await.unwrap();
        Self { dir, settings, kube, _server: server }
    }

    pub(crate) async fn with_ara(mut self) -> Self {
        let url = support::ara().await.url();
        self.settings.environment.ara = Some(Ara { url, credentials: AraCredentials::Anonymous, ca: None });
        self
    }

    /// The settings as a configuration file, for the program itself.
    pub(crate) fn config(&self) -> PathBuf {
        let Settings { provision, environment, .. } = &self.settings;
        let amqp = environment.amqp.as_ref().map(|amqp| {
            json!({"url": amqp.url.reveal(), "exchange": amqp.exchange, "dead_letter": amqp.dead_letter})
        });
        let mut text = json!({
            "provision": {
                "work_dir": provision.work_dir,
                "ansible_playbook": provision.ansible_playbook,
                "python": provision.python,
                "join_timeout": format!("{}ms", provision.join_timeout.as_millis()),
            },
            "environments": {environment.name.as_str(): {
                "kubernetes": {"kubeconfig": environment.kubernetes.kubeconfig},
                "policy": {"source": environment.policy.source, "variables": environment.policy.variables},
            }},
        });
        if let Some(amqp) = amqp {
            text["environments"][environment.name.as_str()]["amqp"] = amqp;
        }
        let path = self.dir.path().join("config.toml");
        std::fs::write(&path, toml::to_string(&text).unwrap()).unwrap();
        path
    }

    pub(crate) fn policy(&self) -> PathBuf {
        self.dir.path().join("policy")
    }

    /// An approved run of the host.
    pub(crate) async fn approved(&self, parameters: &Parameters) -> RunDetails {
        self.approved_for(&announcement(&json!({})), parameters).await
    }

    pub(crate) async fn approved_for(
        &self,
        announcement: &Announcement,
        parameters: &Parameters,
    ) -> RunDetails {
        let template =
            JobTemplate::parse(include_str!("../../assets/play/job.yaml"), &self.settings.job).unwrap();
        let at = Timestamp::now();
        let decision = Decision { verdict: Verdict::Approved, by: "test".into(), at };
        let kind = if parameters.check { Kind::Check } else { Kind::Provision };
        let new = NewRun {
            kind,
            number: self.kube.next_number(kind, &announcement.host).await.unwrap(),
            announcement,
            seen: at,
            decided: Some((&decision, parameters)),
            waits: None,
            answers: None,
            queue: self.settings.environment.amqp.is_some(),
        };
        self.kube.create_run(&self.settings.permit().unwrap(), &template, &new).await.unwrap()
    }

    /// Runs `provision` as the run's pod does, to its end.
    pub(crate) async fn provision(&self, run: &RunDetails) -> (ExitCode, String) {
        let mut out = Vec::new();
        let running = provision::run(&self.settings, own(run), &mut out, CancellationToken::new());
        let exit = tokio::time::timeout(PATIENCE, running).await.unwrap();
        let log = String::from_utf8(out).unwrap();
        eprintln!("{log}");
        assert_eq!(self.left_in_work(), Vec::<PathBuf>::new());
        (exit, log)
    }

    pub(crate) fn left_in_work(&self) -> Vec<PathBuf> {
        let work = self.settings.provision.work_dir.as_ref().unwrap();
        std::fs::read_dir(work).unwrap().map(|e| e.unwrap().path()).collect()
    }

    pub(crate) async fn again(&self, run: &RunDetails) -> RunDetails {
        self.kube.run(&run.run.name).await.unwrap()
    }

    pub(crate) async fn targets(&self) -> Vec<String> {
        let list = targets::list(&self.kube, &self.settings.environment.targets).await.unwrap();
        list.into_iter().map(|target| target.address).collect()
    }

    pub(crate) async fn tokens(&self) -> usize {
        self.token_names().await.len()
    }

    pub(crate) async fn token_names(&self) -> Vec<String> {
        let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
            kube::Api::namespaced(self.client(), "kube-system");
        let list = secrets.list(&kube::api::ListParams::default()).await.unwrap();
        list.items.into_iter().map(|secret| secret.metadata.name.unwrap()).collect()
    }

    /// Has `cluster-info` name another API server. The signer may be at it, too.
    pub(crate) async fn joins_at(&self, url: &str) {
        let permit = self.settings.permit().unwrap();
        loop {
            let mut info = self.kube.config_map("kube-public", "cluster-info").await.unwrap();
            let mut kubeconfig: Value = serde_saphyr::from_str(info.get("kubeconfig").unwrap()).unwrap();
            kubeconfig["clusters"][0]["cluster"]["server"] = url.into();
            info.set("kubeconfig", kubeconfig.to_string());
            match self.kube.write_config_map(&permit, &info).await {
                Err(error) if error.kind == hostwright::backend::kube::KubeErrorKind::Conflict => {}
                written => return written.unwrap(),
            }
        }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::try_from(kube::Config::new(self.kube.server().parse().unwrap())).unwrap()
    }

    /// Makes a Node as its kubelet would, or writes anew how it stands.
    pub(crate) async fn node(&self, name: &str, ready: bool) {
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(self.client());
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        match nodes.create(&kube::api::PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            made => drop(made.unwrap()),
        }
        let (status, reason) = if ready { ("True", "KubeletReady") } else { ("False", "KubeletNotReady") };
        let condition = json!({
            "type": "Ready", "status": status, "reason": reason, "message": "said the kubelet",
            "lastHeartbeatTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let patch = kube::api::Patch::Merge(json!({"status": {"conditions": [condition]}}));
        nodes.patch_status(name, &kube::api::PatchParams::default(), &patch).await.unwrap();
    }
}

pub(crate) fn settings(
    kubeconfig: &Path,
    policy: &Path,
    work: &Path,
    python: &hostwright::play::python::Python,
) -> Settings {
    settings_of(kubeconfig, policy, work, &python.ansible_playbook, &python.python)
}

/// The same for those who start no playbook, and so need no Python environment.
pub(crate) fn settings_of(
    kubeconfig: &Path,
    policy: &Path,
    work: &Path,
    ansible_playbook: &Path,
    python: &Path,
) -> Settings {
    Settings {
        console: ConsoleSettings {
            theme: "dark".into(),
            symbols: Symbols::Auto,
            utc: true,
            mouse: false,
            bell: false,
            notify: false,
            keys: BTreeMap::new(),
        },
        server: ServerSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            token_file: None,
            networks: vec![],
            proxies: vec![],
            request_timeout: Duration::from_secs(10),
            repair_interval: Duration::from_secs(30),
            pending_limit: 10,
            keep_runs: 5,
            keep_for: Duration::ZERO,
            runs_at_once: 0,
        },
        job: JobSettings {
            template: None,
            image: "hostwright:test".into(),
            service_account: None,
            backoff_limit: 3,
            deadline: Duration::from_secs(3600),
            grace: Duration::from_secs(60),
        },
        provision: ProvisionSettings {
            message_timeout: Duration::from_secs(30),
            work_dir: Some(work.to_owned()),
            ansible_playbook: ansible_playbook.to_string_lossy().into_owned(),
            python: python.to_string_lossy().into_owned(),
            token_lifetime: Duration::from_secs(600),
            join_timeout: Duration::from_secs(120),
            signer: Signer::Required,
        },
        environment: Environment {
            name: "test".into(),
            guarded: false,
            playground: false,
            read_only: false,
            kubernetes: Kubernetes {
                kubeconfig: Some(kubeconfig.to_owned()),
                context: None,
                namespace: None,
            },
            amqp: None,
            ara: None,
            ara_server: None,
            policy: Policy {
                source: policy.to_string_lossy().into_owned(),
                branch: None,
                playbook: "site.yml".into(),
                variables: BTreeMap::from([
                    ("ansible_python_interpreter".into(), json!(python)),
                    ("site_sum".into(), json!("{{ 40 + 2 }}")),
                ]),
            },
            targets: TargetSettings {
                namespace: "default".into(),
                name: "scrape-collectd".into(),
                key: "targets.json".into(),
                port: 9103,
            },
            cluster_groups: vec!["k8s_worker".into()],
            approval: Approval::Manual,
            aws: AwsSettings::default(),
            variables: None,
            secrets: None,
            manifests: None,
            hook: None,
            hook_token_file: None,
            shell: vec![],
        },
        environments: vec!["test".into()],
        read_only: false,
    }
}

pub(crate) fn announcement(facts: &Value) -> Announcement {
    RawAnnouncement {
        hostname: HOST.into(),
        sshkeys: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio root@web"
            .into(),
        address: Some("127.0.0.1".into()),
        facts: facts.as_object().unwrap().clone(),
        ..RawAnnouncement::default()
    }
    .check()
    .unwrap()
}

pub(crate) fn site(groups: &[&str]) -> Parameters {
    Parameters {
        playbook: "site.yml".into(),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        ..Parameters::default()
    }
}

/// The pod's environment, as the Job template fills it.
pub(crate) fn variables(run: &RunDetails) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("HOSTWRIGHT_RUN", run.run.uid.clone()),
        ("HOSTWRIGHT_RUN_NAME", run.run.name.clone()),
        ("HOSTWRIGHT_HOST", run.run.host.to_string()),
        ("HOSTWRIGHT_ANNOUNCEMENT", run.announcement.to_json()),
        ("HOSTWRIGHT_PARAMETERS", serde_json::to_string(&run.parameters).unwrap()),
        ("HOSTWRIGHT_DECISION", "approved".to_owned()),
    ])
}

pub(crate) fn own(run: &RunDetails) -> Own {
    let variables = variables(run);
    Own::from_env(|name| variables.get(name).cloned()).unwrap()
}

/// A play on this machine, with these tasks.
pub(crate) fn local(tasks: &str) -> String {
    format!(
        "- name: Here\n  hosts: all\n  connection: local\n  gather_facts: false\n  tasks:\n{}\n",
        tasks.lines().map(|line| format!("    {line}\n")).collect::<String>()
    )
}
