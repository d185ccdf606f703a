//! What a step makes: collected first, in the order in which it is written at the end.

use std::collections::BTreeSet;

use super::bring_up::Report;
use crate::domain::aws::AwsErrorKind;
use crate::domain::platform::Step;
use crate::domain::secret::{FileState, SecretRow, shown};
use crate::ops::OpError;
use crate::ops::secrets::{Depth, Here, Made, Secrets};

/// What is in the bucket and here. Nothing is in a bucket that is not there yet.
async fn rows(secrets: &Secrets) -> Result<Vec<SecretRow>, OpError> {
    match secrets.look(Depth::Listing).await {
        Ok(listing) => Ok(listing.rows),
        Err(OpError::Aws(error)) if error.kind == AwsErrorKind::NoBucket => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A look ahead: which files a step would make, since they are neither here nor in the bucket.
pub(super) async fn missing(secrets: &Secrets, step: Step, keys: &[&str]) -> Result<Report, OpError> {
    let there: BTreeSet<String> = rows(secrets).await?.into_iter().map(|row| row.key).collect();
    let (same, changed): (Vec<&str>, Vec<&str>) = keys.iter().partition(|key| there.contains(**key));
    let changed = changed.into_iter().map(str::to_owned).collect();
    Ok(Report { changed, same: same.len(), ..Report::new(step) })
}

/// What is here, and what is to be.
pub(super) struct Batch<'a> {
    secrets: &'a Secrets,
    /// Keys of objects that are not here as they are in the bucket.
    elsewhere: BTreeSet<String>,
    files: Vec<Made>,
    report: Report,
}

impl<'a> Batch<'a> {
    /// Looks at the bucket and the local copy.
    pub(super) async fn open(secrets: &'a Secrets, step: Step) -> Result<Self, OpError> {
        let is_here = |state| matches!(state, FileState::Same | FileState::OnlyHere | FileState::ChangedHere);
        let elsewhere =
            rows(secrets).await?.into_iter().filter(|row| !is_here(row.state)).map(|row| row.key).collect();
        Ok(Self { secrets, elsewhere, files: Vec::new(), report: Report::new(step) })
    }

    /// A file as it is here. None: there is none, here or in the bucket.
    pub(super) async fn here(&self, key: &str) -> Result<Option<Here>, OpError> {
        if self.elsewhere.contains(key) {
            let text =
                format!("{} is not here as it is in the bucket: `secrets fetch`, then again", shown(key));
            return Err(OpError::Apart(text));
        }
        self.secrets.here(key).await
    }

    /// A file is new, or replaces one that was looked at.
    pub(super) fn add(&mut self, key: &str, bytes: Vec<u8>, over: Option<Here>) {
        self.report.changed.push(key.to_owned());
        self.files.push(Made { key: key.to_owned(), bytes, over });
    }

    /// A file is as it should be.
    pub(super) fn keep(&mut self) {
        self.report.same += 1;
    }

    /// Something that the operator should know.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.report.notes.push(text.into());
    }

    /// Makes a file that is not there.
    pub(super) async fn make(
        &mut self,
        key: &str,
        bytes: impl FnOnce() -> Result<Vec<u8>, OpError>,
    ) -> Result<(), OpError> {
        match self.here(key).await? {
            Some(_) => self.keep(),
            None => self.add(key, bytes()?, None),
        }
        Ok(())
    }

    /// Writes what was made, unless it is only looked at what would be.
    pub(super) async fn end(self, dry: bool) -> Result<Report, OpError> {
        if !dry && !self.files.is_empty() {
            self.secrets.place(self.files).await?;
        }
        Ok(self.report)
    }
}
