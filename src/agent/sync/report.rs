//! What a round did, for the log: what goes on is said when it begins and when it is over, not in each round.

use std::collections::BTreeSet;

use crate::domain::secret::shown;
use crate::ops::sync::{Round, SyncProblem};

/// How many files are named in one round; the others are counted.
const NAMED: usize = 100;

/// What was said until now.
#[derive(Debug, Default)]
pub(super) struct Report {
    said: BTreeSet<String>,
    before: bool,
}

impl Report {
    /// Says what is new.
    pub(super) fn tell(&mut self, round: &Round) {
        for (path, why) in round.written.iter().take(NAMED) {
            tracing::info!("wrote {path} ({})", why.words());
        }
        for path in round.removed.iter().take(NAMED) {
            tracing::info!("removed {path}: it is gone from the bucket");
        }
        if !self.before || round.changed() {
            let (written, removed, kept) = (round.written.len(), round.removed.len(), round.kept);
            tracing::info!("{written} written, {removed} removed, {kept} as they were");
        }
        self.before = true;
        let left = round.left.iter().map(|left| format!("left out {left}"));
        let now: BTreeSet<String> = round.problems.iter().map(problem).chain(left).collect();
        now.difference(&self.said).for_each(|text| tracing::warn!("{text}"));
        // What was not looked at because this is to end is not over.
        if !round.stopped {
            self.said.difference(&now).for_each(|text| tracing::info!("no longer: {text}"));
            self.said = now;
        }
    }
}

fn problem(problem: &SyncProblem) -> String {
    match &problem.key {
        Some(key) => format!("{}: {}", shown(key), problem.text),
        None => problem.text.clone(),
    }
}
