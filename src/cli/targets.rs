//! `targets list|add|remove|label`.

use clap::Subcommand;
use serde::Serialize;

use super::output::Table;
use super::{Context, Failure};
use crate::domain::target::{CONFIGMAP_LIMIT, NewTarget, Target, address, label, label_change};
use crate::ops;
use crate::ops::targets::Change;

/// What is done with scrape targets.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the targets with their labels, and the host and run that they are from
    List,
    /// Add hosts, or host:port pairs
    Add {
        /// The hosts or addresses; without a port the environment's is used
        #[arg(required = true)]
        targets: Vec<String>,
        /// A label for each of them; may be repeated
        #[arg(long = "label", value_name = "NAME=VALUE")]
        labels: Vec<String>,
    },
    /// Remove hosts, or host:port pairs
    Remove {
        /// The hosts or addresses; without a port the environment's is used
        #[arg(required = true)]
        targets: Vec<String>,
    },
    /// Change the labels of a target: NAME=VALUE sets one, NAME- takes it away
    Label {
        /// The host or address; without a port the environment's is used
        target: String,
        /// What is changed
        #[arg(required = true, value_name = "CHANGE")]
        changes: Vec<String>,
    },
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    let settings = &context.settings.environment.targets;
    let pair = |text: &str| address(text, settings.port).map_err(|e| Failure::usage(e.to_string()));
    let kube = &context.kube;
    match command {
        Command::List => list(context).await,
        Command::Add { targets, labels } => {
            let labels = labels.iter().map(|text| label(text)).collect::<Result<_, _>>();
            let labels: std::collections::BTreeMap<_, _> =
                labels.map_err(|e| Failure::usage(e.to_string()))?;
            let new = targets.iter().map(|text| Ok(NewTarget::given(pair(text)?, labels.clone())));
            let new: Vec<NewTarget> = new.collect::<Result<_, Failure>>()?;
            let (permit, by) = (context.permit()?, context.operator().await?);
            said(context, &ops::targets::add(kube, &permit, settings, &new, &by).await?, "added")
        }
        Command::Remove { targets } => {
            let addresses: Vec<_> = targets.iter().map(|t| pair(t)).collect::<Result<_, _>>()?;
            let (permit, by) = (context.permit()?, context.operator().await?);
            said(context, &ops::targets::remove(kube, &permit, settings, &addresses, &by).await?, "removed")
        }
        Command::Label { target, changes } => {
            let changes = changes.iter().map(|text| label_change(text)).collect::<Result<_, _>>();
            let changes = changes.map_err(|e| Failure::usage(e.to_string()))?;
            let addresses = [pair(&target)?];
            let (permit, by) = (context.permit()?, context.operator().await?);
            said(
                context,
                &ops::targets::label(kube, &permit, settings, &addresses, &changes, &by).await?,
                "labelled",
            )
        }
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let listing = ops::targets::look_with_runs(&context.kube, &context.settings.environment.targets).await?;
    context.output.print(&listing.targets, |targets| {
        let mut table = Table::new(&["TARGET", "HOST", "RUN", "LABELS"]);
        for target in targets {
            table.row(row(target));
        }
        table
    })?;
    warn_if_full(listing.size);
    Ok(())
}

fn row(target: &Target) -> [String; 4] {
    if let Some(unknown) = &target.unknown {
        let empty = String::new;
        return [
            "(unknown form)".to_owned(),
            empty(),
            empty(),
            format!("{}: {}", unknown.reason, unknown.text),
        ];
    }
    let labels: Vec<String> = target.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let run = target.run.clone().map(|run| if target.guessed { format!("{run}?") } else { run });
    [
        target.address.clone(),
        target.host.clone().unwrap_or_default(),
        run.unwrap_or_default(),
        labels.join(" "),
    ]
}

/// A change, for programs.
#[derive(Serialize)]
struct Changed<'a> {
    changed: usize,
    absent: &'a [String],
    size: usize,
}

fn said(context: &Context<'_>, change: &Change, word: &str) -> Result<(), Failure> {
    let done = Changed { changed: change.changed, absent: &change.absent, size: change.size };
    context.output.print(&done, |done| {
        let mut table = Table::pairs();
        table.row([format!("{} {word}", done.changed)]);
        table
    })?;
    warn_if_full(change.size);
    if change.absent.is_empty() {
        return Ok(());
    }
    Err(Failure { text: format!("no such target: {}", change.absent.join(", ")), code: 3 })
}

fn warn_if_full(size: usize) {
    if crate::domain::target::nearly_full(size) {
        super::fail(&format!("the ConfigMap holds {size} of {CONFIGMAP_LIMIT} bytes: split it soon"));
    }
}
