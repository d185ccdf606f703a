//! Delivery: an approved host's details go to the broker, and the run is marked.
//!
//! At least once: a process that is killed between publishing and marking publishes again; the other side knows the run by its
//! UID.

use jiff::Timestamp;

use super::OpError;
use super::decide::current;
use crate::backend::amqp::Broker;
use crate::backend::kube::{About, Kube, KubeErrorKind};
use crate::config::Permit;
use crate::domain::activity::Deed;
use crate::domain::text::plain;
use crate::domain::{Message, Run};

/// Publishes an approved run's message and marks the run delivered. Without a broker there is nothing to publish: the details
/// ride in the Job.
///
/// # Errors
/// When the broker does not confirm, or the API server does not answer; the run stays undelivered.
pub async fn deliver(
    kube: &Kube,
    permit: &Permit,
    broker: Option<&Broker>,
    run: &Run,
) -> Result<(), OpError> {
    let details = match current(kube, &run.name, &run.uid).await {
        Err(OpError::NotFound(_)) => return Ok(()),
        other => other?,
    };
    if !details.run.undelivered() {
        return Ok(());
    }
    if let (Some(broker), Some(parameters)) = (broker, details.parameters) {
        let message = Message::new(run.uid.clone(), run.name.clone(), details.announcement, parameters);
        broker.publish(permit, &message).await?;
        tracing::info!(run = run.name, "delivered");
    }
    match kube.set_delivered(permit, &details.run, Timestamp::now()).await {
        Err(error) if error.kind != KubeErrorKind::NotFound => Err(error.into()),
        Err(_) => Ok(()),
        Ok(_) => {
            let note = format!("the message of {} is in its queue", run.host);
            Box::pin(kube.report(permit, &About::from(run), Deed::Deliver, &note, "server")).await;
            Ok(())
        }
    }
}

/// The longest note: what a broker says of itself may be longer.
const LONGEST: usize = 400;

/// Writes on an approved run why its message is not with the broker, for whoever wonders why it stays queued. Whether that is
/// written already is told by the run, which must be as the watch last told it.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn note_problem(kube: &Kube, permit: &Permit, run: &Run, problem: &str) -> Result<bool, OpError> {
    let problem: String = plain(problem).chars().take(LONGEST).collect();
    if !run.undelivered() || run.reason == problem {
        return Ok(false);
    }
    match kube.set_delivery_problem(permit, run, &problem).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind == KubeErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Deletes the queue of a run that is over, and lets the Job go.
///
/// # Errors
/// When the broker or the API server does not answer; the Job keeps its finalizer.
pub async fn clean_up(
    kube: &Kube,
    permit: &Permit,
    broker: Option<&Broker>,
    run: &Run,
) -> Result<(), OpError> {
    if let Some(broker) = broker {
        broker.delete_queue(permit, &run.uid).await?;
    }
    kube.release_run(permit, &run.name, &run.uid).await?;
    Ok(())
}
