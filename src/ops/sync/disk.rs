//! What is remembered of the folder, and what is in it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::folder::{Folder, FolderError, Stamp, Writer};
use crate::domain::manifest::{Here, Listing, Memory, Scope, SyncPlan, Taken};
use crate::domain::secret::RelativePath;

use super::{MEMORY, SyncError, SyncProblem};

/// What is remembered: on disk, and while we run.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) memory: Memory,
    /// Files that were seen to be as they are remembered, in that state.
    stamps: HashMap<RelativePath, Stamp>,
    /// Something is remembered otherwise than it is written.
    unsaved: bool,
}

impl Disk {
    pub(super) fn new(memory: Memory) -> Self {
        Self { memory, stamps: HashMap::new(), unsaved: false }
    }

    /// Makes a round's plan. Every file is looked at; read are only those that are not known to be as they were.
    pub(super) async fn plan(
        &mut self,
        writer: &Arc<Writer>,
        listing: Listing,
        scope: &Scope,
    ) -> Result<(SyncPlan, Vec<SyncProblem>), SyncError> {
        let bucket = self.memory.bucket().to_owned();
        let mut disk = std::mem::replace(self, Self::new(Memory::new(&bucket)));
        let (writer, scope) = (Arc::clone(writer), scope.clone());
        let work = move || {
            let mut problems = Vec::new();
            let Self { memory, stamps, .. } = &mut disk;
            let plan = SyncPlan::new(listing, &scope, memory, |path, taken| {
                here(&writer, stamps, path, taken).unwrap_or_else(|error| {
                    problems.push(SyncProblem::new(Some(&taken.key), &error));
                    // It is left to writing it to say whether that can be mended.
                    Here::Altered
                })
            });
            (disk, plan, problems)
        };
        let (disk, plan, problems) = tokio::task::spawn_blocking(work).await?;
        *self = disk;
        Ok((plan, problems))
    }

    pub(super) fn remember(&mut self, path: RelativePath, taken: Taken, stamp: Option<Stamp>) {
        match stamp {
            Some(stamp) => drop(self.stamps.insert(path.clone(), stamp)),
            None => drop(self.stamps.remove(&path)),
        }
        self.memory.remember(path, taken);
        self.unsaved = true;
    }

    pub(super) fn forget(&mut self, path: &RelativePath) {
        self.stamps.remove(path);
        self.memory.forget(path);
        self.unsaved = true;
    }

    /// Whether the operator's command is to be told of a change.
    pub(super) fn command_due(&mut self, due: bool) {
        self.unsaved |= self.memory.command_due != due;
        self.memory.command_due = due;
    }

    /// Writes what is remembered, if that changed, after everything that it says is on the disk.
    pub(super) async fn save(&mut self, writer: &Arc<Writer>) -> Result<(), SyncError> {
        if !self.unsaved {
            return Ok(());
        }
        let folder = || writer.folder().path().display().to_string();
        let bytes = self.memory.to_json().map_err(|error| SyncError::Memory { folder: folder(), error })?;
        let writer = Arc::clone(writer);
        let work = move || writer.settle().and_then(|()| writer.write_own(MEMORY, &bytes));
        tokio::task::spawn_blocking(work).await??;
        self.unsaved = false;
        Ok(())
    }
}

/// What is in a file's place.
fn here(
    writer: &Writer,
    stamps: &mut HashMap<RelativePath, Stamp>,
    path: &RelativePath,
    taken: &Taken,
) -> Result<Here, FolderError> {
    let folder: &Folder = writer.folder();
    let stat = match folder.stat(path) {
        Ok(Some(stat)) => stat,
        Ok(None) => return Ok(Here::Missing),
        // Somebody put something else there: writing the file says what.
        Err(FolderError::InTheWay { .. }) => return Ok(Here::Altered),
        Err(error) => return Err(error),
    };
    if stamps.get(path) == Some(&stat.stamp) {
        return Ok(Here::AsTaken);
    }
    stamps.remove(path);
    if stat.size != taken.size {
        return Ok(Here::Altered);
    }
    match folder.hash(path)? {
        None => Ok(Here::Missing),
        Some((fact, _)) if fact.sha256 != taken.sha256 => Ok(Here::Altered),
        Some((_, stamp)) => {
            // Somebody may have opened it to others: then it is read once more in the next round.
            if !writer.tighten(path)? {
                stamps.insert(path.clone(), stamp);
            }
            Ok(Here::AsTaken)
        }
    }
}
