//! Whether what is seen of a run can be trusted: ARA that lags, a run that calls itself running and does not move.

use jiff::{SignedDuration, Timestamp};

use super::log::LogBuffer;
use super::store::{ResultsEntry, Store};
use super::time;
use crate::domain::results::{PlaybookStatus, RunResults, TaskResult};
use crate::domain::{BackEnd, Health, Phase, Run};

/// A running run that shows nothing for so long is worth a word, in seconds.
pub const SILENT_AFTER: i64 = 300;
/// ARA is read every few seconds: less than this is no lag.
const LAG: i64 = 20;

/// What is wrong with what is seen of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The log is ahead of ARA by so many seconds.
    AraLags(i64),
    /// The run is over, ARA has its playbook as running: its last results may be missing.
    AraOpen,
    /// Nothing has come of it since then.
    Silent(Timestamp),
}

/// When something was last seen of a run that runs, as far as log, ARA and the Job tell.
#[must_use]
pub fn last_sign(store: &Store, run: &Run) -> Option<Timestamp> {
    let running = matches!(run.phase, Phase::Running | Phase::Stopping);
    let log = store.log(&run.uid);
    // What cannot be read says nothing of the run.
    let blind = log.is_some_and(|l| l.problem.is_some())
        || matches!(store.health(BackEnd::Cluster), Health::Down { .. } | Health::Unknown);
    if !running || blind {
        return None;
    }
    let results = store.results(&run.uid).and_then(|e| e.results.as_deref());
    let signs = [
        run.decision.as_ref().map(|d| d.at),
        run.delivered,
        run.started,
        log.and_then(LogBuffer::newest),
        results.and_then(newest_end),
    ];
    signs.into_iter().flatten().max()
}

/// What is wrong with what is seen of a run now.
#[must_use]
pub fn signs(store: &Store, run: &Run, now: Timestamp) -> Vec<Sign> {
    let mut signs = Vec::new();
    if let Some(since) = last_sign(store, run)
        && time::seconds_between(since, now) >= SILENT_AFTER
    {
        signs.push(Sign::Silent(since));
    }
    signs.extend(store.results(&run.uid).and_then(|entry| ara(entry, store.log(&run.uid), run, now)));
    signs
}

fn ara(entry: &ResultsEntry, log: Option<&LogBuffer>, run: &Run, now: Timestamp) -> Option<Sign> {
    let results = entry.results.as_deref()?;
    let recording = results.playbooks.last().is_some_and(|p| p.status == PlaybookStatus::Running);
    if run.is_over() {
        return recording.then_some(Sign::AraOpen);
    }
    // A task's heading is written when the one before has ended: ARA has that one's result by then.
    let heading = log?.sections().next_back()?.1.at?;
    let heading = Timestamp::from_nanosecond(heading.into()).ok()?;
    let known = newest_end(results)?;
    let behind = time::seconds_between(known, heading);
    (behind >= LAG && time::seconds_between(heading, now) >= LAG).then_some(Sign::AraLags(behind))
}

/// When the newest result that ARA has ended.
fn newest_end(results: &RunResults) -> Option<Timestamp> {
    let end = |task: &TaskResult| {
        let took = i64::try_from(task.duration_ms).ok().map(SignedDuration::from_millis)?;
        task.started?.checked_add(took).ok()
    };
    results.results.iter().rev().take(100).filter_map(end).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample::{ago, now, result, run, uid};
    use crate::app::{LogEvent, LogLine};
    use crate::domain::results::{Playbook, ResultStatus};
    use crate::domain::{Problem, ProblemKind};

    fn line(seconds: i64, text: &str) -> LogEvent {
        LogEvent::Lines(vec![LogLine { at: Some(ago(seconds)), bytes: text.as_bytes().into() }])
    }

    /// A running run whose newest result began so many seconds ago.
    fn store(newest: i64, status: PlaybookStatus) -> (Store, Run) {
        let mut store = Store::default();
        store.set_health(BackEnd::Cluster, Health::Up);
        let mut run = run("a.org", Phase::Running);
        run.started = Some(ago(3_000));
        let mut task = result(1, "base", "one", ResultStatus::Ok);
        task.started = Some(ago(newest));
        let playbook = Playbook {
            id: 1,
            status,
            started: Some(ago(2_990)),
            ended: None,
            labels: Vec::new(),
            path: String::new(),
        };
        let results = RunResults { playbooks: vec![playbook], results: vec![task], ..RunResults::default() };
        store.put_results(&run.uid, Ok(Box::new(results)), false);
        (store, run)
    }

    #[test]
    fn a_run_that_does_not_move_is_said_to_be_silent() {
        let (mut store, run) = store(400, PlaybookStatus::Running);
        let since = ago(400) + SignedDuration::from_millis(800);
        assert_eq!(signs(&store, &run, now()), [Sign::Silent(since)]);
        store.log_mut(&run.uid).unwrap().apply(line(10, "still here"));
        assert_eq!(signs(&store, &run, now()), []);
    }

    #[test]
    fn what_cannot_be_read_is_not_called_silent() {
        let (mut store, mut run) = store(400, PlaybookStatus::Running);
        let problem = Problem::new("log", ProblemKind::Unreachable, "x");
        store.log_mut(&run.uid).unwrap().apply(LogEvent::Problem(problem.clone()));
        assert_eq!(signs(&store, &run, now()), []);
        store.log_mut(&run.uid).unwrap().apply(line(390, "x"));
        assert_eq!(signs(&store, &run, now()).len(), 1);
        store.set_health(BackEnd::Cluster, Health::Down { since: now(), problem });
        assert_eq!(signs(&store, &run, now()), []);
        store.set_health(BackEnd::Cluster, Health::Up);
        run.phase = Phase::Queued;
        assert_eq!(signs(&store, &run, now()), [], "it does not call itself running");
    }

    #[test]
    fn ara_lags_when_the_log_is_ahead_and_not_while_a_task_is_slow() {
        let (mut store, run) = store(200, PlaybookStatus::Running);
        store.log_mut(&run.uid).unwrap().apply(line(199, "TASK [slow] ***"));
        assert_eq!(signs(&store, &run, now()), [], "it takes its time");
        store.log_mut(&run.uid).unwrap().apply(line(10, "TASK [next] ***"));
        assert_eq!(signs(&store, &run, now()), [], "ARA has not been asked since");
        let later = now() + SignedDuration::from_secs(30);
        assert_eq!(signs(&store, &run, later), [Sign::AraLags(189)]);
    }

    #[test]
    fn a_playbook_that_is_still_open_when_the_run_is_over_is_said() {
        let (store, mut run) = store(10, PlaybookStatus::Running);
        run.phase = Phase::Failed;
        assert_eq!((run.uid == uid("a.org", 1), signs(&store, &run, now())), (true, vec![Sign::AraOpen]));
    }
}
