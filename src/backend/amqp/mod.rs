//! RabbitMQ: the way of a run's message from the server to `provision`.
//!
//! The server publishes with [`Broker::publish`], `provision` takes with [`Broker::take`] and settles the [`Delivery`] last.
//! Delivery is at least once: whoever takes a message knows its run by the UID, which is the message id as well.
//!
//! A [`Broker`] is a cheap handle. Two owner tasks stand behind it, one a connection: publishing has a connection of its own,
//! because RabbitMQ stops reading from one that publishes while an alarm is on, and an acknowledgement would be stuck in it.
//! Nothing here decides what a message means, and the URL's password never leaves this module.

mod address;
mod connect;
mod delivery;
mod error;
mod letters;
mod link;
mod pulse;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Consumer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::config::{Amqp, Permit};
pub use crate::domain::queue::QueueState;
use crate::domain::{Health, Message};

use address::Address;
pub use delivery::{Delivery, Settled};
pub use error::AmqpError;
pub use letters::HeldLetters;
use link::{Link, Open};
use pulse::{Lane, Pulse};
use topology::Names;

/// How long a publication may take in all: a named error comes before ten seconds are over.
const PUBLISH_LIMIT: Duration = Duration::from_secs(9);
/// How long a request may take that only declares, deletes or asks.
const REQUEST_LIMIT: Duration = Duration::from_secs(9);
/// The longest pause before something is done again on the next connection.
const SHORT: Duration = Duration::from_millis(200);
/// What a message is, for those who look at it with other tools.
const CONTENT_TYPE: &str = "application/json";
/// Survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// The most characters of a reason that travel with a dead letter.
const REASON_LIMIT: usize = 1000;
/// The header of a dead letter that says why.
pub const REASON_HEADER: &str = "x-hostwright-reason";

/// The broker: a cheap handle. It connects when it is first used, and again by itself from then on.
#[derive(Clone)]
pub struct Broker(Arc<Inner>);

struct Inner {
    names: Names,
    address: Arc<Address>,
    publishing: Link,
    consuming: Link,
    pulse: Arc<Pulse>,
}

/// What [`Broker::take`] came back with.
#[derive(Debug)]
pub enum Taken {
    /// The run's message.
    Delivery(Box<Delivery>),
    /// The broker was there, the message was not, until the time was over.
    Nothing,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("at", &self.0.address.name).finish_non_exhaustive()
    }
}

impl Broker {
    /// A handle made from settings. Nothing is connected yet.
    ///
    /// # Errors
    /// When the URL is none that can be connected to.
    pub fn new(settings: &Amqp) -> Result<Self, AmqpError> {
        let address = Arc::new(Address::parse(&settings.url)?);
        let pulse = Arc::new(Pulse::default());
        Ok(Self(Arc::new(Inner {
            names: Names::new(settings),
            publishing: Link::new(address.clone(), Lane::Publishing, pulse.clone()),
            consuming: Link::new(address.clone(), Lane::Consuming, pulse.clone()),
            address,
            pulse,
        })))
    }

    /// What is known of the broker; `Unknown` until something was asked of it.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.0.pulse.subscribe()
    }

    /// Connects now, and keeps connected, so that [`health`](Self::health) says something before the first message.
    ///
    /// # Errors
    /// Those of the first try; further ones are made all the same.
    pub async fn connect(&self) -> Result<(), AmqpError> {
        self.0.consuming.open().await.map(drop)
    }

    /// Publishes a run's message and waits until the broker has it on disk. Returns within ten seconds.
    ///
    /// Publishing twice is allowed: a message that still waits is not doubled, and one that a pod holds meanwhile is thrown
    /// away with the acknowledgement of the first.
    ///
    /// # Errors
    /// Named for what happened; then the message may or may not be with the broker, and publishing is to be tried again.
    pub async fn publish(&self, _: &Permit, message: &Message) -> Result<(), AmqpError> {
        let doing = format!("publish the message of run {}", message.run);
        let body = message.to_bytes()?;
        self.bounded(PUBLISH_LIMIT, &doing, || self.publish_once(&doing, &message.run, &body)).await
    }

    /// Waits up to `limit` for the run's message. The queue is declared here as well: the pod may come first.
    ///
    /// A broker that goes away while we wait is waited for; the time goes on.
    ///
    /// # Errors
    /// When the broker refuses something, or is not there when the time is over.
    pub async fn take(&self, _: &Permit, run: &str, limit: Duration) -> Result<Taken, AmqpError> {
        let deadline = Instant::now() + limit;
        let mut trouble = None;
        loop {
            match timeout_at(deadline, self.take_once(run, &mut trouble)).await {
                Ok(Ok(delivery)) => return Ok(Taken::Delivery(Box::new(delivery))),
                Ok(Err(error)) if error.may_pass() => trouble = Some(error),
                Ok(Err(error)) => return Err(error),
                Err(_) => return trouble.map_or(Ok(Taken::Nothing), Err),
            }
            let pause = Duration::from_millis(500) + link::jitter(Duration::from_secs(1));
            sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Deletes a run's queue, with what is in it. One that is not there is fine.
    ///
    /// # Errors
    /// Named for what happened.
    pub async fn delete_queue(&self, _: &Permit, run: &str) -> Result<(), AmqpError> {
        let doing = format!("delete the queue of run {run}");
        self.bounded(REQUEST_LIMIT, &doing, || async {
            let (_, channel) = self.0.consuming.channel(&doing).await?;
            let gone = channel.queue_delete(topology::queue(run).into(), QueueDeleteOptions::default()).await;
            match gone.map_err(|e| self.error(&doing, &e)) {
                Ok(_) | Err(AmqpError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// What is in a run's queue; none when there is no such queue.
    ///
    /// # Errors
    /// Named for what happened.
    pub async fn queue_state(&self, run: &str) -> Result<Option<QueueState>, AmqpError> {
        let doing = format!("look at the queue of run {run}");
        self.bounded(REQUEST_LIMIT, &doing, || async {
            let (_, channel) = self.0.consuming.channel(&doing).await?;
            match topology::look(&channel, run).await.map_err(|e| self.error(&doing, &e)) {
                Ok(queue) => Ok(Some(QueueState {
                    messages: queue.message_count(),
                    consumers: queue.consumer_count(),
                })),
                Err(AmqpError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// The name of a run's queue.
    #[must_use]
    pub fn queue_of(run: &str) -> String {
        topology::queue(run)
    }

    /// Says good-bye to the broker. What comes after connects again.
    pub async fn close(&self) {
        tokio::join!(self.0.publishing.close(), self.0.consuming.close());
    }

    async fn publish_once(&self, doing: &str, run: &str, body: &[u8]) -> Result<(), AmqpError> {
        let (open, channel) = self.0.publishing.channel(doing).await?;
        let declare = self.0.names.declare_run(&channel, run);
        let queue = open.unless_blocked(declare).await?.map_err(|e| self.error(doing, &e))?;
        // What waits there is committed by the queue's quorum already: it was published before we died or lost the answer.
        if queue.message_count() > 0 {
            tracing::debug!(run, "the message waits in its queue already");
            return Ok(());
        }
        self.send(doing, &open, &channel, (&self.0.names.exchange, run), body, run_properties(run)).await
    }

    /// Publishes mandatorily to (exchange, routing key) and waits for the confirmation.
    async fn send(
        &self,
        doing: &str,
        open: &Open,
        channel: &Channel,
        (exchange, key): (&str, &str),
        body: &[u8],
        properties: BasicProperties,
    ) -> Result<(), AmqpError> {
        let sending = async {
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            let options = BasicPublishOptions { mandatory: true, immediate: false };
            channel.basic_publish(exchange.into(), key.into(), options, body, properties).await?.await
        };
        match open.unless_blocked(sending).await?.map_err(|e| self.error(doing, &e))? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => {
                Err(AmqpError::Unroutable { exchange: exchange.to_owned(), key: key.to_owned() })
            }
            Confirmation::Nack(None) | Confirmation::NotRequested => {
                Err(AmqpError::Nack { doing: doing.to_owned() })
            }
        }
    }

    async fn take_once(&self, run: &str, trouble: &mut Option<AmqpError>) -> Result<Delivery, AmqpError> {
        let doing = format!("take the message of run {run}");
        let (channel, mut consumer) =
            self.bounded(REQUEST_LIMIT, &doing, || self.consume(&doing, run)).await?;
        *trouble = None;
        match consumer.next().await {
            Some(Ok(message)) => {
                // Cancelled before the acknowledgement, so that it does not call for a double of the message.
                drop(consumer);
                Ok(Delivery::new(self.clone(), run.to_owned(), channel, message))
            }
            Some(Err(error)) => Err(self.error(&doing, &error)),
            None => Err(self.lost(&doing, "the queue was deleted meanwhile")),
        }
    }

    async fn consume(&self, doing: &str, run: &str) -> Result<(Channel, Consumer), AmqpError> {
        let (_, channel) = self.0.consuming.channel(doing).await?;
        let consuming = async {
            let queue = self.0.names.declare_run(&channel, run).await?;
            channel.basic_qos(1, BasicQosOptions::default()).await?;
            let options = BasicConsumeOptions::default();
            channel.basic_consume(queue.name().clone(), "".into(), options, FieldTable::default()).await
        };
        let consumer = consuming.await.map_err(|e| self.error(doing, &e))?;
        Ok((channel, consumer))
    }

    /// Puts a copy of a message among the dead letters, with the reason.
    async fn bury(&self, run: &str, id: Option<&str>, body: &[u8], reason: &str) -> Result<(), AmqpError> {
        let doing = format!("dead-letter the message of run {run}");
        let mut headers = FieldTable::default();
        let reason: String = reason.chars().take(REASON_LIMIT).collect();
        headers.insert(REASON_HEADER.into(), AMQPValue::LongString(reason.into()));
        let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
        let properties = run_properties(id.unwrap_or_default()).with_headers(headers).with_timestamp(now);
        self.bounded(PUBLISH_LIMIT, &doing, || async {
            let properties = properties.clone();
            let (open, channel) = self.0.publishing.channel(&doing).await?;
            let declare = self.0.names.declare_dead_letters(&channel);
            open.unless_blocked(declare).await?.map_err(|e| self.error(&doing, &e))?;
            self.send(&doing, &open, &channel, (&self.0.names.dead_letter, run), body, properties).await
        })
        .await
    }

    /// Does something that may be repeated, within a time limit. A connection that breaks in the middle, which is often one that
    /// was broken before, is no reason to give up before the time is over.
    async fn bounded<T, F>(&self, limit: Duration, doing: &str, work: impl Fn() -> F) -> Result<T, AmqpError>
    where
        F: Future<Output = Result<T, AmqpError>>,
    {
        let until_sure = async {
            loop {
                match work().await {
                    Err(AmqpError::Lost { .. }) => sleep(link::jitter(SHORT)).await,
                    sure => return sure,
                }
            }
        };
        timeout(limit, until_sure).await.unwrap_or_else(|_| Err(self.late(limit, doing)))
    }

    fn late(&self, limit: Duration, doing: &str) -> AmqpError {
        AmqpError::TimedOut {
            broker: self.0.address.name.clone(),
            doing: doing.to_owned(),
            seconds: limit.as_secs(),
        }
    }

    fn error(&self, doing: &str, error: &lapin::Error) -> AmqpError {
        AmqpError::of(&self.0.address.name, doing, error)
    }

    fn lost(&self, doing: &str, reason: &str) -> AmqpError {
        AmqpError::Lost {
            broker: self.0.address.name.clone(),
            doing: doing.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

fn run_properties(id: &str) -> BasicProperties {
    BasicProperties::default()
        .with_message_id(id.into())
        .with_content_type(CONTENT_TYPE.into())
        .with_delivery_mode(PERSISTENT)
        .with_app_id("hostwright".into())
}
