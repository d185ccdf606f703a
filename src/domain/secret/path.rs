//! Which file a key is, below the folder: the same bytes, or none, with the reason.

use std::collections::BTreeSet;

use serde::Serialize;

use super::key::shown;

/// How long a key may be, in bytes (the limit of S3).
pub const KEY_LIMIT: usize = 1_024;
/// How long a file's name may be, in bytes (the limit of Linux).
pub const PART_LIMIT: usize = 255;
/// How names of our own begin: the folder with what is remembered, and files that are being written.
pub const OWN: &str = ".hostwright";

/// A path below the folder that names one file there, whatever the bytes are. Made by [`relative`] only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct RelativePath(String);

impl RelativePath {
    /// It, which is the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders and the file's name, from the top.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The file's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl std::fmt::Display for RelativePath {
    /// As [`shown`].
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// Why a key is no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum SkipReason {
    /// `dir/` of no size: other programs' way to keep an empty folder. Nothing is lost by it.
    #[error("it stands for a folder and holds nothing")]
    Marker,
    /// `dir/` that holds something.
    #[error("it ends with a slash and holds {size} bytes: a folder cannot hold them; give it another key")]
    FullMarker {
        /// How many bytes.
        size: u64,
    },
    /// The empty key.
    #[error("it is empty")]
    Empty,
    /// It begins with a slash.
    #[error("it begins with a slash: a file cannot, below a folder; give it another key")]
    LeadingSlash,
    /// Two slashes, one after the other.
    #[error(
        "it has two slashes, one after the other: on disk that is the same file as with one; give it another key"
    )]
    EmptyPart,
    /// A part is `.` or `..`.
    #[error("a part of it is . or .., which leads elsewhere; give it another key")]
    Dots,
    /// It holds a NUL.
    #[error("it holds a NUL, which no file's name can; give it another key")]
    Nul,
    /// A part is longer than a file's name.
    #[error("a part of it has {bytes} bytes, and a file's name has 255 at most; give it another key")]
    LongPart {
        /// How long it is.
        bytes: usize,
    },
    /// It is longer than a key.
    #[error("it has {bytes} bytes, and a key has 1,024 at most")]
    LongKey {
        /// How long it is.
        bytes: usize,
    },
    /// A name of our own.
    #[error(
        "a part of it begins with .hostwright, which is kept for Hostwright's own files; give it another key"
    )]
    Own,
    /// Another key needs a folder where this one's file would be.
    #[error("it would be a file where {} needs a folder; give one of the two another key", shown(.longer))]
    IsFolder {
        /// The other key.
        longer: String,
    },
    /// The listing had the same key before.
    #[error("the bucket listed it twice: list again")]
    Twice,
}

impl SkipReason {
    /// Whether nothing is lost: it needs no word, and no exit code but 0.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        *self == Self::Marker
    }
}

/// The file of a key: the same bytes; nothing is decoded or normalised.
///
/// # Errors
/// Why there is none.
pub fn relative(key: &str) -> Result<RelativePath, SkipReason> {
    let Some(folder) = key.strip_suffix('/') else {
        return parts(key).map(|()| RelativePath(key.to_owned()));
    };
    // What would be no folder either is said as that.
    parts(folder).and(Err(SkipReason::Marker))
}

fn parts(key: &str) -> Result<(), SkipReason> {
    if key.is_empty() {
        return Err(SkipReason::Empty);
    }
    if key.len() > KEY_LIMIT {
        return Err(SkipReason::LongKey { bytes: key.len() });
    }
    if key.contains('\0') {
        return Err(SkipReason::Nul);
    }
    if key.starts_with('/') {
        return Err(SkipReason::LeadingSlash);
    }
    key.split('/').try_for_each(|part| match part {
        "" => Err(SkipReason::EmptyPart),
        "." | ".." => Err(SkipReason::Dots),
        _ if part.len() > PART_LIMIT => Err(SkipReason::LongPart { bytes: part.len() }),
        _ if part.starts_with(OWN) => Err(SkipReason::Own),
        _ => Ok(()),
    })
}

/// What a listing is made of.
pub trait Listed {
    /// The exact key.
    fn key(&self) -> &str;
    /// The object's size in bytes.
    fn size(&self) -> u64;
}

/// An object that is no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skip {
    /// The exact key.
    pub key: String,
    /// Why.
    #[serde(flatten)]
    pub reason: SkipReason,
}

impl std::fmt::Display for Skip {
    /// The key as [`shown`], and the reason.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", shown(&self.key), self.reason)
    }
}

/// What a fetch writes and what it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<T> {
    /// Each object with its file, by key; no two of one file, and none where another needs a folder.
    pub files: Vec<(RelativePath, T)>,
    /// The others, by key, quiet ones too ([`SkipReason::is_quiet`]).
    pub skipped: Vec<Skip>,
}

impl<T> Plan<T> {
    /// What must be named.
    pub fn named(&self) -> impl Iterator<Item = &Skip> {
        self.skipped.iter().filter(|skip| !skip.reason.is_quiet())
    }
}

/// Sorts a complete listing into files and what is none.
///
/// Where a key is a file and, to another, a folder (`x` and `x/y`), the shorter one is skipped, in whatever order they came: so the
/// fewest are lost. It is kept where the longer one is no file for a reason of its own.
#[must_use]
pub fn plan<T: Listed>(listing: Vec<T>) -> Plan<T> {
    let mut plan = Plan { files: Vec::with_capacity(listing.len()), skipped: Vec::new() };
    for object in listing {
        match relative(object.key()) {
            Ok(path) => plan.files.push((path, object)),
            Err(SkipReason::Marker) if object.size() > 0 => {
                plan.skip(object.key(), SkipReason::FullMarker { size: object.size() });
            }
            Err(reason) => plan.skip(object.key(), reason),
        }
    }
    plan.files.sort_by(|one, other| one.0.cmp(&other.0));
    let names: BTreeSet<String> = plan.files.iter().map(|(path, _)| path.0.clone()).collect();
    let mut last: Option<RelativePath> = None;
    let files = std::mem::take(&mut plan.files);
    for (path, object) in files {
        let twice = last.as_ref() == Some(&path);
        if twice {
            plan.skip(path.as_str(), SkipReason::Twice);
            continue;
        }
        last = Some(path.clone());
        let below = format!("{}/", path.0);
        match names.range(below.clone()..).next().filter(|longer| longer.starts_with(&below)) {
            Some(longer) => plan.skip(path.as_str(), SkipReason::IsFolder { longer: longer.clone() }),
            None => plan.files.push((path, object)),
        }
    }
    plan.skipped.sort_by(|one, other| one.key.cmp(&other.key));
    plan
}

impl<T> Plan<T> {
    fn skip(&mut self, key: &str, reason: SkipReason) {
        self.skipped.push(Skip { key: key.to_owned(), reason });
    }
}

#[cfg(test)]
mod tests;
