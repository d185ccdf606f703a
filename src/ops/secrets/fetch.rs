//! Fetching: from the bucket into the folder.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::look::{Entry, Local, common_prefix, name};
use super::moved::{Counter, Moved, Outcome, Picked, Transfer};
use super::{AT_ONCE, Open, Secrets, blocking, save, sink};
use crate::backend::folder::{Over, Writer};
use crate::backend::s3::{Download, Which};
use crate::domain::aws::{AwsError, AwsErrorKind};
use crate::domain::bucket::{Object, ObjectFacts};
use crate::domain::secret::{Checksum, FileState, Index, Known, LocalFact};
use crate::ops::OpError;

/// How many files may be done before what is remembered is written: what is lost when we are killed is compared again.
const SAVE_EVERY: usize = 200;

/// What is under way gets this time to end once it is cancelled.
const GRACE: Duration = Duration::from_secs(2);
/// How often a download that breaks off is begun.
const TRIES: usize = 4;

/// What is remembered, or not any more.
pub(super) enum Remember {
    Known(Box<Known>),
    Forget,
    Nothing,
}

/// What came of one, and what is remembered of it.
pub(super) type Done = Result<(Outcome, Remember), OpError>;

impl Secrets {
    /// Fetches everything whose key is wanted, or the picked ones. `over`: also over files that were changed here. `prune`: files go
    /// whose objects were removed, when they are as they were fetched.
    ///
    /// # Errors
    /// When the bucket or the folder cannot be used at all. What happened to each is in the answer.
    pub async fn fetch(
        &self,
        wanted: impl Fn(&str) -> bool,
        picked: Option<&[Picked]>,
        (over, prune): (bool, bool),
        tell: &(dyn Fn(Transfer) + Sync),
        cancel: &CancellationToken,
    ) -> Result<Moved, OpError> {
        let mut open = self.write_folder("secrets fetch").await?;
        let prefix = picked.map(|all| common_prefix(all.iter().map(|one| one.key.as_str())));
        let is_picked = |key: &str| picked.is_none_or(|all| all.iter().any(|one| one.key == key));
        let survey = self
            .survey(
                prefix.as_deref().unwrap_or_default(),
                |key| wanted(key) && is_picked(key),
                Some(open.writer.folder().clone()),
                &open.index,
            )
            .await?;
        let entries: Vec<Entry> = survey.entries;
        let bytes = entries.iter().filter(|entry| moves(entry, over)).filter_map(|e| e.object.as_ref());
        let counter = Counter::new(entries.len(), bytes.map(|object| object.size).sum(), tell);
        let jobs = entries.into_iter().map(|entry| {
            let writer = Arc::clone(&open.writer);
            let counter = &counter;
            async move {
                let done = self.fetch_one(&writer, &entry, over, prune, counter).await;
                (entry.key, done)
            }
        });
        let jobs: Vec<_> = jobs.collect();
        let mut moved = self.drive(jobs, &mut open, &counter, "fetch", cancel).await?;
        let skipped = survey.skipped.iter().filter(|skip| !skip.reason.is_quiet());
        moved.skipped = skipped.map(|skip| (name(&skip.key), skip.reason.to_string())).collect();
        Ok(moved)
    }

    /// Runs jobs, a bounded number at a time, remembers what they say, and stops between them when it is cancelled.
    pub(super) async fn drive<F>(
        &self,
        jobs: Vec<F>,
        open: &mut Open<'_>,
        counter: &Counter<'_>,
        deed: &'static str,
        cancel: &CancellationToken,
    ) -> Result<Moved, OpError>
    where
        F: Future<Output = (String, Done)>,
    {
        let mut moved = Moved::default();
        let all = jobs.len();
        // Cancelled, no more are begun. What is under way gets the time to end: what was uploaded is to be remembered.
        let mut running =
            stream::iter(jobs).take_until(Box::pin(cancel.cancelled())).buffer_unordered(AT_ONCE);
        let late = async {
            cancel.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::pin!(late);
        let mut unsaved = 0;
        loop {
            let next = tokio::select! {
                biased;
                next = running.next() => next,
                () = &mut late => None,
            };
            let Some((key, done)) = next else { break };
            counter.file();
            let outcome = done.map(|(outcome, remember)| {
                unsaved += usize::from(apply(&mut open.index, &key, remember));
                outcome
            });
            moved.outcomes.push((key.clone(), outcome.map_err(|error| error.problem(name(&key)))));
            if unsaved >= SAVE_EVERY {
                save(&open.writer, &open.index).await?;
                unsaved = 0;
            }
        }
        moved.cancelled = moved.outcomes.len() < all;
        // What is still under way is dropped here, and leaves nothing.
        drop(running);
        if unsaved > 0 {
            let writer = Arc::clone(&open.writer);
            blocking(move || Ok(writer.settle()?)).await?;
            save(&open.writer, &open.index).await?;
        }
        moved.outcomes.sort_by(|a, b| a.0.cmp(&b.0));
        let done = moved.outcomes.iter().filter(|(_, outcome)| changed(outcome)).count();
        if done > 0 {
            let who = self.by().await.unwrap_or("unknown").to_owned();
            self.record(&who, deed, &format!("{done} secrets"), "done");
        }
        Ok(moved)
    }

    async fn fetch_one(
        &self,
        writer: &Arc<Writer>,
        entry: &Entry,
        over: bool,
        prune: bool,
        counter: &Counter<'_>,
    ) -> Done {
        use FileState as S;
        match (entry.state, &entry.object, &entry.local) {
            (S::Same | S::Nowhere, ..) => Ok((Outcome::Same, Remember::Nothing)),
            (S::RemovedThere, None, Some(local)) if prune => {
                self.remove_local(writer, entry, local).await?;
                Ok((Outcome::RemovedHere, Remember::Forget))
            }
            (S::RemovedThere, ..) => {
                Ok((Outcome::Left("removed there: fetch --prune removes it here"), Remember::Nothing))
            }
            (S::OnlyHere, ..) => Ok((Outcome::Left("only here"), Remember::Nothing)),
            (S::ChangedHere, ..) if !over => Ok((Outcome::Left("changed here"), Remember::Nothing)),
            (_, Some(object), None) => self.download(writer, entry, object, Over::Nothing, counter).await,
            (S::ChangedThere, Some(object), Some(local)) => {
                self.download(writer, entry, object, Over::This(local.stamp), counter).await
            }
            (_, Some(object), Some(local)) => {
                self.settle_or(writer, entry, (object, local), over, counter).await
            }
            (_, None, Some(local)) if over => {
                self.remove_local(writer, entry, local).await?;
                Ok((Outcome::RemovedHere, Remember::Forget))
            }
            (_, None, _) => Err(apart(&entry.key, "was changed here and removed in the bucket")),
        }
    }

    /// Both may differ: what comes is compared with what is there, and replaces it only if that was asked for.
    async fn settle_or(
        &self,
        writer: &Arc<Writer>,
        entry: &Entry,
        (object, local): (&Object, &Local),
        over: bool,
        counter: &Counter<'_>,
    ) -> Done {
        if entry.state != FileState::ChangedHere
            && let Some(known) = self.same_content(object, &local.fact).await?
        {
            return Ok((Outcome::Same, Remember::Known(Box::new(known))));
        }
        if over {
            return self.download(writer, entry, object, Over::This(local.stamp), counter).await;
        }
        Err(apart(&entry.key, "was changed here and in the bucket"))
    }

    async fn download(
        &self,
        writer: &Arc<Writer>,
        entry: &Entry,
        object: &Object,
        over: Over,
        counter: &Counter<'_>,
    ) -> Done {
        let mut tries = 0;
        let (facts, arrived) = loop {
            tries += 1;
            let download = self.get(object).await?;
            let facts = download.facts.clone();
            match sink::take(writer, &entry.path, download, counter).await {
                Ok(arrived) => break (facts, arrived),
                // The SDK tries again until an answer begins; one that broke off is ours to ask for again.
                Err(OpError::Aws(error)) if error.kind == AwsErrorKind::Unreachable && tries < TRIES => {
                    tracing::info!(%error, key = name(&object.key), "trying again");
                }
                Err(error) => return Err(error),
            }
        };
        let (fact, _) = arrived.place(over).await?;
        Ok((Outcome::Fetched, Remember::Known(Box::new(known(facts, fact)))))
    }

    /// The object as it was listed: what was changed since is looked at again first.
    async fn get(&self, object: &Object) -> Result<Download, OpError> {
        let got = self.inner.bucket.get(&object.key, &Which::Is(object.etag.clone())).await;
        match got {
            Ok(Some(download)) => Ok(download),
            Ok(None) => Err(apart(&object.key, "was removed in the bucket meanwhile")),
            Err(error) if error.kind == AwsErrorKind::Conflict => {
                Err(apart(&object.key, "was changed in the bucket meanwhile"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is to be remembered when the object holds the same as the file.
    pub(super) async fn same_content(
        &self,
        object: &Object,
        local: &LocalFact,
    ) -> Result<Option<Known>, OpError> {
        if object.size != local.size {
            return Ok(None);
        }
        let mut download = self.get(object).await?;
        let mut hasher = Sha256::new();
        while let Some(piece) = download.next().await? {
            hasher.update(&piece);
        }
        let sha256 = Checksum::from(<[u8; 32]>::from(hasher.finalize()));
        let fact = LocalFact { size: object.size, sha256 };
        Ok((fact == *local).then(|| known(download.facts, fact)))
    }

    pub(super) async fn remove_local(
        &self,
        writer: &Arc<Writer>,
        entry: &Entry,
        local: &Local,
    ) -> Result<(), OpError> {
        let (writer, path, over) = (Arc::clone(writer), entry.path.clone(), Over::This(local.stamp));
        blocking(move || Ok(writer.remove(&path, over).map(|_| ())?)).await
    }
}

fn changed<E>(outcome: &Result<Outcome, E>) -> bool {
    matches!(outcome, Ok(Outcome::Fetched | Outcome::Uploaded | Outcome::Removed | Outcome::RemovedHere))
}

/// Whether a fetch is likely to read the object.
fn moves(entry: &Entry, over: bool) -> bool {
    entry.state.fetch_is_safe()
        || entry.state.is_conflict()
        || (over && entry.state == FileState::ChangedHere)
}

fn known(facts: ObjectFacts, fact: LocalFact) -> Known {
    Known {
        etag: facts.etag,
        version_id: facts.version,
        size: fact.size,
        sha256: fact.sha256,
        modified: facts.modified,
    }
}

/// Whether something is remembered otherwise now.
fn apply(index: &mut Index, key: &str, remember: Remember) -> bool {
    match remember {
        Remember::Known(known) => index.remember(key, *known),
        Remember::Forget => drop(index.forget(key)),
        Remember::Nothing => return false,
    }
    true
}

/// Somebody has to decide.
pub(super) fn apart(key: &str, what: &str) -> OpError {
    OpError::Apart(format!("{} {what}: `secrets diff` shows both", name(key)))
}

/// An answer that is not what it must be.
pub(super) fn unexpected(doing: &str, text: &str) -> OpError {
    AwsError::new(AwsErrorKind::Failed, doing, text).into()
}
