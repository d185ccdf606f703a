//! Where the host's details come from: the run's message, or the pod itself where there is no queue. Neither is trusted to say
//! anything else than what was approved.

use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncWrite;

use super::log::Log;
use super::session::Session;
use super::{Failure, unless_stopped};
use crate::backend::amqp::{AmqpError, Broker, Delivery, Taken};
use crate::domain::{Announcement, ExitCode, Parameters};

/// How long a message that is only to be cleared away is waited for.
const CLEAR_LIMIT: Duration = Duration::from_secs(5);
/// What an attempt works on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Details {
    pub(super) announcement: Announcement,
    pub(super) parameters: Parameters,
}

/// The message, held until the end.
#[derive(Debug)]
pub(super) enum Letter {
    /// There is none, or it is settled.
    None,
    /// To be acknowledged or put back.
    Held(Broker, Box<Delivery>),
}

/// The details of this run, and the message that brought them.
pub(super) async fn get<W: AsyncWrite + Unpin>(
    session: &Session<'_>,
    log: &mut Log<W>,
) -> Result<(Details, Letter), Failure> {
    let unreadable = |reason: String| Failure::new(ExitCode::UnreadableMessage, reason);
    let Some(amqp) = &session.settings.environment.amqp else {
        let (announcement, parameters) = session.own.details().map_err(unreadable)?;
        let details = Details { announcement, parameters };
        details.check(session).map_err(unreadable)?;
        return Ok((details, Letter::None));
    };
    let broker = Broker::new(amqp).map_err(|e| Failure::new(ExitCode::Misconfigured, advised(&e)))?;
    log.say("waiting for the run's message").await;
    let limit = session.settings.provision.message_timeout;
    let taking = broker.take(&session.permit, &session.own.uid, limit);
    let delivery = match unless_stopped(session.shutdown, taking).await? {
        Ok(Taken::Delivery(delivery)) => delivery,
        Ok(Taken::Nothing) => {
            let text = format!("no message came within {} s: does the server run?", limit.as_secs());
            return Err(Failure::new(ExitCode::NoMessage, text));
        }
        Err(error) => return Err(Failure::new(ExitCode::BackEnd, advised(&error))),
    };
    match read(&delivery, session) {
        Ok(details) => {
            if delivery.redelivered() {
                log.say("the message was handed out before: an earlier pod of this run did not end it").await;
            }
            Ok((details, Letter::Held(broker, delivery)))
        }
        Err(reason) => {
            let buried = delivery.dead_letter(&reason).await;
            broker.close().await;
            match buried {
                Ok(_) => Err(unreadable(format!("{reason} (it is among the dead letters)"))),
                // The queue goes with the run: were this its end, the only copy would go too.
                Err(error) => {
                    let text = format!("{reason}; the message stays in its queue: {}", advised(&error));
                    Err(Failure::new(ExitCode::BackEnd, text))
                }
            }
        }
    }
}

/// Takes the message of a run that has ended off its queue.
pub(super) async fn clear<W: AsyncWrite + Unpin>(session: &Session<'_>, log: &mut Log<W>) {
    let Some(amqp) = &session.settings.environment.amqp else { return };
    let clearing = async {
        let broker = Broker::new(amqp)?;
        if let Taken::Delivery(delivery) = broker.take(&session.permit, &session.own.uid, CLEAR_LIMIT).await?
        {
            delivery.ack().await?;
        }
        broker.close().await;
        Ok::<_, AmqpError>(())
    };
    if let Ok(Err(error)) = unless_stopped(session.shutdown, clearing).await {
        // The queue goes with the run.
        log.say(format!("its message stays in the queue: {error}")).await;
    }
}

/// A broker's error with what to do about it.
pub(super) fn advised(error: &AmqpError) -> String {
    error.problem().to_string()
}

fn read(delivery: &Delivery, session: &Session<'_>) -> Result<Details, String> {
    let message = delivery.message().map_err(|error| error.to_string())?;
    if message.run != session.own.uid {
        return Err(format!("the message is of run {}, not of {}", message.run, session.own.uid));
    }
    let details = Details { announcement: message.announcement, parameters: message.parameters };
    details.check(session)?;
    Ok(details)
}

impl Details {
    /// Whoever may publish or make pods is not thereby allowed to approve: what is written on the Job is what was approved.
    fn check(&self, session: &Session<'_>) -> Result<(), String> {
        let approved = &session.run;
        if self.announcement.host != session.own.host || self.announcement.digest() != approved.run.digest {
            return Err("the announcement is not the one that was approved".to_owned());
        }
        if !approved.parameters.as_ref().is_some_and(|own| same(own, &self.parameters)) {
            return Err("the parameters are not those that were approved".to_owned());
        }
        self.parameters.check()
    }
}

fn same<T: Serialize>(one: &T, other: &T) -> bool {
    serde_json::to_value(one).ok() == serde_json::to_value(other).ok()
}
