//! The health of the broker, put together from that of the two connections.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::AmqpError;
use crate::domain::Health;

/// Which connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Publishing,
    Consuming,
}

/// Both connections' health, and whoever watches it.
pub(super) struct Pulse {
    lanes: Mutex<[Health; 2]>,
    shown: watch::Sender<Health>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { lanes: Mutex::default(), shown: watch::Sender::new(Health::Unknown) }
    }
}

impl Pulse {
    pub(super) fn subscribe(&self) -> watch::Receiver<Health> {
        self.shown.subscribe()
    }

    /// The connection works, or was closed in good order.
    pub(super) fn set(&self, lane: Lane, health: Health) {
        self.change(lane, |_| health);
    }

    /// The connection does not work; the first such moment is kept until it does.
    pub(super) fn down(&self, lane: Lane, error: &AmqpError, retry_at: Option<Timestamp>) {
        let mut problem = error.problem();
        problem.retry_at = retry_at;
        self.change(lane, |before| {
            let since = match before {
                Health::Down { since, .. } => *since,
                _ => Timestamp::now(),
            };
            Health::Down { since, problem }
        });
    }

    fn change(&self, lane: Lane, next: impl FnOnce(&Health) -> Health) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let [publishing, consuming] = &mut *lanes;
        let slot = if lane == Lane::Publishing { &mut *publishing } else { &mut *consuming };
        *slot = next(slot);
        let whole = match (&*publishing, &*consuming) {
            (down @ Health::Down { .. }, _) | (_, down @ Health::Down { .. }) => down,
            (up @ Health::Up, _) | (_, up) => up,
        };
        self.shown.send_if_modified(|shown| {
            let changed = shown != whole;
            if changed {
                shown.clone_from(whole);
            }
            changed
        });
    }
}
