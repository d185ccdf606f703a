//! What happens by itself: garbage collection, the root CA in each namespace, signatures, forgetting old events.
//!
//! One task that reads the store's history like a watch. A real cluster's controller manager does this; it runs no Jobs.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::kinds::Kind;
use super::seeds::{self, ROOT_CA};
use super::status::Answer;
use super::store::{Change, Changes, Store};
use super::{collect, signer};

/// How many changes are looked at between two looks at the clock.
const BATCH: usize = 256;
/// How often old events are looked for and the state file's size is checked.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// How long an event lasts, as in a real API server.
const EVENTS_LAST: SignedDuration = SignedDuration::from_hours(1);
/// The longest wait for a token's expiry: the clock may be set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The controllers and how far they have read.
pub(super) struct Controllers {
    store: Arc<Store>,
    ca: String,
    seen: u64,
    expires: Option<Timestamp>,
}

impl Controllers {
    /// Brings everything into order: what a stopped server left half done, and what is new.
    ///
    /// # Errors
    /// When the state file cannot be written.
    pub(super) fn new(store: Arc<Store>, ca: String) -> Answer<Self> {
        let mut controllers = Self { store, ca, seen: 0, expires: None };
        controllers.look_at_all()?;
        controllers.catch_up()?;
        Ok(controllers)
    }

    /// Runs until it is told to stop.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let mut latest = self.store.subscribe();
        let mut housekeeping = Instant::now() + HOUSEKEEPING;
        loop {
            latest.borrow_and_update();
            if let Err(failure) = self.catch_up() {
                tracing::warn!(%failure, "the playground's controllers could not do their work and will look at all anew");
                self.seen = 0;
            }
            let wake = self.expiry().map_or(housekeeping, |expiry| expiry.min(housekeeping));
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = latest.changed() => if changed.is_err() { return },
                () = sleep_until(wake) => {
                    if housekeeping <= Instant::now() {
                        housekeeping = Instant::now() + HOUSEKEEPING;
                        self.keep_house();
                    }
                    // A token may have expired.
                    self.sign();
                }
            }
        }
    }

    /// Reads on in the history until its end.
    fn catch_up(&mut self) -> Answer<()> {
        loop {
            match self.store.with(|inner| inner.changes_after(self.seen, None, BATCH)) {
                Changes::Behind(_) => self.look_at_all()?,
                Changes::Read(changes, upto) => {
                    self.seen = upto;
                    if changes.is_empty() {
                        return Ok(());
                    }
                    for change in &changes {
                        self.react(change)?;
                    }
                    if changes.iter().any(|c| signer::concerns(&c.now.key)) {
                        self.sign();
                    }
                }
            }
        }
    }

    fn react(&self, change: &Change) -> Answer<()> {
        collect::react(&self.store, change)?;
        let key = &change.now.key;
        match key.kind {
            Kind::Namespace if !change.gone => seeds::furnish(&self.store, &key.name, &self.ca),
            // It is put right when somebody removes or changes it.
            Kind::ConfigMap if key.name == ROOT_CA => seeds::furnish(&self.store, &key.namespace, &self.ca),
            _ => Ok(()),
        }
    }

    /// Looks at every object as if it were new.
    fn look_at_all(&mut self) -> Answer<()> {
        let (all, rv) = self.store.with(|inner| {
            let all: Vec<_> = inner.all().map(Arc::clone).collect();
            (all, inner.rv())
        });
        self.seen = rv;
        for object in all {
            if object.going || !object.owners.is_empty() || object.key.kind == Kind::Namespace {
                self.react(&Change { now: object, before: None, gone: false })?;
            }
        }
        self.sign();
        Ok(())
    }

    fn sign(&mut self) {
        match signer::sign(&self.store, Timestamp::now()) {
            Ok(expires) => self.expires = expires,
            Err(failure) => tracing::warn!(%failure, "cluster-info could not be signed"),
        }
    }

    fn expiry(&self) -> Option<Instant> {
        let left = self.expires?.duration_since(Timestamp::now());
        // A little late rather than a little early: early would find it still valid.
        let left = Duration::try_from(left).unwrap_or_default().saturating_add(Duration::from_millis(5));
        Some(Instant::now() + left.min(LONGEST_WAIT))
    }

    fn keep_house(&self) {
        let then = Timestamp::now().checked_sub(EVENTS_LAST).unwrap_or(Timestamp::MIN);
        if let Err(failure) = collect::forget_events(&self.store, then) {
            tracing::warn!(%failure, "old events could not be removed");
        }
        if let Err(error) = self.store.with(super::store::Inner::compact) {
            tracing::warn!(%error, "the playground's state file could not be written anew");
        }
    }
}
