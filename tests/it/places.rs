//! A limit on runs at a time, against the loopback API with the real server: never more than may go on, who waits longest first,
//! whatever is stopped, rejected, held or killed meanwhile.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use hostwright::backend::kube::{Kube, RunsEvent};
use hostwright::domain::{Phase, Run, Verdict};
use hostwright::ops::marks::Wish;
use hostwright::ops::{self, decide};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::server::{Cluster, Server, host};
use crate::support;

const PATIENCE: Duration = Duration::from_secs(60);

fn name(n: usize) -> String {
    format!("web-{n}.example.org")
}

/// Counts at every change that the API server tells, in its order, how many runs have a place, and notes who got one when.
struct Counter {
    most: tokio::sync::watch::Receiver<(usize, Vec<String>)>,
    task: JoinHandle<()>,
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Counter {
    async fn start(kube: &Kube) -> Self {
        let mut events = Box::pin(kube.watch_runs());
        let (tell, most) = tokio::sync::watch::channel((0, Vec::new()));
        let (listed, mut is_listed) = tokio::sync::watch::channel(false);
        let task = tokio::spawn(async move {
            let mut known: HashMap<String, Run> = HashMap::new();
            while let Some(event) = events.next().await {
                match event {
                    RunsEvent::Changed(runs) => {
                        // One after the other: a batch would hide what was in between.
                        for run in runs {
                            let had = known.get(&run.uid).is_some_and(Run::has_place);
                            if run.has_place() && !had {
                                tell.send_modify(|(_, started)| started.push(run.host.to_string()));
                            }
                            known.insert(run.uid.clone(), run);
                            let now = known.values().filter(|run| run.has_place()).count();
                            tell.send_modify(|(most, _)| *most = now.max(*most));
                        }
                    }
                    RunsEvent::Listed => {
                        listed.send_replace(true);
                    }
                    RunsEvent::Reset | RunsEvent::Removed(_) => {}
                    RunsEvent::Failed(error, _) | RunsEvent::Polled(error, _) => panic!("{error}"),
                }
            }
        });
        tokio::time::timeout(PATIENCE, is_listed.wait_for(|listed| *listed)).await.unwrap().unwrap();
        Self { most, task }
    }

    /// Waits until so many have started, and says who, in order.
    async fn started(&mut self, count: usize) -> Vec<String> {
        let started =
            tokio::time::timeout(PATIENCE, self.most.wait_for(|(_, started)| started.len() >= count));
        started.await.expect("they do not start").unwrap().1.clone()
    }

    fn most(&self) -> usize {
        self.most.borrow().0
    }
}

/// Ends a run well, as the Job controller does.
async fn complete(kube: &Kube, run: &Run) {
    let jobs: kube::Api<Job> = kube::Api::namespaced(kube.client(), "hostwright");
    let status = json!({"status": {
        "startTime": "2026-12-01T10:00:00Z", "completionTime": "2026-12-01T10:00:01Z", "succeeded": 1,
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ],
    }});
    jobs.patch_status(&run.name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn with_limit(limit: usize) -> Cluster {
    Cluster::with(|settings| settings.server.runs_at_once = limit).await
}

/// The limit has reached those who approve.
async fn told(cluster: &Cluster, limit: usize) {
    let told = async {
        while ops::approvals::look(&cluster.kube).await.unwrap().runs_at_once != limit {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the limit is not told");
}

async fn announced(server: &Server, count: usize) {
    for n in 0..count {
        server.post(&host(&name(n))).await.run(202);
    }
}

fn waiting(runs: &[Run]) -> usize {
    runs.iter().filter(|run| run.waits.is_some()).count()
}

fn placed(runs: &[Run]) -> usize {
    runs.iter().filter(|run| run.has_place()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_five_approved_hosts_two_go_on_at_a_time_in_the_order_of_their_approval() {
    let cluster = with_limit(2).await;
    let server = Server::leading(&cluster).await;
    announced(&server, 5).await;
    told(&cluster, 2).await;
    let mut counter = Counter::start(&cluster.kube).await;
    // In another order than that of their names and of their coming.
    let order = [3, 0, 4, 1, 2];
    for n in order {
        let approved = cluster.approve(&name(n)).await.run;
        assert_eq!((approved.phase, approved.waits.as_ref().map(|w| w.of)), (Phase::Queued, Some(2)));
        assert_eq!(approved.reason, "waits for a place: 2 of 2 runs go on");
    }
    let runs = cluster.until("two places", |runs| placed(runs) == 2).await;
    assert_eq!((waiting(&runs), runs.len()), (3, 5));
    let said = cluster.command(&["hosts", "show", &name(1)]);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("queued") && said.contains("waits for a place: 2 of 2 runs go on"), "{said}");
    for (done, n) in order.into_iter().enumerate() {
        counter.started((done + 2).min(5)).await;
        complete(&cluster.kube, &cluster.of(&name(n)).await.run).await;
    }
    let started = counter.started(5).await;
    assert_eq!(started, order.map(name));
    assert_eq!(counter.most(), 2);
    cluster.until("the end", |runs| runs.iter().all(|run| run.phase == Phase::Ready)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_can_be_stopped_and_rejected_and_checks_and_retries_take_places() {
    let cluster = with_limit(1).await;
    let (kube, permit) = (&cluster.kube, cluster.permit());
    let server = Server::leading(&cluster).await;
    announced(&server, 4).await;
    told(&cluster, 1).await;
    let mut counter = Counter::start(kube).await;
    for n in 0..4 {
        cluster.approve(&name(n)).await;
    }
    counter.started(1).await;
    // The second is stopped, the third rejected: neither ever starts.
    let second = cluster.of(&name(1)).await.run;
    let stopped = decide::stop(kube, &permit, &second.name, &second.uid, "ann").await.unwrap().run;
    assert_eq!((stopped.phase, &stopped.waits), (Phase::Stopped, &None));
    let rejected = cluster.reject(&name(2)).await.run;
    assert_eq!(rejected.phase, Phase::Rejected);
    assert_eq!(rejected.decision.as_ref().map(|d| d.verdict), Some(Verdict::Rejected));
    // A retry and a check come behind the fourth.
    cluster.mark(Wish::Retry, &stopped).await;
    cluster.until("the retry", |runs| runs.iter().any(|run| run.number == 2 && run.waits.is_some())).await;
    cluster.mark(Wish::Check, &stopped).await;
    cluster.until("the check", |runs| waiting(runs) == 3).await;
    let first = cluster.of(&name(0)).await.run;
    let refused = decide::reject(kube, &permit, &(&first).into(), "ann").await.unwrap_err();
    assert!(matches!(refused, ops::OpError::Decided { .. }), "what has started is not rejected: {refused}");
    complete(kube, &first).await;
    for (started, n) in [(2, 3), (3, 1)] {
        counter.started(started).await;
        complete(kube, &cluster.of(&name(n)).await.run).await;
    }
    let started = counter.started(4).await;
    assert_eq!(started, [0, 3, 1, 1].map(name));
    assert_eq!(counter.most(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_keeps_what_waits_and_without_the_limit_all_of_it_starts() {
    let cluster = with_limit(1).await;
    let (kube, permit) = (&cluster.kube, cluster.permit());
    let server = Server::leading(&cluster).await;
    announced(&server, 3).await;
    told(&cluster, 1).await;
    let mut counter = Counter::start(kube).await;
    for n in 0..3 {
        cluster.approve(&name(n)).await;
    }
    counter.started(1).await;
    ops::approvals::hold(kube, &permit, "a bad branch", "ann").await.unwrap();
    server.until_ready(200, |said| said["approvals"] == "held").await;
    complete(kube, &cluster.of(&name(0)).await.run).await;
    // A check, asked for later, gets the place that became free: the others have been passed over.
    cluster.mark(Wish::Check, &cluster.of(&name(0)).await.run).await;
    assert_eq!(counter.started(2).await, [name(0), name(0)]);
    assert_eq!(waiting(&cluster.runs().await), 2);
    server.stop().await;
    // The next server has no limit, and takes it back for all; what waits is let go once approvals are.
    let mut free = cluster.settings.clone();
    free.server.runs_at_once = 0;
    let server = Server::start_unseen(&free).await;
    told(&cluster, 0).await;
    assert_eq!(waiting(&cluster.runs().await), 2);
    ops::approvals::release(kube, &permit, None, "ann").await.unwrap();
    assert_eq!(counter.started(4).await[2..], [1, 2].map(name));
    server.post(&host(&name(9))).await.run(202);
    let approved = cluster.approve(&name(9)).await.run;
    assert_eq!((approved.phase, approved.waits), (Phase::Queued, None));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_start_at_once_exceed_nothing() {
    let cluster = with_limit(3).await;
    let server = Server::leading(&cluster).await;
    announced(&server, 9).await;
    told(&cluster, 3).await;
    server.stop().await;
    let mut counter = Counter::start(&cluster.kube).await;
    for n in 0..9 {
        cluster.approve(&name(n)).await;
    }
    // No Lease is perfect: a server that hangs for a while may think that it still holds it.
    let permit = cluster.permit();
    for round in 1..=3 {
        let fills = (0..8).map(|_| ops::places::fill(&cluster.kube, &permit, 3, false));
        let counts: usize = join_all(fills).await.into_iter().map(Result::unwrap).sum();
        assert_eq!(counts, 3);
        assert_eq!(counter.started(round * 3).await.len(), round * 3);
        for run in cluster.runs().await.iter().filter(|run| run.has_place()) {
            complete(&cluster.kube, run).await;
        }
    }
    assert_eq!(counter.most(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_that_change_over_exceed_nothing() {
    let cluster = Cluster::with(|settings| {
        settings.server.runs_at_once = 2;
        settings.environment.approval = hostwright::config::Approval::Auto;
        settings.server.pending_limit = 100;
    })
    .await;
    let mut servers = vec![Server::leading(&cluster).await];
    let mut counter = Counter::start(&cluster.kube).await;
    for round in 0..3 {
        servers.push(Server::start(&cluster).await);
        for n in round * 3..round * 3 + 3 {
            servers[0].post(&host(&name(n))).await.run(202);
        }
        counter.started(round * 3 + 1).await;
        // The leader goes in the middle of its work, the other takes over.
        let leader = servers.remove(0);
        let (_, ()) = tokio::join!(finish(&cluster, &mut counter, round * 3 + 3), leader.stop());
    }
    assert_eq!(counter.most(), 2);
    servers.remove(0).stop().await;
}

/// Completes whatever goes on until so many are over.
async fn finish(cluster: &Cluster, counter: &mut Counter, count: usize) {
    let all = async {
        loop {
            let runs = cluster.runs().await;
            for run in runs.iter().filter(|run| run.has_place()) {
                complete(&cluster.kube, run).await;
            }
            if runs.iter().filter(|run| run.phase == Phase::Ready).count() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("they do not end");
    counter.started(count).await;
}

/// The real program, so that it can be killed.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Process {
    fn start(cluster: &Cluster) -> Self {
        let config = cluster.dir.path().join("server.toml");
        let text = json!({
            "server": {"listen": "127.0.0.1:0", "runs_at_once": 2},
            "environments": {"test": {
                "kubernetes": {"kubeconfig": cluster.settings.environment.kubernetes.kubeconfig},
                "policy": {"source": "/policy"},
            }},
        });
        std::fs::write(&config, toml::to_string(&text).unwrap()).unwrap();
        let mut command = Command::new(support::exe());
        command.args(["-e", "test", "--config"]).arg(&config).arg("serve");
        command.env_clear().env("HOME", cluster.dir.path()).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_between_exceeds_nothing_and_forgets_nobody() {
    let cluster = with_limit(2).await;
    let server = Server::leading(&cluster).await;
    announced(&server, 5).await;
    told(&cluster, 2).await;
    server.stop().await;
    let mut counter = Counter::start(&cluster.kube).await;
    // Nobody is there to start them.
    for n in 0..5 {
        cluster.approve(&name(n)).await;
    }
    let mut over = 0;
    for _ in 0..2 {
        let process = Process::start(&cluster);
        counter.started(over + 1).await;
        // With SIGKILL, as soon as one has started: perhaps between that and the next.
        drop(process);
        for run in cluster.runs().await.iter().filter(|run| run.has_place()) {
            complete(&cluster.kube, run).await;
            over += 1;
        }
    }
    let _last = Process::start(&cluster);
    finish(&cluster, &mut counter, 5).await;
    assert_eq!(counter.started(5).await, [0, 1, 2, 3, 4].map(name));
    assert_eq!(counter.most(), 2);
}
