//! The stages of a run, from the first hook to its end, and how long each took.

use jiff::Timestamp;

use crate::app::log::LogBuffer;
use crate::domain::results::{PlaybookStatus, RunResults};
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
    log: Option<&LogBuffer>,
    now: Timestamp,
) -> Vec<Stage> {
    let playbook = results.and_then(|r| r.playbooks.last());
    let (first, newest) = log.map(LogBuffer::milestones).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample;
    use crate::app::{LogEvent, LogLine};
    use crate::domain::{Decision, Verdict};

    fn spans(run: &Run, log: Option<&LogBuffer>) -> Vec<(&'static str, Option<u64>, bool)> {
        let stages = stages(run, None, log, sample::now());
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
}
