//! The secrets bucket and its local copy: what is where, and everything that is done with it.
//!
//! Nobody's change is ever overwritten unseen: what is written depends on the state that was looked at, here and in the bucket.

mod compare;
pub mod edit;
mod edited;
mod fetch;
mod grant;
mod history;
mod look;
mod made;
mod moved;
mod remove;
mod sink;
mod upload;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell};

use crate::backend::aws::Aws;
use crate::backend::folder::{Folder, FolderError, Writer};
use crate::backend::s3::Bucket;
use crate::config::{Config, Permit, ReadOnly, Secret};
use crate::domain::manifest::NodeView;
use crate::domain::secret::{INDEX_LIMIT, Index};

use super::OpError;
use super::aws::{Cloud, connect, signature};
use super::environment::Named;
use super::manifests::ManifestBucket;

pub use compare::Sides;
pub use edited::{Editing, Saved};
pub(super) use grant::new_token;
pub use grant::{Grant, Granted};
pub use look::Depth;
pub(super) use made::{Here, Made};
pub use moved::{Moved, Outcome, Picked, Transfer};

/// The file that what is remembered stands in.
const INDEX: &str = "index.json";
/// How many objects are transferred at a time.
const AT_ONCE: usize = 16;

/// An environment's secrets; cheap to clone.
#[derive(Debug, Clone)]
pub struct Secrets {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    environment: String,
    aws: Aws,
    bucket: Bucket,
    /// The environment's KMS key as its variables name it.
    named_key: String,
    /// Its ARN, once KMS said it.
    key: OnceCell<String>,
    /// Who writes, once AWS said it.
    by: OnceCell<String>,
    folder: PathBuf,
    /// The permits: to write to the bucket, and to the folder.
    remote: Result<Permit, ReadOnly>,
    local: Result<Permit, ReadOnly>,
    /// One of us writes to the folder at a time.
    turn: Mutex<()>,
    looked: Mutex<look::Looked>,
}

/// The folder, the right to write to it, and what is remembered of it.
struct Open<'a> {
    writer: Arc<Writer>,
    index: Index,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl Secrets {
    /// The secrets of an environment. Nothing of the bucket is asked yet.
    ///
    /// # Errors
    /// As [`connect`].
    pub async fn open(config: &Config, named: &Named, code: Option<&Secret>) -> Result<Self, OpError> {
        Ok(Self::of(config, named, connect(config, named, code).await?))
    }

    /// The secrets of an environment whose AWS is connected to.
    #[must_use]
    pub fn of(config: &Config, named: &Named, cloud: Cloud) -> Self {
        let bucket = cloud.secrets_bucket();
        Self {
            inner: Arc::new(Inner {
                environment: named.name.clone(),
                bucket,
                named_key: cloud.file.variables.kms_master_id.clone(),
                key: OnceCell::new(),
                by: OnceCell::new(),
                folder: named.secrets(config),
                remote: permit(config, named),
                local: config.permit(),
                turn: Mutex::default(),
                looked: Mutex::default(),
                aws: cloud.aws,
            }),
        }
    }

    /// Where the local copy is.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        &self.inner.folder
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &str {
        self.inner.bucket.name()
    }

    /// Which node has which version of the manifests.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not look.
    pub async fn nodes(&self) -> Result<Vec<NodeView>, OpError> {
        let Inner { bucket, environment, remote, .. } = &*self.inner;
        ManifestBucket::new(bucket.clone(), environment, *remote).nodes().await
    }

    /// Who we are to AWS: what a write is signed with.
    async fn by(&self) -> Result<&str, OpError> {
        let ask = || signature(&self.inner.aws);
        Ok(self.inner.by.get_or_try_init(ask).await?)
    }

    /// The environment's key, by its ARN where KMS tells it.
    async fn key(&self) -> &str {
        let ask = async || match self.inner.aws.kms_key(&self.inner.named_key).await {
            Ok(key) => key.arn,
            Err(error) => {
                tracing::debug!(%error, "the key is known by its name only");
                self.inner.named_key.clone()
            }
        };
        self.inner.key.get_or_init(ask).await
    }

    /// The folder, if there is one, and what is remembered of it.
    async fn read_folder(&self) -> Result<(Option<Folder>, Index), OpError> {
        let this = self.clone();
        blocking(move || match Folder::open(&this.inner.folder) {
            Ok(folder) => {
                let index = this.read_index(&folder)?;
                Ok((Some(folder), index))
            }
            Err(FolderError::NotThere(_)) => {
                Ok((None, Index::new(&this.inner.environment, this.inner.bucket.name())))
            }
            Err(error) => Err(error.into()),
        })
        .await
    }

    fn read_index(&self, folder: &Folder) -> Result<Index, OpError> {
        let (environment, bucket) = (&self.inner.environment, self.inner.bucket.name());
        let Some(bytes) = folder.read_own(INDEX, INDEX_LIMIT as u64)? else {
            return Ok(Index::new(environment, bucket));
        };
        let wrong = |error| OpError::Index { folder: self.inner.folder.display().to_string(), error };
        Index::parse(&bytes, environment, bucket).map_err(wrong)
    }

    /// Takes the folder for writing, made if need be; what killed writers left is swept away.
    async fn write_folder(&self, doing: &'static str) -> Result<Open<'_>, OpError> {
        let permit = self.inner.local?;
        let turn = self.inner.turn.lock().await;
        let this = self.clone();
        let (writer, index) = blocking(move || {
            let folder = Folder::create(&permit, &this.inner.folder)?;
            let writer = folder.writer(&permit, doing)?;
            let swept = writer.sweep()?;
            if swept > 0 {
                tracing::info!(swept, "half-written files of a process that was ended were removed");
            }
            let index = this.read_index(&folder)?;
            Ok((writer, index))
        })
        .await?;
        Ok(Open { writer: Arc::new(writer), index, _turn: turn })
    }

    /// Writes down who did what.
    fn record(&self, who: &str, action: &str, on: &str, outcome: &str) {
        tracing::info!(
            target: "hostwright::activity",
            who,
            environment = self.inner.environment,
            action,
            on,
            outcome,
            "secrets"
        );
    }
}

/// The permit to change an environment's bucket.
///
/// # Errors
/// With `--read-only`, or where the environment says so.
pub fn permit(config: &Config, named: &Named) -> Result<Permit, ReadOnly> {
    match named.settings(config) {
        Some(settings) if settings.read_only => Err(ReadOnly),
        _ => config.permit(),
    }
}

/// Runs what blocks where that is allowed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpError> + Send + 'static,
) -> Result<T, OpError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(OpError::Missing(format!("a task of our own ended: {error}"))),
    }
}

/// Writes what is remembered.
async fn save(writer: &Arc<Writer>, index: &Index) -> Result<(), OpError> {
    let folder = writer.folder().path().display().to_string();
    let bytes = index.to_json().map_err(|error| OpError::Index { folder, error })?;
    let writer = Arc::clone(writer);
    blocking(move || Ok(writer.write_own(INDEX, &bytes)?)).await
}
