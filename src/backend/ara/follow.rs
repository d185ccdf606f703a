//! The results of a run, joined, counted as Ansible counts, and read again cheaply while the run goes on.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::de::DeserializeOwned;

use super::transport::Page;
use super::wire::{RawHost, RawPlay, RawPlaybook, RawResult, RawTask, Row, Status};
use super::{Ara, AraError};
use crate::domain::Counts;
use crate::domain::results::{Playbook, ResultStatus, RunResults, TaskResult};

/// How much a page holds.
const PAGE: usize = 1000;
/// The most results that are read of a run; the rest is left out, and said to be.
const RESULT_LIMIT: usize = 20_000;

/// What is known of a run's results: the next look reads what is new.
#[derive(Debug)]
pub struct Following {
    label: String,
    playbooks: BTreeMap<u64, Recording>,
}

/// What has been read of one playbook.
#[derive(Debug, Default)]
struct Recording {
    plays: Rows<RawPlay>,
    tasks: Rows<RawTask>,
    hosts: Rows<RawHost>,
    results: Rows<RawResult>,
    /// Nothing can change any more.
    complete: bool,
}

/// A list that was read, by id. ARA only ever adds to the end of one, or throws it away whole.
#[derive(Debug)]
struct Rows<T>(BTreeMap<u64, T>);

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl Following {
    /// Follows the playbooks with a label.
    #[must_use]
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), playbooks: BTreeMap::new() }
    }

    /// Everything that ARA has by now. When nothing is new, that takes one request.
    ///
    /// While a playbook runs, nobody knows whether a failure will be rescued: it counts as failed until the playbook is over, or the
    /// host appears in a later play. Then the counts are Ansible's own.
    ///
    /// # Errors
    /// Named for what happened. What was read is kept for the next look.
    pub async fn look(&mut self, ara: &Ara) -> Result<RunResults, AraError> {
        let listed = ara.labelled(&self.label).await?;
        self.playbooks.retain(|id, _| listed.iter().any(|playbook| playbook.id == *id));
        let mut left = RESULT_LIMIT;
        // The newest first: if something is left out, then the oldest attempts.
        for playbook in listed.iter().rev() {
            let recording = self.playbooks.entry(playbook.id).or_default();
            recording.read(ara, playbook, left).await?;
            left -= recording.results.0.len().min(left);
        }
        Ok(self.joined(listed))
    }

    fn joined(&self, listed: Vec<RawPlaybook>) -> RunResults {
        let mut all = RunResults::default();
        for raw in listed {
            let over = raw.over();
            let in_all = usize::try_from(raw.items.results).unwrap_or(usize::MAX);
            let playbook = raw.into_playbook();
            if let Some(recording) = self.playbooks.get(&playbook.id) {
                let results = recording.joined(&playbook, over);
                all.counts = recording.counts(&results, over);
                all.results.extend(results);
                all.truncated |= recording.results.0.len() < in_all;
            }
            all.playbooks.push(playbook);
        }
        all
    }
}

impl Recording {
    async fn read(&mut self, ara: &Ara, playbook: &RawPlaybook, limit: usize) -> Result<(), AraError> {
        let known = self.results.0.len();
        let as_listed = u64::try_from(known).is_ok_and(|known| known == playbook.items.results);
        if self.complete && (as_listed || known >= limit) {
            return Ok(());
        }
        let of = playbook.id.to_string();
        if !as_listed {
            self.results.read(ara, "results", &of, limit).await?;
        }
        let results = || self.results.0.values();
        if !results().all(|r| self.plays.0.contains_key(&r.play)) {
            self.plays.read(ara, "plays", &of, usize::MAX).await?;
        }
        if !results().all(|r| self.tasks.0.contains_key(&r.task)) {
            self.tasks.read(ara, "tasks", &of, usize::MAX).await?;
        }
        // The counters are written at the end, just before the status.
        if playbook.over() {
            self.hosts.0.clear();
        }
        if playbook.over() || !results().all(|r| self.hosts.0.contains_key(&r.host)) {
            self.hosts.read(ara, "hosts", &of, usize::MAX).await?;
        }
        self.complete = playbook.closed();
        Ok(())
    }

    fn joined(&self, playbook: &Playbook, over: bool) -> Vec<TaskResult> {
        let taken_care_of = self.taken_care_of(over);
        let results = self.results.0.values().map(|raw| {
            let task = self.tasks.0.get(&raw.task);
            let (role, name) = task.map(RawTask::role_and_name).unwrap_or_default();
            let play = self.plays.0.get(&raw.play).and_then(|play| play.name.clone());
            TaskResult {
                id: raw.id,
                playbook: playbook.id,
                play: play.unwrap_or_default(),
                role,
                task: name,
                action: task.and_then(|task| task.action.clone()).unwrap_or_default(),
                host: self.hosts.0.get(&raw.host).map(|host| host.name.clone()).unwrap_or_default(),
                status: settle(raw.how.status(), taken_care_of.contains(&raw.id)),
                changed: raw.how.changed,
                started: raw.how.started,
                duration_ms: raw.how.duration_ms(),
                place: task.map(RawTask::place).unwrap_or_default(),
            }
        });
        results.collect()
    }

    /// The failures that a rescue took care of, and the hosts that the policy lets be unreachable: ARA does not tell them from the
    /// others, but has Ansible's own counters of the others, host by host. A host that fails for good does no more in that playbook:
    /// so it is the last ones that count.
    fn taken_care_of(&self, over: bool) -> HashSet<u64> {
        let mut found = HashSet::new();
        let mut by_host: HashMap<u64, Vec<&RawResult>> = HashMap::new();
        for result in self.results.0.values() {
            by_host.entry(result.host).or_default().push(result);
        }
        for (host, results) in by_host {
            let counters = self.hosts.0.get(&host).filter(|_| over);
            for status in [Status::Failed, Status::Unreachable] {
                let bad: Vec<&RawResult> =
                    results.iter().filter(|r| r.how.status() == status).copied().collect();
                let fine = match (counters, status) {
                    (Some(host), Status::Failed) => bad.len().saturating_sub(index(host.failed)),
                    (Some(host), _) => bad.len().saturating_sub(index(host.unreachable)),
                    (None, Status::Failed) => {
                        // It went on in another play.
                        let last = results.last().map(|r| r.play);
                        bad.iter().filter(|r| Some(r.play) != last).count()
                    }
                    (None, _) => {
                        let last = results.last().map(|r| r.id);
                        bad.iter().filter(|r| Some(r.id) != last).count()
                    }
                };
                found.extend(bad.iter().take(fine).map(|r| r.id));
            }
        }
        found
    }

    /// Ansible's own counters where they are written, ours before.
    fn counts(&self, results: &[TaskResult], over: bool) -> Counts {
        let mut counts = RunResults::count(results);
        if over {
            (counts.ok, counts.changed, counts.failed, counts.skipped, counts.unreachable) = (0, 0, 0, 0, 0);
            for host in self.hosts.0.values() {
                counts.ok += host.ok;
                counts.changed += host.changed;
                counts.failed += host.failed;
                counts.skipped += host.skipped;
                counts.unreachable += host.unreachable;
            }
        }
        counts
    }
}

impl<T: Row + DeserializeOwned> Rows<T> {
    /// Reads on from where it stopped, up to `limit` rows.
    async fn read(&mut self, ara: &Ara, list: &str, playbook: &str, limit: usize) -> Result<(), AraError> {
        let mut from_start = self.0.is_empty();
        while self.0.len() < limit {
            let (offset, size) = (self.0.len().to_string(), PAGE.min(limit - self.0.len()).to_string());
            let query = [
                ("playbook", playbook),
                ("order", "id"),
                ("limit", size.as_str()),
                ("offset", offset.as_str()),
            ];
            let page: Page<T> = ara.0.list(list, &query).await?;
            let before = self.0.len();
            self.0.extend(page.results.into_iter().map(|row| (row.id(), row)));
            let in_all = usize::try_from(page.count).unwrap_or(usize::MAX);
            if page.next.is_some() && self.0.len() > before {
                continue;
            }
            if self.0.len() == in_all || from_start {
                break;
            }
            // One with a lower id was committed later, or some were thrown away: what was read is no beginning of the list.
            self.0.clear();
            from_start = true;
        }
        Ok(())
    }
}

fn index(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// How a task ended; `taken_care_of` is a rescue, or leave to be unreachable.
pub(super) fn settle(status: Status, taken_care_of: bool) -> ResultStatus {
    match (status, taken_care_of) {
        (Status::Ok, _) => ResultStatus::Ok,
        (Status::Changed, _) => ResultStatus::Changed,
        (Status::Skipped, _) => ResultStatus::Skipped,
        (Status::Ignored, _) | (Status::Unreachable, true) => ResultStatus::Ignored,
        (Status::Failed, true) => ResultStatus::Rescued,
        (Status::Unreachable, false) => ResultStatus::Unreachable,
        (Status::Failed | Status::Unknown, false) | (Status::Unknown, true) => ResultStatus::Failed,
    }
}
