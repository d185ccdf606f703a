//! What is too old: the version that a watch goes on from, and the run that an approval is of.

use hostwright::domain::Phase;
use k8s_openapi::api::batch::v1::Job;
use kube::api::DeleteParams;

use crate::console::{Far, wait_for_console};
use crate::gate::{Expiry, Gate, Request};
use crate::ground::Ground;
use crate::operators::pending;
use crate::proxy::Proxy;
use crate::pty::Pty;

/// What was asked of jobs, from the request on that was told that its version is too old.
fn asked_after(gate: &Gate) -> Vec<Request> {
    let asked = gate.seen().into_iter().filter(|request| request.resource == "jobs");
    asked.skip_while(|request| !request.expired).collect()
}

/// S01: in both shapes the rows stay, are said to be old, and are complete again after one list.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_version_is_too_old_lists_once_and_no_row_is_missing_meanwhile() {
    for shape in [Expiry::Refused, Expiry::Event] {
        let ground = Ground::new().await;
        let gone = pending(&ground, "web-1.example.org").await;
        pending(&ground, "web-2.example.org").await;
        let gate = Gate::start(&ground.url).await;
        let proxy = Proxy::start(gate.port()).await;
        let far = Far::at(&format!("http://127.0.0.1:{}", proxy.port()));
        let mut pty = Pty::start(far.command(&[]), (120, 40));
        pty.wait_for("web-1.example.org").wait_for("web-2.example.org");
        let from = pty.mark();
        // The line breaks; what happens until it is there again no watch tells.
        proxy.stall();
        proxy.cut();
        pty.wait_for("as of");
        ground.api::<Job>("hostwright").delete(&gone.name, &Default::default()).await.unwrap();
        pending(&ground, "web-3.example.org").await;
        gate.expire(shape);
        proxy.cut();
        proxy.go_on();
        pty.wait_for("web-3.example.org").wait_gone("web-1.example.org").wait_gone("as of");
        // It goes on watching: what comes now is seen.
        pending(&ground, "web-4.example.org").await;
        pty.wait_for("web-4.example.org");
        for screen in pty.frames(from) {
            assert!(screen.contains("web-2.example.org"), "{shape:?}: a frame without its row:\n{screen}");
            let rows = screen.matches("web-2.example.org").count();
            let old = screen.contains("web-1.example.org");
            assert!(!old || !screen.contains("web-4.example.org"), "{shape:?}: a ghost:\n{screen}");
            assert!(rows <= 2, "{shape:?}: doubled, in the table and its details:\n{screen}");
        }
        let verbs: Vec<&str> = asked_after(&gate).iter().map(|request| request.verb).collect();
        assert_eq!(verbs, ["watch", "list", "watch"], "{shape:?}");
        pty.keys("q");
        assert_eq!(pty.wait_exit(), 0);
    }
}

/// S01: a server that says so again and again is not asked faster and faster.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_always_says_so_is_asked_with_growing_pauses() {
    let ground = Ground::new().await;
    pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    for shape in [Expiry::Refused, Expiry::Event, Expiry::Refused, Expiry::Event] {
        gate.expire(shape);
    }
    let far = Far::at(&gate.url());
    let mut pty = Pty::start(far.command(&[]), (120, 40));
    pty.wait_for("web-1.example.org");
    pending(&ground, "web-2.example.org").await;
    pty.wait_for("web-2.example.org").wait_gone("as of");
    pty.wait_until("the watch that stays", |_| {
        asked_after(&gate).last().is_some_and(|r| !r.expired && r.verb == "watch")
    });
    let asked = asked_after(&gate);
    let watches: Vec<&Request> = asked.iter().filter(|request| request.verb == "watch").collect();
    let lists = asked.iter().filter(|request| request.verb == "list").count();
    let told: Vec<_> =
        asked.iter().map(|request| (request.verb, request.expired, request.at - asked[0].at)).collect();
    assert_eq!((watches.len(), lists), (5, 4), "one list for each: {told:?}");
    for (pair, pause) in watches.windows(2).zip([0.5, 1.0, 2.0, 4.0]) {
        let waited = (pair[1].at - pair[0].at).as_secs_f64();
        assert!(waited >= 0.9 * pause, "{told:?}");
    }
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// E08: an approval of what is there no more changes nothing and says why, in the console and in the command.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_of_a_run_that_is_gone_says_so_and_of_one_that_called_again_asks_anew() {
    let ground = Ground::new().await;
    let gone = pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    // What happens to runs is seen late: the server's answer is what counts.
    gate.deny("watch", "jobs");
    let far = Far::at(&gate.url());
    let mut pty = Pty::start(far.command(&[]), (160, 50));
    wait_for_console(&mut pty);
    pty.wait_for("web-1.example.org").keys("a").wait_for("Approve web-1");
    ground.api::<Job>("hostwright").delete(&gone.name, &DeleteParams::background()).await.unwrap();
    // It calls again: a run of the same name that is another one.
    let again = pending(&ground, "web-1.example.org").await;
    assert_eq!(again.name, gone.name);
    pty.keys("y").wait_until("the question to go", |screen| !screen.contents().contains("Approve web-1"));
    pty.keys("m").wait_for("Messages").wait_for("any more: another one");
    assert_eq!(
        ground.kube.run(&again.name).await.unwrap().run.phase,
        Phase::Pending,
        "nobody looked at that one"
    );
    pty.keys("<esc>").wait_gone("Messages").keys("q");
    assert_eq!(pty.wait_exit(), 0);
    ground.api::<Job>("hostwright").delete(&again.name, &DeleteParams::background()).await.unwrap();
    let said = ground.run(&["hosts", "approve", "web-1.example.org"]).await;
    assert_eq!(said.code, 3, "{}{}", said.out, said.err);
}
