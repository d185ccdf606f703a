//! One object into one file.

use std::io::Write as _;
use std::sync::Arc;

use crate::backend::folder::{FolderError, Over, Staged, Stamp, Writer};
use crate::domain::aws::AwsError;
use crate::domain::manifest::{Taken, Transfer};
use crate::domain::secret::RelativePath;

use super::{Opened, Store};

/// How many bytes are held before they are written.
const PIECE: usize = 256 * 1024;

/// What came of it.
pub(super) enum Fetched {
    /// The file is as the object is, and what it is; and whether it had to be written for that.
    There { taken: Taken, stamp: Option<Stamp>, written: bool },
    /// The object is not the one that was listed any more.
    Moving,
}

/// Why it did not come.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransferError {
    #[error(transparent)]
    Aws(#[from] AwsError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{got} bytes came, and {listed} were listed: it is not taken")]
    Size { listed: u64, got: u64 },
    #[error("a task of our own ended: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Reads an object and puts it in its place, whole or not at all. A file that is the same already stays.
pub(super) async fn fetch<S: Store>(
    store: &S,
    writer: &Arc<Writer>,
    transfer: &Transfer,
) -> Result<Fetched, TransferError> {
    let Transfer { path, object, .. } = transfer;
    let Some(Opened { version_id, mut body }) = store.open(object).await? else { return Ok(Fetched::Moving) };
    let begin = {
        let (writer, path) = (Arc::clone(writer), path.clone());
        move || writer.stage(&path)
    };
    let mut staged = tokio::task::spawn_blocking(begin).await??;
    let (mut held, mut got) = (Vec::new(), 0_u64);
    while let Some(piece) = store.piece(&mut body).await? {
        got += piece.len() as u64;
        if got > object.size {
            break;
        }
        held.extend_from_slice(&piece);
        if held.len() >= PIECE {
            (staged, held) = write(staged, held, path).await?;
        }
    }
    if got != object.size {
        return Err(TransferError::Size { listed: object.size, got });
    }
    let (staged, _) = write(staged, held, path).await?;
    let (writer, own) = (Arc::clone(writer), path.clone());
    let (fact, stamp, written) = tokio::task::spawn_blocking(move || place(&writer, staged, &own)).await??;
    let (key, etag) = (object.key.clone(), object.etag.clone());
    let taken = Taken { key, etag, version_id, size: fact.size, sha256: fact.sha256 };
    Ok(Fetched::There { taken, stamp, written })
}

async fn write(
    mut staged: Staged,
    mut held: Vec<u8>,
    path: &RelativePath,
) -> Result<(Staged, Vec<u8>), TransferError> {
    let place = path.to_string();
    let work = move || {
        let failed = |error| FolderError::File { doing: "write", path: place, error };
        staged.write_all(&held).map_err(failed)?;
        held.clear();
        Ok::<_, FolderError>((staged, held))
    };
    Ok(tokio::task::spawn_blocking(work).await??)
}

type Placed = (crate::domain::secret::LocalFact, Option<Stamp>, bool);

/// Puts it in its place, unless what is there is the same.
fn place(writer: &Writer, staged: Staged, path: &RelativePath) -> Result<Placed, FolderError> {
    let fact = staged.fact();
    let folder = writer.folder();
    if folder.stat(path)?.is_some_and(|stat| stat.size == fact.size)
        && let Some((_, stamp)) = folder.hash(path)?.filter(|(there, _)| *there == fact)
    {
        // Somebody may have opened it to others. What is not known to be as it was is read in the next round.
        let tightened = writer.tighten(path)?;
        return Ok((fact, Some(stamp).filter(|_| !tightened), false));
    }
    let (fact, stamp) = staged.place(Over::Anything)?;
    Ok((fact, Some(stamp), true))
}
