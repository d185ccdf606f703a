//! Listings, page by page.

use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::EncodingType;
use jiff::Timestamp;

use super::Bucket;
use super::error::from_sdk;
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::Object;

/// A listing that is under way. It is complete when [`Pages::next`] has answered none, and not before.
#[derive(Debug)]
pub struct Pages {
    bucket: Bucket,
    prefix: String,
    at: Place,
}

#[derive(Debug)]
enum Place {
    Start,
    After(String),
    End,
}

impl Bucket {
    /// Lists all objects whose keys start so.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Pages {
        Pages { bucket: self.clone(), prefix: prefix.to_owned(), at: Place::Start }
    }

    /// A whole listing at once, for a bucket that fits into memory.
    ///
    /// # Errors
    /// When it broke off: a part of a listing is never an answer.
    pub async fn list_all(&self, prefix: &str) -> Result<Vec<Object>, AwsError> {
        let mut pages = self.list(prefix);
        let mut all = Vec::new();
        while let Some(page) = pages.next().await? {
            all.extend(page);
        }
        Ok(all)
    }
}

impl Pages {
    /// The next page (of at most 1,000); none: that was all.
    ///
    /// # Errors
    /// When the listing broke off. It may be asked again from where it stands.
    pub async fn next(&mut self) -> Result<Option<Vec<Object>>, AwsError> {
        let after = match &self.at {
            Place::Start => None,
            Place::After(token) => Some(token.clone()),
            Place::End => return Ok(None),
        };
        let doing = format!("list bucket {}", self.bucket.name);
        let call = self
            .bucket
            .client
            .list_objects_v2()
            .bucket(&self.bucket.name)
            .prefix(&self.prefix)
            // XML cannot hold every character that a key may have.
            .encoding_type(EncodingType::Url)
            .set_continuation_token(after.clone());
        let answer = call.send().await.map_err(|error| from_sdk(&doing, &error))?;
        let encoded = answer.encoding_type == Some(EncodingType::Url);
        let broken = |text: &str| AwsError::new(AwsErrorKind::Failed, doing.as_str(), text);
        let mut page = Vec::new();
        for object in answer.contents.unwrap_or_default() {
            let key = object.key.ok_or_else(|| broken("an object has no key"))?;
            let key = if encoded { decoded(&key).ok_or_else(|| broken("a key is not UTF-8"))? } else { key };
            let etag = object.e_tag.ok_or_else(|| broken("an object has no ETag"))?;
            let size = object.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
            page.push(Object {
                key,
                etag,
                size,
                modified: object.last_modified.as_ref().and_then(timestamp),
            });
        }
        self.at = match (answer.is_truncated, answer.next_continuation_token) {
            (Some(true), Some(token)) if Some(&token) != after.as_ref() => Place::After(token),
            (Some(true), _) => return Err(broken("it is not complete, and does not say how it goes on")),
            _ => Place::End,
        };
        Ok(Some(page))
    }
}

/// A key out of a listing with `encoding-type=url`: that of forms, in which a `+` is a space.
pub(super) fn decoded(key: &str) -> Option<String> {
    let spaced = key.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

pub(super) fn timestamp(at: &DateTime) -> Option<Timestamp> {
    Timestamp::new(at.secs(), i32::try_from(at.subsec_nanos()).ok()?).ok()
}
