//! The leash: a small process between the playground and a program that it starts, so that nothing outlives the playground.
//!
//! `hostwright leash --grace SECONDS -- PROGRAM ARGS…` is hidden from users. The Job runner and the services start every program
//! through it. It gives a program what the end of a container gives: when the program ends, all that it left running ends, and
//! when whoever holds the leash ends, even by `kill -9`, the program ends.
//!
//! It must stay small: no configuration, no logging, nothing that can fail half-way.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, pidfd_open, set_child_subreaper,
    setsid, wait,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio_util::task::TaskTracker;

/// How often the children are counted again while they are being killed: a process that forks in that moment appears
/// without a signal to us.
const RECOUNT: Duration = Duration::from_millis(20);

/// What killed processes may take to vanish; longer only happens to a process stuck in the kernel, which no signal mends.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// The arguments of `hostwright leash`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Args {
    /// Seconds between asking the program to end (SIGTERM) and ending it (SIGKILL).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub grace: Duration,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| "not a number of seconds".into())
}

/// Why a program could not be held on a leash.
#[derive(Debug, thiserror::Error)]
pub enum LeashError {
    /// No program was named.
    #[error("cannot start a program on a leash: none was named")]
    NoProgram,
    /// The process could not be prepared.
    #[error("cannot start {program:?} on a leash: {source}")]
    Prepare {
        /// The program.
        program: OsString,
        /// What the system said.
        source: std::io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {program:?}: {source}")]
    Start {
        /// The program.
        program: OsString,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LeashError {
    /// The exit code to end with, as a shell does it: 127 for a program that is not there, 126 for all else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 127,
            Self::NoProgram | Self::Prepare { .. } | Self::Start { .. } => 126,
        }
    }
}

/// Runs a program until it has ended and nothing of it is left, and returns its exit code (128 + signal when a signal ended it).
///
/// Meant for a process of its own: it reaps every child of this process, reads standard input and leaves the session.
///
/// # Errors
/// When the program cannot be started; see [`LeashError::exit_code`].
pub async fn run(args: &Args) -> Result<u8, LeashError> {
    let (program, rest) = args.command.split_first().ok_or(LeashError::NoProgram)?;
    let prepare = |source| LeashError::Prepare { program: program.clone(), source };
    let mut signals = Signals::new().map_err(prepare)?;
    // A session of its own: a Ctrl-C in the console's terminal is the console's. It fails for a group leader, who needs it less.
    setsid().ok();
    set_child_subreaper(Some(getpid())).map_err(|e| prepare(e.into()))?;

    let mut command = std::process::Command::new(program);
    command.args(rest).stdin(Stdio::null()).process_group(0);
    // `ended` waits for it, as for every other child.
    let child = command.spawn().map_err(|source| LeashError::Start { program: program.clone(), source })?;
    let pid = Pid::from_raw(child.id().cast_signed());

    let code = hold(pid, args.grace, &mut signals).await;
    end_what_is_left(&mut signals.child).await;
    Ok(code)
}

/// The signals that the leash listens to.
struct Signals {
    child: SignalStream,
    stop: [SignalStream; 3],
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            stop: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ],
        })
    }
}

/// Waits for the program's end, and brings it about once the leash is let go or a signal asks for it.
async fn hold(program: Option<Pid>, grace: Duration, signals: &mut Signals) -> u8 {
    let [term, int, hup] = &mut signals.stop;
    tokio::select! {
        code = ended(program, &mut signals.child) => return code,
        () = let_go() => {}
        _ = term.recv() => {}
        _ = int.recv() => {}
        _ = hup.recv() => {}
    }
    send(program, Signal::TERM);
    if let Ok(code) = tokio::time::timeout(grace, ended(program, &mut signals.child)).await {
        return code;
    }
    send(program, Signal::KILL);
    ended(program, &mut signals.child).await
}

/// Ready when standard input ends: whoever held the leash has let go of it or is dead.
///
/// A thread reads, since a read that the runtime does would keep the process from ending.
async fn let_go() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let reader = std::thread::Builder::new().name("leash".into()).spawn(move || {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).ok();
        tell.send(()).ok();
    });
    // Without its reader a leash would hold nothing, so it counts as let go.
    if reader.is_ok() {
        told.await.unwrap_or_default();
    }
}

/// Reaps every child that ends, until the program has; returns its exit code.
async fn ended(program: Option<Pid>, child: &mut SignalStream) -> u8 {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if Some(pid) == program => return exit_code(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            // No child at all: the program's status was lost, which only a foreign reaper in this process could bring about.
            Err(_) => return 126,
            Ok(None) => _ = child.recv().await,
        }
    }
}

fn exit_code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s));
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(u8::MAX)
}

/// Sends a signal to the program, which `ended` has not reaped yet: so its process id is its own still.
fn send(program: Option<Pid>, signal: Signal) {
    if let Some(pid) = program {
        kill_process(pid, signal).ok();
    }
}

/// Kills what the program left running, as the end of a container does.
///
/// Orphans become our children (we are their subreaper). Only children are signalled, never their descendants: a child's process
/// id cannot be taken over while we have not reaped it. Descendants come up as their parents die.
async fn end_what_is_left(child: &mut SignalStream) {
    let killing = async {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(None) => {}
            }
            for pid in children() {
                kill_process(pid, Signal::KILL).ok();
            }
            tokio::time::timeout(RECOUNT, child.recv()).await.ok();
        }
    };
    tokio::time::timeout(LAST_WAIT, killing).await.ok();
}

/// The processes whose parent is this one, read from `/proc`.
fn children() -> Vec<Pid> {
    let me = getpid().as_raw_nonzero().get();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| parent_of(*pid) == Some(me))
        .filter_map(Pid::from_raw)
        .collect()
}

/// The parent of a process, if it is there.
pub(super) fn parent_of(pid: i32) -> Option<i32> {
    parent(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The parent's process id in a line of `/proc/PID/stat`: the second field behind the name, which may hold anything.
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A command that runs `program` on a leash held by whoever keeps the child's standard input; `exe` is the `hostwright` program.
///
/// Set its environment, folder and output as usual, then start it with [`Leashed::spawn`]. Never set `kill_on_drop`: that would kill
/// the leash and not the program.
#[must_use]
pub fn command<I, S>(exe: &Path, grace: Duration, program: &OsStr, args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(exe);
    command
        .arg("leash")
        .arg("--grace")
        .arg(grace.as_secs_f64().to_string())
        .arg("--")
        .arg(program)
        .args(args);
    command.stdin(Stdio::piped());
    command
}

/// A running program on a leash. Dropping it ends the program (SIGTERM, grace, SIGKILL) without waiting for it.
#[derive(Debug)]
pub struct Leashed {
    /// The leash's process: its output is the program's. Wait with [`Leashed::wait`]: tokio's own `wait` closes standard input first,
    /// which is to let go of the leash.
    pub child: Child,
    held: Option<ChildStdin>,
}

impl Leashed {
    /// Starts a command made by [`command`].
    ///
    /// # Errors
    /// When the leash cannot be started. That the program itself cannot be is told by exit code 126 or 127.
    pub fn spawn(mut command: Command) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let held = child.stdin.take();
        track(&child);
        Ok(Self { child, held })
    }

    /// The process id of the leash, not of the program; `None` once it was waited for.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks the program to end, within its grace period; returns at once.
    pub fn let_go(&mut self) {
        self.held = None;
    }

    /// Waits until the program and all that it started have ended. A program ended by a signal has the exit code 128 + signal. Can be
    /// dropped and called again.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// [`Leashed::let_go`], then [`Leashed::wait`].
    ///
    /// # Errors
    /// As [`Leashed::wait`].
    pub async fn stop(&mut self) -> std::io::Result<ExitStatus> {
        self.let_go();
        self.wait().await
    }
}

/// The leashes of this process, until each has ended; closed, so that one can wait until there is none.
static LEASHES: LazyLock<TaskTracker> = LazyLock::new(|| {
    let leashes = TaskTracker::new();
    leashes.close();
    leashes
});

/// Follows a leash to its end, also when nobody waits for it any more. Without handles on processes (an old kernel) it is not followed.
fn track(child: &Child) {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK)) else { return };
    LEASHES.spawn(process_ended(process));
}

/// Ready when the process behind a handle has ended.
#[expect(deprecated, reason = "its successor is unsafe for descriptors that are not owned; this one is")]
pub(super) async fn process_ended(process: OwnedFd) {
    if let Ok(process) = AsyncFd::with_interest(process, Interest::READABLE) {
        process.readable().await.ok();
    }
}

/// Waits until every program that this process holds on a leash has ended, those included whose [`Leashed`] was dropped.
pub async fn all_ended() {
    LEASHES.wait().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_the_name_holds() {
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) b (c)) R 8 1"), Some(8));
        assert_eq!(parent("12 (sh"), None);
        assert_eq!(parent(""), None);
    }

    #[test]
    fn seconds_are_positive_numbers() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("30"), Ok(Duration::from_secs(30)));
        for wrong in ["-1", "x", "", "inf", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
