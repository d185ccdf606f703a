//! The loop of the runner: the watches on Jobs and pods, the Jobs that are due, the pods' workers, and the end of it all.

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::Recorder;
use super::jobs::{Jobs, StepError};
use super::kubelet::Kubelet;
use super::queue::{Outcome, Queue};
use super::{MANAGED_BY, Options, RunnerError, controller, pods};

/// How many Jobs are looked at side by side.
const SIDE_BY_SIDE: usize = 8;
/// How long the last look at the Jobs may take when the runner stops.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// A Job that is due by the clock is looked at within this time: the clock may be set meanwhile.
const LONGEST_NAP: Duration = Duration::from_secs(60 * 60);
/// The least time between two looks at a Job that is due by the clock.
const SHORTEST_NAP: Duration = Duration::from_millis(10);

/// Runs the Jobs of one namespace until `shutdown`; then ends every container and writes how it ended, within
/// [`Options::stop_within`] and a few seconds.
///
/// # Errors
/// When its folders cannot be made. Trouble with the API server or with a Job is retried and logged, never returned.
pub async fn run(client: Client, options: Options, shutdown: CancellationToken) -> Result<(), RunnerError> {
    let mut options = options;
    let leftovers = prepare(&mut options)?;
    let options = Arc::new(options);
    let (recorder, sender) = Recorder::new(client.clone(), &options.namespace, &options.node);
    let mut runner = Runner {
        jobs: Jobs::new(&client, &options, recorder.clone()),
        kubelet: Kubelet::new(client.clone(), &options, recorder, leftovers),
        queue: Queue::default(),
        steps: JoinSet::new(),
        names: HashMap::new(),
    };
    let result = runner.work(&client, &options, &shutdown).await;
    runner.stop().await;
    drop(runner);
    tokio::time::timeout(LAST_LOOK, sender).await.ok();
    result
}

/// Makes the folders, their paths whole since containers start elsewhere; the names in the work folder.
fn prepare(options: &mut Options) -> Result<Vec<String>, RunnerError> {
    let make = |folder: &mut PathBuf| {
        let whole = std::path::absolute(&*folder).and_then(|whole| {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&whole)?;
            Ok(whole)
        });
        *folder = whole.map_err(|source| RunnerError::Folder { folder: folder.clone(), source })?;
        Ok(())
    };
    make(&mut options.logs)?;
    make(&mut options.work)?;
    let entries = std::fs::read_dir(&options.work)
        .map_err(|source| RunnerError::Folder { folder: options.work.clone(), source })?;
    Ok(entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect())
}

type Step = Result<Option<Timestamp>, StepError>;

struct Runner {
    jobs: Jobs,
    kubelet: Kubelet,
    queue: Queue,
    steps: JoinSet<Step>,
    /// Which Job a step is about.
    names: HashMap<Id, String>,
}

impl Runner {
    async fn work(
        &mut self,
        client: &Client,
        options: &Options,
        shutdown: &CancellationToken,
    ) -> Result<(), RunnerError> {
        let (key, value) = MANAGED_BY;
        let ours = watcher::Config::default().labels(&format!("{key}={value}")).page_size(100);
        let of_jobs = watcher::Config::default().labels(pods::JOB_NAME).page_size(100);
        let jobs = Api::<Job>::namespaced(client.clone(), &options.namespace);
        let all_pods = Api::<Pod>::namespaced(client.clone(), &options.namespace);
        let mut jobs = watcher(jobs, ours).default_backoff().boxed();
        let mut pods = watcher(all_pods, of_jobs).default_backoff().boxed();
        loop {
            self.start_due();
            let due = if self.steps.len() < SIDE_BY_SIDE { self.queue.next_due() } else { None };
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                event = jobs.next() => match event {
                    None => return Err(RunnerError::WatchEnded("Jobs")),
                    Some(Ok(event)) => self.job_event(event),
                    Some(Err(error)) => tracing::warn!(%error, "the watch on Jobs broke; it begins again"),
                },
                event = pods.next() => match event {
                    None => return Err(RunnerError::WatchEnded("pods")),
                    Some(Ok(event)) => self.pod_event(event),
                    Some(Err(error)) => tracing::warn!(%error, "the watch on pods broke; it begins again"),
                },
                Some(step) = self.steps.join_next_with_id() => match step {
                    Ok((id, result)) => self.step_done(id, Some(result)),
                    Err(error) => {
                        tracing::error!(%error, "a look at a Job broke down");
                        self.step_done(error.id(), None);
                    }
                },
                () = self.kubelet.next_end(), if self.kubelet.is_busy() => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn start_due(&mut self) {
        while self.steps.len() < SIDE_BY_SIDE {
            let Some(name) = self.queue.take(Instant::now()) else { return };
            let (jobs, job) = (self.jobs.clone(), name.clone());
            let task = self.steps.spawn(async move { jobs.step(&job, false).await });
            self.names.insert(task.id(), name);
        }
    }

    fn job_event(&mut self, event: Event<Job>) {
        let job = match event {
            Event::Apply(job) | Event::InitApply(job) if controller::is_at_rest(&job) => {
                tracing::trace!(job = job.metadata.name, "at rest");
                return;
            }
            Event::Apply(job) | Event::InitApply(job) | Event::Delete(job) => job,
            Event::Init | Event::InitDone => return,
        };
        if let Some(name) = &job.metadata.name {
            self.queue.changed(name, Instant::now());
        }
    }

    fn pod_event(&mut self, event: Event<Pod>) {
        let pod = match event {
            Event::Init => return self.kubelet.list_begins(),
            Event::InitDone => return self.kubelet.list_ends(),
            Event::InitApply(pod) => {
                self.kubelet.listed(&pod);
                pod
            }
            Event::Apply(pod) => {
                self.kubelet.observe(&pod);
                pod
            }
            Event::Delete(pod) => {
                self.kubelet.gone(pods::uid(&pod));
                pod
            }
        };
        // One without an owner was set free, and is to lose our finalizer.
        if let Some(job) = pods::owner(&pod).map(|(job, _)| job).or(pods::job_label(&pod)) {
            self.queue.changed(job, Instant::now());
        }
    }

    fn step_done(&mut self, id: Id, result: Option<Step>) {
        let (Some(name), now) = (self.names.remove(&id), Instant::now()) else { return };
        let outcome = match result {
            None => Outcome::Failed,
            Some(Ok(None)) => Outcome::Settled,
            Some(Ok(Some(at))) => {
                let nap = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
                Outcome::Again(now + nap.clamp(SHORTEST_NAP, LONGEST_NAP))
            }
            Some(Err(error)) => {
                if error.is_conflict() {
                    tracing::debug!(job = name, %error, "somebody else was quicker; looking again");
                } else {
                    tracing::warn!(job = name, %error, "cannot bring a Job further; trying again");
                }
                Outcome::Failed
            }
        };
        self.queue.done(&name, outcome, now);
    }

    /// Ends all containers, then takes the ends into the Jobs' statuses; what that misses the next runner does.
    async fn stop(&mut self) {
        self.steps.abort_all();
        while self.steps.join_next().await.is_some() {}
        let names = self.kubelet.stop().await;
        let last = async {
            for name in names {
                // Twice: a pod is counted in two steps.
                for _ in 0..2 {
                    if let Err(error) = self.jobs.step(&name, true).await {
                        tracing::debug!(job = name, %error, "cannot bring a Job up to date at the end");
                    }
                }
            }
        };
        tokio::time::timeout(LAST_LOOK, last).await.ok();
    }
}
