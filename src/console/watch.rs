//! What streams in by itself: all runs, whether approvals are held, and the log and results of the one run that is looked at.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::outside::{Outside, Trouble};
use crate::app::{self, Level, LogEvent, Msg, RunRef, RunsMsg};
use crate::backend::kube::{Kube, KubeError, RunsEvent};
use crate::domain::results::{PlaybookStatus, RunResults};
use crate::domain::{BackEnd, Problem, ProblemKind};
use crate::ops;

/// How long after a failed watch should have been tried again it is asked whether the API server answers. The watch itself says
/// nothing when it goes on and nothing has changed.
const SILENCE: Duration = Duration::from_millis(1500);
/// How long a watch may be silent before that is asked: a dead line is as silent as a quiet cluster.
const QUIET: Duration = Duration::from_secs(10);

/// Follows all runs, for as long as the console lives.
pub(crate) async fn runs(outside: Outside, tell: mpsc::Sender<Msg>) {
    let Some(kube) = outside.kube_at_last().await else { return };
    let mut health = Trouble::new(BackEnd::Cluster, tell.clone());
    loop {
        // Begun anew with the other watch: it may hang on the same dead line.
        let mut beside = JoinSet::new();
        beside.spawn(approvals(kube.clone(), tell.clone()));
        let events = std::pin::pin!(kube.watch_runs());
        match follow_runs(&kube, events, &mut health, &tell).await {
            Broke::Line => {}
            Broke::Listener => return,
        }
    }
}

/// Tells whether approvals are held.
async fn approvals(kube: Kube, tell: mpsc::Sender<Msg>) {
    let mut told = ops::approvals::watch(&kube);
    while let Some(standing) = told.next().await {
        if tell.send(Msg::Approvals(standing)).await.is_err() {
            return;
        }
    }
}

/// Why a watch is not followed any more.
enum Broke {
    /// The API server was away and is back; the watch may hang on a connection that is dead.
    Line,
    /// Nobody listens.
    Listener,
}

async fn follow_runs(
    kube: &Kube,
    mut events: impl Stream<Item = RunsEvent> + Unpin,
    health: &mut Trouble,
    tell: &mpsc::Sender<Msg>,
) -> Broke {
    let mut ask_at = Instant::now() + QUIET;
    let mut delay = OFTEN;
    let (mut away, mut polled) = (false, false);
    loop {
        let ask = async {
            tokio::time::sleep_until(ask_at).await;
            kube.answers().await.map_err(|error| error.problem(BackEnd::Cluster.word()))
        };
        let event = tokio::select! {
            event = events.next() => event,
            answer = ask => {
                match answer {
                    Ok(()) => {
                        health.up().await;
                        if away {
                            return Broke::Line;
                        }
                        ask_at = Instant::now() + QUIET;
                    }
                    Err(problem) => {
                        away = true;
                        delay = (delay * 2).min(LONGEST_DELAY);
                        ask_at = Instant::now() + delay;
                        health.down(problem, delay).await;
                    }
                }
                continue;
            }
        };
        let Some(event) = event else { return Broke::Line };
        ask_at = Instant::now() + QUIET;
        let message = match event {
            RunsEvent::Failed(error, delay) => {
                ask_at = Instant::now() + delay + SILENCE;
                health.down(error.problem(BackEnd::Cluster.word()), delay).await;
                continue;
            }
            RunsEvent::Polled(error, delay) => {
                ask_at = Instant::now() + delay + SILENCE;
                if !std::mem::replace(&mut polled, true) && tell.send(polling(&error, delay)).await.is_err() {
                    return Broke::Listener;
                }
                continue;
            }
            RunsEvent::Reset => RunsMsg::Reset,
            RunsEvent::Changed(runs) => RunsMsg::Batch(runs),
            RunsEvent::Listed => RunsMsg::Listed,
            RunsEvent::Removed(uid) => RunsMsg::Removed(vec![uid]),
        };
        if !matches!(message, RunsMsg::Reset) {
            away = false;
            health.up().await;
        }
        if tell.send(Msg::Runs(message)).await.is_err() {
            return Broke::Listener;
        }
    }
}

/// What is said, once, where runs may not be watched.
fn polling(error: &KubeError, delay: Duration) -> Msg {
    let problem = error.problem(BackEnd::Cluster.word());
    let advice = format!("They are listed every {} s instead. {}.", delay.as_secs(), problem.advice);
    Msg::Note { level: Level::Warning, text: problem.text, advice }
}

/// Follows the log of one run to its end: its pods one after another. `over` is set when no more comes.
pub(crate) async fn log(outside: Outside, run: RunRef, over: watch::Sender<bool>, tell: mpsc::Sender<Msg>) {
    let say = async |event| tell.send(Msg::Log { run: run.uid.clone(), event }).await.is_ok();
    let details = loop {
        let Some(kube) = outside.kube_at_last().await else { return };
        match ops::runs::find(&kube, &run.name).await {
            Ok(details) if details.run.uid == run.uid => break (kube, details.run),
            Ok(_) => {
                over.send_replace(true);
                say(LogEvent::Ended).await;
                return;
            }
            Err(error) => {
                let problem = error.problem(run.name.clone());
                let delay = if problem.kind == ProblemKind::Forbidden { SELDOM } else { RETRY };
                if !say(LogEvent::Problem(retried(problem, delay))).await {
                    return;
                }
                tokio::time::sleep(delay).await;
            }
        }
    };
    let (kube, found) = details;
    let mut events = ops::logs::read(&kube, &found, true);
    while let Some(event) = events.recv().await {
        let event = match event {
            ops::logs::LogEvent::Attempt(number, _) => {
                LogEvent::Attempt(u32::try_from(number).unwrap_or(u32::MAX))
            }
            ops::logs::LogEvent::Lines(lines) => LogEvent::Lines(lines.into_iter().map(line).collect()),
            ops::logs::LogEvent::Waiting(why) => LogEvent::Waiting(why),
            ops::logs::LogEvent::Failed(error, delay) => {
                LogEvent::Problem(retried(error.problem(run.name.clone()), delay))
            }
            ops::logs::LogEvent::Ended => {
                over.send_replace(true);
                LogEvent::Ended
            }
        };
        if !say(event).await {
            return;
        }
    }
}

/// Asks ARA for the results of one run, again and again until there can be no more: often while they change, less and less
/// often while they don't. ARA cannot push.
pub(crate) async fn results(
    outside: Outside,
    run: RunRef,
    mut over: watch::Receiver<bool>,
    tell: mpsc::Sender<Msg>,
) {
    let mut following = ops::results::follow(&run.uid);
    let mut known: Option<RunResults> = None;
    let mut pause = OFTEN;
    // Asked once more after the end: what was recorded last is there then. A pod that was killed never closes its playbook.
    let mut last_looks = LAST_LOOKS;
    loop {
        let was_over = *over.borrow_and_update();
        let found = match outside.ara().await {
            None => return,
            Some(Ok(ara)) => following.look(ara).await.map_err(|error| error.problem()),
            Some(Err(problem)) => Err(problem),
        };
        outside.ara_said(found.as_ref().map(drop), pause).await;
        let recording =
            |found: &RunResults| found.playbooks.iter().any(|p| p.status == PlaybookStatus::Running);
        let (news, complete) = match &found {
            Ok(found) => {
                last_looks -= u32::from(was_over);
                (known.as_ref() != Some(found), was_over && (last_looks == 0 || !recording(found)))
            }
            Err(_) => (true, false),
        };
        pause = if news && found.is_ok() { OFTEN } else { (pause * 3 / 2).min(SELDOM) };
        if news || complete {
            let results = found.map(Box::new).map_err(|problem| retried(problem, pause));
            known = results.as_ref().ok().map(|found| (**found).clone());
            let message = Msg::Results { run: run.uid.clone(), results, complete };
            if tell.send(message).await.is_err() || complete {
                return;
            }
        }
        // The end of the log is a reason to look at once.
        if was_over {
            tokio::time::sleep(pause).await;
        } else {
            let _ = tokio::time::timeout(pause, over.wait_for(|over| *over)).await;
        }
    }
}

/// Asks now and then whether ARA is there: seldom while it is, and nothing else asks it.
pub(crate) async fn ara(outside: Outside) {
    let mut delay = OFTEN;
    loop {
        let asked = match outside.ara().await {
            None => return,
            Some(Ok(ara)) => ara.ping().await.map_err(|error| error.problem()),
            Some(Err(problem)) => Err(problem),
        };
        delay = if asked.is_ok() { STILL_THERE } else { (delay * 2).min(LONGEST_DELAY) };
        outside.ara_said(asked.as_ref().map(drop), delay).await;
        tokio::time::sleep(delay).await;
        delay = if asked.is_ok() { OFTEN } else { delay };
    }
}

fn retried(mut problem: Problem, delay: Duration) -> Problem {
    problem.retry_at = Timestamp::now().checked_add(delay).ok();
    problem
}

const RETRY: Duration = Duration::from_secs(3);
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(10);
const LAST_LOOKS: u32 = 10;
const STILL_THERE: Duration = Duration::from_secs(60);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

fn line(line: crate::domain::LogLine) -> app::LogLine {
    app::LogLine { at: line.at, bytes: line.text.into_boxed_slice() }
}
