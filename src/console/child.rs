//! A program that has the terminal for a while, as `ssh` or an editor.
//!
//! Before it runs nobody else reads the keyboard. What the terminal sends to the whole job (Ctrl-C, Ctrl-\\) is meant for the
//! program; what ends us ends it too. Stopped (Ctrl-Z, or `~^Z` in ssh) it stops the console with it: else nobody could go on.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal as Kill, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::signals::{Signal, Signals};
use super::{ConsoleError, job};

/// Why a program did not end by itself.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It did not start, or cannot be waited for.
    Failed(std::io::Error),
    /// A signal ends the console.
    Console(ConsoleError),
}

/// Runs a program on the terminal until it ends, with these variables beside ours. Messages that come meanwhile go to `take`; `foreground` says whether our job has
/// the terminal.
pub(crate) async fn run<M>(
    argv: &[OsString],
    variables: &[(&'static str, PathBuf)],
    signals: &mut Signals,
    mut take: impl AsyncFnMut(M),
    messages: &mut mpsc::Receiver<M>,
    foreground: impl Fn() -> bool,
) -> Result<ExitStatus, Ended> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Ended::Failed(std::io::Error::other("no program is named")));
    };
    // Listened to before there is a child, so that none is missed.
    let mut children = signal(SignalKind::child()).map_err(Ended::Failed)?;
    let mut child = Command::new(program)
        .args(arguments)
        .envs(variables.iter().cloned())
        .kill_on_drop(true)
        .spawn()
        .map_err(Ended::Failed)?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    loop {
        tokio::select! {
            biased;
            ended = child.wait() => {
                signals.forget_stops();
                return ended.map_err(Ended::Failed);
            }
            _ = children.recv() => {
                if let Some(pid) = pid.filter(|pid| job::was_stopped(*pid)) {
                    job::halt(signals, &foreground).await.map_err(Ended::Console)?;
                    // The shell that started the job started the program with it, and it may be stopped again by now. In this
                    // order: what is stopped without news of it is so from before.
                    let mut still = job::is_stopped(pid);
                    while job::was_stopped(pid) {
                        job::halt(signals, &foreground).await.map_err(Ended::Console)?;
                        still = job::is_stopped(pid);
                    }
                    // Who stopped alone, where no shell starts the job or only us.
                    if still {
                        kill_process(pid, Kill::CONT).map_err(|error| Ended::Failed(error.into()))?;
                    }
                }
            }
            signal = signals.next() => match (signal, signal.error()) {
                // Meant for the program, which has the terminal.
                (Signal::End("SIGINT" | "SIGQUIT", _), _) | (_, None) => {}
                // The line is gone, or we are to end: dropped, the program is killed.
                (_, Some(error)) => return Err(Ended::Console(error)),
            },
            Some(message) = messages.recv() => take(message).await,
        }
    }
}
