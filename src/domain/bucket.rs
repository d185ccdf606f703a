//! The bucket: what is told of its objects and of itself.

use jiff::Timestamp;
use serde::Serialize;

/// An object as a listing tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its ETag as the bucket writes it, with its quotes. It is a name for the content and never taken for an MD5.
    pub etag: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was written.
    pub modified: Option<Timestamp>,
}

/// How an object is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encryption {
    /// Not at all, as far as the bucket tells.
    None,
    /// With the bucket's own keys (SSE-S3).
    Bucket,
    /// With a KMS key, by its ARN (or what the bucket calls it).
    Kms(String),
    /// Otherwise: the bucket's word.
    Other(String),
}

/// All that is told of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Its ETag.
    pub etag: String,
    /// Its version, where the bucket keeps versions.
    pub version: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// When it was written.
    pub modified: Option<Timestamp>,
    /// How it is encrypted.
    pub encryption: Encryption,
    /// What Hostwright wrote beside it: the SHA-256 of its content, in hexadecimal.
    pub sha256: Option<String>,
    /// Who wrote it, where Hostwright did.
    pub by: Option<String>,
}

/// One version of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectVersion {
    /// Its id.
    pub id: String,
    /// The newest of all.
    pub latest: bool,
    /// When it was written.
    pub modified: Option<Timestamp>,
    /// What was written; none: the object was removed.
    pub content: Option<VersionContent>,
}

/// What a version holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionContent {
    /// Its ETag.
    pub etag: String,
    /// Size in bytes.
    pub size: u64,
}

/// What a write or a removal depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The object is still this one, by its ETag.
    Is(String),
    /// There is no such object yet.
    IsNot,
}

/// Something about the bucket that we may or may not be allowed to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told<T> {
    /// It is so.
    Known(T),
    /// It could not be asked: why.
    Unknown(String),
}

/// Who may read the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublicAccess {
    /// All four blocks are on.
    Blocked,
    /// Some are.
    Partly,
    /// None is.
    Open,
}

/// Whether old versions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Versioning {
    /// They are.
    Enabled,
    /// Not any more.
    Suspended,
    /// They never were.
    Off,
}

/// The bucket's own settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketSettings {
    /// The public access block.
    pub public_access: Told<PublicAccess>,
    /// Versioning.
    pub versioning: Told<Versioning>,
    /// How an object is encrypted that nothing was said of.
    pub encryption: Told<Encryption>,
}

/// How an object's encryption stands to the environment's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyMark {
    /// It is the environment's key.
    Right,
    /// It is another key.
    OtherKey,
    /// It is none of KMS.
    NotKms,
}

impl Encryption {
    /// How it stands to a key that is named by its id or ARN.
    #[must_use]
    pub fn mark(&self, key: &str) -> KeyMark {
        match self {
            Self::Kms(used) if same_key(used, key) => KeyMark::Right,
            Self::Kms(_) => KeyMark::OtherKey,
            Self::None | Self::Bucket | Self::Other(_) => KeyMark::NotKms,
        }
    }

    /// On one line.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Bucket => "SSE-S3".to_owned(),
            Self::Kms(key) => format!("SSE-KMS {}", key_id(key)),
            Self::Other(word) => word.clone(),
        }
    }
}

/// The id in an ARN (`arn:aws:kms:REGION:ACCOUNT:key/ID`), or the id itself.
#[must_use]
pub fn key_id(key: &str) -> &str {
    key.rsplit_once(":key/").map_or(key, |(_, id)| id)
}

/// Two ARNs have to be equal; an id is that of any account.
fn same_key(a: &str, b: &str) -> bool {
    let whole = |key: &str| key.starts_with("arn:");
    if whole(a) && whole(b) { a == b } else { key_id(a) == key_id(b) }
}

impl BucketSettings {
    /// What ought to be otherwise with public access, versioning and encryption, a sentence each. `key` is the environment's key.
    #[must_use]
    pub fn warnings(&self, key: &str) -> [Option<String>; 3] {
        let public = match &self.public_access {
            Told::Known(PublicAccess::Blocked) => None,
            Told::Known(PublicAccess::Partly) => Some("public access is blocked only in part".to_owned()),
            Told::Known(PublicAccess::Open) => Some("public access is not blocked".to_owned()),
            Told::Unknown(why) => Some(format!("whether public access is blocked is not known: {why}")),
        };
        let lost = "what is overwritten is lost";
        let versions = match &self.versioning {
            Told::Known(Versioning::Enabled) => None,
            Told::Known(Versioning::Suspended) => Some(format!("versioning is suspended: {lost}")),
            Told::Known(Versioning::Off) => Some(format!("versioning is off: {lost}")),
            Told::Unknown(why) => Some(format!("whether versions are kept is not known: {why}")),
        };
        let encryption = match &self.encryption {
            Told::Known(encryption) => match encryption.mark(key) {
                KeyMark::Right => None,
                KeyMark::OtherKey => Some("objects are encrypted with another key by default".to_owned()),
                KeyMark::NotKms => Some("objects are not encrypted with KMS by default".to_owned()),
            },
            Told::Unknown(why) => Some(format!("the default encryption is not known: {why}")),
        };
        [public, versions, encryption]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd";

    #[test]
    fn a_key_is_known_by_its_id_and_its_arn() {
        let used = Encryption::Kms(ARN.to_owned());
        assert_eq!(used.mark(ARN), KeyMark::Right);
        assert_eq!(used.mark("1234abcd"), KeyMark::Right);
        assert_eq!(used.mark("abcd"), KeyMark::OtherKey, "the end of an id is no id");
        assert_eq!(used.mark("arn:aws:kms:eu-west-1:210987654321:key/1234abcd"), KeyMark::OtherKey);
        assert_eq!(Encryption::Bucket.mark(ARN), KeyMark::NotKms);
        assert_eq!(used.words(), "SSE-KMS 1234abcd");
    }

    #[test]
    fn a_bucket_that_is_as_it_should_be_has_no_warnings() {
        let mut settings = BucketSettings {
            public_access: Told::Known(PublicAccess::Blocked),
            versioning: Told::Known(Versioning::Enabled),
            encryption: Told::Known(Encryption::Kms(ARN.to_owned())),
        };
        assert_eq!(settings.warnings(ARN), [None, None, None]);
        settings.public_access = Told::Known(PublicAccess::Partly);
        settings.versioning = Told::Known(Versioning::Off);
        settings.encryption = Told::Unknown("we may not ask".to_owned());
        assert!(settings.warnings(ARN).iter().all(Option::is_some));
    }
}
