//! A program that has the terminal for a while, as `ssh` or an editor.
//!
//! Before it runs nobody else reads the keyboard. What the terminal sends to the whole job (Ctrl-C, Ctrl-\\) is meant for the
//! program; what ends us ends it too.

use std::process::ExitStatus;

use tokio::process::Command;
use tokio::sync::mpsc;

use super::signals::{Signal, Signals};

/// Why a program did not end by itself.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It did not start, or cannot be waited for.
    Failed(std::io::Error),
    /// This signal ends the console.
    Signal(Signal),
}

/// Runs a program on the terminal until it ends. Messages that come meanwhile go to `take`.
pub(crate) async fn run<M>(
    argv: &[String],
    signals: &mut Signals,
    mut take: impl AsyncFnMut(M),
    messages: &mut mpsc::Receiver<M>,
) -> Result<ExitStatus, Ended> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Ended::Failed(std::io::Error::other("no program is named")));
    };
    let mut child =
        Command::new(program).args(arguments).kill_on_drop(true).spawn().map_err(Ended::Failed)?;
    loop {
        tokio::select! {
            biased;
            ended = child.wait() => {
                return ended.map_err(Ended::Failed);
            }
            signal = signals.next() => match signal {
                Signal::End("SIGINT" | "SIGQUIT", _)
                | Signal::Resized
                | Signal::Stop
                | Signal::Continued => {}
                // The line is gone, or we are to end: dropped, the program is killed.
                other => return Err(Ended::Signal(other)),
            },
            Some(message) = messages.recv() => take(message).await,
        }
    }
}
