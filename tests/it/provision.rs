//! `provision` with real Ansible, ARA, git and RabbitMQ, against the loopback Kubernetes API.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hostwright::agent::provision;
use hostwright::backend::amqp::Broker;
use hostwright::backend::ansible;
use hostwright::config::{Amqp, Ara, AraCredentials, Secret};
use hostwright::domain::{ExitCode, Message, Parameters, RunDetails};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::stage::{CA, HOST, PATIENCE, Stage, announcement, local, own, site, variables};
use crate::support;

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
    let announced = announcement(&facts);
    let mut parameters = site(&["web"]);
    parameters.variables.insert("size".into(), json!("{{ 1 + 1 }}"));
    let run = stage.approved_for(&announced, &parameters).await;

    let (exit, log) = stage.provision(&run).await;

    assert_eq!(exit, ExitCode::Ready);
    assert!(log.contains("PLAY RECAP") && log.contains("\u{1b}[0;3") && log.contains("hostwright: ready"));
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    let keys: Vec<&str> = announced.keys.iter().map(|key| key.as_str()).collect();
    assert_eq!(written, json!([facts, keys, "127.0.0.1", run.run.uid, 42, "{{ 1 + 1 }}"]));
    assert!(!mark.exists(), "a fact was run as a template");

    let after = stage.again(&run).await;
    let outcome = after.run.outcome.unwrap();
    assert_eq!(outcome.exit, ExitCode::Ready);
    let counts = outcome.counts.unwrap();
    assert_eq!((counts.ok, counts.changed, counts.failed, counts.ignored), (3, 2, 0, 1));
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
        assert!(!file["content"].as_str().unwrap().contains("AAAAC3NzaC1lZDI1"), "{}", file["path"]);
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
    // An outcome would keep the next pod from trying: there is a note of the attempt, and it does not.
    let after = stage.again(&run).await.run;
    let attempt = after.last_attempt.unwrap();
    assert_eq!((after.outcome, attempt.exit), (None, ExitCode::UnreachableHost));
    assert!(attempt.text.contains("unreachable"), "{}", attempt.text);
    assert_eq!(attempt.counts.unwrap().unreachable, 1);
    std::fs::write(stage.policy().join("site.yml"), local("- debug: {msg: hello}")).unwrap();
    assert_eq!(stage.provision(&run).await.0, ExitCode::Ready);
    let after = stage.again(&run).await.run;
    assert_eq!(after.last_outcome().unwrap().exit, ExitCode::Ready);

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
    other.announcement = announcement(&json!({"more": 1}));
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
            "- copy:\n    dest: {}\n    content: \"{{{{ {{'join': hostwright_join, 'node': hostwright_node_name, 'ca': hostwright_root_ca}} | to_json }}}}\"\n  diff: false\n  no_log: true\n{more}",
            out.display()
        ))
    };
    std::fs::write(stage.policy().join("site.yml"), task("")).unwrap();
    stage.node(HOST, true).await;
    let run = stage.approved(&site(&["k8s_worker", "k8s_controller"])).await;
    let (exit, log) = stage.provision(&run).await;
    assert_eq!(exit, ExitCode::Ready);
    let known: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    let join = &known["join"];
    let token = hostwright::domain::BootstrapToken::parse(join["token"].as_str().unwrap()).unwrap();
    assert!(!log.contains(token.secret()) && log.contains(token.id()));
    assert_eq!(
        (&join["endpoint"], &join["server"]),
        (&json!("https://[2001:db8::1]:6443"), &json!("[2001:db8::1]:6443"))
    );
    assert_eq!(known["node"], HOST);
    assert!(join["ca_hash"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(
        (join["ca_cert"].as_str().unwrap().trim(), known["ca"].as_str().unwrap().trim()),
        (CA.trim(), CA.trim())
    );
    assert!(join["cluster_info"].as_str().unwrap().contains("certificate-authority-data"));
    // It has joined: its token is good for nothing more.
    assert_eq!((stage.tokens().await, stage.targets().await), (0, vec![]));

    // A failed host does not join: its token goes.
    std::fs::write(stage.policy().join("site.yml"), task("- fail: {}")).unwrap();
    let run = stage.approved(&site(&["k8s_worker", "k8s_controller"])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::FailedTask);
    assert_eq!(stage.tokens().await, 0);
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

/// With a queue of the test's own on the shared broker.
pub(crate) async fn with_queue(mut stage: Stage, name: &str) -> (Stage, Broker) {
    let url = Secret::new(support::rabbitmq().await.url());
    let amqp = Amqp { url, exchange: format!("it-{name}"), dead_letter: format!("it-{name}.dead") };
    let broker = Broker::new(&amqp).unwrap();
    stage.settings.environment.amqp = Some(amqp);
    (stage, broker)
}

pub(crate) fn message(run: &RunDetails) -> Message {
    let (uid, name) = (run.run.uid.clone(), run.run.name.clone());
    Message::new(uid, name, run.announcement.clone(), run.parameters.clone().unwrap())
}

pub(crate) async fn waiting(broker: &Broker, run: &RunDetails) -> Option<u32> {
    broker.queue_state(&run.run.uid).await.unwrap().map(|queue| queue.messages)
}

#[tokio::test]
async fn the_message_is_acknowledged_last() {
    let stage = Stage::new(&local("- debug: {msg: hello}")).await;
    let (stage, broker) = with_queue(stage, "ack").await;
    let run = stage.approved(&site(&[])).await;
    let permit = stage.settings.permit().unwrap();
    // The pod may come before the message.
    let publish = async {
        while broker.queue_state(&run.run.uid).await.unwrap().is_none_or(|queue| queue.consumers == 0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        broker.publish(&permit, &message(&run)).await.unwrap();
    };
    let ((exit, _), ()) = tokio::join!(stage.provision(&run), publish);
    assert_eq!((exit, waiting(&broker, &run).await), (ExitCode::Ready, Some(0)));

    // Killed between outcome and acknowledgement: the next pod only clears the message away.
    broker.publish(&permit, &message(&run)).await.unwrap();
    let (exit, log) = stage.provision(&run).await;
    assert_eq!((exit, waiting(&broker, &run).await), (ExitCode::Ready, Some(0)));
    assert!(!log.contains("PLAY"), "{log}");
}

#[tokio::test]
async fn what_another_pod_may_mend_goes_back_to_the_queue() {
    let stage = Stage::new("").await;
    let up = stage.dir.path().join("up");
    let task = format!("- shell: touch {}; exec sleep 1000", up.display());
    std::fs::write(stage.policy().join("site.yml"), local(&task)).unwrap();
    let (mut stage, broker) = with_queue(stage, "back").await;
    let permit = stage.settings.permit().unwrap();
    let run = stage.approved(&site(&[])).await;
    broker.publish(&permit, &message(&run)).await.unwrap();
    let shutdown = CancellationToken::new();
    let mut out = Vec::new();
    let running = provision::run(&stage.settings, own(&run), &mut out, shutdown.clone());
    let stop = async {
        until(|| up.exists()).await;
        assert_eq!(waiting(&broker, &run).await, Some(0));
        shutdown.cancel();
    };
    let (exit, ()) = tokio::join!(running, stop);
    assert_eq!((exit, waiting(&broker, &run).await), (ExitCode::Interrupted, Some(1)));

    let mut unreachable = site(&[]);
    unreachable.variables.insert("ansible_port".into(), json!(1));
    std::fs::write(stage.policy().join("site.yml"), "- hosts: all\n  gather_facts: true\n").unwrap();
    let run = stage.approved(&unreachable).await;
    broker.publish(&permit, &message(&run)).await.unwrap();
    let (exit, _) = stage.provision(&run).await;
    assert_eq!((exit, waiting(&broker, &run).await), (ExitCode::UnreachableHost, Some(1)));

    stage.settings.provision.message_timeout = Duration::from_secs(1);
    let run = stage.approved(&site(&[])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::NoMessage);
}

#[tokio::test]
async fn after_a_kill_the_next_pod_finishes_the_host() {
    let stage = Stage::new("").await;
    let (pid, go) = (stage.dir.path().join("pid"), stage.dir.path().join("go"));
    // The first attempt hangs, the second finds the file and goes on.
    let task =
        format!("- shell: echo $$ > {}; while [ ! -e {} ]; do sleep 0.1; done", pid.display(), go.display());
    std::fs::write(stage.policy().join("site.yml"), local(&task)).unwrap();
    let (stage, broker) = with_queue(stage, "kill").await;
    let run = stage.approved(&site(&[])).await;
    broker.publish(&stage.settings.permit().unwrap(), &message(&run)).await.unwrap();
    let word = stage.dir.path().join("word");
    let pod = || {
        // On a leash, which does what the end of a container does: nothing that the program started outlives it.
        let mut command = tokio::process::Command::new(support::exe());
        command.args(["leash", "--"]).arg(support::exe()).arg("provision").kill_on_drop(true);
        command.envs(variables(&run)).env("HOSTWRIGHT_CONFIG", stage.config());
        command.env("TERMINATION_MESSAGE_PATH", &word).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    };
    let mut first = pod().spawn().unwrap();
    until(|| std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'))).await;
    assert_eq!(waiting(&broker, &run).await, Some(0));
    let leash = first.id().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{leash}/task/{leash}/children")).unwrap();
    let provision = rustix::process::Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(provision, rustix::process::Signal::KILL).unwrap();
    first.wait().await.unwrap();
    let process = std::fs::read_to_string(&pid).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).exists());
    assert_eq!(stage.left_in_work().len(), 1);
    while waiting(&broker, &run).await != Some(1) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    std::fs::write(&go, "").unwrap();
    let mut second = pod().spawn().unwrap();
    // The leash is held until the program has ended.
    let held = second.stdin.take();
    let second = tokio::time::timeout(PATIENCE, second.wait_with_output()).await.unwrap().unwrap();
    drop(held);
    let log = String::from_utf8_lossy(&second.stdout);
    assert_eq!(second.status.code(), Some(0), "{log}");
    assert!(log.contains("handed out before"), "{log}");
    assert_eq!((waiting(&broker, &run).await, stage.left_in_work()), (Some(0), vec![]));
    assert_eq!(stage.again(&run).await.run.outcome.unwrap().exit, ExitCode::Ready);
    assert!(std::fs::read_to_string(&word).unwrap().starts_with("ready: "));
}

#[test]
fn both_job_templates_are_jobs_and_differ_only_in_what_a_pod_needs() {
    let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let real = read(include_str!("../../assets/job.yaml"));
    let play = read(include_str!("../../assets/play/job.yaml"));
    for pointer in ["/spec/podFailurePolicy", "/spec/podReplacementPolicy", "/spec/suspend"] {
        assert_eq!(real.pointer(pointer), play.pointer(pointer), "{pointer}");
    }
    let container = "/spec/template/spec/containers/0";
    for key in ["name", "command", "terminationMessagePolicy"] {
        assert_eq!(real.pointer(container).unwrap()[key], play.pointer(container).unwrap()[key], "{key}");
    }
    let names = |job: &Value| -> Vec<String> {
        let env = job.pointer(container).unwrap()["env"].as_array().unwrap();
        env.iter().filter(|e| e.get("valueFrom").is_some()).map(|e| e["name"].to_string()).collect()
    };
    assert_eq!((names(&real).len(), names(&real)), (6, names(&play)));
    assert_eq!(
        real.pointer("/spec/podFailurePolicy/rules/1/onExitCodes/values"),
        Some(&json!([10, 11, 12, 13]))
    );
    for job in [real, play] {
        serde_json::from_value::<k8s_openapi::api::batch::v1::Job>(job).unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_read_or_is_anothers_is_a_dead_letter() {
    let stage = Stage::new(&local("- debug: {msg: hello}")).await;
    let (stage, broker) = with_queue(stage, "dead").await;
    let amqp = stage.settings.environment.amqp.clone().unwrap();
    let connection = lapin::Connection::connect(amqp.url.reveal(), lapin::ConnectionProperties::default());
    let channel = connection.await.unwrap().create_channel().await.unwrap();
    let other = stage.approved(&site(&["web"])).await;
    let foreign = message(&other).to_bytes().unwrap();
    for (body, reason) in [(b"{}".to_vec(), "not a run's"), (foreign, "is of run")] {
        let run = stage.approved(&site(&[])).await;
        let publish = async {
            while broker.queue_state(&run.run.uid).await.unwrap().is_none_or(|queue| queue.consumers == 0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            channel
                .basic_publish(
                    amqp.exchange.as_str().into(),
                    run.run.uid.as_str().into(),
                    lapin::options::BasicPublishOptions::default(),
                    &body,
                    lapin::BasicProperties::default(),
                )
                .await
                .unwrap();
        };
        let ((exit, _), ()) = tokio::join!(stage.provision(&run), publish);
        assert_eq!((exit, waiting(&broker, &run).await), (ExitCode::UnreadableMessage, Some(0)));
        assert!(stage.again(&run).await.run.outcome.unwrap().text.contains(reason));
        let dead = channel
            .basic_get(amqp.dead_letter.as_str().into(), lapin::options::BasicGetOptions { no_ack: true })
            .await
            .unwrap()
            .unwrap();
        let headers = dead.properties.headers().clone().unwrap();
        let why = headers.inner().get("x-hostwright-reason").unwrap().as_long_string().unwrap().to_string();
        assert!(why.contains(reason) && dead.data == body, "{why}");
    }
}

pub(crate) async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}

#[tokio::test]
async fn ssh_knows_the_host_by_its_announced_keys_only() {
    let dir = support::temp();
    let odd = dir.path().join("a b%h");
    let host = announcement(&json!({})).host;
    let text = ansible::inventory(&host, Some("2001:db8::1".parse().unwrap()), &[], &odd);
    let inventory: Value = serde_saphyr::from_str(&text).unwrap();
    let arguments = inventory["all"]["hosts"][HOST]["ansible_ssh_common_args"].as_str().unwrap();
    let asked = tokio::process::Command::new("ssh")
        .arg("-G")
        .args(shell_words::split(arguments).unwrap())
        .arg("2001:db8::1")
        .output()
        .await
        .expect("the tests need ssh: apt install openssh-client");
    let settings = String::from_utf8(asked.stdout).unwrap();
    for line in [
        &format!("userknownhostsfile {}", odd.display()),
        "stricthostkeychecking true",
        &format!("hostkeyalias {HOST}"),
    ] {
        assert!(settings.lines().any(|l| l == line), "{line}:\n{settings}");
    }
}
