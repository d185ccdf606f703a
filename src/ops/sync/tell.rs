//! What the node says of itself in the bucket.

use jiff::{SignedDuration, Timestamp};

use super::{Round, Store, SyncOptions, SyncProblem};
use crate::domain::manifest::{Memory, NodeStatus};

/// How long a node waits that could not say its word.
const AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// When the node said what.
#[derive(Debug, Default)]
pub(super) struct Word {
    /// When it is said again though nothing changes; none: it was never said.
    next: Option<Timestamp>,
    /// Something changed since.
    changed: bool,
    /// The last time it could not be said: it is not tried in each round then.
    refused: bool,
    /// What could not be done when it was said.
    problems: Vec<SyncProblem>,
}

impl Word {
    /// Says it, if something changed or it is time. That it cannot be said keeps nothing from being done: it is logged.
    pub(super) async fn say<S: Store>(
        &mut self,
        store: &S,
        options: &SyncOptions,
        memory: &Memory,
        round: &Round,
        synced: Option<Timestamp>,
    ) {
        if !options.tells || round.stopped {
            return;
        }
        let now = Timestamp::now();
        let problems = problems(round);
        self.changed |= round.changed() || problems != self.problems;
        let due = self.next.is_none_or(|next| now >= next);
        if !due && (self.refused || !self.changed) {
            return;
        }
        let mut status = NodeStatus::new(&options.node, env!("CARGO_PKG_VERSION"), now, memory);
        status.synced = synced;
        status.again_within = options.heartbeat.as_secs() + AGAIN.unsigned_abs().as_secs();
        status.prefixes = options.scope.prefixes().iter().map(|prefix| prefix.as_str().to_owned()).collect();
        problems.iter().for_each(|problem| status.problem(problem.key.as_deref(), &problem.text));
        let said = store.tell(&options.node.key(), status.to_json()).await;
        self.refused = said.is_err();
        let wait = match said {
            Ok(()) => {
                self.changed = false;
                self.problems = problems;
                SignedDuration::try_from(options.heartbeat).unwrap_or(AGAIN)
            }
            Err(error) => {
                tracing::warn!(%error, "the console cannot be told what this node has");
                AGAIN
            }
        };
        self.next = now.checked_add(wait).ok();
    }
}

/// What could not be done, and what can be no file.
fn problems(round: &Round) -> Vec<SyncProblem> {
    let left = round.left.iter().map(|left| SyncProblem {
        key: Some(left.key.clone()),
        text: format!("it is no file here: {}", left.reason),
    });
    round.problems.iter().cloned().chain(left).collect()
}
