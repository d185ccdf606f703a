//! Keeps one service running: starts it on a leash, tells when it is ready, starts it again when it dies.
//!
//! One task owns the service; everybody else reads its state from a watch and says whether it is wanted.

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::Instant;

use super::ServiceError;
use crate::play::leash::Leashed;
use crate::play::progress::last_line;

/// How often a service that is starting is asked whether it is ready.
const ASKED: Duration = Duration::from_millis(50);
/// How long one such question may take.
const ANSWERED: Duration = Duration::from_secs(2);
/// The pause after the first death; each further one doubles it, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A service that was up for so long is forgiven its earlier deaths.
const FORGIVEN: Duration = Duration::from_secs(60);

/// Where a service stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It was started and does not answer yet.
    Starting {
        /// Since when.
        since: Timestamp,
    },
    /// It answers.
    Up {
        /// Since when.
        since: Timestamp,
        /// The process id of its leash.
        leash: u32,
    },
    /// It died, or did not come up, and is started again at `next_try`.
    Down {
        /// Since when.
        since: Timestamp,
        /// What happened, in one line.
        why: String,
        /// When it is started again.
        next_try: Timestamp,
    },
    /// It was stopped on purpose.
    Stopped,
}

/// How a service is started and asked: what differs from one to the next.
pub trait Recipe: Send + Sync + 'static {
    /// Its name in messages: `RabbitMQ`.
    fn name(&self) -> &'static str;

    /// The command that runs it in the foreground, made by [`leash::command`](crate::play::leash::command); its output is set by the
    /// supervisor.
    ///
    /// # Errors
    /// When something that it needs cannot be prepared.
    fn command(&self) -> Result<Command, ServiceError>;

    /// Ready with `true` once it serves its clients. Asked again and again while it starts.
    fn ready(&self) -> impl Future<Output = bool> + Send;

    /// The file that takes its output; the one of the start before is kept beside it.
    fn log(&self) -> &Path;

    /// How long it may take to be ready.
    fn patience(&self) -> Duration;
}

/// A service that is kept running until this is dropped; then it is asked to end, and nothing of it stays.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    wanted: watch::Sender<bool>,
    state: watch::Receiver<State>,
}

impl Service {
    /// Starts a service and waits until it is ready.
    ///
    /// # Errors
    /// When the first start fails; it is not tried again then.
    pub async fn start(recipe: impl Recipe) -> Result<Self, ServiceError> {
        let name = recipe.name();
        let (wanted, want) = watch::channel(true);
        let (publish, state) = watch::channel(State::Starting { since: Timestamp::now() });
        tokio::spawn(Supervisor { recipe, want, publish }.run());
        let service = Self { name, wanted, state };
        service.up().await?;
        Ok(service)
    }

    /// Its state, now and as it changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Stops it and waits until all of it has ended.
    pub async fn stop(&self) {
        self.wanted.send_replace(false);
        // The supervisor lives as long as this does.
        self.state.clone().wait_for(|state| *state == State::Stopped).await.ok();
    }

    /// Starts it again after [`Service::stop`] and waits until it is ready.
    ///
    /// # Errors
    /// When it does not come up at once; it is tried again nevertheless.
    pub async fn start_again(&self) -> Result<(), ServiceError> {
        let was_stopped = *self.state.borrow() == State::Stopped;
        self.wanted.send_replace(true);
        if was_stopped {
            self.state.clone().wait_for(|state| *state != State::Stopped).await.ok();
        }
        self.up().await
    }

    /// Waits until it is up, or is down.
    async fn up(&self) -> Result<(), ServiceError> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, State::Starting { .. })).await;
        let why = match settled.as_deref() {
            Ok(State::Up { .. }) => return Ok(()),
            Ok(State::Down { why, .. }) => why.clone(),
            Ok(State::Stopped | State::Starting { .. }) => "it was stopped".to_owned(),
            Err(_) => "its supervisor has ended".to_owned(),
        };
        Err(ServiceError::NotUp { service: self.name, why })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.wanted.send_replace(false);
    }
}

/// The task that owns a service.
struct Supervisor<R> {
    recipe: R,
    want: watch::Receiver<bool>,
    publish: watch::Sender<State>,
}

/// How one start of a service came to its end.
enum End {
    /// It died, or did not come up.
    Died { why: String },
    /// It is not wanted any more.
    Unwanted,
}

impl<R: Recipe> Supervisor<R> {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let started = Instant::now();
            match self.once().await {
                End::Died { why } => {
                    if started.elapsed() > FORGIVEN {
                        pause = FIRST_PAUSE;
                    }
                    let since = Timestamp::now();
                    tracing::warn!(service = self.recipe.name(), why, "a service is down");
                    let next_try = since.checked_add(pause).unwrap_or(since);
                    self.publish.send_replace(State::Down { since, why, next_try });
                    tokio::time::timeout(pause, unwanted(&mut self.want)).await.ok();
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
                End::Unwanted => pause = FIRST_PAUSE,
            }
            if !*self.want.borrow() {
                self.publish.send_replace(State::Stopped);
            }
            if self.want.wait_for(|wanted| *wanted).await.is_err() {
                return;
            }
        }
    }

    /// One start, to its end.
    async fn once(&mut self) -> End {
        self.publish.send_replace(State::Starting { since: Timestamp::now() });
        let mut leashed = match self.spawn() {
            Ok(leashed) => leashed,
            Err(why) => return End::Died { why },
        };
        let patience = self.recipe.patience();
        let why = tokio::select! {
            status = leashed.wait() => Some(self.died(status)),
            () = unwanted(&mut self.want) => return Self::end(leashed).await,
            up = tokio::time::timeout(patience, answers(&self.recipe)) => match up {
                Ok(()) => None,
                Err(_) => Some(format!("it was not ready within {} s", patience.as_secs())),
            },
        };
        if let Some(why) = why {
            Self::end(leashed).await;
            return End::Died { why };
        }
        let leash = leashed.id().unwrap_or_default();
        self.publish.send_replace(State::Up { since: Timestamp::now(), leash });
        tokio::select! {
            status = leashed.wait() => End::Died { why: self.died(status) },
            () = unwanted(&mut self.want) => Self::end(leashed).await,
        }
    }

    fn spawn(&self) -> Result<Leashed, String> {
        let log = self.recipe.log();
        let unwritable = |e: std::io::Error| format!("its log cannot be written: {}: {e}", log.display());
        std::fs::rename(log, earlier(log)).ok();
        let out = File::options().create(true).append(true).open(log).map_err(unwritable)?;
        let err = out.try_clone().map_err(unwritable)?;
        let mut command = self.recipe.command().map_err(|e| e.to_string())?;
        command.stdout(out).stderr(err);
        Leashed::spawn(command).map_err(|e| e.to_string())
    }

    async fn end(mut leashed: Leashed) -> End {
        leashed.stop().await.ok();
        End::Unwanted
    }

    /// Why it died: its exit status and the last that it wrote.
    fn died(&self, status: std::io::Result<std::process::ExitStatus>) -> String {
        let status = status.map_or_else(|e| e.to_string(), |status| format!("it ended with {status}"));
        let log = self.recipe.log();
        let last = File::open(log).ok().and_then(|file| last_line(&file));
        match last {
            Some(last) => format!("{status}: {last} (see {})", log.display()),
            None => status,
        }
    }
}

/// Ready when the service is not wanted any more, or nobody is left to want it.
async fn unwanted(want: &mut watch::Receiver<bool>) {
    want.wait_for(|wanted| !wanted).await.ok();
}

async fn answers(recipe: &impl Recipe) {
    while !tokio::time::timeout(ANSWERED, recipe.ready()).await.unwrap_or(false) {
        tokio::time::sleep(ASKED).await;
    }
}

/// Where the log of the start before is kept.
fn earlier(log: &Path) -> PathBuf {
    log.with_extension("1.log")
}
