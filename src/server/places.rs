//! The limit on runs at a time, as the server keeps it: told to everybody who approves, and enforced by starting what waits.

use std::time::Duration;

use tokio::time::Instant;

use super::Context;
use super::follow::{Runs, lock};
use super::told::Told;
use crate::domain::approvals::Standing;
use crate::domain::places;
use crate::ops;

/// What failed is left alone for this long.
const REST: Duration = Duration::from_secs(5);

/// When something failed last.
#[derive(Debug, Default)]
pub(super) struct Places {
    told: Option<Instant>,
    filled: Option<Instant>,
    log: Told,
}

impl Places {
    /// Tells everybody the limit where they know another. A full pass does not rest.
    pub(super) async fn tell(&mut self, context: &Context, approvals: &Standing, full: bool) {
        let limit = context.settings.runs_at_once;
        let known = match approvals {
            Standing::Known(approvals) => approvals.runs_at_once == limit,
            // Who may not read it may not write it.
            Standing::Unknown | Standing::Unreadable(_) => true,
        };
        if known || (rests(self.told) && !full) {
            return;
        }
        self.told = None;
        let Err(error) = ops::approvals::publish(&context.kube, &context.permit, limit).await else {
            self.log.is_over("tell");
            return;
        };
        if self.log.is_news("tell", &error) {
            tracing::warn!(%error, limit, "the limit on runs at a time is not told: operators' approvals do not wait");
        }
        self.told = Some(Instant::now());
    }

    /// Starts what has a place, as far as the watch shows that there is something to start.
    pub(super) async fn fill(&mut self, context: &Context, runs: &Runs, approvals: &Standing, full: bool) {
        let (limit, held) = (context.settings.runs_at_once, approvals.hold().is_some());
        let due = !places::next(lock(runs).values(), limit, held).is_empty();
        if !due || *approvals == Standing::Unknown || (rests(self.filled) && !full) {
            return;
        }
        self.filled = None;
        match ops::places::fill(&context.kube, &context.permit, limit, held).await {
            Ok(started) => {
                self.log.is_over("fill");
                tracing::debug!(started, limit, "runs that waited for a place");
            }
            Err(error) => {
                if self.log.is_news("fill", &error) {
                    tracing::warn!(%error, "runs that wait for a place are tried again later");
                }
                self.filled = Some(Instant::now());
            }
        }
    }
}

fn rests(since: Option<Instant>) -> bool {
    since.is_some_and(|since| since.elapsed() < REST)
}
