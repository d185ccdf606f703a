//! A command that an operator gave: an argument vector, never a shell, with a time limit, and what it says line by line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio_util::sync::CancellationToken;

use crate::domain::text::plain_log;

/// How much of one line is told, in bytes.
const LINE: usize = 4 * 1024;
/// How many lines are told.
const LINES: usize = 500;
/// How long a command that is told to end may take.
const GRACE: Duration = Duration::from_secs(5);
/// How long what it wrote may take to arrive once it has ended: something that it started may hold the pipe.
const DRAIN: Duration = Duration::from_secs(1);

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCommand {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// How long it may take.
    pub limit: Duration,
    /// Variables that it gets beside ours.
    pub variables: Vec<(String, OsString)>,
    /// Where it runs.
    pub folder: PathBuf,
}

/// Why it did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It does not start.
    #[error("{program} does not start: {error}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        error: std::io::Error,
    },
    /// It ended with another exit code than 0, or by a signal.
    #[error("{program} failed: {status}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It took too long, and was ended with all that it had started.
    #[error("{program} took longer than {} s, and was ended", limit.as_secs_f64())]
    TooLong {
        /// The program.
        program: String,
        /// How long it may take.
        limit: Duration,
    },
    /// We are to end, and so it was ended.
    #[error("{program} was ended, because this is to end")]
    Stopped {
        /// The program.
        program: String,
    },
}

impl OwnCommand {
    /// The program, for people.
    #[must_use]
    pub fn program(&self) -> String {
        self.argv.first().map(|program| plain_log(&program.to_string_lossy())).unwrap_or_default()
    }

    /// Runs it to its end. What it says is told to `say`, line by line and safe for a terminal; it has no input.
    ///
    /// # Errors
    /// When it does not start, fails, takes too long, or `stop` came first.
    pub async fn run(&self, stop: &CancellationToken, mut say: impl FnMut(&str)) -> Result<(), CommandError> {
        let program = self.program();
        let failed = |error| CommandError::Start { program: self.program(), error };
        let (first, rest) =
            self.argv.split_first().ok_or_else(|| failed(std::io::Error::other("no program is named")))?;
        let mut command = tokio::process::Command::new(first);
        command.args(rest).current_dir(&self.folder).envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that it can be ended with all that it starts.
        let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(failed)?;
        let mut said = Said::of(&mut child);
        let end = tokio::time::sleep(self.limit);
        tokio::pin!(end);
        let status = loop {
            tokio::select! {
                line = said.next(), if !said.is_over() => said.tell(line, &mut say),
                status = child.wait() => break status.map_err(failed)?,
                () = &mut end => {
                    finish(&mut child).await;
                    return Err(CommandError::TooLong { program, limit: self.limit });
                }
                () = stop.cancelled() => {
                    finish(&mut child).await;
                    return Err(CommandError::Stopped { program });
                }
            }
        };
        let drained = async {
            while !said.is_over() {
                let line = said.next().await;
                said.tell(line, &mut say);
            }
        };
        tokio::time::timeout(DRAIN, drained).await.ok();
        said.summary(&mut say);
        if status.success() { Ok(()) } else { Err(CommandError::Failed { program, status }) }
    }
}

/// Ends a command with all that it started.
async fn finish(child: &mut Child) {
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let kill = |signal| group.map(|group| kill_process_group(group, signal));
    // It may have ended meanwhile.
    kill(Signal::TERM);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        kill(Signal::KILL);
        child.wait().await.ok();
    }
}

/// What a command says, on both of its outputs.
struct Said {
    out: Option<BufReader<ChildStdout>>,
    err: Option<BufReader<ChildStderr>>,
    partial: [Vec<u8>; 2],
    told: usize,
}

/// A line, whole or cut; none: that output has ended.
type Line = (usize, Option<Vec<u8>>);

impl Said {
    fn of(child: &mut Child) -> Self {
        let (out, err) = (child.stdout.take().map(BufReader::new), child.stderr.take().map(BufReader::new));
        Self { out, err, partial: [Vec::new(), Vec::new()], told: 0 }
    }

    fn is_over(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    /// The next line of either. It may be dropped and asked again.
    async fn next(&mut self) -> Line {
        let [first, second] = &mut self.partial;
        tokio::select! {
            line = line(self.out.as_mut(), first) => (0, line),
            line = line(self.err.as_mut(), second) => (1, line),
        }
    }

    fn tell(&mut self, (which, line): Line, say: &mut impl FnMut(&str)) {
        let Some(line) = line else {
            if which == 0 {
                self.out = None;
            } else {
                self.err = None;
            }
            return;
        };
        self.told += 1;
        if self.told <= LINES {
            say(&plain_log(&String::from_utf8_lossy(&line)));
        }
    }

    fn summary(&self, say: &mut impl FnMut(&str)) {
        if self.told > LINES {
            say(&format!("… and {} more lines", self.told - LINES));
        }
    }
}

/// Reads a line into `partial`, of which no more than [`LINE`] bytes are kept.
async fn line(
    reader: Option<&mut BufReader<impl AsyncRead + Unpin>>,
    partial: &mut Vec<u8>,
) -> Option<Vec<u8>> {
    let Some(reader) = reader else { return std::future::pending().await };
    loop {
        let held = match reader.fill_buf().await {
            Ok([]) | Err(_) => {
                let rest = std::mem::take(partial);
                return Some(rest).filter(|rest| !rest.is_empty());
            }
            Ok(held) => held,
        };
        let end = held.iter().position(|byte| *byte == b'\n');
        let piece = held.get(..end.unwrap_or(held.len())).unwrap_or_default();
        let room = LINE.saturating_sub(partial.len());
        partial.extend(piece.iter().take(room));
        let used = end.map_or(held.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            return Some(std::mem::take(partial));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(argv: &[&str], limit: Duration) -> OwnCommand {
        OwnCommand {
            argv: argv.iter().map(OsString::from).collect(),
            limit,
            variables: vec![("GIVEN".into(), "a b".into())],
            folder: std::env::temp_dir(),
        }
    }

    async fn run(argv: &[&str], limit: Duration) -> (Result<(), CommandError>, Vec<String>) {
        let mut said = Vec::new();
        let stop = CancellationToken::new();
        let done = command(argv, limit).run(&stop, |line| said.push(line.to_owned())).await;
        (done, said)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_it_says_is_told_and_how_it_ends() {
        let (done, mut said) =
            run(&["sh", "-c", "echo \"$GIVEN\"; printf 'x\\033[2Jy' >&2; exit 3"], LONG).await;
        said.sort();
        assert_eq!(said, ["a b", "x\u{241b}[2Jy"]);
        let error = done.unwrap_err();
        assert!(matches!(error, CommandError::Failed { .. }), "{error}");
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        let (done, said) = run(&["printf", "%s;", "$HOME", "*"], LONG).await;
        assert!(done.is_ok());
        assert_eq!(said, ["$HOME;*;"], "no shell looks at it");
        assert!(matches!(run(&["/no/such/program"], LONG).await.0, Err(CommandError::Start { .. })));
        assert!(run(&[], LONG).await.0.is_err());
    }

    #[tokio::test]
    async fn however_much_it_says_little_is_held() {
        let (done, said) = run(&["sh", "-c", "head -c 1000000 /dev/zero; echo; seq 1 2000"], LONG).await;
        assert!(done.is_ok());
        assert_eq!((said.len(), said[0].chars().count()), (LINES + 1, LINE));
        assert_eq!(said[LINES], "… and 1501 more lines");
    }

    #[tokio::test]
    async fn what_takes_too_long_is_ended_with_all_that_it_started() {
        let (done, said) = run(&["sh", "-c", "sleep 600 & echo $!; wait"], Duration::from_millis(300)).await;
        assert!(matches!(done, Err(CommandError::TooLong { .. })), "{done:?}");
        let pid: i32 = said[0].parse().unwrap();
        let gone = || rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_err();
        while !gone() {
            tokio::task::yield_now().await;
        }
        // What goes on in the background holds nobody up.
        assert!(run(&["sh", "-c", "sleep 5 & exit 0"], LONG).await.0.is_ok());
        let stop = CancellationToken::new();
        stop.cancel();
        let stopped = command(&["sleep", "600"], LONG).run(&stop, |_| {}).await;
        assert!(matches!(stopped, Err(CommandError::Stopped { .. })));
    }
}
