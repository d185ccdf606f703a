//! Old runs: each host keeps its newest, and some before them.

use std::collections::BTreeMap;

use crate::domain::{HostName, Kind, Run};

/// The runs that may be deleted when each host keeps `keep` of each kind (at least one). A run that goes on, or whose mark
/// waits, is never among them.
#[must_use]
pub fn surplus<'a>(runs: impl IntoIterator<Item = &'a Run>, keep: usize) -> Vec<&'a Run> {
    let mut by_host: BTreeMap<(&HostName, Kind), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        by_host.entry((&run.host, run.kind)).or_default().push(run);
    }
    let mut surplus = Vec::new();
    for runs in by_host.values_mut() {
        runs.sort_by_key(|r| std::cmp::Reverse(r.number));
        let waiting = |r: &Run| [&r.retry, &r.check].into_iter().flatten().any(|m| m.answered.is_none());
        surplus.extend(runs.iter().skip(keep.max(1)).filter(|r| r.is_over() && !r.deleting && !waiting(r)));
    }
    surplus
}
