//! The store: every object, the bounded history of changes that watches read, and the journal behind both.
//!
//! One mutex, never held over an await. A watch holds no queue: it reads the history from where it stands, and one that falls
//! behind the history is told so.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use super::ApiError;
use super::journal::{Entry, Journal, Loaded};
use super::kinds::{Kind, RESOURCES};
use super::status::{Answer, Failure};
pub(super) use super::stored::{Key, Stored};

/// The most bytes of object text that the history keeps, whatever its length.
const HISTORY_BYTES: usize = 64 * 1024 * 1024;
/// A journal below this size is not worth compacting while the server runs.
const COMPACT_FROM: u64 = 32 * 1024 * 1024;

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The object afterwards; for a deletion its last state, with the deletion's resource version.
    pub(super) now: Arc<Stored>,
    /// The object before, absent for a creation.
    pub(super) before: Option<Arc<Stored>>,
    /// Whether it was deleted.
    pub(super) gone: bool,
}

/// What [`Inner::changes_after`] finds.
pub(super) enum Changes {
    /// The changes of the kinds asked for, and the version up to which the history was read.
    Read(Vec<Change>, u64),
    /// The history no longer reaches back that far; its beginning.
    Behind(u64),
}

/// The part behind the mutex.
#[derive(Debug)]
pub(super) struct Inner {
    rv: u64,
    objects: BTreeMap<Key, Arc<Stored>>,
    by_uid: HashMap<String, Key>,
    by_owner: HashMap<String, BTreeSet<Key>>,
    history: VecDeque<Change>,
    history_max: usize,
    history_bytes: usize,
    /// Every change after this version is in the history.
    reaches: u64,
    live_bytes: u64,
    journal: Option<Journal>,
    closed: bool,
}

/// The store.
#[derive(Debug)]
pub(super) struct Store {
    inner: Mutex<Inner>,
    latest: watch::Sender<u64>,
}

impl Store {
    /// Opens the store, from the state file when there is one.
    ///
    /// The flag tells whether it is new.
    pub(super) fn open(path: Option<&Path>, history: usize) -> Result<(Self, bool), ApiError> {
        let (lock, loaded) = match path {
            Some(path) => {
                let (lock, loaded) = Journal::load(path)?;
                (Some((path, lock)), loaded)
            }
            None => (None, Loaded::default()),
        };
        let fresh = loaded.rv == 0;
        let mut inner = Inner::load(loaded, history);
        if let Some((path, lock)) = lock {
            inner.attach(path, lock)?;
        }
        let latest = watch::Sender::new(inner.rv);
        Ok((Self { inner: Mutex::new(inner), latest }, fresh))
    }

    /// Does something with the store and wakes the watches when it changed.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let (out, rv) = {
            // A panic elsewhere leaves the store whole: every change is one insertion after its journal line.
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let out = act(&mut inner);
            (out, inner.rv)
        };
        self.latest.send_if_modified(|latest| {
            let newer = rv > *latest;
            *latest = rv.max(*latest);
            newer
        });
        out
    }

    /// Tells of each new resource version.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Refuses every further change and puts the journal on the disk.
    pub(super) fn close(&self) -> std::io::Result<()> {
        self.with(|inner| {
            inner.closed = true;
            // The journal goes, and its lock with it: the next server may open the file.
            inner.journal.take().map_or(Ok(()), |journal| journal.sync())
        })
    }
}

impl Inner {
    fn load(loaded: Loaded, history_max: usize) -> Self {
        let mut inner = Self {
            rv: loaded.rv,
            objects: BTreeMap::new(),
            by_uid: HashMap::new(),
            by_owner: HashMap::new(),
            history: VecDeque::new(),
            history_max: history_max.max(1),
            history_bytes: 0,
            reaches: loaded.rv,
            live_bytes: 0,
            journal: None,
            closed: false,
        };
        for record in loaded.records {
            let Some(resource) = RESOURCES.iter().find(|r| r.qualified() == record.of) else { continue };
            let key = Key { kind: resource.kind, namespace: record.namespace, name: record.name };
            match record.object {
                Some(object) => {
                    inner.insert(Arc::new(Stored::new(key, object, record.rv, record.at)));
                }
                None => {
                    inner.take(&key);
                }
            }
        }
        inner
    }

    fn attach(&mut self, path: &Path, lock: File) -> Result<(), ApiError> {
        self.journal =
            Some(Journal::start(path, lock, self.rv, self.objects.values().map(|s| line(s, false)))?);
        Ok(())
    }

    /// The version of the last change.
    pub(super) fn rv(&self) -> u64 {
        self.rv
    }

    /// Every change after this version can still be told.
    pub(super) fn reaches(&self) -> u64 {
        self.reaches
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// The object with this UID.
    pub(super) fn by_uid(&self, uid: &str) -> Option<&Arc<Stored>> {
        self.by_uid.get(uid).and_then(|key| self.objects.get(key))
    }

    /// The objects that name this UID as an owner.
    pub(super) fn owned_by(&self, uid: &str) -> Vec<Arc<Stored>> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key)).cloned().collect()
    }

    /// Every object, in the order of their keys.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values()
    }

    /// The objects from a key on (or after it), in order.
    pub(super) fn from(&self, start: std::ops::Bound<&Key>) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.range((start, std::ops::Bound::Unbounded)).map(|(_, stored)| stored)
    }

    /// The objects of a kind in a namespace (empty for what has none), in order.
    pub(super) fn of(&self, kind: Kind, namespace: &str) -> Vec<Arc<Stored>> {
        let first = Key::new(kind, namespace, "");
        let found = self.from(std::ops::Bound::Included(&first));
        found.take_while(|o| o.key.kind == kind && o.key.namespace == namespace).cloned().collect()
    }

    /// Stores an object that passed every check. Its resource version is set here.
    ///
    /// # Errors
    /// When the state file cannot be written (nothing has changed then), or the server is stopping.
    pub(super) fn put(&mut self, key: Key, object: Value) -> Answer<Arc<Stored>> {
        let rv = self.rv.saturating_add(1);
        let stored = Arc::new(Stored::new(key, object, rv, now()));
        self.write(&stored, false)?;
        let before = self.insert(Arc::clone(&stored));
        self.remember(Change { now: Arc::clone(&stored), before, gone: false });
        Ok(stored)
    }

    /// Removes an object whose last state is given; `None` when it is not there.
    ///
    /// # Errors
    /// As [`Inner::put`].
    pub(super) fn remove(&mut self, key: &Key, last: Value) -> Answer<Arc<Stored>> {
        let rv = self.rv.saturating_add(1);
        let stored = Arc::new(Stored::new(key.clone(), last, rv, now()));
        self.write(&stored, true)?;
        let before = self.take(key);
        self.remember(Change { now: Arc::clone(&stored), before, gone: true });
        Ok(stored)
    }

    /// The changes after a version, at most about `most` of them, of one kind or of all.
    pub(super) fn changes_after(&self, rv: u64, kind: Option<Kind>, most: usize) -> Changes {
        if rv < self.reaches {
            return Changes::Behind(self.reaches);
        }
        let start = self.history.partition_point(|c| c.now.rv <= rv);
        let mut found = Vec::new();
        for change in self.history.range(start..) {
            if kind.is_none_or(|k| k == change.now.key.kind) {
                if found.len() >= most {
                    // Read up to the one before this: the caller comes back for the rest.
                    return Changes::Read(found, change.now.rv.saturating_sub(1));
                }
                found.push(change.clone());
            }
        }
        Changes::Read(found, self.rv)
    }

    /// What the objects of a kind were at an earlier version, for those that changed since: `None` for those not yet made.
    pub(super) fn past(&self, kind: Kind, rv: u64) -> BTreeMap<Key, Option<Arc<Stored>>> {
        let mut past = BTreeMap::new();
        let start = self.history.partition_point(|c| c.now.rv <= rv);
        for change in self.history.range(start..).filter(|c| c.now.key.kind == kind) {
            past.entry(change.now.key.clone()).or_insert_with(|| change.before.clone());
        }
        past
    }

    /// Writes the state file anew when most of it is history.
    pub(super) fn compact(&mut self) -> std::io::Result<()> {
        let Some(journal) = self.journal.as_mut() else { return Ok(()) };
        if journal.len() < COMPACT_FROM.max(self.live_bytes.saturating_mul(4)) {
            return Ok(());
        }
        journal.compact(self.rv, self.objects.values().map(|s| line(s, false)))
    }

    fn write(&mut self, stored: &Stored, gone: bool) -> Answer<()> {
        if self.closed {
            return Err(Failure::stopping());
        }
        let Some(journal) = self.journal.as_mut() else { return Ok(()) };
        // A short write into the page cache, under the lock on purpose: the order in the file is the order of the versions.
        journal
            .append(&line(stored, gone))
            .map_err(|error| Failure::internal(format!("cannot write the state file: {error}")))
    }

    fn insert(&mut self, stored: Arc<Stored>) -> Option<Arc<Stored>> {
        let before = self.take(&stored.key);
        self.by_uid.insert(stored.uid.clone(), stored.key.clone());
        for owner in &stored.owners {
            self.by_owner.entry(owner.clone()).or_default().insert(stored.key.clone());
        }
        self.live_bytes = self.live_bytes.saturating_add(size(&stored));
        self.objects.insert(stored.key.clone(), stored);
        before
    }

    fn take(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let stored = self.objects.remove(key)?;
        self.by_uid.remove(&stored.uid);
        for owner in &stored.owners {
            if let Some(owned) = self.by_owner.get_mut(owner) {
                owned.remove(key);
                if owned.is_empty() {
                    self.by_owner.remove(owner);
                }
            }
        }
        self.live_bytes = self.live_bytes.saturating_sub(size(&stored));
        Some(stored)
    }

    fn remember(&mut self, change: Change) {
        self.rv = change.now.rv;
        self.history_bytes = self.history_bytes.saturating_add(change.now.text().len());
        self.history.push_back(change);
        while self.history.len() > self.history_max
            || (self.history_bytes > HISTORY_BYTES && self.history.len() > 1)
        {
            let Some(old) = self.history.pop_front() else { break };
            self.history_bytes = self.history_bytes.saturating_sub(old.now.text().len());
            self.reaches = old.now.rv;
        }
    }
}

fn size(stored: &Stored) -> u64 {
    u64::try_from(stored.text().len()).unwrap_or(u64::MAX)
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn line(stored: &Stored, gone: bool) -> Vec<u8> {
    let of = stored.key.kind.resource().qualified();
    let Key { namespace, name, .. } = &stored.key;
    let entry = Entry { rv: stored.rv, at: stored.at, of: &of, namespace, name };
    entry.line((!gone).then_some(stored.text()))
}
