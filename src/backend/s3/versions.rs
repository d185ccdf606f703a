//! Old versions.

use std::collections::BTreeMap;

use aws_sdk_s3::operation::list_object_versions::ListObjectVersionsOutput;
use aws_sdk_s3::types::EncodingType;

use super::Bucket;
use super::error::from_sdk;
use super::list::{decoded, timestamp};
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::{ObjectVersion, VersionContent};

impl Bucket {
    /// All versions of one object, the newest first; empty: there never was one.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not list versions.
    pub async fn versions(&self, key: &str) -> Result<Vec<ObjectVersion>, AwsError> {
        let mut all = Vec::new();
        // Other keys may begin with this one.
        self.each_version(key, |other, version| {
            if other == key {
                all.push(version);
            }
            other == key
        })
        .await?;
        all.sort_by(|a, b| b.latest.cmp(&a.latest).then(b.modified.cmp(&a.modified)));
        Ok(all)
    }

    /// How many versions each object has whose key starts so, removals not counted.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not list versions.
    pub async fn version_counts(&self, prefix: &str) -> Result<BTreeMap<String, usize>, AwsError> {
        let mut counts = BTreeMap::new();
        self.each_version(prefix, |key, version| {
            if version.content.is_some() {
                *counts.entry(key.to_owned()).or_default() += 1;
            }
            true
        })
        .await?;
        Ok(counts)
    }

    /// Visits versions page by page, in the order of their keys, until a whole page had nothing more that was wanted.
    async fn each_version(
        &self,
        prefix: &str,
        mut visit: impl FnMut(&str, ObjectVersion) -> bool,
    ) -> Result<(), AwsError> {
        let doing = format!("list versions in bucket {}", self.name);
        let mut after: (Option<String>, Option<String>) = (None, None);
        loop {
            let call = self
                .client
                .list_object_versions()
                .bucket(&self.name)
                .prefix(prefix)
                .encoding_type(EncodingType::Url)
                .set_key_marker(after.0.clone())
                .set_version_id_marker(after.1.clone());
            let answer = call.send().await.map_err(|error| from_sdk(&doing, &error))?;
            let broken = |text: &str| AwsError::new(AwsErrorKind::Failed, doing.as_str(), text);
            let encoded = answer.encoding_type == Some(EncodingType::Url);
            let name = |key: &str| if encoded { decoded(key) } else { Some(key.to_owned()) };
            let truncated = answer.is_truncated == Some(true);
            let next =
                (answer.next_key_marker.as_deref().and_then(name), answer.next_version_id_marker.clone());
            let mut wanted = false;
            for (key, version) in entries(answer) {
                let key = key.as_deref().and_then(name).ok_or_else(|| broken("a version has no key"))?;
                wanted |= visit(&key, version);
            }
            if !truncated || !wanted {
                return Ok(());
            }
            if next.0.is_none() || next == after {
                return Err(broken("it is not complete, and does not say how it goes on"));
            }
            after = next;
        }
    }
}

fn entries(answer: ListObjectVersionsOutput) -> impl Iterator<Item = (Option<String>, ObjectVersion)> {
    let versions = answer.versions.unwrap_or_default().into_iter().map(|v| {
        let size = v.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
        let version = ObjectVersion {
            id: v.version_id.unwrap_or_default(),
            latest: v.is_latest.unwrap_or_default(),
            modified: v.last_modified.as_ref().and_then(timestamp),
            content: Some(VersionContent { etag: v.e_tag.unwrap_or_default(), size }),
        };
        (v.key, version)
    });
    let removals = answer.delete_markers.unwrap_or_default().into_iter().map(|m| {
        let version = ObjectVersion {
            id: m.version_id.unwrap_or_default(),
            latest: m.is_latest.unwrap_or_default(),
            modified: m.last_modified.as_ref().and_then(timestamp),
            content: None,
        };
        (m.key, version)
    });
    versions.chain(removals)
}
