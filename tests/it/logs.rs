//! Logs of runs through broken lines: from a pod in the loopback API, and from an API server that breaks off where it is told to.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use hostwright::domain::{LogLine, Run};
use hostwright::ops::decide::{self, Changes, Seen};
use hostwright::ops::logs::{self, LogEvent};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::ground::{Ground, answering};
use crate::operators::pending;

/// The log of a pod that runs.
pub(crate) struct PodLog(PathBuf);

impl PodLog {
    /// Appends `line 001.` and so on.
    pub(crate) fn write(&self, n: usize) {
        self.line(format!("line {n:03}.").as_bytes());
    }

    /// Appends a line as the kubelet would.
    pub(crate) fn line(&self, text: &[u8]) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        let line = [Timestamp::now().to_string().as_bytes(), b" ", text, b"\n"].concat();
        file.write_all(&line).unwrap();
    }
}

/// Approves a run and gives it a pod that runs.
pub(crate) async fn with_pod(ground: &Ground, run: &Run) -> PodLog {
    let (permit, environment) = (ground.permit(), &ground.settings.environment);
    decide::approve(&ground.kube, &permit, environment, &Seen::from(run), &Changes::default(), "ann")
        .await
        .unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{}-xxxxx", run.name),
            "labels": {"batch.kubernetes.io/controller-uid": run.uid, "batch.kubernetes.io/job-name": run.name},
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "provision", "image": "hostwright:test"}]},
    }))
    .unwrap();
    let pods = ground.api::<Pod>("hostwright");
    let made = pods.create(&PostParams::default(), &pod).await.unwrap();
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let status = json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "provision", "image": "hostwright:test", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }]}});
    let name = made.metadata.name.unwrap();
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let folder = ground.dir.path().join("logs").join(made.metadata.uid.unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    PodLog(folder.join("provision.log"))
}

/// An API server with one run and its pod, whose log breaks off after so many bytes, again and again.
struct Breaking {
    job: Value,
    /// Where each reading ends, counted in what it would send; and whether the line breaks, or only ends.
    breaks: Mutex<Vec<(usize, bool)>>,
    lines: Vec<(Timestamp, String)>,
    /// The times from which on it was asked.
    asked: Mutex<Vec<Option<String>>>,
}

impl Breaking {
    /// After the last break the pod's log is read to its end, and the run is over.
    fn over(&self) -> bool {
        self.breaks.lock().unwrap().is_empty() && self.asked.lock().unwrap().len() > 2
    }
}

async fn job(State(it): State<Arc<Breaking>>) -> Response {
    let mut job = it.job.clone();
    if it.over() {
        job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    }
    axum::Json(job).into_response()
}

async fn pods(State(it): State<Arc<Breaking>>) -> Response {
    let ended = it.over();
    let at = "2026-01-01T00:00:00Z";
    let state = match ended {
        true => {
            json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}})
        }
        false => json!({"running": {"startedAt": at}}),
    };
    let status = json!({"phase": if ended { "Succeeded" } else { "Running" }, "containerStatuses": [{
        "name": "provision", "image": "x", "imageID": "", "ready": true, "restartCount": 0, "state": state,
    }]});
    let pod = json!({"metadata": {"name": "p", "creationTimestamp": at}, "spec": {"containers": []}, "status": status});
    axum::Json(
        json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [pod]}),
    )
    .into_response()
}

/// As an API server and a kubelet do: what is older than the whole second is not sent, and all else in the order of the file.
async fn log(State(it): State<Arc<Breaking>>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let since = query.iter().find(|(name, _)| name == "sinceTime").map(|(_, value)| value.clone());
    it.asked.lock().unwrap().push(since.clone());
    let since: Option<Timestamp> = since.map(|text| text.parse().unwrap());
    let text: String = it
        .lines
        .iter()
        .filter(|(at, _)| since.is_none_or(|since| *at >= Timestamp::from_second(since.as_second()).unwrap()))
        .map(|(at, text)| format!("{at} {text}\n"))
        .collect();
    let broken = it.breaks.lock().unwrap().pop();
    let Some((at, breaks)) = broken else { return text.into_response() };
    let sent = text.as_bytes()[..at.min(text.len())].to_vec();
    let end = breaks.then(|| Err(std::io::Error::other("the line breaks")));
    let pieces = [Ok(sent)].into_iter().chain(end);
    Response::new(Body::from_stream(futures_util::stream::iter(pieces)))
}

/// Wherever a followed log breaks, within a line too, and be the end clean or not: each line is told once, whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_log_goes_on_without_a_lost_or_doubled_line() {
    let ground = Ground::loopback(|_| {}).await;
    let run = pending(&ground, "web-1.example.org").await;
    let object = ground.kube.run_object(&run.name).await.unwrap();
    let begin: Timestamp = "2026-01-01T00:00:00.7Z".parse().unwrap();
    // Several in a second, some at the same instant, most in the second half of one: rounded up it would be the next.
    let lines: Vec<(Timestamp, String)> = (0..12_i64)
        .map(|n| (begin + SignedDuration::from_millis(n / 2 * 290), format!("line {n} of this log")))
        .collect();
    let whole: usize = lines.iter().map(|(at, text)| format!("{at} {text}\n").len()).sum();
    let mut readings = tokio::task::JoinSet::new();
    for breaks in [true, false] {
        for at in (1..whole).step_by(23) {
            let it = Arc::new(Breaking {
                job: object.clone(),
                breaks: Mutex::new(vec![(at / 2 + 40, !breaks), (at, breaks)]),
                lines: lines.clone(),
                asked: Mutex::default(),
            });
            let run = run.clone();
            readings.spawn(async move {
                let read = read_all(it.clone(), &run).await;
                let wanted: Vec<String> = it.lines.iter().map(|(_, text)| text.clone()).collect();
                assert_eq!(read, wanted, "broken at {at}: {:?}", it.asked.lock().unwrap());
            });
        }
    }
    while let Some(done) = readings.join_next().await {
        done.unwrap();
    }
}

/// Follows the log to the end of the run.
async fn read_all(it: Arc<Breaking>, run: &Run) -> Vec<String> {
    let namespace = "/apis/batch/v1/namespaces/{namespace}";
    let routes = Router::new()
        .route(&format!("{namespace}/jobs/{{name}}"), get(job))
        .route("/api/v1/namespaces/{namespace}/pods", get(pods))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/log", get(log))
        .with_state(it);
    let (kube, _folder) = answering(routes).await;
    let mut told = logs::read(&kube, run, true);
    let mut read: Vec<LogLine> = Vec::new();
    while let Some(event) = told.recv().await {
        match event {
            LogEvent::Lines(batch) => read.extend(batch),
            LogEvent::Ended => break,
            _ => {}
        }
    }
    read.into_iter().map(|line| String::from_utf8(line.text).unwrap()).collect()
}
