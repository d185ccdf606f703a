//! `approvals status|hold|release`.

use clap::Subcommand;
use jiff::Timestamp;

use super::output::Table;
use super::{Context, Failure};
use crate::domain::approvals::{Approvals, Hold};
use crate::domain::record::stamp;
use crate::domain::text::short_span;
use crate::ops;

/// What is done with all approvals together.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether approvals are held: by whom, since when and why
    Status,
    /// Hold all approvals: nothing is approved or retried until they are released, neither by operators nor by the rule
    Hold {
        /// Why: everybody who wants to approve reads it
        #[arg(long)]
        reason: String,
    },
    /// Release approvals: operators approve again, and the rule goes on with what waited
    Release,
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    let kube = &context.kube;
    match command {
        Command::Status => {
            let approvals = ops::approvals::look(kube).await?;
            context.output.print(&approvals, table)?;
        }
        Command::Hold { reason } => {
            let (permit, by) = (context.permit()?, context.operator().await?);
            let hold = ops::approvals::hold(kube, &permit, &reason, &by).await?;
            context.output.print(&hold, |hold| said(format!("approvals are {}", hold.words())))?;
        }
        Command::Release => {
            let (permit, by) = (context.permit()?, context.operator().await?);
            let hold = ops::approvals::release(kube, &permit, None, &by).await?;
            context
                .output
                .print(&hold, |hold| said(format!("approvals are released; they were {}", hold.words())))?;
        }
    }
    Ok(())
}

fn said(words: String) -> Table {
    let mut table = Table::pairs();
    table.row([words]);
    table
}

fn table(approvals: &Approvals) -> Table {
    let mut table = Table::pairs();
    let mut pair = |name: &str, value: String| table.row([name.to_owned(), value]);
    match (&approvals.hold, &approvals.released) {
        (Some(Hold { by, at, reason }), _) => {
            let ago = short_span(Timestamp::now().duration_since(*at).as_secs());
            pair("approvals", "held".to_owned());
            pair("by", by.clone());
            pair("since", format!("{} ({ago} ago)", stamp(*at)));
            pair("reason", reason.clone());
        }
        (None, released) => {
            pair("approvals", "open".to_owned());
            if let Some(released) = released {
                pair("last released", format!("by {} at {}", released.by, stamp(released.at)));
            }
        }
    }
    if approvals.runs_at_once > 0 {
        pair("runs at a time", approvals.runs_at_once.to_string());
    }
    table
}
