//! The wire message: an approved host's details on their way from the server to `provision`. No secrets travel in it.

use serde::{Deserialize, Serialize};

use super::{Announcement, Parameters};

/// The version that this program writes and the newest that it reads.
const VERSION: u32 = 1;
/// The most that a message may take, in bytes.
const LIMIT: usize = 64 * 1024;

/// What `provision` needs to know of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The format's version.
    pub version: u32,
    /// The Job's UID: the run's identity, and the message id.
    pub run: String,
    /// The Job's name, for people.
    pub name: String,
    /// What the host said of itself.
    pub announcement: Announcement,
    /// What to apply.
    pub parameters: Parameters,
}

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is larger than any message that this program writes.
    #[error("the message has {0} bytes, more than {LIMIT}")]
    TooLarge(usize),
    /// A newer version wrote it.
    #[error(
        "the message has version {0}, this program reads up to {VERSION}: upgrade the provisioning image"
    )]
    Newer(u32),
    /// It is not what it should be.
    #[error("the message is not a run's: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl Message {
    /// A message of the current version.
    #[must_use]
    pub fn new(run: String, name: String, announcement: Announcement, parameters: Parameters) -> Self {
        Self { version: VERSION, run, name, announcement, parameters }
    }

    /// The bytes that are published.
    ///
    /// # Errors
    /// When it would be larger than a reader accepts.
    pub fn to_bytes(&self) -> Result<Vec<u8>, MessageError> {
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() > LIMIT { Err(MessageError::TooLarge(bytes.len())) } else { Ok(bytes) }
    }

    /// Reads what was published.
    ///
    /// # Errors
    /// When it is too large, from a newer version, or no message.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        if bytes.len() > LIMIT {
            return Err(MessageError::TooLarge(bytes.len()));
        }
        let Version { version } = serde_json::from_slice(bytes)?;
        if version > VERSION {
            return Err(MessageError::Newer(version));
        }
        Ok(serde_json::from_slice(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RawAnnouncement;

    fn message() -> Message {
        let raw = RawAnnouncement { hostname: "web-1.example.org".into(), ..RawAnnouncement::default() };
        Message::new("uid-1".into(), "provision-x".into(), raw.check().unwrap(), Parameters::default())
    }

    #[test]
    fn it_reads_back_as_written() {
        assert_eq!(Message::parse(&message().to_bytes().unwrap()).unwrap(), message());
    }

    #[test]
    fn poison_is_named() {
        assert!(matches!(Message::parse(b"not json"), Err(MessageError::Malformed(_))));
        assert!(matches!(Message::parse(br#"{"version":1}"#), Err(MessageError::Malformed(_))));
        assert!(matches!(Message::parse(br#"{"version":9,"x":1}"#), Err(MessageError::Newer(9))));
        assert!(matches!(Message::parse(&vec![b' '; LIMIT + 1]), Err(MessageError::TooLarge(_))));
    }
}
