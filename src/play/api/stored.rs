//! An object at rest: its JSON text and the few facts that selectors and owners need.
//!
//! Kept as text so that lists and watches copy bytes, and ten thousand Jobs cost their text alone.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::kinds::Kind;
use super::{meta, select};

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: Kind,
    /// Empty for what has no namespace.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// An object as it is stored: never changed, only replaced.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) key: Key,
    pub(super) rv: u64,
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    /// What field selectors may ask for.
    pub(super) fields: Vec<(&'static str, String)>,
    /// The UIDs of its owners that are of kinds we know.
    pub(super) owners: Vec<String>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub(super) going: bool,
    /// When it was written, in seconds since 1970.
    pub(super) at: i64,
    text: Bytes,
}

impl Stored {
    pub(super) fn new(key: Key, mut object: Value, rv: u64, at: i64) -> Self {
        meta::set(meta::metadata(&mut object), "resourceVersion", Some(rv.to_string().into()));
        let labels = match object.pointer("/metadata/labels") {
            Some(Value::Object(map)) => {
                map.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect()
            }
            _ => BTreeMap::new(),
        };
        let owners = meta::items(&object, "/metadata/ownerReferences")
            .iter()
            .filter(|o| {
                let kind = meta::text(o, "/kind").unwrap_or_default();
                Kind::of_reference(meta::text(o, "/apiVersion").unwrap_or_default(), kind).is_some()
            })
            .filter_map(|o| meta::text(o, "/uid").map(str::to_owned))
            .collect();
        Self {
            rv,
            uid: meta::text(&object, "/metadata/uid").unwrap_or_default().to_owned(),
            labels,
            fields: select::fields_of(key.kind, &object),
            owners,
            going: meta::is_going(&object),
            at,
            text: Bytes::from(object.to_string()),
            key,
        }
    }

    /// An object that was made but not stored: the answer to a dry run.
    pub(super) fn unsaved(key: Key, object: Value) -> Self {
        let rv = meta::text(&object, "/metadata/resourceVersion").and_then(|rv| rv.parse().ok()).unwrap_or(0);
        let mut stored = Self::new(key, object, rv, 0);
        if rv == 0 {
            let mut value = stored.value();
            meta::set(meta::metadata(&mut value), "resourceVersion", None);
            stored.text = Bytes::from(value.to_string());
        }
        stored
    }

    /// The same object under another resource version.
    pub(super) fn at_version(&self, rv: u64) -> Self {
        Self::new(self.key.clone(), self.value(), rv, self.at)
    }

    /// The JSON text, without `kind` and `apiVersion`.
    pub(super) fn text(&self) -> &Bytes {
        &self.text
    }

    /// The object, without `kind` and `apiVersion`.
    pub(super) fn value(&self) -> Value {
        // The text is ours, made of a value: it always parses.
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// The value of a selectable field, empty when the object lacks it.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(n, _)| *n == name).map_or("", |(_, v)| v.as_str())
    }
}
