//! The server's watch over all runs: what it tells is kept, and whether the API server answers.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::backend::kube::{Kube, RunsEvent};
use crate::domain::approvals::Standing;
use crate::domain::{Health, Phase, Run};

/// So long after its next try a watch that broke off and says nothing is taken to have gone on.
const SILENCE: Duration = Duration::from_millis(1500);

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

/// Keeps the runs up to date.
pub(super) async fn follow(
    context: &Context,
    runs: &Runs,
    changed: &Notify,
    overview: &watch::Sender<Overview>,
    shutdown: &CancellationToken,
) {
    let mut events = pin!(context.kube.watch_runs());
    let mut fresh: Option<HashMap<String, Run>> = None;
    let mut listed = false;
    let mut silent_at = None;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = answers_again(&context.kube, silent_at) => {
                silent_at = None;
                overview.send_modify(|o| o.cluster = Health::Up);
                continue;
            }
            () = shutdown.cancelled() => return,
        };
        silent_at = None;
        let mut health = None;
        match event {
            None => return,
            Some(RunsEvent::Reset) => fresh = Some(HashMap::new()),
            Some(RunsEvent::Changed(batch)) => {
                let mut stored = lock(runs);
                let target = fresh.as_mut().unwrap_or(&mut stored);
                target.extend(batch.into_iter().map(|run| (run.uid.clone(), run)));
                health = Some(Health::Up);
            }
            Some(RunsEvent::Listed) => {
                if let Some(all) = fresh.take() {
                    *lock(runs) = all;
                }
                listed = true;
                health = Some(Health::Up);
            }
            Some(RunsEvent::Removed(uid)) => {
                lock(runs).remove(&uid);
                health = Some(Health::Up);
            }
            Some(RunsEvent::Polled(error, delay)) => {
                tracing::warn!(%error, "runs may not be watched: they are listed every {} s", delay.as_secs());
            }
            Some(RunsEvent::Failed(error, delay)) => {
                tracing::warn!(%error, retry_in = delay.as_secs_f32(), "the watch over runs broke off");
                let mut problem = error.problem("cluster");
                problem.retry_at =
                    Timestamp::now().checked_add(SignedDuration::try_from(delay).unwrap_or_default()).ok();
                silent_at = Some(Instant::now() + delay + SILENCE);
                health = Some(Health::Down { since: Timestamp::now(), problem });
            }
        }
        let pending = lock(runs).values().filter(|r| r.phase == Phase::Pending && !r.deleting).count();
        overview.send_if_modified(|o| {
            let before = o.clone();
            o.pending = listed.then_some(pending);
            match health {
                Some(Health::Down { problem, .. }) if matches!(o.cluster, Health::Down { .. }) => {
                    if let Health::Down { problem: old, .. } = &mut o.cluster {
                        *old = problem;
                    }
                }
                Some(health) => o.cluster = health,
                None => {}
            }
            *o != before
        });
        if fresh.is_none() {
            changed.notify_one();
        }
    }
}

/// Ends once the API server answers, asked from this moment on; never without one.
///
/// A watch that goes on where it broke off says nothing until something changes, which may take hours.
async fn answers_again(kube: &Kube, from: Option<Instant>) {
    let Some(from) = from else { return std::future::pending().await };
    tokio::time::sleep_until(from).await;
    while kube.ping().await.is_err() {
        tokio::time::sleep(SILENCE).await;
    }
}
