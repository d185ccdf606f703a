//! Job control: stopping the whole job, and knowing that a program of ours was stopped.

use std::time::Duration;

use rustix::process::{Pid, Signal as Kill, WaitId, WaitIdOptions, kill_current_process_group, waitid};
use tokio::time::sleep;

use super::ConsoleError;
use super::signals::Signals;

/// How long it takes at most until a stop has stopped us. Longer means that nobody could start us again: then none stops us.
const STOPPED: Duration = Duration::from_millis(200);
/// How often it is looked whether a shell has put us in the foreground again.
const FOREGROUND: Duration = Duration::from_millis(250);

/// Stops the whole job as Ctrl-Z does elsewhere, and waits until it goes on in the foreground. The terminal must not be ours then.
///
/// # Errors
/// When a signal came meanwhile that ends the console.
pub(crate) async fn halt(signals: &mut Signals, foreground: impl Fn() -> bool) -> Result<(), ConsoleError> {
    // Not SIGTSTP, which we catch, and not SIGSTOP, which stops even a job that no shell could start again: the system
    // treats SIGTTIN as it treats an uncaught SIGTSTP.
    if let Err(error) = kill_current_process_group(Kill::TTIN) {
        tracing::warn!(%error, "the job could not be stopped");
    }
    tokio::select! {
        biased;
        signal = signals.continued() => signal.error().map_or(Ok(()), Err)?,
        () = sleep(STOPPED) => tracing::info!("nothing stopped us: there is no shell with job control above us"),
    }
    // In the background we touch nothing: that would only stop us again.
    while !foreground() {
        tokio::select! {
            biased;
            signal = signals.continued() => signal.error().map_or(Ok(()), Err)?,
            () = sleep(FOREGROUND) => {}
        }
    }
    Ok(())
}

/// Whether a child was stopped since this was last asked.
pub(crate) fn was_stopped(child: Pid) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    waitid(WaitId::Pid(child), options).is_ok_and(|status| status.is_some_and(|status| status.stopped()))
}

/// Whether a child is stopped now; yes where the system does not tell.
pub(crate) fn is_stopped(child: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()));
    // The state follows the name, which is in parentheses and may hold anything (proc_pid_stat(5)).
    stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't'])))
}
