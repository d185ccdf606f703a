//! `env shell`: the operator's shell, or a command, in an environment. The terminal and the exit code are its own.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, read};
use crate::cli::fail;
use crate::config::Config;
use crate::ops::environment::{self, EnvironmentError, Named, Shell, ShellError};

impl From<ShellError> for Failure {
    fn from(error: ShellError) -> Self {
        let code = match &error {
            ShellError::Inside(_) => 4,
            ShellError::Kube(_) => 2,
            ShellError::Files(_) => 1,
        };
        Self { text: error.to_string(), code }
    }
}

/// Opens the shell, or runs the command, and waits for its end.
pub(super) async fn open(config: &Config, named: &Named, command: &[OsString]) -> Result<(), Failure> {
    let file = match read(config, named) {
        Ok(file) => Some(file),
        // A cluster's environment need not be a platform's too.
        Err(EnvironmentError::NotThere { .. }) if named.settings(config).is_some() => None,
        Err(error) => return Err(error.into()),
    };
    let shell = environment::prepare(config, named, file.as_ref(), command)?;
    shell.warnings.iter().for_each(|warning| fail(&format!("warning: {warning}")));
    let status = run(&shell, command.is_empty()).await?;
    // Its files go before we do.
    drop(shell);
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::said(u8::try_from(code).unwrap_or(1))),
        // As shells count a program that a signal ended.
        None => Err(Failure::said(status.signal().and_then(|s| u8::try_from(128 + s).ok()).unwrap_or(1))),
    }
}

async fn run(shell: &Shell, interactive: bool) -> Result<ExitStatus, Failure> {
    let (program, arguments) =
        shell.argv.split_first().ok_or_else(|| Failure::usage("no program is named"))?;
    let failed = |error: std::io::Error| Failure {
        text: format!("cannot run {}: {error}", program.to_string_lossy()),
        code: 1,
    };
    // Listened to before there is a child, so that none is missed.
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut quits = signal(SignalKind::quit()).map_err(failed)?;
    let mut ends = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangups = signal(SignalKind::hangup()).map_err(failed)?;
    let mut command = tokio::process::Command::new(program);
    for name in &shell.unset {
        command.env_remove(name);
    }
    let mut child = command.args(arguments).envs(&shell.set).spawn().map_err(failed)?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let pass = |signal: Signal| {
        // It may have ended meanwhile.
        pid.map_or(Ok(()), |pid| kill_process(pid, signal)).ok();
    };
    loop {
        tokio::select! {
            status = child.wait() => return status.map_err(failed),
            // The terminal sends these to the shell as well, and it knows what to do with them.
            _ = interrupts.recv() => {}
            _ = quits.recv() => {}
            _ = hangups.recv() => pass(Signal::HUP),
            _ = ends.recv() => {
                pass(Signal::TERM);
                // A shell at its prompt does not listen to that.
                if interactive {
                    pass(Signal::HUP);
                }
            }
        }
    }
}
