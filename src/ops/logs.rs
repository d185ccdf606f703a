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

/// How far a pod's log has been read. The API's `sinceTime` counts in seconds, so what was read of the last one comes again.
#[derive(Default)]
struct Mark {
    at: Option<Timestamp>,
    lines_at: usize,
}

impl Mark {
    /// Whether the line is new; `again` counts lines of the last instant in this reading.
    fn is_new(&mut self, line: &LogLine, again: &mut usize) -> bool {
        match (line.at, self.at) {
            (Some(at), Some(last)) if at < last => false,
            (Some(at), Some(last)) if at == last => {
                *again += 1;
                if *again <= self.lines_at {
                    return false;
                }
                self.lines_at = *again;
                true
            }
            (Some(at), _) => {
                (self.at, self.lines_at, *again) = (Some(at), 1, 1);
                true
            }
            (None, _) => true,
        }
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

    /// Reads one pod's log to its end.
    async fn pod(&self, pod: &Pod) -> Result<(), Gone> {
        let mut mark = Mark::default();
        let mut delay = LOOK_EVERY;
        loop {
            let ended = match self.kube.log(&pod.name, mark.at, self.follow).await {
                Ok(lines) => self.lines(lines, &mut mark).await?,
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) if !self.follow || self.finished(&pod.name).await => return Ok(()),
                Ok(()) => self.sleep(LOOK_EVERY).await?,
                Err(error) if error.kind == KubeErrorKind::NotFound => return Ok(()),
                Err(error) if !self.follow => return self.say(LogEvent::Failed(error, Duration::ZERO)).await,
                Err(error) => self.fail(error, &mut delay).await?,
            }
        }
    }

    async fn lines(
        &self,
        lines: impl Stream<Item = Result<LogLine, KubeError>>,
        mark: &mut Mark,
    ) -> Result<Result<(), KubeError>, Gone> {
        let mut again = 0;
        let mut lines = std::pin::pin!(lines.ready_chunks(MOST_IN_A_BATCH));
        loop {
            let chunk = tokio::select! {
                chunk = lines.next() => chunk,
                () = self.tell.closed() => return Err(Gone),
            };
            let Some(chunk) = chunk else { return Ok(Ok(())) };
            let mut batch = Vec::new();
            let mut failed = None;
            for line in chunk {
                match line {
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
        LogLine { at: Some(at.parse().unwrap()), text: text.as_bytes().to_vec() }
    }

    #[test]
    fn a_second_reading_repeats_nothing_and_loses_nothing() {
        let all = [
            line("2026-01-01T00:00:01.1Z", "a"),
            line("2026-01-01T00:00:01.2Z", "b"),
            line("2026-01-01T00:00:01.2Z", "c"),
            line("2026-01-01T00:00:01.2Z", "d"),
            line("2026-01-01T00:00:02Z", "e"),
        ];
        for broken_at in 0..=all.len() {
            let mut mark = Mark::default();
            let mut again = 0;
            let mut seen: Vec<_> = all[..broken_at].iter().filter(|l| mark.is_new(l, &mut again)).collect();
            again = 0;
            seen.extend(all.iter().filter(|l| mark.is_new(l, &mut again)));
            assert_eq!(seen, all.iter().collect::<Vec<_>>(), "broken at {broken_at}");
        }
    }
}
