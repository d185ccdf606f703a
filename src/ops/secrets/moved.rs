//! What is transferred, how far it is, and what came of it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;

use crate::domain::Problem;

/// A secret as it was when somebody looked at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked {
    /// The exact key.
    pub key: String,
    /// The object's ETag then; none: there was none.
    pub etag: Option<String>,
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// How many files are done.
    pub files: usize,
    /// How many there are.
    pub of_files: usize,
    /// How many bytes are done.
    pub bytes: u64,
    /// How many there are.
    pub of_bytes: u64,
}

/// What came of one secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The file was written.
    Fetched,
    /// The object was written.
    Uploaded,
    /// The object was removed.
    Removed,
    /// The file was removed, as the object had been.
    RemovedHere,
    /// Nothing was to be done.
    Same,
    /// It was left as it is, and why.
    Left(&'static str),
}

impl Outcome {
    /// The words.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match self {
            Self::Fetched => "fetched",
            Self::Uploaded => "uploaded",
            Self::Removed => "removed",
            Self::RemovedHere => "removed here",
            Self::Same => "the same",
            Self::Left(why) => why,
        }
    }
}

/// What came of a transfer, by key.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    /// Each with its outcome.
    pub outcomes: Vec<(String, Result<Outcome, Problem>)>,
    /// Keys that can be no files, and why.
    pub skipped: Vec<(String, String)>,
    /// It was cancelled: what is not among the outcomes was not begun.
    pub cancelled: bool,
}

/// Counts what is done and tells it.
pub(super) struct Counter<'a> {
    all: Transfer,
    files: AtomicUsize,
    bytes: AtomicU64,
    tell: &'a (dyn Fn(Transfer) + Sync),
}

impl<'a> Counter<'a> {
    pub(super) fn new(of_files: usize, of_bytes: u64, tell: &'a (dyn Fn(Transfer) + Sync)) -> Self {
        let all = Transfer { of_files, of_bytes, ..Transfer::default() };
        tell(all);
        Self { all, files: AtomicUsize::new(0), bytes: AtomicU64::new(0), tell }
    }

    pub(super) fn bytes(&self, count: u64) {
        self.bytes.fetch_add(count, Ordering::Relaxed);
        self.say();
    }

    pub(super) fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.say();
    }

    fn say(&self) {
        let files = self.files.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed).min(self.all.of_bytes);
        (self.tell)(Transfer { files, bytes, ..self.all });
    }
}
