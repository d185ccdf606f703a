//! S3: the objects of one bucket.
//!
//! Everything that is written is encrypted with the environment's KMS key, and depends on the state that it was decided on. No ACL is
//! ever sent: an object belongs to the bucket's owner and is private unless somebody opened the bucket.

mod error;
mod list;
mod object;
mod settings;
mod versions;

use aws_sdk_s3::Client;
use aws_types::SdkConfig;

pub use list::Pages;
pub use object::{Content, Download, Which, Written};

/// The most that one request may write (5 GiB): <https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>.
pub const PUT_LIMIT: u64 = 5 * 1024 * 1024 * 1024;

/// The user metadata that holds the content's SHA-256 in hexadecimal.
const SHA256: &str = "sha256";
/// The user metadata that holds who wrote it.
const BY: &str = "written-by";

/// A bucket; cheap to clone.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    name: String,
    key: String,
}

impl Bucket {
    /// A handle on a bucket. `key` is the KMS key that what is written is encrypted with: its id, ARN or `alias/…`.
    #[must_use]
    pub fn new(sdk: &SdkConfig, path_style: bool, name: &str, key: &str) -> Self {
        let config = aws_sdk_s3::config::Builder::from(sdk).force_path_style(path_style).build();
        Self { client: Client::from_conf(config), name: name.to_owned(), key: key.to_owned() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}
