//! One pod from pending to its end: the kubelet's part for a single pod.
//!
//! `kubelet.rs` starts one worker for each pod and tells it by an [`Order`] when the pod is to end. The worker owns the container's
//! process and is the only writer of the pod's status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::{Recorder, Tone};
use super::jobs::FIELD_MANAGER;
use super::launch::{self, LaunchError};
use super::pod_status::{self, End, LOST, STOPPED, Step};
use super::process::{self, Process, Streams};
use super::{Options, log, patch, pods};

/// The longest wait between two tries to write a status or to start a container that lacks something.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The first wait after a status could not be written.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// How long the output of a process that has ended may take to be read. Without a leash a descendant may hold it open for ever.
const DRAIN: Duration = Duration::from_secs(2);
/// A killed process is killed again after so long, should it have forked in that moment.
const KILL_AGAIN: Duration = Duration::from_secs(1);

/// What a worker is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Go on.
    Run,
    /// The pod is being deleted: end the container within this time.
    End(Duration),
    /// The pod is not there any more: end the container, there is no status to write.
    Gone,
    /// The runner stops: end the container and say why.
    Stop,
}

/// Whether a status got where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    /// The pod is gone, or somebody else wrote its end: there is nothing more to do for it.
    Over,
}

/// The worker of one pod.
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) api: Api<Pod>,
    pub(super) options: Arc<Options>,
    pub(super) recorder: Recorder,
    pub(super) pod: Pod,
    /// Whether another worker has begun with this pod before, which is not there any more.
    pub(super) begun: bool,
    pub(super) orders: watch::Receiver<Order>,
}

impl Worker {
    /// Lives the pod's whole life, and cleans up behind it.
    pub(super) async fn live(mut self) {
        let end = if self.begun { Some(self.find_lost().await) } else { self.contain().await };
        if let (Some(end), true) = (end, self.order() != Order::Gone) {
            self.write(&Step::Ended(end)).await;
        }
        launch::clear(&self.options, pods::uid(&self.pod)).await;
    }

    /// Runs the container; `None` when the pod is over without it.
    async fn contain(&mut self) -> Option<End> {
        let creating = Step::Waiting { reason: "ContainerCreating", message: None };
        if self.write(&creating).await == Written::Over {
            return None;
        }
        let launch = match self.prepare().await {
            Ok(launch) => launch,
            Err(end) => return end,
        };
        let started = Timestamp::now();
        let (mut process, streams) = match Process::start(&launch, &self.options.leash) {
            Ok(started) => started,
            Err(e) => return Some(self.not_started(format!("cannot start the container: {e}"))),
        };
        if let Some(pid) = process.id() {
            let note = launch::note(&self.options, pods::uid(&self.pod));
            if let Err(error) = process::write_note(&note, pid).await {
                tracing::warn!(pod = pods::name(&self.pod), %error, "cannot note the process of a pod");
            }
        }
        let enough = CancellationToken::new();
        let mut log = self.keep_log(streams, &enough);
        let name = self.container_name();
        self.recorder.pod(&self.pod, Tone::Normal, "Started", &format!("Started container {name}"));
        let code = self.attend(&mut process, started).await;
        let finished = Timestamp::now();
        let tail = match tokio::time::timeout(DRAIN, &mut log).await {
            Ok(tail) => tail,
            Err(_) => {
                enough.cancel();
                log.await
            }
        };
        Some(self.ended(code, started, finished, &tail.unwrap_or_default()).await)
    }

    /// What the process is started with, once all of it is there; otherwise how the pod ended without it.
    async fn prepare(&mut self) -> Result<process::Launch, Option<End>> {
        let mut wait = self.options.backoff;
        let mut told = None;
        loop {
            match self.order() {
                Order::Run => {}
                Order::Gone => return Err(None),
                Order::End(_) | Order::Stop => return Err(Some(self.never_started())),
            }
            let problem = match launch::prepare(&self.client, &self.options, &self.pod).await {
                Ok(launch) => return Ok(launch),
                Err(LaunchError::Command(message)) => return Err(Some(self.not_started(message))),
                Err(LaunchError::Config(problem)) => problem.to_string(),
            };
            if told.as_ref() != Some(&problem) {
                self.recorder.pod(&self.pod, Tone::Warning, "Failed", &format!("Error: {problem}"));
                let reason = "CreateContainerConfigError";
                if self.write(&Step::Waiting { reason, message: Some(problem.clone()) }).await
                    == Written::Over
                {
                    return Err(None);
                }
                told = Some(problem);
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = self.orders.changed() => {}
            }
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
        }
    }

    fn keep_log(&self, (stdout, stderr): Streams, enough: &CancellationToken) -> JoinHandle<Vec<u8>> {
        let path = log::path(&self.options.logs, pods::uid(&self.pod), &self.container_name());
        tokio::spawn(log::copy(path, stdout, stderr, enough.clone()))
    }

    /// Waits for the process's end, brings it about when it is ordered, and writes meanwhile that it runs.
    async fn attend(&mut self, process: &mut Process, started: Timestamp) -> i32 {
        let mut orders = self.orders.clone();
        let running = Step::Running { started, pid: process.id() };
        let mut write = std::pin::pin!(self.write(&running));
        let (mut written, mut listening) = (false, true);
        // An order may have come before: it counts as a change here.
        orders.mark_changed();
        let mut kill_at: Option<Instant> = None;
        loop {
            tokio::select! {
                code = process.wait() => {
                    return code.unwrap_or_else(|error| {
                        tracing::error!(pod = pods::name(&self.pod), %error, "cannot wait for a container");
                        255
                    });
                }
                result = &mut write, if !written => {
                    written = true;
                    if result == Written::Over {
                        process.ask();
                        kill_at = sooner(kill_at, self.grace());
                    }
                }
                changed = orders.changed(), if listening => {
                    listening = changed.is_ok();
                    let order = if listening { *orders.borrow_and_update() } else { Order::Stop };
                    if let Some(within) = self.time_to_end(order) {
                        self.tell_killing(kill_at.is_none());
                        process.ask();
                        kill_at = sooner(kill_at, within);
                    }
                }
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    process.kill();
                    kill_at = Some(Instant::now() + KILL_AGAIN);
                }
            }
        }
    }

    /// How long the container gets to end under `order`; `None` when it need not end.
    fn time_to_end(&self, order: Order) -> Option<Duration> {
        match order {
            Order::Run => None,
            Order::End(within) => Some(within),
            Order::Gone => Some(self.grace()),
            Order::Stop => Some(self.grace().min(self.options.stop_within)),
        }
    }

    fn tell_killing(&self, first: bool) {
        if first {
            let note = format!("Stopping container {}", self.container_name());
            self.recorder.pod(&self.pod, Tone::Normal, "Killing", &note);
        }
    }

    async fn ended(&self, code: i32, started: Timestamp, finished: Timestamp, tail: &[u8]) -> End {
        let mut message = launch::termination_message(&self.options, pods::uid(&self.pod)).await;
        let container = launch::container(&self.pod).ok();
        let policy = container.and_then(|c| c.termination_message_policy.as_deref());
        if message.is_none() && code != 0 && policy == Some("FallbackToLogsOnError") {
            message = Some(log::last_lines(tail)).filter(|m| !m.is_empty());
        }
        End {
            code,
            reason: if code == 0 { "Completed" } else { "Error" },
            message,
            started: Some(started),
            finished,
            disruption: (self.order() == Order::Stop).then_some(STOPPED),
        }
    }

    fn not_started(&self, message: String) -> End {
        self.recorder.pod(&self.pod, Tone::Warning, "Failed", &format!("Error: {message}"));
        End {
            code: 128,
            reason: "StartError",
            message: Some(message),
            started: None,
            finished: Timestamp::now(),
            disruption: None,
        }
    }

    fn never_started(&self) -> End {
        End {
            code: 137,
            reason: "ContainerStatusUnknown",
            message: Some("the pod was ended before its container started".to_owned()),
            started: None,
            finished: Timestamp::now(),
            disruption: (self.order() == Order::Stop).then_some(STOPPED),
        }
    }

    /// A pod that an earlier runner began: what of it still runs is ended, and how it went is not known.
    async fn find_lost(&self) -> End {
        let note = launch::note(&self.options, pods::uid(&self.pod));
        process::end_noted(&note, self.grace().saturating_add(DRAIN)).await;
        let status = self.pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        let mut running = status.filter_map(|c| c.state.as_ref()?.running.as_ref()?.started_at.as_ref());
        End {
            code: 137,
            reason: "ContainerStatusUnknown",
            message: Some(LOST.message.to_owned()),
            started: running.next().map(|t| t.0),
            finished: Timestamp::now(),
            disruption: Some(LOST),
        }
    }

    /// Writes the pod's status after `step`, trying until it is written or there is nothing to write.
    async fn write(&self, step: &Step) -> Written {
        let mut wait = FIRST_WAIT;
        loop {
            match self.try_write(step).await {
                Ok(written) => return written,
                Err(error) => {
                    tracing::warn!(pod = pods::name(&self.pod), %error, "cannot write a pod's status; trying again");
                }
            }
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
        }
    }

    async fn try_write(&self, step: &Step) -> Result<Written, kube::Error> {
        let name = pods::name(&self.pod);
        let found = self.api.get_opt(name).await?;
        let Some(pod) = found.filter(|p| p.metadata.uid == self.pod.metadata.uid) else {
            return Ok(Written::Over);
        };
        if pods::is_terminal(&pod) {
            return Ok(Written::Over);
        }
        let status = pod_status::after(&pod, step, Timestamp::now());
        let version = pod.metadata.resource_version.as_deref();
        let change = patch::status(pod.status.as_ref(), &status, version).map_err(kube::Error::SerdeError)?;
        let Some(change) = change else { return Ok(Written::Yes) };
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.api.patch_status(name, &params, &Patch::Merge(&change)).await {
            Ok(_) => Ok(Written::Yes),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Written::Over),
            Err(error) => Err(error),
        }
    }

    fn order(&self) -> Order {
        *self.orders.borrow()
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(pods::grace_seconds(&self.pod))
    }

    fn container_name(&self) -> String {
        let first = self.pod.spec.as_ref().and_then(|s| s.containers.first());
        first.map(|c| c.name.clone()).unwrap_or_default()
    }
}

/// Whether nobody has begun with this pod.
pub(super) fn is_fresh(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    pods::phase(pod) == "Pending"
        && status
            .is_none_or(|s| s.start_time.is_none() && s.container_statuses.as_ref().is_none_or(Vec::is_empty))
}

fn sooner(known: Option<Instant>, within: Duration) -> Option<Instant> {
    // A grace period without end is one of a day.
    let at = Instant::now() + within.min(Duration::from_secs(24 * 60 * 60));
    Some(known.map_or(at, |k| k.min(at)))
}
