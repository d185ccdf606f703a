//! What a round does: from the bucket, what is remembered, and what is on disk.

use std::collections::BTreeSet;

use serde::Serialize;

use super::listing::Listing;
use super::memory::{Memory, Taken};
use super::scope::Scope;
use crate::domain::bucket::Object;
use crate::domain::secret::{Area, Listed, RelativePath, Skip, SkipReason, plan, shown};

/// What is in a file's place, beside what is remembered of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// What was written there.
    AsTaken,
    /// Something else: somebody altered it.
    Altered,
    /// Nothing.
    Missing,
}

/// Why a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It was not taken before.
    New,
    /// The object changed.
    Changed,
    /// The file was altered here: it is put back.
    Altered,
    /// The file was removed here: it is put back.
    Missing,
}

impl Why {
    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Altered => "altered here, put back",
            Self::Missing => "removed here, put back",
        }
    }
}

/// A file that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Where.
    pub path: RelativePath,
    /// Of what.
    pub object: Object,
    /// Why.
    pub why: Why,
}

/// A file that is to be removed: it was taken, and its object is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Which.
    pub path: RelativePath,
    /// What was taken.
    pub taken: Taken,
}

/// Why an object does not become a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftReason {
    /// Its key is no file.
    #[error(transparent)]
    NoFile(#[from] SkipReason),
    /// It never goes to a node.
    #[error("it never leaves for a node")]
    Locked,
}

/// An object that does not become a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The exact key.
    pub key: String,
    /// Why.
    pub reason: LeftReason,
}

impl std::fmt::Display for Left {
    /// The key as [`shown`], and the reason.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", shown(&self.key), self.reason)
    }
}

/// What is about to happen to a file, for those who are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It is written.
    Write(Why),
    /// It is removed.
    Remove,
}

/// What a round does, in this order: removals first, since a file may be where a folder is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncPlan {
    /// Files that go, by path.
    pub removals: Vec<Removal>,
    /// Files that are written, by path.
    pub transfers: Vec<Transfer>,
    /// How many files are as they should be.
    pub kept: usize,
    /// Objects that are no files, by key; those of which nothing is lost are not named.
    pub left: Vec<Left>,
}

/// An object under the name that it has on disk.
struct Named {
    object: Object,
    name: String,
}

impl Listed for Named {
    fn key(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.object.size
    }
}

impl SyncPlan {
    /// Makes the plan. `here` is asked once for each file that is remembered and listed.
    ///
    /// A file is removed only if it was taken before and the folder of the bucket that it came from was listed to its end; one of a folder
    /// that is not asked for any more, when all others were.
    pub fn new(
        listing: Listing,
        scope: &Scope,
        memory: &Memory,
        mut here: impl FnMut(&RelativePath, &Taken) -> Here,
    ) -> Self {
        let complete = listing.completed();
        let all_complete = scope.prefixes().iter().all(|prefix| complete.contains(prefix));
        let mut made = Self::default();
        let mut named = Vec::with_capacity(listing.len());
        for object in listing.into_objects() {
            if Area::of(&object.key).may_leave_for_nodes() {
                named.push(Named { name: scope.name(&object.key).to_owned(), object });
            } else {
                made.left.push(Left { key: object.key, reason: LeftReason::Locked });
            }
        }
        let planned = plan(named);
        made.leave(scope, planned.named());
        let mut wanted = BTreeSet::new();
        for (path, Named { object, .. }) in planned.files {
            wanted.insert(path.clone());
            match why(memory.get(&path), &object, |taken| here(&path, taken)) {
                Some(why) => made.transfers.push(Transfer { path, object, why }),
                None => made.kept += 1,
            }
        }
        let gone = |taken: &Taken| match scope.prefix_of(&taken.key) {
            Some(prefix) => complete.contains(prefix),
            None => all_complete,
        };
        let removals = memory.iter().filter(|(path, taken)| !wanted.contains(*path) && gone(taken));
        made.removals
            .extend(removals.map(|(path, taken)| Removal { path: path.clone(), taken: taken.clone() }));
        made
    }

    fn leave<'a>(&mut self, scope: &Scope, skipped: impl Iterator<Item = &'a Skip>) {
        for skip in skipped {
            // Where the folder's name was taken off there is one folder only.
            let taken_off = scope.prefixes().first().filter(|_| scope.strips());
            let key = format!("{}{}", taken_off.map_or("", |prefix| prefix.as_str()), skip.key);
            self.left.push(Left { key, reason: LeftReason::NoFile(skip.reason.clone()) });
        }
    }

    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.removals.is_empty() && self.transfers.is_empty()
    }
}

/// Why a file is to be written. None: it is as it should be.
fn why(taken: Option<&Taken>, object: &Object, here: impl FnOnce(&Taken) -> Here) -> Option<Why> {
    let Some(taken) = taken.filter(|taken| !taken.is_pending()) else { return Some(Why::New) };
    let same = taken.key == object.key && taken.etag == object.etag && taken.size == object.size;
    if !same {
        return Some(Why::Changed);
    }
    match here(taken) {
        Here::AsTaken => None,
        Here::Altered => Some(Why::Altered),
        Here::Missing => Some(Why::Missing),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scope::Prefix;
    use super::*;
    use crate::domain::secret::{Checksum, relative};

    fn scope(prefixes: &[&str], strip: bool) -> Scope {
        Scope::new(prefixes.iter().map(|text| Prefix::parse(text).unwrap()).collect(), strip).unwrap()
    }

    fn object(key: &str, etag: &str) -> Object {
        Object { key: key.into(), etag: etag.into(), size: 1, modified: None }
    }

    fn listing(scope: &Scope, objects: &[(&str, &str)], complete: &[&str]) -> Listing {
        let mut listing = Listing::default();
        for (key, etag) in objects {
            listing.add(scope.prefix_of(key).unwrap(), object(key, etag)).unwrap();
        }
        complete.iter().for_each(|prefix| listing.complete(&Prefix::parse(prefix).unwrap()));
        listing
    }

    fn memory(files: &[(&str, &str, &str)]) -> Memory {
        let mut memory = Memory::new("b");
        for (path, key, etag) in files {
            let taken = Taken {
                key: (*key).into(),
                etag: (*etag).into(),
                version_id: None,
                size: 1,
                sha256: Checksum::of(b"x"),
            };
            memory.remember(relative(path).unwrap(), taken);
        }
        memory
    }

    fn whys(plan: &SyncPlan) -> Vec<(&str, Why)> {
        plan.transfers.iter().map(|one| (one.path.as_str(), one.why)).collect()
    }

    fn removed(plan: &SyncPlan) -> Vec<&str> {
        plan.removals.iter().map(|one| one.path.as_str()).collect()
    }

    #[test]
    fn each_file_is_kept_written_or_removed() {
        let scope = scope(&["a"], false);
        let files = ["a/same", "a/changed", "a/altered", "a/missing", "a/gone"];
        let memory = memory(&files.map(|path| (path, path, "1")));
        let objects =
            [("a/same", "1"), ("a/changed", "2"), ("a/altered", "1"), ("a/missing", "1"), ("a/new", "1")];
        let listing = listing(&scope, &objects, &["a"]);
        let plan = SyncPlan::new(listing, &scope, &memory, |path, _| match path.name() {
            "altered" => Here::Altered,
            "missing" => Here::Missing,
            _ => Here::AsTaken,
        });
        let expected = [
            ("a/altered", Why::Altered),
            ("a/changed", Why::Changed),
            ("a/missing", Why::Missing),
            ("a/new", Why::New),
        ];
        assert_eq!(whys(&plan), expected);
        assert_eq!((plan.kept, removed(&plan)), (1, vec!["a/gone"]));
    }

    #[test]
    fn nothing_is_removed_because_of_a_listing_that_broke_off() {
        let scope = scope(&["a", "b"], false);
        let memory = memory(&[("a/x", "a/x", "1"), ("b/x", "b/x", "1"), ("c/x", "c/x", "1")]);
        let of = |complete: &[&str]| {
            SyncPlan::new(listing(&scope, &[("a/y", "1")], complete), &scope, &memory, |_, _| Here::AsTaken)
        };
        let nothing = of(&[]);
        assert_eq!((removed(&nothing).len(), whys(&nothing).len()), (0, 1));
        assert_eq!(removed(&of(&["b"])), ["b/x"]);
        assert_eq!(removed(&of(&["a", "b"])), ["a/x", "b/x", "c/x"], "c is not asked for any more");
    }

    #[test]
    fn what_can_be_no_file_is_named_by_its_key() {
        let scope = scope(&["m"], true);
        let objects = [("m/../x", "1"), ("m/d/", "1"), ("m/p", "1"), ("m/p/q", "1")];
        let plan = SyncPlan::new(
            listing(&scope, &objects, &["m"]),
            &scope,
            &memory(&[("p", "m/p", "1")]),
            |_, _| Here::AsTaken,
        );
        let left: Vec<&str> = plan.left.iter().map(|left| left.key.as_str()).collect();
        assert_eq!(left, ["m/../x", "m/d/", "m/p"]);
        assert_eq!(whys(&plan), [("p/q", Why::New)]);
        assert_eq!(removed(&plan), ["p"], "it is in the way of the folder");
    }

    proptest! {
        #[test]
        fn only_what_was_taken_goes_and_a_second_round_is_idle(
            there in proptest::collection::btree_map("[ab]/[xy]", "[12]", 0..5),
            before in proptest::collection::btree_map("[abc]/[xy]", "[12]", 0..6),
            complete in proptest::collection::vec(prop_oneof![Just("a"), Just("b")], 0..3),
        ) {
            let scope = scope(&["a", "b"], false);
            let objects: Vec<(&str, &str)> = there.iter().map(|(k, e)| (k.as_str(), e.as_str())).collect();
            let files: Vec<(&str, &str, &str)> =
                before.iter().map(|(k, e)| (k.as_str(), k.as_str(), e.as_str())).collect();
            let mut memory = memory(&files);
            let plan = SyncPlan::new(listing(&scope, &objects, &complete), &scope, &memory, |_, _| Here::AsTaken);
            for removal in &plan.removals {
                prop_assert!(before.contains_key(removal.path.as_str()) && !there.contains_key(removal.path.as_str()));
                memory.forget(&removal.path);
            }
            prop_assert_eq!(plan.kept + plan.transfers.len(), there.len());
            for Transfer { path, object, .. } in plan.transfers {
                let Object { key, etag, size, .. } = object;
                memory.remember(path, Taken { key, etag, version_id: None, size, sha256: Checksum::of(b"x") });
            }
            let again = SyncPlan::new(listing(&scope, &objects, &complete), &scope, &memory, |_, _| Here::AsTaken);
            prop_assert!(again.is_idle(), "{:?}", again);
        }
    }
}
