//! The rows of the topics: fetched again and again while their screen is shown, and the changes of them.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::outside::Outside;
use crate::app::{Answer, Change, Fresh, Item, Msg, Topic};
use crate::domain::Problem;
use crate::domain::target::{CONFIGMAP_LIMIT, nearly_full};
use crate::ops::{self, targets};

/// How often rows are fetched at first, and at most how seldom while nothing changes.
const OFTEN: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(15);

/// Sends the rows of a topic now and from time to time, until nobody listens or it is aborted.
pub(crate) async fn look(outside: Outside, topic: Topic, tell: mpsc::Sender<Msg>) {
    let mut delay = OFTEN;
    let mut before = None;
    loop {
        let mut result = fetch(&outside, topic).await;
        if let Err(problem) = &mut result {
            problem.retry_at = Timestamp::now().checked_add(delay).ok();
        }
        let same = before.as_ref() == Some(&result);
        delay = if same { (delay * 2).min(SELDOM) } else { OFTEN };
        before = Some(result.clone());
        if !same && tell.send(Msg::Listed { topic, result }).await.is_err() {
            return;
        }
        tokio::time::sleep(delay).await;
    }
}

async fn fetch(outside: &Outside, topic: Topic) -> Result<Fresh, Problem> {
    let kube = outside.kube().await?;
    let environment = &outside.settings.environment;
    match topic {
        Topic::Targets => {
            let settings = &environment.targets;
            let listing =
                targets::look_with_runs(&kube, settings).await.map_err(|e| e.problem(&settings.name))?;
            let percent = listing.size * 100 / CONFIGMAP_LIMIT;
            let room = if percent == 0 { String::new() } else { format!(", {percent} % of a ConfigMap") };
            let note = format!("{}/{}{room}", settings.namespace, settings.name);
            let warning = nearly_full(listing.size);
            Ok(Fresh { items: listing.targets.into_iter().map(Item::Target).collect(), note, warning })
        }
        Topic::Activity => {
            let found = ops::activity::list(&kube, environment, None).await;
            let found = found.map_err(|e| e.problem("activity"))?;
            let unseen: Vec<_> = found.unseen.iter().map(|problem| problem.subject.clone()).collect();
            let since = found.since.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M");
            let mut note = format!("since {since}: the cluster forgets after an hour");
            if !unseen.is_empty() {
                note = format!("without {} (not readable); {note}", unseen.join(", "));
            }
            let items = found.activities.into_iter().map(Item::Activity).collect();
            Ok(Fresh { items, note, warning: !unseen.is_empty() })
        }
    }
}

/// Changes something that is listed.
pub(crate) async fn change(outside: &Outside, change: Change) -> Result<Answer, Problem> {
    let subject = change.doing();
    let permit = outside.permit(&subject)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, &subject).await?;
    let settings = &outside.settings.environment.targets;
    let failed = |error: ops::OpError| error.problem(&settings.name);
    match change {
        Change::AddTarget(new) => {
            let address = new.address.clone();
            let done = targets::add(&kube, &permit, settings, &[new], &by).await.map_err(failed)?;
            let word = if done.changed == 0 { "is there already" } else { "is scraped from now on" };
            Ok(Answer::Done(format!("{address} {word}")))
        }
        Change::RemoveTargets(addresses) => {
            let done = targets::remove(&kube, &permit, settings, &addresses, &by).await.map_err(failed)?;
            Ok(Answer::Done(counted("removed", done.changed, &done.absent)))
        }
        Change::LabelTargets(addresses, labels) => {
            let done =
                targets::label(&kube, &permit, settings, &addresses, &labels, &by).await.map_err(failed)?;
            Ok(Answer::Done(counted("labelled", done.changed, &done.absent)))
        }
    }
}

fn counted(word: &str, changed: usize, absent: &[String]) -> String {
    let gone =
        if absent.is_empty() { String::new() } else { format!("; gone before: {}", absent.join(", ")) };
    match changed {
        1 => format!("{word} 1 target{gone}"),
        n => format!("{word} {n} targets{gone}"),
    }
}
