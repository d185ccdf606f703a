//! `runs list|show|logs|results|stop`.

use std::io::Write;

use clap::Subcommand;
use jiff::Timestamp;
use serde::Serialize;

use super::output::Table;
use super::{Context, Failure, hosts};
use crate::backend::ara::Ara;
use crate::domain::results::{ResultStatus, RunResults};
use crate::domain::text::{duration, plain_log, short_span};
use crate::domain::{Counts, HostName, Phase, Problem, Run, RunDetails};
use crate::ops::logs::LogEvent;
use crate::ops::{self, OpError};

/// What is done with runs. A run is named by its Job, or by its host: then the newest is meant.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List runs, newest first
    List {
        /// Only this host's
        #[arg(long)]
        host: Option<HostName>,
    },
    /// Show one run
    Show {
        /// The run or host
        run: String,
    },
    /// Print a run's Job as the cluster has it, as YAML
    Yaml {
        /// The run or host
        run: String,
    },
    /// Print a run's log
    Logs {
        /// The run or host
        run: String,
        /// Go on until the run is over
        #[arg(short, long)]
        follow: bool,
    },
    /// Print what ARA recorded of a run
    Results {
        /// The run or host
        run: String,
        /// Only what failed
        #[arg(long)]
        failed: bool,
    },
    /// End runs that go on, for good
    Stop {
        /// The runs or hosts
        #[arg(required = true)]
        runs: Vec<String>,
    },
}

#[derive(Serialize)]
struct Results<'a> {
    run: &'a str,
    host: &'a HostName,
    #[serde(flatten)]
    results: &'a RunResults,
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { host } => list(context, host).await,
        Command::Show { run } => {
            let details = ops::runs::find(&context.kube, &run).await?;
            let details = ops::runs::explain(&context.kube, details).await;
            context.output.print(&details, hosts::table_of)?;
            Ok(())
        }
        Command::Yaml { run } => {
            let details = ops::runs::find(&context.kube, &run).await?;
            let yaml = ops::runs::yaml(&context.kube, &details.run.name).await?;
            std::io::Write::write_all(&mut std::io::stdout().lock(), yaml.as_bytes())?;
            Ok(())
        }
        Command::Logs { run, follow } => logs(context, &run, follow).await,
        Command::Results { run, failed } => results(context, &run, failed).await,
        Command::Stop { runs } => stop(context, &runs).await,
    }
}

async fn list(context: &Context<'_>, host: Option<HostName>) -> Result<(), Failure> {
    let mut runs = context.kube.runs(host.as_ref()).await.map_err(OpError::from)?;
    runs.sort_by_key(|run| std::cmp::Reverse(run.created));
    let now = Timestamp::now();
    context.output.print(&runs, |runs| {
        let mut table =
            Table::new(&["RUN", "HOST", "PHASE", "AGE", "TOOK", "OK", "CHANGED", "UNREACHABLE", "FAILED"]);
        for run in runs {
            let counts = run.last_outcome().and_then(|o| o.counts);
            let number =
                |of: fn(&Counts) -> u32| counts.as_ref().map(|c| of(c).to_string()).unwrap_or_default();
            table.row([
                run.name.clone(),
                run.host.to_string(),
                run.phase.to_string(),
                short_span(now.duration_since(run.created).as_secs()),
                took(run, now),
                number(|c| c.ok),
                number(|c| c.changed),
                number(|c| c.unreachable),
                number(|c| c.failed),
            ]);
        }
        table
    })?;
    Ok(())
}

fn took(run: &Run, now: Timestamp) -> String {
    let Some(started) = run.started else { return String::new() };
    let span = run.finished.unwrap_or(now).duration_since(started).as_millis();
    duration(u64::try_from(span).unwrap_or(0))
}

/// The log is printed as the program wrote it when it goes to a file or a pipe; on a terminal it is made safe first.
async fn logs(context: &Context<'_>, name: &str, follow: bool) -> Result<(), Failure> {
    let run = ops::runs::find(&context.kube, name).await?.run;
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let mut events = ops::logs::read(&context.kube, &run, follow);
    let mut any = false;
    while let Some(event) = events.recv().await {
        match event {
            LogEvent::Lines(lines) => {
                any = true;
                let mut out = std::io::stdout().lock();
                for line in lines {
                    if terminal {
                        writeln!(out, "{}", plain_log(&String::from_utf8_lossy(&line.text)))?;
                    } else {
                        out.write_all(&line.text)?;
                        out.write_all(b"\n")?;
                    }
                }
                out.flush()?;
            }
            LogEvent::Attempt(number, pod) if number > 1 => {
                super::fail(&format!("attempt {number}: pod {pod}"));
            }
            LogEvent::Attempt(..) => {}
            LogEvent::Waiting(why) => super::fail(&format!("waiting: {why}")),
            LogEvent::Failed(error, _) if !follow => return Err(OpError::from(error).into()),
            LogEvent::Failed(error, delay) => {
                super::fail(&format!("{error}; next try in {:.0} s", delay.as_secs_f32()));
            }
            LogEvent::Ended => break,
        }
    }
    if !any {
        super::fail(&format!("run {} has no log: it is {}", run.name, run.phase));
    }
    Ok(())
}

async fn results(context: &Context<'_>, name: &str, failed: bool) -> Result<(), Failure> {
    let run = ops::runs::find(&context.kube, name).await?.run;
    let environment = &context.settings.environment;
    let Some(ara) = &environment.ara else {
        let text = format!("environment {} has no ara: nothing is recorded", environment.name);
        return Err(OpError::Missing(text).into());
    };
    let ara = Ara::new(ara).map_err(OpError::from)?;
    let mut results = ops::results::of_run(&ara, &run.uid).await.map_err(OpError::from)?;
    if failed {
        results.results.retain(|r| matches!(r.status, ResultStatus::Failed | ResultStatus::Unreachable));
    }
    let printed = Results { run: &run.name, host: &run.host, results: &results };
    context.output.print(&printed, |printed| {
        let mut table = Table::new(&["STATUS", "TASK", "HOST", "TOOK", "PLACE"]);
        for result in &printed.results.results {
            let role = result.role.as_ref().map(|r| format!("{r} : ")).unwrap_or_default();
            table.row([
                result.status.as_str().to_owned(),
                format!("{role}{}", result.task),
                result.host.clone(),
                duration(result.duration_ms),
                result.place.clone(),
            ]);
        }
        table.row([printed.results.counts.to_string()]);
        table
    })?;
    Ok(())
}

/// What came of one of several runs.
#[derive(Serialize)]
struct Stopped {
    run: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<HostName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Problem>,
}

async fn stop(context: &Context<'_>, names: &[String]) -> Result<(), Failure> {
    let permit = context.permit()?;
    let by = context.operator().await?;
    let mut rows = Vec::new();
    let mut code = None;
    for name in names {
        let stopped = async {
            let run = ops::runs::find(&context.kube, name).await?.run;
            ops::decide::stop(&context.kube, &permit, &run.name, &run.uid, &by).await
        };
        rows.push(match stopped.await {
            Ok(RunDetails { run, .. }) => {
                Stopped { run: run.name, host: Some(run.host), phase: Some(run.phase), error: None }
            }
            Err(error) => {
                let problem = error.problem(name);
                super::fail(&problem.to_string());
                code = code.or(Some(Failure::from(problem.clone()).code));
                Stopped { run: name.clone(), host: None, phase: None, error: Some(problem) }
            }
        });
    }
    context.output.print(&rows, |rows| {
        let mut table = Table::new(&["RUN", "HOST", "PHASE"]);
        for row in rows.iter().filter(|row| row.error.is_none()) {
            let host = row.host.as_ref().map(ToString::to_string).unwrap_or_default();
            let phase = row.phase.map(|phase| phase.to_string()).unwrap_or_default();
            table.row([row.run.clone(), host, phase]);
        }
        table
    })?;
    code.map_or(Ok(()), |code| Err(Failure::said(code)))
}
