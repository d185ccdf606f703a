//! The owner of one connection: a task that connects when somebody first asks, hands the connection out, notices its end,
//! and connects again with a growing pause. It ends when the last handle is gone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};
use lapin::{Channel, Connection, Event};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::AmqpError;
use super::address::Address;
use super::connect::{Connected, connect};
use super::pulse::{Lane, Pulse};
use crate::domain::Health;

/// Requests that wait for the owner. It answers each at once but while it connects, at most five seconds.
const QUEUE: usize = 16;
/// The first pause after a connection was lost.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// The least time between two tries. Who asks in the middle of a pause gets a new try, but not sooner than this after the last.
const APART: Duration = Duration::from_secs(1);
/// How often the owner looks at the connection by itself: the client library tells most ends, not all.
const LOOK: Duration = Duration::from_secs(2);

/// A handle on the owner.
pub(super) struct Link {
    requests: mpsc::Sender<Request>,
    /// The owner until it is started, by the first request: making a handle needs no runtime.
    owner: Mutex<Option<Owner>>,
}

/// The open connection, for as long as a request needs it.
#[derive(Clone)]
pub(super) struct Open {
    connection: Arc<Connection>,
    broker: Arc<Address>,
    blocked: watch::Receiver<Option<String>>,
}

enum Request {
    Open(oneshot::Sender<Result<Open, AmqpError>>),
    Close(oneshot::Sender<()>),
}

struct Owner {
    address: Arc<Address>,
    lane: Lane,
    pulse: Arc<Pulse>,
    requests: mpsc::Receiver<Request>,
}

/// Why the owner stopped serving a connection.
enum End {
    /// It broke; who asked meanwhile waits for the next one.
    Lost(AmqpError, Option<oneshot::Sender<Result<Open, AmqpError>>>),
    /// It was closed on request.
    Closed,
    /// Nobody holds a handle any more.
    Unused,
}

impl Link {
    pub(super) fn new(address: Arc<Address>, lane: Lane, pulse: Arc<Pulse>) -> Self {
        let (sender, requests) = mpsc::channel(QUEUE);
        let owner = Owner { address, lane, pulse, requests };
        Self { requests: sender, owner: Mutex::new(Some(owner)) }
    }

    /// The open connection.
    pub(super) async fn open(&self) -> Result<Open, AmqpError> {
        self.start();
        let (answer, open) = oneshot::channel();
        let gone = || AmqpError::Failed {
            doing: "ask for the connection to RabbitMQ".into(),
            reason: "the program is ending".into(),
        };
        self.requests.send(Request::Open(answer)).await.map_err(|_| gone())?;
        open.await.map_err(|_| gone())?
    }

    /// A new channel on the open connection.
    pub(super) async fn channel(&self, doing: &str) -> Result<(Open, Channel), AmqpError> {
        let open = self.open().await?;
        // On a blocked connection not even this is sent.
        open.not_blocked()?;
        let channel = open.unless_blocked(open.connection.create_channel()).await?;
        let channel = channel.map_err(|e| AmqpError::of(&open.broker.name, doing, &e))?;
        Ok((open, channel))
    }

    /// Closes the connection, if there is one.
    pub(super) async fn close(&self) {
        if self.owner.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        let (answer, closed) = oneshot::channel();
        if self.requests.send(Request::Close(answer)).await.is_ok() {
            let _ = closed.await;
        }
    }

    fn start(&self) {
        if let Some(owner) = self.owner.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(owner.run());
        }
    }
}

impl Open {
    fn not_blocked(&self) -> Result<(), AmqpError> {
        self.blocked.borrow().as_ref().map_or(Ok(()), |reason| Err(self.blocked_by(reason)))
    }

    /// Does it, unless an alarm comes between.
    pub(super) async fn unless_blocked<T>(
        &self,
        work: impl Future<Output = lapin::Result<T>>,
    ) -> Result<lapin::Result<T>, AmqpError> {
        let mut blocked = self.blocked.clone();
        let reason = async {
            let reason = blocked.wait_for(Option::is_some).await.map(|reason| reason.clone());
            match reason {
                Ok(Some(reason)) => reason,
                // The owner is gone, and the connection with it: the work says so.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            reason = reason => Err(self.blocked_by(&reason)),
        }
    }

    fn blocked_by(&self, reason: &str) -> AmqpError {
        AmqpError::Blocked { broker: self.broker.name.clone(), reason: reason.to_owned() }
    }
}

impl Owner {
    async fn run(mut self) {
        let mut waiting = Vec::new();
        // Nothing before the first request.
        if !self.idle(&mut waiting).await {
            return;
        }
        let mut failures = 0;
        loop {
            let (error, tried) = match connect(&self.address, self.name()).await {
                Ok(connected) => {
                    failures = 0;
                    match self.serve(connected, &mut waiting).await {
                        End::Unused => return,
                        End::Closed => {
                            if !self.idle(&mut waiting).await {
                                return;
                            }
                            continue;
                        }
                        End::Lost(error, asked) => {
                            waiting.extend(asked);
                            (error, None)
                        }
                    }
                }
                Err(error) => {
                    for asked in waiting.drain(..) {
                        let _ = asked.send(Err(error.clone()));
                    }
                    (error, Some(Instant::now()))
                }
            };
            let pause = pause(failures);
            failures += 1;
            tracing::warn!(%error, retry_in_ms = pause.as_millis(), "no connection to RabbitMQ");
            let retry_at = SignedDuration::try_from(pause).ok().map(|pause| Timestamp::now() + pause);
            self.pulse.down(self.lane, &error, retry_at);
            if waiting.is_empty() && !self.rest(pause, tried, &mut waiting).await {
                return;
            }
        }
    }

    /// Waits for the first one who needs the connection; false when nobody is left.
    async fn idle(&mut self, waiting: &mut Vec<oneshot::Sender<Result<Open, AmqpError>>>) -> bool {
        loop {
            match self.requests.recv().await {
                Some(Request::Open(asked)) => {
                    waiting.push(asked);
                    return true;
                }
                Some(Request::Close(done)) => {
                    let _ = done.send(());
                }
                None => return false,
            }
        }
    }

    /// Pauses before the next try, a shorter time when somebody needs the connection; false when nobody is left.
    async fn rest(
        &mut self,
        pause: Duration,
        tried: Option<Instant>,
        waiting: &mut Vec<oneshot::Sender<Result<Open, AmqpError>>>,
    ) -> bool {
        let mut until = Instant::now() + pause;
        loop {
            tokio::select! {
                () = sleep_until(until) => return true,
                request = self.requests.recv() => match request {
                    Some(Request::Open(asked)) => {
                        waiting.push(asked);
                        until = tried.map_or_else(Instant::now, |at| until.min(at + APART));
                    }
                    Some(Request::Close(done)) => {
                        let _ = done.send(());
                        return !waiting.is_empty() || self.idle(waiting).await;
                    }
                    None => return false,
                },
            }
        }
    }

    async fn serve(
        &mut self,
        connected: Connected,
        waiting: &mut Vec<oneshot::Sender<Result<Open, AmqpError>>>,
    ) -> End {
        let connection = connected.connection.clone();
        let (blocked, watching) = watch::channel(None);
        let open = Open { connection: connection.clone(), broker: self.address.clone(), blocked: watching };
        let mut events = Box::pin(connection.events_listener());
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut why = None;
        self.pulse.set(self.lane, Health::Up);
        tracing::debug!(broker = self.address.name, lane = self.name(), "connected to RabbitMQ");
        for asked in waiting.drain(..) {
            let _ = asked.send(Ok(open.clone()));
        }
        loop {
            let mut asked = None;
            tokio::select! {
                event = events.next() => match event {
                    Some(Event::Error(error)) => why = Some(error),
                    Some(Event::ConnectionBlocked(reason)) => {
                        let reason = if reason.is_empty() { "an alarm is on".to_owned() } else { reason };
                        self.pulse.down(self.lane, &open.blocked_by(&reason), None);
                        blocked.send_replace(Some(reason));
                    }
                    Some(Event::ConnectionUnblocked) => {
                        self.pulse.set(self.lane, Health::Up);
                        blocked.send_replace(None);
                    }
                    _ => {}
                },
                request = self.requests.recv() => match request {
                    Some(Request::Open(sender)) => asked = Some(sender),
                    Some(Request::Close(done)) => {
                        connected.close().await;
                        self.pulse.set(self.lane, Health::Unknown);
                        let _ = done.send(());
                        return End::Closed;
                    }
                    None => {
                        connected.close().await;
                        return End::Unused;
                    }
                },
                _ = look.tick() => {}
            }
            if !connection.status().connected() {
                return End::Lost(self.lost(why.as_ref()), asked);
            }
            if let Some(asked) = asked {
                let _ = asked.send(Ok(open.clone()));
            }
        }
    }

    fn lost(&self, why: Option<&lapin::Error>) -> AmqpError {
        let doing = "keep connected";
        match why.map(|error| AmqpError::of(&self.address.name, doing, error)) {
            Some(error @ AmqpError::Lost { .. }) => error,
            other => AmqpError::Lost {
                broker: self.address.name.clone(),
                doing: doing.to_owned(),
                reason: other.map_or_else(|| "it was closed".to_owned(), |error| error.to_string()),
            },
        }
    }

    fn name(&self) -> &'static str {
        match self.lane {
            Lane::Publishing => "publishing",
            Lane::Consuming => "consuming",
        }
    }
}

/// Doubles with every failure, up to 30 s, with a random part so that many clients do not come back at once.
fn pause(failures: u32) -> Duration {
    let full = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LAST_PAUSE);
    full / 2 + jitter(full / 2)
}

/// A random time up to `most`.
pub(super) fn jitter(most: Duration) -> Duration {
    // Without randomness from the system there is none here either: only the spread is lost.
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    most.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_to_half_a_minute_and_no_further() {
        for failures in [0, 1, 5, 7, 30, u32::MAX] {
            let full = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LAST_PAUSE);
            let pause = pause(failures);
            assert!(pause >= full / 2 && pause <= full, "{failures}: {pause:?}");
        }
        assert!(pause(0) <= FIRST_PAUSE && pause(40) >= LAST_PAUSE / 2);
    }
}
