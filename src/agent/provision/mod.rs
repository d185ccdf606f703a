//! `hostwright provision`: what a run's pod does, from its message to the outcome on the Job.
//!
//! `main` calls [`run`] in a Job's pod; in the playground the Job runner starts the same as a child process. It changes nothing
//! but its own run, the targets, and the token that it mints and deletes. The order at the end is what makes a run survive a kill at any
//! moment: the outcome is written on the Job first, and the message is acknowledged last, so whatever dies in between is found
//! by the Job's next pod.

mod attempt;
mod details;
mod finish;
mod join;
mod joined;
mod log;
mod own;
mod patience;
mod policy;
mod recording;
mod session;
mod verdict;
mod work;

use std::fmt::Display;

use jiff::Timestamp;
use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

pub use own::{Own, OwnError};

use crate::config::Settings;
use crate::domain::text::plain;
use crate::domain::{Counts, ExitCode, Outcome};
use log::Log;
use session::Session;

/// The most characters of a text on the Job.
const TEXT_LIMIT: usize = 1000;

/// Why an attempt ended before its playbook did.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    exit: ExitCode,
    text: String,
}

impl Failure {
    fn new(exit: ExitCode, text: impl Display) -> Self {
        Self { exit, text: text.to_string() }
    }

    fn interrupted() -> Self {
        Self::new(ExitCode::Interrupted, "told to stop before it was done")
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    exit: ExitCode,
    text: String,
    counts: Option<Counts>,
}

impl End {
    /// Adds to the text what went wrong beside the run itself.
    fn note(&mut self, note: impl Display) {
        self.text = format!("{}; {note}", self.text);
    }

    /// The text on one line, as long as an annotation may have it.
    fn line(&self) -> String {
        self.text.lines().map(plain).collect::<Vec<_>>().join(" ").chars().take(TEXT_LIMIT).collect()
    }

    /// As it is written on the Job.
    fn outcome(&self) -> Outcome {
        Outcome { exit: self.exit, at: Timestamp::now(), text: self.line(), counts: self.counts }
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self { exit: failure.exit, text: failure.text, counts: None }
    }
}

/// Provisions the host of this pod's run, and returns what the process is to exit with. The pod's log goes to `out`.
///
/// When `shutdown` comes, it stops within the Job's grace period, whatever it is doing: the message goes back to its queue.
pub async fn run(
    settings: &Settings,
    own: Own,
    out: impl AsyncWrite + Unpin,
    shutdown: CancellationToken,
) -> ExitCode {
    let mut log = Log { out };
    log.say(format!("run {} of {}", own.name, own.host)).await;
    let end = match Session::open(settings, &own, &shutdown).await {
        Err(failure) => failure.into(),
        Ok(session) => Box::pin(session.go(&mut log)).await,
    };
    log.say(format!("{}: {}", end.exit.words(), end.line())).await;
    finish::leave_word(own.termination.as_deref(), &end);
    end.exit
}

/// What a future comes to, unless the pod is told to stop before that.
async fn unless_stopped<T>(
    shutdown: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => Err(Failure::interrupted()),
        done = work => Ok(done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ends_text_is_one_line_of_bounded_length() {
        let mut end = End::from(Failure::new(ExitCode::NoPolicy, "a\nb\u{1b}[2J"));
        end.note("c");
        assert_eq!(end.line(), "a b\u{241b}[2J; c");
        end.note("x".repeat(5000));
        assert_eq!(end.line().chars().count(), TEXT_LIMIT);
    }
}
