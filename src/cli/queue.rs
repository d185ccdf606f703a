//! `queue list|requeue|drop`.

use clap::Subcommand;
use jiff::Timestamp;

use super::output::{Output, Table};
use super::{Context, Failure};
use crate::backend::amqp::Broker;
use crate::domain::queue::{DeadLetter, Queues, RunQueue};
use crate::domain::text::short_span;
use crate::ops;

/// What is done with queues.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the runs' queues and the dead letters
    List,
    /// Put dead letters back on their runs' queues
    Requeue {
        /// Their ids (queue list)
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Throw dead letters away
    Drop {
        /// Their ids (queue list)
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    let broker = ops::queue::broker(&context.settings.environment)?;
    let done = match command {
        Command::List => list(context, &broker).await,
        Command::Requeue { ids } => {
            let (permit, by) = (context.permit()?, context.operator().await?);
            each(&ids, async |id| {
                let run = Box::pin(ops::queue::requeue(&context.kube, &permit, &broker, id, &by)).await?;
                Ok(format!("{id}: back on the queue of {}", run.name))
            })
            .await
        }
        Command::Drop { ids } => {
            let (permit, by) = (context.permit()?, context.operator().await?);
            each(&ids, async |id| {
                Box::pin(ops::queue::drop_letter(&context.kube, &permit, &broker, id, &by)).await?;
                Ok(format!("{id}: thrown away"))
            })
            .await
        }
    };
    broker.close().await;
    done
}

async fn list(context: &Context<'_>, broker: &Broker) -> Result<(), Failure> {
    let queues = ops::queue::list(&context.kube, broker).await?;
    context.output.print(&queues, runs)?;
    if context.output == Output::Table {
        super::say("")?;
        context.output.print(&queues, |queues| letters(&queues.dead.letters))?;
    }
    if queues.dead.more > 0 {
        super::fail(&format!("{} more dead letters were not looked at", queues.dead.more));
    }
    Ok(())
}

fn runs(queues: &Queues) -> Table {
    let mut table = Table::new(&["RUN", "HOST", "PHASE", "DELIVERED", "WAITING", "CONSUMERS", "QUEUE"]);
    for RunQueue { run, host, phase, queue, delivered, state, .. } in &queues.runs {
        let number = |of: Option<u32>| of.map_or_else(|| "-".to_owned(), |number| number.to_string());
        table.row([
            run.clone(),
            host.to_string(),
            phase.to_string(),
            delivered.map_or_else(|| "no".to_owned(), |_| "yes".to_owned()),
            number(state.map(|s| s.messages)),
            number(state.map(|s| s.consumers)),
            queue.clone(),
        ]);
    }
    table
}

fn letters(letters: &[DeadLetter]) -> Table {
    let now = Timestamp::now();
    let mut table = Table::new(&["DEAD LETTER", "RUN", "HOST", "AGE", "BYTES", "REASON"]);
    for letter in letters {
        let run = letter.name.clone().or_else(|| letter.run.clone());
        table.row([
            letter.id.clone(),
            run.unwrap_or_default(),
            letter.host.clone().unwrap_or_default(),
            letter.at.map(|at| short_span(now.duration_since(at).as_secs())).unwrap_or_default(),
            letter.size.to_string(),
            letter.reason.clone(),
        ]);
    }
    table
}

/// One after the other: who holds the letters keeps them from others. The exit code is that of the first that went wrong.
async fn each(
    ids: &[String],
    deed: impl AsyncFn(&str) -> Result<String, ops::OpError>,
) -> Result<(), Failure> {
    let mut code = None;
    for id in ids {
        match deed(id).await {
            Ok(said) => super::say(&said)?,
            Err(error) => {
                let failure = Failure::from(error);
                super::fail(&failure.text);
                code = code.or(Some(failure.code));
            }
        }
    }
    code.map_or(Ok(()), |code| Err(Failure::said(code)))
}
