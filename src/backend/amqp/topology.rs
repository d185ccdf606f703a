//! What we declare at the broker: the exchange, one quorum queue a run, and the dead letters. Every declaration may be
//! repeated; one that was made otherwise before is an error of the broker (406), never changed by us.

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind, Queue};

use crate::config::Amqp;

/// How often the broker hands out a message again before it takes it for poison. Quorum queues only; RabbitMQ 4 has such a
/// limit by default, so it is said.
const DELIVERY_LIMIT: i64 = 20;

/// The names of the settings.
pub(super) struct Names {
    pub(super) exchange: String,
    pub(super) dead_letter: String,
}

/// The queue of one run.
pub(super) fn queue(run: &str) -> String {
    format!("hostwright.run.{run}")
}

impl Names {
    pub(super) fn new(settings: &Amqp) -> Self {
        Self { exchange: settings.exchange.clone(), dead_letter: settings.dead_letter.clone() }
    }

    /// All that a run's message needs on its way, the dead letters first: a queue that points at an exchange which is not
    /// there would lose them silently.
    pub(super) async fn declare_run(&self, channel: &Channel, run: &str) -> lapin::Result<Queue> {
        self.declare_dead_letters(channel).await?;
        exchange(channel, &self.exchange, ExchangeKind::Direct).await?;
        let mut arguments = quorum();
        arguments
            .insert("x-dead-letter-exchange".into(), AMQPValue::LongString(self.dead_letter.as_str().into()));
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
        let queue =
            channel.queue_declare(queue(run).into(), QueueDeclareOptions::durable(), arguments).await?;
        bind(channel, &queue, &self.exchange, run).await?;
        Ok(queue)
    }

    /// A fanout exchange: whatever its routing key, a dead letter arrives.
    pub(super) async fn declare_dead_letters(&self, channel: &Channel) -> lapin::Result<()> {
        exchange(channel, &self.dead_letter, ExchangeKind::Fanout).await?;
        let name = self.dead_letter.as_str().into();
        let queue = channel.queue_declare(name, QueueDeclareOptions::durable(), quorum()).await?;
        bind(channel, &queue, &self.dead_letter, "").await
    }
}

/// The queue as it is, without declaring it.
pub(super) async fn look(channel: &Channel, run: &str) -> lapin::Result<Queue> {
    let options = QueueDeclareOptions::durable().passive();
    channel.queue_declare(queue(run).into(), options, FieldTable::default()).await
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments
}

async fn exchange(channel: &Channel, name: &str, kind: ExchangeKind) -> lapin::Result<()> {
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(name.into(), kind, options, FieldTable::default()).await
}

async fn bind(channel: &Channel, queue: &Queue, exchange: &str, key: &str) -> lapin::Result<()> {
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.name().clone(), exchange.into(), key.into(), options, FieldTable::default())
        .await
}
