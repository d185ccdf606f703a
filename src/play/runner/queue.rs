//! Which Job is next: each at most once at a time, and again when it changed meanwhile.
//!
//! Pure; `run.rs` owns the one queue. What has nothing due is not in it, so it is as small as what is going on.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

/// The first wait after a failed try.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The longest wait after a failed try.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Slot {
    due: Option<Instant>,
    busy: bool,
    /// Came up again while it was busy.
    dirty: bool,
    failures: u32,
}

/// How one try went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing is due.
    Settled,
    /// Something is due then, though nothing changes.
    Again(Instant),
    /// It failed.
    Failed,
}

/// The Jobs that are due, by name.
#[derive(Default)]
pub(super) struct Queue {
    slots: HashMap<String, Slot>,
    order: BTreeSet<(Instant, String)>,
}

impl Queue {
    /// `key` changed: it is due now.
    pub(super) fn changed(&mut self, key: &str, now: Instant) {
        let slot = self.slots.entry(key.to_owned()).or_default();
        if slot.busy {
            slot.dirty = true;
        } else if slot.failures == 0 || slot.due.is_none() {
            // One that fails keeps its wait: its own writes would bring it up at once.
            self.schedule(key, now);
        }
    }

    /// Takes the first key that is due; [`Queue::done`] gives it back.
    pub(super) fn take(&mut self, now: Instant) -> Option<String> {
        let first = self.order.first().filter(|(at, _)| *at <= now)?.clone();
        self.order.remove(&first);
        let slot = self.slots.entry(first.1.clone()).or_default();
        (slot.due, slot.busy, slot.dirty) = (None, true, false);
        Some(first.1)
    }

    /// When the next key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Gives a taken key back.
    pub(super) fn done(&mut self, key: &str, outcome: Outcome, now: Instant) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.busy = false;
        let dirty = slot.dirty;
        slot.failures = if outcome == Outcome::Failed { slot.failures.saturating_add(1) } else { 0 };
        let wait = 2u32.saturating_pow(slot.failures.saturating_sub(1));
        match outcome {
            Outcome::Failed => self.schedule(key, now + FIRST_RETRY.saturating_mul(wait).min(LONGEST_RETRY)),
            _ if dirty => self.schedule(key, now),
            Outcome::Again(at) => self.schedule(key, at),
            Outcome::Settled => {
                self.slots.remove(key);
            }
        }
    }

    fn schedule(&mut self, key: &str, at: Instant) {
        let slot = self.slots.entry(key.to_owned()).or_default();
        if slot.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = slot.due.replace(at) {
            self.order.remove(&(due, key.to_owned()));
        }
        self.order.insert((at, key.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_key_is_taken_once_and_again_when_it_changed_meanwhile() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.changed("a", now);
        queue.changed("a", now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        assert_eq!(queue.take(now), None);
        queue.changed("a", now);
        assert_eq!(queue.take(now), None, "busy");
        queue.done("a", Outcome::Settled, now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        queue.done("a", Outcome::Settled, now);
        assert_eq!((queue.take(now), queue.next_due(), queue.slots.len()), (None, None, 0));
    }

    #[test]
    fn what_is_due_later_comes_later_or_when_it_changes() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.changed("a", now);
        queue.take(now);
        queue.done("a", Outcome::Again(now + SECOND), now);
        assert_eq!((queue.take(now), queue.next_due()), (None, Some(now + SECOND)));
        queue.changed("a", now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        assert_eq!(queue.next_due(), None);
        queue.done("a", Outcome::Again(now + SECOND), now);
        assert_eq!(queue.take(now + SECOND).as_deref(), Some("a"));
    }

    #[test]
    fn a_key_that_fails_waits_longer_each_time() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.changed("a", now);
        for factor in [1, 2, 4, 8] {
            assert!(queue.take(now).is_some());
            queue.changed("a", now);
            queue.done("a", Outcome::Failed, now);
            queue.changed("a", now);
            let due = queue.next_due().unwrap();
            assert_eq!(due - now, FIRST_RETRY * factor);
            now = due;
        }
        for _ in 0..40 {
            queue.take(now);
            queue.done("a", Outcome::Failed, now);
            now = queue.next_due().unwrap();
        }
        queue.take(now);
        queue.done("a", Outcome::Failed, now);
        assert_eq!(queue.next_due(), Some(now + LONGEST_RETRY));
        queue.take(now + LONGEST_RETRY);
        queue.done("a", Outcome::Settled, now);
        queue.changed("a", now);
        assert_eq!(queue.next_due(), Some(now));
    }
}
