//! The queues of runs, and the dead letters: looked at, put back, thrown away.

use std::time::Duration;

use futures_util::StreamExt;

use super::OpError;
use super::activity::recorded;
use crate::backend::amqp::{AmqpError, Broker, HeldLetters};
use crate::backend::kube::{About, Kube};
use crate::config::{Environment, Permit};
use crate::domain::Run;
use crate::domain::activity::Deed;
use crate::domain::queue::{DeadLetter, Queues, RunQueue};

/// Queues that are asked for at the same time.
const AT_ONCE: usize = 8;
/// Somebody else may hold the letters to look at them, for some milliseconds.
const LOOKS: usize = 4;
const BETWEEN: Duration = Duration::from_millis(250);

/// The environment's broker.
///
/// # Errors
/// When it has none, or its URL cannot be used.
pub fn broker(environment: &Environment) -> Result<Broker, OpError> {
    let Some(settings) = &environment.amqp else {
        let name = &environment.name;
        return Err(OpError::Missing(format!("environment {name} has no amqp: its runs have no queues")));
    };
    Ok(Broker::new(settings)?)
}

/// The queues of all runs that go on, or whose queue is still to be deleted, and the dead letters.
///
/// # Errors
/// When the API server or the broker does not answer or refuses.
pub async fn list(kube: &Kube, broker: &Broker) -> Result<Queues, OpError> {
    let mut runs = kube.runs(None).await?;
    runs.retain(|run| run.queue || run.undelivered());
    let runs = of_runs(broker, &runs).await?;
    Ok(Queues { runs, dead: broker.dead_letters().await? })
}

/// The queues of these runs, in their order.
///
/// # Errors
/// When the broker does not answer or refuses.
pub async fn of_runs(broker: &Broker, runs: &[Run]) -> Result<Vec<RunQueue>, OpError> {
    let looks = futures_util::stream::iter(runs.to_vec()).map(|run| async move {
        let state = broker.queue_state(&run.uid).await?;
        let queue = Broker::queue_of(&run.uid);
        let Run { uid, name, host, phase, delivered, .. } = run;
        Ok::<_, AmqpError>(RunQueue { uid, run: name, host, phase, queue, delivered, state })
    });
    let looked: Vec<Result<RunQueue, AmqpError>> = looks.buffered(AT_ONCE).collect().await;
    Ok(looked.into_iter().collect::<Result<_, _>>()?)
}

/// Puts a dead letter back on its run's queue, at least once. Returns the run.
///
/// # Errors
/// When there is no such letter, it cannot be read, its run is gone or over, or a back end does not answer.
pub async fn requeue(
    kube: &Kube,
    permit: &Permit,
    broker: &Broker,
    id: &str,
    by: &str,
) -> Result<Run, OpError> {
    let (held, letter) = hold(broker, id).await?;
    let (run, about) =
        run_of(kube, &letter).await.inspect_err(|error| failed(kube, Deed::Requeue, id, by, error))?;
    let work = async {
        let fit = fit(&letter, run);
        match fit {
            Ok(run) => {
                held.requeue(permit, &letter.id, &run.uid).await?;
                Ok(run)
            }
            Err(error) => {
                held.release().await;
                Err(error)
            }
        }
    };
    let note = |_: &Run| {
        Some(format!(
            "dead letter {id} put back on its queue by {by}; it was there because {}",
            letter.reason
        ))
    };
    recorded(kube, permit, (Deed::Requeue, &about, by), work, note).await
}

/// Throws a dead letter away. Returns what it was.
///
/// # Errors
/// When there is no such letter, or a back end does not answer.
pub async fn drop_letter(
    kube: &Kube,
    permit: &Permit,
    broker: &Broker,
    id: &str,
    by: &str,
) -> Result<DeadLetter, OpError> {
    let (held, letter) = hold(broker, id).await?;
    // Which run it was for is worth knowing, but nothing hangs on it.
    let about = run_of(kube, &letter).await.map_or_else(|_| other(id), |(_, about)| about);
    let note = |letter: &DeadLetter| {
        Some(format!("dead letter {id} thrown away by {by}; it was there because {}", letter.reason))
    };
    let work = async {
        held.drop_letter(permit, &letter.id).await?;
        Ok(letter)
    };
    recorded(kube, permit, (Deed::Drop, &about, by), work, note).await
}

fn failed(kube: &Kube, deed: Deed, id: &str, by: &str, error: &OpError) {
    super::activity::failed(kube, deed, &other(id).words(), by, error);
}

fn other(id: &str) -> About {
    About::Other(format!("dead letter {id}"))
}

/// Holds the letters with this one among them.
async fn hold(broker: &Broker, id: &str) -> Result<(HeldLetters, DeadLetter), OpError> {
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        let held = broker.hold_letters().await?;
        let letters = &held.letters().letters;
        let letter =
            letters.iter().find(|letter| letter.id == id).or_else(|| letters.iter().find(|l| l.was(id)));
        let letter = letter.cloned();
        match letter {
            Some(letter) => return Ok((held, letter)),
            None => held.release().await,
        }
    }
    Err(OpError::NotFound(format!("dead letter {id}")))
}

/// The run that a letter is for, if it is still there, and what an Event of it is about.
async fn run_of(kube: &Kube, letter: &DeadLetter) -> Result<(Option<Run>, About), OpError> {
    let run = kube.runs(None).await?.into_iter().find(|run| letter.run.as_ref() == Some(&run.uid));
    let about = run.as_ref().map_or_else(|| other(&letter.id), About::from);
    Ok((run, about))
}

/// The run, provided that the letter is of use to it.
fn fit(letter: &DeadLetter, run: Option<Run>) -> Result<Run, OpError> {
    let id = &letter.id;
    if !letter.readable {
        let text =
            format!("cannot requeue dead letter {id}: it cannot be read, and would only come back: drop it");
        return Err(OpError::Invalid(text));
    }
    let Some(run) = run else {
        let name = letter.name.clone().or_else(|| letter.run.clone()).unwrap_or_default();
        return Err(OpError::NotFound(format!(
            "run {name} any more: nobody waits for dead letter {id}: drop it"
        )));
    };
    if run.is_over() {
        return Err(OpError::Phase { deed: "requeue the dead letter of", run: run.name, phase: run.phase });
    }
    Ok(run)
}
