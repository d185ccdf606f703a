//! One object: looked at, read, written, removed.

use std::fs::File;

use aws_sdk_s3::primitives::{ByteStream, Length};
use aws_sdk_s3::types::{ChecksumMode, ServerSideEncryption};
use bytes::Bytes;

use super::error::from_sdk;
use super::list::timestamp;
use super::{BY, Bucket, SHA256};
use crate::config::Permit;
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::{Condition, Encryption, ObjectFacts};
use crate::domain::secret::Checksum;
use crate::domain::text::chain;

/// What is told of an object, from the answer to a look and to a read: two types of the SDK with the same fields.
macro_rules! facts {
    ($answer:expr) => {{
        let metadata = |name: &str| $answer.metadata.as_ref().and_then(|all| all.get(name)).cloned();
        ObjectFacts {
            etag: $answer.e_tag.clone().unwrap_or_default(),
            version: version($answer.version_id.clone()),
            size: size($answer.content_length),
            modified: $answer.last_modified.as_ref().and_then(timestamp),
            encryption: encryption($answer.server_side_encryption.as_ref(), $answer.ssekms_key_id.clone()),
            sha256: metadata(SHA256),
            by: metadata(BY),
        }
    }};
}

/// Which state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The newest.
    Newest,
    /// The newest, if it is still this one, by its ETag.
    Is(String),
    /// This version.
    Version(String),
}

/// What is written.
#[derive(Debug)]
pub enum Content {
    /// These bytes.
    Bytes(Bytes),
    /// A file from its start, of this size.
    File(File, u64),
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The new ETag.
    pub etag: String,
    /// The new version, where the bucket keeps versions.
    pub version: Option<String>,
}

/// An object that is being read.
#[derive(Debug)]
pub struct Download {
    /// What is told of it.
    pub facts: ObjectFacts,
    body: ByteStream,
    doing: String,
}

impl Download {
    /// The next piece; none: that was all.
    ///
    /// # Errors
    /// When it broke off, or what came is not what was written.
    pub async fn next(&mut self) -> Result<Option<Bytes>, AwsError> {
        let next = self.body.next().await.transpose();
        next.map_err(|error| AwsError::new(AwsErrorKind::Unreachable, self.doing.as_str(), chain(&error)))
    }

    /// All of it, when it is no larger than this.
    ///
    /// # Errors
    /// When it is larger, or broke off.
    pub async fn all(mut self, limit: u64) -> Result<Vec<u8>, AwsError> {
        let too_large = |doing: &str| {
            AwsError::new(AwsErrorKind::Invalid, doing, format!("it is larger than {limit} bytes"))
        };
        if self.facts.size > limit {
            return Err(too_large(&self.doing));
        }
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
            if all.len() as u64 > limit {
                return Err(too_large(&self.doing));
            }
        }
        Ok(all)
    }
}

impl Bucket {
    /// What is told of an object; none: there is none.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not.
    pub async fn head(&self, key: &str) -> Result<Option<ObjectFacts>, AwsError> {
        let doing = format!("look at {key}");
        let answer = match self.client.head_object().bucket(&self.name).key(key).send().await {
            Ok(answer) => answer,
            Err(error) => {
                let error = from_sdk(&doing, &error);
                return if error.kind == AwsErrorKind::NotFound { Ok(None) } else { Err(error) };
            }
        };
        Ok(Some(facts!(answer)))
    }

    /// Begins to read an object; none: there is none (of that version).
    ///
    /// # Errors
    /// When the bucket does not answer, we may not, or it is not the one that was asked for any more.
    pub async fn get(&self, key: &str, which: &Which) -> Result<Option<Download>, AwsError> {
        let doing = format!("read {key}");
        let mut call =
            self.client.get_object().bucket(&self.name).key(key).checksum_mode(ChecksumMode::Enabled);
        call = match which {
            Which::Newest => call,
            Which::Is(etag) => call.if_match(etag),
            Which::Version(id) => call.version_id(id),
        };
        let answer = match call.send().await {
            Ok(answer) => answer,
            Err(error) => {
                let error = from_sdk(&doing, &error);
                return if error.kind == AwsErrorKind::NotFound { Ok(None) } else { Err(error) };
            }
        };
        let facts = facts!(answer);
        Ok(Some(Download { facts, body: answer.body, doing }))
    }

    /// Writes an object whose content has this checksum, encrypted with the environment's key. The bucket refuses content that has
    /// another one: a file that was changed meanwhile does not get in.
    ///
    /// # Errors
    /// [`AwsErrorKind::Conflict`] when the condition does not hold; when the bucket does not answer, or we may not.
    pub async fn put(
        &self,
        _: &Permit,
        key: &str,
        content: Content,
        sha256: Checksum,
        by: &str,
        condition: &Condition,
    ) -> Result<Written, AwsError> {
        let doing = format!("write {key}");
        let (size, body) = match content {
            Content::Bytes(bytes) => (bytes.len() as u64, ByteStream::from(bytes)),
            Content::File(file, size) => {
                let file = tokio::fs::File::from_std(file);
                let body = ByteStream::read_from().file(file).length(Length::Exact(size)).build().await;
                (size, body.map_err(|e| AwsError::new(AwsErrorKind::Failed, doing.as_str(), chain(&e)))?)
            }
        };
        if size > super::PUT_LIMIT {
            return Err(AwsError::new(AwsErrorKind::Invalid, doing, "it is larger than 5 GiB"));
        }
        let mut call = self
            .client
            .put_object()
            .bucket(&self.name)
            .key(key)
            .body(body)
            .content_length(i64::try_from(size).unwrap_or(i64::MAX))
            .server_side_encryption(ServerSideEncryption::AwsKms)
            .ssekms_key_id(&self.key)
            .checksum_sha256(data_encoding::BASE64.encode(sha256.as_bytes()))
            .metadata(SHA256, sha256.to_string())
            .metadata(BY, ascii(by));
        call = match condition {
            Condition::Is(etag) => call.if_match(etag),
            Condition::IsNot => call.if_none_match("*"),
        };
        match call.send().await {
            Ok(answer) => {
                Ok(Written { etag: answer.e_tag.unwrap_or_default(), version: version(answer.version_id) })
            }
            Err(error) => {
                let error = from_sdk(&doing, &error);
                if !matches!(error.kind, AwsErrorKind::Conflict | AwsErrorKind::NotFound) {
                    return Err(error);
                }
                // The answer to an earlier try may have been lost: then what is there is ours.
                match self.head(key).await {
                    Ok(Some(facts)) if is_ours(&facts, &sha256, by, condition) => {
                        Ok(Written { etag: facts.etag, version: facts.version })
                    }
                    _ => Err(changed(&doing)),
                }
            }
        }
    }

    /// Removes an object that is still this one. Where the bucket keeps versions, the old ones stay.
    ///
    /// # Errors
    /// [`AwsErrorKind::Conflict`] when it is another one by now; when the bucket does not answer, or we may not.
    pub async fn remove(&self, _: &Permit, key: &str, etag: &str) -> Result<(), AwsError> {
        let doing = format!("remove {key}");
        let call = self.client.delete_object().bucket(&self.name).key(key).if_match(etag);
        match call.send().await.map_err(|error| from_sdk(&doing, &error)) {
            Ok(_) => Ok(()),
            Err(error) if error.kind == AwsErrorKind::Conflict => Err(changed(&doing)),
            // A try whose answer was lost did it, or somebody else: it is not there any more.
            Err(error) if error.kind == AwsErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn changed(doing: &str) -> AwsError {
    AwsError::new(AwsErrorKind::Conflict, doing, "somebody changed it in the bucket meanwhile")
}

/// Whether what stands there is what we wanted to write, by us, and not what stood there before.
fn is_ours(facts: &ObjectFacts, sha256: &Checksum, by: &str, condition: &Condition) -> bool {
    facts.sha256.as_deref() == Some(&sha256.to_string())
        && facts.by.as_deref() == Some(&ascii(by))
        && !matches!(condition, Condition::Is(etag) if *etag == facts.etag)
}

/// Metadata travels in a header.
fn ascii(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(128).collect()
}

fn size(length: Option<i64>) -> u64 {
    length.and_then(|length| u64::try_from(length).ok()).unwrap_or(0)
}

/// `null` is the version of what was written while versions were not kept.
fn version(id: Option<String>) -> Option<String> {
    id.filter(|id| id != "null")
}

pub(super) fn encryption(kind: Option<&ServerSideEncryption>, key: Option<String>) -> Encryption {
    match kind {
        None => Encryption::None,
        Some(ServerSideEncryption::Aes256) => Encryption::Bucket,
        Some(ServerSideEncryption::AwsKms | ServerSideEncryption::AwsKmsDsse) => {
            Encryption::Kms(key.unwrap_or_else(|| "the account's own key".to_owned()))
        }
        Some(other) => Encryption::Other(other.as_str().to_owned()),
    }
}
