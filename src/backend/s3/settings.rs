//! The bucket's own settings.

use aws_sdk_s3::error::BuildError;
use aws_sdk_s3::types::{
    BucketVersioningStatus, CreateBucketConfiguration, PublicAccessBlockConfiguration, ServerSideEncryption,
    ServerSideEncryptionByDefault, ServerSideEncryptionConfiguration, ServerSideEncryptionRule,
    VersioningConfiguration,
};

use super::Bucket;
use super::error::{UNREADABLE, from_sdk};
use super::object::encryption;
use crate::config::Permit;
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::{BucketSettings, Encryption, PublicAccess, Told, Versioning};

impl Bucket {
    /// Makes the bucket as it should be: private, with versions kept, and encrypted with the environment's key.
    ///
    /// # Errors
    /// When it is there already, or cannot be made.
    pub async fn create(&self, _: &Permit, region: &str) -> Result<(), AwsError> {
        let doing = format!("make bucket {}", self.name);
        let failed = |error: AwsError| AwsError::new(error.kind.clone(), doing.as_str(), error.to_string());
        let place = CreateBucketConfiguration::builder().location_constraint(region.into()).build();
        // The first region of all has no name there.
        let place = (region != "us-east-1").then_some(place);
        let call = self.client.create_bucket().bucket(&self.name).set_create_bucket_configuration(place);
        call.send().await.map_err(|error| from_sdk(&doing, &error))?;
        let blocks = PublicAccessBlockConfiguration::builder()
            .block_public_acls(true)
            .ignore_public_acls(true)
            .block_public_policy(true)
            .restrict_public_buckets(true)
            .build();
        let call = self.client.put_public_access_block().bucket(&self.name);
        let call = call.public_access_block_configuration(blocks).send();
        call.await.map_err(|error| failed(from_sdk("block public access", &error)))?;
        let versions = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        let call = self.client.put_bucket_versioning().bucket(&self.name).versioning_configuration(versions);
        call.send().await.map_err(|error| failed(from_sdk("keep versions", &error)))?;
        let incomplete =
            |error: BuildError| AwsError::new(AwsErrorKind::Failed, doing.as_str(), error.to_string());
        let key = ServerSideEncryptionByDefault::builder()
            .sse_algorithm(ServerSideEncryption::AwsKms)
            .kms_master_key_id(&self.key)
            .build()
            .map_err(incomplete)?;
        let rule = ServerSideEncryptionRule::builder().apply_server_side_encryption_by_default(key).build();
        let rules = ServerSideEncryptionConfiguration::builder().rules(rule).build().map_err(incomplete)?;
        let call = self.client.put_bucket_encryption().bucket(&self.name);
        let call = call.server_side_encryption_configuration(rules).send();
        call.await.map_err(|error| failed(from_sdk("encrypt by default", &error)))?;
        Ok(())
    }

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
            answer.public_access_block_configuration.as_ref().map_or(PublicAccess::Open, of_blocks)
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

fn of_blocks(blocks: &PublicAccessBlockConfiguration) -> PublicAccess {
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
