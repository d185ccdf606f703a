//! Old versions, and making one of them the newest.

use bytes::Bytes;

use super::compare::no_version;
use super::look::name;
use super::{Secrets, fetch::unexpected};
use crate::backend::s3::{Content, Which};
use crate::domain::bucket::Condition;
use crate::domain::secret::{Checksum, SecretVersion};
use crate::ops::OpError;

/// The largest content that is put back.
const LIMIT: u64 = 64 * 1024 * 1024;

impl Secrets {
    /// The versions of a secret, the newest first.
    ///
    /// # Errors
    /// When there never was one, or the bucket cannot be read.
    pub async fn history(&self, key: &str) -> Result<Vec<SecretVersion>, OpError> {
        let versions = self.inner.bucket.versions(key).await?;
        if versions.is_empty() {
            return Err(OpError::NotFound(format!("secret {}", name(key))));
        }
        let (_, index) = self.read_folder().await?;
        let here = index.get(key).and_then(|known| known.version_id.as_deref());
        let version = |version: crate::domain::bucket::ObjectVersion| SecretVersion {
            here: here == Some(version.id.as_str()),
            modified: version.modified,
            size: version.content.map(|content| content.size),
            newest: version.latest,
            id: version.id,
        };
        Ok(versions.into_iter().map(version).collect())
    }

    /// Makes an old version the newest: it is written again, and nothing is lost.
    ///
    /// # Errors
    /// When there is no such version, it marks a removal, it is the newest already, somebody changes the secret meanwhile, or nothing
    /// may be changed.
    pub async fn restore(&self, key: &str, version: &str) -> Result<(), OpError> {
        let permit = self.inner.remote?;
        let versions = self.inner.bucket.versions(key).await?;
        let Some(old) = versions.iter().find(|one| one.id == version) else {
            return Err(no_version(key, version));
        };
        if old.content.is_none() {
            return Err(OpError::Refused(format!(
                "cannot restore this version of {}: it says that it was removed; take the one before it",
                name(key)
            )));
        }
        if old.latest {
            return Err(OpError::Refused(format!("{} is what it was in that version", name(key))));
        }
        let newest = versions.iter().find(|one| one.latest).and_then(|one| one.content.as_ref());
        let condition = newest.map_or(Condition::IsNot, |content| Condition::Is(content.etag.clone()));
        let download = self.inner.bucket.get(key, &Which::Version(version.to_owned())).await?;
        let download = download.ok_or_else(|| no_version(key, version))?;
        let bytes = download.all(LIMIT).await?;
        if Some(bytes.len() as u64) != old.content.as_ref().map(|content| content.size) {
            return Err(unexpected("read that version", "it is not as large as its listing says"));
        }
        let by = self.by().await?.to_owned();
        let sha256 = Checksum::of(&bytes);
        let content = Content::Bytes(Bytes::from(bytes));
        self.inner.bucket.put(&permit, key, content, sha256, &by, &condition).await?;
        self.record(&by, "restore", &name(key), &format!("version {version}"));
        Ok(())
    }
}
