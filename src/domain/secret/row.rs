//! A secret as one row: what is known of its file, its object, and the two together; and what is known of the bucket as a whole.

use jiff::Timestamp;
use serde::Serialize;

use super::diff::Difference;
use super::key::Area;
use super::state::FileState;
use super::three_way::ThreeWay;

/// How an object is encrypted, seen from the environment's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "encryption", content = "key")]
pub enum Encryption {
    /// There is no object.
    Nothing,
    /// Nobody has looked: a listing does not say it.
    NotRead,
    /// With KMS, under the environment's key.
    Ours,
    /// With KMS, under this key.
    OtherKey(String),
    /// Not with KMS: by the store itself (`AES256`), or not at all (none).
    NotKms(Option<String>),
}

impl Encryption {
    /// A word or two for a column.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Nothing | Self::NotRead => "",
            Self::Ours => "ours",
            Self::OtherKey(_) => "other key",
            Self::NotKms(Some(_)) => "no KMS",
            Self::NotKms(None) => "plain",
        }
    }

    /// Whether it is not as it must be.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::OtherKey(_) | Self::NotKms(_))
    }
}

/// A secret, or what only looks like one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretRow {
    /// The exact key.
    pub key: String,
    /// What changed where.
    pub state: FileState,
    /// The object's size in bytes, else the file's.
    pub size: u64,
    /// When the object was written, else the file.
    pub modified: Option<Timestamp>,
    /// The object's ETag as it is listed, quotes and all; none: there is no object.
    pub etag: Option<String>,
    /// How the object is encrypted.
    pub encryption: Encryption,
    /// How many versions the bucket keeps of it; none: not known, or it keeps none.
    pub versions: Option<usize>,
    /// When the first of its certificates expires.
    pub expires: Option<Timestamp>,
    /// Why it is left out of everything, such as a key that no file can have.
    pub problem: Option<String>,
}

impl SecretRow {
    /// The part of the bucket that it is of.
    #[must_use]
    pub fn area(&self) -> Area {
        Area::of(&self.key)
    }

    /// Whether somebody has to look at it: it is left out, somebody must decide, or it is not encrypted as it must be.
    #[must_use]
    pub fn needs_eyes(&self) -> bool {
        self.problem.is_some() || self.state.is_conflict() || self.encryption.is_wrong()
    }
}

/// One of the bucket's own settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "text")]
pub enum Setting {
    /// As it must be, in a few words.
    Good(String),
    /// Not as it must be, in one sentence.
    Bad(String),
    /// It could not be read: why.
    Unknown(String),
}

/// What is known of the bucket as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketFacts {
    /// Its name.
    pub bucket: String,
    /// Where the local copy is.
    pub folder: String,
    /// Whether public access is blocked.
    pub public_access: Setting,
    /// Whether it keeps versions.
    pub versioning: Setting,
    /// How it encrypts what does not say how.
    pub encryption: Setting,
}

impl BucketFacts {
    /// Its settings, with a word for each.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, &Setting); 3] {
        [
            ("public access", &self.public_access),
            ("versioning", &self.versioning),
            ("by default", &self.encryption),
        ]
    }

    /// Whether it keeps versions, as far as that is known: what is overwritten or removed there can be restored.
    #[must_use]
    pub fn keeps_versions(&self) -> bool {
        matches!(self.versioning, Setting::Good(_))
    }
}

/// What was found in the bucket and in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretListing {
    /// The bucket.
    pub facts: BucketFacts,
    /// The rows, in any order.
    pub rows: Vec<SecretRow>,
    /// Why not everything is in it; none: it is complete.
    pub incomplete: Option<String>,
}

/// A version of one secret, as the bucket keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretVersion {
    /// Its id.
    pub id: String,
    /// When it was written.
    pub modified: Option<Timestamp>,
    /// Size in bytes; none: it marks a removal.
    pub size: Option<u64>,
    /// It is what the bucket has now.
    pub newest: bool,
    /// It is what the local copy was fetched from, or uploaded as.
    pub here: bool,
}

impl SecretVersion {
    /// Whether it marks a removal.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.size.is_none()
    }

    /// Who has it, in words; empty: nobody.
    #[must_use]
    pub fn held_by(&self) -> &'static str {
        match (self.newest, self.here) {
            (true, true) => "the bucket and you",
            (true, false) => "the bucket",
            (false, true) => "you",
            (false, false) => "",
        }
    }
}

/// What differs between two contents of a secret, or between three.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "sides")]
pub enum Compared {
    /// From the one to the other.
    Two {
        /// What the old one is.
        from: String,
        /// What the new one is.
        to: String,
        /// What differs.
        difference: Difference,
    },
    /// What two people made of it.
    Three(ThreeWay),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, state: FileState) -> SecretRow {
        SecretRow {
            key: key.to_owned(),
            state,
            size: 10,
            modified: None,
            etag: None,
            encryption: Encryption::Ours,
            versions: None,
            expires: None,
            problem: None,
        }
    }

    #[test]
    fn what_somebody_has_to_look_at() {
        assert!(!row("common/a", FileState::Same).needs_eyes());
        assert!(!row("common/a", FileState::ChangedHere).needs_eyes());
        assert!(row("common/a", FileState::Both).needs_eyes());
        let with = |encryption| SecretRow { encryption, ..row("a", FileState::Same) }.needs_eyes();
        assert!(with(Encryption::OtherKey("k".into())) && with(Encryption::NotKms(None)));
        assert!(!with(Encryption::NotRead) && !with(Encryption::Nothing));
        let left_out = SecretRow { problem: Some("it is empty".into()), ..row("", FileState::OnlyThere) };
        assert!(left_out.needs_eyes());
    }

    #[test]
    fn who_has_a_version() {
        let version =
            |newest, here| SecretVersion { id: "v".into(), modified: None, size: None, newest, here };
        assert_eq!(version(true, true).held_by(), "the bucket and you");
        assert_eq!((version(false, false).held_by(), version(false, true).held_by()), ("", "you"));
        assert!(version(true, false).is_removal());
    }
}
