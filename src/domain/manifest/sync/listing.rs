//! What the bucket holds, as far as it was listed.

use std::collections::BTreeSet;

use super::scope::Prefix;
use crate::domain::bucket::Object;
use crate::domain::secret::shown;

/// How much of a listing is held, in bytes: a quarter of a million objects with short keys. More is refused, and nothing is done then.
pub const LISTING_LIMIT: usize = 64 * 1024 * 1024;

/// What an object takes of memory, in bytes.
fn weight(object: &Object) -> usize {
    object.key.len() + object.etag.len() + size_of::<Object>()
}

/// Why a listing cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// It is too large.
    #[error(
        "the bucket holds more than a node takes ({count} objects are {LISTING_LIMIT} bytes of listing): name smaller folders of it"
    )]
    TooLarge {
        /// How many objects there were until then.
        count: usize,
    },
    /// It holds something that was not asked for.
    #[error("the bucket listed {} for {prefix}: this is not what was asked for", shown(.key))]
    Foreign {
        /// The key.
        key: String,
        /// The folder.
        prefix: Prefix,
    },
}

/// The objects of some folders, and which of these were listed to their end.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    objects: Vec<Object>,
    weight: usize,
    complete: BTreeSet<Prefix>,
}

impl Listing {
    /// Adds an object that was listed for a folder.
    ///
    /// # Errors
    /// When it was not asked for, or the listing becomes too large.
    pub fn add(&mut self, prefix: &Prefix, object: Object) -> Result<(), ListingError> {
        if !prefix.holds(&object.key) {
            return Err(ListingError::Foreign { key: object.key, prefix: prefix.clone() });
        }
        self.weight += weight(&object);
        if self.weight > LISTING_LIMIT {
            return Err(ListingError::TooLarge { count: self.objects.len() });
        }
        self.objects.push(object);
        Ok(())
    }

    /// The folder was listed to its end.
    pub fn complete(&mut self, prefix: &Prefix) {
        self.complete.insert(prefix.clone());
    }

    /// Whether a folder was listed to its end.
    #[must_use]
    pub fn is_complete(&self, prefix: &Prefix) -> bool {
        self.complete.contains(prefix)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects, in the order in which they were listed.
    pub(super) fn into_objects(self) -> Vec<Object> {
        self.objects
    }

    pub(super) fn completed(&self) -> BTreeSet<Prefix> {
        self.complete.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_or_is_too_much_is_refused() {
        let prefix = Prefix::parse("a").unwrap();
        let object = |key: String| Object { key, etag: "\"x\"".into(), size: 1, modified: None };
        let mut listing = Listing::default();
        assert!(matches!(listing.add(&prefix, object("b/x".into())), Err(ListingError::Foreign { .. })));
        assert!(listing.is_empty());
        let long = "k".repeat(1_000);
        let error =
            (0..LISTING_LIMIT).find_map(|n| listing.add(&prefix, object(format!("a/{long}{n}"))).err());
        let Some(ListingError::TooLarge { count }) = error else { panic!("{error:?}") };
        assert!((50_000..LISTING_LIMIT / 1_000).contains(&count), "{count}");
        assert!(!listing.is_complete(&prefix), "nothing is removed because of it");
    }
}
