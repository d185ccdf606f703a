//! Files that we make ourselves, in the local copy: read before, written without ever replacing what nobody looked at.

use std::io::Write as _;
use std::sync::Arc;

use super::look::name;
use super::{Secrets, blocking};
use crate::backend::folder::{Folder, FolderError, Over, Stamp, Writer};
use crate::domain::secret::{CHECK_LIMIT, RelativePath, relative};
use crate::ops::OpError;

/// A file of the local copy as it was read.
#[derive(Clone)]
pub(in crate::ops) struct Here {
    pub(in crate::ops) bytes: Vec<u8>,
    stamp: Stamp,
}

/// A file that is to be written.
pub(in crate::ops) struct Made {
    /// The key.
    pub(in crate::ops) key: String,
    /// What it is to hold.
    pub(in crate::ops) bytes: Vec<u8>,
    /// The file that it replaces; none: it is new.
    pub(in crate::ops) over: Option<Here>,
}

impl Secrets {
    /// A file of the local copy. None: it is not there.
    pub(in crate::ops) async fn here(&self, key: &str) -> Result<Option<Here>, OpError> {
        let path = path(key)?;
        let root = self.inner.folder.clone();
        blocking(move || {
            let folder = match Folder::open(&root) {
                Ok(folder) => folder,
                Err(FolderError::NotThere(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            // The state first: what is changed in between is refused when it is written over.
            let Some(stat) = folder.stat(&path)? else { return Ok(None) };
            let bytes = folder.read(&path, CHECK_LIMIT as u64)?;
            Ok(bytes.map(|bytes| Here { bytes, stamp: stat.stamp }))
        })
        .await
    }

    /// Writes files to the local copy, in their order, each whole or not at all.
    pub(in crate::ops) async fn place(&self, files: Vec<Made>) -> Result<(), OpError> {
        let open = self.write_folder("platform bring-up").await?;
        let writer = Arc::clone(&open.writer);
        blocking(move || {
            for file in files {
                place(&writer, &file)?;
            }
            Ok(writer.settle()?)
        })
        .await
    }
}

fn place(writer: &Writer, file: &Made) -> Result<(), OpError> {
    let failed =
        |error: std::io::Error| OpError::Missing(format!("cannot write {}: {error}", name(&file.key)));
    let mut staged = writer.stage(&path(&file.key)?)?;
    staged.write_all(&file.bytes).map_err(failed)?;
    staged.place(file.over.as_ref().map_or(Over::Nothing, |here| Over::This(here.stamp)))?;
    Ok(())
}

fn path(key: &str) -> Result<RelativePath, OpError> {
    relative(key).map_err(|reason| OpError::Invalid(format!("{} can be no file: {reason}", name(key))))
}
