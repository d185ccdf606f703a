//! When a node syncs again.

use std::time::Duration;

/// The longest pause after failures, unless the usual one is longer.
const LONGEST: Duration = Duration::from_secs(300);
/// By how much a pause differs at most, as a share of it: many nodes that were started at once do not stay together.
const JITTER: f64 = 0.1;

/// The pauses between the rounds: the usual one, and after failures each time twice as long, up to five minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    every: Duration,
    failures: u32,
}

impl Pace {
    /// The usual pause.
    pub const EVERY: Duration = Duration::from_secs(10);

    /// One round after each `every`.
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self { every, failures: 0 }
    }

    /// How many rounds failed, one after the other, until now.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause until the next round, after one that went well or not. `random` is from 0 to 1.
    pub fn next(&mut self, well: bool, random: f64) -> Duration {
        let random = random.clamp(0.0, 1.0);
        if well {
            self.failures = 0;
            return self.every.mul_f64(1.0 - JITTER + 2.0 * JITTER * random);
        }
        self.failures = self.failures.saturating_add(1);
        let doubled = self.every.saturating_mul(1 << self.failures.min(16));
        let pause = doubled.min(LONGEST.max(self.every));
        // Between a half and the whole: nodes that failed together come back one by one.
        pause.mul_f64(0.5 + random / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_slows_down_while_it_fails_and_never_stops() {
        let mut pace = Pace::new(Pace::EVERY);
        let seconds = |pause: Duration| pause.as_secs_f64();
        assert_eq!((seconds(pace.next(true, 0.0)), seconds(pace.next(true, 1.0))), (9.0, 11.0));
        let pauses: Vec<f64> = (0..40).map(|_| seconds(pace.next(false, 1.0))).collect();
        assert_eq!(&pauses[..6], [20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
        assert_eq!(pauses.last(), Some(&300.0));
        assert_eq!((seconds(pace.next(false, 0.0)), pace.failures()), (150.0, 41));
        assert_eq!((seconds(pace.next(true, 0.5)), pace.failures()), (10.0, 0));
        // An hour between the rounds is not made shorter by failing.
        assert_eq!(seconds(Pace::new(Duration::from_secs(3_600)).next(false, 1.0)), 3_600.0);
        let mut far = Pace { every: Duration::MAX, failures: u32::MAX };
        assert_eq!(far.next(false, 0.0), Duration::MAX.mul_f64(0.5));
    }
}
