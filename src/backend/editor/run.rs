//! The editor on the terminal, for the command line: the console has a way of its own to lend the terminal.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::{Editor, EditorError, Sheet};

/// How long an editor that is told to end may take: some write what was not saved.
const GRACE: Duration = Duration::from_secs(3);

/// How an editor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, and well: what it left counts.
    Well,
    /// By itself, with this exit code: what it left does not count.
    Code(i32),
    /// A signal ended it: what it left does not count.
    Signal(i32),
    /// This signal came for us, and the editor was ended: leave, with 128 and its number as exit code.
    Interrupted(i32),
}

/// The signals that end us, heard from now on. From the first of these on they do nothing by themselves any more (the runtime keeps
/// them): who goes on after it was dropped must listen to them in another way.
#[derive(Debug)]
pub struct Signals {
    interrupt: Stream,
    quit: Stream,
    terminate: Stream,
    hang_up: Stream,
}

impl Signals {
    /// Listens.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn new() -> Result<Self, EditorError> {
        let heard = |kind| signal(kind).map_err(|error| EditorError::File { doing: "guard", error });
        Ok(Self {
            interrupt: heard(SignalKind::interrupt())?,
            quit: heard(SignalKind::quit())?,
            terminate: heard(SignalKind::terminate())?,
            hang_up: heard(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them, and says which. No editor runs meanwhile: Ctrl-C is for us.
    pub async fn next(&mut self) -> i32 {
        let signal = tokio::select! {
            biased;
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.interrupt.recv() => Signal::INT,
        };
        signal.as_raw()
    }
}

/// Opens a sheet in the editor, on the terminal, and waits for its end. Ctrl-C and Ctrl-\ are the editor's meanwhile; what is to end us
/// (SIGTERM, SIGHUP) ends it too. Dropped, the editor is killed.
///
/// # Errors
/// When it does not start.
pub async fn run(editor: &Editor, sheet: &Sheet, signals: &mut Signals) -> Result<Ended, EditorError> {
    let failed = |error| EditorError::Start { program: editor.program(), error };
    let argv = editor.command(sheet);
    let (program, arguments) =
        argv.split_first().ok_or_else(|| failed(std::io::Error::other("no program is named")))?;
    let mut child = Command::new(program)
        .args(arguments)
        .envs(sheet.variables())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    loop {
        tokio::select! {
            biased;
            _ = signals.hang_up.recv() => return end(&mut child, Signal::HUP).await.map_err(failed),
            _ = signals.terminate.recv() => return end(&mut child, Signal::TERM).await.map_err(failed),
            // The terminal sends these to the editor as well, and it knows what to do with them.
            _ = signals.interrupt.recv() => {}
            _ = signals.quit.recv() => {}
            status = child.wait() => {
                let status = status.map_err(failed)?;
                return Ok(match (status.code(), status.signal()) {
                    (Some(0), _) => Ended::Well,
                    (Some(code), _) => Ended::Code(code),
                    (None, signal) => Ended::Signal(signal.unwrap_or(0)),
                });
            }
        }
    }
}

/// Ends the editor as we are to end.
async fn end(child: &mut Child, signal: Signal) -> std::io::Result<Ended> {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It may have ended meanwhile.
        kill_process(pid, signal).ok();
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(Ended::Interrupted(signal.as_raw()))
}
