//! The text on its way to the editor and back.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::EditorError;

/// How large an edited text may be, in bytes.
pub const SHEET_LIMIT: u64 = 16 * 1024 * 1024;

const PREFIX: &str = "hostwright-edit-";
/// How long the file's name may be.
const NAME_LIMIT: usize = 80;

/// Where private folders are made, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(Vec<PathBuf>);

impl Places {
    /// This machine's: the session's own folder, the shared memory, and, where there is neither, the folder for temporary files.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let session = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let mut places: Vec<PathBuf> = session.into_iter().filter(|dir| dir.is_absolute()).collect();
        places.extend([PathBuf::from("/dev/shm"), std::env::temp_dir()]);
        Self(places)
    }

    /// These.
    #[must_use]
    pub fn new(places: Vec<PathBuf>) -> Self {
        Self(places)
    }
}

/// A text in a private folder. Dropped, both are gone.
#[derive(Debug)]
pub struct Sheet {
    folder: PathBuf,
    file: PathBuf,
    /// Locked: says to [`sweep`] that it is in use.
    _lock: File,
}

impl Sheet {
    /// Lays a text out for editing, under a name as like `name` as is safe, so that the editor knows what it is.
    ///
    /// # Errors
    /// When no place takes it.
    pub fn new(places: &Places, name: &str, text: &[u8]) -> Result<Self, EditorError> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in &places.0 {
            let (folder, lock) = match private_folder(place) {
                Ok(made) => made,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            // From here on what is there is wiped, whatever happens.
            let sheet = Self { file: folder.join(safe(name)), folder, _lock: lock };
            match sheet.put(text) {
                Ok(()) => return Ok(sheet),
                Err(error) => last = error,
            }
        }
        let tried: Vec<_> = places.0.iter().map(|place| place.display().to_string()).collect();
        Err(EditorError::NoPlace { tried: tried.join(", "), error: last })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Variables for the editor: its own temporary files belong into the folder too.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        ["TMPDIR", "TMP", "TEMP"].map(|name| (name, self.folder.clone())).to_vec()
    }

    /// The text as it is now, also when the editor put another file in its place.
    ///
    /// # Errors
    /// When it is gone, no file any more, or too large.
    pub fn text(&self) -> Result<Vec<u8>, EditorError> {
        let failed = |error| EditorError::File { doing: "read", error };
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.file).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is no file any more")));
        }
        let mut text = Vec::new();
        file.take(SHEET_LIMIT + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > SHEET_LIMIT { Err(EditorError::TooLarge) } else { Ok(text) }
    }

    fn put(&self, text: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file)?;
        file.write_all(text)
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        if let Err(error) = wipe(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "the plain text of a secret could not be removed: remove it");
        }
    }
}

/// Wipes and removes what killed edits of this user left, and says which folders those were.
///
/// # Errors
/// When one of them cannot be removed.
pub fn sweep(places: &Places) -> Result<Vec<PathBuf>, EditorError> {
    let mut swept = Vec::new();
    let me = rustix::process::geteuid().as_raw();
    for place in &places.0 {
        let Ok(entries) = std::fs::read_dir(place) else { continue };
        for entry in entries.filter_map(Result::ok) {
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
                && std::fs::symlink_metadata(entry.path())
                    .is_ok_and(|meta| meta.is_dir() && meta.uid() == me);
            if !ours {
                continue;
            }
            // Held by its process for as long as that lives, whatever its number is and in whatever container.
            let Ok(_lock) = locked(&entry.path()) else { continue };
            wipe(&entry.path())
                .map_err(|error| EditorError::File { doing: "remove an earlier copy of", error })?;
            swept.push(entry.path());
        }
    }
    Ok(swept)
}

/// A new folder that nobody else may enter, locked.
fn private_folder(place: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let folder = place.join(format!("{PREFIX}{}", data_encoding::HEXLOWER.encode(&random)));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let is_it = |lock: &File| {
            let (held, there) = (lock.metadata()?, std::fs::symlink_metadata(&folder)?);
            io::Result::Ok((held.dev(), held.ino()) == (there.dev(), there.ino()))
        };
        match locked(&folder) {
            Ok(lock) if is_it(&lock).unwrap_or(false) => return Ok((folder, lock)),
            // Another start swept it in between: it was not locked yet.
            Ok(_) | Err(Errno::WOULDBLOCK | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn locked(folder: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::open(folder, flags, rustix::fs::Mode::empty())?;
    rustix::fs::flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive)?;
    Ok(File::from(lock))
}

/// Overwrites what is in a folder, and removes it all.
fn wipe(folder: &Path) -> io::Result<()> {
    let mut pending = vec![folder.to_owned()];
    while let Some(dir) = pending.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let meta = std::fs::symlink_metadata(&path)?;
            if meta.is_dir() {
                pending.push(path);
            } else if meta.is_file() && meta.nlink() == 1 {
                // Removing it counts; a disk may keep the old blocks all the same.
                overwrite(&path, meta.len()).ok();
            }
        }
    }
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn overwrite(path: &Path, length: u64) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
    io::copy(&mut io::repeat(0).take(length.min(SHEET_LIMIT)), &mut file)?;
    file.sync_data()
}

/// A name that no editor, shell or terminal takes for more: of the last part of a key.
fn safe(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = last.chars().map(kept).collect();
    // Its end says what it is.
    let start = name.len().saturating_sub(NAME_LIMIT);
    let name = name.get(start..).unwrap_or(&name).trim_start_matches(['.', '-']);
    if name.is_empty() { "secret".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_as_like_as_is_safe() {
        let cases = [
            ("a/tokens.csv", "tokens.csv"),
            ("../../x", "x"),
            ("a/..", "secret"),
            ("-rf", "rf"),
            ("a b;$(id)\n.yaml", "a_b___id__.yaml"),
            ("\u{fc}.json", "_.json"),
            ("", "secret"),
        ];
        for (key, name) in cases {
            assert_eq!(safe(key), name, "{key:?}");
        }
        let long = safe(&format!("{}.yaml", "x".repeat(300)));
        assert!(long.len() == NAME_LIMIT && long.ends_with(".yaml"));
    }
}
