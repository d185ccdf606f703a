//! The playground's Kubernetes API, through the real client.
//!
//! What holds for every API server asks [`client`] for one, which is a real one where there is one, and works in a namespace of its
//! own; what only the playground's does starts a [`Server`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::future::Future;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures_util::{AsyncBufReadExt, AsyncReadExt, StreamExt, TryStreamExt, future::join_all};
use hostwright::play::api::{Api, ApiError, Gone, Options};
use http_body_util::BodyExt;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{
    DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    WatchEvent, WatchParams,
};
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::runtime::watcher;
use kube::{Client, Config, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support;
use crate::support::apiserver::ApiServer;

const CA: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

/// The playground's API on a free port.
struct Server {
    url: String,
    dir: TempDir,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), ApiError>>,
}

impl Server {
    async fn start() -> Self {
        Self::with(tempfile::tempdir().unwrap(), |_| {}).await
    }

    async fn with(dir: TempDir, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(dir.path().join("logs"), CA, "https://127.0.0.1:6443");
        options.state = Some(dir.path().join("state"));
        change(&mut options);
        let api = Api::open(options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(api.run(listener, shutdown.clone()));
        Self { url, dir, shutdown, running }
    }

    fn client(&self) -> Client {
        Client::try_from(Config::new(self.url.parse().unwrap())).unwrap()
    }

    async fn stop(self) -> TempDir {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
        self.dir
    }
}

/// A client of the API server that the tests for all servers run against, and what keeps it alive.
async fn client() -> (Client, (ApiServer, TempDir)) {
    let dir = support::temp();
    let server = ApiServer::start(dir.path()).await;
    (server.client(), (server, dir))
}

/// A namespace of the test's own.
async fn namespace(client: &Client) -> String {
    let api = all::<Namespace>(client);
    let namespace = object(json!({ "metadata": { "generateName": "test-" } }));
    api.create(&PostParams::default(), &namespace).await.unwrap().name_any()
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn value<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap()
}

fn all<K: Resource<Scope = ClusterResourceScope, DynamicType = ()>>(client: &Client) -> kube::Api<K> {
    kube::Api::all(client.clone())
}

fn within<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(
    client: &Client,
    ns: &str,
) -> kube::Api<K> {
    kube::Api::namespaced(client.clone(), ns)
}

fn post() -> PostParams {
    PostParams::default()
}

fn map(name: &str) -> ConfigMap {
    object(json!({ "metadata": { "name": name }, "data": { "k": "v" } }))
}

fn job(name: &str) -> Job {
    object(json!({
        "metadata": { "name": name },
        "spec": {
            "suspend": true,
            "template": {
                "metadata": { "annotations": { "a": "1" } },
                "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "hostwright:1" }] },
            },
        },
    }))
}

fn pod(name: &str) -> Pod {
    object(json!({
        "metadata": { "name": name },
        "spec": { "nodeName": "here", "containers": [{ "name": "main", "image": "hostwright:1" }] },
    }))
}

fn owned_pod(name: &str, owner: &Job, more: &Value) -> Pod {
    let mut reference = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": owner.name_any(), "uid": owner.uid().unwrap() });
    reference.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut pod = value(&pod(name));
    pod["metadata"]["ownerReferences"] = json!([reference]);
    object(pod)
}

/// The code and reason of a refusal.
fn refused<T>(result: Result<T, kube::Error>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        Err(other) => panic!("no answer of the API: {other}"),
        Ok(_) => panic!("it was accepted"),
    }
}

fn soon<'a, T: 'a>(what: impl Future<Output = T> + 'a) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(async { tokio::time::timeout(Duration::from_secs(20), what).await.expect("not in 20 s") })
}

async fn merge<K: Clone + DeserializeOwned + std::fmt::Debug>(
    api: &kube::Api<K>,
    name: &str,
    patch: Value,
) -> kube::Result<K> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

async fn merge_status<K: DeserializeOwned>(api: &kube::Api<K>, name: &str, status: Value) -> kube::Result<K> {
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await
}

/// A request past the client's types: the code and the body.
async fn raw(
    client: &Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> (u16, Value) {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let response = client.send(request.body(body.into()).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

/// The lines of a watch.
async fn lines(client: &Client, path: &str) -> impl futures_util::Stream<Item = Value> + use<> {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client
        .request_stream(request)
        .await
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn seen(line: &Value) -> (String, String) {
    let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/type"), text("/object/metadata/name"))
}

// What holds for every API server.

#[tokio::test]
async fn a_job_gets_what_an_api_server_gives() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let jobs = within::<Job>(&client, &ns);
    let made = value(&jobs.create(&post(), &job("a")).await.unwrap());
    let uid = made["metadata"]["uid"].as_str().unwrap();
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["selector"]["matchLabels"], json!({ "batch.kubernetes.io/controller-uid": uid }));
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    });
    assert_eq!(made["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(
        jobs.get("a").await.unwrap().labels().len(),
        4,
        "a Job without labels has those of its template"
    );
    for (field, expected) in [
        ("backoffLimit", json!(6)),
        ("parallelism", json!(1)),
        ("completions", json!(1)),
        ("completionMode", json!("NonIndexed")),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        assert_eq!(made["spec"][field], expected, "{field}");
    }
    assert_eq!(made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 30);

    let (code, reason, message) = refused(jobs.create(&post(), &job("a")).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(message, "jobs.batch \"a\" already exists");
    let (code, reason, message) = refused(jobs.get("b").await);
    assert_eq!((code, reason.as_str()), (404, "NotFound"));
    assert_eq!(message, "jobs.batch \"b\" not found");
    let (code, _, message) = refused(within::<Job>(&client, "nowhere").create(&post(), &job("a")).await);
    assert_eq!((code, message.as_str()), (404, "namespaces \"nowhere\" not found"));
}

#[tokio::test]
async fn twenty_parallel_creations_make_one() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let jobs = within::<Job>(&client, &ns);
    let (params, same) = (post(), job("same"));
    let results = join_all((0..20).map(|_| jobs.create(&params, &same))).await;
    let (made, refusals): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), 1);
    for refusal in refusals {
        assert_eq!(refused(refusal).1, "AlreadyExists");
    }
    let base: ConfigMap = object(json!({ "metadata": { "generateName": "many-" } }));
    let maps = within::<ConfigMap>(&client, &ns);
    let names = join_all((0..20).map(|_| maps.create(&params, &base))).await;
    let names: std::collections::BTreeSet<_> = names.into_iter().map(|m| m.unwrap().name_any()).collect();
    assert_eq!(names.len(), 20);
}

#[tokio::test]
async fn fifty_writers_lose_nothing() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let maps = within::<ConfigMap>(&client, &ns);
    maps.create(&post(), &map("list")).await.unwrap();
    let write = |n: usize| {
        let maps = maps.clone();
        async move {
            loop {
                let mut map = maps.get("list").await.unwrap();
                map.data.as_mut().unwrap().insert(format!("entry-{n}"), "x".into());
                match maps.replace("list", &post(), &map).await {
                    Ok(_) => return,
                    Err(kube::Error::Api(status)) if status.reason == "Conflict" => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
    };
    soon(join_all((0..50).map(write))).await;
    assert_eq!(maps.get("list").await.unwrap().data.unwrap().len(), 51);
}

#[tokio::test]
async fn pages_show_one_moment() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let maps = within::<ConfigMap>(&client, &ns);
    for n in 10..35 {
        let labelled: ConfigMap =
            object(json!({ "metadata": { "name": format!("m-{n}"), "labels": { "page": "yes" } } }));
        maps.create(&post(), &labelled).await.unwrap();
    }
    let first = maps.list(&ListParams::default().labels("page=yes").limit(10)).await.unwrap();
    assert_eq!(first.items.len(), 10);
    assert_eq!(first.metadata.remaining_item_count, None);
    let moment = first.metadata.resource_version.clone();
    // One goes, one comes, one changes: none of it is of that moment.
    maps.delete("m-30", &DeleteParams::default()).await.unwrap();
    maps.create(&post(), &object(json!({ "metadata": { "name": "m-305", "labels": { "page": "yes" } } })))
        .await
        .unwrap();
    merge(&maps, "m-31", json!({ "metadata": { "labels": { "page": "no" } } })).await.unwrap();
    let mut names: Vec<String> = first.items.iter().map(ResourceExt::name_any).collect();
    let mut token = first.metadata.continue_.unwrap();
    loop {
        let params = ListParams::default().labels("page=yes").limit(10).continue_token(&token);
        let page = maps.list(&params).await.unwrap();
        assert_eq!(page.metadata.resource_version, moment);
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|t| !t.is_empty()) {
            Some(next) => token = next,
            None => break,
        }
    }
    assert_eq!(names, (10..35).map(|n| format!("m-{n}")).collect::<Vec<_>>());

    let counted = maps.list(&ListParams::default().limit(1)).await.unwrap();
    assert!(counted.metadata.remaining_item_count.unwrap() >= 24);
    let wrong = ListParams::default().limit(1).continue_token("what");
    assert_eq!(refused(maps.list(&wrong).await).0, 400);
}

#[tokio::test]
async fn selectors_pick() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let pods = within::<Pod>(&client, &ns);
    for (name, tier) in [("a", "1"), ("b", "2"), ("c", "")] {
        let mut labelled = pod(name);
        if !tier.is_empty() {
            labelled.labels_mut().insert("tier".into(), tier.into());
        }
        pods.create(&post(), &labelled).await.unwrap();
    }
    merge_status(&pods, "b", json!({ "phase": "Running" })).await.unwrap();
    let names = async |labels: &str, fields: &str| {
        let everywhere: kube::Api<Pod> = kube::Api::all(client.clone());
        let fields = format!("metadata.namespace={ns}{fields}");
        let found = everywhere.list(&ListParams::default().labels(labels).fields(&fields)).await.unwrap();
        found.items.iter().map(ResourceExt::name_any).collect::<String>()
    };
    assert_eq!(names("tier", "").await, "ab");
    assert_eq!(names("!tier", "").await, "c");
    assert_eq!(names("tier in (1,3)", "").await, "a");
    assert_eq!(names("tier notin (1)", "").await, "bc");
    assert_eq!(names("tier!=1,tier", "").await, "b");
    assert_eq!(names("", ",status.phase=Running").await, "b");
    assert_eq!(names("", ",status.phase!=Running,metadata.name!=c").await, "a");
    assert_eq!(refused(pods.list(&ListParams::default().fields("spec.nonsense=1")).await).0, 400);
    assert_eq!(refused(pods.list(&ListParams::default().labels("a in b")).await).0, 400);
}

#[tokio::test]
async fn a_watch_shows_what_its_selector_sees() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let maps = within::<ConfigMap>(&client, &ns);
    let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let params = WatchParams::default().labels("on=yes").timeout(20);
    let mut watch = pin!(maps.watch(&params, &start).await.unwrap());
    maps.create(&post(), &map("m")).await.unwrap();
    let label = |on: Option<&str>| json!({ "metadata": { "labels": { "on": on } } });
    merge(&maps, "m", label(Some("yes"))).await.unwrap();
    merge(&maps, "m", json!({ "data": { "k": "w" } })).await.unwrap();
    let out = merge(&maps, "m", label(None)).await.unwrap();
    merge(&maps, "m", label(Some("yes"))).await.unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let mut events = Vec::new();
    while events.len() < 5 {
        events.push(soon(watch.try_next()).await.unwrap().unwrap());
    }
    match events.as_slice() {
        [
            WatchEvent::Added(_),
            WatchEvent::Modified(changed),
            WatchEvent::Deleted(left),
            WatchEvent::Added(_),
            WatchEvent::Deleted(gone),
        ] => {
            assert_eq!(changed.data.as_ref().unwrap()["k"], "w");
            // It shows the last state that matched, under the version in which it ceased to.
            assert_eq!(left.labels()["on"], "yes");
            assert_eq!(left.resource_version(), out.resource_version());
            assert_eq!(gone.metadata.deletion_timestamp, None);
            let version = |m: &ConfigMap| m.resource_version().unwrap().parse::<u64>().unwrap();
            assert!(version(gone) > version(left));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_runtime_follows() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let jobs = within::<Job>(&client, &ns);
    jobs.create(&post(), &job("a")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut stream = pin!(watcher(jobs.clone(), config.page_size(100)));
        let mut next = async || soon(stream.try_next()).await.unwrap().unwrap();
        assert!(matches!(next().await, watcher::Event::Init));
        assert!(matches!(next().await, watcher::Event::InitApply(job) if job.name_any() == "a"));
        assert!(matches!(next().await, watcher::Event::InitDone));
        jobs.create(&post(), &job("b")).await.unwrap();
        assert!(matches!(next().await, watcher::Event::Apply(job) if job.name_any() == "b"));
        jobs.delete("b", &DeleteParams::background()).await.unwrap();
        assert!(matches!(next().await, watcher::Event::Delete(job) if job.name_any() == "b"));
    }
}

#[tokio::test]
async fn writes_conflict_when_they_should() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let maps = within::<ConfigMap>(&client, &ns);
    let first = maps.create(&post(), &map("m")).await.unwrap();
    let second = merge(&maps, "m", json!({ "data": { "k": "w" } })).await.unwrap();
    assert_ne!(first.resource_version(), second.resource_version());

    let (code, reason, message) = refused(maps.replace("m", &post(), &first).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(
        message,
        "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    let stale = json!({ "metadata": { "resourceVersion": first.resource_version() }, "data": { "k": "x" } });
    assert_eq!(refused(merge(&maps, "m", stale).await).1, "Conflict");
    let current =
        json!({ "metadata": { "resourceVersion": second.resource_version() }, "data": { "k": "x" } });
    let third = merge(&maps, "m", current).await.unwrap();

    // A write that changes nothing is no write.
    let same = merge(&maps, "m", json!({ "data": { "k": "x", "no": null } })).await.unwrap();
    assert_eq!(same.resource_version(), third.resource_version());
    let same = maps.replace("m", &post(), &third).await.unwrap();
    assert_eq!(same.resource_version(), third.resource_version());
    // Without a version the last writer wins.
    let mut blind = map("m");
    blind.data.as_mut().unwrap().insert("k".into(), "blind".into());
    assert_eq!(maps.replace("m", &post(), &blind).await.unwrap().data, blind.data);

    let mut other = map("m");
    other.metadata.uid = Some("00000000-0000-4000-8000-000000000000".into());
    assert_eq!(refused(maps.replace("m", &post(), &other).await).1, "Conflict");
    assert_eq!(refused(maps.replace("m", &post(), &map("n")).await).0, 400);
    assert_eq!(refused(maps.replace("n", &post(), &map("n")).await).1, "NotFound");

    let leases = within::<Lease>(&client, &ns);
    let lease: Lease = object(json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "a" } }));
    leases.create(&post(), &lease).await.unwrap();
    assert_eq!(refused(leases.replace("l", &post(), &lease).await).1, "Invalid");
}

#[tokio::test]
async fn deletion_heeds_preconditions_and_finalizers() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let maps = within::<ConfigMap>(&client, &ns);
    let held: ConfigMap =
        object(json!({ "metadata": { "name": "m", "finalizers": ["hostwright.dev/queue"] }, "data": {} }));
    let made = maps.create(&post(), &held).await.unwrap();
    let only = |uid: Option<&str>, version: Option<&str>| {
        let preconditions =
            Preconditions { uid: uid.map(str::to_owned), resource_version: version.map(str::to_owned) };
        DeleteParams::default().preconditions(preconditions)
    };
    let (code, reason, _) = refused(maps.delete("m", &only(Some("else"), None)).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(refused(maps.delete("m", &only(None, Some("1"))).await).1, "Conflict");

    let uid = made.uid().unwrap();
    let going = maps.delete("m", &only(Some(&uid), None)).await.unwrap().left().unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    let again = maps.delete("m", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(again.resource_version(), going.resource_version());
    let more = json!({ "metadata": { "finalizers": ["hostwright.dev/queue", "hostwright.dev/other"] } });
    assert_eq!(refused(merge(&maps, "m", more).await).1, "Invalid");
    // It may still change while it goes.
    merge(&maps, "m", json!({ "data": { "k": "w" } })).await.unwrap();
    merge(&maps, "m", json!({ "metadata": { "finalizers": null } })).await.unwrap();
    assert!(maps.get_opt("m").await.unwrap().is_none());

    maps.create(&post(), &map("m")).await.unwrap();
    let done = maps.delete("m", &DeleteParams::default()).await.unwrap().right().unwrap();
    assert!(done.is_success());
    assert_eq!(refused(maps.delete("m", &DeleteParams::default()).await).1, "NotFound");
}

#[tokio::test]
async fn a_running_pod_has_its_grace() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let pods = within::<Pod>(&client, &ns);
    pods.create(&post(), &pod("p")).await.unwrap();
    let going = pods.delete("p", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    let shorter = pods.delete("p", &DeleteParams::default().grace_period(5)).await.unwrap().left().unwrap();
    assert_eq!(shorter.metadata.deletion_grace_period_seconds, Some(5));
    assert!(shorter.metadata.deletion_timestamp < going.metadata.deletion_timestamp);
    let longer = pods.delete("p", &DeleteParams::default().grace_period(60)).await.unwrap().left().unwrap();
    assert_eq!(longer.resource_version(), shorter.resource_version());
    // Nothing but its kubelet's word ends it.
    merge_status(&pods, "p", json!({ "phase": "Failed" })).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_some());
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
    // What never ran goes at once.
    let mut idle = pod("q");
    idle.spec.as_mut().unwrap().node_name = None;
    pods.create(&post(), &idle).await.unwrap();
    pods.delete("q", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("q").await.unwrap().is_none());
}

#[tokio::test]
async fn a_template_is_frozen_once_its_job_has_started() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let jobs = within::<Job>(&client, &ns);
    jobs.create(&post(), &job("a")).await.unwrap();
    let note =
        |text: &str| json!({ "spec": { "template": { "metadata": { "annotations": { "a": text } } } } });
    let noted = merge(&jobs, "a", note("2")).await.unwrap();
    assert_eq!(noted.metadata.generation, Some(2));
    let image =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "x" }] } } } });
    let (code, reason, message) = refused(merge(&jobs, "a", image).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(message.contains("spec.template") && message.contains("field is immutable"), "{message}");
    for fixed in [
        json!({ "spec": { "completions": 2 } }),
        json!({ "spec": { "selector": { "matchLabels": { "a": "b" } } } }),
        json!({ "spec": { "completionMode": "Indexed" } }),
    ] {
        assert_eq!(refused(merge(&jobs, "a", fixed).await).1, "Invalid");
    }
    // The decision: the last change of the template, together with the start.
    let mut decision = note("3");
    decision["spec"]["suspend"] = json!(false);
    merge(&jobs, "a", decision).await.unwrap();
    assert_eq!(refused(merge(&jobs, "a", note("4")).await).1, "Invalid");
    merge_status(&jobs, "a", json!({ "startTime": "2026-12-01T10:00:00Z", "active": 1 })).await.unwrap();
    merge(&jobs, "a", json!({ "spec": { "suspend": true } })).await.unwrap();
    assert_eq!(refused(merge(&jobs, "a", note("4")).await).1, "Invalid");
    // Labels and annotations of the Job itself are free.
    merge(&jobs, "a", json!({ "metadata": { "annotations": { "b": "1" }, "labels": { "c": "d" } } }))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_status_goes_only_where_it_may() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let jobs = within::<Job>(&client, &ns);
    let mut started = job("a");
    started.spec.as_mut().unwrap().suspend = Some(false);
    let made = jobs.create(&post(), &started).await.unwrap();
    // The main endpoint leaves the status alone, the other everything else. (The first change of a Job counts as one whatever it says.)
    let same = merge(&jobs, "a", json!({ "status": { "active": 3 } })).await.unwrap();
    assert_eq!(same.status.as_ref().and_then(|status| status.active), None);
    assert_eq!(same.metadata.generation, made.metadata.generation);
    let again = merge(&jobs, "a", json!({ "status": { "active": 4 } })).await.unwrap();
    assert_eq!(again.resource_version(), same.resource_version());
    let patch = json!({ "spec": { "backoffLimit": 1 }, "status": { "startTime": "2026-12-01T10:00:00Z", "active": 1 } });
    let running = jobs.patch_status("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(running.spec.unwrap().backoff_limit, Some(6));
    assert_eq!(running.status.unwrap().active, Some(1));
    assert_eq!(running.metadata.generation, Some(1));

    let on =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-12-01T10:00:05Z" });
    let end = json!("2026-12-01T10:00:05Z");
    for wrong in [
        json!({ "conditions": [on("Complete")], "completionTime": end, "active": 0 }),
        json!({ "conditions": [on("SuccessCriteriaMet"), on("Complete")], "active": 0 }),
        json!({ "conditions": [on("SuccessCriteriaMet"), on("Complete")], "completionTime": end, "active": 1 }),
        json!({ "conditions": [on("Failed")], "active": 0 }),
        json!({ "completionTime": end }),
        json!({ "startTime": "2026-12-01T11:00:00Z" }),
        json!({ "ready": 2 }),
    ] {
        assert_eq!(refused(merge_status(&jobs, "a", wrong.clone()).await).1, "Invalid", "{wrong}");
    }
    let complete = json!({
        "conditions": [on("SuccessCriteriaMet"), on("Complete")], "completionTime": end, "active": 0, "succeeded": 1,
    });
    merge_status(&jobs, "a", complete).await.unwrap();
    let reopened = json!({ "conditions": [], "completionTime": null });
    assert_eq!(refused(merge_status(&jobs, "a", reopened).await).1, "Invalid");
}

#[tokio::test]
async fn what_is_too_large_or_misnamed_is_refused() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let (jobs, maps) = (within::<Job>(&client, &ns), within::<ConfigMap>(&client, &ns));
    for name in ["Upper", "-a", "a_b", &"x".repeat(64)] {
        assert_eq!(refused(jobs.create(&post(), &job(name)).await).1, "Invalid", "{name}");
    }
    jobs.create(&post(), &job(&"x".repeat(63))).await.unwrap();
    let with = |metadata: Value| object::<ConfigMap>(json!({ "metadata": metadata }));
    for metadata in [
        json!({ "name": "m", "labels": { "a": "v".repeat(64) } }),
        json!({ "name": "m", "labels": { "a": "-" } }),
        json!({ "name": "m", "labels": { "a/b/c": "" } }),
        json!({ "name": "m", "annotations": { "a": "v".repeat(256 * 1024) } }),
        json!({ "name": "m", "finalizers": ["bare"] }),
        json!({}),
    ] {
        assert_eq!(refused(maps.create(&post(), &with(metadata)).await).1, "Invalid");
    }
    let fits = json!({ "name": "m", "annotations": { "a": "v".repeat(256 * 1024 - 1) } });
    maps.create(&post(), &with(fits)).await.unwrap();

    let mib = 1024 * 1024;
    let full: ConfigMap = object(json!({ "metadata": { "name": "full" }, "data": { "k": "x".repeat(mib) } }));
    maps.create(&post(), &full).await.unwrap();
    let (code, reason, message) = refused(merge(&maps, "full", json!({ "data": { "l": "x" } })).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(message.contains("1048576"), "{message}");
    let secrets = within::<Secret>(&client, &ns);
    let over: Secret =
        object(json!({ "metadata": { "name": "s" }, "stringData": { "k": "x".repeat(mib + 1) } }));
    assert_eq!(refused(secrets.create(&post(), &over).await).1, "Invalid");
    let huge: ConfigMap =
        object(json!({ "metadata": { "name": "huge" }, "data": { "k": "x".repeat(4 * mib) } }));
    let (code, reason, _) = refused(maps.create(&post(), &huge).await);
    assert_eq!((code, reason.as_str()), (413, "RequestEntityTooLarge"));

    let mut always = value(&job("r"));
    always["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    assert_eq!(refused(jobs.create(&post(), &object(always)).await).1, "Invalid");
}

#[tokio::test]
async fn secrets_take_plain_text() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let secrets = within::<Secret>(&client, &ns);
    let secret: Secret = object(json!({ "metadata": { "name": "s" }, "stringData": { "k": "v" } }));
    let made = secrets.create(&post(), &secret).await.unwrap();
    assert_eq!(made.data.unwrap()["k"].0, b"v");
    assert_eq!(made.string_data, None);
    assert_eq!(made.type_.as_deref(), Some("Opaque"));
    assert_eq!(refused(merge(&secrets, "s", json!({ "type": "other" })).await).1, "Invalid");
}

#[tokio::test]
async fn both_groups_show_the_same_events() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let (new, core) = (within::<Event>(&client, &ns), within::<CoreEvent>(&client, &ns));
    let mut event = json!({
        "metadata": { "name": "e" },
        "eventTime": "2026-12-01T10:00:00.000000Z",
        "regarding": { "apiVersion": "batch/v1", "kind": "Job", "name": "a", "namespace": ns },
        "reportingController": "hostwright.dev/server",
        "reportingInstance": "one",
        "action": "Approve",
        "reason": "Approved",
        "type": "Normal",
        "note": "approved by jo",
    });
    new.create(&post(), &object(event.clone())).await.unwrap();
    let shown = value(&core.get("e").await.unwrap());
    assert_eq!(shown["involvedObject"]["name"], "a");
    assert_eq!(shown["message"], "approved by jo");
    for fields in ["involvedObject.name=a", "involvedObject.kind=Job,reason=Approved"] {
        assert_eq!(
            core.list(&ListParams::default().fields(fields)).await.unwrap().items.len(),
            1,
            "{fields}"
        );
    }
    assert_eq!(
        core.list(&ListParams::default().fields("involvedObject.name=b")).await.unwrap().items.len(),
        0
    );
    let series = json!({ "series": { "count": 2, "lastObservedTime": "2026-12-01T10:01:00.000000Z" } });
    assert_eq!(value(&merge(&new, "e", series).await.unwrap())["series"]["count"], 2);
    assert_eq!(refused(merge(&new, "e", json!({ "note": "other" })).await).1, "Invalid");
    event["metadata"]["name"] = json!("f");
    for missing in ["eventTime", "action", "reason", "type"] {
        let mut event = event.clone();
        event.as_object_mut().unwrap().remove(missing);
        assert_eq!(refused(new.create(&post(), &object(event)).await).1, "Invalid", "{missing}");
    }
    // Where it is may differ from where that is of which it tells, except in the core group.
    event["regarding"]["namespace"] = json!("elsewhere");
    new.create(&post(), &object(event)).await.unwrap();
    for (name, namespace) in [("g", "elsewhere"), ("h", "")] {
        let event = json!({
            "metadata": { "name": name }, "reason": "Approved",
            "involvedObject": { "kind": "Job", "name": "a", "namespace": namespace },
        });
        assert_eq!(refused(core.create(&post(), &object(event)).await).1, "Invalid", "{name}");
    }
    let named = |base: &str| object::<ConfigMap>(json!({ "metadata": { "generateName": base } }));
    let maps = within::<ConfigMap>(&client, &ns);
    assert!(maps.create(&post(), &named("base-")).await.unwrap().name_any().starts_with("base-"));
    assert_eq!(refused(maps.create(&post(), &named("base.")).await).1, "Invalid");
}

#[tokio::test]
async fn everybody_is_somebody_and_may() {
    let (client, _server) = client().await;
    let ask: SelfSubjectAccessReview = object(json!({ "spec": {
        "resourceAttributes": { "namespace": "hostwright", "verb": "patch", "group": "batch", "resource": "jobs" },
    } }));
    let answer = all::<SelfSubjectAccessReview>(&client).create(&post(), &ask).await.unwrap();
    assert!(answer.status.unwrap().allowed);
    let who = all::<SelfSubjectReview>(&client).create(&post(), &SelfSubjectReview::default()).await.unwrap();
    assert!(who.status.unwrap().user_info.unwrap().username.is_some_and(|name| !name.is_empty()));
}

#[tokio::test]
async fn a_dry_run_does_nothing() {
    let (client, _server) = client().await;
    let ns = namespace(&client).await;
    let maps = within::<ConfigMap>(&client, &ns);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    assert!(maps.create(&dry, &map("m")).await.unwrap().uid().is_some());
    assert!(maps.get_opt("m").await.unwrap().is_none());
    maps.create(&post(), &map("m")).await.unwrap();
    let changed = maps.replace("m", &dry, &object(json!({ "metadata": { "name": "m" } }))).await.unwrap();
    assert_eq!(changed.data, None);
    maps.delete("m", &DeleteParams::default().dry_run()).await.unwrap();
    assert_eq!(maps.get("m").await.unwrap().data, map("m").data);
}

// What the playground's own does.

#[tokio::test]
async fn a_watch_that_is_too_old_is_told_in_either_shape() {
    for gone in [Gone::Event, Gone::Status] {
        let server = Server::with(tempfile::tempdir().unwrap(), |o| (o.history, o.gone) = (8, gone)).await;
        let client = server.client();
        let maps = within::<ConfigMap>(&client, "default");
        maps.create(&post(), &map("m")).await.unwrap();
        for n in 0..10 {
            merge(&maps, "m", json!({ "data": { "n": n.to_string() } })).await.unwrap();
        }
        let watch = maps.watch(&WatchParams::default(), "1").await;
        match gone {
            Gone::Status => {
                let (code, reason, _) = refused(watch.map(|_| ()));
                assert_eq!((code, reason.as_str()), (410, "Expired"));
            }
            Gone::Event => {
                let mut watch = pin!(watch.unwrap());
                match soon(watch.try_next()).await.unwrap().unwrap() {
                    WatchEvent::Error(status) => {
                        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
                    }
                    other => panic!("{other:?}"),
                }
                assert!(soon(watch.try_next()).await.unwrap().is_none());
            }
        }
        let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
        for n in 0..10 {
            merge(&maps, "m", json!({ "data": { "n": format!("again {n}") } })).await.unwrap();
        }
        let rest = ListParams::default().limit(1).continue_token(&page.metadata.continue_.unwrap());
        let (code, reason, _) = refused(maps.list(&rest).await);
        assert_eq!((code, reason.as_str()), (410, "Expired"));
    }
}

#[tokio::test]
async fn the_runtime_lists_again_without_ghosts() {
    for gone in [Gone::Event, Gone::Status] {
        let dir = Server::with(tempfile::tempdir().unwrap(), |o| o.gone = gone).await;
        let listener_address = dir.url.clone();
        let client = dir.client();
        let jobs = within::<Job>(&client, "default");
        jobs.create(&post(), &job("stays")).await.unwrap();
        jobs.create(&post(), &job("goes")).await.unwrap();
        let mut stream = pin!(watcher(jobs.clone(), watcher::Config::default()));
        while !matches!(soon(stream.try_next()).await.unwrap().unwrap(), watcher::Event::InitDone) {}

        // The server goes away, loses its history, and things happen before the watcher is back.
        let dir = dir.stop().await;
        let mut options = Options::new(dir.path().join("logs"), CA, "https://127.0.0.1:6443");
        (options.state, options.gone) = (Some(dir.path().join("state")), gone);
        let api = Api::open(options.clone()).unwrap();
        let shutdown = CancellationToken::new();
        let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", elsewhere.local_addr().unwrap());
        let running = tokio::spawn(api.run(elsewhere, shutdown.clone()));
        let meanwhile =
            within::<Job>(&Client::try_from(Config::new(url.parse().unwrap())).unwrap(), "default");
        meanwhile.delete("goes", &DeleteParams::background()).await.unwrap();
        meanwhile.create(&post(), &job("comes")).await.unwrap();
        shutdown.cancel();
        running.await.unwrap().unwrap();

        let api = Api::open(options).unwrap();
        let address = listener_address.trim_start_matches("http://");
        let running =
            tokio::spawn(api.run(TcpListener::bind(address).await.unwrap(), CancellationToken::new()));
        let mut names = Vec::new();
        let mut restarts = 0;
        loop {
            match soon(stream.next()).await.unwrap() {
                Ok(watcher::Event::Init) => (restarts += 1, names.clear()).1,
                Ok(watcher::Event::InitApply(job)) => names.push(job.name_any()),
                Ok(watcher::Event::InitDone) => break,
                Ok(other) => panic!("{other:?}"),
                // kube-runtime asks again for the same version when the answer itself is 410: a new watcher is needed.
                Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if status.code == 410 => {
                    assert_eq!(gone, Gone::Status);
                    stream.set(watcher(jobs.clone(), watcher::Config::default()));
                }
                Err(_) => {}
            }
        }
        names.sort();
        assert_eq!((restarts, names), (1, vec!["comes".to_owned(), "stays".to_owned()]));
        running.abort();
    }
}

#[tokio::test]
async fn bookmarks_keep_a_quiet_watch_fresh() {
    let server =
        Server::with(tempfile::tempdir().unwrap(), |o| o.bookmark_every = Duration::from_millis(50)).await;
    let client = server.client();
    let start = within::<Job>(&client, "default").list(&ListParams::default()).await.unwrap();
    let start = start.metadata.resource_version.unwrap();
    let path = "/apis/batch/v1/namespaces/default/jobs?watch=true&timeoutSeconds=20";
    let mut marked =
        pin!(lines(&client, &format!("{path}&resourceVersion={start}&allowWatchBookmarks=true")).await);
    let made = within::<ConfigMap>(&client, "default").create(&post(), &map("m")).await.unwrap();
    loop {
        let line = soon(marked.next()).await.unwrap();
        assert_eq!(line["type"], "BOOKMARK");
        assert_eq!(line["object"]["kind"], "Job");
        if line["object"]["metadata"]["resourceVersion"] == json!(made.resource_version()) {
            break;
        }
    }
    // One that did not ask gets none: the first line is the Job.
    let mut plain = pin!(lines(&client, &format!("{path}&resourceVersion={start}")).await);
    within::<ConfigMap>(&client, "default").create(&post(), &map("n")).await.unwrap();
    assert_eq!(soon(marked.next()).await.unwrap()["type"], "BOOKMARK");
    within::<Job>(&client, "default").create(&post(), &job("a")).await.unwrap();
    assert_eq!(seen(&soon(plain.next()).await.unwrap()), ("ADDED".to_owned(), "a".to_owned()));
}

#[tokio::test]
async fn a_watch_begins_with_what_is_there() {
    let server = Server::start().await;
    let client = server.client();
    let jobs = within::<Job>(&client, "default");
    jobs.create(&post(), &job("a")).await.unwrap();
    jobs.create(&post(), &job("b")).await.unwrap();
    let path = "/apis/batch/v1/jobs?watch=true&timeoutSeconds=1";
    let added = |name: &str| ("ADDED".to_owned(), name.to_owned());
    for version in ["", "&resourceVersion=0"] {
        let all: Vec<_> = soon(lines(&client, &format!("{path}{version}")).await.collect()).await;
        assert_eq!(all.iter().map(seen).collect::<Vec<_>>(), [added("a"), added("b")]);
    }
    let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let all: Vec<_> = soon(lines(&client, &format!("{path}{initial}")).await.collect()).await;
    assert_eq!(all.len(), 3);
    assert_eq!(all[2]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let (code, _) = raw(&client, "GET", &format!("{path}&sendInitialEvents=true"), &[], Value::Null).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn a_watch_that_does_not_read_is_cut() {
    let server = Server::with(tempfile::tempdir().unwrap(), |o| o.history = 16).await;
    let client = server.client();
    let maps = within::<ConfigMap>(&client, "default");
    let made = maps.create(&post(), &map("m")).await.unwrap();
    let path = format!(
        "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={}",
        made.resource_version().unwrap()
    );
    let mut watch = pin!(lines(&client, &path).await);
    // More than all the buffers between the two hold.
    let big = "x".repeat(256 * 1024);
    for n in 0..64 {
        merge(&maps, "m", json!({ "data": { "k": big, "n": n.to_string() } })).await.unwrap();
    }
    let mut modified = 0;
    loop {
        let line = soon(watch.next()).await.unwrap();
        match line["type"].as_str().unwrap() {
            "MODIFIED" => modified += 1,
            "ERROR" => {
                assert_eq!(line["object"]["code"], 410);
                break;
            }
            other => panic!("{other}"),
        }
    }
    assert!(modified < 64, "{modified}");
    assert!(soon(watch.next()).await.is_none());
}

#[tokio::test]
async fn stopping_ends_watches_and_followed_logs_at_once() {
    let server = Server::start().await;
    let client = server.client();
    let made = within::<Pod>(&client, "default").create(&post(), &pod("p")).await.unwrap();
    let folder = server.dir.path().join("logs").join(made.uid().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("main.log"), "2026-12-01T10:00:00Z hello\n").unwrap();
    let mut watch = pin!(lines(&client, "/api/v1/pods?watch=true").await);
    assert_eq!(soon(watch.next()).await.unwrap()["type"], "ADDED");
    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut log = pin!(within::<Pod>(&client, "default").log_stream("p", &follow).await.unwrap().lines());
    assert_eq!(soon(log.next()).await.unwrap().unwrap(), "hello");
    let then = Instant::now();
    server.shutdown.cancel();
    assert!(soon(watch.next()).await.is_none());
    assert!(soon(log.next()).await.is_none());
    let dir = server.stop().await;
    assert!(then.elapsed() < Duration::from_secs(2), "{:?}", then.elapsed());
    // The file is free for the next.
    Server::with(dir, |_| {}).await.stop().await;
}

#[tokio::test]
async fn the_state_survives_a_restart() {
    let server = Server::start().await;
    let client = server.client();
    let jobs = within::<Job>(&client, "default");
    let made = jobs.create(&post(), &job("a")).await.unwrap();
    jobs.create(&post(), &job("b")).await.unwrap();
    jobs.delete("b", &DeleteParams::background()).await.unwrap();
    within::<ConfigMap>(&client, "default")
        .delete("scrape-collectd", &DeleteParams::default())
        .await
        .unwrap();
    let last = jobs.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let in_use = Options { state: Some(server.dir.path().join("state")), ..Options::new("x", CA, "y") };
    assert!(matches!(Api::open(in_use), Err(ApiError::InUse(_))));

    // What a kill would leave is what is in the file now.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(server.dir.path().join("state"), copy.path().join("state")).unwrap();
    let dir = server.stop().await;
    for dir in [dir, copy] {
        let server = Server::with(dir, |_| {}).await;
        let client = server.client();
        let jobs = within::<Job>(&client, "default");
        let found = jobs.list(&ListParams::default()).await.unwrap();
        assert_eq!(value(&found.items), json!([value(&made)]));
        assert_eq!(found.metadata.resource_version.as_deref(), Some(last.as_str()));
        // What the operator removed stays removed, what the cluster keeps is kept.
        let maps = within::<ConfigMap>(&client, "default").list(&ListParams::default()).await.unwrap();
        assert_eq!(maps.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["kube-root-ca.crt"]);
        let next = jobs.create(&post(), &job("c")).await.unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        assert!(number(&next.resource_version().unwrap()) > number(&last));
        // A watch from the last version goes on, one from before has to list again.
        let path = "/apis/batch/v1/jobs?watch=true&timeoutSeconds=5&resourceVersion=";
        let line = soon(pin!(lines(&client, &format!("{path}{last}")).await).next()).await.unwrap();
        assert_eq!(seen(&line), ("ADDED".to_owned(), "c".to_owned()));
        let line =
            soon(pin!(lines(&client, &format!("{path}{}", number(&last) - 1)).await).next()).await.unwrap();
        assert_eq!(line["object"]["code"], 410);
        server.stop().await;
    }
}

#[tokio::test]
async fn dependents_go_as_the_deletion_says() {
    let server = Server::start().await;
    let client = server.client();
    let (jobs, pods) = (within::<Job>(&client, "default"), within::<Pod>(&client, "default"));
    let gone = async |name: &str, uid: &str| {
        soon(await_condition(pods.clone(), name, is_deleted(uid))).await.unwrap();
    };

    // In the background: the owner at once, the pod with its grace.
    let owner = jobs.create(&post(), &job("a")).await.unwrap();
    let child = pods.create(&post(), &owned_pod("a-1", &owner, &json!({}))).await.unwrap();
    jobs.delete("a", &DeleteParams::background()).await.unwrap();
    assert!(jobs.get_opt("a").await.unwrap().is_none());
    let going = |pod: Option<&Pod>| pod.is_some_and(|p| p.metadata.deletion_timestamp.is_some());
    soon(await_condition(pods.clone(), "a-1", going)).await.unwrap();
    pods.delete("a-1", &DeleteParams::default().grace_period(0)).await.unwrap();
    gone("a-1", &child.uid().unwrap()).await;
    // A pod whose owner is gone before it came has none either.
    let mut late = owned_pod("a-2", &owner, &json!({}));
    late.spec.as_mut().unwrap().node_name = None;
    let late = pods.create(&post(), &late).await.unwrap();
    gone("a-2", &late.uid().unwrap()).await;

    // Nothing said: the pod stays and forgets its owner.
    let owner = jobs.create(&post(), &job("b")).await.unwrap();
    pods.create(&post(), &owned_pod("b-1", &owner, &json!({}))).await.unwrap();
    jobs.delete("b", &DeleteParams::default()).await.unwrap();
    soon(await_condition(jobs.clone(), "b", is_deleted(&owner.uid().unwrap()))).await.unwrap();
    let orphan = pods.get("b-1").await.unwrap();
    assert!(orphan.owner_references().is_empty() && orphan.metadata.deletion_timestamp.is_none());

    // In the foreground: the owner waits for the pod that blocks it.
    let owner = jobs.create(&post(), &job("c")).await.unwrap();
    pods.create(&post(), &owned_pod("c-1", &owner, &json!({ "blockOwnerDeletion": true }))).await.unwrap();
    let foreground =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    let waiting = jobs.delete("c", &foreground).await.unwrap().left().unwrap();
    assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);
    soon(await_condition(pods.clone(), "c-1", going)).await.unwrap();
    assert!(jobs.get_opt("c").await.unwrap().is_some());
    pods.delete("c-1", &DeleteParams::default().grace_period(0)).await.unwrap();
    soon(await_condition(jobs.clone(), "c", is_deleted(&owner.uid().unwrap()))).await.unwrap();
}

#[tokio::test]
async fn every_namespace_has_the_root_ca() {
    let server = Server::start().await;
    let client = server.client();
    let names: Vec<String> = all::<Namespace>(&client)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(names, ["default", "hostwright", "kube-public", "kube-system"]);
    let ns = namespace(&client).await;
    let right = |map: Option<&ConfigMap>| {
        map.and_then(|m| m.data.as_ref()).is_some_and(|data| data.get("ca.crt").is_some_and(|ca| ca == CA))
    };
    for ns in names.iter().chain([&ns]) {
        soon(await_condition(within(&client, ns), "kube-root-ca.crt", right)).await.unwrap();
        let account = |account: Option<&ServiceAccount>| account.is_some();
        soon(await_condition(within(&client, ns), "default", account)).await.unwrap();
    }
    let maps = within::<ConfigMap>(&client, &ns);
    maps.delete("kube-root-ca.crt", &DeleteParams::default()).await.unwrap();
    soon(await_condition(maps.clone(), "kube-root-ca.crt", right)).await.unwrap();
    merge(&maps, "kube-root-ca.crt", json!({ "data": { "ca.crt": "forged" } })).await.unwrap();
    soon(await_condition(maps, "kube-root-ca.crt", right)).await.unwrap();
    let targets = within::<ConfigMap>(&client, "default").get("scrape-collectd").await.unwrap();
    assert_eq!(targets.data.unwrap()["targets.json"], "[]");
}

fn token(id: &str, expires: Option<jiff::Timestamp>) -> Secret {
    let mut secret = json!({
        "metadata": { "name": format!("bootstrap-token-{id}") },
        "type": "bootstrap.kubernetes.io/token",
        "stringData": { "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true" },
    });
    if let Some(at) = expires {
        secret["stringData"]["expiration"] = json!(at.to_string());
    }
    object(secret)
}

#[tokio::test]
async fn tokens_sign_cluster_info_as_long_as_they_last() {
    use hmac::{Hmac, Mac};
    let server = Server::start().await;
    let client = server.client();
    let (secrets, infos) =
        (within::<Secret>(&client, "kube-system"), within::<ConfigMap>(&client, "kube-public"));
    let signed = |id: &str, wanted: bool| {
        let key = format!("jws-kubeconfig-{id}");
        move |map: Option<&ConfigMap>| {
            map.and_then(|m| m.data.as_ref()).is_some_and(|data| data.contains_key(&key) == wanted)
        }
    };
    secrets.create(&post(), &token("aaaaaa", None)).await.unwrap();
    secrets.create(&post(), &token("UPPER1", None)).await.unwrap_err();
    let soon_over = jiff::Timestamp::now() + Duration::from_millis(700);
    secrets.create(&post(), &token("bbbbbb", Some(soon_over))).await.unwrap();
    secrets.create(&post(), &token("cccccc", Some(jiff::Timestamp::UNIX_EPOCH))).await.unwrap();
    soon(await_condition(infos.clone(), "cluster-info", signed("bbbbbb", true))).await.unwrap();
    let info = infos.get("cluster-info").await.unwrap().data.unwrap();
    assert!(info["kubeconfig"].contains("https://127.0.0.1:6443"));
    assert!(!info.contains_key("jws-kubeconfig-cccccc"));

    // A host checks it with what it knows: the token.
    let (header, signature) = info["jws-kubeconfig-aaaaaa"].split_once("..").unwrap();
    let base64 = data_encoding::BASE64URL_NOPAD;
    let head: Value = serde_json::from_slice(&base64.decode(header.as_bytes()).unwrap()).unwrap();
    assert_eq!(head, json!({ "alg": "HS256", "kid": "aaaaaa" }));
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"0123456789abcdef").unwrap();
    mac.update(format!("{header}.{}", base64.encode(info["kubeconfig"].as_bytes())).as_bytes());
    mac.verify_slice(&base64.decode(signature.as_bytes()).unwrap()).unwrap();

    soon(await_condition(infos.clone(), "cluster-info", signed("bbbbbb", false))).await.unwrap();
    assert!(infos.get("cluster-info").await.unwrap().data.unwrap().contains_key("jws-kubeconfig-aaaaaa"));
    secrets.delete("bootstrap-token-aaaaaa", &DeleteParams::default()).await.unwrap();
    soon(await_condition(infos, "cluster-info", signed("aaaaaa", false))).await.unwrap();
}

/// A pod of the default namespace and its log file.
async fn pod_with_log(server: &Server, name: &str) -> (kube::Api<Pod>, PathBuf) {
    let pods = within::<Pod>(&server.client(), "default");
    let made = pods.create(&post(), &pod(name)).await.unwrap();
    let folder = server.dir.path().join("logs").join(made.uid().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    (pods, folder.join("main.log"))
}

fn append(path: &std::path::Path, text: &[u8]) {
    use std::io::Write;
    std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text).unwrap();
}

#[tokio::test]
async fn a_log_is_followed_to_the_pods_end() {
    let server = Server::start().await;
    let (pods, path) = pod_with_log(&server, "p").await;
    let (code, _, message) = refused(pods.logs("p", &LogParams::default()).await);
    assert_eq!(code, 400);
    assert!(message.contains("waiting to start"), "{message}");
    merge_status(&pods, "p", json!({ "phase": "Running" })).await.unwrap();
    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut log = pin!(pods.log_stream("p", &follow).await.unwrap());
    append(&path, b"2026-12-01T10:00:00.000000001Z one\n2026-12-01T10:00:01Z \xff\xfe tw");
    let mut line = Vec::new();
    soon(log.read_until(b'\n', &mut line)).await.unwrap();
    assert_eq!(line, b"one\n");
    // Half a line waits for its other half.
    append(&path, b"o\n");
    line.clear();
    soon(log.read_until(b'\n', &mut line)).await.unwrap();
    assert_eq!(line, b"\xff\xfe two\n");
    append(&path, b"2026-12-01T10:00:02Z last words");
    merge_status(&pods, "p", json!({ "phase": "Succeeded" })).await.unwrap();
    let mut rest = Vec::new();
    soon(log.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"last words");

    // Followed when it is over, it ends at once; a pod that is removed ends it too.
    let mut whole = Vec::new();
    soon(pin!(pods.log_stream("p", &follow).await.unwrap()).read_to_end(&mut whole)).await.unwrap();
    assert_eq!(whole, b"one\n\xff\xfe two\nlast words");
    let (_, path) = pod_with_log(&server, "q").await;
    append(&path, b"2026-12-01T10:00:00Z one\n");
    let mut log = pin!(pods.log_stream("q", &follow).await.unwrap());
    pods.delete("q", &DeleteParams::default().grace_period(0)).await.unwrap();
    whole.clear();
    soon(log.read_to_end(&mut whole)).await.unwrap();
    assert_eq!(whole, b"one\n");
}

#[tokio::test]
async fn a_log_is_cut_as_it_is_asked_for() {
    let server = Server::start().await;
    let (pods, path) = pod_with_log(&server, "p").await;
    append(&path, b"2026-12-01T10:00:00Z a\n2026-12-01T10:00:01Z b\n2026-12-01T10:00:02Z c\n");
    let client = server.client();
    let get = async |query: &str| {
        raw(&client, "GET", &format!("/api/v1/namespaces/default/pods/p/log?{query}"), &[], Value::Null).await
    };
    for (query, expected) in [
        ("", "a\nb\nc\n"),
        ("tailLines=2", "b\nc\n"),
        ("tailLines=0", ""),
        ("tailLines=99", "a\nb\nc\n"),
        ("limitBytes=3", "a\nb"),
        ("sinceTime=2026-12-01T10:00:01Z", "b\nc\n"),
        ("tailLines=1&timestamps=true", "2026-12-01T10:00:02Z c\n"),
        ("sinceTime=2026-12-01T10:00:02Z&tailLines=2&container=main", "c\n"),
    ] {
        // A body that is a bare number would parse as JSON: these are none.
        assert_eq!(get(query).await, (200, json!(expected)), "{query}");
    }
    for query in ["container=other", "previous=true", "tailLines=x", "sinceTime=now", "limitBytes=0"] {
        assert_eq!(get(query).await.0, 400, "{query}");
    }
    assert_eq!(refused(pods.logs("none", &LogParams::default()).await).1, "NotFound");
}

#[tokio::test]
async fn a_token_keeps_strangers_out() {
    let server = Server::with(tempfile::tempdir().unwrap(), |o| o.token = Some("let-me-in".into())).await;
    let client = server.client();
    let pods = "/api/v1/pods";
    let code =
        async |path: &str, headers: &[(&str, &str)]| raw(&client, "GET", path, headers, Value::Null).await.0;
    assert_eq!(code(pods, &[]).await, 401);
    assert_eq!(code(pods, &[("authorization", "Bearer let-me-i")]).await, 401);
    assert_eq!(code(pods, &[("authorization", "Basic let-me-in")]).await, 401);
    assert_eq!(code(pods, &[("authorization", "Bearer let-me-in")]).await, 200);
    for open in [
        "/version",
        "/healthz",
        "/readyz",
        "/livez",
        "/api/v1/namespaces/kube-public/configmaps/cluster-info",
    ] {
        assert_eq!(code(open, &[]).await, 200, "{open}");
    }
    let info = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
    assert_eq!(raw(&client, "DELETE", info, &[], Value::Null).await.0, 401);
    // kubectl sends no token over plain HTTP: the path may carry it.
    assert_eq!(code("/let-me-in/api/v1/pods", &[]).await, 200);
    for stranger in ["/let-me-i/api/v1/pods", "/let-me-in", "/let-me-in/", "//api/v1/pods"] {
        assert_ne!(code(stranger, &[]).await, 200, "{stranger}");
    }
    let by_path =
        Client::try_from(Config::new(format!("{}/let-me-in", server.url).parse().unwrap())).unwrap();
    within::<ConfigMap>(&by_path, "default").list(&ListParams::default()).await.unwrap();
    let mut config = Config::new(server.url.parse().unwrap());
    config.auth_info.token = Some("let-me-in".to_owned().into());
    let known = Client::try_from(config).unwrap();
    within::<ConfigMap>(&known, "default").list(&ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_bootstrap_token_may_do_what_a_kubelet_does_to_join_and_nothing_else() {
    for ours in [None, Some("let-me-in")] {
        let server = Server::with(tempfile::tempdir().unwrap(), |o| o.token = ours.map(str::to_owned)).await;
        let (client, own) = (server.client(), format!("Bearer {}", ours.unwrap_or("anything")));
        let call = async |method: &str, path: &str, who: &str, body: Value| {
            let kind = match method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            };
            let headers = [("authorization", who), ("content-type", kind)];
            raw(&client, method, path, &headers, body).await
        };
        let secrets = "/api/v1/namespaces/kube-system/secrets";
        for (id, change) in [
            ("aaaaaa", json!({"auth-extra-groups": "system:bootstrappers:a,system:masters"})),
            ("bbbbbb", json!({"expiration": "2026-01-01T00:00:00Z"})),
            ("cccccc", json!({"usage-bootstrap-authentication": "false"})),
        ] {
            let mut secret = serde_json::to_value(token(id, None)).unwrap();
            secret["stringData"]["usage-bootstrap-authentication"] = "true".into();
            for (key, value) in change.as_object().unwrap() {
                secret["stringData"][key] = value.clone();
            }
            assert_eq!(call("POST", secrets, &own, secret).await.0, 201, "{id}");
        }
        let good = "Bearer aaaaaa.0123456789abcdef";
        let nodes = "/api/v1/nodes";
        let node = |name: &str| json!({"metadata": {"name": name}});
        for bad in [
            "bbbbbb.0123456789abcdef",
            "cccccc.0123456789abcdef",
            "aaaaaa.0123456789abcdeg",
            "zzzzzz.0123456789abcdef",
        ] {
            let (code, said) = call("POST", nodes, &format!("Bearer {bad}"), node("n")).await;
            assert_eq!((code, &said["reason"]), (401, &json!("Unauthorized")), "{bad}");
        }
        assert_eq!(call("POST", nodes, good, node("n")).await.0, 201);
        assert_eq!(call("POST", nodes, good, node("n")).await.0, 409);
        let (code, read) = call("GET", "/api/v1/nodes/n", good, Value::Null).await;
        assert_eq!((code, &read["metadata"]["name"]), (200, &json!("n")));
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"unschedulable": true}});
        let (code, read) = call("PATCH", "/api/v1/nodes/n/status", good, ready).await;
        assert_eq!((code, &read["status"]["conditions"][0]["type"]), (200, &json!("Ready")));
        assert_eq!(read["spec"]["unschedulable"], Value::Null, "a status is all that it writes");
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let who = call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", good, review).await.1;
        assert_eq!(
            who["status"]["userInfo"],
            json!({"username": "system:bootstrap:aaaaaa",
                "groups": ["system:bootstrappers", "system:bootstrappers:a", "system:authenticated"]})
        );
        let info = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
        assert_eq!(call("GET", info, good, Value::Null).await.0, 200);
        for (method, path, says) in [
            (
                "GET",
                nodes,
                "nodes is forbidden: User \"system:bootstrap:aaaaaa\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
            ),
            ("DELETE", "/api/v1/nodes/n", "cannot delete"),
            ("PATCH", "/api/v1/nodes/n", "cannot patch"),
            ("GET", secrets, "in the namespace \"kube-system\""),
            ("DELETE", "/api/v1/namespaces/kube-system/secrets/bootstrap-token-aaaaaa", "cannot delete"),
            ("PATCH", info, "cannot patch"),
            ("POST", "/apis/batch/v1/namespaces/hostwright/jobs", "jobs.batch is forbidden"),
        ] {
            let (code, said) =
                call(method, path, good, if method == "GET" { Value::Null } else { json!({}) }).await;
            assert_eq!((code, &said["reason"]), (403, &json!("Forbidden")), "{method} {path}: {said}");
            assert!(said["message"].as_str().unwrap().contains(says), "{said}");
        }
        // What kubectl shows of it; and a token that is deleted opens nothing from then on.
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table =
            raw(&client, "GET", nodes, &[("authorization", &own), ("accept", accept)], Value::Null).await.1;
        assert_eq!(table["rows"][0]["cells"][1], "Ready", "{table}");
        let gone = call("DELETE", &format!("{secrets}/bootstrap-token-aaaaaa"), &own, Value::Null).await;
        assert_eq!((gone.0, call("GET", "/api/v1/nodes/n", good, Value::Null).await.0), (200, 401));
    }
}

#[tokio::test]
async fn a_page_in_a_browser_gets_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let pods = "/api/v1/pods";
    let code = async |headers: &[(&str, &str)]| raw(&client, "GET", pods, headers, Value::Null).await.0;
    assert_eq!(code(&[]).await, 200);
    assert_eq!(code(&[("origin", "http://evil.example.org")]).await, 403);
    assert_eq!(code(&[("host", "evil.example.org:80")]).await, 403);
    for own in ["localhost:8080", "127.0.0.1:1", "[::1]:1"] {
        assert_eq!(code(&[("host", own)]).await, 200, "{own}");
    }
}

#[tokio::test]
async fn kubectl_finds_what_it_needs() {
    let server = Server::start().await;
    let client = server.client();
    within::<Job>(&client, "default").create(&post(), &job("a")).await.unwrap();
    let groups = client.list_api_groups().await.unwrap();
    assert!(groups.groups.iter().any(|g| g.name == "batch"));
    let batch = client.list_api_group_resources("batch/v1").await.unwrap();
    let names: Vec<&str> = batch.resources.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["jobs", "jobs/status", "cronjobs", "cronjobs/status"]);
    let core = client.list_core_api_resources("v1").await.unwrap();
    assert!(core.resources.iter().any(|r| r.name == "pods/log"));
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");

    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let (code, list) =
        raw(&client, "GET", "/apis/batch/v1/namespaces/default/jobs", &table, Value::Null).await;
    assert_eq!((code, list["kind"].as_str()), (200, Some("Table")));
    assert_eq!(list["columnDefinitions"][0]["name"], "Name");
    assert_eq!(list["rows"][0]["cells"][0], "a");
    assert_eq!(list["rows"][0]["cells"][1], "Suspended");
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let meta = within::<Job>(&client, "default").list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(meta.items[0].name_any(), "a");
}

#[tokio::test]
async fn what_is_not_served_is_said_so() {
    let server = Server::start().await;
    let client = server.client();
    within::<Job>(&client, "default").create(&post(), &job("a")).await.unwrap();
    let job_path = "/apis/batch/v1/namespaces/default/jobs/a";
    let kind = |kind: &'static str| [("content-type", kind)];
    for (method, path, headers, expected) in [
        ("GET", "/apis/apps/v1/statefulsets", kind(""), 501),
        ("DELETE", "/api/v1/namespaces/default/pods", kind(""), 501),
        ("DELETE", "/api/v1/namespaces/default", kind(""), 501),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction", kind(""), 501),
        ("POST", job_path, kind(""), 405),
        ("PATCH", job_path, kind("application/strategic-merge-patch+json"), 415),
        ("PATCH", job_path, kind("application/json-patch+json"), 415),
        ("PATCH", job_path, kind("application/apply-patch+yaml"), 422),
        ("PUT", job_path, kind("application/yaml"), 415),
        ("PUT", job_path, kind("application/json"), 400),
        ("GET", "/apis/nothing.example.org", kind(""), 404),
        ("GET", "/openapi/v2", kind(""), 404),
    ] {
        let (code, status) = raw(&client, method, path, &headers, Value::Null).await;
        assert_eq!(code, expected, "{method} {path}: {status}");
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["code"], expected);
    }
    let strict = "/api/v1/namespaces/default/configmaps?fieldValidation=Strict";
    let odd = json!({ "metadata": { "name": "m" }, "dta": {} , "extra": 1 });
    let (code, status) = raw(&client, "POST", strict, &kind("application/json"), odd.clone()).await;
    assert_eq!(code, 400, "{status}");
    let loose = strict.trim_end_matches("?fieldValidation=Strict");
    assert_eq!(raw(&client, "POST", loose, &kind("application/json"), odd).await.0, 201);
}

#[tokio::test]
async fn a_later_version_than_ours_is_nobodys() {
    let server = Server::start().await;
    let client = server.client();
    let maps = within::<ConfigMap>(&client, "default");
    // The client would try again for a minute: that is what this answer is for.
    let mut config = Config::new(server.url.parse().unwrap());
    config.default_retry = false;
    let hasty = within::<ConfigMap>(&Client::try_from(config).unwrap(), "default");
    let (code, reason, _) = refused(hasty.list(&ListParams::default().at("999999")).await);
    assert_eq!((code, reason.as_str()), (504, "Timeout"));
    // The state file was removed under a client that still knows it: it has to list again.
    let mut watch = pin!(maps.watch(&WatchParams::default(), "999999").await.unwrap());
    assert!(
        matches!(soon(watch.try_next()).await.unwrap(), Some(WatchEvent::Error(status)) if status.code == 410)
    );
}
