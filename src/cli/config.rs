//! `hostwright config`: checks the configuration and shows what counts. `main.rs` calls these with the command line's sources
//! and a lock on stdout.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;

use crate::config::{Config, MistakeKind, Mistakes, Sources, load};

/// What is asked of the configuration.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the configuration and name all mistakes
    Check,
    /// Print the merged configuration, secrets masked
    Show {
        /// Say where each setting comes from
        #[arg(long)]
        origin: bool,
    },
}

/// Runs one command, printing on standard output.
///
/// # Errors
/// The mistakes of the configuration.
pub fn run(command: &Command, sources: &Sources) -> Result<ExitCode, Mistakes> {
    let mut out = io::stdout().lock();
    let done = match command {
        Command::Check => check(sources, &mut out),
        Command::Show { origin } => show(sources, *origin, &mut out),
    };
    match done {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(ConfigCommandError::Mistakes(mistakes)) => Err(mistakes),
        // Whoever reads our output has seen enough.
        Err(ConfigCommandError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            super::fail(&error.to_string());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Why a `config` command did not do its job.
#[derive(Debug, thiserror::Error)]
pub enum ConfigCommandError {
    /// The configuration has mistakes: exit code 2.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
    /// What was to be printed could not be.
    #[error("cannot print the configuration: {0}")]
    Output(#[from] io::Error),
}

/// `config check`: says that the configuration is right, what it was read from and which environments it has; warnings first.
///
/// # Errors
/// All mistakes, also an environment that was asked for (`-e`, `HOSTWRIGHT_ENV`, `environment = …`) and does not exist; or when
/// `out` cannot be written.
pub fn check(sources: &Sources, out: &mut impl Write) -> Result<(), ConfigCommandError> {
    report(&load(sources)?, out)
}

/// `config show`: the merged configuration as TOML, secrets masked. With `origin` each line says where it comes from.
///
/// # Errors
/// All mistakes, or when `out` cannot be written.
pub fn show(sources: &Sources, origin: bool, out: &mut impl Write) -> Result<(), ConfigCommandError> {
    out.write_all(load(sources)?.to_toml(origin).as_bytes())?;
    Ok(())
}

fn report(config: &Config, out: &mut impl Write) -> Result<(), ConfigCommandError> {
    let chosen = match config.settings(None) {
        Ok(settings) => Some(settings.environment.name),
        // None at all, or none chosen, is no mistake in the files: a command that needs one says so.
        Err(mistakes) if mistakes.iter().any(|m| m.kind == MistakeKind::UnknownEnvironment) => {
            return Err(mistakes.into());
        }
        Err(_) => None,
    };
    for warning in &config.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let from =
        if config.files.is_empty() { "no file, the defaults".to_owned() } else { config.files.join(", ") };
    writeln!(out, "The configuration is right. Read: {from}.")?;
    let mark = |name: &String| match &chosen {
        Some(chosen) if chosen == name => format!("{name} (used without -e)"),
        _ => name.clone(),
    };
    let names: Vec<String> = config.environments.keys().map(mark).collect();
    if names.is_empty() {
        writeln!(out, "Environments: none yet; `hostwright play` makes one to play with.")?;
    } else {
        writeln!(out, "Environments: {}.", names.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_with;

    fn said(sources: &Sources, variables: &[(&str, &str)]) -> Result<String, ConfigCommandError> {
        let mut out = Vec::new();
        report(&load_with(sources, &variables.iter().copied().collect())?, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_right_configuration_says_what_it_has() {
        let text = said(&Sources::default(), &[]).unwrap();
        assert!(text.contains("no file, the defaults") && text.contains("none yet"), "{text}");
        let lan = ("HOSTWRIGHT_ENVIRONMENTS__LAN__POLICY__SOURCE", "/srv/policy");
        let text = said(&Sources::default(), &[lan, ("HOSTWRIGHT_JOB__IMAGE", "hostwright:latest")]).unwrap();
        assert!(text.starts_with("warning: job.image has no fixed tag"), "{text}");
        assert!(text.ends_with("Environments: lan (used without -e).\n"), "{text}");
    }

    #[test]
    fn an_environment_that_is_not_there_is_a_mistake() {
        let sources = Sources { environment: Some("lam".into()), ..Sources::default() };
        let lan = ("HOSTWRIGHT_ENVIRONMENTS__LAN__POLICY__SOURCE", "/srv/policy");
        let error = said(&sources, &[lan]).unwrap_err().to_string();
        assert_eq!(error, "-e: there is no environment \"lam\"; did you mean \"lan\"?");
    }
}
