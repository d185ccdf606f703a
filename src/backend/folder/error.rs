//! What can go wrong with a folder.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::fs::FileType;

/// What is where a file or a folder should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheWay {
    /// A symbolic link: they are never followed.
    Link,
    /// A folder.
    Folder,
    /// A file.
    File,
    /// A pipe, a socket, a device.
    Special,
}

impl From<FileType> for InTheWay {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::Symlink => Self::Link,
            FileType::Directory => Self::Folder,
            FileType::RegularFile => Self::File,
            _ => Self::Special,
        }
    }
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "a symbolic link, which is not followed",
            Self::Folder => "a folder",
            Self::File => "a file",
            Self::Special => "neither a file nor a folder",
        })
    }
}

/// Why something about a folder did not work. Paths in it are safe to show.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no such folder.
    #[error("there is no folder {}: fetch into it first", .0.display())]
    NotThere(PathBuf),
    /// The folder itself.
    #[error("cannot use the folder {}: {error}", path.display())]
    Root {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Something in it.
    #[error("cannot {doing} {path}: {error}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// Which.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// Something else is where it should be.
    #[error("{path} is {what}: move it away")]
    InTheWay {
        /// Which.
        path: String,
        /// What it is.
        what: InTheWay,
    },
    /// A file is larger than was asked for.
    #[error("{path} is larger than {limit} bytes")]
    TooLarge {
        /// Which.
        path: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A file was written while it was read.
    #[error("{0} is being written: try again when that is done")]
    Moving(String),
    /// A file is not what it was when it was looked at.
    #[error("{0} was changed meanwhile: it was left as it is; try again")]
    Changed(String),
    /// Somebody else writes to the folder.
    #[error("{} is being written by {by}: wait until that is done", path.display())]
    Locked {
        /// Which folder.
        path: PathBuf,
        /// Who.
        by: String,
    },
    /// The folder is on a file system that takes two names for one.
    #[error(
        "{} is on a file system that takes large and small letters for the same: two secrets could become one file there; choose another folder",
        .0.display()
    )]
    CaseBlind(PathBuf),
}
