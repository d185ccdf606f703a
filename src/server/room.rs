//! How many runs may be pending: counted exactly also when many hosts call at once, although the watch tells of a new run only
//! after its call was answered.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::follow::{Runs, lock};
use crate::domain::{HostName, Phase, Run};

/// A run that the watch has not told of after this time was deleted in between.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// The places for pending runs. A host has one at most.
#[derive(Debug)]
pub(super) struct Room {
    runs: Runs,
    limit: usize,
    expected: Mutex<HashMap<HostName, Expected>>,
}

/// A host whose run may be pending although the watch has not told so.
#[derive(Debug, Default)]
struct Expected {
    /// Calls that are being answered.
    calls: usize,
    /// The run that one of them made, and when.
    made: Option<(String, Instant)>,
}

/// A place that is kept while a call is answered.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    host: HostName,
}

impl Room {
    pub(super) fn new(runs: Runs, limit: usize) -> Arc<Self> {
        Arc::new(Self { runs, limit, expected: Mutex::default() })
    }

    fn expected(&self) -> MutexGuard<'_, HashMap<HostName, Expected>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for the host's run: the one that it has, or a free one; none when all are taken.
    pub(super) fn enter(self: &Arc<Self>, host: &HostName) -> Option<Place> {
        let mut expected = self.expected();
        let taken: HashSet<HostName> = {
            let runs = lock(&self.runs);
            expected.retain(|_, e| {
                let told =
                    |(uid, at): &(String, Instant)| runs.contains_key(uid) || at.elapsed() > TOLD_WITHIN;
                e.made = e.made.take().filter(|made| !told(made));
                e.calls > 0 || e.made.is_some()
            });
            let pending = |run: &&Run| run.phase == Phase::Pending && !run.deleting;
            let pending = runs.values().filter(pending).map(|run| run.host.clone());
            pending.chain(expected.keys().cloned()).collect()
        };
        if taken.len() >= self.limit && !taken.contains(host) {
            return None;
        }
        expected.entry(host.clone()).or_default().calls += 1;
        Some(Place { room: Arc::clone(self), host: host.clone() })
    }
}

impl Place {
    /// The call made this run: the place is the run's until the watch tells of it.
    pub(super) fn taken_by(&self, run: &Run) {
        if let Some(expected) = self.room.expected().get_mut(&self.host) {
            expected.made = Some((run.uid.clone(), Instant::now()));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut expected = self.room.expected();
        if let Some(entry) = expected.get_mut(&self.host) {
            entry.calls = entry.calls.saturating_sub(1);
            if entry.calls == 0 && entry.made.is_none() {
                expected.remove(&self.host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostName {
        name.parse().unwrap()
    }

    #[test]
    fn a_place_is_given_once_and_comes_back_when_nothing_came_of_it() {
        let room = Room::new(Runs::default(), 2);
        let (a, b) = (room.enter(&host("a.x")).unwrap(), room.enter(&host("b.x")).unwrap());
        assert!(room.enter(&host("c.x")).is_none());
        let again = room.enter(&host("a.x")).unwrap();
        drop(a);
        assert!(room.enter(&host("c.x")).is_none(), "a call of the same host is still answered");
        drop(again);
        assert!(room.enter(&host("c.x")).is_some());
        drop(b);
        let none = Room::new(Runs::default(), 0);
        assert!(none.enter(&host("a.x")).is_none());
    }
}
