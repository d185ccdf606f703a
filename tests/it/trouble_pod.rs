//! An API server in trouble, as a run's pod meets it: at each call that it makes, one by one.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use hostwright::agent::provision;
use hostwright::domain::{ExitCode, RunDetails};
use tokio_util::sync::CancellationToken;

use crate::gate::{Fault, Gate};
use crate::ground::write_kubeconfig;
use crate::provision::{message, waiting, with_queue};
use crate::stage::{HOST, PATIENCE, Stage, own, site};
use crate::trouble::with_token_file;

/// Ansible as far as a pod sees it: this is about the calls around it.
const ANSIBLE: &str = "#!/bin/sh\necho 'PLAY RECAP *********'\n\
    echo 'web-1.example.org : ok=1 changed=0 unreachable=0 failed=0 skipped=0 rescued=0 ignored=0'\n";

const MEMBER: [&str; 2] = ["k8s_worker", "k8s_controller"];

/// The calls of a pod without a queue: verb, a part of the path, the groups of a host that needs it.
const CALLS: [(&str, &str, &[&str]); 8] = [
    ("get", "/jobs/provision-", &[]),
    ("get", "/configmaps/cluster-info", &MEMBER),
    ("get", "/api/v1/nodes/", &MEMBER),
    ("create", "/namespaces/kube-system/secrets", &MEMBER),
    ("get", "/configmaps/kube-root-ca.crt", &MEMBER),
    ("get", "/configmaps/scrape-collectd", &[]),
    ("update", "/configmaps/scrape-collectd", &[]),
    ("patch", "/jobs/provision-", &[]),
];

/// What passes, and how often it comes: what only reads is asked for again at once before a pod's own patience begins.
const PASSING: [(Fault, usize); 9] = [
    (Fault::Status(401), 1),
    (Fault::Status(403), 2),
    (Fault::Busy(429, 1), 5),
    (Fault::Status(500), 5),
    (Fault::Page(502), 5),
    (Fault::Busy(503, 4), 2),
    (Fault::Status(504), 5),
    (Fault::Reset, 2),
    (Fault::Silence, 1),
];

/// A pod behind a gate.
struct Pod {
    stage: Stage,
    gate: Gate,
}

impl Pod {
    async fn new() -> Self {
        let stage = Stage::new("").await;
        // Whose kubelet is quick.
        stage.node(HOST, true).await;
        Self::of(stage).await
    }

    async fn of(mut stage: Stage) -> Self {
        let ansible = stage.dir.path().join("ansible");
        std::fs::write(&ansible, ANSIBLE).unwrap();
        std::fs::set_permissions(&ansible, std::fs::Permissions::from_mode(0o700)).unwrap();
        stage.settings.provision.ansible_playbook = ansible.to_string_lossy().into_owned();
        let gate = Gate::start(stage.kube.server().trim_end_matches('/')).await;
        let gated = stage.dir.path().join("gated");
        write_kubeconfig(&gated, &gate.url());
        stage.settings.environment.kubernetes.kubeconfig = Some(gated);
        Self { stage, gate }
    }

    async fn run(&self, run: &RunDetails) -> (ExitCode, String) {
        let mut out = Vec::new();
        let running = provision::run(&self.stage.settings, own(run), &mut out, CancellationToken::new());
        let exit = tokio::time::timeout(2 * PATIENCE, running).await.unwrap();
        assert!(self.stage.left_in_work().is_empty());
        (exit, String::from_utf8(out).unwrap())
    }

    /// How many of these faults came.
    fn met(&self) -> usize {
        self.gate.seen().iter().filter(|request| request.fault.is_some()).count()
    }
}

/// One call, which each fault befalls in turn.
async fn rides_out((verb, path, groups): (&'static str, &'static str, &'static [&'static str])) {
    let pod = Pod::new().await;
    for (fault, times) in PASSING {
        let run = pod.stage.approved(&site(groups)).await;
        let before = pod.met();
        pod.gate.fail(verb, path, fault, times);
        let (exit, log) = pod.run(&run).await;
        assert_eq!(exit, ExitCode::Ready, "{verb} {path} {fault:?}:\n{log}");
        assert_eq!(pod.met() - before, times, "{verb} {path} {fault:?}:\n{log}");
        assert_eq!(pod.stage.again(&run).await.run.outcome.unwrap().exit, ExitCode::Ready);
        // A token whose creation or deletion was only taken for failed would be one.
        assert_eq!(pod.stage.tokens().await, 0, "{verb} {path} {fault:?}");
        if groups.is_empty() {
            assert_eq!(pod.stage.targets().await, [format!("{HOST}:9103")], "{verb} {path} {fault:?}");
        }
    }
}

/// It is asked again with growing pauses, and then everything is there, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_rides_out_whatever_passes_at_every_call() {
    let deletion: (_, _, &[&str]) = ("delete", "/secrets/bootstrap-token-", &MEMBER);
    let calls = CALLS.into_iter().chain([deletion]);
    let rides: Vec<_> = calls.map(|call| tokio::spawn(rides_out(call))).collect();
    for ride in rides {
        ride.await.unwrap();
    }
}

/// One call that fails for longer than the pod waits, or that no waiting mends; and the pod after it.
async fn gives_up((verb, path, groups): (&'static str, &'static str, &'static [&'static str])) {
    let pod = Pod::new().await;
    for (fault, expected) in [
        (Fault::Busy(429, 3600), ExitCode::BackEnd),
        (Fault::Busy(503, 3600), ExitCode::BackEnd),
        (Fault::Status(403), ExitCode::Misconfigured),
    ] {
        let run = pod.stage.approved(&site(groups)).await;
        pod.gate.fail(verb, path, fault, usize::MAX);
        let (exit, log) = pod.run(&run).await;
        assert_eq!(exit, expected, "{verb} {path} {fault:?}:\n{log}");
        // Nobody joins by a pod that gave up; nor was anything said that would stop the next one.
        assert_eq!(pod.stage.tokens().await, 0, "{verb} {path} {fault:?}");
        let outcome = pod.stage.again(&run).await.run.outcome;
        assert_eq!(outcome.is_some(), !exit.retry_may_mend() && verb != "patch" && path != CALLS[0].1);
        pod.gate.mend();
        if exit.retry_may_mend() {
            let (exit, log) = pod.run(&run).await;
            assert_eq!(exit, ExitCode::Ready, "{verb} {path} {fault:?}:\n{log}");
        }
    }
}

/// What another pod may mend is left to it, and it finishes; what none can mend fails the run at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_gives_up_leaves_the_host_to_the_next() {
    let ends: Vec<_> = CALLS.into_iter().map(|call| tokio::spawn(gives_up(call))).collect();
    for end in ends {
        end.await.unwrap();
    }
}

/// The same with a queue: the message goes back, and is gone when the next pod is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_outcome_cannot_be_written_puts_its_message_back() {
    let (stage, broker) = with_queue(Stage::new("").await, "trouble").await;
    let pod = Pod::of(stage).await;
    let run = pod.stage.approved(&site(&[])).await;
    broker.publish(&pod.stage.settings.permit().unwrap(), &message(&run)).await.unwrap();
    pod.gate.fail("patch", "/jobs/provision-", Fault::Busy(503, 3600), usize::MAX);
    let (exit, log) = pod.run(&run).await;
    assert_eq!((exit, waiting(&broker, &run).await), (ExitCode::BackEnd, Some(1)), "{log}");
    assert!(log.contains("unable to handle the request"), "{log}");
    pod.gate.mend();
    let (exit, log) = pod.run(&run).await;
    assert_eq!((exit, waiting(&broker, &run).await), (ExitCode::Ready, Some(0)), "{log}");
    assert!(log.contains("handed out before"), "{log}");
}

/// A pod's token is exchanged in its file now and then: the one that was read at the start is no good any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_reads_its_token_anew() {
    let mut pod = Pod::new().await;
    let token = pod.stage.dir.path().join("token");
    let gated = pod.stage.dir.path().join("with-token");
    std::fs::write(&token, "one").unwrap();
    with_token_file(&gated, &pod.gate.url(), &token);
    pod.stage.settings.environment.kubernetes.kubeconfig = Some(gated);
    let run = pod.stage.approved(&site(&[])).await;
    pod.gate.only("two");
    let refused = async {
        while !pod.gate.seen().iter().any(|request| request.status == 401) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::fs::write(&token, "two").unwrap();
    };
    let ((exit, log), ()) = tokio::join!(pod.run(&run), refused);
    assert_eq!(exit, ExitCode::Ready, "{log}");
}
