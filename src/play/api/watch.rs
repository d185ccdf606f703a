//! Watches: the initial state when it is asked for, then each change as the watcher's selector sees it.
//!
//! A watch holds a place in the store's history and no queue. The response's own back-pressure is the only brake: a client
//! that does not read stands still, and one that the history has passed by is told to list again.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Gone;
use super::params::Params;
use super::reads::{self, Scope};
use super::select::Selector;
use super::status::{Answer, Failure, Faults};
use super::store::{Change, Changes, Key, Store, Stored};
use super::view::{self, Shape};

/// How long a watch lasts that asks for nothing else.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// About how many bytes go out in one piece.
const CHUNK: usize = 64 * 1024;
/// How many changes are taken from the store at a time.
const BATCH: usize = 256;

/// What the server knows and every watch needs.
pub(super) struct Setting {
    pub(super) store: Arc<Store>,
    pub(super) gone: Gone,
    pub(super) bookmark_every: Duration,
    pub(super) shutdown: CancellationToken,
}

struct Watch {
    store: Arc<Store>,
    scope: Scope,
    selector: Selector,
    shape: Shape,
    /// What was there at the start and is still to be sent.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// Whether the end of the initial state is still to be marked.
    mark_initial: bool,
    /// Everything up to this version was looked at.
    seen: u64,
    /// The version of the last bookmark.
    marked: u64,
    bookmarks: bool,
    bookmark_every: Duration,
    next_bookmark: Instant,
    deadline: Instant,
    latest: tokio::sync::watch::Receiver<u64>,
    shutdown: CancellationToken,
    headed: bool,
    over: bool,
}

/// Starts a watch as the query asks.
///
/// # Errors
/// 400 and 422 for what cannot be asked; 410 for a version that has left the history, if the server is set to tell it so.
pub(super) fn watch(
    setting: &Setting,
    scope: Scope,
    selector: Selector,
    shape: Shape,
    params: &Params,
) -> Answer<Body> {
    let asked = reads::version(params)?.unwrap_or(0);
    let bookmarks = params.flag("allowWatchBookmarks")?;
    let send_initial = params.flag_if_set("sendInitialEvents")?;
    check_initial(&scope, send_initial, params.get("resourceVersionMatch"), bookmarks)?;
    let timeout = params
        .number::<u64>("timeoutSeconds")?
        .filter(|s| *s > 0)
        .map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let latest = setting.store.subscribe();
    // "Any version" and "the newest" both begin with what is there.
    let whole = send_initial.unwrap_or(asked == 0);
    let (items, seen, behind) = setting.store.with(|inner| {
        if whole {
            let first = Key::new(scope.resource.kind, scope.namespace.as_deref().unwrap_or_default(), "");
            let from = inner.from(std::ops::Bound::Included(&first));
            let items =
                from.take_while(|o| scope.holds(o)).filter(|o| selector.matches(o)).cloned().collect();
            (items, inner.rv(), None)
        } else {
            let start = if asked == 0 { inner.rv() } else { asked };
            // A version that is yet to come is another store's: the state file was removed.
            let wrong = start < inner.reaches() || start > inner.rv();
            (Vec::new(), start, wrong.then(|| inner.reaches()))
        }
    });
    if let Some(reaches) = behind {
        let failure = too_old(seen, reaches);
        return match setting.gone {
            Gone::Status => Err(failure),
            Gone::Event => Ok(Body::from(view::error(&failure))),
        };
    }
    let now = Instant::now();
    let watch = Watch {
        store: Arc::clone(&setting.store),
        scope,
        selector,
        shape,
        initial: items.into_iter(),
        mark_initial: send_initial == Some(true),
        seen,
        marked: 0,
        bookmarks,
        bookmark_every: setting.bookmark_every,
        next_bookmark: now + setting.bookmark_every,
        deadline: now + timeout,
        latest,
        shutdown: setting.shutdown.clone(),
        headed: false,
        over: false,
    };
    Ok(Body::from_stream(futures_util::stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watch))
    })))
}

fn too_old(asked: u64, reaches: u64) -> Failure {
    Failure::expired(format!("too old resource version: {asked} ({reaches})"))
}

fn check_initial(scope: &Scope, send: Option<bool>, matching: Option<&str>, bookmarks: bool) -> Answer<()> {
    let mut faults = Faults::default();
    match (send, matching) {
        (None, Some(_)) => faults.forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (Some(_), None) => faults.forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (Some(_), Some(other)) if other != "NotOlderThan" => {
            faults.unsupported("resourceVersionMatch", other, &["NotOlderThan"]);
        }
        (Some(true), _) if !bookmarks => {
            faults.forbidden(
                "sendInitialEvents",
                "the end of the initial events is a bookmark: set allowWatchBookmarks",
            );
        }
        _ => {}
    }
    faults.done(scope.resource, "")
}

impl Watch {
    /// The next piece of the answer; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.over || self.shutdown.is_cancelled() {
                return None;
            }
            // Checked here too: a busy watch never comes to its sleep.
            if self.deadline <= Instant::now() {
                self.over = true;
                let mark = self.timed_mark();
                return (!mark.is_empty()).then(|| mark.into());
            }
            let ready = self.ready();
            if !ready.is_empty() {
                return Some(ready.into());
            }
            let wake = if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                changed = self.latest.changed() => if changed.is_err() { return None },
                () = sleep_until(wake) => {
                    if self.deadline > Instant::now() {
                        let mark = self.timed_mark();
                        if !mark.is_empty() {
                            return Some(mark.into());
                        }
                    }
                }
            }
        }
    }

    /// What can be sent at once.
    fn ready(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < CHUNK {
            let Some(object) = self.initial.next() else { break };
            out.extend(self.event("ADDED", &object));
        }
        if !out.is_empty() {
            return out;
        }
        if self.mark_initial {
            self.mark_initial = false;
            self.marked = self.seen;
            return view::bookmark(self.scope.resource, self.shape, self.seen, true);
        }
        self.latest.borrow_and_update();
        loop {
            match self
                .store
                .with(|inner| inner.changes_after(self.seen, Some(self.scope.resource.kind), BATCH))
            {
                Changes::Behind(reaches) => {
                    self.over = true;
                    return view::error(&too_old(self.seen, reaches));
                }
                Changes::Read(changes, upto) => {
                    let more = changes.len() >= BATCH;
                    self.seen = upto;
                    for change in &changes {
                        out.extend(self.line(change));
                    }
                    if !out.is_empty() || !more {
                        return out;
                    }
                }
            }
        }
    }

    /// A bookmark when its time has come, and one as a farewell, if there is anything new to say.
    fn timed_mark(&mut self) -> Vec<u8> {
        let now = Instant::now();
        if !self.bookmarks || (now < self.next_bookmark && !self.over) {
            return Vec::new();
        }
        self.next_bookmark = now + self.bookmark_every;
        if self.marked == self.seen {
            return Vec::new();
        }
        self.marked = self.seen;
        view::bookmark(self.scope.resource, self.shape, self.seen, false)
    }

    /// A change as this watch sees it: an object that begins to match is added, one that ceases to is deleted.
    fn line(&mut self, change: &Change) -> Vec<u8> {
        if !self.scope.holds(&change.now) {
            return Vec::new();
        }
        let before = change.before.as_ref().filter(|o| self.selector.matches(o));
        let now = !change.gone && self.selector.matches(&change.now);
        match (before, now) {
            (None, true) => self.event("ADDED", &change.now),
            (Some(_), true) => self.event("MODIFIED", &change.now),
            (Some(_), false) if change.gone => self.event("DELETED", &change.now),
            // It shows what last matched, at the version in which it ceased to.
            (Some(before), false) => {
                let last = before.at_version(change.now.rv);
                self.event("DELETED", &last)
            }
            (None, false) => Vec::new(),
        }
    }

    fn event(&mut self, what: &str, object: &Stored) -> Vec<u8> {
        let first = !std::mem::replace(&mut self.headed, true);
        view::event(self.scope.resource, self.shape, what, object, first)
    }
}
