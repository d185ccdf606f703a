//! The server's watch over all runs: what it tells is kept, and whether the API server answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::told::Told;
use crate::backend::kube::{Kube, KubeError, KubeErrorKind, RunsEvent};
use crate::domain::approvals::Standing;
use crate::domain::{Health, Phase, Run};

/// So long after its next try a watch that broke off and says nothing is asked about.
const SILENCE: Duration = Duration::from_millis(1500);
/// How long a watch may be silent before it is asked whether the API server answers: a dead line is as silent as a quiet cluster.
const QUIET: Duration = Duration::from_secs(10);
/// How far apart that is asked while it does not answer.
const SELDOM: Duration = Duration::from_secs(30);

/// What the rest of the server needs to know.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Overview {
    /// The API server's health.
    pub(super) cluster: Health,
    /// ARA's health. The server itself asks nothing of it; this is for whoever looks at `/readyz`.
    pub(super) ara: Health,
    /// How many runs are pending; none before the first list of them is complete.
    pub(super) pending: Option<usize>,
    /// Whether this replica delivers.
    pub(super) delivers: bool,
    /// Whether approvals are held.
    pub(super) approvals: Standing,
}

/// The runs as the watch last told them; shared by the watch and the worker, never held over an await.
pub(super) type Runs = Arc<Mutex<HashMap<String, Run>>>;

pub(super) fn lock(runs: &Mutex<HashMap<String, Run>>) -> std::sync::MutexGuard<'_, HashMap<String, Run>> {
    runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Keeps the runs up to date. `lines` counts the connections that were given up for dead: what else hangs on one begins anew.
pub(super) async fn follow(
    context: &Context,
    runs: &Runs,
    changed: &Notify,
    overview: &watch::Sender<Overview>,
    lines: &watch::Sender<u64>,
    shutdown: &CancellationToken,
) {
    let mut follower = Follower {
        runs,
        changed,
        overview,
        fresh: None,
        listed: false,
        refused: false,
        told: Told::default(),
    };
    let mut events = Box::pin(context.kube.watch_runs());
    let mut silence = Silence::new();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            answer = silence.ask(&context.kube) => {
                match silence.heard(answer) {
                    Ok(true) => {
                        // The watch may hang on the connection that was dead.
                        events = Box::pin(context.kube.watch_runs());
                        follower.fresh = None;
                        lines.send_modify(|lines| *lines += 1);
                    }
                    // It answers, and refuses to tell of runs: only a watch that goes on proves the contrary.
                    Ok(false) if follower.refused => {}
                    Ok(false) => follower.up(),
                    Err((error, delay)) => follower.down(&error, delay),
                }
                continue;
            }
            () = shutdown.cancelled() => return,
        };
        let Some(event) = event else { return };
        silence.broken(match &event {
            RunsEvent::Failed(_, delay) | RunsEvent::Polled(_, delay) => Some(*delay),
            _ => None,
        });
        follower.hear(event);
    }
}

/// When a watch that says nothing is asked about, and what is made of the answer.
struct Silence {
    ask_at: Instant,
    delay: Duration,
    away: bool,
}

impl Silence {
    fn new() -> Self {
        Self { ask_at: Instant::now() + QUIET, delay: SILENCE, away: false }
    }

    async fn ask(&self, kube: &Kube) -> Result<(), KubeError> {
        tokio::time::sleep_until(self.ask_at).await;
        kube.answers().await
    }

    /// The watch said something; when it broke off, it goes on after this time.
    fn broken(&mut self, goes_on: Option<Duration>) {
        self.ask_at = Instant::now() + goes_on.map_or(QUIET, |delay| delay + SILENCE);
        if goes_on.is_none() {
            (self.away, self.delay) = (false, SILENCE);
        }
    }

    /// Whether the API server was away before it answered; or why it is away, and when it is asked next.
    fn heard(&mut self, answer: Result<(), KubeError>) -> Result<bool, (KubeError, Duration)> {
        match answer {
            Ok(()) => {
                (self.ask_at, self.delay) = (Instant::now() + QUIET, SILENCE);
                Ok(std::mem::take(&mut self.away))
            }
            Err(error) => {
                self.away = true;
                let delay = error.retry_after().unwrap_or_default().clamp(self.delay, SELDOM);
                self.delay = (self.delay * 2).min(SELDOM);
                self.ask_at = Instant::now() + delay;
                Err((error, delay))
            }
        }
    }
}

/// What becomes of the events.
struct Follower<'a> {
    runs: &'a Runs,
    changed: &'a Notify,
    overview: &'a watch::Sender<Overview>,
    /// The list that is being made.
    fresh: Option<HashMap<String, Run>>,
    /// Whether a list was complete once.
    listed: bool,
    /// The API server answered last that it does not tell.
    refused: bool,
    told: Told,
}

impl Follower<'_> {
    fn hear(&mut self, event: RunsEvent) {
        match event {
            RunsEvent::Reset => self.fresh = Some(HashMap::new()),
            RunsEvent::Changed(batch) => {
                let mut stored = lock(self.runs);
                let target = self.fresh.as_mut().unwrap_or(&mut stored);
                target.extend(batch.into_iter().map(|run| (run.uid.clone(), run)));
                drop(stored);
                self.goes_on();
            }
            RunsEvent::Listed => {
                if let Some(all) = self.fresh.take() {
                    *lock(self.runs) = all;
                }
                self.listed = true;
                self.goes_on();
            }
            RunsEvent::Removed(uid) => {
                lock(self.runs).remove(&uid);
                self.goes_on();
            }
            RunsEvent::Polled(error, delay) => {
                if self.told.is_news("poll", &error) {
                    tracing::warn!(%error, "runs may not be watched: they are listed every {} s", delay.as_secs());
                }
            }
            RunsEvent::Failed(error, delay) => {
                use KubeErrorKind as K;
                self.refused = !matches!(error.kind, K::Unreachable | K::NotAuthenticated | K::Expired);
                self.down(&error, delay);
            }
        }
        self.count();
        if self.fresh.is_none() {
            self.changed.notify_one();
        }
    }

    fn count(&self) {
        let pending = lock(self.runs).values().filter(|r| r.phase == Phase::Pending && !r.deleting).count();
        let pending = self.listed.then_some(pending);
        self.overview.send_if_modified(|o| std::mem::replace(&mut o.pending, pending) != pending);
    }

    fn goes_on(&mut self) {
        self.refused = false;
        self.up();
    }

    fn up(&self) {
        if self.told.is_over("watch") {
            tracing::info!("the API server answers again");
        }
        self.overview.send_if_modified(|o| std::mem::replace(&mut o.cluster, Health::Up) != Health::Up);
    }

    fn down(&self, error: &KubeError, delay: Duration) {
        if self.told.is_news("watch", error) {
            tracing::warn!(%error, retry_in = delay.as_secs_f32(), "the watch over runs broke off");
        }
        let mut problem = error.problem("cluster");
        problem.retry_at =
            Timestamp::now().checked_add(SignedDuration::try_from(delay).unwrap_or_default()).ok();
        self.overview.send_modify(|o| match &mut o.cluster {
            Health::Down { problem: old, .. } => *old = problem,
            cluster => *cluster = Health::Down { since: Timestamp::now(), problem },
        });
    }
}
