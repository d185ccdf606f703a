//! What is remembered of each object since it was last the same here and in the bucket.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How large the index may be, in bytes: several hundred thousand objects.
pub const INDEX_LIMIT: usize = 128 * 1024 * 1024;

/// The form in which it is written.
const SCHEMA: u32 = 1;

/// The SHA-256 of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Checksum([u8; 32]);

impl Checksum {
    /// That of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Checksum {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Checksum {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Checksum {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("no SHA-256"))
    }
}

/// An object and its file as they were when they were last the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The object's ETag, quotes and all: compared with the object's ETag and with nothing else.
    pub etag: String,
    /// The object's version, where the bucket keeps versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// What the file was.
    pub sha256: Checksum,
    /// When the object was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
}

/// What is remembered of a folder: of one bucket and one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    environment: String,
    bucket: String,
    objects: BTreeMap<String, Known>,
}

#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    environment: &'a str,
    bucket: &'a str,
    objects: &'a BTreeMap<String, Known>,
}

/// Only this is read first: another schema may have the rest otherwise.
#[derive(Deserialize)]
struct Header {
    schema: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(rename = "schema")]
    _schema: u32,
    environment: String,
    bucket: String,
    objects: BTreeMap<String, Known>,
}

/// Why an index cannot be used. No file of the folder is touched then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// It is no index.
    #[error(
        "what is remembered of the folder (.hostwright/index.json) cannot be read (line {line}, column {column}): your files are as they were; move that file away, and whatever differs from the bucket is shown as changed on both sides until you decide"
    )]
    Broken {
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
    },
    /// It is larger than any that is written.
    #[error(
        "what is remembered of the folder (.hostwright/index.json) is larger than {INDEX_LIMIT} bytes: your files are as they were; move that file away, and whatever differs from the bucket is shown as changed on both sides until you decide"
    )]
    TooLarge,
    /// A newer Hostwright wrote it.
    #[error(
        "what is remembered of the folder (.hostwright/index.json) was written by a newer Hostwright (schema {schema}, this one knows {SCHEMA}): use that one"
    )]
    Newer {
        /// Its schema.
        schema: u32,
    },
    /// The folder is another environment's.
    #[error(
        "this folder holds the secrets of environment {theirs} (bucket {their_bucket}), not of {ours} (bucket {our_bucket}): choose another folder for {ours}"
    )]
    Foreign {
        /// Whose it is.
        theirs: String,
        /// Its bucket.
        their_bucket: String,
        /// Whose was asked for.
        ours: String,
        /// Its bucket.
        our_bucket: String,
    },
}

impl Index {
    /// One that remembers nothing yet.
    #[must_use]
    pub fn new(environment: &str, bucket: &str) -> Self {
        Self { environment: environment.to_owned(), bucket: bucket.to_owned(), objects: BTreeMap::new() }
    }

    /// Reads one of this environment and bucket.
    ///
    /// # Errors
    /// When it cannot be read, or is of another environment or bucket.
    pub fn parse(bytes: &[u8], environment: &str, bucket: &str) -> Result<Self, IndexError> {
        if bytes.len() > INDEX_LIMIT {
            return Err(IndexError::TooLarge);
        }
        let broken =
            |error: serde_json::Error| IndexError::Broken { line: error.line(), column: error.column() };
        let header: Header = serde_json::from_slice(bytes).map_err(broken)?;
        if header.schema > SCHEMA {
            return Err(IndexError::Newer { schema: header.schema });
        }
        let stored: Stored = serde_json::from_slice(bytes).map_err(broken)?;
        if stored.environment != environment || stored.bucket != bucket {
            return Err(IndexError::Foreign {
                theirs: super::shown(&stored.environment),
                their_bucket: super::shown(&stored.bucket),
                ours: environment.to_owned(),
                our_bucket: bucket.to_owned(),
            });
        }
        Ok(Self { environment: stored.environment, bucket: stored.bucket, objects: stored.objects })
    }

    /// As it is written to a file.
    ///
    /// # Errors
    /// When it grew larger than one may be.
    pub fn to_json(&self) -> Result<Vec<u8>, IndexError> {
        let Self { environment, bucket, objects } = self;
        let written = Written { schema: SCHEMA, environment, bucket, objects };
        // Maps with texts as keys are always JSON.
        let bytes = serde_json::to_vec(&written).unwrap_or_default();
        if bytes.len() > INDEX_LIMIT { Err(IndexError::TooLarge) } else { Ok(bytes) }
    }

    /// What is remembered of an object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Known> {
        self.objects.get(key)
    }

    /// Remembers an object and its file, which are the same now.
    pub fn remember(&mut self, key: impl Into<String>, known: Known) {
        self.objects.insert(key.into(), known);
    }

    /// Forgets an object.
    pub fn forget(&mut self, key: &str) -> Option<Known> {
        self.objects.remove(key)
    }

    /// All that is remembered, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Known)> {
        self.objects.iter().map(|(key, known)| (key.as_str(), known))
    }

    /// How many objects are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let mut index = Index::new("prod", "b1");
        for (key, version) in [("a b+\u{fc}{1}%41", None), ("new\nline", Some("v1")), ("u\u{308}", None)] {
            let known = Known {
                etag: "\"abc-2\"".into(),
                version_id: version.map(str::to_owned),
                size: 3,
                sha256: Checksum::of(b"abc"),
                modified: version.map(|_| Timestamp::UNIX_EPOCH),
            };
            index.remember(key, known);
        }
        index
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let index = index();
        let json = index.to_json().unwrap();
        assert_eq!(Index::parse(&json, "prod", "b1").unwrap(), index);
        assert_eq!(
            (index.len(), index.get("u\u{308}").is_some(), index.get("\u{fc}").is_none()),
            (3, true, true)
        );
        let text = String::from_utf8(json).unwrap();
        assert!(text.contains("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "{text}");
    }

    #[test]
    fn a_broken_a_newer_and_a_foreign_one_are_told_apart() {
        let json = index().to_json().unwrap();
        for length in [0, 1, json.len() / 2, json.len() - 1] {
            let error = Index::parse(&json[..length], "prod", "b1").unwrap_err();
            assert!(matches!(error, IndexError::Broken { .. }), "{error:?}");
            assert!(error.to_string().contains("your files are as they were"));
        }
        let with = |from: &str, to: &str| String::from_utf8(json.clone()).unwrap().replace(from, to);
        let parse = |text: String| Index::parse(text.as_bytes(), "prod", "b1").unwrap_err();
        let newer = with("\"schema\":1", "\"schema\":2,\"more\":[]");
        assert_eq!(parse(newer), IndexError::Newer { schema: 2 });
        assert!(matches!(parse(with("ba7816", "ba781")), IndexError::Broken { .. }));
        assert!(matches!(parse(with("\"size\"", "\"more\":1,\"size\"")), IndexError::Broken { .. }));
        for (environment, bucket) in [("staging", "b1"), ("prod", "b2")] {
            let error = Index::parse(&json, environment, bucket).unwrap_err();
            assert!(matches!(error, IndexError::Foreign { .. }), "{error:?}");
            assert!(error.to_string().contains("choose another folder"));
        }
    }
}
