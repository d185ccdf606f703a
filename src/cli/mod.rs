//! The commands on nouns: parse, call ops, print as table, JSON or YAML. `main.rs` routes; nothing here starts a server or a
//! console.

pub mod activity;
pub mod announce;
pub mod approvals;
pub mod bundle;
pub mod cluster;
mod code;
pub mod config;
pub mod deploy;
pub mod env;
pub mod hosts;
pub mod manifests;
pub mod manual;
mod output;
pub mod permissions;
pub mod platform;
pub mod queue;
pub mod runs;
pub mod secrets;
mod shell;
pub mod targets;
pub mod tokens;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::backend::kube::Kube;
use crate::config::{Permit, Settings};
use crate::domain::{Problem, ProblemKind};
use crate::ops::OpError;

pub use output::{Output, fail, say};

/// The commands on nouns.
#[derive(Debug, Subcommand)]
pub enum Noun {
    /// Hosts: list, show, announce, approve, reject, retry, check
    #[command(subcommand)]
    Hosts(hosts::Command),
    /// Runs: list, show, logs, results, stop
    #[command(subcommand)]
    Runs(runs::Command),
    /// Scrape targets: list, add, remove, label
    #[command(subcommand)]
    Targets(targets::Command),
    /// Bootstrap tokens: list, create, delete, join-command
    #[command(subcommand)]
    Tokens(tokens::Command),
    /// The cluster: info, ca, permissions
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// The runs' queues and the dead letters: list, requeue, drop
    #[command(subcommand)]
    Queue(queue::Command),
    /// All approvals together: status, hold, release
    #[command(subcommand)]
    Approvals(approvals::Command),
    /// What was done, by whom, on what and the outcome
    Activity(activity::Command),
}

/// How a command prints.
#[derive(Debug, Clone, Copy, Args)]
pub struct Format {
    /// Print as
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// A command that did not do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    /// What to print; empty when everything has been said.
    pub text: String,
    /// 1 failed, 2 wrong usage or configuration, 3 not found, 4 refused.
    pub code: u8,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let code = match problem.kind {
            ProblemKind::Invalid => 2,
            ProblemKind::NotFound => 3,
            ProblemKind::Conflict | ProblemKind::Held | ProblemKind::Refused => 4,
            _ => 1,
        };
        Self { text: problem.to_string(), code }
    }
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Self {
        error.problem("").into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Whoever reads our output has seen enough.
        let code = if error.kind() == std::io::ErrorKind::BrokenPipe { 0 } else { 1 };
        let text = if code == 0 { String::new() } else { format!("cannot print: {error}") };
        Self { text, code }
    }
}

impl Failure {
    /// Wrong usage.
    fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 2 }
    }

    /// Everything has been said.
    fn said(code: u8) -> Self {
        Self { text: String::new(), code }
    }
}

/// What every command needs.
struct Context<'a> {
    settings: &'a Settings,
    kube: Kube,
    output: Output,
}

impl Context<'_> {
    fn permit(&self) -> Result<Permit, Failure> {
        self.settings.permit().map_err(|e| OpError::from(e).into())
    }

    /// The name that what is done is signed with.
    async fn operator(&self) -> Result<String, Failure> {
        Ok(crate::ops::operator(&self.kube, &self.settings.environment).await?)
    }
}

/// Runs one command.
pub async fn run(noun: Noun, settings: &Settings, format: Format) -> ExitCode {
    finish(go(noun, settings, format).await)
}

/// Boots a machine of the playground.
pub async fn boot(settings: &Settings, name: Option<&str>, format: Format) -> ExitCode {
    finish(announce::boot(settings, name, format.output).await)
}

fn finish(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                fail(&failure.text);
            }
            ExitCode::from(failure.code)
        }
    }
}

async fn go(noun: Noun, settings: &Settings, format: Format) -> Result<(), Failure> {
    if let Noun::Hosts(hosts::Command::Announce(args)) = noun {
        return announce::announce(settings, format.output, args).await;
    }
    let kube = Kube::connect(&settings.environment.kubernetes).await.map_err(OpError::from)?;
    let kube = kube.of_environment(&settings.environment.name);
    let context = Context { settings, kube, output: format.output };
    match noun {
        Noun::Hosts(command) => hosts::run(&context, command).await,
        Noun::Runs(command) => runs::run(&context, command).await,
        Noun::Targets(command) => targets::run(&context, command).await,
        Noun::Tokens(command) => tokens::run(&context, command).await,
        Noun::Cluster(command) => cluster::run(&context, command).await,
        Noun::Queue(command) => queue::run(&context, command).await,
        Noun::Approvals(command) => approvals::run(&context, command).await,
        Noun::Activity(command) => activity::run(&context, command).await,
    }
}
