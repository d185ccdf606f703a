//! A folder on this machine that is a copy of a bucket: names that others chose never lead out of it.
//!
//! Every path is walked from the folder down, one part at a time, and no symbolic link is followed on the way. A file is written under
//! a temporary name beside its place and renamed onto it; who is killed meanwhile leaves whole files, and temporary ones that the
//! next [`Writer`] sweeps. All of it blocks: call it where blocking is allowed.

mod error;
mod stage;
mod walk;
mod writer;

pub use error::{FolderError, InTheWay};
pub use stage::Staged;
pub use walk::Found;
pub use writer::{Over, Writer};

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat as RawStat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::config::Permit;
use crate::domain::secret::{Checksum, LocalFact, OWN, RelativePath};

/// Files are for their owner alone.
const FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// So are folders.
const DIR: Mode = Mode::RWXU;
/// How a temporary file's name begins.
const TEMPORARY: &str = ".hostwright-";
/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// The folder: a cheap handle, bound to the folder itself and not to its path.
#[derive(Debug, Clone)]
pub struct Folder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: OwnedFd,
    path: PathBuf,
}

/// Tells whether a file is still the one that was looked at, without reading it. A change shows unless it leaves the size and happens
/// within the same tick of the system's clock (4 ms at most on Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    changed: (i64, u64),
}

/// What is told of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Size in bytes.
    pub size: u64,
    /// When it was last written, in seconds since 1970.
    pub modified: i64,
    /// Its mode: whom it is open to.
    pub mode: u32,
    /// Which state of it this is.
    pub stamp: Stamp,
}

impl Stat {
    fn of(raw: &RawStat) -> Self {
        let stamp = Stamp {
            device: raw.st_dev,
            inode: raw.st_ino,
            size: raw.st_size,
            changed: (raw.st_ctime, raw.st_ctime_nsec),
        };
        let size = u64::try_from(raw.st_size).unwrap_or(0);
        Self { size, modified: raw.st_mtime, mode: raw.st_mode & 0o7777, stamp }
    }
}

impl Folder {
    /// Opens a folder that is there.
    ///
    /// # Errors
    /// When it is not, or is no folder.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(root) => Ok(Self { inner: Arc::new(Inner { root, path: path.to_owned() }) }),
            Err(Errno::NOENT) => Err(FolderError::NotThere(path.to_owned())),
            Err(error) => Err(FolderError::Root { path: path.to_owned(), error: error.into() }),
        }
    }

    /// Opens a folder, and makes it if need be, for its owner alone (0700). The mode of one that is there stays.
    ///
    /// # Errors
    /// When it cannot be made or opened.
    pub fn create(_: &Permit, path: &Path) -> Result<Self, FolderError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| FolderError::Root { path: path.to_owned(), error })?;
        Self::open(path)
    }

    /// Where it is, as it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The folder's mode, when others than its owner may enter it: a reason to warn.
    ///
    /// # Errors
    /// When the folder cannot be looked at.
    pub fn open_to_others(&self) -> Result<Option<u32>, FolderError> {
        let raw = rustix::fs::fstat(&self.inner.root).map_err(|error| self.root_error(error))?;
        Ok(Some(raw.st_mode & 0o7777).filter(|mode| mode & 0o077 != 0))
    }

    /// What a file is like. None: there is none.
    ///
    /// # Errors
    /// When something else is in its place or on the way, or it cannot be looked at.
    pub fn stat(&self, path: &RelativePath) -> Result<Option<Stat>, FolderError> {
        let Some(dir) = self.parent(path)? else { return Ok(None) };
        self.regular(&dir, path)
    }

    /// A file's content. None: there is none.
    ///
    /// # Errors
    /// When it is larger than `limit` bytes, something else is in its place or on the way, or it cannot be read.
    pub fn read(&self, path: &RelativePath, limit: u64) -> Result<Option<Vec<u8>>, FolderError> {
        let Some(file) = self.open_file(path)? else { return Ok(None) };
        bounded(file, limit).map_err(|error| self.error("read", path.as_str(), error))?.map_or_else(
            || Err(FolderError::TooLarge { path: self.place(path.as_str()), limit }),
            |bytes| Ok(Some(bytes)),
        )
    }

    /// A file for reading, with what it is like: for an upload, which must read what was looked at. None: there is none.
    ///
    /// # Errors
    /// As [`Folder::read`].
    pub fn reader(&self, path: &RelativePath) -> Result<Option<(File, Stat)>, FolderError> {
        let Some(file) = self.open_file(path)? else { return Ok(None) };
        let raw =
            rustix::fs::fstat(&file).map_err(|error| self.error("read", path.as_str(), error.into()))?;
        Ok(Some((file, Stat::of(&raw))))
    }

    /// What a file is, read piece by piece, and which state of it that was. None: there is none.
    ///
    /// # Errors
    /// As [`Folder::read`]; also when it is being written meanwhile.
    pub fn hash(&self, path: &RelativePath) -> Result<Option<(LocalFact, Stamp)>, FolderError> {
        let Some((mut file, before)) = self.reader(path)? else { return Ok(None) };
        let failed = |error| self.error("read", path.as_str(), error);
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        let mut size = 0;
        loop {
            let count = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            hasher.update(buffer.get(..count).unwrap_or_default());
            size += count as u64;
        }
        let after = Stat::of(&rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?);
        if after.stamp != before.stamp {
            return Err(FolderError::Moving(self.place(path.as_str())));
        }
        let sha256 = Checksum::from(<[u8; 32]>::from(hasher.finalize()));
        Ok(Some((LocalFact { size, sha256 }, after.stamp)))
    }

    /// A file of our own in the folder, such as what is remembered of it. None: there is none.
    ///
    /// # Errors
    /// As [`Folder::read`].
    pub fn read_own(&self, name: &'static str, limit: u64) -> Result<Option<Vec<u8>>, FolderError> {
        let shown = format!("{OWN}/{name}");
        let Some(dir) = self.step(&self.inner.root, OWN, OWN)? else { return Ok(None) };
        let Some(file) = self.open_regular(&dir, name, &shown)? else { return Ok(None) };
        bounded(file, limit).map_err(|error| self.error("read", &shown, error))?.map_or_else(
            || Err(FolderError::TooLarge { path: self.place(&shown), limit }),
            |bytes| Ok(Some(bytes)),
        )
    }

    /// The folder that a file is in, if it is there.
    fn parent(&self, path: &RelativePath) -> Result<Option<OwnedFd>, FolderError> {
        let mut dir = self.root()?;
        for (depth, part) in folders(path).enumerate() {
            match self.step(&dir, part, &upto(path, depth))? {
                Some(next) => dir = next,
                None => return Ok(None),
            }
        }
        Ok(Some(dir))
    }

    fn root(&self) -> Result<OwnedFd, FolderError> {
        self.inner.root.try_clone().map_err(|error| self.root_error(error))
    }

    /// One folder down, through no link. None: it is not there.
    fn step(&self, dir: impl AsFd, part: &str, shown: &str) -> Result<Option<OwnedFd>, FolderError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&dir, part, flags, Mode::empty()) {
            Ok(next) => Ok(Some(next)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(self.in_the_way(&dir, part, shown)),
            Err(error) => Err(self.error("open", shown, error.into())),
        }
    }

    fn open_file(&self, path: &RelativePath) -> Result<Option<File>, FolderError> {
        let Some(dir) = self.parent(path)? else { return Ok(None) };
        self.open_regular(&dir, path.name(), path.as_str())
    }

    fn open_regular(&self, dir: &OwnedFd, name: &str, shown: &str) -> Result<Option<File>, FolderError> {
        // Without O_NONBLOCK a pipe would be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            // A link; a socket.
            Err(Errno::LOOP | Errno::NXIO) => return Err(self.in_the_way(dir, name, shown)),
            Err(error) => return Err(self.error("open", shown, error.into())),
        };
        let raw = rustix::fs::fstat(&file).map_err(|error| self.error("read", shown, error.into()))?;
        match FileType::from_raw_mode(raw.st_mode) {
            FileType::RegularFile => Ok(Some(File::from(file))),
            _ => Err(self.in_the_way(dir, name, shown)),
        }
    }

    /// What is in a file's place: the file, or nothing.
    fn regular(&self, dir: &OwnedFd, path: &RelativePath) -> Result<Option<Stat>, FolderError> {
        match rustix::fs::statat(dir, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) if FileType::from_raw_mode(raw.st_mode) == FileType::RegularFile => {
                Ok(Some(Stat::of(&raw)))
            }
            Ok(_) => Err(self.in_the_way(dir, path.name(), path.as_str())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.error("look at", path.as_str(), error.into())),
        }
    }

    fn in_the_way(&self, dir: impl AsFd, name: &str, shown: &str) -> FolderError {
        let kind = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|raw| FileType::from_raw_mode(raw.st_mode))
            .unwrap_or(FileType::Unknown);
        FolderError::InTheWay { path: self.place(shown), what: InTheWay::from(kind) }
    }

    /// Where something below the folder is, for people.
    fn place(&self, below: &str) -> String {
        let root = self.inner.path.to_string_lossy();
        crate::domain::secret::shown(&format!("{}/{below}", root.trim_end_matches('/')))
    }

    fn error(&self, doing: &'static str, below: &str, error: std::io::Error) -> FolderError {
        FolderError::File { doing, path: self.place(below), error }
    }

    fn root_error(&self, error: impl Into<std::io::Error>) -> FolderError {
        FolderError::Root { path: self.inner.path.clone(), error: error.into() }
    }
}

/// The folders of a path, from the top.
fn folders(path: &RelativePath) -> impl Iterator<Item = &str> {
    let mut parts = path.parts();
    parts.next_back();
    parts
}

/// A path up to one of its folders, for people.
fn upto(path: &RelativePath, depth: usize) -> String {
    path.parts().take(depth + 1).collect::<Vec<_>>().join("/")
}

/// All of a file, unless it is larger than the limit.
fn bounded(file: File, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}

#[cfg(test)]
mod tests;
