//! The dead letters: looked at without being consumed, put back on their run's queue, thrown away.
//!
//! To look at them they are taken one by one and held; when the channel closes they go back in their order. Whoever looks at the
//! same time sees none meanwhile, for some milliseconds.

use jiff::Timestamp;
use lapin::message::Delivery as Raw;
use lapin::options::{BasicAckOptions, BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ErrorKind};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::{AmqpError, Broker, PUBLISH_LIMIT, REASON_HEADER, REQUEST_LIMIT, topology};
use crate::config::Permit;
use crate::domain::queue::{DeadLetter, DeadLetters, letter_ids};
use crate::domain::{Message, MessageError};

/// The most letters that are looked at, and the most bytes.
const MOST: usize = 500;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Dead letters that are held, so that nobody else can take them. Dropped, they go back.
pub struct HeldLetters {
    broker: Broker,
    channel: Channel,
    raw: Vec<Raw>,
    /// What they are called, each at the place of its letter.
    letters: DeadLetters,
}

impl std::fmt::Debug for HeldLetters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldLetters").field("letters", &self.letters).finish_non_exhaustive()
    }
}

impl Broker {
    /// Looks at the dead letters, oldest first; they stay where they are, in their order.
    ///
    /// # Errors
    /// Named for what happened.
    pub async fn dead_letters(&self) -> Result<DeadLetters, AmqpError> {
        let held = self.hold_letters().await?;
        let letters = held.letters.clone();
        held.release().await;
        Ok(letters)
    }

    /// Takes the dead letters to do something with one of them.
    ///
    /// # Errors
    /// Named for what happened.
    pub async fn hold_letters(&self) -> Result<HeldLetters, AmqpError> {
        let doing = "look at the dead letters";
        self.bounded(REQUEST_LIMIT, doing, || self.hold_once(doing)).await
    }

    async fn hold_once(&self, doing: &str) -> Result<HeldLetters, AmqpError> {
        let named = |e: lapin::Error| self.error(doing, &e);
        let (_, channel) = self.0.consuming.channel(doing).await?;
        let queue = &self.0.names.dead_letter;
        let options = QueueDeclareOptions::durable().passive();
        let mut more = match channel
            .queue_declare(queue.as_str().into(), options, FieldTable::default())
            .await
            .map_err(named)
        {
            Ok(queue) => queue.message_count(),
            // Nothing was published yet.
            Err(AmqpError::NotFound { .. }) => 0,
            Err(error) => return Err(error),
        };
        let (mut raw, mut bytes) = (Vec::new(), 0);
        while more > 0 && raw.len() < MOST && bytes < MOST_BYTES {
            let got = channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await;
            let Some(got) = got.map_err(named)? else {
                more = 0;
                break;
            };
            more = got.message_count;
            bytes += got.delivery.data.len();
            raw.push(got.delivery);
        }
        let letters = DeadLetters { letters: read(&raw), more };
        Ok(HeldLetters { broker: self.clone(), channel, raw, letters })
    }
}

impl HeldLetters {
    /// The letters.
    #[must_use]
    pub fn letters(&self) -> &DeadLetters {
        &self.letters
    }

    /// Lets them go back, in their order.
    pub async fn release(self) {
        // Without an answer the broker closes the channel once it notices that we are gone.
        let _ = timeout(REQUEST_LIMIT, self.channel.close(200, "OK".into())).await;
    }

    /// Puts a letter on its run's queue, waits until the broker has it there, and takes it from the dead letters. One that is
    /// killed in between leaves it in both: a run knows its message by the UID. A message that waits there already is not
    /// doubled.
    ///
    /// # Errors
    /// Named for what happened; the letter is where it was then, or in both.
    pub async fn requeue(self, _: &Permit, id: &str, run: &str) -> Result<(), AmqpError> {
        let doing = format!("put dead letter {id} back on the queue of run {run}");
        let done = match self.find(&doing, id) {
            Ok(letter) => self.publish(&doing, run, &letter.data).await,
            Err(error) => Err(error),
        };
        self.settle(&doing, id, done).await
    }

    /// Throws a letter away.
    ///
    /// # Errors
    /// Named for what happened; the letter is where it was then, or gone.
    pub async fn drop_letter(self, _: &Permit, id: &str) -> Result<(), AmqpError> {
        let doing = format!("throw dead letter {id} away");
        self.settle(&doing, id, Ok(())).await
    }

    fn find(&self, doing: &str, id: &str) -> Result<&Raw, AmqpError> {
        let at = self.letters.letters.iter().position(|letter| letter.id == id);
        at.and_then(|at| self.raw.get(at)).ok_or_else(|| AmqpError::NotFound {
            doing: doing.to_owned(),
            reason: "there is no such letter".to_owned(),
        })
    }

    async fn publish(&self, doing: &str, run: &str, body: &[u8]) -> Result<(), AmqpError> {
        let broker = &self.broker;
        broker.bounded(PUBLISH_LIMIT, doing, || broker.publish_once(doing, run, body)).await
    }

    /// Takes a letter off when what was to be done with it is done, and lets the others go.
    async fn settle(self, doing: &str, id: &str, done: Result<(), AmqpError>) -> Result<(), AmqpError> {
        let settled = match done {
            Ok(()) => match self.find(doing, id) {
                Ok(letter) => {
                    let acked = timeout(REQUEST_LIMIT, self.acked(letter)).await;
                    acked.map_or_else(
                        |_| Err(self.broker.late(REQUEST_LIMIT, doing)),
                        |acked| acked.map_err(|e| self.broker.error(doing, &e)),
                    )
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        self.release().await;
        settled
    }

    /// An acknowledgement has no answer: something that has one follows it on the same channel.
    async fn acked(&self, letter: &Raw) -> lapin::Result<()> {
        let acked = letter.acker.ack(BasicAckOptions::default()).await?;
        let queue = self.broker.0.names.dead_letter.as_str().into();
        let options = QueueDeclareOptions::durable().passive();
        self.channel.queue_declare(queue, options, FieldTable::default()).await?;
        if acked { Ok(()) } else { Err(ErrorKind::InvalidChannel(self.channel.id()).into()) }
    }
}

fn read(raw: &[Raw]) -> Vec<DeadLetter> {
    let digests: Vec<String> =
        raw.iter().map(|raw| data_encoding::HEXLOWER.encode(&Sha256::digest(&raw.data))).collect();
    let known: Vec<(Option<&str>, &str)> =
        raw.iter().zip(&digests).map(|(raw, digest)| (message_id(raw), digest.as_str())).collect();
    let ids = letter_ids(&known);
    ids.into_iter().zip(raw).zip(digests).map(|((id, raw), digest)| letter(id, raw, digest)).collect()
}

fn message_id(raw: &Raw) -> Option<&str> {
    raw.properties.message_id().as_ref().map(lapin::types::ShortString::as_str).filter(|id| !id.is_empty())
}

fn letter(id: String, raw: &Raw, digest: String) -> DeadLetter {
    let message = Message::parse(&raw.data);
    let death = death(raw);
    let own = header(raw, REASON_HEADER).and_then(text);
    let queue = death
        .as_ref()
        .and_then(|d| d.queue.as_deref()?.strip_prefix(&topology::queue("")).map(str::to_owned));
    let key = raw.routing_key.as_str();
    let said = || queue.or_else(|| (!key.is_empty()).then(|| key.to_owned()));
    let stamp = raw.properties.timestamp().and_then(|at| i64::try_from(at).ok());
    let at = death.as_ref().and_then(|d| d.at).or(stamp).and_then(|at| Timestamp::from_second(at).ok());
    let reason = own.or_else(|| death.map(|death| death.words()));
    DeadLetter {
        id,
        run: message.as_ref().ok().map(|m| m.run.clone()).or_else(said),
        name: message.as_ref().ok().map(|m| m.name.clone()),
        host: message.as_ref().ok().map(|m| m.announcement.host.to_string()),
        reason: reason.unwrap_or_else(|| "nobody says why".to_owned()),
        at,
        size: raw.data.len(),
        readable: matches!(&message, Ok(_) | Err(MessageError::Newer(_))),
        message_id: message_id(raw).map(str::to_owned),
        digest,
    }
}

/// What the broker itself says of a letter's first death, in the header `x-death`: the newest entry comes first, so it is the
/// last one.
struct Death {
    reason: String,
    queue: Option<String>,
    count: i64,
    at: Option<i64>,
}

impl Death {
    fn words(&self) -> String {
        match self.reason.as_str() {
            "delivery_limit" => {
                "it was handed out too often: pods kept ending without settling it".to_owned()
            }
            "rejected" => format!("rejected {} times", self.count),
            "expired" => "it waited too long".to_owned(),
            "maxlen" => "its queue was full".to_owned(),
            other => other.to_owned(),
        }
    }
}

fn death(raw: &Raw) -> Option<Death> {
    let AMQPValue::FieldArray(deaths) = header(raw, "x-death")? else { return None };
    let AMQPValue::FieldTable(death) = deaths.as_slice().last()? else { return None };
    let field = |name: &str| death.inner().get(name);
    Some(Death {
        reason: field("reason").and_then(text)?,
        queue: field("queue").and_then(text),
        count: match field("count") {
            Some(AMQPValue::LongLongInt(count)) => *count,
            _ => 1,
        },
        at: match field("time") {
            Some(AMQPValue::Timestamp(at)) => i64::try_from(*at).ok(),
            _ => None,
        },
    })
}

fn header<'a>(raw: &'a Raw, name: &str) -> Option<&'a AMQPValue> {
    raw.properties.headers().as_ref()?.inner().get(name)
}

fn text(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => Some(text.as_str().to_owned()),
        _ => None,
    }
}
