//! A message that was taken, and how it is settled in the end.
//!
//! A run takes longer than the broker waits for an acknowledgement (30 minutes), and than a connection may live. So a
//! delivery does not stop when its channel does: to settle it, the message is taken again, compared, and settled then.

use std::time::Duration;

use lapin::message::Delivery as Raw;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions, QueuePurgeOptions};
use lapin::{Channel, ChannelState, ErrorKind};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{AmqpError, Broker, link, topology};
use crate::domain::{Message, MessageError};

/// How long settling on the channel that the message came by may take; with a dead peer nothing comes back.
const ROUND_TRIP_LIMIT: Duration = Duration::from_secs(3);
/// How long a message may take to come back to its queue when the broker itself closed the channel.
const RETURN_LIMIT: Duration = Duration::from_secs(10);
/// The broker's own heartbeat, in seconds, when we have none to go by.
const BROKERS_HEARTBEAT: u16 = 60;

/// A message that was taken and not yet settled. Dropped, it goes back to its queue.
pub struct Delivery {
    broker: Broker,
    run: String,
    channel: Channel,
    raw: Raw,
}

/// How a message was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// At once.
    AtOnce,
    /// Its channel was gone, so it was taken again first.
    TakenAgain,
    /// Its channel was gone, and so was the message: somebody else took it meanwhile, or deleted its queue.
    Gone,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("run", &self.run)
            .field("id", &self.id())
            .field("bytes", &self.raw.data.len())
            .field("redelivered", &self.raw.redelivered)
            .finish_non_exhaustive()
    }
}

impl Delivery {
    pub(super) fn new(broker: Broker, run: String, channel: Channel, raw: Raw) -> Self {
        Self { broker, run, channel, raw }
    }

    /// The bytes as they came.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.raw.data
    }

    /// The message, read from the bytes. Whether it is this run's is for the caller to compare.
    ///
    /// # Errors
    /// When it cannot be read: it is to be dead-lettered then, never put back.
    pub fn message(&self) -> Result<Message, MessageError> {
        Message::parse(&self.raw.data)
    }

    /// The message id: the run's UID, when we published it.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        id(&self.raw)
    }

    /// True when it was handed out before: to an earlier pod, or before a connection broke.
    #[must_use]
    pub fn redelivered(&self) -> bool {
        self.raw.redelivered
    }

    /// The run is over: takes the message off its queue for good, with any double of it.
    ///
    /// Ends within three heartbeats and ten seconds, however the connection is.
    ///
    /// # Errors
    /// When the broker is not there, or refuses something. The message stays then, or comes back.
    pub async fn ack(self) -> Result<Settled, AmqpError> {
        let doing = format!("acknowledge the message of run {}", self.run);
        self.settle(&doing, true).await
    }

    /// Puts the message back for the next pod. Where its channel is gone it is back already.
    ///
    /// # Errors
    /// When the broker does not confirm within three seconds; it puts the message back by itself then, once it notices that
    /// we are gone.
    pub async fn requeue(self) -> Result<(), AmqpError> {
        let doing = format!("put the message of run {} back", self.run);
        let work = async {
            let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
            if !self.raw.acker.nack(options).await.unwrap_or(false) {
                return Ok(());
            }
            match topology::look(&self.channel, &self.run).await.map_err(|e| self.broker.error(&doing, &e)) {
                // With the channel the delivery ended, and the message went back.
                Ok(_) | Err(AmqpError::Lost { .. } | AmqpError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        timeout(ROUND_TRIP_LIMIT, work)
            .await
            .unwrap_or_else(|_| Err(self.broker.late(ROUND_TRIP_LIMIT, &doing)))
    }

    /// Puts a copy among the dead letters, with the reason in header `x-hostwright-reason`, and takes the message off its
    /// queue.
    ///
    /// # Errors
    /// When the copy could not be published: the message stays then, or comes back.
    pub async fn dead_letter(self, reason: &str) -> Result<Settled, AmqpError> {
        let doing = format!("dead-letter the message of run {}", self.run);
        self.broker.bury(&self.run, self.id(), &self.raw.data, reason).await?;
        self.settle(&doing, false).await
    }

    async fn settle(&self, doing: &str, doubles: bool) -> Result<Settled, AmqpError> {
        let old = timeout(ROUND_TRIP_LIMIT, self.settle_on(&self.channel, &self.raw, doubles)).await;
        let patience = match old {
            Ok(Ok(())) => return Ok(Settled::AtOnce),
            Ok(Err(error)) => {
                tracing::debug!(%error, run = self.run, "the delivery is gone: taking the message again");
                self.patience(Some(error.kind()))
            }
            Err(_) => {
                tracing::debug!(run = self.run, "no answer on the old channel: taking the message again");
                self.patience(None)
            }
        };
        let deadline = Instant::now() + patience;
        let mut trouble = None;
        loop {
            match timeout_at(deadline, self.settle_again(doing, doubles)).await {
                Ok(Ok(Some(settled))) => return Ok(settled),
                Ok(Ok(None)) => trouble = None,
                Ok(Err(error)) if error.may_pass() => trouble = Some(error),
                Ok(Err(error)) => return Err(error),
                Err(_) => return trouble.map_or(Ok(Settled::Gone), Err),
            }
            let pause = Duration::from_millis(250) + link::jitter(Duration::from_millis(500));
            sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// How long the message may take to come back: at once where the broker closed the channel; a broker that lost us notices
    /// that after two heartbeats.
    fn patience(&self, end: Option<&ErrorKind>) -> Duration {
        if matches!(
            end,
            Some(ErrorKind::ProtocolError(_) | ErrorKind::InvalidChannelState(ChannelState::Closed, _))
        ) {
            return RETURN_LIMIT;
        }
        let heartbeat = match self.broker.0.address.heartbeat {
            0 => BROKERS_HEARTBEAT,
            seconds => seconds,
        };
        RETURN_LIMIT + Duration::from_secs(u64::from(heartbeat)) * 3
    }

    /// Acknowledges on a channel, and makes sure that the broker has taken note: an acknowledgement has no answer, so something
    /// that has one follows it on the same channel. If the delivery was gone, that finds the channel closed.
    async fn settle_on(&self, channel: &Channel, raw: &Raw, doubles: bool) -> lapin::Result<()> {
        let acked = raw.acker.ack(BasicAckOptions::default()).await?;
        if acked && doubles {
            channel.queue_purge(topology::queue(&self.run).into(), QueuePurgeOptions::default()).await?;
        } else {
            topology::look(channel, &self.run).await?;
        }
        // Refused by the client library, and yet the channel lives: not settled.
        if acked { Ok(()) } else { Err(ErrorKind::InvalidChannel(channel.id()).into()) }
    }

    /// Looks for the message in its queue. None: not there (yet).
    async fn settle_again(&self, doing: &str, doubles: bool) -> Result<Option<Settled>, AmqpError> {
        let named = |e: lapin::Error| self.broker.error(doing, &e);
        let (_, channel) = self.broker.0.consuming.channel(doing).await?;
        loop {
            let queue = topology::queue(&self.run).into();
            let found = channel.basic_get(queue, BasicGetOptions::default()).await.map_err(named);
            match found {
                Ok(Some(found)) if self.is_same(&found.delivery) => {
                    self.settle_on(&channel, &found.delivery, doubles).await.map_err(named)?;
                    return Ok(Some(Settled::TakenAgain));
                }
                // Another message: it goes back when the channel is dropped.
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(AmqpError::NotFound { .. }) => return Ok(Some(Settled::Gone)),
                Err(error) => return Err(error),
            }
        }
    }

    fn is_same(&self, other: &Raw) -> bool {
        match (self.id(), id(other)) {
            (Some(own), Some(other)) => own == other,
            (None, None) => self.raw.data == other.data,
            _ => false,
        }
    }
}

fn id(raw: &Raw) -> Option<&str> {
    raw.properties.message_id().as_ref().map(lapin::types::ShortString::as_str)
}
