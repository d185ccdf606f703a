//! A run's log as a file: fetched again, whole, byte by byte.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use futures_util::{AsyncBufRead, AsyncBufReadExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::backend::kube::Kube;
use crate::ops::OpError;

/// A log that was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Where it is.
    pub path: PathBuf,
    /// How large it is, in bytes.
    pub bytes: u64,
}

/// Fetches what there is of a run's log, its pods one after another, into `NAME.log` in a folder of one's own. `told` hears how many
/// bytes have come. Whoever drops this leaves no file behind, and an older one as it was.
///
/// # Errors
/// When there is no log (any more), the API server does not answer or refuses, or the file cannot be written.
pub async fn save(
    kube: &Kube,
    name: &str,
    uid: &str,
    folder: &Path,
    told: impl FnMut(u64),
) -> Result<Saved, OpError> {
    // A name that is no path is what Kubernetes lets a Job have.
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') || name.is_empty() {
        return Err(OpError::Invalid(format!("cannot save the log of {name:?}: that is no file name")));
    }
    let path = folder.join(format!("{name}.log"));
    let failed = |error: std::io::Error| {
        OpError::Missing(format!("cannot save the log in {}: {error}", path.display()))
    };
    let temporary = private_file(folder).map_err(failed)?;
    let mut out = tokio::fs::File::from_std(temporary.reopen().map_err(failed)?);
    let bytes = pods(kube, name, uid, &mut out, &failed, told).await?;
    out.sync_all().await.map_err(failed)?;
    temporary.persist(&path).map_err(|error| failed(error.error))?;
    Ok(Saved { path, bytes })
}

/// A temporary file that nobody else may read, in a folder that nobody else may enter.
fn private_file(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700))?;
    tempfile::Builder::new()
        .prefix(".")
        .suffix(".log")
        .permissions(PermissionsExt::from_mode(0o600))
        .tempfile_in(folder)
}

async fn pods(
    kube: &Kube,
    name: &str,
    uid: &str,
    out: &mut (impl AsyncWrite + Unpin),
    failed: &impl Fn(std::io::Error) -> OpError,
    mut told: impl FnMut(u64),
) -> Result<u64, OpError> {
    let pods = kube.pods(uid).await?;
    let mut bytes = 0;
    let mut any = false;
    for pod in pods.iter().filter(|pod| pod.has_log()) {
        any = true;
        let log = kube.log_bytes(&pod.name).await?;
        bytes = copy(log, out, bytes, &mut told).await.map_err(|error| match error {
            Broken::Reading(error) => {
                OpError::Missing(format!("the log of pod {} broke off: {error}: try again", pod.name))
            }
            Broken::Writing(error) => failed(error),
        })?;
    }
    out.flush().await.map_err(failed)?;
    if any { Ok(bytes) } else { Err(OpError::NotFound(format!("pod of {name} with a log (any more)"))) }
}

/// Which side broke.
#[derive(Debug)]
enum Broken {
    Reading(std::io::Error),
    Writing(std::io::Error),
}

/// Appends one pod's log, and an end to its last line where that has none: the next pod's begins a line of its own.
async fn copy(
    mut log: impl AsyncBufRead + Unpin,
    out: &mut (impl AsyncWrite + Unpin),
    mut bytes: u64,
    told: &mut impl FnMut(u64),
) -> Result<u64, Broken> {
    let mut last = b'\n';
    loop {
        let chunk = log.fill_buf().await.map_err(Broken::Reading)?;
        let Some(end) = chunk.last() else { break };
        last = *end;
        out.write_all(chunk).await.map_err(Broken::Writing)?;
        let taken = chunk.len();
        log.consume_unpin(taken);
        bytes += taken as u64;
        told(bytes);
    }
    if last != b'\n' {
        out.write_all(b"\n").await.map_err(Broken::Writing)?;
        bytes += 1;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_byte_arrives_and_the_count_is_true() {
        let first = [b"\x1b[2J \xff\r10%\r20%\n".as_slice(), &[b'x'; 100_000]].concat();
        let mut out = Vec::new();
        let mut heard = Vec::new();
        let reader = futures_util::io::BufReader::with_capacity(4_096, first.as_slice());
        let bytes = copy(reader, &mut out, 0, &mut |n| heard.push(n)).await.unwrap();
        let bytes = copy(b"second\n".as_slice(), &mut out, bytes, &mut |n| heard.push(n)).await.unwrap();
        let bytes = copy(b"".as_slice(), &mut out, bytes, &mut |_| panic!("nothing came")).await.unwrap();
        assert_eq!(out, [first.as_slice(), b"\nsecond\n"].concat());
        assert_eq!(bytes, out.len() as u64);
        assert!(heard.len() > 20 && heard.is_sorted() && heard.last() == Some(&bytes));
    }

    #[test]
    fn the_file_is_for_its_owner_only_and_goes_when_it_is_not_kept() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("hostwright/logs");
        let file = private_file(&folder).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(file.path())), (0o700, 0o600));
        drop(file);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}
