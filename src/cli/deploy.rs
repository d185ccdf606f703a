//! `deploy render`: what a cluster needs, for `kubectl apply -f -`.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Subcommand;

use super::{Failure, finish};
use crate::config::{DeploySettings, Settings};
use crate::ops;

/// What is done about the deployment.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print all objects that a cluster needs for this environment: kubectl apply -f - takes them
    Render,
}

/// Runs one command.
#[must_use]
pub fn run(command: &Command, settings: &Settings, deploy: &DeploySettings) -> ExitCode {
    let Command::Render = command;
    finish(render(settings, deploy))
}

fn render(settings: &Settings, deploy: &DeploySettings) -> Result<(), Failure> {
    let text = ops::deploy::render(settings, deploy)?;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
