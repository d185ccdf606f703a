//! What is known of the world: data that several screens show lives here once. Messages feed it; screens only read it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::log::{LogBuffer, Milestones};
use crate::domain::approvals::Standing;
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
    /// The runs, each in a slot of its own: sorting and filtering go through thousands of them a frame.
    slots: Vec<Option<Run>>,
    free: Vec<usize>,
    /// Slots by UID.
    runs: HashMap<Arc<str>, usize>,
    /// The slots of each host's runs, oldest first.
    hosts: HashMap<Arc<str>, Vec<usize>>,
    counts: BTreeMap<Phase, usize>,
    listing: Listing,
    listed_at: Option<Timestamp>,
    /// What changed since the tables looked: UIDs and host names.
    touched: Touched,
    details: VecDeque<RunDetails>,
    results: HashMap<String, ResultsEntry>,
    result_details: VecDeque<ResultDetails>,
    logs: VecDeque<(String, LogBuffer)>,
    /// When runs whose log was read came how far.
    milestones: VecDeque<(String, (Milestones, Milestones))>,
    health: BTreeMap<BackEnd, Health>,
    /// Whether approvals are held.
    pub approvals: Standing,
}

/// The keys of rows that changed, came or went.
#[derive(Debug, Default)]
pub struct Touched {
    /// UIDs of runs.
    pub runs: HashSet<Arc<str>>,
    /// Names of hosts.
    pub hosts: HashSet<Arc<str>>,
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
            let gone =
                self.runs.keys().filter(|uid| !brought.contains(&***uid)).map(|u| u.to_string()).collect();
            self.remove(gone);
        }
        self.listed_at = Some(now);
    }

    /// Runs that are gone.
    pub fn remove(&mut self, uids: Vec<String>) {
        for uid in uids {
            let Some((uid, at)) = self.runs.remove_entry(uid.as_str()) else { continue };
            let Some(host) = self.slot(at).and_then(|run| self.host_key(run)) else { continue };
            let before = self.head(&host).map(|r| r.phase);
            if let Some(list) = self.hosts.get_mut(&host) {
                list.retain(|other| *other != at);
                if list.is_empty() {
                    self.hosts.remove(&host);
                }
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = None;
                self.free.push(at);
            }
            let after = self.head(&host).map(|r| r.phase);
            self.count(before, after);
            self.touched.hosts.insert(host);
            self.touched.runs.insert(uid);
        }
    }

    fn put(&mut self, run: Run) {
        let before = self.head(run.host.as_str()).map(|r| r.phase);
        let known = self.runs.get_key_value(run.uid.as_str()).map(|(uid, at)| (uid.clone(), *at));
        let host = self.host_key(&run).unwrap_or_else(|| Arc::from(run.host.as_str()));
        let uid = match known {
            Some((uid, at)) => {
                if let Some(slot) = self.slots.get_mut(at) {
                    *slot = Some(run);
                }
                uid
            }
            None => self.add(run, &host),
        };
        let after = self.head(&host).map(|r| r.phase);
        self.count(before, after);
        self.touched.hosts.insert(host);
        self.touched.runs.insert(uid);
    }

    fn add(&mut self, run: Run, host: &Arc<str>) -> Arc<str> {
        let uid: Arc<str> = Arc::from(run.uid.as_str());
        let age = (run.created, run.number);
        let slots = &self.slots;
        let older = |at: &usize| {
            slots.get(*at).and_then(Option::as_ref).is_some_and(|o| (o.created, o.number) <= age)
        };
        let place = self.hosts.get(host).map_or(0, |list| list.partition_point(older));
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(slot) = self.slots.get_mut(at) {
                    *slot = Some(run);
                }
                at
            }
            None => {
                self.slots.push(Some(run));
                self.slots.len() - 1
            }
        };
        self.hosts.entry(host.clone()).or_default().insert(place, at);
        self.runs.insert(uid.clone(), at);
        uid
    }

    fn slot(&self, at: usize) -> Option<&Run> {
        self.slots.get(at)?.as_ref()
    }

    /// The name of a run's host, as it is kept already.
    fn host_key(&self, run: &Run) -> Option<Arc<str>> {
        self.hosts.get_key_value(run.host.as_str()).map(|(host, _)| host.clone())
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
        self.slot(*self.runs.get(uid)?)
    }

    /// All runs with their UIDs, in no order.
    pub fn runs(&self) -> impl Iterator<Item = (&Arc<str>, &Run)> {
        self.runs.iter().filter_map(|(uid, at)| self.slot(*at).map(|run| (uid, run)))
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
        self.newest_first(self.hosts.get(host).map_or(&[], Vec::as_slice))
    }

    fn newest_first(&self, slots: &[usize]) -> impl Iterator<Item = &Run> + Clone {
        slots.iter().rev().filter_map(|at| self.slot(*at))
    }

    /// The run that stands for a host: its newest that provisions it, else its newest.
    #[must_use]
    pub fn head(&self, host: &str) -> Option<&Run> {
        self.head_of(self.hosts.get(host)?)
    }

    fn head_of(&self, slots: &[usize]) -> Option<&Run> {
        let mut runs = self.newest_first(slots);
        runs.clone().find(|r| r.kind == Kind::Provision).or_else(|| runs.next())
    }

    /// All hosts' names with the run that stands for each, in no order.
    pub fn heads(&self) -> impl Iterator<Item = (&Arc<str>, &Run)> {
        self.hosts.iter().filter_map(|(host, slots)| self.head_of(slots).map(|run| (host, run)))
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

    /// Forgets the log of a run: it is about to be sent again from its beginning. What it told of the run's stages stays.
    pub(super) fn forget_log(&mut self, uid: &str) {
        if let Some(read) = self.log(uid).map(LogBuffer::milestones).filter(|read| read.1.first.is_some()) {
            self.milestones.retain(|(u, _)| u != uid);
            self.milestones.push_back((uid.to_owned(), read));
            if self.milestones.len() > RESULTS_KEPT {
                self.milestones.pop_front();
            }
        }
        self.logs.retain(|(u, _)| u != uid);
    }

    /// When a run's first attempt and its newest came how far, as its log tells or told; nothing when it was never looked at.
    #[must_use]
    pub fn milestones(&self, uid: &str) -> Option<(Milestones, Milestones)> {
        let now = self.log(uid).map(LogBuffer::milestones);
        let before = || self.milestones.iter().find(|(u, _)| u == uid).map(|(_, read)| *read);
        now.filter(|read| read.1.first.is_some()).or_else(before).or(now)
    }
}

#[cfg(test)]
mod tests;
