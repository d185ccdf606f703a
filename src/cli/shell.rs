//! `hosts shell`: a shell on a host, with the terminal as its own.

use std::process::Stdio;

use tokio::signal::unix::{SignalKind, signal};

use super::{Context, Failure};
use crate::domain::HostName;
use crate::ops;

/// Opens a shell on a host and waits for its end. The exit code is the shell's own.
pub(super) async fn open(context: &Context<'_>, host: &HostName) -> Result<(), Failure> {
    let permit = context.permit()?;
    let details = ops::runs::of_host(&context.kube, host).await?;
    let environment = &context.settings.environment;
    let shell = ops::shell::prepare(&context.kube, &permit, environment, &details.run.name).await?;
    let Some((program, arguments)) = shell.argv.split_first() else {
        return Err(Failure::usage("the environment's shell names no program"));
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    // Ctrl-C is the shell's: caught here it does not end us before the host's keys are cleared away.
    let failed = |error: std::io::Error| Failure {
        text: format!("cannot run {program}: {error}: the environment's `shell` says how one is opened"),
        code: 1,
    };
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.map_err(failed)?,
            _ = interrupts.recv() => {}
        }
    };
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure::said(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
    }
}
