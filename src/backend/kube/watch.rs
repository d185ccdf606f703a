//! The watch over all runs: it heals itself, and keeps no object.

use std::time::{Duration, Instant};

use ::kube::runtime::watcher;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, Stream, StreamExt, stream};
use k8s_openapi::api::batch::v1::Job;

use super::{Kube, KubeError, KubeErrorKind, job};
use crate::domain::Run;
use crate::domain::record;

/// What the watch tells.
#[derive(Debug)]
pub enum RunsEvent {
    /// A new list begins: what is not in it by [`RunsEvent::Listed`] is gone.
    Reset,
    /// Runs that are new or have changed.
    Changed(Vec<Run>),
    /// The list is complete.
    Listed,
    /// A run is gone: its UID.
    Removed(String),
    /// The watch broke off and goes on after this time; the rows stay, but are stale.
    Failed(KubeError, Duration),
    /// Listing is allowed and watching is not: the list is fetched again after this time, and so on.
    Polled(KubeError, Duration),
}

/// How often it is asked for what is forbidden; and how often runs are listed where they may not be watched.
const DENIED_DELAY: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
const MOST_IN_A_BATCH: usize = 100;
/// So long a watch lives before the API server ends it and it is begun anew where it was: a line that is dead, on which no end comes
/// either, is left 5 s later (the library's margin). In seconds.
pub(super) const LIFE: u32 = 60;

/// What a watch brings.
pub(super) type Events<K> = BoxStream<'static, watcher::Result<watcher::Event<K>>>;

struct Watch {
    kube: Kube,
    config: watcher::Config,
    events: Events<Job>,
    delay: Duration,
    wait: Option<Duration>,
    /// The API server does not know us any more.
    stranger: bool,
    /// It did not know the version that the watch was to go on from.
    expired: bool,
    /// When the watch broke off last.
    broke_at: Option<Instant>,
}

impl Kube {
    /// Follows all runs. The stream never ends: what fails is told and tried again with a growing delay.
    pub fn watch_runs(&self) -> impl Stream<Item = RunsEvent> + Send + use<> {
        self.watch(watcher::Config::default())
    }

    /// Follows one run, like [`Kube::watch_runs`].
    pub fn watch_run(&self, name: &str) -> impl Stream<Item = RunsEvent> + Send + use<> {
        self.watch(watcher::Config::default().fields(&format!("metadata.name={name}")))
    }

    fn watch(&self, config: watcher::Config) -> impl Stream<Item = RunsEvent> + Send + use<> {
        let selector = format!("{}={}", record::MANAGED_BY, record::MANAGER);
        let config = config.labels(&selector).page_size(100).timeout(LIFE);
        let events = events(self, &config);
        let watch = Watch {
            kube: self.clone(),
            config,
            events,
            delay: FIRST_DELAY,
            wait: None,
            stranger: false,
            expired: false,
            broke_at: None,
        };
        stream::unfold(watch, |mut watch| async move {
            if let Some(wait) = watch.wait.take() {
                tokio::time::sleep(wait).await;
            }
            if watch.stranger
                && let Err(error) = watch.introduce().await
            {
                let told = watch.later(error);
                return Some((stream::iter(vec![told]), watch));
            }
            let batch = batch(&mut watch.events).await?;
            let told = watch.tell(batch);
            Some((stream::iter(told), watch))
        })
        .flatten()
    }
}

fn events(kube: &Kube, config: &watcher::Config) -> Events<Job> {
    watcher::watcher(kube.jobs(), config.clone()).boxed()
}

/// What there is now, and no more after a failure: looked at again, the watcher would send its next request at once.
pub(super) async fn batch<K>(events: &mut Events<K>) -> Option<Vec<watcher::Result<watcher::Event<K>>>> {
    let mut batch = vec![events.next().await?];
    while batch.len() < MOST_IN_A_BATCH && batch.last().is_some_and(Result::is_ok) {
        match events.next().now_or_never() {
            Some(Some(event)) => batch.push(event),
            _ => break,
        }
    }
    Some(batch)
}

/// The pause after a failure: what the API server asks for, if it is more than ours. It cannot put us off for ever.
pub(super) fn wanted(delay: Duration, error: &KubeError) -> Duration {
    error.retry_after().map_or(delay, |wanted| wanted.min(LONGEST_DELAY).max(delay))
}

impl Watch {
    /// Takes the credentials anew: asked with the same ones, the API server would only say the same.
    async fn introduce(&mut self) -> Result<(), KubeError> {
        self.kube.renew().await?;
        self.stranger = false;
        self.events = events(&self.kube, &self.config);
        Ok(())
    }

    /// After what went well the next failure is a first one again. Not so the list after an expiry: an API server that lists, and then
    /// knows nothing of that version, would be asked for list after list.
    fn went_well(&mut self, event: &watcher::Result<watcher::Event<Job>>) {
        let proof = match event {
            Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) => true,
            Ok(_) => !self.expired,
            Err(_) => false,
        };
        if proof {
            (self.delay, self.expired) = (FIRST_DELAY, false);
        }
    }

    fn tell(&mut self, batch_of_events: Vec<watcher::Result<watcher::Event<Job>>>) -> Vec<RunsEvent> {
        let mut told = Vec::new();
        let mut batch = Vec::new();
        for event in batch_of_events {
            self.went_well(&event);
            if let Ok(watcher::Event::Apply(job) | watcher::Event::InitApply(job)) = &event {
                match job::read(job) {
                    Ok(details) => batch.push(details.run),
                    Err(error) => tracing::warn!(%error, "left out"),
                }
                continue;
            }
            if !batch.is_empty() {
                told.push(RunsEvent::Changed(std::mem::take(&mut batch)));
            }
            match event {
                Ok(watcher::Event::Init) => told.push(RunsEvent::Reset),
                Ok(watcher::Event::InitDone) => told.push(RunsEvent::Listed),
                Ok(watcher::Event::Delete(job)) => {
                    told.push(RunsEvent::Removed(job.metadata.uid.unwrap_or_default()));
                }
                Ok(watcher::Event::Apply(_) | watcher::Event::InitApply(_)) => {}
                Err(error) => told.push(self.broke_off(error)),
            }
        }
        if !batch.is_empty() {
            told.push(RunsEvent::Changed(batch));
        }
        told
    }

    /// What is told of a failure; the watch goes on after the delay that it names.
    fn broke_off(&mut self, error: watcher::Error) -> RunsEvent {
        let listed = matches!(error, watcher::Error::WatchStartFailed(_));
        let error = KubeError::from_watch("watch runs", &self.kube.who(), error);
        let denied = error.kind == KubeErrorKind::Forbidden;
        if self.broke_at.replace(Instant::now()).is_some_and(|at| at.elapsed() > 2 * LONGEST_DELAY) {
            self.delay = FIRST_DELAY;
        }
        if denied {
            self.delay = self.delay.max(DENIED_DELAY);
        }
        if error.kind == KubeErrorKind::Expired || (denied && listed) {
            // Refused outright, the watcher would ask for the same expired version, or for the same watch, for ever: a new one lists.
            self.events = events(&self.kube, &self.config);
        }
        self.stranger = error.kind == KubeErrorKind::NotAuthenticated;
        self.expired |= error.kind == KubeErrorKind::Expired;
        match self.later(error) {
            RunsEvent::Failed(error, delay) if denied && listed => RunsEvent::Polled(error, delay),
            told => told,
        }
    }

    /// It goes on after a delay, which grows.
    fn later(&mut self, error: KubeError) -> RunsEvent {
        let delay = wanted(self.delay, &error);
        self.wait = Some(delay);
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
        RunsEvent::Failed(error, delay)
    }
}
