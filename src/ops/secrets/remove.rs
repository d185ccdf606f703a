//! Removing secrets from the bucket.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Secrets;
use super::fetch::{Done, Remember, apart};
use super::look::{Entry, common_prefix, name};
use super::moved::{Counter, Moved, Outcome, Picked, Transfer};
use crate::backend::folder::Writer;
use crate::config::Permit;
use crate::domain::secret::FileState;
use crate::ops::OpError;

impl Secrets {
    /// Removes the picked secrets from the bucket, as long as they are what was seen. A file that is the same goes too; one that was
    /// changed here stays.
    ///
    /// # Errors
    /// When the bucket or the folder cannot be used at all, or nothing may be changed. What happened to each is in the answer.
    pub async fn remove(
        &self,
        picked: &[Picked],
        tell: &(dyn Fn(Transfer) + Sync),
        cancel: &CancellationToken,
    ) -> Result<Moved, OpError> {
        let permit = self.inner.remote?;
        let mut open = self.write_folder("secrets rm").await?;
        let prefix = common_prefix(picked.iter().map(|one| one.key.as_str()));
        let pick = |key: &str| picked.iter().find(|one| one.key == key);
        let folder = open.writer.folder().clone();
        let survey = self.survey(&prefix, |key| pick(key).is_some(), Some(folder), &open.index).await?;
        let counter = Counter::new(survey.entries.len(), 0, tell);
        let absent: Vec<&Picked> =
            picked.iter().filter(|one| !survey.entries.iter().any(|entry| entry.key == one.key)).collect();
        let jobs = survey.entries.into_iter().map(|entry| {
            let (writer, seen) = (Arc::clone(&open.writer), pick(&entry.key).cloned());
            async move {
                let done = self.remove_one(&permit, &writer, &entry, seen.as_ref()).await;
                (entry.key, done)
            }
        });
        let jobs: Vec<_> = jobs.collect();
        let mut moved = self.drive(jobs, &mut open, &counter, "remove", cancel).await?;
        for one in absent {
            let error = OpError::NotFound(format!("secret {}", name(&one.key)));
            moved.outcomes.push((one.key.clone(), Err(error.problem(name(&one.key)))));
        }
        Ok(moved)
    }

    async fn remove_one(
        &self,
        permit: &Permit,
        writer: &Arc<Writer>,
        entry: &Entry,
        seen: Option<&Picked>,
    ) -> Done {
        let Some(object) = &entry.object else {
            return Err(OpError::NotFound(format!("secret {} in the bucket", name(&entry.key))));
        };
        let etag = seen.and_then(|seen| seen.etag.as_ref()).unwrap_or(&object.etag);
        if *etag != object.etag {
            return Err(apart(&entry.key, "was changed in the bucket since you looked"));
        }
        self.inner.bucket.remove(permit, &entry.key, etag).await?;
        if let (FileState::Same, Some(local)) = (entry.state, &entry.local) {
            self.remove_local(writer, entry, local).await?;
        }
        Ok((Outcome::Removed, Remember::Forget))
    }
}
