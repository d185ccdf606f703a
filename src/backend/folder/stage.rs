//! A file that is being written, under a temporary name beside its place.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::writer::Over;
use super::{FILE, Folder, FolderError, Stamp, Stat, TEMPORARY};
use crate::domain::secret::{Checksum, LocalFact, RelativePath};

/// A file that is being written. Dropped, it is gone, and what was in its place is as it was.
#[derive(Debug)]
#[must_use = "dropped, nothing was written"]
pub struct Staged {
    folder: Folder,
    dir: OwnedFd,
    path: RelativePath,
    temporary: String,
    file: File,
    hasher: Sha256,
    size: u64,
    /// Whether the temporary name is (still) there.
    there: bool,
}

impl Staged {
    /// `dir` is the folder that the file is to be in.
    pub(super) fn new(folder: Folder, dir: OwnedFd, path: RelativePath) -> Result<Self, FolderError> {
        let (temporary, file) =
            temporary(&dir).map_err(|error| folder.error("write", path.as_str(), error.into()))?;
        Ok(Self { folder, dir, path, temporary, file, hasher: Sha256::new(), size: 0, there: true })
    }

    /// How many bytes were written.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What was written until now.
    #[must_use]
    pub fn fact(&self) -> LocalFact {
        let sha256 = Checksum::from(<[u8; 32]>::from(self.hasher.clone().finalize()));
        LocalFact { size: self.size, sha256 }
    }

    /// Puts it in its place: written out to the disk, renamed, and the renaming written out.
    ///
    /// # Errors
    /// When what is in its place is not what `over` allows, or the disk fails. What was there is as it was then.
    pub fn commit(self, over: Over) -> Result<(LocalFact, Stamp), FolderError> {
        let (folder, path) = (self.folder.clone(), self.path.clone());
        let dir = self.dir.try_clone().map_err(|error| folder.error("write", path.as_str(), error))?;
        let done = self.place(over)?;
        rustix::fs::fsync(&dir).map_err(|error| folder.error("write", path.as_str(), error.into()))?;
        Ok(done)
    }

    /// As [`Staged::commit`], but the renaming is not waited for: for many files, with one [`super::Writer::settle`] at the end.
    ///
    /// # Errors
    /// As [`Staged::commit`].
    pub fn place(mut self, over: Over) -> Result<(LocalFact, Stamp), FolderError> {
        let (folder, path) = (self.folder.clone(), self.path.clone());
        let failed = |error: io::Error| folder.error("write", path.as_str(), error);
        self.file.flush().and_then(|()| self.file.sync_all()).map_err(failed)?;
        over.allows(&folder, &path, folder.regular(&self.dir, &path)?)?;
        rustix::fs::renameat(&self.dir, &self.temporary, &self.dir, path.name())
            .map_err(|error| failed(error.into()))?;
        self.there = false;
        let raw = rustix::fs::fstat(&self.file).map_err(|error| failed(error.into()))?;
        let sha256 = Checksum::from(<[u8; 32]>::from(std::mem::take(&mut self.hasher).finalize()));
        Ok((LocalFact { size: self.size, sha256 }, Stat::of(&raw).stamp))
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.there {
            // What stays is swept by the next writer.
            rustix::fs::unlinkat(&self.dir, &self.temporary, AtFlags::empty()).ok();
        }
    }
}

/// A new file that nobody else may read, in a folder.
pub(super) fn temporary(dir: &OwnedFd) -> Result<(String, File), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(|_| Errno::IO)?;
        let name = format!("{TEMPORARY}{}", data_encoding::HEXLOWER.encode(&random));
        match rustix::fs::openat(dir, &name, flags, FILE) {
            Ok(file) => {
                // The process may be told to give less.
                rustix::fs::fchmod(&file, FILE)?;
                return Ok((name, File::from(file)));
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a name is one that [`temporary`] gives.
pub(super) fn is_temporary(name: &str) -> bool {
    let random = name.strip_prefix(TEMPORARY);
    random.is_some_and(|random| random.len() == 24 && random.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A folder's mode for others and its group.
pub(super) const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);
