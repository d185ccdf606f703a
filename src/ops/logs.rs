//! The log of a run: its pods one after another, without a lost or doubled line.

mod save;

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::OpError;
use crate::backend::kube::{Kube, KubeError, KubeErrorKind};
use crate::domain::{LogLine, Pod, Run};

pub use save::{Saved, save};

/// What following a log tells.
#[derive(Debug)]
pub enum LogEvent {
    /// An attempt's pod begins; counted from 1.
    Attempt(usize, String),
    /// Lines, in order.
    Lines(Vec<LogLine>),
    /// There is no pod with a log yet, and why.
    Waiting(String),
    /// Reading broke off and goes on after this time.
    Failed(KubeError, Duration),
    /// The run is over and its log has been read.
    Ended,
}

const LOOK_EVERY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(15);
/// Lines wait here for their reader; a slow one holds up the reading, never the run.
const BATCHES: usize = 16;
const MOST_IN_A_BATCH: usize = 500;

/// Reads a run's log; with `follow` until the run is over, else what there is now.
///
/// The reading ends when the receiver is dropped.
#[must_use]
pub fn read(kube: &Kube, run: &Run, follow: bool) -> mpsc::Receiver<LogEvent> {
    let (tell, told) = mpsc::channel(BATCHES);
    let reader = Reader { kube: kube.clone(), name: run.name.clone(), uid: run.uid.clone(), follow, tell };
    tokio::spawn(async move {
        // The only error is that nobody listens any more.
        let _ = reader.run().await;
    });
    told
}

struct Reader {
    kube: Kube,
    name: String,
    uid: String,
    follow: bool,
    tell: mpsc::Sender<LogEvent>,
}

/// Nobody listens any more.
struct Gone;

/// How far a pod's log has been read. The API's `sinceTime` counts in whole seconds, so what was read of the last one comes again.
#[derive(Default)]
struct Mark {
    /// The second of the newest line: from there on it is read again.
    since: Option<Timestamp>,
    newest: Option<Timestamp>,
    /// How many lines of that second and later were read.
    lines: usize,
}

/// One reading of a log, from a mark on.
struct Again {
    since: Option<Timestamp>,
    /// So many lines were read before.
    known: usize,
}

impl Mark {
    fn again(&self) -> Again {
        Again { since: self.since, known: self.lines }
    }

    /// Whether the line is new. A pod's two streams are not quite in the order of their times: what tells is how many lines were
    /// read, not their times alone.
    fn is_new(&mut self, line: &LogLine, again: &mut Again) -> bool {
        let Some(at) = line.at else { return true };
        if again.since.is_some_and(|since| at < since) {
            return false;
        }
        // Lines that were read are gone from the node when a newer one comes too soon.
        if again.known > 0 && self.newest.is_none_or(|newest| at <= newest) {
            again.known -= 1;
            return false;
        }
        again.known = 0;
        self.newest = self.newest.max(Some(at));
        let second = Timestamp::from_second(at.as_second()).ok();
        if second > self.since {
            (self.since, self.lines) = (second, 0);
        }
        self.lines += usize::from(second >= self.since);
        true
    }
}

impl Reader {
    async fn run(self) -> Result<(), Gone> {
        let mut read: Vec<String> = Vec::new();
        let mut delay = LOOK_EVERY;
        let mut waiting = String::new();
        loop {
            match self.look(&read).await {
                Ok(Look::Pod(pod)) => {
                    waiting.clear();
                    self.say(LogEvent::Attempt(read.len() + 1, pod.name.clone())).await?;
                    self.pod(&pod).await?;
                    read.push(pod.name);
                    delay = LOOK_EVERY;
                }
                Ok(Look::Over) => return self.say(LogEvent::Ended).await,
                Ok(Look::Nothing(why)) => {
                    if why != waiting {
                        waiting.clone_from(&why);
                        self.say(LogEvent::Waiting(why)).await?;
                    }
                    self.sleep(LOOK_EVERY).await?;
                }
                Err(error) => {
                    self.fail(error, &mut delay).await?;
                }
            }
        }
    }

    /// The next pod whose log can be read, or why there is none. The run is looked at before its pods: what ended before was
    /// seen.
    async fn look(&self, read: &[String]) -> Result<Look, KubeError> {
        let over = match self.kube.run(&self.name).await {
            Ok(details) => details.run.uid != self.uid || details.run.is_over(),
            Err(error) if error.kind == KubeErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        let pods = self.kube.pods(&self.uid).await?;
        let next = pods.into_iter().find(|pod| !read.contains(&pod.name));
        Ok(match next {
            Some(pod) if pod.has_log() => Look::Pod(pod),
            _ if over || !self.follow => Look::Over,
            Some(pod) if !pod.reason.is_empty() => Look::Nothing(pod.reason),
            Some(_) => Look::Nothing("the pod starts".to_owned()),
            None => Look::Nothing("there is no pod yet".to_owned()),
        })
    }

    /// Reads one pod's log to its end. What ends within a line is only the pod's last line when the pod has ended: else it comes again.
    async fn pod(&self, pod: &Pod) -> Result<(), Gone> {
        let mut mark = Mark::default();
        let mut delay = LOOK_EVERY;
        loop {
            let ended = match self.kube.log(&pod.name, mark.since, self.follow).await {
                Ok(lines) => self.lines(lines, &mut mark).await?,
                Err(error) => Err(error),
            };
            match ended {
                Ok(rest) if !self.follow || self.finished(&pod.name).await => {
                    let rest: Vec<_> = rest.into_iter().collect();
                    return if rest.is_empty() { Ok(()) } else { self.say(LogEvent::Lines(rest)).await };
                }
                Ok(_) => self.sleep(LOOK_EVERY).await?,
                Err(error) if error.kind == KubeErrorKind::NotFound => return Ok(()),
                Err(error) if !self.follow => return self.say(LogEvent::Failed(error, Duration::ZERO)).await,
                Err(error) => self.fail(error, &mut delay).await?,
            }
        }
    }

    /// Passes new lines on until there are no more. Returns the last one if it has no end.
    async fn lines(
        &self,
        lines: impl Stream<Item = Result<LogLine, KubeError>>,
        mark: &mut Mark,
    ) -> Result<Result<Option<LogLine>, KubeError>, Gone> {
        let mut again = mark.again();
        let mut rest = None;
        let mut lines = std::pin::pin!(lines.ready_chunks(MOST_IN_A_BATCH));
        loop {
            let chunk = tokio::select! {
                chunk = lines.next() => chunk,
                () = self.tell.closed() => return Err(Gone),
            };
            let Some(chunk) = chunk else { return Ok(Ok(rest)) };
            let mut batch = Vec::new();
            let mut failed = None;
            for line in chunk {
                match line {
                    Ok(line) if !line.whole => rest = Some(line),
                    Ok(line) if mark.is_new(&line, &mut again) => batch.push(line),
                    Ok(_) => {}
                    Err(error) => failed = Some(error),
                }
            }
            if !batch.is_empty() {
                self.say(LogEvent::Lines(batch)).await?;
            }
            if let Some(error) = failed {
                return Ok(Err(error));
            }
        }
    }

    async fn finished(&self, pod: &str) -> bool {
        match self.kube.pods(&self.uid).await {
            Ok(pods) => pods.iter().find(|p| p.name == pod).is_none_or(Pod::finished),
            Err(_) => false,
        }
    }

    async fn fail(&self, error: KubeError, delay: &mut Duration) -> Result<(), Gone> {
        // What is forbidden stays so for a while.
        let least = if error.kind == KubeErrorKind::Forbidden { LONGEST_DELAY } else { Duration::ZERO };
        *delay = least.max(*delay);
        self.say(LogEvent::Failed(error, *delay)).await?;
        self.sleep(*delay).await?;
        *delay = (*delay * 2).min(LONGEST_DELAY);
        Ok(())
    }

    async fn say(&self, event: LogEvent) -> Result<(), Gone> {
        self.tell.send(event).await.map_err(|_| Gone)
    }

    async fn sleep(&self, time: Duration) -> Result<(), Gone> {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = self.tell.closed() => Err(Gone),
        }
    }
}

enum Look {
    Pod(Pod),
    Nothing(String),
    Over,
}

/// Collects what there is of a run's log now.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn all(kube: &Kube, run: &Run) -> Result<Vec<LogLine>, OpError> {
    let mut told = read(kube, run, false);
    let mut lines = Vec::new();
    while let Some(event) = told.recv().await {
        match event {
            LogEvent::Lines(batch) => lines.extend(batch),
            LogEvent::Failed(error, _) => return Err(error.into()),
            LogEvent::Ended => break,
            LogEvent::Attempt(..) | LogEvent::Waiting(_) => {}
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &str, text: &str) -> LogLine {
        LogLine { at: Some(at.parse().unwrap()), text: text.as_bytes().to_vec(), whole: true }
    }

    /// What an API server sends of these lines: those that are not older than the second, in the file's order.
    fn sent(all: &[LogLine], since: Option<Timestamp>) -> impl Iterator<Item = &LogLine> {
        assert!(since.is_none_or(|since| since.subsec_nanosecond() == 0), "rounded up it would skip lines");
        all.iter().filter(move |line| since.is_none_or(|since| line.at.unwrap() >= since))
    }

    #[test]
    fn a_second_reading_repeats_nothing_and_loses_nothing() {
        let all = [
            line("2026-01-01T00:00:01.1Z", "a"),
            line("2026-01-01T00:00:01.9Z", "b"),
            line("2026-01-01T00:00:01.9Z", "c"),
            line("2026-01-01T00:00:01.9Z", "d"),
            // The other stream's: a little older than what stands before it.
            line("2026-01-01T00:00:01.8Z", "e"),
            line("2026-01-01T00:00:02.1Z", "f"),
            line("2026-01-01T00:00:01.95Z", "g"),
            line("2026-01-01T00:00:02.05Z", "h"),
            line("2026-01-01T00:00:03Z", "i"),
        ];
        for first in 0..=all.len() {
            for second in first..=all.len() {
                let mut mark = Mark::default();
                let mut seen = Vec::new();
                for there in [&all[..first], &all[..second], &all[..]] {
                    let mut again = mark.again();
                    let lines: Vec<_> = sent(there, mark.since).collect();
                    seen.extend(lines.into_iter().filter(|line| mark.is_new(line, &mut again)));
                }
                // Of what is older than the second that is asked for nothing is sent again: the API has no other way to ask.
                let late = |line: &&LogLine| *line != &all[6] || seen.contains(line);
                assert_eq!(
                    seen,
                    all.iter().filter(late).collect::<Vec<_>>(),
                    "broken at {first} and {second}"
                );
            }
        }
    }

    #[test]
    fn what_the_node_threw_away_meanwhile_does_not_hide_what_is_new() {
        let all = [
            line("2026-01-01T00:00:01.1Z", "a"),
            line("2026-01-01T00:00:01.2Z", "b"),
            line("2026-01-01T00:00:01.3Z", "c"),
        ];
        let mut mark = Mark::default();
        let mut again = mark.again();
        assert!(all[..2].iter().all(|line| mark.is_new(line, &mut again)));
        let mut again = mark.again();
        assert!(mark.is_new(&all[2], &mut again), "the first two are gone");
    }
}
