//! What was done is told by Events, wherever they are, and followed through breaks.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use futures_util::{Stream, StreamExt};
use hostwright::backend::kube::{About, ActivityEvent, Kube, KubeErrorKind};
use hostwright::config::Kubernetes;
use hostwright::domain::activity::{Activity, Deed, Ending};
use hostwright::ops::decide::{self, Changes, Seen};
use hostwright::ops::{activity, announce};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::ground::{Ground, answering, write_kubeconfig};
use crate::proxy::Proxy;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn everything_that_was_done_is_listed_newest_first() {
    let ground = Ground::new().await;
    let (kube, permit) = (&ground.kube, ground.permit());
    let announcement = crate::stage::announcement(&json!({}));
    let run = announce::announce(kube, &permit, &ground.template(), &announcement, false).await.unwrap().run;
    let before = Timestamp::now();
    let seen = Seen::from(&run);
    let environment = &ground.settings.environment;
    decide::approve(kube, &permit, environment, &seen, &Changes::default(), "ann").await.unwrap();
    ground.run(&["targets", "add", "web-1.example.org"]).await.done();
    let token = ground.run(&["tokens", "create"]).await.done();
    kube.report(&permit, &About::from(&run), Deed::Deliver, "a\u{1b}[2Jb", "server").await;

    let json = ground.run(&["activity", "-o", "json"]).await.json();
    let list = json["activities"].as_array().unwrap();
    let actions: Vec<&str> = list.iter().map(|a| a["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["deliver", "create token", "add targets", "approve"]);
    assert_eq!((&list[3]["who"], &list[3]["on"]), (&json!("ann"), &json!(format!("run {}", run.name))));
    assert_eq!(list[1]["on"], json!(format!("token {}", token.split('.').next().unwrap())));
    assert_eq!(list[0]["text"], "a\u{1b}[2Jb", "exact for programs");
    assert!(json["since"].as_str().unwrap().parse::<Timestamp>().unwrap() < before);
    let said = ground.run(&["activity"]).await;
    assert!(said.err.contains("this goes back to"), "{}", said.err);
    let table = said.done();
    assert!(table.contains("add targets") && !table.contains('\u{1b}'), "{table}");
    assert_eq!(table.lines().count(), 5);

    let since = activity::list(kube, environment, Some(list[1]["at"].as_str().unwrap().parse().unwrap()))
        .await
        .unwrap();
    assert_eq!(since.activities.len(), 2);
    assert_eq!(ground.run(&["activity", "--since", "a while"]).await.code, 2);
    assert_eq!(
        ground.run(&["activity", "--since", "10m", "-o", "yaml"]).await.done().matches("who:").count(),
        4
    );
}

#[tokio::test]
async fn what_is_done_meanwhile_is_printed_once() {
    let ground = Ground::new().await;
    ground.run(&["targets", "add", "web-1.example.org"]).await.done();
    let mut following = ground.command(&["activity", "-f", "-o", "json"]);
    let mut following = following.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line =
            tokio::time::timeout(LONG, lines.next_line()).await.expect("a line in time").unwrap().unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        line["action"].as_str().unwrap().to_owned()
    };
    assert_eq!(next().await, "add targets");
    ground.run(&["targets", "label", "web-1.example.org", "a=b"]).await.done();
    assert_eq!(next().await, "label targets");
    let token = ground.run(&["tokens", "create"]).await.done();
    assert_eq!(next().await, "create token");
    ground.run(&["tokens", "delete", token.trim()]).await.done();
    assert_eq!(next().await, "delete token");
    following.kill().await.unwrap();
}

/// Waits for a deed with this text.
async fn told(events: &mut (impl Stream<Item = ActivityEvent> + Unpin), text: &str) -> Activity {
    let look = async {
        loop {
            let Some(event) = events.next().await else { panic!("the watch has ended") };
            if let ActivityEvent::Seen(batch) = event
                && let Some(found) = batch.into_iter().find(|a| a.text == text)
            {
                return found;
            }
        }
    };
    tokio::time::timeout(LONG, look).await.expect("the deed in time")
}

#[tokio::test]
async fn the_watch_heals_itself() {
    let ground = Ground::new().await;
    let proxy = Proxy::start(ground.url.rsplit(':').next().unwrap().parse().unwrap()).await;
    let kubeconfig = ground.dir.path().join("proxied");
    write_kubeconfig(&kubeconfig, &format!("http://127.0.0.1:{}", proxy.port()));
    let place = Kubernetes { kubeconfig: Some(kubeconfig), context: None, namespace: None };
    let kube = Kube::connect(&place).await.unwrap();
    let mut events = pin!(activity::watch(&kube, &ground.settings.environment));
    let report = async |text: &str| {
        ground.kube.report(&ground.permit(), &About::Other("x".to_owned()), Deed::Drop, text, "ann").await;
    };
    report("one").await;
    let one = told(&mut events, "one").await;
    assert_eq!((one.who.as_str(), one.action.as_str(), one.outcome), ("ann", "drop", Ending::Done));
    proxy.cut();
    report("two").await;
    told(&mut events, "two").await;
}

/// An API server that lets us see and write Events only in the namespace of the runs.
#[derive(Clone, Default)]
struct Narrow(Arc<Mutex<Vec<Value>>>);

impl Narrow {
    async fn start() -> (Self, Kube, tempfile::TempDir) {
        let narrow = Self::default();
        let events = "/apis/events.k8s.io/v1/namespaces/{namespace}/events";
        let router =
            Router::new().route(events, get(Self::list).post(Self::create)).with_state(narrow.clone());
        let (kube, dir) = answering(router).await;
        (narrow, kube, dir)
    }

    fn forbidden() -> (StatusCode, Json<Value>) {
        let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"});
        (StatusCode::FORBIDDEN, Json(status))
    }

    async fn list(State(narrow): State<Self>, Path(namespace): Path<String>) -> (StatusCode, Json<Value>) {
        if namespace != "hostwright" {
            return Self::forbidden();
        }
        let items = narrow.0.lock().unwrap().clone();
        let list = json!({"kind": "EventList", "apiVersion": "events.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": items});
        (StatusCode::OK, Json(list))
    }

    async fn create(
        State(narrow): State<Self>,
        Path(namespace): Path<String>,
        Json(mut event): Json<Value>,
    ) -> (StatusCode, Json<Value>) {
        if namespace != "hostwright" {
            return Self::forbidden();
        }
        event["metadata"]["name"] = json!("x.1");
        event["metadata"]["uid"] = json!("u");
        narrow.0.lock().unwrap().push(event.clone());
        (StatusCode::CREATED, Json(event))
    }
}

#[tokio::test]
async fn where_nothing_may_be_seen_or_told_the_own_namespace_has_to_do() {
    let ground = Ground::new().await;
    let (_narrow, kube, _dir) = Narrow::start().await;
    kube.report(&ground.permit(), &About::Token("abcdef".into()), Deed::CreateToken, "made", "ann").await;
    let known = activity::list(&kube, &ground.settings.environment, None).await.unwrap();
    let unseen: Vec<&str> = known.unseen.iter().map(|problem| problem.subject.as_str()).collect();
    assert_eq!(unseen, ["default", "kube-system"]);
    let [told] = known.activities.as_slice() else { panic!("{known:?}") };
    assert_eq!((told.action.as_str(), told.text.as_str()), ("create token", "token abcdef: made"));

    // What is forbidden is said once, and is not asked for again and again.
    let mut events = pin!(activity::watch(&kube, &ground.settings.environment));
    let mut forbidden = 0;
    let mut seen = false;
    let look = async {
        while forbidden < 2 || !seen {
            match events.next().await {
                Some(ActivityEvent::Failed(error, _)) => {
                    forbidden += usize::from(error.kind == KubeErrorKind::Forbidden);
                }
                Some(ActivityEvent::Seen(_)) => seen = true,
                Some(ActivityEvent::Listed) => {}
                None => panic!("the watch has ended"),
            }
        }
    };
    tokio::time::timeout(LONG, look).await.expect("both in time");
}
