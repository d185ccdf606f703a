//! What differs between here and there, or between versions.

use super::look::name;
use super::{Secrets, blocking};
use crate::backend::folder::Folder;
use crate::backend::s3::Which;
use crate::domain::secret::{
    CHECK_LIMIT, Compared, Format, Known, LocalFact, RelativePath, RemoteFact, Values, compare, diff,
    relative, three_way,
};
use crate::ops::OpError;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sides {
    /// The bucket's content and the local one; where both were changed, with what both began with.
    Here,
    /// What the bucket has now, with this version of it.
    Version(String),
}

/// The most that is read to be compared.
const LIMIT: u64 = CHECK_LIMIT as u64;

impl Secrets {
    /// Compares contents of one secret.
    ///
    /// # Errors
    /// When neither is there, one is too large, or bucket or folder cannot be read.
    pub async fn compare(&self, key: &str, sides: &Sides, values: Values) -> Result<Compared, OpError> {
        let format = Format::of(key);
        let theirs = self.content(key, &Which::Newest).await?;
        match sides {
            Sides::Version(id) => {
                let old = self.content(key, &Which::Version(id.clone())).await?;
                let Some((_, old)) = old else { return Err(no_version(key, id)) };
                let newest = theirs.as_ref().map(|(_, bytes)| bytes.as_slice());
                Ok(Compared::Two {
                    from: format!("version {id}"),
                    to: "the bucket".to_owned(),
                    difference: diff(Some(&old), newest, format, values),
                })
            }
            Sides::Here => {
                let (mine, known) = self.mine(key).await?;
                if mine.is_none() && theirs.is_none() {
                    return Err(OpError::NotFound(format!("secret {}", name(key))));
                }
                let (remote, theirs) = theirs.unzip();
                let local = mine.as_deref().map(LocalFact::of);
                let state = compare(known.as_ref(), local.as_ref(), remote.as_ref());
                if state.is_conflict() {
                    let base = self.base(key, known.as_ref()).await?;
                    let all = (base.as_deref(), mine.as_deref(), theirs.as_deref());
                    return Ok(Compared::Three(three_way(all.0, all.1, all.2, format, values)));
                }
                Ok(Compared::Two {
                    from: "the bucket".to_owned(),
                    to: "here".to_owned(),
                    difference: diff(theirs.as_deref(), mine.as_deref(), format, values),
                })
            }
        }
    }

    /// A secret's content as the bucket has it: the newest, or a version.
    ///
    /// # Errors
    /// When there is none, it is larger than 8 MiB, or the bucket cannot be read.
    pub async fn read(&self, key: &str, version: Option<&str>) -> Result<Vec<u8>, OpError> {
        let which = version.map_or(Which::Newest, |id| Which::Version(id.to_owned()));
        match (self.content(key, &which).await?, version) {
            (Some((_, bytes)), _) => Ok(bytes),
            (None, Some(id)) => Err(no_version(key, id)),
            (None, None) => Err(OpError::NotFound(format!("secret {}", name(key)))),
        }
    }

    pub(super) async fn content(
        &self,
        key: &str,
        which: &Which,
    ) -> Result<Option<(RemoteFact, Vec<u8>)>, OpError> {
        let Some(download) = self.inner.bucket.get(key, which).await? else { return Ok(None) };
        let facts = download.facts.clone();
        let bytes = download.all(LIMIT).await?;
        let fact = RemoteFact { etag: facts.etag, version_id: facts.version, size: bytes.len() as u64 };
        Ok(Some((fact, bytes)))
    }

    /// What is here, and what is remembered.
    async fn mine(&self, key: &str) -> Result<(Option<Vec<u8>>, Option<Known>), OpError> {
        let (folder, index) = self.read_folder().await?;
        let known = index.get(key).cloned();
        let (Some(folder), Ok(path)) = (folder, relative(key)) else { return Ok((None, known)) };
        Ok((blocking(move || read(&folder, &path)).await?, known))
    }

    /// What both began with, where the bucket still has that version.
    async fn base(&self, key: &str, known: Option<&Known>) -> Result<Option<Vec<u8>>, OpError> {
        let Some(version) = known.and_then(|known| known.version_id.clone()) else { return Ok(None) };
        Ok(self.content(key, &Which::Version(version)).await?.map(|(_, bytes)| bytes))
    }
}

fn read(folder: &Folder, path: &RelativePath) -> Result<Option<Vec<u8>>, OpError> {
    Ok(folder.read(path, LIMIT)?)
}

pub(super) fn no_version(key: &str, id: &str) -> OpError {
    OpError::NotFound(format!("version {} of {}", name(id), name(key)))
}
