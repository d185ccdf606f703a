//! The rows of the topics: fetched again and again while their screen is shown, and the changes of them.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::outside::Outside;
use crate::app::{Answer, Change, Fetch, Fresh, Item, Msg, Topic};
use crate::domain::target::{CONFIGMAP_LIMIT, nearly_full};
use crate::domain::{Problem, ProblemKind};
use crate::ops::tokens::NewToken;
use crate::ops::{self, targets};

/// How often rows are fetched at first, and at most how seldom while nothing changes.
const OFTEN: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(15);

/// Sends the rows of a topic now and from time to time, until nobody listens or it is aborted.
pub(crate) async fn look(outside: Outside, topic: Topic, tell: mpsc::Sender<Msg>) {
    // Each look at the dead letters hands them out once, which brokers count.
    let often = if topic == Topic::Queue { SELDOM } else { OFTEN };
    let mut delay = often;
    let mut before = None;
    loop {
        let mut result = fetch(&outside, topic).await;
        let same = before.as_ref() == Some(&result);
        delay = if same { (delay * 2).min(SELDOM) } else { often };
        before = Some(result.clone());
        if let Err(problem) = &mut result {
            // What is forbidden stays so for a while.
            delay = if problem.kind == ProblemKind::Forbidden { SELDOM } else { delay };
            problem.retry_at = Timestamp::now().checked_add(delay).ok();
        }
        // A problem is told again each time: it says when the next try is.
        if (!same || result.is_err()) && tell.send(Msg::Listed { topic, result }).await.is_err() {
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
            Ok(Fresh {
                items: listing.targets.into_iter().map(Item::Target).collect(),
                note,
                warning,
                since: None,
            })
        }
        Topic::Tokens => {
            let tokens = ops::tokens::list(&kube).await.map_err(|e| e.problem("tokens"))?;
            let clock = ops::tokens::clock_warning(&kube).await;
            let (note, warning) =
                (clock.clone().unwrap_or_else(|| "kube-system".to_owned()), clock.is_some());
            Ok(Fresh { items: tokens.into_iter().map(Item::Token).collect(), note, warning, since: None })
        }
        Topic::Queue => {
            let queues = ops::queue::list(&kube, outside.broker()?).await.map_err(|e| e.problem("queue"))?;
            let (dead, more) = (queues.dead.letters.len(), queues.dead.more);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let many = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
            let note = format!("{}, {}{more}", many(queues.runs.len(), "queue"), many(dead, "dead letter"));
            let letters = queues.dead.letters.into_iter().map(Item::Letter);
            let items = letters.chain(queues.runs.into_iter().map(Item::Queue)).collect();
            Ok(Fresh { items, note, warning: dead > 0, since: None })
        }
        Topic::Activity => {
            let found = ops::activity::list(&kube, environment, None).await;
            let found = found.map_err(|e| e.problem("activity"))?;
            let unseen: Vec<_> = found.unseen.iter().map(|problem| problem.subject.clone()).collect();
            let mut note = "the cluster forgets after an hour".to_owned();
            if !unseen.is_empty() {
                note = format!("without {} (not readable); {note}", unseen.join(", "));
            }
            let items = found.activities.into_iter().map(Item::Activity).collect();
            Ok(Fresh { items, note, warning: !unseen.is_empty(), since: Some(found.since) })
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
        Change::MintToken { lifetime, groups, description } => {
            let signer = outside.settings.provision.signer;
            let new =
                NewToken { groups, ..NewToken::for_node(Duration::from_secs(lifetime), description, signer) };
            let minted = Box::pin(ops::tokens::mint(&kube, &permit, &new, &by)).await;
            let minted = minted.map_err(|e| e.problem("token"))?;
            let id = minted.token.id();
            // Without a join command there is the token at least: its secret part is shown nowhere else.
            Ok(match ops::tokens::join_command(&kube, &minted.token).await {
                Ok(text) => Answer::Text { title: format!("Token {id}: join command"), text },
                Err(error) => Answer::Text {
                    title: format!("Token {id} (no join command: {error})"),
                    text: minted.token.reveal(),
                },
            })
        }
        Change::RevokeToken(token) => {
            ops::tokens::delete(&kube, &permit, &token, &by).await.map_err(|e| e.problem(&token.id))?;
            Ok(Answer::Done(format!("revoked token {}", token.id)))
        }
        Change::Requeue(id, _) => {
            let run = Box::pin(ops::queue::requeue(&kube, &permit, outside.broker()?, &id, &by)).await;
            let run = run.map_err(|e| e.problem(&id))?;
            Ok(Answer::Done(format!("{} has its message again", run.name)))
        }
        Change::DropLetter(id, _) => {
            let dropped =
                Box::pin(ops::queue::drop_letter(&kube, &permit, outside.broker()?, &id, &by)).await;
            dropped.map_err(|e| e.problem(&id))?;
            Ok(Answer::Done(format!("letter {id} is thrown away")))
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

/// Fetches something to be read.
pub(crate) async fn read(outside: &Outside, what: Fetch) -> Result<Answer, Problem> {
    let kube = outside.kube().await?;
    match what {
        Fetch::JoinCommand(id) => {
            let token = ops::tokens::reveal(&kube, &id).await.map_err(|e| e.problem(&id))?;
            let text = ops::tokens::join_command(&kube, &token).await.map_err(|e| e.problem(&id))?;
            Ok(Answer::Text { title: format!("Token {id}: join command"), text })
        }
        Fetch::Cluster => Ok(Answer::Cluster(Box::new(ops::cluster::look(&kube).await))),
        Fetch::Yaml(run) => {
            let text = ops::runs::yaml(&kube, &run.name).await.map_err(|e| e.problem(&run.name))?;
            Ok(Answer::Text { title: run.name, text })
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
