//! The private work folder of one attempt. It holds what nobody else may read: the extra variables with the join token for one.
//! It goes with the attempt; what a killed attempt left behind goes with the run's next one.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The longest path of a Unix socket, without the zero at its end.
const SOCKET_PATH: usize = 107;
/// What SSH and Ansible put behind the folder: a slash, ten characters, a dot and a random ending of sixteen.
const SOCKET_NAME: usize = 28;
/// How many characters of the run's hash the folder's name has.
const TAG: usize = 16;

/// The work folder; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Work {
    folder: TempDir,
    /// Only where the work folder's path is too long for a socket.
    sockets: Option<TempDir>,
}

impl Work {
    /// Removes what an earlier attempt of this run left, and makes a new folder under `base`.
    pub(super) fn create(base: &Path, uid: &str) -> std::io::Result<Self> {
        let prefix = prefix(uid);
        let system = std::env::temp_dir();
        for place in [base, system.as_path()] {
            remove_leftovers(place, &prefix);
        }
        let private = |place: &Path| {
            tempfile::Builder::new()
                .prefix(&prefix)
                .permissions(PermissionsExt::from_mode(0o700))
                .tempdir_in(place)
        };
        let folder = private(base)?;
        // Ansible reads what is in the environment relative to the policy.
        let path = folder.path().canonicalize()?;
        for part in ["in", "run", "s"] {
            std::fs::DirBuilder::new().create(path.join(part))?;
        }
        let long = path.join("s").as_os_str().len() + SOCKET_NAME > SOCKET_PATH;
        let sockets = long.then(|| private(&system)).transpose()?;
        Ok(Self { folder, sockets })
    }

    /// A folder that nothing of which is ever recorded.
    pub(super) fn inputs(&self) -> PathBuf {
        self.folder.path().join("in")
    }

    /// What Ansible keeps while it runs.
    pub(super) fn scratch(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Where the policy is cloned to; not there yet.
    pub(super) fn policy(&self) -> PathBuf {
        self.folder.path().join("policy")
    }

    /// Where SSH's sockets are.
    pub(super) fn sockets(&self) -> PathBuf {
        self.sockets.as_ref().map_or_else(|| self.folder.path().join("s"), |own| own.path().to_owned())
    }

    /// Writes a file among the inputs, for this user only.
    pub(super) fn write(&self, name: &str, text: &str) -> std::io::Result<PathBuf> {
        let path = self.inputs().join(name);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }

    /// Removes it and says whether that worked.
    pub(super) fn close(self) -> std::io::Result<()> {
        self.sockets.map_or(Ok(()), TempDir::close)?;
        self.folder.close()
    }
}

/// The start of the folder's name: from the run's UID, never the UID itself, which came from outside.
fn prefix(uid: &str) -> String {
    let mut tag = data_encoding::BASE32_NOPAD.encode(&Sha256::digest(uid.as_bytes())).to_ascii_lowercase();
    tag.truncate(TAG);
    format!("hw-{tag}-")
}

fn remove_leftovers(place: &Path, prefix: &str) {
    let me = rustix::process::getuid().as_raw();
    for entry in std::fs::read_dir(place).into_iter().flatten().filter_map(Result::ok) {
        let ours = entry.file_name().to_string_lossy().starts_with(prefix)
            && entry.path().symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == me);
        if ours && let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(folder = %entry.path().display(), %error, "an earlier attempt's work folder stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn it_is_private_and_goes_with_its_owner() {
        let base = tempfile::tempdir().unwrap();
        let work = Work::create(base.path(), "uid-1").unwrap();
        let file = work.write("vars.yaml", "secret").unwrap();
        assert_eq!((mode(work.folder.path()), mode(&file)), (0o700, 0o600));
        assert!(work.write("vars.yaml", "again").is_err(), "an existing file is never written to");
        assert!(work.sockets().as_os_str().len() + SOCKET_NAME <= SOCKET_PATH);
        drop(work);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn leftovers_of_this_run_go_and_others_stay() {
        let base = tempfile::tempdir().unwrap();
        let left = base.path().join(format!("{}x", prefix("uid-1")));
        let other = base.path().join(format!("{}x", prefix("uid-2")));
        let outside = base.path().join("outside");
        for folder in [&left, &other, &outside] {
            std::fs::create_dir(folder).unwrap();
        }
        let link = base.path().join(format!("{}link", prefix("uid-1")));
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let work = Work::create(base.path(), "uid-1").unwrap();
        assert!(!left.exists() && other.exists() && outside.exists() && link.is_symlink());
        work.close().unwrap();
    }

    #[test]
    fn sockets_have_a_short_path_wherever_the_folder_is() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("d".repeat(90));
        std::fs::create_dir(&deep).unwrap();
        let work = Work::create(&deep, "uid-1").unwrap();
        let sockets = work.sockets();
        assert!(sockets.is_dir() && mode(&sockets) == 0o700);
        assert!(sockets.as_os_str().len() + SOCKET_NAME <= SOCKET_PATH);
        work.close().unwrap();
        assert!(!sockets.exists());
    }
}
