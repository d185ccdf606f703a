//! A folder on a node is kept as some folders of the bucket are.
//!
//! A round lists, compares with what is remembered and with what is on disk, removes, takes, runs the operator's command when something
//! changed, and says in the bucket what the node has. While nothing changes that is the listing and a look at each file. Whoever ends it
//! at any point leaves whole files; the next round does the rest.

mod disk;
mod round;
mod store;
mod tell;
mod transfer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::backend::command::OwnCommand;
use crate::backend::folder::{Folder, FolderError, Writer};
use crate::config::Permit;
use crate::domain::manifest::{Left, Memory, MemoryError, NodeName, Scope, Why};
use crate::domain::secret::RelativePath;

use disk::Disk;
use tell::Word;

pub use store::{NodeBucket, Opened, Store};

/// The file that what is remembered stands in. It is not called `.json`: who applies a folder of manifests takes those for one.
const MEMORY: &str = "sync-state";

/// What is kept in sync, and how.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// The folders of the bucket.
    pub scope: Scope,
    /// This node's name.
    pub node: NodeName,
    /// Whether the node says in the bucket what it has.
    pub tells: bool,
    /// The longest time between two words of the node, though nothing changes.
    pub heartbeat: Duration,
    /// What is run after a change.
    pub command: Option<OwnCommand>,
}

/// Why a folder cannot be kept in sync at all.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// It cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What is remembered of it forbids it.
    #[error("{}: {error}", folder)]
    Memory {
        /// Which folder.
        folder: String,
        /// Why.
        error: MemoryError,
    },
    /// A task of our own ended before it was done.
    #[error("a task of our own ended: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl SyncError {
    /// The command's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Folder(FolderError::Locked { .. }) => 4,
            Self::Memory { .. } => 2,
            Self::Folder(_) | Self::Task(_) => 1,
        }
    }
}

/// Something that could not be done in a round. The next one tries again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncProblem {
    /// The object that it is about.
    pub key: Option<String>,
    /// What, and why.
    pub text: String,
}

impl SyncProblem {
    fn new(key: Option<&str>, error: &dyn std::error::Error) -> Self {
        Self { key: key.map(str::to_owned), text: error.to_string() }
    }
}

/// What a round did.
#[derive(Debug, Default)]
pub struct Round {
    /// Files that were written, and why.
    pub written: Vec<(RelativePath, Why)>,
    /// Files that were removed.
    pub removed: Vec<RelativePath>,
    /// How many files were as they should be.
    pub kept: usize,
    /// Objects that are no files.
    pub left: Vec<Left>,
    /// How many objects changed while the round was under way: the next one takes them.
    pub moving: usize,
    /// What could not be done.
    pub problems: Vec<SyncProblem>,
    /// A listing broke off, or could not be used: the bucket is better asked less often.
    pub broken: bool,
    /// It was told to end before all was done.
    pub stopped: bool,
}

impl Round {
    /// Whether the folder is now as the bucket is.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.problems.is_empty() && !self.stopped
    }

    /// Whether a file was written or removed.
    #[must_use]
    pub fn changed(&self) -> bool {
        !self.written.is_empty() || !self.removed.is_empty()
    }
}

/// What is counted, since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rounds that ended.
    pub rounds: u64,
    /// Rounds in which something could not be done.
    pub failed_rounds: u64,
    /// Pages of listings.
    pub pages: u64,
    /// Objects that were read.
    pub downloads: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Files that were removed.
    pub removals: u64,
    /// Files that were put back, because they had been altered or removed here.
    pub put_back: u64,
    /// Times that the command ran.
    pub commands: u64,
    /// Times that it failed.
    pub failed_commands: u64,
    /// Files that are as they should be.
    pub files: u64,
    /// Objects that can be no files.
    pub left: u64,
    /// When all was last as in the bucket.
    pub synced: Option<Timestamp>,
}

/// A folder that is kept in sync.
#[derive(Debug)]
pub struct Syncer<S> {
    store: S,
    options: SyncOptions,
    writer: Arc<Writer>,
    disk: Disk,
    word: Word,
    counters: watch::Sender<Counters>,
}

impl<S: Store> Syncer<S> {
    /// Takes a folder, which is made if need be, for itself alone. What a killed one left is swept.
    ///
    /// # Errors
    /// When another process has it, it is another bucket's, or it cannot be used.
    pub async fn open(store: S, permit: Permit, to: &Path, options: SyncOptions) -> Result<Self, SyncError> {
        let (to, bucket) = (to.to_owned(), store.name().to_owned());
        let opened = move || -> Result<(Writer, Disk), SyncError> {
            let folder = Folder::create(&permit, &to)?;
            let writer = folder.writer(&permit, "sync")?;
            writer.sweep()?;
            let memory = remembered(&folder, &bucket)?;
            Ok((writer, Disk::new(memory)))
        };
        let (writer, disk) = tokio::task::spawn_blocking(opened).await??;
        let counters = watch::Sender::new(Counters::default());
        Ok(Self { store, options, writer: Arc::new(writer), disk, word: Word::default(), counters })
    }

    /// What is counted, now and after each round.
    #[must_use]
    pub fn counters(&self) -> watch::Receiver<Counters> {
        self.counters.subscribe()
    }
}

/// What is remembered of a folder. What cannot be read is forgotten: then all is taken again, and nothing that is there is removed.
fn remembered(folder: &Folder, bucket: &str) -> Result<Memory, SyncError> {
    let bytes = folder.read_own(MEMORY, Memory::LIMIT as u64);
    let parsed = match bytes {
        Ok(None) => return Ok(Memory::new(bucket)),
        Ok(Some(bytes)) => Memory::parse(&bytes, bucket),
        Err(FolderError::TooLarge { .. }) => Err(MemoryError::TooLarge),
        Err(error) => return Err(error.into()),
    };
    match parsed {
        Ok(memory) => Ok(memory),
        Err(error) if error.may_forget() => {
            tracing::warn!(%error, "all is taken again; files whose objects are gone stay");
            let mut memory = Memory::new(bucket);
            memory.command_due = true;
            Ok(memory)
        }
        Err(error) => Err(SyncError::Memory { folder: folder.path().display().to_string(), error }),
    }
}

#[cfg(test)]
mod tests;
