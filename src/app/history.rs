//! How a run went and how its host's runs went before, in lines with bars: what the watch brings is enough for most of it. The pod's and
//! the policy's times are in the log and the plays in ARA, and these are read of an opened run only: nothing here asks for more.

use jiff::Timestamp;

use super::document::{Bar, Document, LineKind};
use super::environment::EnvironmentInfo;
use super::screens::stages::{self, Stage};
use super::screens::tasks::is_failure;
use super::store::Store;
use super::{describe, time};
use crate::domain::results::{PlaybookStatus, RunResults};
use crate::domain::{Kind, Phase, Run};

/// So many runs are listed, and make a trend.
const LISTED: usize = 12;

/// The stages from the first hook to the end, each with its bar, its length and when it began; the plays below the playbook.
pub(super) fn timeline(
    doc: &mut Document,
    store: &Store,
    environment: &EnvironmentInfo,
    run: &Run,
    now: Timestamp,
) {
    let results = store.results(&run.uid).and_then(|entry| entry.results.as_deref());
    let stages = stages::stages(run, results, store.milestones(&run.uid), now);
    let longest = stages::longest(&stages);
    let clock = |at: Timestamp| at.to_zoned(environment.zone.clone()).strftime("%H:%M:%S").to_string();
    doc.heading("timeline");
    for stage in &stages {
        let (Some(began), Some(milliseconds)) = (stage.began, stage.milliseconds) else { continue };
        let phase = match (stage.failed, stage.running) {
            (true, _) if run.is_over() => Some(run.phase),
            (true, _) => Some(Phase::Failed),
            (false, true) => Some(run.phase),
            (false, false) => None,
        };
        let took = if stage.running { so_far(doc, began, now) } else { time::length(milliseconds) };
        let bar = Bar { phase, ..Bar::of(milliseconds, longest) };
        doc.bar(stage.name, bar, format!("{took:>7}  {}", clock(began)));
    }
    if let Some(results) = results {
        plays(doc, run, results, longest);
    }
    if let Some(at) =
        run.finished.or_else(|| run.outcome.as_ref().map(|outcome| outcome.at)).filter(|_| run.is_over())
    {
        let took = describe::duration(run, now).map(time::length).unwrap_or_default();
        let bar = Bar { phase: Some(run.phase), ..Bar::default() };
        doc.bar(run.phase.as_str(), bar, format!("{took:>7}  {}", clock(at)));
    }
    if let Some(text) = not_known(store, environment, run, &stages) {
        doc.push(LineKind::Muted, text);
    }
}

fn plays(doc: &mut Document, run: &Run, results: &RunResults, longest: u64) {
    let recording = results.playbooks.last().is_some_and(|p| p.status == PlaybookStatus::Running);
    let plays = stages::plays(results);
    let last = plays.len();
    for (number, play) in (1..).zip(plays) {
        let phase = match is_failure(play.worst) {
            true => Some(Phase::Failed),
            false => (number == last && recording && !run.is_over()).then_some(Phase::Running),
        };
        let bar = play.milliseconds.map_or(Bar::default(), |ms| Bar::of(ms, longest));
        let took = play.milliseconds.map(time::length).unwrap_or_default();
        let noun = if play.results == 1 { "result" } else { "results" };
        let name = if play.name.is_empty() { "play" } else { play.name };
        doc.bar(format!("  {name}"), Bar { phase, ..bar }, format!("{took:>7}  {} {noun}", play.results));
    }
}

/// What of a run's stages is not known here, and where it is.
fn not_known(store: &Store, environment: &EnvironmentInfo, run: &Run, stages: &[Stage]) -> Option<String> {
    run.started?;
    let plays = match store.results(&run.uid) {
        _ if !environment.ara => None,
        None => Some("plays"),
        Some(_) => None,
    };
    let log = store.milestones(&run.uid).is_none();
    let what = match (log, plays) {
        (true, Some(plays)) => format!("pod, policy, {plays}"),
        (true, None) => "pod, policy".to_owned(),
        (false, Some(plays)) => plays.to_owned(),
        (false, None) => return None,
    };
    let holds = stages.iter().rfind(|stage| stage.milliseconds.is_some()).filter(|_| log);
    let holds = holds.map(|stage| format!("; {} holds them", stage.name)).unwrap_or_default();
    Some(format!("Not looked up before the run is opened: {what}{holds}."))
}

/// How long something takes so far, in words that seldom change.
fn so_far(doc: &mut Document, began: Timestamp, now: Timestamp) -> String {
    doc.changes_at(time::changes_at(began, now));
    time::short(time::seconds_between(began, now))
}

/// The runs of a host, newest first, one a line: how long, how it ended, when, why.
pub(super) fn runs(doc: &mut Document, store: &Store, run: &Run, now: Timestamp) {
    let all: Vec<&Run> = store.runs_of(run.host.as_str()).collect();
    doc.heading("runs of this host");
    if all.len() < 2 {
        doc.push(LineKind::Muted, "This is its only run that is kept.");
        return;
    }
    let same: Vec<&Run> = all.iter().copied().filter(|other| other.kind == run.kind).take(LISTED).collect();
    if let Some(trend) = trend_of(&same) {
        doc.field("trend", trend);
    }
    let listed = || all.iter().copied().take(LISTED);
    let longest = listed().filter_map(|other| describe::duration(other, now)).max().unwrap_or(0);
    for other in listed() {
        let kind = if other.kind == Kind::Check { "check " } else { "" };
        let span = describe::duration(other, now);
        let took = match (span, other.started) {
            (Some(_), Some(began)) if !other.is_over() => so_far(doc, began, now),
            (Some(milliseconds), _) => time::length(milliseconds),
            (None, _) => String::new(),
        };
        let bar = span.map_or(Bar::default(), |milliseconds| Bar::of(milliseconds, longest));
        let bar = Bar { phase: Some(other.phase), here: other.uid == run.uid, ..bar };
        let age = so_far(doc, other.created, now);
        let ending = describe::ending(other);
        let ending = ending.lines().next().unwrap_or_default();
        let text = format!("{took:>7} {:<8} {age:>4}  {ending}", other.phase.as_str());
        doc.bar(format!(" {kind}#{}", other.number), bar, text.trim_end());
    }
    if all.len() > LISTED {
        doc.push(LineKind::Muted, format!("and {} older", all.len() - LISTED));
    }
}

/// How the runs that are over went: how many failed, how long they took. Nothing to tell of fewer than two.
fn trend_of(runs: &[&Run]) -> Option<String> {
    let over = runs.iter().filter(|run| run.phase.finished());
    let mut took: Vec<(u64, bool)> = over
        .filter_map(|run| Some((describe::duration(run, run.created)?, run.phase == Phase::Failed)))
        .collect();
    took.sort_unstable();
    let [(shortest, _), .., (longest, _)] = took.as_slice() else { return None };
    let (middle, _) = took.get(took.len() / 2)?;
    let failed = took.iter().filter(|(_, failed)| *failed).count();
    let [shortest, middle, longest] = [shortest, middle, longest].map(|ms| time::length(*ms));
    Some(format!("{failed} of {} failed; {shortest} to {longest}, mostly {middle}", took.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample;
    use crate::domain::results::{Playbook, ResultStatus};
    use crate::domain::{Decision, ExitCode, Outcome, Verdict};

    fn host(number: u32, phase: Phase, ago: i64, took: i64) -> Run {
        let mut run = sample::run("nas-1.org", phase);
        (run.uid, run.number, run.created) = (sample::uid("nas-1.org", number), number, sample::ago(ago));
        run.decision =
            Some(Decision { verdict: Verdict::Approved, by: "ann".into(), at: sample::ago(ago - 9) });
        (run.started, run.delivered) = (Some(sample::ago(ago - 10)), Some(sample::ago(ago - 10)));
        if phase.finished() {
            run.finished = Some(sample::ago(ago - 10 - took));
            let text = "zfs : import pool\nsecond line".to_owned();
            let exit = ExitCode::FailedTask;
            run.outcome =
                (phase == Phase::Failed).then(|| Outcome { exit, at: sample::now(), text, counts: None });
        }
        run
    }

    /// The lines, each with its bar's length and phase.
    fn lines(doc: &Document) -> Vec<String> {
        let line = |line: &crate::app::document::Line| match line.kind {
            LineKind::Bar(bar) => {
                let phase = bar.phase.map_or("", Phase::as_str);
                let here = if bar.here { ">" } else { "" };
                format!("{here}{}|{}|{phase}|{}", line.label, bar.part, line.text)
            }
            _ => format!("{}{}", line.label, line.text),
        };
        doc.lines.iter().map(line).collect()
    }

    fn told(store: &Store, run: &Run) -> Vec<String> {
        let mut doc = Document::default();
        timeline(&mut doc, store, &sample::environment(), run, sample::now());
        lines(&doc)
    }

    #[test]
    fn what_was_not_looked_up_is_said_and_nothing_is_asked_for() {
        let run = host(1, Phase::Failed, 7_300, 102);
        let mut store = Store::default();
        store.batch(vec![run.clone()]);
        assert_eq!(
            told(&store, &run),
            [
                "timeline",
                "announced|89||   9.0s  12:00:20",
                "approved|10||   1.0s  12:00:29",
                "delivered|1000|failed| 1m 42s  12:00:30",
                "failed|0|failed| 1m 42s  12:02:12",
                "Not looked up before the run is opened: pod, policy, plays; delivered holds them.",
            ]
        );
        let mut pending = sample::run("new.org", Phase::Pending);
        pending.created = sample::ago(130);
        assert_eq!(told(&store, &pending), ["timeline", "announced|1000|pending|     2m  13:59:50"]);
    }

    #[test]
    fn an_opened_runs_plays_and_milestones_stay_after_it_is_left() {
        use crate::app::{LogEvent, LogLine};
        let run = host(1, Phase::Failed, 7_300, 102);
        let mut store = Store::default();
        store.batch(vec![run.clone()]);
        let line = |ago, text: &str| LogLine { at: Some(sample::ago(ago)), bytes: text.as_bytes().into() };
        store.log_mut(&run.uid).unwrap().apply(LogEvent::Lines(vec![
            line(7_285, "hostwright: run x"),
            line(7_280, "hostwright: policy x, playbook site.yml"),
            line(7_270, "PLAY [all] ***"),
        ]));
        let mut results = vec![sample::result(1, "base", "a", ResultStatus::Ok)];
        results.push(sample::result(2, "zfs", "b", ResultStatus::Failed));
        for (task, (play, ago)) in
            results.iter_mut().zip([("Base", 7_270), ("Storage of all the hosts", 7_250)])
        {
            (task.play, task.started, task.duration_ms) = (play.to_owned(), Some(sample::ago(ago)), 20_000);
        }
        let playbooks = vec![Playbook {
            id: 1,
            status: PlaybookStatus::Failed,
            started: Some(sample::ago(7_270)),
            ended: None,
            labels: Vec::new(),
            path: "site.yml".into(),
        }];
        let found = RunResults { results, playbooks, ..RunResults::default() };
        store.put_results(&run.uid, Ok(Box::new(found)), true);
        let open = told(&store, &run);
        assert_eq!(
            open[3..],
            [
                "delivered|61||   5.0s  12:00:30",
                "pod|61||   5.0s  12:00:35",
                "policy|122||    10s  12:00:40",
                "ansible|1000|failed| 1m 22s  12:00:50",
                "  Base|244||    20s  1 result",
                "  Storage of all the hosts|244|failed|    20s  1 result",
                "failed|0|failed| 1m 42s  12:02:12",
            ]
        );
        store.forget_log(&run.uid);
        assert_eq!(told(&store, &run), open, "what was read once is not forgotten with the log");
    }

    #[test]
    fn earlier_runs_have_a_bar_each_and_a_trend() {
        let mut store = Store::default();
        let newest = host(4, Phase::Failed, 600, 100);
        let mut check = host(2, Phase::Ready, 90_000, 25);
        (check.kind, check.uid) = (Kind::Check, "check".into());
        let all =
            vec![host(1, Phase::Ready, 200_000, 50), check, host(3, Phase::Ready, 7_300, 60), newest.clone()];
        store.batch(all);
        let mut doc = Document::default();
        runs(&mut doc, &store, &newest, sample::now());
        assert_eq!(
            lines(&doc),
            [
                "runs of this host",
                "trend1 of 3 failed; 50s to 1m 40s, mostly 1m 0s",
                "> #4|1000|failed| 1m 40s failed    10m  zfs : import pool",
                " #3|600|ready| 1m 0s ready      2h",
                " check #2|250|ready|    25s ready      1d",
                " #1|500|ready|    50s ready      2d",
            ]
            .map(|line| line.replace("| 1m 0s", "|  1m 0s"))
        );
        assert_eq!(doc.changes, Some(sample::now() + jiff::SignedDuration::from_mins(1)));
        let mut alone = Document::default();
        runs(&mut alone, &store, &sample::run("other.org", Phase::Ready), sample::now());
        assert_eq!(lines(&alone)[1..], ["This is its only run that is kept."]);
        store.batch((10..20).map(|n| host(n, Phase::Ready, 10_000, 9)).collect());
        let mut many = Document::default();
        runs(&mut many, &store, &newest, sample::now());
        assert_eq!((many.lines.len(), many.lines.last().unwrap().text.as_str()), (15, "and 2 older"));
    }
}
