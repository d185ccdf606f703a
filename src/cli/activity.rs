//! `activity`: what was done, by whom, on what.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};

use super::output::{Output, Table};
use super::{Context, Failure};
use crate::backend::kube::ActivityEvent;
use crate::config::parse_duration;
use crate::domain::activity::Activity;
use crate::domain::text::plain;
use crate::ops;
use crate::ops::OpError;

/// What is asked.
#[derive(Debug, Args)]
pub struct Command {
    /// Only what was done in this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,
    /// Go on, and print what is done from now on
    #[arg(short, long)]
    follow: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a number and a unit, such as 10m or 1h".to_owned())
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    let environment = &context.settings.environment;
    let since = command.since.map(|time| {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        Timestamp::now().checked_sub(time).unwrap_or(Timestamp::UNIX_EPOCH)
    });
    let known = ops::activity::list(&context.kube, environment, since).await?;
    for problem in &known.unseen {
        super::fail(&format!("what was done in namespace {} cannot be seen: {problem}", problem.subject));
    }
    if command.follow {
        let mut seen = HashSet::new();
        for activity in known.activities.iter().rev() {
            line(context.output, activity)?;
            seen.insert(activity.id.clone());
        }
        return follow(context, since, seen).await;
    }
    context.output.print(&known, |known| {
        let mut table = Table::new(&["WHEN", "WHO", "ACTION", "ON", "OUTCOME", "MORE"]);
        known.activities.iter().for_each(|activity| table.row(cells(activity)));
        table
    })?;
    if since.is_none_or(|since| since < known.since) {
        super::fail(&format!(
            "this goes back to {:.0}: the cluster forgets Events, as a rule after an hour",
            known.since
        ));
    }
    Ok(())
}

fn cells(activity: &Activity) -> [String; 6] {
    let Activity { at, who, action, on, outcome, text, .. } = activity;
    let at = format!("{at:.0}");
    [at, who.clone(), action.clone(), on.clone(), outcome.word().to_owned(), text.clone()]
}

/// One deed on a line of its own: as JSON where it is for programs.
fn line(output: Output, activity: &Activity) -> Result<(), Failure> {
    let text = match output {
        Output::Table => cells(activity).map(|cell| plain(&cell.replace('\n', " "))).join("  "),
        Output::Json => serde_json::to_string(activity).map_err(std::io::Error::other)?,
        Output::Yaml => {
            format!("---\n{}", serde_saphyr::to_string(activity).map_err(std::io::Error::other)?.trim_end())
        }
    };
    Ok(super::say(&text)?)
}

async fn follow(
    context: &Context<'_>,
    since: Option<Timestamp>,
    mut seen: HashSet<String>,
) -> Result<(), Failure> {
    let mut events = std::pin::pin!(ops::activity::watch(&context.kube, &context.settings.environment));
    while let Some(event) = events.next().await {
        match event {
            ActivityEvent::Seen(mut batch) => {
                batch.sort_by_key(|activity| activity.at);
                for activity in batch.into_iter().filter(|a| since.is_none_or(|since| a.at >= since)) {
                    if seen.insert(activity.id.clone()) {
                        line(context.output, &activity)?;
                    }
                }
            }
            ActivityEvent::Listed => {}
            ActivityEvent::Failed(error, delay) => {
                let failure = Failure::from(OpError::from(error));
                super::fail(&format!("{}; next try in {:.0} s", failure.text, delay.as_secs_f32()));
            }
        }
    }
    Ok(())
}
