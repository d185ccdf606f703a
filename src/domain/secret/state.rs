//! What changed where: the file, the object, and what is remembered of the two.

use serde::Serialize;

use super::index::{Checksum, Known};

/// A file as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LocalFact {
    /// Size in bytes.
    pub size: u64,
    /// What it is.
    pub sha256: Checksum,
}

impl LocalFact {
    /// That of a content.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, sha256: Checksum::of(bytes) }
    }
}

/// An object as it is listed now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteFact {
    /// Its ETag, quotes and all.
    pub etag: String,
    /// Its version, where that is known: a listing does not say it.
    pub version_id: Option<String>,
    /// Size in bytes.
    pub size: u64,
}

/// What is to be said of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileState {
    /// File and object are as they were when they were the same.
    Same,
    /// The file was changed, the object was not.
    ChangedHere,
    /// The object was changed, the file was not.
    ChangedThere,
    /// Both were changed; or one was changed and the other removed; or the two are there, differ, and nothing is remembered.
    Both,
    /// Both are there, of one size, and nothing is remembered: only their content says whether they differ.
    Unsure,
    /// There is a file, and there never was an object that we know of.
    OnlyHere,
    /// There is an object, and there never was a file that we know of.
    OnlyThere,
    /// The file was removed, the object is as it was.
    RemovedHere,
    /// The object was removed, the file is as it was.
    RemovedThere,
    /// Neither is there (any more): nothing is to be remembered.
    Nowhere,
}

impl FileState {
    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::ChangedHere => "changed here",
            Self::ChangedThere => "changed there",
            Self::Both => "both",
            Self::Unsure => "both, not compared",
            Self::OnlyHere => "only here",
            Self::OnlyThere => "only there",
            Self::RemovedHere => "removed here",
            Self::RemovedThere => "removed there",
            Self::Nowhere => "nowhere",
        }
    }

    /// Whether a fetch may write the file: nothing that was changed here is lost by it.
    #[must_use]
    pub fn fetch_is_safe(self) -> bool {
        matches!(self, Self::OnlyThere | Self::ChangedThere | Self::RemovedHere)
    }

    /// Whether an upload may write the object (under the condition that it is still what was seen): nothing that was changed or
    /// removed there is lost by it.
    #[must_use]
    pub fn upload_is_safe(self) -> bool {
        matches!(self, Self::OnlyHere | Self::ChangedHere)
    }

    /// Whether somebody must decide.
    #[must_use]
    pub fn is_conflict(self) -> bool {
        matches!(self, Self::Both | Self::Unsure)
    }
}

/// What became of one side.
#[derive(PartialEq, Eq)]
enum Side {
    Same,
    Changed,
    Removed,
}

/// Compares what is remembered with what is. An ETag is compared with the remembered ETag alone: what it is made of is the server's
/// business. Versions are not compared: a listing has none, and without versioning they are all `null`.
#[must_use]
pub fn compare(known: Option<&Known>, local: Option<&LocalFact>, remote: Option<&RemoteFact>) -> FileState {
    let Some(known) = known else {
        return match (local, remote) {
            (None, None) => FileState::Nowhere,
            (Some(_), None) => FileState::OnlyHere,
            (None, Some(_)) => FileState::OnlyThere,
            (Some(local), Some(remote)) if local.size == remote.size => FileState::Unsure,
            (Some(_), Some(_)) => FileState::Both,
        };
    };
    let side = |now: Option<bool>| match now {
        None => Side::Removed,
        Some(true) => Side::Same,
        Some(false) => Side::Changed,
    };
    let here = side(local.map(|file| file.size == known.size && file.sha256 == known.sha256));
    let there = side(remote.map(|object| object.size == known.size && object.etag == known.etag));
    match (here, there) {
        (Side::Same, Side::Same) => FileState::Same,
        (Side::Changed, Side::Same) => FileState::ChangedHere,
        (Side::Same, Side::Changed) => FileState::ChangedThere,
        (Side::Removed, Side::Same) => FileState::RemovedHere,
        (Side::Same, Side::Removed) => FileState::RemovedThere,
        (Side::Removed, Side::Removed) => FileState::Nowhere,
        (Side::Changed, Side::Changed | Side::Removed) | (Side::Removed, Side::Changed) => FileState::Both,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn local(text: &str) -> LocalFact {
        LocalFact { size: text.len() as u64, sha256: Checksum::of(text.as_bytes()) }
    }

    fn remote(etag: &str, size: u64) -> RemoteFact {
        RemoteFact { etag: etag.into(), version_id: None, size }
    }

    fn known() -> Known {
        let LocalFact { size, sha256 } = local("old");
        Known { etag: "\"1\"".into(), version_id: Some("v1".into()), size, sha256, modified: None }
    }

    #[test]
    fn every_combination() {
        use FileState::{
            Both, ChangedHere, ChangedThere, Nowhere, OnlyHere, OnlyThere, RemovedHere, RemovedThere, Same,
            Unsure,
        };
        let here = [None, Some(local("old")), Some(local("new")), Some(local("longer"))];
        let there = [None, Some(remote("\"1\"", 3)), Some(remote("\"2\"", 3)), Some(remote("\"2\"", 9))];
        // A row for each file (none, as it was, changed, changed in size), a column for each object.
        let remembered = [
            [Nowhere, RemovedHere, Both, Both],
            [RemovedThere, Same, ChangedThere, ChangedThere],
            [Both, ChangedHere, Both, Both],
            [Both, ChangedHere, Both, Both],
        ];
        let forgotten = [
            [Nowhere, OnlyThere, OnlyThere, OnlyThere],
            [OnlyHere, Unsure, Unsure, Both],
            [OnlyHere, Unsure, Unsure, Both],
            [OnlyHere, Both, Both, Both],
        ];
        let table = |known: Option<&Known>| {
            here.map(|file| there.clone().map(|object| compare(known, file.as_ref(), object.as_ref())))
        };
        assert_eq!(table(Some(&known())), remembered);
        assert_eq!(table(None), forgotten);
    }

    #[test]
    fn an_etag_is_only_itself() {
        // The ETag is the MD5 of what the file is now; it is not the remembered one all the same.
        let md5_of_new = remote("\"22af645d1859cb5ca6da0c484f1f37ea\"", 3);
        assert_eq!(compare(Some(&known()), Some(&local("new")), Some(&md5_of_new)), FileState::Both);
        // Another size under one ETag is no answer to rely on.
        assert_eq!(
            compare(Some(&known()), Some(&local("old")), Some(&remote("\"1\"", 4))),
            FileState::ChangedThere
        );
    }

    proptest! {
        #[test]
        fn what_is_safe_loses_nothing(
            remembered in any::<bool>(),
            file in proptest::option::of("(old|new|x)"),
            object in proptest::option::of(("(\"1\"|\"2\")", 3u64..5)),
        ) {
            let known = remembered.then(known);
            let here = file.as_deref().map(local);
            let there = object.map(|(etag, size)| remote(&etag, size));
            let state = compare(known.as_ref(), here.as_ref(), there.as_ref());
            if state.fetch_is_safe() {
                let as_known = known.as_ref().map(|k| LocalFact { size: k.size, sha256: k.sha256 });
                prop_assert!(there.is_some() && (here.is_none() || here == as_known));
            }
            if state.upload_is_safe() {
                let unchanged = match (&known, &there) {
                    (None, None) => true,
                    (Some(known), Some(there)) => known.etag == there.etag,
                    _ => false,
                };
                prop_assert!(here.is_some() && unchanged);
            }
            let claims = [state.fetch_is_safe(), state.upload_is_safe(), state.is_conflict()];
            prop_assert!(claims.iter().filter(|claim| **claim).count() <= 1);
        }
    }
}
