//! `env`: which environments there are, what their variables say, whether all is right, and a shell in one.

mod shell;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use serde_json::{Map, Value};

use super::output::Table;
use super::{Failure, Format, Output, fail, finish, say};
use crate::config::{Config, Secret, ShownVariable, VariablesFile};
use crate::ops::OpError;
use crate::ops::aws;
use crate::ops::environment::{self, EnvironmentError, Finding, Named, State};

/// What is asked of the environments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the environments and whether their variables are complete
    List,
    /// Show an environment's variables, defaults included
    Show {
        /// The environment; without it the one that is used without a name
        name: Option<String>,
    },
    /// Make an environment's file of variables from the template
    Init {
        /// The environment; `play` is your own playground, play-USER
        name: Option<String>,
    },
    /// Look whether all is right with an environment, and say what is missing
    Check {
        /// The environment
        name: Option<String>,
    },
    /// Open your shell with an environment's variables, kubeconfig and a prompt that names it
    Shell {
        /// The environment
        name: Option<String>,
        /// Run this there instead, and end with its exit code
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

impl From<EnvironmentError> for Failure {
    fn from(error: EnvironmentError) -> Self {
        Self { text: error.to_string(), code: error.exit_code() }
    }
}

/// Runs one command.
pub async fn run(command: Command, config: &Config, format: Format) -> ExitCode {
    finish(go(command, config, format.output).await)
}

async fn go(command: Command, config: &Config, output: Output) -> Result<(), Failure> {
    match command {
        Command::List => list(config, output),
        Command::Show { name } => show(config, name.as_deref(), output),
        Command::Init { name } => init(config, name.as_deref()),
        Command::Check { name } => check(config, name.as_deref(), output).await,
        Command::Shell { name, command } => {
            let named = environment::named(config, name.as_deref())?;
            shell::open(config, &named, &command).await
        }
    }
}

/// A line of `env list`.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    /// Used without -e and a name.
    current: bool,
    file: String,
    /// `complete`, `incomplete`, `none`.
    variables: &'static str,
    mistakes: usize,
    /// It has a table in the configuration.
    configured: bool,
}

fn list(config: &Config, output: Output) -> Result<(), Failure> {
    let current = environment::named(config, None).ok();
    let listed = environment::all(config)?.into_iter().map(|named| {
        let (variables, mistakes) = if named.is_there() {
            match crate::config::load_variables(&named.path, &named.name) {
                Ok(_) => ("complete", 0),
                Err(mistakes) => ("incomplete", mistakes.iter().count()),
            }
        } else {
            ("none", 0)
        };
        Listed {
            current: current.as_ref() == Some(&named),
            configured: named.settings(config).is_some(),
            file: named.path.display().to_string(),
            name: named.name,
            variables,
            mistakes,
        }
    });
    let listed: Vec<Listed> = listed.collect();
    output.print(&listed, |all| {
        let mut table = Table::new(&["", "NAME", "VARIABLES", "CONFIGURED", "FILE"]);
        for one in all {
            let state = match one.mistakes {
                0 => one.variables.to_owned(),
                1 => "incomplete: 1 mistake".to_owned(),
                many => format!("incomplete: {many} mistakes"),
            };
            let mark = if one.current { "*" } else { "" };
            let configured = if one.configured { "yes" } else { "no" };
            table.row([mark.to_owned(), one.name.clone(), state, configured.to_owned(), one.file.clone()]);
        }
        table
    })?;
    if listed.is_empty() {
        fail("there are no environments yet: env init NAME makes one, env init play your own playground's");
    }
    Ok(())
}

/// The variables of an environment. What is doubtful in them, and that its file was made, is said on standard error.
pub(super) fn read(config: &Config, named: &Named) -> Result<VariablesFile, EnvironmentError> {
    let read = told(named, || environment::variables(config, named));
    let warnings = read.iter().flat_map(|file| &file.warnings);
    warnings.for_each(|warning| fail(&format!("warning: {warning}")));
    read
}

/// Does something that may make an environment's file, and says when it did.
fn told<T>(named: &Named, work: impl FnOnce() -> T) -> T {
    let there = named.is_there();
    let done = work();
    if !there && named.is_there() {
        fail(&format!("made {} from the template", named.path.display()));
    }
    done
}

fn show(config: &Config, name: Option<&str>, output: Output) -> Result<(), Failure> {
    let named = environment::named(config, name)?;
    let shown = read(config, &named)?.shown();
    match output {
        Output::Table => output.print(&(), |_| {
            let mut table = Table::new(&["VARIABLE", "VALUE", "FROM"]);
            for ShownVariable { path, value, place } in &shown {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                table.row([path.join("."), value, place.clone().unwrap_or_else(|| "default".to_owned())]);
            }
            table
        })?,
        _ => output.print(&nested(&shown), |_| Table::pairs())?,
    }
    Ok(())
}

/// As the file has them: maps in maps.
fn nested(shown: &[ShownVariable]) -> Value {
    let mut all = Map::new();
    for variable in shown {
        match variable.path.as_slice() {
            [name] => drop(all.insert(name.clone(), variable.value.clone())),
            [name, key] => {
                let inner = all.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Some(inner) = inner.as_object_mut() {
                    inner.insert(key.clone(), variable.value.clone());
                }
            }
            _ => {}
        }
    }
    Value::Object(all)
}

fn init(config: &Config, name: Option<&str>) -> Result<(), Failure> {
    let named = environment::named(config, name)?;
    let permit = config.permit().map_err(EnvironmentError::from)?;
    environment::init(&permit, config, &named)?;
    say(&format!("{} was made from the template.", named.path.display()))?;
    match crate::config::load_variables(&named.path, &named.name) {
        Ok(_) => say(&format!("It is complete; look at it, then: hostwright env check {}", named.name))?,
        Err(mistakes) => {
            say("To be filled in:")?;
            mistakes.iter().try_for_each(|mistake| say(&format!("  {mistake}")))?;
        }
    }
    Ok(())
}

async fn check(config: &Config, name: Option<&str>, output: Output) -> Result<(), Failure> {
    let named = environment::named(config, name)?;
    let (mut findings, file) = told(&named, || environment::check(config, &named))?;
    if let Some(file) = file {
        let looked = async |code: Option<&Secret>| aws::check(config, &named, &file, code).await;
        findings.extend(match super::code::asked(looked).await {
            Ok(findings) => findings,
            Err(OpError::Aws(error)) => vec![aws::no_code(&error)],
            Err(error) => return Err(error.into()),
        });
    }
    report(&findings, output)
}

/// Prints the report; the exit code is 2 when what was written is wrong, 1 when something else is.
fn report(findings: &[Finding], output: Output) -> Result<(), Failure> {
    output.print(&findings, |findings| {
        let mut table = Table::pairs();
        for finding in *findings {
            table.row([finding.state.word().to_owned(), finding.check.to_owned(), finding.text.clone()]);
        }
        table
    })?;
    let wrong = || findings.iter().filter(|finding| finding.state == State::Wrong);
    if wrong().any(|finding| finding.check == "variables") {
        return Err(Failure::said(2));
    }
    if wrong().next().is_some() { Err(Failure::said(1)) } else { Ok(()) }
}
