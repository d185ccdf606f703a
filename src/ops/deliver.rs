//! Delivery: an approved host's details go to the broker, and the run is marked.
//!
//! At least once: a process that is killed between publishing and marking publishes again; the other side knows the run by its
//! UID.

use jiff::Timestamp;

use super::OpError;
use super::decide::current;
use crate::backend::amqp::Broker;
use crate::backend::kube::{Kube, KubeErrorKind};
use crate::config::Permit;
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
        _ => Ok(()),
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
