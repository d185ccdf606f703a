//! The state file: an append-only journal of changes, written anew with only what is live at each start.
//!
//! One JSON document a line. The store writes a line before it applies the change, so that whatever was answered survives a
//! `kill -9`. It is not synced to the disk at each change: a power cut may cost the last moments of a playground.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ApiError;

/// What the first line says, to be told from any other file.
const FORMAT: &str = "hostwright playground API 1";

/// An open state file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    len: u64,
    // Held for its lock: two servers on one file would destroy it.
    _lock: File,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    rv: u64,
}

/// One change as it is read back.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    /// The resource version of the change.
    pub(super) rv: u64,
    /// When it was written, in seconds since 1970.
    pub(super) at: i64,
    /// The resource, as `jobs.batch`.
    pub(super) of: String,
    /// Empty for what has no namespace.
    pub(super) namespace: String,
    /// The object's name.
    pub(super) name: String,
    /// The object, absent when it was deleted.
    #[serde(default)]
    pub(super) object: Option<Value>,
}

/// What goes before the object's own text.
#[derive(Debug, Serialize)]
pub(super) struct Entry<'a> {
    /// The resource version of the change.
    pub(super) rv: u64,
    /// When it is written, in seconds since 1970.
    pub(super) at: i64,
    /// The resource, as `jobs.batch`.
    pub(super) of: &'a str,
    /// Empty for what has no namespace.
    pub(super) namespace: &'a str,
    /// The object's name.
    pub(super) name: &'a str,
}

impl Entry<'_> {
    /// The line of a change: the object's JSON text is taken as it is.
    pub(super) fn line(&self, object: Option<&[u8]>) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        if let Some(object) = object {
            line.pop();
            line.extend_from_slice(b",\"object\":");
            line.extend_from_slice(object);
            line.push(b'}');
        }
        line.push(b'\n');
        line
    }
}

/// What a state file held.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// The last resource version, 0 for a new file.
    pub(super) rv: u64,
    /// The changes in their order.
    pub(super) records: Vec<Record>,
}

impl Journal {
    /// Locks the state file and reads it. Nothing is written before [`Journal::start`].
    ///
    /// # Errors
    /// When another server holds it, it cannot be read, or it is no state file.
    pub(super) fn load(path: &Path) -> Result<(File, Loaded), ApiError> {
        let failed = |error| ApiError::State { path: path.to_owned(), error };
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let beside = beside(path, ".lock");
        let lock = private().create(true).truncate(false).open(&beside).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(ApiError::InUse(path.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((lock, Loaded::default())),
            Err(error) => return Err(failed(error)),
        };
        Ok((lock, read(path, file)?))
    }

    /// Writes a state file that holds only these lines, in place of what was there, and keeps it open.
    ///
    /// # Errors
    /// When the disk refuses; the old file is whole then.
    pub(super) fn start(
        path: &Path,
        lock: File,
        rv: u64,
        lines: impl Iterator<Item = Vec<u8>>,
    ) -> Result<Self, ApiError> {
        let failed = |error| ApiError::State { path: path.to_owned(), error };
        let (file, len) = replace(path, rv, lines).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, len, _lock: lock })
    }

    /// Appends a line. When this fails nothing of it stays.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line) {
            // Half a line in the middle would make the file unreadable.
            self.file.set_len(self.len)?;
            self.file.seek(SeekFrom::Start(self.len))?;
            return Err(error);
        }
        self.len = self.len.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Writes the file anew with only these lines.
    ///
    /// # Errors
    /// When the disk refuses; the journal goes on in the old file then.
    pub(super) fn compact(&mut self, rv: u64, lines: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
        (self.file, self.len) = replace(&self.path, rv, lines)?;
        Ok(())
    }

    /// The file's size in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Waits until all is on the disk.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Secrets are in it: nobody else may read it.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn replace(path: &Path, rv: u64, lines: impl Iterator<Item = Vec<u8>>) -> io::Result<(File, u64)> {
    let temporary = beside(path, ".new");
    let file = private().create(true).truncate(true).open(&temporary)?;
    let mut out = io::BufWriter::new(file);
    let mut header = serde_json::to_vec(&Header { format: FORMAT.to_owned(), rv })?;
    header.push(b'\n');
    out.write_all(&header)?;
    for line in lines {
        out.write_all(&line)?;
    }
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        File::open(parent)?.sync_all()?;
    }
    let len = file.stream_position()?;
    Ok((file, len))
}

fn read(path: &Path, file: File) -> Result<Loaded, ApiError> {
    let failed = |error| ApiError::State { path: path.to_owned(), error };
    let broken = |line: usize, why: String| ApiError::Broken { path: path.to_owned(), line, why };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).map_err(failed)?;
    let header: Header = serde_json::from_slice(&line).map_err(|e| broken(1, e.to_string()))?;
    if header.format != FORMAT {
        return Err(broken(1, format!("its format is \"{}\", not \"{FORMAT}\"", header.format)));
    }
    let mut loaded = Loaded { rv: header.rv, records: Vec::new() };
    let mut torn = None;
    for number in 2usize.. {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        if let Some(error) = torn.take() {
            return Err(error);
        }
        match serde_json::from_slice::<Record>(&line) {
            Ok(record) if line.ends_with(b"\n") => {
                loaded.rv = loaded.rv.max(record.rv);
                loaded.records.push(record);
            }
            // The last line may be torn: it was never answered. Any other broken line is not ours to skip.
            Ok(_) => torn = Some(broken(number, "it ends in the middle".to_owned())),
            Err(error) => torn = Some(broken(number, error.to_string())),
        }
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(rv: u64) -> Vec<u8> {
        Entry { rv, at: 1, of: "pods", namespace: "n", name: "a" }.line(Some(br#"{"metadata":{}}"#))
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_a_torn_middle_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (lock, loaded) = Journal::load(&path).unwrap();
        assert_eq!(loaded.rv, 0);
        let mut journal = Journal::start(&path, lock, 7, std::iter::empty()).unwrap();
        journal.append(&entry(8)).unwrap();
        journal.append(b"{\"rv\":9,\"at\"").unwrap();
        assert!(matches!(Journal::load(&path), Err(ApiError::InUse(_))));
        drop(journal);
        let (lock, loaded) = Journal::load(&path).unwrap();
        assert_eq!((loaded.rv, loaded.records.len()), (8, 1));
        drop(lock);
        let mut text = fs::read(&path).unwrap();
        text.push(b'\n');
        text.extend(entry(10));
        fs::write(&path, text).unwrap();
        assert!(matches!(Journal::load(&path), Err(ApiError::Broken { line: 3, .. })));
    }

    #[test]
    fn the_state_file_is_private_and_replaced_whole() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/state");
        let (lock, _) = Journal::load(&path).unwrap();
        let mut journal = Journal::start(&path, lock, 1, std::iter::empty()).unwrap();
        for rv in 2..100 {
            journal.append(&entry(rv)).unwrap();
        }
        let before = journal.len();
        journal.compact(99, std::iter::once(entry(99))).unwrap();
        assert!(journal.len() < before);
        journal.append(&entry(100)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), journal.len());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(journal);
        assert_eq!(Journal::load(&path).unwrap().1.rv, 100);
    }
}
