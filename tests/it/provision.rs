//! `provision` with real Ansible, ARA, git and RabbitMQ, against the loopback Kubernetes API.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostwright::agent::provision::{self, Own};
use hostwright::backend::kube::{JobTemplate, Kube, NewRun};
use hostwright::config::{
    Approval, Ara, AraCredentials, ConsoleSettings, Environment, JobSettings, Kubernetes, Policy,
    ProvisionSettings, ServerSettings, Settings, Signer, Symbols, TargetSettings,
};
use hostwright::domain::{
    Announcement, Decision, ExitCode, Kind, Parameters, RawAnnouncement, RunDetails, Verdict,
};
use hostwright::ops::targets;
use hostwright::play::api::{Api, Options};
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support;

const CA: &str = include_str!("../data/ca.pem");
const HOST: &str = "web-1.example.org";
/// Longer than anything here takes, also on a machine that is busy building.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster, a policy and settings of the test's own.
struct Stage {
    dir: TempDir,
    settings: Settings,
    kube: Kube,
    shutdown: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Stage {
    /// With a policy that is one playbook, `site.yml`.
    async fn new(playbook: &str) -> Self {
        let python = support::python().await;
        let dir = support::temp();
        let shutdown = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let api = Api::open(Options::new(dir.path().join("logs"), CA, "https://[2001:db8::1]:6443")).unwrap();
        tokio::spawn(api.run(listener, shutdown.clone()));
        let kubeconfig = dir.path().join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {"server": url}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t", "namespace": "hostwright"}}],
            "users": [{"name": "t", "user": {}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let policy = dir.path().join("policy");
        for folder in [&policy, &dir.path().join("work")] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(policy.join("site.yml"), playbook).unwrap();
        let settings = settings(&kubeconfig, &policy, &dir.path().join("work"), python);
        let kube = Kube::connect(&settings.environment.kubernetes).await.unwrap();
        Self { dir, settings, kube, shutdown }
    }

    async fn with_ara(mut self) -> Self {
        let url = support::ara().await.url();
        self.settings.environment.ara = Some(Ara { url, credentials: AraCredentials::Anonymous, ca: None });
        self
    }

    fn policy(&self) -> PathBuf {
        self.dir.path().join("policy")
    }

    /// An approved run of the host.
    async fn approved(&self, parameters: &Parameters) -> RunDetails {
        self.approved_for(&announcement(json!({})), parameters).await
    }

    async fn approved_for(&self, announcement: &Announcement, parameters: &Parameters) -> RunDetails {
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
            answers: None,
            queue: self.settings.environment.amqp.is_some(),
        };
        self.kube.create_run(&self.settings.permit().unwrap(), &template, &new).await.unwrap()
    }

    /// Runs `provision` as the run's pod does, to its end.
    async fn provision(&self, run: &RunDetails) -> (ExitCode, String) {
        let mut out = Vec::new();
        let running = provision::run(&self.settings, own(run), &mut out, CancellationToken::new());
        let exit = tokio::time::timeout(PATIENCE, running).await.unwrap();
        let log = String::from_utf8(out).unwrap();
        println!("{log}");
        assert_eq!(self.left_in_work(), Vec::<PathBuf>::new());
        (exit, log)
    }

    fn left_in_work(&self) -> Vec<PathBuf> {
        let work = self.settings.provision.work_dir.as_ref().unwrap();
        std::fs::read_dir(work).unwrap().map(|e| e.unwrap().path()).collect()
    }

    async fn again(&self, run: &RunDetails) -> RunDetails {
        self.kube.run(&run.run.name).await.unwrap()
    }

    async fn targets(&self) -> Vec<String> {
        let list = targets::list(&self.kube, &self.settings.environment.targets).await.unwrap();
        list.into_iter().map(|target| target.address).collect()
    }

    async fn tokens(&self) -> usize {
        let client = kube::Client::try_from(kube::Config::new(self.kube.server().parse().unwrap())).unwrap();
        let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
            kube::Api::namespaced(client, "kube-system");
        secrets.list(&kube::api::ListParams::default()).await.unwrap().items.len()
    }
}

fn settings(
    kubeconfig: &Path,
    policy: &Path,
    work: &Path,
    python: &hostwright::play::python::Python,
) -> Settings {
    Settings {
        console: ConsoleSettings {
            theme: "dark".into(),
            symbols: Symbols::Auto,
            utc: true,
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
            ansible_playbook: python.ansible_playbook.to_string_lossy().into_owned(),
            python: python.python.to_string_lossy().into_owned(),
            token_lifetime: Duration::from_secs(600),
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
            policy: Policy {
                source: policy.to_string_lossy().into_owned(),
                branch: None,
                playbook: "site.yml".into(),
                variables: BTreeMap::from([
                    ("ansible_python_interpreter".into(), json!(python.python)),
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
            hook: None,
            hook_token_file: None,
            shell: vec![],
        },
        environments: vec!["test".into()],
        read_only: false,
    }
}

fn announcement(facts: Value) -> Announcement {
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

fn site(groups: &[&str]) -> Parameters {
    Parameters {
        playbook: "site.yml".into(),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        ..Parameters::default()
    }
}

/// The pod's environment, as the Job template fills it.
fn own(run: &RunDetails) -> Own {
    let announcement = run.announcement.to_json();
    let parameters = serde_json::to_string(&run.parameters.clone().unwrap()).unwrap();
    let pairs = BTreeMap::from([
        ("HOSTWRIGHT_RUN", run.run.uid.as_str()),
        ("HOSTWRIGHT_RUN_NAME", &run.run.name),
        ("HOSTWRIGHT_HOST", run.run.host.as_str()),
        ("HOSTWRIGHT_ANNOUNCEMENT", &announcement),
        ("HOSTWRIGHT_PARAMETERS", &parameters),
        ("HOSTWRIGHT_DECISION", "approved"),
    ]);
    Own::from_env(|name| pairs.get(name).map(|v| (*v).to_owned())).unwrap()
}

/// A play on this machine, with these tasks.
fn local(tasks: &str) -> String {
    format!(
        "- name: Here\n  hosts: all\n  connection: local\n  gather_facts: false\n  tasks:\n{}\n",
        tasks.lines().map(|line| format!("    {line}\n")).collect::<String>()
    )
}

#[tokio::test]
async fn a_host_becomes_ready_and_everything_about_it_is_known() {
    let stage = Stage::new("").await.with_ara().await;
    let out = stage.dir.path().join("out.json");
    let seen = "hostwright_facts, hostwright_keys, hostwright_address, hostwright_run, site_sum, size";
    let playbook = local(&format!(
        r#"- name: Write down what is known
  copy:
    dest: {}
    content: "{{{{ [{seen}] | to_json }}}}"
- name: Use a fact
  debug:
    msg: "{{{{ hostwright_facts.note }}}} {{{{ hostwright_facts.keys() | list | join(' ') }}}}"
- name: Fail and go on
  command: "false"
  ignore_errors: true"#,
        out.display()
    ));
    std::fs::write(stage.policy().join("site.yml"), playbook).unwrap();
    let mark = stage.dir.path().join("mark");
    let facts = json!({
        "note": "{{ 7*7 }}",
        "pipe": format!("{{{{ lookup('pipe', 'touch {}') }}}}", mark.display()),
        "{{ 6*6 }}": ["{% raw %}", "\u{7f}\u{0}\u{2028}漢 \"'", 1.5, 1e16, true, null],
        "ü".repeat(600): "!vault x",
    });
    let announced = announcement(facts.clone());
    let mut parameters = site(&["web"]);
    parameters.variables.insert("size".into(), json!("{{ 1 + 1 }}"));
    let run = stage.approved_for(&announced, &parameters).await;

    let (exit, log) = stage.provision(&run).await;

    assert_eq!(exit, ExitCode::Ready);
    assert!(log.contains("PLAY RECAP") && log.contains("\u{1b}[0;3") && log.contains("hostwright: ready"));
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    let keys: Vec<&str> = announced.keys.iter().map(|key| key.as_str()).collect();
    assert_eq!(written, json!([facts, keys, "127.0.0.1", run.run.uid, "42", "{{ 1 + 1 }}"]));
    assert!(!mark.exists(), "a fact was run as a template");

    let after = stage.again(&run).await;
    let outcome = after.run.outcome.unwrap();
    assert_eq!(outcome.exit, ExitCode::Ready);
    let counts = outcome.counts.unwrap();
    assert_eq!((counts.ok, counts.changed, counts.failed, counts.ignored), (3, 1, 0, 1));
    assert_eq!(stage.targets().await, [format!("{HOST}:9103")]);

    // ARA has it under the run's label, and none of what is private.
    let url = support::ara().await.url();
    let get = async |path: &str| -> Value {
        reqwest::get(format!("{url}/api/v1/{path}")).await.unwrap().json().await.unwrap()
    };
    let playbooks = get(&format!("playbooks?label=run:{}", run.run.uid)).await;
    assert_eq!(playbooks["count"], 1);
    let id = playbooks["results"][0]["id"].as_u64().unwrap();
    assert_eq!(after.run.playbooks, [id]);
    let files = get(&format!("files?playbook={id}")).await;
    for file in files["results"].as_array().unwrap() {
        let file = get(&format!("files/{}", file["id"])).await;
        assert!(!file["content"].as_str().unwrap().contains("hostwright_run"), "{}", file["path"]);
    }
    assert!(files["count"].as_u64().unwrap() >= 1);
}

#[tokio::test]
async fn each_way_to_fail_has_its_exit_code() {
    let stage = Stage::new(&local("- name: Break\n  fail: {msg: \"it broke\"}")).await;
    let run = stage.approved(&site(&[])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::FailedTask);
    let outcome = stage.again(&run).await.run.outcome.unwrap();
    assert_eq!(outcome.exit, ExitCode::FailedTask);
    assert!(outcome.text.starts_with("task Break: it broke"), "{}", outcome.text);
    assert_eq!(outcome.counts.unwrap().failed, 1);
    assert_eq!(stage.targets().await, Vec::<String>::new());

    // Another pod finds the outcome and runs nothing.
    let (exit, log) = stage.provision(&run).await;
    assert_eq!(exit, ExitCode::FailedTask);
    assert!(!log.contains("PLAY"), "{log}");

    let mut unreachable = site(&[]);
    unreachable.variables.insert("ansible_port".into(), json!(1));
    let run = stage.approved(&unreachable).await;
    std::fs::write(stage.policy().join("site.yml"), "- hosts: all\n  gather_facts: true\n").unwrap();
    assert_eq!(stage.provision(&run).await.0, ExitCode::UnreachableHost);
    // An outcome would keep the next pod from trying.
    assert_eq!(stage.again(&run).await.run.outcome, None);

    for (playbook, text) in [
        ("- hosts: db\n  tasks: []\n", "applies to web-1.example.org"),
        ("- hosts: all\n  tasks: [\n", "could not read the policy"),
        ("- hosts: all\n  roles: [nowhere]\n", "nowhere"),
    ] {
        std::fs::write(stage.policy().join("site.yml"), playbook).unwrap();
        let run = stage.approved(&site(&["web"])).await;
        assert_eq!(stage.provision(&run).await.0, ExitCode::NoPolicy, "{playbook}");
        let outcome = stage.again(&run).await.run.outcome.unwrap();
        assert!(outcome.text.contains(text), "{}", outcome.text);
    }
}

#[tokio::test]
async fn wrong_parameters_and_programs_are_refused() {
    let mut stage = Stage::new(&local("- debug: {msg: hello}")).await;
    for (parameters, exit, text) in [
        (Parameters { playbook: "../site.yml".into(), ..site(&[]) }, ExitCode::NoPolicy, "inside the policy"),
        (Parameters { playbook: "sit.yml".into(), ..site(&[]) }, ExitCode::NoPolicy, "it has site.yml"),
        (Parameters { branch: Some("x".into()), ..site(&[]) }, ExitCode::NoPolicy, "plain folder"),
        (
            Parameters { variables: [("ansible_connection".to_owned(), json!("local"))].into(), ..site(&[]) },
            ExitCode::UnreadableMessage,
            "ansible_connection",
        ),
        (
            Parameters { limit: Some("@/etc/passwd".into()), ..site(&[]) },
            ExitCode::UnreadableMessage,
            "a file",
        ),
    ] {
        let run = stage.approved(&parameters).await;
        assert_eq!(stage.provision(&run).await.0, exit, "{parameters:?}");
        let outcome = stage.again(&run).await.run.outcome.unwrap();
        assert!(outcome.text.contains(text), "{}", outcome.text);
    }
    stage.settings.provision.ansible_playbook = "/nowhere/ansible-playbook".into();
    let run = stage.approved(&site(&[])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::Misconfigured);
}

#[tokio::test]
async fn a_pod_that_claims_more_than_was_approved_is_refused() {
    let stage = Stage::new(&local("- debug: {msg: hello}")).await;
    let run = stage.approved(&site(&[])).await;
    let mut other = run.clone();
    other.parameters = Some(site(&["k8s_worker"]));
    assert_eq!(stage.provision(&other).await.0, ExitCode::UnreadableMessage);
    let run = stage.approved(&site(&[])).await;
    let mut other = run.clone();
    other.announcement = announcement(json!({"more": 1}));
    assert_eq!(stage.provision(&other).await.0, ExitCode::UnreadableMessage);
    let mut other = run.clone();
    other.run.uid = "another".into();
    assert_eq!(stage.provision(&other).await.0, ExitCode::BackEnd);
    assert_eq!(stage.again(&run).await.run.outcome.unwrap().exit, ExitCode::UnreadableMessage);
}

#[tokio::test]
async fn a_branch_is_cloned_and_a_missing_one_is_named() {
    let mut stage = Stage::new(&local("- debug: {msg: \"on main\"}")).await;
    let policy = stage.policy();
    git(&policy, &["init", "-q", "-b", "main"]).await;
    git(&policy, &["add", "."]).await;
    git(&policy, &["commit", "-q", "-m", "one"]).await;
    git(&policy, &["checkout", "-q", "-b", "next"]).await;
    std::fs::write(policy.join("site.yml"), local("- debug: {msg: \"on next\"}")).unwrap();
    git(&policy, &["commit", "-q", "-a", "-m", "two"]).await;
    git(&policy, &["checkout", "-q", "main"]).await;
    for source in [policy.to_string_lossy().into_owned(), format!("file://{}", policy.display())] {
        stage.settings.environment.policy.source = source;
        let run = stage.approved(&Parameters { branch: Some("next".into()), ..site(&[]) }).await;
        let (exit, log) = stage.provision(&run).await;
        assert_eq!(exit, ExitCode::Ready);
        assert!(log.contains("on next"), "{log}");
    }
    let run = stage.approved(&Parameters { branch: Some("nxet".into()), ..site(&[]) }).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::NoPolicy);
    let text = stage.again(&run).await.run.outcome.unwrap().text;
    assert!(text.contains("no branch \"nxet\"; it has next"), "{text}");
    stage.settings.environment.policy.source = "file:///nowhere/policy".into();
    let run = stage.approved(&site(&[])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::PolicyUnreachable);
    assert_eq!(stage.again(&run).await.run.outcome, None);
}

async fn git(folder: &Path, args: &[&str]) {
    let mut command = tokio::process::Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args);
    assert!(command.status().await.unwrap().success(), "git {args:?}");
}

#[tokio::test]
async fn a_check_changes_nothing() {
    let stage = Stage::new("").await;
    let file = stage.dir.path().join("file");
    let task = format!("- copy: {{dest: {}, content: new}}", file.display());
    std::fs::write(stage.policy().join("site.yml"), local(&task)).unwrap();
    let run = stage.approved(&Parameters { check: true, ..site(&["k8s_worker"]) }).await;
    let (exit, log) = stage.provision(&run).await;
    assert_eq!(exit, ExitCode::Ready);
    assert!(!file.exists() && log.contains("+new"), "{log}");
    assert_eq!(stage.again(&run).await.run.outcome.unwrap().counts.unwrap().changed, 1);
    assert_eq!((stage.targets().await, stage.tokens().await), (vec![], 0));
}

#[tokio::test]
async fn members_of_the_cluster_get_what_they_need() {
    let stage = Stage::new("").await;
    let out = stage.dir.path().join("join");
    let task = |more: &str| {
        local(&format!(
            "- copy:\n    dest: {}\n    content: \"{{{{ {{'join': hostwright_join, 'ca': hostwright_root_ca}} | to_json }}}}\"\n  diff: false\n  no_log: true\n{more}",
            out.display()
        ))
    };
    std::fs::write(stage.policy().join("site.yml"), task("")).unwrap();
    let run = stage.approved(&site(&["k8s_worker", "k8s_controller"])).await;
    let (exit, log) = stage.provision(&run).await;
    assert_eq!(exit, ExitCode::Ready);
    let known: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    let join = &known["join"];
    let token = hostwright::domain::BootstrapToken::parse(join["token"].as_str().unwrap()).unwrap();
    assert!(!log.contains(token.secret()) && log.contains(token.id()));
    assert_eq!(join["endpoint"], "https://[2001:db8::1]:6443");
    assert!(join["ca_hash"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(
        (join["ca_cert"].as_str().unwrap().trim(), known["ca"].as_str().unwrap().trim()),
        (CA.trim(), CA.trim())
    );
    assert!(join["cluster_info"].as_str().unwrap().contains("certificate-authority-data"));
    assert_eq!((stage.tokens().await, stage.targets().await), (1, vec![]));

    // A failed host does not join: its token goes.
    std::fs::write(stage.policy().join("site.yml"), task("- fail: {}")).unwrap();
    let run = stage.approved(&site(&["k8s_worker", "k8s_controller"])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::FailedTask);
    assert_eq!(stage.tokens().await, 1);
}

#[tokio::test]
async fn an_ara_that_is_away_fails_nothing() {
    let mut stage = Stage::new(&local("- debug: {msg: hello}")).await;
    let url = "http://127.0.0.1:1".to_owned();
    stage.settings.environment.ara = Some(Ara { url, credentials: AraCredentials::Anonymous, ca: None });
    let run = stage.approved(&site(&[])).await;
    let (exit, log) = stage.provision(&run).await;
    assert_eq!(exit, ExitCode::Ready);
    assert!(!log.contains("Callback dispatch"), "{log}");
    let text = stage.again(&run).await.run.outcome.unwrap().text;
    assert!(text.contains("results are not recorded"), "{text}");
}

#[tokio::test]
async fn a_stop_ends_ansible_and_leaves_the_run_to_the_next_pod() {
    let stage = Stage::new("").await.with_ara().await;
    let pid = stage.dir.path().join("pid");
    let task = format!("- shell: echo $$ > {}; echo up; exec sleep 1000", pid.display());
    let tasks = format!("- debug: {{msg: started}}\n{task}");
    std::fs::write(stage.policy().join("site.yml"), local(&tasks)).unwrap();
    let run = stage.approved(&site(&["k8s_worker"])).await;
    let shutdown = CancellationToken::new();
    let (reader, writer) = tokio::io::duplex(1024);
    let running = provision::run(&stage.settings, own(&run), writer, shutdown.clone());
    let stop = async {
        let mut reader = BufReader::new(reader);
        let mut line = String::new();
        while !line.contains("TASK [shell]") {
            line.clear();
            assert!(reader.read_line(&mut line).await.unwrap() > 0);
            print!("{line}");
        }
        until(|| pid.exists()).await;
        shutdown.cancel();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).await.unwrap();
        rest
    };
    let (exit, log) = tokio::time::timeout(PATIENCE, async { tokio::join!(running, stop) }).await.unwrap();
    assert_eq!(exit, ExitCode::Interrupted, "{log}");
    let process = std::fs::read_to_string(&pid).unwrap();
    until(|| !Path::new("/proc").join(process.trim()).exists()).await;
    assert_eq!((stage.tokens().await, stage.left_in_work()), (0, vec![]));
    let after = stage.again(&run).await;
    assert_eq!((after.run.outcome, after.run.playbooks.len()), (None, 1));
}

async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}
