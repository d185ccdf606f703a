//! The bucket's own settings.

use aws_sdk_s3::types::{BucketVersioningStatus, PublicAccessBlockConfiguration};

use super::Bucket;
use super::error::{UNREADABLE, from_sdk};
use super::object::encryption;
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::{BucketSettings, Encryption, PublicAccess, Told, Versioning};

impl Bucket {
    /// Asks for the bucket's settings. What we may not know is unknown.
    ///
    /// # Errors
    /// When there is no such bucket, or it does not answer.
    pub async fn settings(&self) -> Result<BucketSettings, AwsError> {
        let (public_access, versioning, encryption) =
            futures_util::try_join!(self.public_access(), self.versioning(), self.default_encryption())?;
        Ok(BucketSettings { public_access, versioning, encryption })
    }

    async fn public_access(&self) -> Result<Told<PublicAccess>, AwsError> {
        let call = self.client.get_public_access_block().bucket(&self.name).send();
        let answer = call.await.map_err(|error| from_sdk("read the public access block", &error));
        told(answer, "NoSuchPublicAccessBlockConfiguration", PublicAccess::Open, |answer| {
            answer.public_access_block_configuration.map_or(PublicAccess::Open, of_blocks)
        })
    }

    async fn versioning(&self) -> Result<Told<Versioning>, AwsError> {
        let call = self.client.get_bucket_versioning().bucket(&self.name).send();
        let answer = call.await.map_err(|error| from_sdk("read the bucket's versioning", &error));
        let told = told(answer, "", Versioning::Off, |answer| match answer.status {
            Some(BucketVersioningStatus::Enabled) => Versioning::Enabled,
            Some(_) => Versioning::Suspended,
            None => Versioning::Off,
        })?;
        match told {
            Told::Unknown(_) if self.has_a_version().await => Ok(Told::Known(Versioning::Enabled)),
            told => Ok(told),
        }
    }

    /// Whether an object has a version with a name of its own: it has none where versions were never kept. For who may not ask.
    async fn has_a_version(&self) -> bool {
        let call = self.client.list_object_versions().bucket(&self.name).max_keys(1).send();
        let versions = call.await.map(|answer| answer.versions.unwrap_or_default()).unwrap_or_default();
        versions.iter().any(|version| version.version_id().is_some_and(|id| id != "null"))
    }

    async fn default_encryption(&self) -> Result<Told<Encryption>, AwsError> {
        let call = self.client.get_bucket_encryption().bucket(&self.name).send();
        let answer = call.await.map_err(|error| from_sdk("read the bucket's encryption", &error));
        told(answer, "ServerSideEncryptionConfigurationNotFoundError", Encryption::None, |answer| {
            let rules = answer.server_side_encryption_configuration.map(|c| c.rules).unwrap_or_default();
            let by_default = rules.into_iter().find_map(|rule| rule.apply_server_side_encryption_by_default);
            by_default.map_or(Encryption::None, |rule| {
                encryption(Some(&rule.sse_algorithm), rule.kms_master_key_id)
            })
        })
    }
}

/// What was answered; what stands for "nothing was ever set", in which case it is `unset`; or why we may not know.
fn told<A, T>(
    answer: Result<A, AwsError>,
    nothing: &str,
    unset: T,
    read: impl FnOnce(A) -> T,
) -> Result<Told<T>, AwsError> {
    match answer {
        Ok(answer) => Ok(Told::Known(read(answer))),
        Err(error) if !nothing.is_empty() && error.to_string().contains(nothing) => Ok(Told::Known(unset)),
        Err(error) if error.kind == AwsErrorKind::Forbidden => Ok(Told::Unknown("we may not ask".to_owned())),
        // Servers of one's own know only a part of S3.
        Err(error) if error.to_string().contains("NotImplemented") => {
            Ok(Told::Unknown("the server does not know of it".to_owned()))
        }
        Err(error) if error.to_string().contains(UNREADABLE) => Ok(Told::Unknown(UNREADABLE.to_owned())),
        Err(error) => Err(error),
    }
}

fn of_blocks(blocks: PublicAccessBlockConfiguration) -> PublicAccess {
    let blocks = [
        blocks.block_public_acls,
        blocks.ignore_public_acls,
        blocks.block_public_policy,
        blocks.restrict_public_buckets,
    ];
    match blocks.iter().filter(|on| **on == Some(true)).count() {
        4 => PublicAccess::Blocked,
        0 => PublicAccess::Open,
        _ => PublicAccess::Partly,
    }
}
