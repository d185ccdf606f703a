//! Joining the cluster: a worker's bootstrap token from its minting to its end, and the files that the sample policy makes of it.

use std::process::Stdio;
use std::time::Duration;

use hostwright::agent::provision;
use hostwright::domain::{BootstrapToken, ExitCode, Phase, RunDetails, run_token_id};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::provision::until;
use crate::stage::{HOST, PATIENCE, Stage, local, own, site, variables};
use crate::support;

/// A stage whose policy writes the token that it gets into a file.
async fn stage() -> Stage {
    let stage = Stage::new("").await;
    let task = format!(
        "- copy: {{dest: \"{}\", content: \"{{{{ hostwright_join.token }}}}\"}}\n  diff: false\n  no_log: true",
        stage.dir.path().join("token").display()
    );
    std::fs::write(stage.policy().join("site.yml"), local(&task)).unwrap();
    stage
}

fn given(stage: &Stage) -> BootstrapToken {
    BootstrapToken::parse(&std::fs::read_to_string(stage.dir.path().join("token")).unwrap()).unwrap()
}

/// The names of the run's token and no other.
fn only(run: &RunDetails) -> Vec<String> {
    vec![format!("bootstrap-token-{}", run_token_id(&run.run.uid))]
}

/// Waits until the pod has found the Node to be so.
async fn waits(log: &std::path::Path, words: &str) {
    until(|| std::fs::read_to_string(log).is_ok_and(|text| text.contains(words))).await;
}

#[tokio::test]
async fn a_worker_joins_and_its_token_is_gone() {
    let stage = stage().await;
    let run = stage.approved(&site(&["k8s_worker"])).await;
    let path = stage.dir.path().join("log");
    let out = tokio::fs::File::create(&path).await.unwrap();
    let running = provision::run(&stage.settings, own(&run), out, CancellationToken::new());
    let kubelet = async {
        waits(&path, &format!("node {HOST} is not there")).await;
        // As long as the host has not joined its token is good, and nobody takes the run for done.
        assert_eq!(stage.token_names().await, only(&run));
        assert_eq!(given(&stage).id(), run_token_id(&run.run.uid));
        assert_eq!(stage.again(&run).await.run.outcome, None);
        stage.node(HOST, false).await;
        waits(&path, "not ready: KubeletNotReady: said the kubelet").await;
        assert_eq!(stage.token_names().await, only(&run));
        stage.node(HOST, true).await;
    };
    let (exit, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(running, kubelet) }).await.unwrap();
    let log = std::fs::read_to_string(&path).unwrap();
    assert_eq!(exit, ExitCode::Ready, "{log}");
    assert_eq!((stage.tokens().await, stage.targets().await), (0, vec![]));
    let token = given(&stage);
    assert!(log.contains(&format!("bootstrap token {}.… deleted", token.id())), "{log}");
    assert!(!log.contains(token.secret()), "{log}");
    let outcome = stage.again(&run).await.run.outcome.unwrap();
    assert_eq!((outcome.exit, outcome.counts.unwrap().ok), (ExitCode::Ready, 1));

    // Another run of the same host finds it there, and does not wait.
    let run = stage.approved(&site(&["k8s_worker"])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::Ready);
    assert_ne!(given(&stage).id(), token.id());
    assert_eq!(stage.tokens().await, 0);
}

#[tokio::test]
async fn a_node_that_never_gets_ready_is_named_and_its_token_goes() {
    let mut stage = stage().await;
    for (join, token, there, words) in [
        (2, 600, None, "in time (provision.join_timeout)"),
        (2, 600, Some(false), "is there and not ready: KubeletNotReady: said the kubelet"),
        // The playbook takes longer than the token's two seconds.
        (600, 2, None, "when its bootstrap token ended (provision.token_lifetime)"),
    ] {
        stage.settings.provision.join_timeout = Duration::from_secs(join);
        stage.settings.provision.token_lifetime = Duration::from_secs(token);
        stage.settings.provision.signer = hostwright::config::Signer::Off;
        if let Some(ready) = there {
            stage.node(HOST, ready).await;
        }
        let run = stage.approved(&site(&["k8s_worker"])).await;
        let (exit, log) = stage.provision(&run).await;
        assert_eq!((exit, exit.code()), (ExitCode::NotJoined, 20), "{log}");
        assert!(log.contains("hostwright: not joined: the playbook went well (1 ok"), "{log}");
        assert!(log.contains(words), "{log}");
        assert_eq!(stage.tokens().await, 0);
        // Another attempt may mend it: it is noted, and ends nothing.
        let after = stage.again(&run).await.run;
        let attempt = after.last_attempt.unwrap();
        assert_eq!((after.outcome, attempt.exit), (None, ExitCode::NotJoined));
        assert!(attempt.text.contains(words) && attempt.counts.unwrap().ok == 1, "{}", attempt.text);
        assert_ne!(after.phase, Phase::Failed);
    }
    // As it does.
    let run = stage.approved(&site(&["k8s_worker"])).await;
    stage.node(HOST, true).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::Ready);
    assert_eq!(stage.tokens().await, 0);
}

#[tokio::test]
async fn a_pod_that_is_told_to_stop_while_it_waits_takes_its_token_back() {
    let stage = stage().await;
    let run = stage.approved(&site(&["k8s_worker"])).await;
    let path = stage.dir.path().join("log");
    let out = tokio::fs::File::create(&path).await.unwrap();
    let shutdown = CancellationToken::new();
    let running = provision::run(&stage.settings, own(&run), out, shutdown.clone());
    let stop = async {
        waits(&path, "is not there").await;
        shutdown.cancel();
    };
    let (exit, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(running, stop) }).await.unwrap();
    assert_eq!((exit, stage.tokens().await), (ExitCode::Interrupted, 0));
    assert_eq!(stage.again(&run).await.run.outcome, None);
}

/// Killed while it waits, again and again: a run has one token at most, and none in the end.
#[tokio::test]
async fn a_pod_that_is_killed_while_it_waits_leaves_one_token_to_the_next_and_that_one_none() {
    let stage = stage().await;
    let run = stage.approved(&site(&["k8s_worker"])).await;
    let config = stage.config();
    let pod = |attempt: u32| {
        let path = stage.dir.path().join(format!("log-{attempt}"));
        let out = std::fs::File::create(&path).unwrap();
        let mut command = tokio::process::Command::new(support::exe());
        command.args(["leash", "--"]).arg(support::exe()).arg("provision").kill_on_drop(true);
        command.envs(variables(&run)).env("HOSTWRIGHT_CONFIG", &config).env("HOSTWRIGHT_ENV", "test");
        command.stdin(Stdio::piped()).stdout(out);
        (command.spawn().unwrap(), path)
    };
    let mut secrets = Vec::new();
    for attempt in 0..2 {
        let (mut leash, path) = pod(attempt);
        waits(&path, "is not there").await;
        assert_eq!(stage.token_names().await, only(&run));
        secrets.push(given(&stage).secret().to_owned());
        let id = leash.id().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        leash.wait().await.unwrap();
        // It could take nothing back.
        assert_eq!(stage.token_names().await, only(&run));
    }
    assert_ne!(secrets[0], secrets[1]);
    stage.node(HOST, true).await;
    let (mut leash, path) = pod(2);
    // The leash is held until the program has ended.
    let held = leash.stdin.take();
    let ended = tokio::time::timeout(PATIENCE, leash.wait()).await.unwrap().unwrap();
    drop(held);
    let log = std::fs::read_to_string(path).unwrap();
    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(!secrets.contains(&given(&stage).secret().to_owned()));
    assert_eq!((stage.tokens().await, stage.left_in_work()), (0, vec![]));
}
