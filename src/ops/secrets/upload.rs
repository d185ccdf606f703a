//! Uploading: from the folder into the bucket, under the condition that the object is what was seen.

use bytes::Bytes;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::fetch::{Done, Remember, apart};
use super::look::{Entry, Local, common_prefix, name};
use super::moved::{Counter, Moved, Outcome, Picked, Transfer};
use super::{Secrets, blocking};
use crate::backend::folder::Folder;
use crate::backend::s3::Content;
use crate::config::Permit;
use crate::domain::bucket::{Condition, Object};
use crate::domain::secret::{CHECK_LIMIT, Checked, Checksum, FileState, Known, LocalFact, check};
use crate::ops::OpError;

impl Secrets {
    /// Uploads every file that is wanted and was changed here, or the picked ones. `over`: also over what was changed in the bucket, as
    /// long as it is what was seen there.
    ///
    /// # Errors
    /// When the bucket or the folder cannot be used at all, or nothing may be changed. What happened to each is in the answer.
    pub async fn upload(
        &self,
        wanted: impl Fn(&str) -> bool,
        picked: Option<&[Picked]>,
        over: bool,
        tell: &(dyn Fn(Transfer) + Sync),
        cancel: &CancellationToken,
    ) -> Result<Moved, OpError> {
        let permit = self.inner.remote?;
        let by = self.by().await?.to_owned();
        let mut open = self.write_folder("secrets upload").await?;
        let folder = open.writer.folder().clone();
        let pick = |key: &str| picked.and_then(|all| all.iter().find(|one| one.key == key));
        let prefix = picked.map(|all| common_prefix(all.iter().map(|one| one.key.as_str())));
        let survey = self
            .survey(
                prefix.as_deref().unwrap_or_default(),
                |key| wanted(key) && (picked.is_none() || pick(key).is_some()),
                Some(folder.clone()),
                &open.index,
            )
            .await?;
        let entries: Vec<Entry> = survey.entries.into_iter().filter(|entry| entry.local.is_some()).collect();
        let bytes = entries.iter().filter(|entry| moves(entry)).filter_map(|e| e.local.as_ref());
        let counter = Counter::new(entries.len(), bytes.map(|local| local.fact.size).sum(), tell);
        let jobs = entries.into_iter().map(|entry| {
            let (folder, by, counter) = (folder.clone(), by.as_str(), &counter);
            let seen = pick(&entry.key).cloned();
            async move {
                let job = Job { permit: &permit, folder: &folder, by, over, seen };
                let done = self.upload_one(&job, &entry).await;
                if matches!(done, Ok((Outcome::Uploaded, _))) {
                    counter.bytes(entry.local.as_ref().map_or(0, |local| local.fact.size));
                }
                (entry.key, done)
            }
        });
        let jobs: Vec<_> = jobs.collect();
        self.drive(jobs, &mut open, &counter, "upload", cancel).await
    }

    async fn upload_one(&self, job: &Job<'_>, entry: &Entry) -> Done {
        use FileState as S;
        let Some(local) = &entry.local else { return Ok((Outcome::Left("not here"), Remember::Nothing)) };
        if let Some(seen) = &job.seen
            && seen.etag.as_deref() != entry.object.as_ref().map(|object| object.etag.as_str())
        {
            return Err(apart(&entry.key, "was changed in the bucket since you looked"));
        }
        match (entry.state, &entry.object) {
            (S::Same | S::Nowhere, _) => Ok((Outcome::Same, Remember::Nothing)),
            (S::OnlyHere, _) => self.write(job, entry, local, Condition::IsNot).await,
            (S::ChangedHere, Some(object)) => {
                self.write(job, entry, local, Condition::Is(object.etag.clone())).await
            }
            (S::ChangedThere, _) if !job.over => {
                Ok((Outcome::Left("changed there: fetch it"), Remember::Nothing))
            }
            (S::RemovedThere, _) if !job.over => Ok((Outcome::Left("removed there"), Remember::Nothing)),
            (_, Some(object)) => self.settle_or_write(job, entry, local, object).await,
            (_, None) if job.over => self.write(job, entry, local, Condition::IsNot).await,
            (_, None) => Err(apart(&entry.key, "was changed here and removed in the bucket")),
        }
    }

    async fn settle_or_write(&self, job: &Job<'_>, entry: &Entry, local: &Local, object: &Object) -> Done {
        if let Some(known) = self.same_content(object, &local.fact).await? {
            return Ok((Outcome::Same, Remember::Known(Box::new(known))));
        }
        if job.over {
            return self.write(job, entry, local, Condition::Is(object.etag.clone())).await;
        }
        Err(apart(&entry.key, "was changed here and in the bucket"))
    }

    async fn write(&self, job: &Job<'_>, entry: &Entry, local: &Local, condition: Condition) -> Done {
        let (folder, path, fact) = (job.folder.clone(), entry.path.clone(), local.fact);
        let content = blocking(move || content(&folder, &path, &fact)).await?;
        let written = self
            .inner
            .bucket
            .put(job.permit, &entry.key, content, local.fact.sha256, job.by, &condition)
            .await?;
        let known = Known {
            etag: written.etag,
            version_id: written.version,
            size: local.fact.size,
            sha256: local.fact.sha256,
            modified: Some(Timestamp::now()),
        };
        Ok((Outcome::Uploaded, Remember::Known(Box::new(known))))
    }
}

/// What every upload of one call shares.
struct Job<'a> {
    permit: &'a Permit,
    folder: &'a Folder,
    by: &'a str,
    over: bool,
    seen: Option<Picked>,
}

/// A file's content, looked into when it is one that can be.
fn content(
    folder: &Folder,
    path: &crate::domain::secret::RelativePath,
    fact: &LocalFact,
) -> Result<Content, OpError> {
    let gone = || OpError::Apart(format!("{path} was removed here meanwhile"));
    if fact.size > CHECK_LIMIT as u64 {
        let (file, stat) = folder.reader(path)?.ok_or_else(gone)?;
        return Ok(Content::File(file, stat.size));
    }
    let bytes = folder.read(path, CHECK_LIMIT as u64)?.ok_or_else(gone)?;
    if Checksum::of(&bytes) != fact.sha256 {
        return Err(OpError::Apart(format!("{path} was changed here meanwhile: try again")));
    }
    valid(path.as_str(), &check(path.as_str(), &bytes))?;
    Ok(Content::Bytes(Bytes::from(bytes)))
}

/// Refuses what is not what its name says.
pub(super) fn valid(key: &str, checked: &Checked) -> Result<(), OpError> {
    if checked.is_good() {
        return Ok(());
    }
    let problems: Vec<String> = checked.problems.iter().map(ToString::to_string).collect();
    Err(OpError::Invalid(format!("{} is not uploaded: {}", name(key), problems.join("; "))))
}

fn moves(entry: &Entry) -> bool {
    entry.state.upload_is_safe() || entry.state.is_conflict()
}
