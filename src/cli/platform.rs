//! `platform bring-up|certificates|renew`.

use std::process::ExitCode;
use std::time::Instant;

use clap::Subcommand;
use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::output::Table;
use super::{Failure, Format, Output, fail, finish, say};
use crate::config::Config;
use crate::domain::platform::Step;
use crate::domain::record::stamp;
use crate::domain::secret::shown;
use crate::domain::text::short_span;
use crate::ops::OpError;
use crate::ops::environment::named;
use crate::ops::platform::{Bringing, Ending, Report, Trouble};

/// What is done with the platform.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make what is missing of buckets, keys, certificates, tokens and configurations; upload it, and push the manifests
    BringUp {
        /// Only these steps: check, buckets, fetch, key-pair, certificates, upload, manifests; without any, all in this order
        #[arg(value_parser = step, value_name = "STEP")]
        steps: Vec<Step>,
        /// Say what each would do, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// List the certificates with their ends and what is wrong with them; exits with 1 when something is
    Certificates,
    /// Make certificates anew in the local copy, with new keys: upload them then
    Renew {
        /// Only these, as they are listed; without any, all that end within 30 days or have something wrong
        names: Vec<String>,
        /// Say which, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
}

fn step(word: &str) -> Result<Step, String> {
    Step::parse(word).ok_or_else(|| format!("the steps are: {}", Step::ALL.map(Step::word).join(", ")))
}

/// Runs one command.
pub async fn run(command: Command, config: &Config, format: Format, shutdown: CancellationToken) -> ExitCode {
    finish(Box::pin(go(command, config, format.output, shutdown)).await)
}

async fn go(
    command: Command,
    config: &Config,
    output: Output,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let dry = match &command {
        Command::BringUp { dry_run, .. } | Command::Renew { dry_run, .. } => *dry_run,
        Command::Certificates => true,
    };
    let named = named(config, None)?;
    if !dry {
        // Said before anything is asked for.
        crate::ops::secrets::permit(config, &named).map_err(OpError::from)?;
    }
    let bringing = super::code::asked(async |code| Bringing::open(config, named.clone(), code).await).await?;
    match command {
        Command::BringUp { steps, dry_run } => bring_up(&bringing, &steps, dry_run, output, &shutdown).await,
        Command::Certificates => certificates(&bringing.certificates().await?, output),
        Command::Renew { names, dry_run } => {
            renewed(&bringing.renew(&names, dry_run).await?, dry_run, output)
        }
    }
}

/// A step, for programs.
#[derive(Debug, Serialize)]
struct Told {
    step: Step,
    /// `done`, `failed`, `waiting`.
    state: &'static str,
    seconds: f64,
    changed: Vec<String>,
    same: usize,
    notes: Vec<String>,
    error: Option<String>,
}

impl Told {
    fn new(step: Step, state: &'static str) -> Self {
        Self { step, state, seconds: 0.0, changed: Vec::new(), same: 0, notes: Vec::new(), error: None }
    }
}

async fn bring_up(
    bringing: &Bringing<'_>,
    steps: &[Step],
    dry: bool,
    output: Output,
    shutdown: &CancellationToken,
) -> Result<(), Failure> {
    let mut failed: Option<Failure> = None;
    let mut all = Vec::new();
    for step in Step::ALL.into_iter().filter(|step| steps.is_empty() || steps.contains(step)) {
        if failed.is_some() {
            all.push(Told::new(step, "waiting"));
            continue;
        }
        let begun = Instant::now();
        let taken = tokio::select! {
            taken = bringing.take(step, dry, shutdown) => taken,
            () = late(shutdown) => Err(OpError::Refused("interrupted".to_owned())),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let told = match taken {
            Ok(Report { step, changed, same, notes }) => {
                Told { seconds, changed, same, notes, ..Told::new(step, "done") }
            }
            Err(error) => {
                let failure = Failure::from(error);
                let told = Told { seconds, error: Some(failure.text.clone()), ..Told::new(step, "failed") };
                failed = Some(failure);
                told
            }
        };
        if output == Output::Table {
            print(&told, dry)?;
        }
        all.push(told);
    }
    if output != Output::Table {
        output.print(&all, |_| Table::pairs())?;
    }
    match failed {
        None => Ok(()),
        Some(failure) if output == Output::Table => Err(failure),
        Some(failure) => Err(Failure::said(failure.code)),
    }
}

/// What is under way gets a moment to end by itself.
async fn late(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
}

fn print(told: &Told, dry: bool) -> Result<(), Failure> {
    let Told { step, state, seconds, changed, same, notes, .. } = told;
    let verb = if dry { "would make or change" } else { "made or changed" };
    let what = match (changed.len(), *state) {
        (_, "failed") => "failed".to_owned(),
        (0, _) => format!("nothing to do, {same} as they should be"),
        (count, _) => format!("{verb} {count}, {same} as they should be"),
    };
    say(&format!("{:<13} {what} ({seconds:.1} s)", step.word()))?;
    changed.iter().try_for_each(|key| say(&format!("  + {}", shown(key))))?;
    notes.iter().for_each(|note| fail(note));
    Ok(())
}

/// A certificate, for programs.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    key: &'a str,
    expires: Option<Timestamp>,
    trouble: Vec<String>,
}

fn certificates(all: &[Ending], output: Output) -> Result<(), Failure> {
    let listed: Vec<Listed<'_>> = all
        .iter()
        .map(|one| Listed {
            key: &one.key,
            expires: one.expires,
            trouble: one.trouble.iter().map(Trouble::words).collect(),
        })
        .collect();
    let now = Timestamp::now();
    output.print(&listed, |all| {
        let mut table = Table::new(&["CERTIFICATE", "ENDS", "IN", "TROUBLE"]);
        for one in all {
            let ends = one.expires.map_or_else(String::new, stamp);
            let left =
                one.expires.map_or_else(String::new, |end| short_span(end.duration_since(now).as_secs()));
            table.row([shown(one.key), ends, left, one.trouble.join("; ")]);
        }
        table
    })?;
    if listed.iter().any(|one| !one.trouble.is_empty()) { Err(Failure::said(1)) } else { Ok(()) }
}

fn renewed(report: &Report, dry: bool, output: Output) -> Result<(), Failure> {
    if output != Output::Table {
        output.print(report, |_| Table::pairs())?;
        return Ok(());
    }
    report.changed.iter().try_for_each(|key| say(&format!("  + {}", shown(key))))?;
    let count = report.changed.len() / 2;
    say(&match (count, dry) {
        (0, _) => "no certificate needs it".to_owned(),
        (count, true) => format!("{count} would be made anew"),
        (count, false) => {
            format!("{count} made anew here: `hostwright secrets upload` gives them to the nodes")
        }
    })?;
    Ok(())
}
