//! What a node remembers of the files that it took.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::secret::{Checksum, RelativePath, relative, shown};

/// How large what is remembered may be, in bytes.
const MEMORY_LIMIT: usize = 128 * 1024 * 1024;
/// The form in which it is written.
const SCHEMA: u32 = 1;

/// A file that was taken: what it was of, and what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The object's key.
    pub key: String,
    /// Its ETag, quotes and all.
    pub etag: String,
    /// Its version, where the bucket keeps versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// What was written.
    pub sha256: Checksum,
}

impl Taken {
    /// A file that is about to be taken for the first time: so it is known to be ours however that ends.
    #[must_use]
    pub fn pending(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            etag: String::new(),
            version_id: None,
            size: 0,
            sha256: Checksum::of(b""),
        }
    }

    /// Whether it is not known to be there whole. No object has an empty ETag.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.etag.is_empty()
    }
}

/// All of it: only what is in here is ever removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    bucket: String,
    files: BTreeMap<RelativePath, Taken>,
    /// Something changed that the command does not know of yet.
    pub command_due: bool,
}

#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    bucket: &'a str,
    command_due: bool,
    files: &'a BTreeMap<RelativePath, Taken>,
}

#[derive(Deserialize)]
struct Read {
    schema: u32,
    bucket: String,
    #[serde(default)]
    command_due: bool,
    files: BTreeMap<String, Taken>,
}

/// Why what is remembered is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// It cannot be read.
    #[error("what is remembered of the folder cannot be read (line {line}, column {column})")]
    Broken {
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
    },
    /// A newer Hostwright wrote it.
    #[error(
        "what is remembered of the folder was written by a newer Hostwright (schema {0}, this one knows {SCHEMA})"
    )]
    Newer(u32),
    /// A path in it is none.
    #[error("what is remembered of the folder names {}, which can be no file there", shown(.0))]
    Path(String),
    /// The folder is another bucket's.
    #[error("the folder holds what is in the bucket {}, not in {}: choose another folder", shown(.theirs), shown(.ours))]
    Foreign {
        /// Whose it is.
        theirs: String,
        /// Which was asked for.
        ours: String,
    },
    /// It would be too large.
    #[error("what is remembered of the folder is larger than {MEMORY_LIMIT} bytes")]
    TooLarge,
}

impl MemoryError {
    /// Whether one may begin with an empty memory instead: nothing that is in the folder is then ever removed, but what is in the bucket
    /// is written over it.
    #[must_use]
    pub fn may_forget(&self) -> bool {
        !matches!(self, Self::Newer(_) | Self::Foreign { .. })
    }
}

impl Memory {
    /// How large it may be, in bytes.
    pub const LIMIT: usize = MEMORY_LIMIT;

    /// One that remembers nothing yet of a bucket.
    #[must_use]
    pub fn new(bucket: &str) -> Self {
        Self { bucket: bucket.to_owned(), files: BTreeMap::new(), command_due: false }
    }

    /// Reads that of a bucket.
    ///
    /// # Errors
    /// When it cannot be read, or is of another bucket.
    pub fn parse(bytes: &[u8], bucket: &str) -> Result<Self, MemoryError> {
        #[derive(Deserialize)]
        struct Header {
            schema: u32,
        }
        let broken =
            |error: serde_json::Error| MemoryError::Broken { line: error.line(), column: error.column() };
        // Another schema may have the rest otherwise.
        let Header { schema } = serde_json::from_slice(bytes).map_err(broken)?;
        if schema > SCHEMA {
            return Err(MemoryError::Newer(schema));
        }
        let read: Read = serde_json::from_slice(bytes).map_err(broken)?;
        debug_assert_eq!(read.schema, schema);
        if read.bucket != bucket {
            return Err(MemoryError::Foreign { theirs: read.bucket, ours: bucket.to_owned() });
        }
        let mut files = BTreeMap::new();
        for (path, taken) in read.files {
            let path = relative(&path).map_err(|_| MemoryError::Path(path))?;
            files.insert(path, taken);
        }
        Ok(Self { bucket: read.bucket, files, command_due: read.command_due })
    }

    /// As it is written.
    ///
    /// # Errors
    /// When it grew larger than it may be.
    pub fn to_json(&self) -> Result<Vec<u8>, MemoryError> {
        let Self { bucket, files, command_due } = self;
        let written = Written { schema: SCHEMA, bucket, command_due: *command_due, files };
        // Maps with texts as keys are always JSON.
        let bytes = serde_json::to_vec(&written).unwrap_or_default();
        if bytes.len() > MEMORY_LIMIT { Err(MemoryError::TooLarge) } else { Ok(bytes) }
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What is remembered of a file.
    #[must_use]
    pub fn get(&self, path: &RelativePath) -> Option<&Taken> {
        self.files.get(path)
    }

    /// Remembers a file that was written.
    pub fn remember(&mut self, path: RelativePath, taken: Taken) {
        self.files.insert(path, taken);
    }

    /// Forgets a file that was removed.
    pub fn forget(&mut self, path: &RelativePath) {
        self.files.remove(path);
    }

    /// All files, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&RelativePath, &Taken)> {
        self.files.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::new("b");
        let taken = Taken {
            key: "a/x\n\u{fc}".into(),
            etag: "\"1\"".into(),
            version_id: Some("v".into()),
            size: 3,
            sha256: Checksum::of(b"abc"),
        };
        memory.remember(relative("x\n\u{fc}").unwrap(), taken);
        memory.command_due = true;
        memory
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let memory = memory();
        assert_eq!(Memory::parse(&memory.to_json().unwrap(), "b").unwrap(), memory);
    }

    #[test]
    fn a_path_that_leads_out_a_newer_and_a_foreign_one_are_refused() {
        let text = String::from_utf8(memory().to_json().unwrap()).unwrap();
        let error = |text: &str| Memory::parse(text.as_bytes(), "b").unwrap_err();
        let out = error(&text.replace("{\"x\\n", "{\"../x\\n"));
        assert!(matches!(out, MemoryError::Path(_)) && out.may_forget(), "{out:?}");
        let newer = error(&text.replace("\"schema\":1", "\"schema\":2,\"more\":1").replace("bucket", "new"));
        assert_eq!((newer.may_forget(), newer), (false, MemoryError::Newer(2)));
        assert!(!error(&text.replace("\"bucket\":\"b\"", "\"bucket\":\"c\"")).may_forget());
        for length in [0, text.len() / 2, text.len() - 1] {
            assert!(matches!(error(text.get(..length).unwrap()), MemoryError::Broken { .. }));
        }
    }
}
