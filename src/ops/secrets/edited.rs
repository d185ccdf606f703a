//! Editing a secret: its plain text goes through the operator's editor and comes back under the condition that nobody changed it.

use bytes::Bytes;
use jiff::Timestamp;

use super::look::name;
use super::upload::valid;
use super::{Secrets, blocking, save};
use crate::backend::folder::{FolderError, Over};
use crate::backend::s3::{Content, Which};
use crate::domain::aws::AwsErrorKind;
use crate::domain::bucket::Condition;
use crate::domain::secret::{
    Compared, FileState, Format, Known, LocalFact, RemoteFact, Values, check, compare, relative, three_way,
};
use crate::ops::OpError;

/// A secret's text as it was when it was opened.
#[derive(Debug, Clone)]
pub struct Editing {
    /// The exact key.
    pub key: String,
    /// The text; empty for a new secret.
    pub text: Vec<u8>,
    /// The object that it was read from; none: there was none.
    etag: Option<String>,
}

/// What came of a changed text.
#[derive(Debug)]
pub enum Saved {
    /// It is in the bucket.
    Uploaded {
        /// Why the local copy is not the same now, if it is not.
        local: Option<String>,
    },
    /// Somebody changed the secret meanwhile.
    Apart {
        /// What both made of it, values hidden.
        compared: Box<Compared>,
        /// The secret as it is now: to be gone on from.
        theirs: Editing,
    },
}

impl Secrets {
    /// Reads a secret to be edited. One that is not there is begun.
    ///
    /// # Errors
    /// When its key can be no file, nothing may be changed, or the bucket cannot be read.
    pub async fn begin(&self, key: &str) -> Result<Editing, OpError> {
        self.inner.remote?;
        relative(key).map_err(|reason| OpError::Invalid(format!("{}: {reason}", name(key))))?;
        let content = self.content(key, &Which::Newest).await?;
        let (etag, text) = content.map(|(fact, bytes)| (fact.etag, bytes)).unzip();
        Ok(Editing { key: key.to_owned(), text: text.unwrap_or_default(), etag })
    }

    /// Uploads a changed text, and renews the local copy where that was the same.
    ///
    /// # Errors
    /// When it is not what its name says, the bucket does not take it, or nothing may be changed.
    pub async fn save(&self, editing: &Editing, text: Vec<u8>) -> Result<Saved, OpError> {
        let permit = self.inner.remote?;
        let key = editing.key.as_str();
        valid(key, &check(key, &text))?;
        let by = self.by().await?.to_owned();
        let condition = editing.etag.clone().map_or(Condition::IsNot, Condition::Is);
        let fact = LocalFact::of(&text);
        let content = Content::Bytes(Bytes::from(text.clone()));
        let written = match self.inner.bucket.put(&permit, key, content, fact.sha256, &by, &condition).await {
            Ok(written) => written,
            Err(error) if error.kind == AwsErrorKind::Conflict => return self.apart(editing, &text).await,
            Err(error) => return Err(error.into()),
        };
        self.record(&by, "edit", &name(key), "uploaded");
        let known = Known {
            etag: written.etag,
            version_id: written.version,
            size: fact.size,
            sha256: fact.sha256,
            modified: Some(Timestamp::now()),
        };
        let local = self.renew(editing, text, known).await.err();
        Ok(Saved::Uploaded { local: local.map(|error| error.to_string()) })
    }

    async fn apart(&self, editing: &Editing, mine: &[u8]) -> Result<Saved, OpError> {
        let theirs = self.begin(&editing.key).await?;
        let base = editing.etag.as_ref().map(|_| editing.text.as_slice());
        let now = theirs.etag.as_ref().map(|_| theirs.text.as_slice());
        let ways = three_way(base, Some(mine), now, Format::of(&editing.key), Values::Hidden);
        Ok(Saved::Apart { compared: Box::new(Compared::Three(ways)), theirs })
    }

    /// Writes the new text into the folder, where the file was the same as the object.
    async fn renew(&self, editing: &Editing, text: Vec<u8>, known: Known) -> Result<(), OpError> {
        let Ok(path) = relative(&editing.key) else { return Ok(()) };
        let (Some(folder), index) = self.read_folder().await? else { return Ok(()) };
        let hashed = {
            let (folder, path) = (folder, path.clone());
            blocking(move || Ok(folder.hash(&path)?)).await?
        };
        let Some((fact, stamp)) = hashed else { return Ok(()) };
        let remote = editing.etag.as_ref().map(|etag| RemoteFact {
            etag: etag.clone(),
            version_id: None,
            size: editing.text.len() as u64,
        });
        if compare(index.get(&editing.key), Some(&fact), remote.as_ref()) != FileState::Same {
            let text =
                format!("the local copy of {} is another one: it was left as it is", name(&editing.key));
            return Err(OpError::Refused(text));
        }
        let mut open = self.write_folder("secrets edit").await?;
        let writer = std::sync::Arc::clone(&open.writer);
        blocking(move || {
            use std::io::Write as _;
            let mut staged = writer.stage(&path)?;
            let written = staged.write_all(&text);
            written.map_err(|error| FolderError::File { doing: "write", path: path.to_string(), error })?;
            staged.commit(Over::This(stamp))?;
            Ok(())
        })
        .await?;
        open.index.remember(editing.key.as_str(), known);
        save(&open.writer, &open.index).await
    }
}
