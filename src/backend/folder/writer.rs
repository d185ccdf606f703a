//! Who may write to a folder: one at a time.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::stage::{self, OTHERS, Staged, is_temporary};
use super::{DIR, FILE, Folder, FolderError, Stamp, Stat, folders, upto};
use crate::config::Permit;
use crate::domain::secret::{OWN, RelativePath, shown};

/// The file whose lock is the right to write.
const LOCK: &str = "lock";

/// What may be in a file's place when it is written or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Any file, or none.
    Anything,
    /// None.
    Nothing,
    /// The file as it was looked at, and no other.
    This(Stamp),
}

impl Over {
    pub(super) fn allows(
        self,
        folder: &Folder,
        path: &RelativePath,
        there: Option<Stat>,
    ) -> Result<(), FolderError> {
        let right = match (self, there) {
            (Self::Anything, _) | (Self::Nothing, None) => true,
            (Self::This(stamp), Some(there)) => stamp == there.stamp,
            (Self::Nothing, Some(_)) | (Self::This(_), None) => false,
        };
        if right { Ok(()) } else { Err(FolderError::Changed(folder.place(path.as_str()))) }
    }
}

/// The right to write to a folder: no other process has it meanwhile. It goes with the process, however that ends.
#[derive(Debug)]
pub struct Writer {
    folder: Folder,
    own: OwnedFd,
    /// Locked.
    lock: File,
}

impl Folder {
    /// Takes the right to write. `doing` is what others are told meanwhile, such as `secrets fetch`.
    ///
    /// # Errors
    /// When somebody else has it, or our own folder in it cannot be used.
    pub fn writer(&self, _: &Permit, doing: &str) -> Result<Writer, FolderError> {
        let own = self.make_step(&self.inner.root, OWN, OWN)?;
        self.tells_letters_apart()?;
        let shown_lock = format!("{OWN}/{LOCK}");
        let failed = |error: std::io::Error| self.error("lock", &shown_lock, error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = match rustix::fs::openat(&own, LOCK, flags, FILE) {
            Ok(lock) => lock,
            Err(Errno::LOOP | Errno::ISDIR) => return Err(self.in_the_way(&own, LOCK, &shown_lock)),
            Err(error) => return Err(failed(error.into())),
        };
        let mut lock = File::from(lock);
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(FolderError::Locked { path: self.inner.path.clone(), by: holder(&mut lock) });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let who = format!("process {} ({doing})\n", std::process::id());
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(who.as_bytes()))
            .map_err(failed)?;
        Ok(Writer { folder: self.clone(), own, lock })
    }

    /// Refuses a file system where `A` and `a` are one file: our own folder has small letters only.
    fn tells_letters_apart(&self) -> Result<(), FolderError> {
        let look = |name: &str| rustix::fs::statat(&self.inner.root, name, AtFlags::empty());
        let same = match (look(OWN), look(&OWN.to_uppercase())) {
            (Ok(small), Ok(large)) => (small.st_dev, small.st_ino) == (large.st_dev, large.st_ino),
            _ => false,
        };
        if same { Err(FolderError::CaseBlind(self.inner.path.clone())) } else { Ok(()) }
    }

    /// One folder down, made if need be, through no link.
    fn make_step(&self, dir: &OwnedFd, part: &str, shown: &str) -> Result<OwnedFd, FolderError> {
        loop {
            if let Some(next) = self.step(dir, part, shown)? {
                return Ok(next);
            }
            match rustix::fs::mkdirat(dir, part, DIR) {
                // Somebody may have made it in between, or taken it away again.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(self.error("make the folder", shown, error.into())),
            }
        }
    }
}

/// What the holder wrote into the lock.
fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    lock.take(200).read_to_string(&mut text).ok();
    match text.trim() {
        "" => "another process".to_owned(),
        text => shown(text),
    }
}

impl Writer {
    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Begins a file. Folders on the way are made, for their owner alone.
    ///
    /// # Errors
    /// When something that is no file is in its place, or no folder on the way, or it cannot be written.
    pub fn stage(&self, path: &RelativePath) -> Result<Staged, FolderError> {
        let mut dir = self.folder.root()?;
        for (depth, part) in folders(path).enumerate() {
            dir = self.folder.make_step(&dir, part, &upto(path, depth))?;
        }
        self.folder.regular(&dir, path)?;
        Staged::new(self.folder.clone(), dir, path.clone())
    }

    /// Removes a file, and the folders that are empty then. Whether there was one.
    ///
    /// # Errors
    /// When it is not what `over` allows, something else is in its place, or it cannot be removed.
    pub fn remove(&self, path: &RelativePath, over: Over) -> Result<bool, FolderError> {
        let Some(dir) = self.folder.parent(path)? else { return Ok(false) };
        let there = self.folder.regular(&dir, path)?;
        if there.is_none() {
            return Ok(false);
        }
        over.allows(&self.folder, path, there)?;
        match rustix::fs::unlinkat(&dir, path.name(), AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(self.folder.error("remove", path.as_str(), error.into())),
        }
        drop(dir);
        self.prune(path);
        Ok(true)
    }

    /// Removes the folders of a path that are empty, the innermost first. One that is not is where it ends.
    fn prune(&self, path: &RelativePath) {
        let parts: Vec<&str> = folders(path).collect();
        for depth in (0..parts.len()).rev() {
            let (above, part) =
                (parts.get(..depth).unwrap_or_default(), parts.get(depth).copied().unwrap_or_default());
            let walked = above.iter().try_fold(self.folder.root().ok(), |dir, part| {
                let dir = dir?;
                self.folder.step(&dir, part, part).ok().flatten().map(Some)
            });
            let Some(Some(dir)) = walked else { return };
            if rustix::fs::unlinkat(&dir, part, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }

    /// Takes a file from everybody but its owner (0600). Whether that was needed.
    ///
    /// # Errors
    /// When there is none, or it is not ours.
    pub fn tighten(&self, path: &RelativePath) -> Result<bool, FolderError> {
        let failed = |error: Errno| self.folder.error("take from others", path.as_str(), error.into());
        let (file, stat) = self.folder.reader(path)?.ok_or_else(|| failed(Errno::NOENT))?;
        let needed = Mode::from_raw_mode(stat.mode).intersects(OTHERS.union(Mode::XUSR));
        if needed {
            rustix::fs::fchmod(&file, FILE).map_err(failed)?;
        }
        Ok(needed)
    }

    /// Writes a file of our own, such as what is remembered of the folder: whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written; an earlier one is as it was then.
    pub fn write_own(&self, name: &'static str, bytes: &[u8]) -> Result<(), FolderError> {
        let shown = format!("{OWN}/{name}");
        let write = || -> std::io::Result<()> {
            let (temporary, mut file) = stage::temporary(&self.own)?;
            let written = file.write_all(bytes).and_then(|()| file.sync_all());
            let renamed = written
                .and_then(|()| Ok(rustix::fs::renameat(&self.own, &temporary, &self.own, name)?))
                .and_then(|()| Ok(rustix::fs::fsync(&self.own)?));
            if renamed.is_err() {
                rustix::fs::unlinkat(&self.own, &temporary, AtFlags::empty()).ok();
            }
            renamed
        };
        write().map_err(|error| self.folder.error("write", &shown, error))
    }

    /// Waits until everything that was placed is on the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn settle(&self) -> Result<(), FolderError> {
        rustix::fs::syncfs(&self.folder.inner.root).map_err(|error| self.folder.root_error(error))
    }

    /// Removes the temporary files that killed writers left, and says how many there were. Call it first: it takes those of files
    /// that are just being written as well.
    ///
    /// # Errors
    /// When a folder cannot be read, or one of them cannot be removed.
    pub fn sweep(&self) -> Result<usize, FolderError> {
        let mut swept = self.sweep_own()?;
        self.folder.each(|entry| {
            let name = entry.name.filter(|name| is_temporary(name) && entry.kind == FileType::RegularFile);
            if let Some(name) = name {
                rustix::fs::unlinkat(entry.dir, name, AtFlags::empty())
                    .map_err(|error| self.folder.error("remove", name, error.into()))?;
                swept += 1;
            }
            Ok(())
        })?;
        Ok(swept)
    }

    fn sweep_own(&self) -> Result<usize, FolderError> {
        let failed = |error: Errno| self.folder.error("read", OWN, error.into());
        let mut swept = 0;
        for entry in rustix::fs::Dir::read_from(&self.own).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_str().is_ok_and(is_temporary) {
                rustix::fs::unlinkat(&self.own, entry.file_name(), AtFlags::empty()).map_err(failed)?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Who comes next must not read that we still hold it. The lock goes with the file.
        self.lock.set_len(0).ok();
    }
}
