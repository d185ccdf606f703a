//! The Job runner against an API server: real Jobs, real processes, real logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use hostwright::play::runner::{self, Options, RunnerError};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support;
use crate::support::apiserver::ApiServer;

const NAMESPACE: &str = "hostwright";
/// Longer than anything here takes, even on a machine that is busy building.
const PATIENCE: Duration = Duration::from_secs(60);

/// An API server of its own, with folders for the runner.
struct Cluster {
    client: Client,
    url: String,
    folder: tempfile::TempDir,
    _server: ApiServer,
    leash: Vec<String>,
}

/// A runner that is at work; dropped, it ends as by `kill -9`.
struct Running {
    task: JoinHandle<Result<(), RunnerError>>,
    shutdown: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    /// Ends it as SIGTERM to the playground does.
    async fn stop(mut self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, &mut self.task).await.unwrap().unwrap().unwrap();
    }

    /// Ends it as `kill -9` of the playground does: nothing more is written.
    async fn kill(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.unwrap_err().is_cancelled());
    }
}

impl Cluster {
    async fn start() -> Self {
        let folder = support::temp();
        let server = ApiServer::start(folder.path()).await;
        Self::on(folder, server)
    }

    /// Where a pod's log can be read through the API: a kubelet serves it, which a real API server is here without.
    async fn with_logs() -> Self {
        let folder = support::temp();
        let server = ApiServer::loopback(folder.path()).await;
        Self::on(folder, server)
    }

    fn on(folder: tempfile::TempDir, server: ApiServer) -> Self {
        Self {
            client: server.client(),
            url: server.url(),
            folder,
            _server: server,
            leash: vec![env!("CARGO_BIN_EXE_hostwright").to_owned(), "leash".to_owned()],
        }
    }

    /// Without a leash.
    async fn unleashed() -> Self {
        Self::held_by(&[]).await
    }

    /// With a leash that is none: it takes the leash's arguments and becomes the program, which then outlives its runner.
    async fn careless() -> Self {
        let script = r#"[ "$1" = --grace ] && [ "$3" = -- ] || exit 99; shift 3; exec "$@""#;
        Self::held_by(&["/bin/sh", "-c", script, "leash"]).await
    }

    async fn held_by(leash: &[&str]) -> Self {
        let mut cluster = Self::start().await;
        cluster.leash = leash.iter().map(|&word| word.to_owned()).collect();
        cluster
    }

    fn options(&self) -> Options {
        Options {
            namespace: NAMESPACE.to_owned(),
            logs: self.folder.path().join("logs"),
            work: self.folder.path().join("pods"),
            program: "/bin/echo".into(),
            leash: self.leash.clone(),
            env: vec![("GIVEN".to_owned(), "to all".to_owned())],
            node: "playground".to_owned(),
            backoff: Duration::from_millis(50),
            stop_within: Duration::from_secs(10),
        }
    }

    fn run(&self) -> Running {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(runner::run(self.client.clone(), self.options(), shutdown.clone()));
        Running { task, shutdown }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A file that the scripts of this test share.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a Job whose container runs `script` in a shell.
    async fn job(&self, name: &str, script: &str, spec: Value, container: Value) -> Job {
        let mut whole = json!({"name": "main", "image": "none", "command": ["sh", "-c", script, "main"]});
        whole.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        let mut job = json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "hostwright"}},
            "spec": {"backoffLimit": 2, "template": {
                "metadata": {"labels": {"kind": "test"}, "annotations": {"decision": "yes"}},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [whole]}}},
        });
        job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let job = serde_json::from_value(job).unwrap();
        self.api::<Job>().create(&PostParams::default(), &job).await.unwrap()
    }

    /// Waits until the Job is as wanted.
    async fn job_is(&self, name: &str, wanted: impl Fn(&Job) -> bool) -> Job {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        seen(self.api(), config, wanted).await
    }

    /// Waits until a pod of the Job is as wanted.
    async fn pod_is(&self, job: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        let config = watcher::Config::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        seen(self.api(), config, wanted).await
    }

    async fn pods(&self, job: &str) -> Vec<Pod> {
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        self.api::<Pod>().list(&of_job).await.unwrap().items
    }

    /// Waits until the Job has no pod any more.
    async fn no_pod(&self, job: &str) {
        let config = watcher::Config::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        let mut changes = watcher(self.api::<Pod>(), config).default_backoff().boxed();
        let waiting = async {
            loop {
                if self.pods(job).await.is_empty() {
                    return;
                }
                changes.try_next().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("a pod is left");
    }

    /// Waits until the Job is gone.
    async fn gone(&self, name: &str, job: &Job) {
        let gone = kube::runtime::conditions::is_deleted(job.metadata.uid.as_ref().unwrap());
        let waiting = kube::runtime::wait::await_condition(self.api::<Job>(), name, gone);
        tokio::time::timeout(PATIENCE, waiting).await.expect("the Job is left").unwrap();
    }

    async fn suspend(&self, name: &str, suspend: bool) {
        let change = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        self.api::<Job>().patch(name, &PatchParams::default(), &change).await.unwrap();
    }

    /// What the container said, its times taken off.
    fn said(&self, pod: &Pod) -> Vec<String> {
        let text = std::fs::read_to_string(self.log(pod)).unwrap();
        text.lines().map(|l| l.split_once(' ').unwrap().1.to_owned()).collect()
    }

    fn log(&self, pod: &Pod) -> PathBuf {
        self.options().logs.join(pod.metadata.uid.as_ref().unwrap()).join("main.log")
    }

    fn home(&self, pod: &Pod) -> PathBuf {
        self.options().work.join(pod.metadata.uid.as_ref().unwrap())
    }

    /// Waits until the script says `ready` and its process id in its log (`$$$$`: Kubernetes makes one dollar of two).
    async fn ready(&self, pod: &Pod) -> u32 {
        let pid = || {
            let log = std::fs::read_to_string(self.log(pod)).unwrap_or_default();
            let whole = log.lines().filter(|_| log.ends_with('\n'));
            whole.filter_map(|line| line.split_once(" ready ")?.1.parse().ok()).next()
        };
        until("that it is ready", || pid().is_some()).await;
        pid().unwrap()
    }
}

/// Waits for something that nobody tells of: files.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until an object of those watched is as wanted.
async fn seen<K>(api: Api<K>, config: watcher::Config, wanted: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let mut objects = watcher(api, config).default_backoff().applied_objects().boxed();
    let mut last = None;
    let waiting = async {
        loop {
            let object = objects.try_next().await.unwrap().expect("the watch ended");
            if wanted(&object) {
                return object;
            }
            last = Some(object);
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(object) => object,
        Err(_) => panic!("it never came to that; at last it was {last:#?}"),
    }
}

fn condition<'a>(job: &'a Job, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut all = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let found = all.find(|c| c.type_ == kind && c.status == "True")?;
    Some((found.reason.as_deref().unwrap(), found.message.as_deref().unwrap()))
}

fn is_complete(job: &Job) -> bool {
    condition(job, "Complete").is_some()
}

fn is_failed(job: &Job) -> bool {
    condition(job, "Failed").is_some()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn is_running(pod: &Pod) -> bool {
    phase(pod) == "Running"
}

fn end(pod: &Pod) -> &ContainerStateTerminated {
    let container = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    container.state.as_ref().unwrap().terminated.as_ref().unwrap()
}

/// The process of a running pod.
fn process(pod: &Pod) -> u32 {
    let container = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    container.container_id.as_ref().unwrap().strip_prefix("process://").unwrap().parse().unwrap()
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn counters(job: &Job) -> (i32, i32, i32) {
    let status = job.status.as_ref().unwrap();
    (status.active.unwrap_or(0), status.succeeded.unwrap_or(0), status.failed.unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_and_its_log_status_and_events_tell_of_it() {
    let cluster = Cluster::with_logs().await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    cluster
        .api::<Secret>()
        .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
        .await
        .unwrap();
    let runner = cluster.run();
    let script = r#"
        echo "$GIVEN|$NAME|$DECISION|$PASSWORD|$0|$1"; echo to stderr >&2; printf '\377 raw\n'; pwd; ls -ld .
        printf 'all is well' > "$TERMINATION_MESSAGE_PATH"; printf 'no line end'"#;
    let env = json!({"args": ["$(NAME) and $$(NAME)"], "env": [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "DECISION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['decision']"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}]});
    cluster.job("good", script, json!({}), env).await;
    let job = cluster.job_is("good", is_complete).await;

    assert_eq!(condition(&job, "SuccessCriteriaMet").unwrap().0, "CompletionsReached");
    assert_eq!(counters(&job), (0, 1, 0));
    let status = job.status.as_ref().unwrap();
    assert!(status.completion_time >= status.start_time && status.start_time.is_some());
    let pods = cluster.pods("good").await;
    let [pod] = pods.as_slice() else { panic!("{} pods", pods.len()) };
    let name = pod.metadata.name.clone().unwrap();
    assert!(
        name.starts_with("good-") && name.len() == 10 && phase(pod) == "Succeeded",
        "{name} {}",
        phase(pod)
    );
    assert!(pod.metadata.finalizers.as_ref().is_none_or(Vec::is_empty));
    assert_eq!((end(pod).exit_code, end(pod).reason.as_deref()), (0, Some("Completed")));
    assert_eq!(end(pod).message.as_deref(), Some("all is well"));

    let home = cluster.home(pod);
    let log = std::fs::read(cluster.log(pod)).unwrap();
    let lines: Vec<(&[u8], &[u8])> =
        log.split_inclusive(|b| *b == b'\n').map(|l| (&l[..31], &l[31..])).collect();
    let mut said: Vec<&[u8]> = lines.iter().map(|(_, text)| *text).collect();
    assert!(said.iter().any(|l| l.starts_with(b"drwx------")));
    said.retain(|l| !l.starts_with(b"drwx------"));
    said.sort_unstable();
    let first = format!("to all|{name}|yes|hunter2|main|{name} and $(NAME)\n");
    let mut expected: Vec<&[u8]> = vec![first.as_bytes(), b"to stderr\n", b"\xff raw\n", b"no line end\n"];
    let folder = format!("{}\n", home.canonicalize().unwrap_or(home.clone()).display());
    expected.push(folder.as_bytes());
    expected.sort_unstable();
    assert_eq!(said, expected);
    for (time, _) in &lines {
        let time = std::str::from_utf8(time).unwrap();
        assert!(
            time.len() == 31 && time.ends_with("Z ") && time.trim().parse::<jiff::Timestamp>().is_ok(),
            "{time}"
        );
    }
    assert!(!home.exists(), "the pod's folder is left");
    assert_eq!(std::fs::metadata(cluster.log(pod)).unwrap().permissions().mode() & 0o777, 0o600);

    let mut read = Vec::new();
    let stream = cluster.api::<Pod>().log_stream(&name, &LogParams::default()).await.unwrap();
    futures_util::AsyncReadExt::read_to_end(&mut Box::pin(stream), &mut read).await.unwrap();
    assert_eq!(read, lines.iter().flat_map(|(_, text)| text.to_vec()).collect::<Vec<u8>>());
    runner.stop().await;
    assert!(!home.exists(), "the pod's folder is left");
    let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
    let mut reasons: Vec<_> = events.items.iter().map(|e| e.reason.clone().unwrap()).collect();
    reasons.sort();
    assert_eq!(reasons, ["Completed", "Started", "SuccessfulCreate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_again_and_again_reaches_its_limit() {
    let cluster = Cluster::unleashed().await;
    let _runner = cluster.run();
    cluster
        .job(
            "bad",
            "echo oops >&2; exit 3",
            json!({}),
            json!({"terminationMessagePolicy": "FallbackToLogsOnError"}),
        )
        .await;
    let job = cluster.job_is("bad", is_failed).await;
    let expected = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    assert_eq!(
        (condition(&job, "Failed"), condition(&job, "FailureTarget")),
        (Some(expected), Some(expected))
    );
    assert_eq!(counters(&job), (0, 0, 3));
    let pods = cluster.pods("bad").await;
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        let end = end(pod);
        assert_eq!(
            (end.exit_code, end.reason.as_deref(), end.message.as_deref()),
            (3, Some("Error"), Some("oops"))
        );
        assert_eq!((phase(pod), cluster.said(pod)), ("Failed", vec!["oops".to_owned()]));
    }
}

/// The design's failure policy.
fn policy() -> Value {
    json!({"podFailurePolicy": {"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [10, 11, 12, 13]}}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_that_no_retry_mends_fails_the_job_at_once() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    cluster.job("hopeless", "exit 11", policy(), json!({})).await;
    let job = cluster.job_is("hopeless", is_failed).await;
    let (reason, message) = condition(&job, "Failed").unwrap();
    assert_eq!(reason, "PodFailurePolicy");
    assert!(message.starts_with("Container main for pod hostwright/hopeless-"), "{message}");
    assert!(message.ends_with(" failed with exit code 11 matching FailJob rule at index 1"), "{message}");
    assert_eq!((counters(&job), cluster.pods("hopeless").await.len()), ((0, 0, 1), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_job_ends_its_process_and_goes_on_when_resumed() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    let file = cluster.file("asked");
    let script = r#"
        [ -e "$1" ] && exit 0
        trap 'echo asked > "$1"; exit 143' TERM
        echo ready $$$$; while :; do sleep 1000 & wait; done"#;
    cluster.job("paused", script, policy(), json!({"args": [file.to_str().unwrap()]})).await;
    let pod = cluster.pod_is("paused", is_running).await;
    let pid = cluster.ready(&pod).await;
    let started = cluster.job_is("paused", |j| counters(j).0 == 1).await.status.unwrap().start_time;
    assert!(started.is_some());
    cluster.suspend("paused", true).await;
    let job = cluster
        .job_is("paused", |j| {
            condition(j, "Suspended").is_some()
                && counters(j).0 == 0
                && j.status.as_ref().unwrap().terminating == Some(0)
        })
        .await;
    assert_eq!(
        (condition(&job, "Suspended").unwrap().0, job.status.as_ref().unwrap().start_time.as_ref()),
        ("JobSuspended", None)
    );
    cluster.no_pod("paused").await;
    assert!(!lives(pid));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "asked\n");
    cluster.suspend("paused", false).await;
    let job = cluster.job_is("paused", is_complete).await;
    assert_eq!((counters(&job), condition(&job, "Suspended")), ((0, 1, 0), None));
    let pods = cluster.pods("paused").await;
    assert!(pods.len() == 1 && pods[0].metadata.uid != pod.metadata.uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_running_job() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    // Long enough for a busy machine to see it run before.
    cluster.job("slow", "exec sleep 1000", json!({"activeDeadlineSeconds": 8}), json!({})).await;
    let pid = process(&cluster.pod_is("slow", is_running).await);
    let job = cluster.job_is("slow", is_failed).await;
    let expected = ("DeadlineExceeded", "Job was active longer than specified deadline");
    assert_eq!((condition(&job, "Failed"), counters(&job)), (Some(expected), (0, 0, 1)));
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_job_leaves_neither_process_nor_pod_nor_files() {
    let cluster = Cluster::start().await;
    let runner = cluster.run();
    // It does not want to end and has much time; then it gets less.
    let stubborn = json!({"template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 600, "containers": [
        {"name": "main", "image": "none", "command": ["sh", "-c", "trap '' TERM; echo ready $$$$; while :; do sleep 1000; done"]}]}}});
    cluster.job("doomed", "", stubborn, json!({})).await;
    let pod = cluster.pod_is("doomed", is_running).await;
    let pid = cluster.ready(&pod).await;
    assert!(lives(pid) && cluster.home(&pod).exists() && cluster.log(&pod).exists());
    cluster.api::<Job>().delete("doomed", &DeleteParams::background()).await.unwrap();
    cluster.pod_is("doomed", |p| p.metadata.deletion_timestamp.is_some()).await;
    let soon = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
    cluster.api::<Pod>().delete(pod.metadata.name.as_ref().unwrap(), &soon).await.unwrap();
    cluster.no_pod("doomed").await;
    assert!(!lives(pid));
    runner.stop().await;
    let left = || cluster.home(&pod).exists() || cluster.log(&pod).parent().unwrap().exists();
    until("its files to go", || !left()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_tried_again() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    let file = cluster.file("second");
    let script = r#"[ -e "$1" ] && exit 0; : > "$1"; echo ready $$$$; exec sleep 1000"#;
    cluster.job("shot", script, policy(), json!({"args": [file.to_str().unwrap()]})).await;
    let pod = cluster.pod_is("shot", is_running).await;
    kill(cluster.ready(&pod).await);
    let job = cluster.job_is("shot", is_complete).await;
    assert_eq!(counters(&job), (0, 1, 1));
    let pods = cluster.pods("shot").await;
    let mut codes: Vec<i32> = pods.iter().map(|p| end(p).exit_code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 137]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_container_leaves_behind_outlives_it() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    cluster.job("parent", "setsid sleep 1000 & echo $!", json!({}), json!({})).await;
    cluster.job_is("parent", is_complete).await;
    let said = cluster.said(&cluster.pods("parent").await[0]);
    assert!(!lives(said[0].parse().unwrap()), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_runner_died_is_lost_and_does_not_count() {
    // This leash does not end its program, as if it were still at it: the next runner must see to the end.
    let cluster = Cluster::careless().await;
    let first = cluster.run();
    let file = cluster.file("second");
    let script = r#"[ -e "$1" ] && exit 0; : > "$1"; echo ready $$$$; exec sleep 1000"#;
    let spec = json!({"backoffLimit": 0, "podFailurePolicy": policy()["podFailurePolicy"]});
    cluster.job("orphan", script, spec, json!({"args": [file.to_str().unwrap()]})).await;
    let pod = cluster.pod_is("orphan", is_running).await;
    let pid = cluster.ready(&pod).await;
    assert_eq!(pid, process(&pod));
    first.kill().await;
    assert!(lives(pid));
    let second = cluster.run();
    let job = cluster.job_is("orphan", is_complete).await;
    assert_eq!(counters(&job), (0, 1, 0));
    assert!(!lives(pid), "two at once");
    let pods = cluster.pods("orphan").await;
    let lost = pods.iter().find(|p| p.metadata.uid == pod.metadata.uid).unwrap();
    let status = lost.status.as_ref().unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("NodeLost")));
    assert_eq!(
        (end(lost).exit_code, end(lost).message.as_deref()),
        (137, Some("the playground was restarted"))
    );
    assert!(status.conditions.iter().flatten().any(|c| c.type_ == "DisruptionTarget" && c.status == "True"));
    second.stop().await;
    assert!(!cluster.home(&pod).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_orphaned_while_no_runner_was_there_are_ended() {
    let cluster = Cluster::start().await;
    let first = cluster.run();
    cluster.job("left", "echo ready $$$$; exec sleep 1000", json!({}), json!({})).await;
    let pod = cluster.pod_is("left", is_running).await;
    let pid = cluster.ready(&pod).await;
    first.kill().await;
    cluster.api::<Job>().delete("left", &DeleteParams::background()).await.unwrap();
    let second = cluster.run();
    cluster.no_pod("left").await;
    assert!(!lives(pid));
    // The pod's object goes before its files do.
    until("the end of its files", || {
        !cluster.home(&pod).exists() && !cluster.log(&pod).parent().unwrap().exists()
    })
    .await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_set_free_goes_on_without_its_job() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    let file = cluster.file("go");
    assert!(tokio::process::Command::new("mkfifo").arg(&file).status().await.unwrap().success());
    let script = r#"read go < "$1""#;
    let job = cluster.job("freed", script, json!({}), json!({"args": [file.to_str().unwrap()]})).await;
    cluster.pod_is("freed", is_running).await;
    let orphan = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    cluster.api::<Job>().delete("freed", &orphan).await.unwrap();
    cluster.gone("freed", &job).await;
    let free = |p: &Pod| p.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) && is_running(p);
    cluster.pod_is("freed", free).await;
    tokio::fs::write(file, "go\n").await.unwrap();
    cluster.pod_is("freed", |p| phase(p) == "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_stops_ends_everything_and_the_next_one_goes_on() {
    let cluster = Cluster::start().await;
    let first = cluster.run();
    let file = cluster.file("asked");
    let script = r#"
        [ -e "$1" ] && exit 0
        trap 'echo asked > "$1"; exit 143' TERM
        echo ready $$$$; while :; do sleep 1000 & wait; done"#;
    let spec = json!({"backoffLimit": 0, "podFailurePolicy": policy()["podFailurePolicy"]});
    cluster.job("stopped", script, spec, json!({"args": [file.to_str().unwrap()]})).await;
    let pod = cluster.pod_is("stopped", is_running).await;
    let pid = cluster.ready(&pod).await;
    first.stop().await;
    assert!(!lives(pid));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "asked\n");
    let job = cluster.api::<Job>().get("stopped").await.unwrap();
    let pods = cluster.pods("stopped").await;
    assert_eq!((counters(&job), phase(&pods[0]), end(&pods[0]).exit_code), ((0, 0, 0), "Failed", 143));
    let _second = cluster.run();
    assert_eq!(counters(&cluster.job_is("stopped", is_complete).await), (0, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_waits_for_what_it_lacks() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    let env = json!({"env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "late", "key": "p"}}}]});
    cluster.job("waits", r#"echo "got $P""#, json!({}), env).await;
    let waiting = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        let state = containers.and_then(|c| c.first()?.state.as_ref()?.waiting.clone());
        state.is_some_and(|w| {
            w.reason.as_deref() == Some("CreateContainerConfigError")
                && w.message.as_deref() == Some("Secret late not found")
        })
    };
    assert_eq!(phase(&cluster.pod_is("waits", waiting).await), "Pending");
    let secret = json!({"metadata": {"name": "late"}, "stringData": {"p": "it"}});
    cluster
        .api::<Secret>()
        .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
        .await
        .unwrap();
    cluster.job_is("waits", is_complete).await;
    assert_eq!(cluster.said(&cluster.pods("waits").await[0]), ["got it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_does_not_exist_fails_to_start() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    cluster.job("typo", "", json!({"backoffLimit": 0}), json!({"command": ["nonesuch-command"]})).await;
    cluster.job_is("typo", is_failed).await;
    let pods = cluster.pods("typo").await;
    assert_eq!((end(&pods[0]).exit_code, end(&pods[0]).reason.as_deref()), (128, Some("StartError")));
    let message = end(&pods[0]).message.as_deref().unwrap();
    assert!(
        message.starts_with("cannot start the container: no program \"nonesuch-command\" in PATH"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_our_jobs_run_and_suspended_ones_wait() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    let foreign = json!({"metadata": {"name": "foreign"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "command": ["true"]}]}}}});
    cluster
        .api::<Job>()
        .create(&PostParams::default(), &serde_json::from_value(foreign).unwrap())
        .await
        .unwrap();
    cluster.job("pending", "true", json!({"suspend": true}), json!({})).await;
    cluster.job("ours", "true", json!({}), json!({})).await;
    cluster.job_is("ours", is_complete).await;
    let pending = cluster.job_is("pending", |j| condition(j, "Suspended").is_some()).await;
    assert_eq!((pending.status.unwrap().start_time, cluster.pods("pending").await.len()), (None, 0));
    assert!(cluster.pods("foreign").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_expires() {
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    let job = cluster.job("brief", "true", json!({"ttlSecondsAfterFinished": 1}), json!({})).await;
    cluster.gone("brief", &job).await;
    cluster.no_pod("brief").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_end_each_once_with_few_writes() {
    const JOBS: usize = 30;
    let cluster = Cluster::start().await;
    let _runner = cluster.run();
    let mut changes = watcher(cluster.api::<Job>(), watcher::Config::default()).boxed();
    let file = cluster.file("runs");
    for n in 0..JOBS {
        let script = r#"echo "$1" >> "$2""#;
        let args = json!({"args": [n.to_string(), file.to_str().unwrap()]});
        cluster.job(&format!("many-{n}"), script, policy(), args).await;
    }
    let (mut complete, mut seen) = (std::collections::BTreeSet::new(), 0);
    let counting = async {
        while complete.len() < JOBS {
            if let watcher::Event::Apply(job) | watcher::Event::InitApply(job) =
                changes.try_next().await.unwrap().unwrap()
            {
                seen += 1;
                if is_complete(&job) {
                    complete.insert(job.metadata.name);
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, counting).await.unwrap();
    // Created; started; active; ready; succeeded and uncounted; complete.
    assert!(seen <= JOBS * 7, "{seen} changes of {JOBS} Jobs");
    let ran = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<&str> = ran.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..JOBS).map(|n| n.to_string()).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected, "each ran once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runs_log_is_saved_whole_and_a_failure_leaves_what_was_there() {
    let cluster = Cluster::with_logs().await;
    let runner = cluster.run();
    let script = r#"printf '\033[2J \377 10%%\r20%%\n'; head -c 300000 /dev/zero | tr '\0' x; exit 1"#;
    let job = cluster.job("twice", script, json!({"backoffLimit": 1}), json!({})).await;
    cluster.job_is("twice", is_failed).await;
    let config = cluster.folder.path().join("kubeconfig");
    crate::ground::write_kubeconfig(&config, &cluster.url);
    let place = hostwright::config::Kubernetes { kubeconfig: Some(config), context: None, namespace: None };
    let kube = hostwright::backend::kube::Kube::connect(&place).await.unwrap();
    let uid = job.metadata.uid.clone().unwrap();
    let folder = cluster.folder.path().join("state/logs");
    let mut heard = 0;
    use hostwright::ops::logs::save;
    let saved = save(&kube, "twice", &uid, &folder, |bytes| heard = bytes).await.unwrap();

    let once = [b"\x1b[2J \xff 10%\r20%\n".as_slice(), &[b'x'; 300_000], b"\n"].concat();
    assert_eq!(saved.path, folder.join("twice.log"));
    assert!(
        std::fs::read(&saved.path).unwrap() == [once.as_slice(), &once].concat(),
        "two attempts, each byte"
    );
    assert!(saved.bytes == 2 * once.len() as u64 && heard == saved.bytes, "{} {heard}", saved.bytes);
    assert_eq!(std::fs::metadata(&saved.path).unwrap().permissions().mode() & 0o777, 0o600);

    let error = save(&kube, "twice", "nobody", &folder, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("with a log"), "{error}");
    assert!(save(&kube, "../twice", &uid, &folder, |_| {}).await.is_err(), "no name leads out of the folder");
    let kept: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.as_slice(), std::slice::from_ref(&saved.path), "no half of a file is left");
    assert_eq!(std::fs::metadata(&saved.path).unwrap().len(), saved.bytes);
    runner.stop().await;
}
