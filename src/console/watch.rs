//! What streams in by itself: all runs, and the log and results of the one run that is looked at.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::outside::{Outside, Trouble};
use crate::app::{self, LogEvent, Msg, RunRef, RunsMsg};
use crate::backend::kube::{Kube, RunsEvent};
use crate::domain::BackEnd;
use crate::ops;

/// How long after a failed watch should have been tried again it is asked whether the API server answers. The watch itself says
/// nothing when it goes on and nothing has changed.
const SILENCE: Duration = Duration::from_millis(1500);

/// Follows all runs, for as long as the console lives.
pub(crate) async fn runs(outside: Outside, tell: mpsc::Sender<Msg>) {
    let Some(kube) = outside.kube_at_last().await else { return };
    let events = kube.watch_runs();
    follow_runs(&kube, events, tell).await;
}

async fn follow_runs(kube: &Kube, events: impl Stream<Item = RunsEvent>, tell: mpsc::Sender<Msg>) {
    let mut health = Trouble::new(BackEnd::Cluster, tell.clone());
    let mut events = std::pin::pin!(events.fuse());
    let mut quiet_until = None;
    loop {
        let ask = async {
            match quiet_until.filter(|_| health.is_down()) {
                Some(time) => tokio::time::sleep_until(time).await,
                None => std::future::pending().await,
            }
            kube.ping().await.is_ok()
        };
        let event = tokio::select! {
            event = events.next() => event,
            up = ask => {
                quiet_until = None;
                if up {
                    health.up().await;
                }
                continue;
            }
        };
        let message = match event {
            None => return,
            Some(RunsEvent::Failed(error, delay)) => {
                quiet_until = Some(tokio::time::Instant::now() + delay + SILENCE);
                health.down(error.problem(BackEnd::Cluster.word()), delay).await;
                continue;
            }
            Some(RunsEvent::Reset) => RunsMsg::Reset,
            Some(RunsEvent::Changed(runs)) => {
                health.up().await;
                RunsMsg::Batch(runs)
            }
            Some(RunsEvent::Listed) => {
                health.up().await;
                RunsMsg::Listed
            }
            Some(RunsEvent::Removed(uid)) => RunsMsg::Removed(vec![uid]),
        };
        if tell.send(Msg::Runs(message)).await.is_err() {
            return;
        }
    }
}

/// Follows the log of one run to its end: its pods one after another.
pub(crate) async fn log(outside: Outside, run: RunRef, tell: mpsc::Sender<Msg>) {
    let say = async |event| tell.send(Msg::Log { run: run.uid.clone(), event }).await.is_ok();
    let details = loop {
        let Some(kube) = outside.kube_at_last().await else { return };
        match ops::runs::find(&kube, &run.name).await {
            Ok(details) if details.run.uid == run.uid => break (kube, details.run),
            Ok(_) => {
                say(LogEvent::Ended).await;
                return;
            }
            Err(error) => {
                let mut problem = error.problem(run.name.clone());
                problem.retry_at = Timestamp::now().checked_add(RETRY).ok();
                if !say(LogEvent::Problem(problem)).await {
                    return;
                }
                tokio::time::sleep(RETRY).await;
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
                let mut problem = error.problem(run.name.clone());
                problem.retry_at = Timestamp::now().checked_add(delay).ok();
                LogEvent::Problem(problem)
            }
            ops::logs::LogEvent::Ended => LogEvent::Ended,
        };
        if !say(event).await {
            return;
        }
    }
}

const RETRY: Duration = Duration::from_secs(3);

fn line(line: crate::domain::LogLine) -> app::LogLine {
    app::LogLine { at: line.at, bytes: line.text.into_boxed_slice() }
}
