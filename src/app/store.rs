//! What is known of the world: data that several screens show lives here once. Messages feed it; screens only read it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use jiff::Timestamp;

use super::log::LogBuffer;
use crate::domain::results::{ResultDetails, RunResults};
use crate::domain::{BackEnd, Health, Kind, Phase, Problem, Run, RunDetails};

/// How many opened runs and results are remembered.
const DETAILS_KEPT: usize = 32;
const RESULTS_KEPT: usize = 64;
const LOGS_KEPT: usize = 4;

/// Results of one run.
#[derive(Debug, Default)]
pub struct ResultsEntry {
    /// What ARA had last.
    pub results: Option<Box<RunResults>>,
    /// Why it is not the newest.
    pub problem: Option<Problem>,
    /// No more will come.
    pub complete: bool,
    /// Goes up with each change.
    pub revision: u64,
}

/// Which runs a list that is under way has brought.
#[derive(Debug, Default)]
enum Listing {
    /// No list yet.
    #[default]
    Never,
    /// A list is under way.
    Underway(HashSet<String>),
    /// The list is complete, changes stream in.
    Complete,
}

/// Everything that came from outside.
#[derive(Debug, Default)]
pub struct Store {
    runs: HashMap<String, Run>,
    /// The UIDs of each host's runs, oldest first.
    hosts: HashMap<String, Vec<String>>,
    counts: BTreeMap<Phase, usize>,
    listing: Listing,
    listed_at: Option<Timestamp>,
    /// What changed since the tables looked: UIDs and host names.
    touched: Touched,
    details: VecDeque<RunDetails>,
    results: HashMap<String, ResultsEntry>,
    result_details: VecDeque<ResultDetails>,
    logs: VecDeque<(String, LogBuffer)>,
    health: BTreeMap<BackEnd, Health>,
}

/// The keys of rows that changed, came or went.
#[derive(Debug, Default)]
pub struct Touched {
    /// UIDs of runs.
    pub runs: HashSet<String>,
    /// Names of hosts.
    pub hosts: HashSet<String>,
}

impl Store {
    /// A list begins.
    pub fn reset(&mut self) {
        self.listing = Listing::Underway(HashSet::new());
    }

    /// Runs that are new or changed.
    pub fn batch(&mut self, runs: Vec<Run>) {
        for run in runs {
            if let Listing::Underway(brought) = &mut self.listing {
                brought.insert(run.uid.clone());
            }
            self.put(run);
        }
    }

    /// The list is complete; what it did not bring is removed.
    pub fn listed(&mut self, now: Timestamp) {
        if let Listing::Underway(brought) = std::mem::replace(&mut self.listing, Listing::Complete) {
            let gone = self.runs.keys().filter(|uid| !brought.contains(*uid)).cloned().collect();
            self.remove(gone);
        }
        self.listed_at = Some(now);
    }

    /// Runs that are gone.
    pub fn remove(&mut self, uids: Vec<String>) {
        for uid in uids {
            let Some(run) = self.runs.remove(&uid) else { continue };
            let host = run.host.as_str();
            let before = self.head_phase(host, Some(&run));
            if let Some(list) = self.hosts.get_mut(host) {
                list.retain(|u| *u != uid);
                if list.is_empty() {
                    self.hosts.remove(host);
                }
            }
            let after = self.head_phase(host, None);
            self.count(before, after);
            self.touched.hosts.insert(host.to_owned());
            self.touched.runs.insert(uid);
        }
    }

    fn put(&mut self, run: Run) {
        let (uid, host) = (run.uid.clone(), run.host.as_str().to_owned());
        let before = self.head_phase(&host, None);
        let (created, number) = (run.created, run.number);
        if self.runs.insert(uid.clone(), run).is_none() {
            let runs = &self.runs;
            let list = self.hosts.entry(host.clone()).or_default();
            let at = list.partition_point(|other| {
                runs.get(other).is_some_and(|o| (o.created, o.number) <= (created, number))
            });
            list.insert(at, uid.clone());
        }
        let after = self.head_phase(&host, None);
        self.count(before, after);
        self.touched.hosts.insert(host);
        self.touched.runs.insert(uid);
    }

    fn head_phase(&self, host: &str, removed: Option<&Run>) -> Option<Phase> {
        let list = self.hosts.get(host)?;
        let find = |uid: &String| self.runs.get(uid).or(removed.filter(|r| r.uid == *uid));
        let newest = list.iter().rev().filter_map(find);
        newest.clone().find(|r| r.kind == Kind::Provision).or(newest.clone().next()).map(|r| r.phase)
    }

    fn count(&mut self, before: Option<Phase>, after: Option<Phase>) {
        if before == after {
            return;
        }
        if let Some(count) = before.and_then(|p| self.counts.get_mut(&p)) {
            *count = count.saturating_sub(1);
        }
        if let Some(phase) = after {
            *self.counts.entry(phase).or_default() += 1;
        }
    }

    /// What changed since this was last called.
    pub(super) fn take_touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }

    /// The run of that UID.
    #[must_use]
    pub fn run(&self, uid: &str) -> Option<&Run> {
        self.runs.get(uid)
    }

    /// All runs, in no order.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.values()
    }

    /// How many runs there are.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// How many hosts there are.
    #[must_use]
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// The runs of a host, newest first.
    pub fn runs_of(&self, host: &str) -> impl Iterator<Item = &Run> + Clone {
        self.hosts.get(host).into_iter().flatten().rev().filter_map(|uid| self.runs.get(uid))
    }

    /// The run that stands for a host: its newest that provisions it, else its newest.
    #[must_use]
    pub fn head(&self, host: &str) -> Option<&Run> {
        self.head_of(self.hosts.get(host)?)
    }

    fn head_of(&self, uids: &[String]) -> Option<&Run> {
        let mut runs = uids.iter().rev().filter_map(|uid| self.runs.get(uid));
        runs.clone().find(|r| r.kind == Kind::Provision).or_else(|| runs.next())
    }

    /// All hosts' names with the run that stands for each, in no order.
    pub fn heads(&self) -> impl Iterator<Item = (&str, &Run)> {
        self.hosts.iter().filter_map(|(host, uids)| self.head_of(uids).map(|run| (host.as_str(), run)))
    }

    /// How many hosts are in a phase.
    #[must_use]
    pub fn in_phase(&self, phase: Phase) -> usize {
        self.counts.get(&phase).copied().unwrap_or(0)
    }

    /// True when a list has been complete once: an empty table means that there is nothing.
    #[must_use]
    pub fn ever_listed(&self) -> bool {
        self.listed_at.is_some()
    }

    /// True while a list is under way.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        matches!(self.listing, Listing::Underway(_))
    }

    /// Since when the rows are old: the cluster does not answer.
    #[must_use]
    pub fn stale_since(&self) -> Option<Timestamp> {
        match self.health(BackEnd::Cluster) {
            Health::Down { since, .. } if self.ever_listed() => Some(*since),
            _ => None,
        }
    }

    /// How a back end fares.
    #[must_use]
    pub fn health(&self, back_end: BackEnd) -> &Health {
        self.health.get(&back_end).unwrap_or(&Health::Unknown)
    }

    /// A back end fares otherwise. Returns how it did before.
    pub fn set_health(&mut self, back_end: BackEnd, health: Health) -> Health {
        self.health.insert(back_end, health).unwrap_or_default()
    }

    /// A run that was opened, with everything on its Job.
    #[must_use]
    pub fn details(&self, uid: &str) -> Option<&RunDetails> {
        self.details.iter().find(|d| d.run.uid == uid)
    }

    /// Keeps an opened run; it may be newer than the watch.
    pub fn put_details(&mut self, details: RunDetails) {
        self.details.retain(|d| d.run.uid != details.run.uid);
        self.details.push_back(details);
        if self.details.len() > DETAILS_KEPT {
            self.details.pop_front();
        }
    }

    /// What ARA has of a run.
    #[must_use]
    pub fn results(&self, uid: &str) -> Option<&ResultsEntry> {
        self.results.get(uid)
    }

    /// News of what ARA has.
    pub fn put_results(&mut self, uid: &str, results: Result<Box<RunResults>, Problem>, complete: bool) {
        if self.results.len() >= RESULTS_KEPT && !self.results.contains_key(uid) {
            self.results.clear();
        }
        let entry = self.results.entry(uid.to_owned()).or_default();
        entry.complete = complete;
        entry.revision += 1;
        match results {
            Ok(results) => {
                entry.results = Some(results);
                entry.problem = None;
            }
            Err(problem) => entry.problem = Some(problem),
        }
    }

    /// A result that was opened.
    #[must_use]
    pub fn result(&self, id: u64) -> Option<&ResultDetails> {
        self.result_details.iter().find(|d| d.result.id == id)
    }

    /// Keeps an opened result.
    pub fn put_result(&mut self, details: ResultDetails) {
        self.result_details.retain(|d| d.result.id != details.result.id);
        self.result_details.push_back(details);
        if self.result_details.len() > RESULTS_KEPT {
            self.result_details.pop_front();
        }
    }

    /// The log of a run.
    #[must_use]
    pub fn log(&self, uid: &str) -> Option<&LogBuffer> {
        self.logs.iter().find(|(u, _)| u == uid).map(|(_, log)| log)
    }

    /// The log of a run, to be filled.
    pub(super) fn log_mut(&mut self, uid: &str) -> Option<&mut LogBuffer> {
        if self.log(uid).is_none() {
            if self.logs.len() >= LOGS_KEPT {
                self.logs.pop_front();
            }
            self.logs.push_back((uid.to_owned(), LogBuffer::default()));
        }
        self.logs.iter_mut().find(|(u, _)| u == uid).map(|(_, log)| log)
    }

    /// Forgets the log of a run: it is about to be sent again from its beginning.
    pub(super) fn forget_log(&mut self, uid: &str) {
        self.logs.retain(|(u, _)| u != uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample;

    fn store() -> Store {
        let mut store = Store::default();
        store.reset();
        store.batch(vec![sample::run("a.org", Phase::Pending), sample::run("b.org", Phase::Ready)]);
        store.listed(sample::now());
        store
    }

    #[test]
    fn a_relist_removes_what_it_does_not_bring() {
        let mut store = store();
        let old = store.run(&sample::uid("a.org", 1)).cloned();
        store.reset();
        assert_eq!(store.run_count(), 2, "rows stay while a list is under way");
        store.batch(vec![sample::run("b.org", Phase::Ready), sample::run("c.org", Phase::Ready)]);
        store.listed(sample::now());
        assert!(
            old.is_some() && store.run(&sample::uid("a.org", 1)).is_none() && store.head("a.org").is_none()
        );
        assert_eq!(
            (store.host_count(), store.in_phase(Phase::Ready), store.in_phase(Phase::Pending)),
            (2, 2, 0)
        );
    }

    #[test]
    fn the_newest_provisioning_run_stands_for_its_host() {
        let mut store = store();
        let mut second = sample::run("a.org", Phase::Failed);
        second.uid = sample::uid("a.org", 2);
        second.number = 2;
        second.created = sample::now();
        let mut check = sample::run("a.org", Phase::Ready);
        (check.uid, check.kind, check.created) = ("check".to_owned(), Kind::Check, sample::now());
        store.batch(vec![check, second]);
        assert_eq!(store.head("a.org").map(|r| r.number), Some(2));
        assert_eq!(store.runs_of("a.org").count(), 3);
        assert_eq!((store.in_phase(Phase::Failed), store.in_phase(Phase::Pending)), (1, 0));
        store.remove(vec![sample::uid("a.org", 2)]);
        assert_eq!((store.in_phase(Phase::Failed), store.in_phase(Phase::Pending)), (0, 1));
    }
}
