//! `deploy render`: what a cluster needs, for `kubectl apply -f -`.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Subcommand;

use super::{Failure, finish};
use crate::config::Settings;
use crate::ops;

/// What is done about the deployment.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print all objects that a cluster needs for this environment: kubectl apply -f - takes them
    Render,
}

/// Runs one command.
#[must_use]
pub fn run(command: &Command, settings: &Settings) -> ExitCode {
    let Command::Render = command;
    finish(render(settings))
}

fn render(settings: &Settings) -> Result<(), Failure> {
    let text = ops::deploy::render(settings)?;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
