//! What of the manifests is in the bucket, and on the nodes.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;

use crate::backend::s3::{Bucket, Content, Which};
use crate::config::{Config, Permit, ReadOnly};
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::{Condition, Object};
use crate::domain::manifest::{
    self, Compared, ManifestFile, NodeName, NodeStatus, NodeView, STATUS_LIMIT, STATUS_PREFIX, State,
    StatusError, Stored, compare, overview, unified,
};
use crate::domain::secret::{CHECK_LIMIT, Checksum, RelativePath, relative};
use crate::ops::OpError;
use crate::ops::aws::Cloud;
use crate::ops::environment::Named;

use super::within;

/// Where the manifests are in the bucket.
const PREFIX: &str = "manifests/";
/// How many requests are under way at a time.
const AT_ONCE: usize = 8;
/// From how many folders on the whole bucket is listed at once.
const FOLDERS: usize = 16;

/// The manifests in an environment's bucket.
#[derive(Debug)]
pub struct ManifestBucket {
    environment: String,
    bucket: Bucket,
    remote: Result<Permit, ReadOnly>,
}

/// What became of a file that was to be pushed.
#[derive(Debug)]
pub struct Pushed {
    /// Which.
    pub path: RelativePath,
    /// How it stood before.
    pub state: State,
    /// Whether it was written. Those that are the same, or only in the bucket, are not.
    pub outcome: Result<bool, OpError>,
}

impl ManifestBucket {
    /// The bucket of an environment, and the permit to write to it. Nothing of it is asked yet.
    #[must_use]
    pub fn new(bucket: Bucket, environment: &str, remote: Result<Permit, ReadOnly>) -> Self {
        Self { environment: environment.to_owned(), bucket, remote }
    }

    /// That of a connection.
    #[must_use]
    pub fn of(cloud: &Cloud, config: &Config, named: &Named) -> Self {
        let read_only = named.settings(config).is_some_and(|settings| settings.read_only);
        let remote = if read_only { Err(ReadOnly) } else { config.permit() };
        Self::new(cloud.secrets_bucket(), &named.name, remote)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bucket.name()
    }

    /// Compares what was rendered with what is in the bucket, as far as `names` name it: all, without any.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not look.
    pub async fn compare(
        &self,
        rendered: &[ManifestFile],
        names: &[String],
    ) -> Result<Vec<Compared>, OpError> {
        let wanted = |path: &RelativePath| {
            names.is_empty()
                || names.iter().any(|name| within(name, path.as_str()))
                || rendered.iter().any(|file| file.path == *path)
        };
        let objects = self.bucket.list_all(PREFIX).await?;
        // What can be no manifest of ours is not compared with one.
        let stored = objects.into_iter().filter_map(stored).filter(|object| wanted(&object.path));
        let mut compared = compare(rendered, stored);
        let unsure = compared.iter_mut().filter(|one| one.state == State::Unsure);
        stream::iter(unsure)
            .map(|one| self.make_sure(one))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        Ok(compared)
    }

    /// Reads an object of the same size: only its content says whether it differs. What others wrote beside it is not believed.
    async fn make_sure(&self, one: &mut Compared) -> Result<(), OpError> {
        let (Some(here), Some(there)) = (one.here, one.there.as_mut()) else { return Ok(()) };
        there.sha256 = self.content(there).await?.map(|bytes| Checksum::of(&bytes));
        one.state = if there.sha256 == Some(here.sha256) { State::Same } else { State::Changed };
        Ok(())
    }

    /// An object's content, as it was listed. None: it is not that any more.
    async fn content(&self, there: &Stored) -> Result<Option<Vec<u8>>, OpError> {
        let key = format!("{PREFIX}{}", there.path.as_str());
        match self.bucket.get(&key, &Which::Is(there.etag.clone())).await {
            Ok(Some(download)) => Ok(Some(download.all(CHECK_LIMIT as u64).await?)),
            Ok(None) => Ok(None),
            Err(error) if error.kind == AwsErrorKind::Conflict => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What differs, as a unified diff from the bucket to what was rendered; empty: nothing does.
    ///
    /// # Errors
    /// When the object cannot be read, or was changed since it was compared.
    pub async fn difference(
        &self,
        compared: &Compared,
        rendered: &[ManifestFile],
    ) -> Result<String, OpError> {
        if compared.state == State::Same {
            return Ok(String::new());
        }
        let there = match &compared.there {
            Some(there) => Some(self.content(there).await?.ok_or_else(|| changed(&compared.path))?),
            None => None,
        };
        let here = rendered.iter().find(|file| file.path == compared.path).map(|file| file.bytes.as_slice());
        Ok(unified(&compared.path, there.as_deref(), here))
    }

    /// Writes what differs, each file under the condition that the object is what it was compared with, signed with `by`. What is only in
    /// the bucket stays.
    ///
    /// # Errors
    /// When nothing may be changed. What happened to each file is in the answer.
    pub async fn push(
        &self,
        compared: Vec<Compared>,
        rendered: &[ManifestFile],
        by: &str,
    ) -> Result<Vec<Pushed>, OpError> {
        let permit = self.remote?;
        let jobs = compared.into_iter().map(|one| {
            let file = rendered.iter().find(|file| file.path == one.path);
            let permit = &permit;
            async move {
                let outcome = match file.filter(|_| one.state.is_pushed()) {
                    Some(file) => self.write(permit, file, one.there.as_ref(), by).await.map(|()| true),
                    None => Ok(false),
                };
                Pushed { path: one.path, state: one.state, outcome }
            }
        });
        // A list first: the borrows of a lazy one are too much for the compiler.
        let jobs: Vec<_> = jobs.collect();
        let mut pushed: Vec<Pushed> = stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await;
        pushed.sort_by(|one, other| one.path.cmp(&other.path));
        let count = pushed.iter().filter(|one| matches!(one.outcome, Ok(true))).count();
        if count > 0 {
            self.record(by, count);
        }
        Ok(pushed)
    }

    async fn write(
        &self,
        permit: &Permit,
        file: &ManifestFile,
        there: Option<&Stored>,
        by: &str,
    ) -> Result<(), OpError> {
        let condition = there.map_or(Condition::IsNot, |there| Condition::Is(there.etag.clone()));
        let content = Content::Bytes(Bytes::copy_from_slice(&file.bytes));
        let key = format!("{PREFIX}{}", file.path.as_str());
        match self.bucket.put(permit, &key, content, file.sha256, by, &condition).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind == AwsErrorKind::Conflict => Err(changed(&file.path)),
            Err(error) => Err(error.into()),
        }
    }

    fn record(&self, who: &str, count: usize) {
        tracing::info!(
            target: "hostwright::activity",
            who,
            environment = self.environment,
            action = "push",
            on = format!("{count} manifests"),
            outcome = "done",
            "manifests"
        );
    }

    /// All nodes that said something, beside what is in the folders that they take.
    ///
    /// # Errors
    /// When the bucket does not answer, or we may not look.
    pub async fn nodes(&self) -> Result<Vec<NodeView>, OpError> {
        let objects = self.bucket.list_all(STATUS_PREFIX).await?;
        let nodes = objects.into_iter().filter_map(|object| Some((NodeName::of_key(&object.key)?, object)));
        let said: Vec<_> = stream::iter(nodes)
            .map(|(node, object)| async move {
                let said = self.said(&node, &object).await?;
                Ok::<_, AwsError>(said.map(|said| (node, said)))
            })
            .buffer_unordered(AT_ONCE)
            .try_filter_map(async |said| Ok(said))
            .try_collect()
            .await?;
        let mut listing = Vec::new();
        for folder in folders(&said) {
            listing.extend(self.bucket.list_all(&folder).await?);
        }
        Ok(overview(said, &listing, Timestamp::now()))
    }

    /// What a node says. None: it took it back meanwhile.
    async fn said(
        &self,
        node: &NodeName,
        object: &Object,
    ) -> Result<Option<Result<NodeStatus, StatusError>>, AwsError> {
        if object.size > STATUS_LIMIT as u64 {
            return Ok(Some(Err(StatusError::TooLarge)));
        }
        let Some(download) = self.bucket.get(&object.key, &Which::Newest).await? else { return Ok(None) };
        let bytes = download.all(STATUS_LIMIT as u64).await?;
        Ok(Some(NodeStatus::parse(node, &bytes)))
    }
}

/// The folders that the nodes take, none inside another; too many are one: all.
fn folders(said: &[(NodeName, Result<NodeStatus, StatusError>)]) -> Vec<String> {
    let statuses = said.iter().filter_map(|(_, said)| said.as_ref().ok());
    // Not every text is a folder: what can be none is not asked for.
    let all: BTreeSet<String> = statuses
        .flat_map(|status| &status.prefixes)
        .filter_map(|prefix| manifest::Prefix::parse(prefix).ok())
        .map(|prefix| prefix.as_str().to_owned())
        .collect();
    let mut folders: Vec<String> = Vec::new();
    for folder in all {
        if folders.last().is_none_or(|outer| !folder.starts_with(outer.as_str())) {
            folders.push(folder);
        }
    }
    if folders.len() > FOLDERS { vec![String::new()] } else { folders }
}

fn changed(path: &RelativePath) -> OpError {
    OpError::Apart(format!("{path} was changed in the bucket meanwhile: `manifests diff` shows both"))
}

fn stored(object: Object) -> Option<Stored> {
    let path = relative(object.key.strip_prefix(PREFIX)?).ok()?;
    Some(Stored { path, etag: object.etag, version_id: None, size: object.size, sha256: None })
}
