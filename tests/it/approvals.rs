//! All approvals together, against the loopback API with the real server: held and released.

use std::time::Duration;

use futures_util::future::join_all;
use hostwright::config::{Approval, Settings};
use hostwright::domain::approvals::{Approvals, CONFIGMAP};
use hostwright::domain::{Phase, ProblemKind, Run};
use hostwright::ops::decide::{self, Changes, Seen};
use hostwright::ops::marks::{self, Wish};
use hostwright::ops::{self, OpError};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::console::{Far, wait_for_console};
use crate::gate::Gate;
use crate::ground::{self, Ground};
use crate::operators::pending;
use crate::pty::Pty;
use crate::server::{Cluster, Server, host};

const WEB: &str = "web-1.example.org";
const DB: &str = "db-1.example.org";
/// Longer than a server needs to see anything: what must not happen is looked for after something else did.
const OFTEN: Duration = Duration::from_millis(200);

async fn approve(cluster: &Cluster, name: &str) -> Result<Run, OpError> {
    let seen = Seen::from(&cluster.of(name).await.run);
    let environment = &cluster.settings.environment;
    let changes = Changes::default();
    let done = decide::approve(&cluster.kube, &cluster.permit(), environment, &seen, &changes, "bob").await;
    done.map(|details| details.run)
}

fn by_rule(settings: &mut Settings) {
    settings.environment.approval = Approval::Auto;
    settings.server.repair_interval = OFTEN;
}

#[tokio::test]
async fn while_approvals_are_held_commands_say_who_since_when_and_why_and_exit_4() {
    let ground = Ground::new().await;
    pending(&ground, WEB).await;
    let status = ground.run(&["approvals", "status", "-o", "json"]).await.json();
    assert_eq!(status, json!({"hold": null, "released": null, "runs_at_once": 0}));
    let said = ground.run(&["approvals", "release"]).await;
    assert_eq!((said.code, said.err.contains("they are not held")), (4, true), "{}", said.err);
    let said = ground.run(&["approvals", "hold", "--reason", " "]).await;
    assert_eq!((said.code, said.err.contains("say why")), (2, true), "{}", said.err);

    let me = ops::operator(&ground.kube, &ground.settings.environment).await.unwrap();
    ground.run(&["approvals", "hold", "--reason", "the API servers\nare patched"]).await.done();
    let hold = ops::approvals::look(&ground.kube).await.unwrap().hold.unwrap();
    assert_eq!((hold.by.as_str(), hold.reason.as_str()), (me.as_str(), "the API servers are patched"));
    let words =
        ["cannot approve web-1.example.org", "held by", &me, "since 20", "are patched", "approvals release"];
    let said = ground.run(&["hosts", "approve", WEB]).await;
    assert_eq!(said.code, 4, "{}", said.err);
    for word in words {
        assert!(said.err.contains(word), "{word}: {}", said.err);
    }
    let said = ground.run(&["hosts", "approve", WEB, "-o", "json"]).await;
    let rows: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &rows[0]["error"]["kind"]), (4, &json!("held")));
    let again = ground.run(&["approvals", "hold", "--reason", "me too"]).await;
    assert_eq!((again.code, again.err.contains("are patched")), (4, true), "{}", again.err);
    let status = ground.run(&["approvals", "status"]).await.done();
    assert!(status.contains("held") && status.contains("are patched"), "{status}");
    // What starts nothing goes on.
    ground.run(&["hosts", "check", WEB]).await.done();

    ground.run(&["approvals", "release"]).await.done();
    ground.run(&["hosts", "approve", WEB]).await.done();
    let said = ground.run(&["approvals", "release"]).await;
    assert!(said.code == 4 && said.err.contains(&format!("{me} released them at 20")), "{}", said.err);
    // Both are told to everybody, and noted here.
    let told = ground.run(&["activity"]).await.done();
    for word in ["hold approvals", "release approvals", "the API servers are patched"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let noted: Vec<String> = ground
        .activity_file()
        .iter()
        .filter(|line| line["on"] == "approvals")
        .map(|line| format!("{} {}", line["action"].as_str().unwrap(), line["outcome"].as_str().unwrap()))
        .collect();
    let all = [
        "release approvals failed",
        "hold approvals failed",
        "hold approvals done",
        "hold approvals failed",
        "release approvals done",
        "release approvals failed",
    ];
    assert_eq!(noted, all);
}

#[tokio::test]
async fn a_retry_starts_a_change_and_is_held_and_undoing_a_rejection_is_not() {
    let cluster = Cluster::new().await;
    let server = Server::leading(&cluster).await;
    for name in [WEB, DB] {
        server.post(&host(name)).await.run(202);
    }
    let stopped = cluster.approve(WEB).await.run;
    let (kube, permit) = (&cluster.kube, cluster.permit());
    let stopped = decide::stop(kube, &permit, &stopped.name, &stopped.uid, "ann").await.unwrap().run;
    let rejected = cluster.reject(DB).await.run;
    // A mark that was left before the hold waits for its end.
    ops::approvals::hold(kube, &permit, "patching", "ann").await.unwrap();
    server.until_ready(200, |said| said["approvals"] == "held").await;
    let refused = marks::mark(kube, &permit, Wish::Retry, &(&stopped).into(), "bob").await.unwrap_err();
    assert_eq!(refused.problem("").kind, ProblemKind::Held, "{refused}");
    assert!(refused.to_string().starts_with("cannot retry web-1.example.org: approvals are held by ann"));
    let mark = hostwright::domain::Mark {
        by: "bob".into(),
        at: jiff::Timestamp::now(),
        digest: String::new(),
        answered: None,
    };
    kube.mark_run(&permit, &stopped, hostwright::domain::record::RETRY, &mark).await.unwrap();
    // The other mark comes later and is answered: the first one has been passed over.
    cluster.mark(Wish::Retry, &rejected).await;
    let runs = cluster.until("an undone rejection", |runs| runs.len() == 3).await;
    let undone = runs.iter().find(|run| run.host.as_str() == DB && run.number == 2).unwrap();
    assert_eq!(undone.phase, Phase::Pending);

    ops::approvals::release(kube, &permit, None, "ann").await.unwrap();
    let runs = cluster.until("the retry", |runs| runs.len() == 4).await;
    let retried = runs.iter().find(|run| run.host.as_str() == WEB && run.number == 2).unwrap();
    assert_eq!(retried.phase, Phase::Queued);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_hold_one_wins_and_the_other_is_told_and_so_with_release() {
    let cluster = Cluster::new().await;
    let (kube, permit) = (&cluster.kube, cluster.permit());
    let names: Vec<String> = (0..8).map(|n| format!("op-{n}")).collect();
    for round in 0..3 {
        let holds = names.iter().map(|name| ops::approvals::hold(kube, &permit, "patching", name));
        let told = join_all(holds).await;
        let won: Vec<_> = told.iter().filter_map(|one| one.as_ref().ok()).collect();
        let [winner] = won.as_slice() else { panic!("{round}: {told:?}") };
        for lost in told.iter().filter_map(|one| one.as_ref().err()) {
            assert!(matches!(lost, OpError::Held { hold, .. } if hold == *winner), "{round}: {lost}");
            assert_eq!(lost.problem("").kind, ProblemKind::Held);
        }
        let other = hostwright::domain::approvals::Hold { by: "eve".into(), ..(*winner).clone() };
        let stale = ops::approvals::release(kube, &permit, Some(&other), "bob").await.unwrap_err();
        assert!(matches!(&stale, OpError::HeldAnew(hold) if hold == *winner), "{stale}");

        let releases = names.iter().map(|name| ops::approvals::release(kube, &permit, Some(winner), name));
        let told = join_all(releases).await;
        let won = told.iter().filter(|one| one.is_ok()).count();
        assert_eq!(won, 1, "{round}: {told:?}");
        for lost in told.iter().filter_map(|one| one.as_ref().err()) {
            let name = ops::approvals::look(kube).await.unwrap().released.unwrap().by;
            assert!(lost.to_string().contains(&format!("{name} released them")), "{round}: {lost}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_keep_on_the_same_config_map_stays() {
    let ground = Ground::new().await;
    let api = ground.api::<ConfigMap>("hostwright");
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": CONFIGMAP}, "data": {"ours": "stays"}})).unwrap();
    api.create(&Default::default(), &map).await.unwrap();
    let (kube, permit) = (&ground.kube, ground.permit());
    ops::approvals::hold(kube, &permit, "patching", "ann").await.unwrap();
    ops::approvals::release(kube, &permit, None, "ann").await.unwrap();
    let data = api.get(CONFIGMAP).await.unwrap().data.unwrap();
    assert_eq!(data["ours"], "stays");
    // Written by hand, and not in our form: it holds.
    let patch = json!({"data": {"hold": "until monday"}});
    api.patch(CONFIGMAP, &Default::default(), &kube::api::Patch::Merge(&patch)).await.unwrap();
    let hold = ops::approvals::look(kube).await.unwrap().hold.unwrap();
    assert!(hold.reason.contains("cannot be read"), "{hold:?}");
    ops::approvals::release(kube, &permit, None, "ann").await.unwrap();
    assert_eq!(ops::approvals::look(kube).await.unwrap().hold, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_waits_while_approvals_are_held_and_goes_on_by_itself() {
    let cluster = Cluster::with(by_rule).await;
    let (kube, permit) = (&cluster.kube, cluster.permit());
    let server = Server::leading(&cluster).await;
    server.until_ready(200, |said| said["approvals"] == "open").await;
    server.post(&host("first.example.org")).await.run(202);
    cluster.until("the rule", |runs| runs.iter().all(|run| run.phase == Phase::Queued)).await;

    ops::approvals::hold(kube, &permit, "patching", "ann").await.unwrap();
    server.until_ready(200, |said| said["approvals"] == "held").await;
    for name in [WEB, DB] {
        server.post(&host(name)).await.run(202);
    }
    // Another server takes over: the hold is the cluster's, not the server's.
    server.stop().await;
    let server = Server::leading(&cluster).await;
    server.until_ready(200, |said| said["approvals"] == "held").await;
    // Marks are answered meanwhile: the pending runs have been passed over, several times.
    let run = cluster.of(WEB).await.run;
    cluster.mark(Wish::Check, &run).await;
    cluster.until("a check", |runs| runs.len() == 4).await;
    assert_eq!(cluster.of(WEB).await.run.phase, Phase::Pending);
    assert_eq!(cluster.of(DB).await.run.phase, Phase::Pending);
    let refused = approve(&cluster, WEB).await.unwrap_err();
    assert!(matches!(refused, OpError::Held { .. }), "{refused}");

    ops::approvals::release(kube, &permit, None, "ben").await.unwrap();
    let runs = cluster.until("the rule", |runs| runs.iter().all(|run| run.phase == Phase::Queued)).await;
    for name in [WEB, DB] {
        let run = runs.iter().find(|run| run.host.as_str() == name && run.number == 1).unwrap();
        assert_eq!(run.decision.as_ref().map(|d| d.by.as_str()), Some("rule"));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_hold_may_not_be_read_the_rule_waits_and_operators_approve() {
    let ground = Ground::new().await;
    let gate = Gate::start(&ground.url).await;
    ground::write_kubeconfig(&ground.dir.path().join("kubeconfig"), &gate.url());
    for verb in ["get", "list", "watch"] {
        gate.deny(verb, "configmaps");
    }
    pending(&ground, WEB).await;
    let mut settings = ground.settings.clone();
    by_rule(&mut settings);
    let server = Server::start_unseen(&settings).await;
    server.until_ready(200, |said| said["delivers"] == true && said["approvals"] == "unreadable").await;
    server.post(&host(DB)).await.run(202);
    server.until_ready(200, |said| said["pending"] == 2).await;
    // Full passes have gone over both when one was made for something else.
    let run = ops::runs::of_host(&ground.kube, &DB.parse().unwrap()).await.unwrap().run;
    marks::mark(&ground.kube, &ground.permit(), Wish::Check, &(&run).into(), "ann").await.unwrap();
    server.until_ready(200, |said| said["pending"] == 2).await;
    // An operator is not stopped by what he may not see.
    ground.run(&["hosts", "approve", WEB]).await.done();
    server.until_ready(200, |said| said["pending"] == 1).await;
    // Whoever may read and not watch is enough; it is asked every 10 s.
    gate.allow();
    gate.deny("watch", "configmaps");
    gate.deny("list", "configmaps");
    server.until_ready(200, |said| said["approvals"] == "open" && said["pending"] == 0).await;
    server.stop().await;
}

/// Two consoles: one holds, the other shows it and refuses, and releases.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_in_one_console_is_a_banner_in_the_other() {
    let ground = Ground::new().await;
    let run = pending(&ground, WEB).await;
    let (one, two) = (Far::at(&ground.url), Far::at(&ground.url));
    tokio::task::spawn_blocking(move || {
        let mut ann = Pty::start(one.command(&[]), (80, 24));
        wait_for_console(&mut ann);
        let mut ben = Pty::start(two.command(&[]), (80, 24));
        wait_for_console(&mut ben);
        ann.wait_for(WEB);
        ben.wait_for(WEB);
        ann.keys("H").wait_for("Hold all approvals").keys("p a t c h i n g <enter> <enter>");
        ann.wait_for("holding all approvals").wait_for("approvals held for");
        ben.wait_for("approvals held for").wait_for("patching");
        for screen in ["2", "3", "5", "6", "8"] {
            ben.keys(screen).wait_for("approvals held for");
        }
        ben.keys("1").wait_for(WEB).keys("a").wait_for("approvals are held by playground since");
        ben.keys("R").wait_for("Release approvals").keys("y").wait_for("released approvals");
        ann.wait_gone("approvals held for");
        ben.wait_gone("approvals held for").keys("a").wait_for("Approve web-1").keys("y");
        ben.wait_for("approved web-1.example.org");
        for pty in [&mut ann, &mut ben] {
            pty.keys("q");
            assert_eq!(pty.wait_exit(), 0);
        }
    })
    .await
    .unwrap();
    assert_eq!(ground.kube.run(&run.name).await.unwrap().run.phase, Phase::Queued);
    assert!(matches!(
        ops::approvals::look(&ground.kube).await,
        Ok(Approvals { hold: None, released: Some(_), .. })
    ));
}
