//! From a download into a file, in pieces of a bounded size, without blocking the runtime.

use std::io::Write as _;
use std::sync::Arc;

use super::{blocking, moved::Counter};
use crate::backend::folder::{Over, Staged, Stamp, Writer};
use crate::backend::s3::Download;
use crate::domain::secret::{LocalFact, RelativePath};
use crate::ops::OpError;

/// How many bytes are held before they are written.
const PIECE: usize = 1024 * 1024;

/// What came whole, and is not in its place yet. Dropped, it is gone.
pub(super) struct Arrived {
    staged: Staged,
    rest: Vec<u8>,
}

/// Takes a download in, beside the place that it is for.
pub(super) async fn take(
    writer: &Arc<Writer>,
    path: &RelativePath,
    mut download: Download,
    counter: &Counter<'_>,
) -> Result<Arrived, OpError> {
    let begin = {
        let (writer, path) = (Arc::clone(writer), path.clone());
        move || Ok(writer.stage(&path)?)
    };
    let mut staged = blocking(begin).await?;
    let mut held = Vec::new();
    while let Some(piece) = download.next().await? {
        counter.bytes(piece.len() as u64);
        held.extend_from_slice(&piece);
        if held.len() >= PIECE {
            (staged, held) = blocking(move || {
                write(&mut staged, &held)?;
                held.clear();
                Ok((staged, held))
            })
            .await?;
        }
    }
    Ok(Arrived { staged, rest: held })
}

fn write(staged: &mut Staged, bytes: &[u8]) -> Result<(), OpError> {
    let failed = |error: std::io::Error| OpError::Missing(format!("cannot write the local copy: {error}"));
    staged.write_all(bytes).map_err(failed)
}

impl Arrived {
    /// Puts it in its place.
    pub(super) async fn place(self, over: Over) -> Result<(LocalFact, Stamp), OpError> {
        let Self { mut staged, rest } = self;
        blocking(move || {
            write(&mut staged, &rest)?;
            Ok(staged.place(over)?)
        })
        .await
    }
}
