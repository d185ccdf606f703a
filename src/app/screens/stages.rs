//! The stages of a run, from the first hook to its end, and how long each took.

use jiff::Timestamp;

use crate::app::log::Milestones;
use crate::domain::results::{PlaybookStatus, ResultStatus, RunResults, TaskResult};
use crate::domain::{Phase, Run};

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// What happened when it began.
    pub name: &'static str,
    /// When it began; none: not begun, or not recorded.
    pub began: Option<Timestamp>,
    /// How long it took, or takes until now, in milliseconds.
    pub milliseconds: Option<u64>,
    /// It is the one that runs.
    pub running: bool,
    /// It ended badly.
    pub failed: bool,
}

/// The stages of a run as far as they are known, each from its event to the next one's: the announcement, the approval, the delivery
/// of its message, its pod's first word, the fetching of the policy, the start of the playbook. The Job tells of the first three, ARA
/// of the last, the log of what is between.
#[must_use]
pub fn stages(
    run: &Run,
    results: Option<&RunResults>,
    milestones: Option<(Milestones, Milestones)>,
    now: Timestamp,
) -> Vec<Stage> {
    let playbook = results.and_then(|r| r.playbooks.last());
    let (first, newest) = milestones.unwrap_or_default();
    let end = run.finished.or_else(|| run.last_outcome().map(|o| o.at)).or(playbook.and_then(|p| p.ended));
    let decided = run.decision.as_ref().map(|d| d.at);
    let began = [
        ("announced", Some(run.created)),
        ("approved", decided),
        ("delivered", run.delivered),
        ("pod", first.first.or_else(|| run.started.filter(|_| run.delivered.is_none()))),
        ("policy", newest.policy),
        ("ansible", newest.play.or(playbook.and_then(|p| p.started))),
    ];
    let mut stages: Vec<Stage> = began
        .into_iter()
        .map(|(name, began)| Stage { name, began, milliseconds: None, running: false, failed: false })
        .collect();
    // Clocks differ by a little: no stage begins before the one before it.
    let mut latest = run.created;
    for began in stages.iter_mut().filter_map(|stage| stage.began.as_mut()) {
        *began = latest.max(*began);
        latest = *began;
    }
    let held = matches!(run.phase, Phase::Rejected | Phase::Failed);
    let mut next = None;
    let mut last = true;
    for stage in stages.iter_mut().rev() {
        let Some(began) = stage.began else { continue };
        let until = next.or(if run.is_over() { end.or(Some(began)) } else { Some(now) }).unwrap_or(now);
        stage.milliseconds = u64::try_from(until.duration_since(began).as_millis().max(0)).ok();
        stage.running = last && !run.is_over();
        stage.failed = last && held;
        (next, last) = (Some(began), false);
    }
    if let Some(ansible) = stages.last_mut().filter(|s| s.began.is_some()) {
        ansible.failed |= playbook.is_some_and(|p| p.status == PlaybookStatus::Failed);
    }
    stages
}

/// The longest stage, in milliseconds. The wait for a decision says nothing of the machines: bars compare the others.
#[must_use]
pub fn longest(stages: &[Stage]) -> u64 {
    stages.iter().skip(1).filter_map(|stage| stage.milliseconds).max().unwrap_or(0)
}

/// One play, as the results of its tasks tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play<'a> {
    /// Its name.
    pub name: &'a str,
    /// From its first task's start to its last one's end, in milliseconds; none: its tasks have no times.
    pub milliseconds: Option<u64>,
    /// How many results it has.
    pub results: usize,
    /// The worst of them.
    pub worst: ResultStatus,
}

/// The plays of a run's newest attempt, in the order in which they ran.
#[must_use]
pub fn plays(results: &RunResults) -> Vec<Play<'_>> {
    let newest = results.playbooks.last().map(|p| p.id).or(results.results.last().map(|t| t.playbook));
    let mut plays: Vec<(&str, Vec<&TaskResult>)> = Vec::new();
    for task in results.results.iter().filter(|t| Some(t.playbook) == newest) {
        match plays.iter_mut().find(|(name, _)| *name == task.play) {
            Some((_, tasks)) => tasks.push(task),
            None => plays.push((&task.play, vec![task])),
        }
    }
    plays
        .into_iter()
        .map(|(name, tasks)| Play {
            name,
            milliseconds: span(&tasks),
            results: tasks.len(),
            worst: tasks.iter().map(|t| t.status).min().unwrap_or(ResultStatus::Ok),
        })
        .collect()
}

fn span(tasks: &[&TaskResult]) -> Option<u64> {
    let ends = |task: &&TaskResult| {
        let took = i64::try_from(task.duration_ms).unwrap_or(i64::MAX);
        task.started?.checked_add(jiff::SignedDuration::from_millis(took)).ok()
    };
    let first = tasks.iter().filter_map(|t| t.started).min()?;
    let last = tasks.iter().filter_map(ends).max()?;
    u64::try_from(last.duration_since(first).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::log::LogBuffer;
    use crate::app::sample;
    use crate::app::{LogEvent, LogLine};
    use crate::domain::{Decision, Verdict};

    fn spans(run: &Run, log: Option<&LogBuffer>) -> Vec<(&'static str, Option<u64>, bool)> {
        let stages = stages(run, None, log.map(LogBuffer::milestones), sample::now());
        stages.iter().map(|s| (s.name, s.milliseconds.map(|ms| ms / 1000), s.running)).collect()
    }

    fn approved() -> Run {
        let mut run = sample::run("a.org", Phase::Running);
        run.created = sample::ago(300);
        run.decision = Some(Decision { verdict: Verdict::Approved, by: "ann".into(), at: sample::ago(100) });
        run.started = Some(sample::ago(99));
        run
    }

    #[test]
    fn stages_end_where_the_next_begins() {
        let mut run = approved();
        run.delivered = Some(sample::ago(95));
        let mut log = LogBuffer::default();
        let line =
            |seconds, text: &str| LogLine { at: Some(sample::ago(seconds)), bytes: text.as_bytes().into() };
        log.apply(LogEvent::Attempt(1));
        log.apply(LogEvent::Lines(vec![
            line(90, "hostwright: run x"),
            line(80, "hostwright: policy x, playbook site.yml"),
            line(60, "PLAY [all] ***"),
        ]));
        assert_eq!(
            spans(&run, Some(&log)),
            [
                ("announced", Some(200), false),
                ("approved", Some(5), false),
                ("delivered", Some(5), false),
                ("pod", Some(10), false),
                ("policy", Some(20), false),
                ("ansible", Some(60), true)
            ]
        );
    }

    #[test]
    fn what_is_not_recorded_is_left_out_and_the_one_before_goes_on() {
        let none = |name| (name, None, false);
        assert_eq!(
            spans(&approved(), None),
            [
                ("announced", Some(200), false),
                ("approved", Some(1), false),
                none("delivered"),
                ("pod", Some(99), true),
                none("policy"),
                none("ansible")
            ]
        );
        let mut failed = approved();
        (failed.phase, failed.finished, failed.delivered) =
            (Phase::Failed, Some(sample::ago(40)), Some(sample::ago(101)));
        let all = stages(&failed, None, None, sample::now());
        let delivered = all.iter().find(|s| s.name == "delivered").unwrap();
        assert_eq!(
            (delivered.milliseconds, delivered.failed),
            (Some(60_000), true),
            "not before its approval"
        );
    }

    #[test]
    fn plays_are_those_of_the_newest_attempt_and_as_long_as_their_tasks() {
        let task = |id: u64, playbook, play: &str, seconds, ms, status| {
            let mut task = sample::result(id, "", "t", status);
            (task.playbook, task.play) = (playbook, play.into());
            (task.started, task.duration_ms) = (Some(sample::ago(seconds)), ms);
            task
        };
        use ResultStatus as S;
        let results = vec![
            task(1, 1, "Base", 900, 1_000, S::Failed),
            task(2, 2, "Base", 100, 3_000, S::Ok),
            task(3, 2, "Base", 99, 1_000, S::Changed),
            task(4, 2, "Storage", 90, 40_000, S::Failed),
            task(5, 2, "Storage", 90, 10_000, S::Ok),
        ];
        let results = RunResults { results, ..RunResults::default() };
        let seen: Vec<_> =
            plays(&results).into_iter().map(|p| (p.name, p.milliseconds, p.results, p.worst)).collect();
        assert_eq!(
            seen,
            [("Base", Some(3_000), 2, S::Changed), ("Storage", Some(40_000), 2, S::Failed)],
            "side by side on two hosts is no longer than the longer one"
        );
        assert_eq!(plays(&RunResults::default()), []);
    }
}
