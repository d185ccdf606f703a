//! The bucket, as far as a node needs it.

use bytes::Bytes;

use crate::backend::s3::{Bucket, Content, Download, Pages, Which};
use crate::config::Permit;
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::{Condition, Object};
use crate::domain::secret::Checksum;

/// How often what a node says of itself is tried to be written, when somebody else writes it meanwhile.
const TRIES: usize = 3;

/// What can be listed page by page, read piece by piece, and told what a node says of itself.
pub trait Store: Send + Sync {
    /// A listing that is under way.
    type Pages: Send;
    /// An object that is being read.
    type Body: Send;

    /// The bucket's name.
    fn name(&self) -> &str;

    /// Begins to list all objects whose keys start so.
    fn list(&self, prefix: &str) -> Self::Pages;

    /// The next page; none: that was all.
    ///
    /// # Errors
    /// When the listing broke off: it is not complete.
    fn page(
        &self,
        pages: &mut Self::Pages,
    ) -> impl Future<Output = Result<Option<Vec<Object>>, AwsError>> + Send;

    /// Begins to read an object as it was listed. None: it is not that one any more.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not.
    fn open(
        &self,
        object: &Object,
    ) -> impl Future<Output = Result<Option<Opened<Self::Body>>, AwsError>> + Send;

    /// The next piece; none: that was all.
    ///
    /// # Errors
    /// When it broke off.
    fn piece(&self, body: &mut Self::Body) -> impl Future<Output = Result<Option<Bytes>, AwsError>> + Send;

    /// Writes what a node says of itself.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not.
    fn tell(&self, key: &str, bytes: Vec<u8>) -> impl Future<Output = Result<(), AwsError>> + Send;
}

/// An object that is being read.
#[derive(Debug)]
pub struct Opened<B> {
    /// Its version, where the bucket keeps versions.
    pub version_id: Option<String>,
    /// What is in it.
    pub body: B,
}

/// A bucket in S3.
#[derive(Debug)]
pub struct NodeBucket {
    bucket: Bucket,
    permit: Permit,
    /// What a write is signed with.
    node: String,
}

impl NodeBucket {
    /// The bucket for this node.
    #[must_use]
    pub fn new(bucket: Bucket, permit: Permit, node: &str) -> Self {
        Self { bucket, permit, node: node.to_owned() }
    }
}

impl Store for NodeBucket {
    type Pages = Pages;
    type Body = Download;

    fn name(&self) -> &str {
        self.bucket.name()
    }

    fn list(&self, prefix: &str) -> Pages {
        self.bucket.list(prefix)
    }

    async fn page(&self, pages: &mut Pages) -> Result<Option<Vec<Object>>, AwsError> {
        pages.next().await
    }

    async fn open(&self, object: &Object) -> Result<Option<Opened<Download>>, AwsError> {
        match self.bucket.get(&object.key, &Which::Is(object.etag.clone())).await {
            Ok(download) => Ok(download.map(|body| Opened { version_id: body.facts.version.clone(), body })),
            Err(error) if error.kind == AwsErrorKind::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn piece(&self, body: &mut Download) -> Result<Option<Bytes>, AwsError> {
        body.next().await
    }

    async fn tell(&self, key: &str, bytes: Vec<u8>) -> Result<(), AwsError> {
        let (bytes, sha256) = (Bytes::from(bytes.clone()), Checksum::of(&bytes));
        for attempt in 1.. {
            let condition = match self.bucket.head(key).await {
                Ok(Some(facts)) => Condition::Is(facts.etag),
                Ok(None) => Condition::IsNot,
                // S3 says so of what is not there to who may read it and may not list its folder.
                Err(error) if error.kind == AwsErrorKind::Forbidden => Condition::IsNot,
                Err(error) => return Err(error),
            };
            let content = Content::Bytes(bytes.clone());
            match self.bucket.put(&self.permit, key, content, sha256, &self.node, &condition).await {
                // Another process of this node was quicker.
                Err(error) if error.kind == AwsErrorKind::Conflict && attempt < TRIES => {}
                done => return done.map(|_| ()),
            }
        }
        Ok(())
    }
}
