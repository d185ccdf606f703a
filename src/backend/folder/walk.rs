//! What is in a folder.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::stage::is_temporary;
use super::{Folder, FolderError, InTheWay, Stat};
use crate::domain::secret::{OWN, RelativePath, SkipReason, relative};

/// Something in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A file.
    File {
        /// Which, and its key.
        path: RelativePath,
        /// What it is like.
        stat: Stat,
    },
    /// What is neither a file nor a folder: it is not followed, opened or counted.
    Odd {
        /// Which, safe to show.
        path: String,
        /// What it is.
        what: InTheWay,
    },
    /// A file whose name can be no key.
    Unnamable {
        /// Which, safe to show.
        path: String,
        /// Why. None: its name is no UTF-8.
        reason: Option<SkipReason>,
    },
}

impl Folder {
    /// Shows all that is in the folder to `visit`, in no order; what is our own is left out. It holds no more than the names of the
    /// folders that are still to be looked into.
    ///
    /// # Errors
    /// When a folder cannot be read. What goes away meanwhile is no error.
    pub fn walk(&self, mut visit: impl FnMut(Found)) -> Result<(), FolderError> {
        self.each(|entry| {
            if let Some(found) = self.found(&entry) {
                visit(found);
            }
            Ok(())
        })
    }

    fn found(&self, entry: &Entry<'_>) -> Option<Found> {
        let place = |name: &str| self.place(&below(entry.folder, name));
        let Some(name) = entry.name else {
            return Some(Found::Unnamable {
                path: place(&String::from_utf8_lossy(entry.bytes)),
                reason: None,
            });
        };
        if is_temporary(name) {
            return None;
        }
        match entry.kind {
            FileType::RegularFile => match relative(&below(entry.folder, name)) {
                Ok(path) => Some(Found::File { path, stat: entry.stat }),
                Err(reason) => Some(Found::Unnamable { path: place(name), reason: Some(reason) }),
            },
            FileType::Directory => None,
            kind => Some(Found::Odd { path: place(name), what: InTheWay::from(kind) }),
        }
    }

    /// Everything in the folder but what is in our own.
    pub(super) fn each(
        &self,
        mut visit: impl FnMut(Entry<'_>) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        // Paths, not open folders: a key can be 512 folders deep.
        let mut pending = vec![String::new()];
        while let Some(folder) = pending.pop() {
            let Some(dir) = self.descend(&folder)? else { continue };
            let failed = |error: Errno| self.error("read", &folder, error.into());
            let mut entries = Dir::read_from(&dir).map_err(failed)?;
            while let Some(entry) = entries.read() {
                let entry = entry.map_err(failed)?;
                let bytes = entry.file_name().to_bytes();
                if matches!(bytes, b"." | b"..") || (folder.is_empty() && bytes == OWN.as_bytes()) {
                    continue;
                }
                let raw = match rustix::fs::statat(&dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(raw) => raw,
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(failed(error)),
                };
                let kind = FileType::from_raw_mode(raw.st_mode);
                let name = std::str::from_utf8(bytes).ok();
                if let (FileType::Directory, Some(name)) = (kind, name) {
                    pending.push(below(&folder, name));
                }
                visit(Entry { folder: &folder, dir: &dir, name, bytes, kind, stat: Stat::of(&raw) })?;
            }
        }
        Ok(())
    }

    /// A folder below this one by its path, through no link. None: it is not there (any more).
    fn descend(&self, folder: &str) -> Result<Option<OwnedFd>, FolderError> {
        let mut dir = self.root()?;
        for part in folder.split('/').filter(|part| !part.is_empty()) {
            match self.step(&dir, part, folder) {
                Ok(Some(next)) => dir = next,
                // It was a folder a moment ago.
                Ok(None) | Err(FolderError::InTheWay { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(dir))
    }
}

/// Something in a folder.
pub(super) struct Entry<'a> {
    /// The path of the folder that it is in.
    pub(super) folder: &'a str,
    pub(super) dir: &'a OwnedFd,
    /// Its name, where that is text.
    pub(super) name: Option<&'a str>,
    pub(super) bytes: &'a [u8],
    pub(super) kind: FileType,
    pub(super) stat: Stat,
}

fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
