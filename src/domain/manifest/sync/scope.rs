//! Which part of a bucket a node takes.

use std::fmt;

use crate::domain::manifest::STATUS_PREFIX;
use crate::domain::secret::{Area, SkipReason, relative, shown};

/// A folder of the bucket, with its slash at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(String);

/// Why a part of a bucket cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Nothing is named.
    #[error("no folder of the bucket is named: give a PREFIX, such as `manifests`")]
    None,
    /// It can be no folder.
    #[error("{} is no folder of a bucket: {reason}", shown(.prefix))]
    Wrong {
        /// What was given.
        prefix: String,
        /// Why.
        reason: SkipReason,
    },
    /// It never goes to a node.
    #[error("{0} never leaves for a node: name another folder of the bucket")]
    Locked(Prefix),
    /// What the nodes say of themselves.
    #[error("{0} is where the nodes say what they have: name another folder of the bucket")]
    Status(Prefix),
    /// One is in another.
    #[error("{inner} is in {outer}: name only one of them")]
    Within {
        /// The one inside.
        inner: Prefix,
        /// The other.
        outer: Prefix,
    },
    /// Names without their folder could be the same.
    #[error(
        "--strip takes the folder's name from the files, and of {0} folders files could become the same: name one folder, or leave --strip out"
    )]
    Strip(usize),
}

impl Prefix {
    /// Reads `manifests` or `manifests/`.
    ///
    /// # Errors
    /// When it can be no folder, or is one that no node takes.
    pub fn parse(text: &str) -> Result<Self, PrefixError> {
        let folder = text.strip_suffix('/').unwrap_or(text);
        if let Err(reason) = relative(folder) {
            // A second slash at the end, too.
            let reason = if reason == SkipReason::Marker { SkipReason::EmptyPart } else { reason };
            return Err(PrefixError::Wrong { prefix: text.to_owned(), reason });
        }
        let prefix = Self(format!("{folder}/"));
        if !Area::of(&prefix.0).may_leave_for_nodes() {
            return Err(PrefixError::Locked(prefix));
        }
        if prefix.0.starts_with(STATUS_PREFIX) || STATUS_PREFIX.starts_with(&prefix.0) {
            return Err(PrefixError::Status(prefix));
        }
        Ok(prefix)
    }

    /// It, as S3 wants it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a key is in it.
    #[must_use]
    pub fn holds(&self, key: &str) -> bool {
        key.starts_with(&self.0)
    }
}

impl fmt::Display for Prefix {
    /// As [`shown`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// The folders that a node takes, none inside another, and how its files are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    prefixes: Vec<Prefix>,
    strip: bool,
}

impl Scope {
    /// Takes these folders. With `strip`, files are named without the folder: `manifests/a.yaml` is `a.yaml`.
    ///
    /// # Errors
    /// When there is none, one is inside another, or names could be the same.
    pub fn new(mut prefixes: Vec<Prefix>, strip: bool) -> Result<Self, PrefixError> {
        prefixes.sort();
        prefixes.dedup();
        // Sorted, what is inside another comes behind it, with nothing but others inside between.
        for (outer, inner) in prefixes.iter().zip(prefixes.iter().skip(1)) {
            if outer.holds(inner.as_str()) {
                return Err(PrefixError::Within { inner: inner.clone(), outer: outer.clone() });
            }
        }
        match prefixes.len() {
            0 => Err(PrefixError::None),
            count if strip && count > 1 => Err(PrefixError::Strip(count)),
            _ => Ok(Self { prefixes, strip }),
        }
    }

    /// The folders, sorted.
    #[must_use]
    pub fn prefixes(&self) -> &[Prefix] {
        &self.prefixes
    }

    /// Whether files are named without the folder.
    #[must_use]
    pub fn strips(&self) -> bool {
        self.strip
    }

    /// The folder that a key is in.
    #[must_use]
    pub fn prefix_of(&self, key: &str) -> Option<&Prefix> {
        self.prefixes.iter().find(|prefix| prefix.holds(key))
    }

    /// What a key is to be called on disk.
    #[must_use]
    pub fn name<'a>(&self, key: &'a str) -> &'a str {
        let stripped = || key.strip_prefix(self.prefix_of(key)?.as_str());
        if self.strip { stripped().unwrap_or(key) } else { key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(prefixes: &[&str], strip: bool) -> Result<Scope, PrefixError> {
        Scope::new(prefixes.iter().map(|text| Prefix::parse(text)).collect::<Result<_, _>>()?, strip)
    }

    #[test]
    fn a_prefix_is_a_folder_that_a_node_may_take() {
        for good in ["manifests", "manifests/", "secure/etcd", "lockedx", "statuses", "ü"] {
            assert_eq!(
                Prefix::parse(good).unwrap().as_str().trim_end_matches('/'),
                good.trim_end_matches('/')
            );
        }
        for wrong in ["", "/", "a//", "/a", "../a", "a/../b", "a\0", ".hostwright"] {
            assert!(matches!(Prefix::parse(wrong), Err(PrefixError::Wrong { .. })), "{wrong}");
        }
        for locked in ["locked", "locked/", "locked/a"] {
            assert!(matches!(Prefix::parse(locked), Err(PrefixError::Locked(_))), "{locked}");
        }
        for status in ["status", "status/sync/", "status/sync/x"] {
            assert!(matches!(Prefix::parse(status), Err(PrefixError::Status(_))), "{status}");
        }
        assert!(!Prefix::parse("common").unwrap().holds("commons/x"));
    }

    #[test]
    fn folders_lie_beside_each_other_and_their_names_stay_apart() {
        let error = |prefixes: &[&str], strip| scope(prefixes, strip).unwrap_err();
        assert_eq!(error(&[], false), PrefixError::None);
        assert!(matches!(error(&["a/b", "x", "a"], false), PrefixError::Within { .. }));
        assert!(matches!(error(&["a", "a/b/c", "a/b"], false), PrefixError::Within { .. }));
        assert_eq!(error(&["a", "b"], true), PrefixError::Strip(2));
        let two = scope(&["b", "a/", "a", "a-b"], false).unwrap();
        assert_eq!(two.prefixes().len(), 3);
        assert_eq!((two.name("a/x"), two.prefix_of("c/x")), ("a/x", None));
        assert_eq!(scope(&["a"], true).unwrap().name("a/b/x"), "b/x");
    }
}
