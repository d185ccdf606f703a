//! The playground's Python environment: Ansible, ARA and the server that runs it, from PyPI, pinned and checked by hash.
//!
//! It is made once, in the user's data folder, and shared by every playground of this version. Called when the playground starts and
//! by the tests. It must not depend on anything of the environment that it is not given.
//!
//! An environment cannot be moved once it is made. So each is made in a folder of its own, and a symbolic link that is put in place
//! at the very end says that it is whole: `python-<hash of the pins> -> python-<hash>.<n>`. What was interrupted is never linked, and is
//! removed by the next one who makes it. A lock keeps two starts from making it at once.

mod make;

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::packages::{Install, PackagesError};
use super::progress::Report;

/// What is installed: every package with its version and hashes.
const REQUIREMENTS: &str = include_str!("../../assets/play/requirements.txt");

/// Raised when an environment made from the same pins must be made again, as how it is made has changed.
const RECIPE: &str = "2";

/// The file in an environment that says what is where.
const FACTS: &str = "hostwright.json";

/// A Python environment that is whole: where its programs are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    /// The folder of its programs, to be put first on a `PATH`.
    pub bin: PathBuf,
    /// The interpreter.
    pub python: PathBuf,
    /// `ansible-playbook`.
    pub ansible_playbook: PathBuf,
    /// The folder of ARA's callback plugins: `ANSIBLE_CALLBACK_PLUGINS`.
    pub callback_plugins: PathBuf,
    /// The folder of ARA's action plugins: `ANSIBLE_ACTION_PLUGINS`.
    pub action_plugins: PathBuf,
    /// What the interpreter resolved to: an environment whose interpreter was replaced by another version is of no use.
    interpreter: PathBuf,
}

/// Why there is no Python environment.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// There is no home folder to put it in.
    #[error(
        "cannot tell where the Python environment belongs: neither XDG_DATA_HOME nor HOME is set to a full path"
    )]
    NoFolder,
    /// Python or its `venv` module is missing.
    #[error(transparent)]
    Packages(#[from] PackagesError),
    /// Only an older Python is there.
    #[error("Python 3.11 or newer is needed for Ansible; {found}")]
    TooOld {
        /// What was found instead.
        found: String,
    },
    /// A file or folder could not be read or written.
    #[error("cannot prepare the Python environment: {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program that makes it failed.
    #[error("cannot make the Python environment: {doing} failed: {said}")]
    Step {
        /// What was being done.
        doing: &'static str,
        /// The last that it said.
        said: String,
    },
}

/// The folder that the environment belongs in by default: `$XDG_DATA_HOME/hostwright`, else `~/.local/share/hostwright`.
///
/// # Errors
/// [`PythonError::NoFolder`].
pub fn data_folder() -> Result<PathBuf, PythonError> {
    let full = |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let data = full("XDG_DATA_HOME").or_else(|| Some(full("HOME")?.join(".local/share")));
    Ok(data.ok_or(PythonError::NoFolder)?.join("hostwright"))
}

/// The environment in `folder`, made first if it is not there. `exe` is the `hostwright` program.
///
/// Safe to call from several processes at once, and to drop: what was being made is then made anew the next time.
///
/// # Errors
/// When it is not there and cannot be made.
pub async fn ensure(
    folder: &Path,
    exe: &Path,
    install: Install,
    report: Report<'_>,
) -> Result<Python, PythonError> {
    let link = link(folder);
    if let Some(python) = read(&link) {
        return Ok(python);
    }
    let make = make::Make { folder, exe, link: &link, install, report };
    // It is a long way down, and only walked once.
    Box::pin(make.run()).await
}

/// The environment in `folder`, if it is there and whole.
#[must_use]
pub fn find(folder: &Path) -> Option<Python> {
    read(&link(folder))
}

/// The link that stands for the environment of these pins.
fn link(folder: &Path) -> PathBuf {
    let digest = HEXLOWER.encode(&Sha256::new().chain_update(RECIPE).chain_update(REQUIREMENTS).finalize());
    folder.join(format!("python-{}", digest.get(..12).unwrap_or(&digest)))
}

/// What an environment says of itself; `None` unless its interpreter is still the one that it was made with.
fn read(link: &Path) -> Option<Python> {
    let facts = std::fs::read(link.join(FACTS)).ok()?;
    let python: Python = serde_json::from_slice(&facts).ok()?;
    let whole = std::fs::canonicalize(&python.python).is_ok_and(|path| path == python.interpreter);
    (whole && python.ansible_playbook.exists()).then_some(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_with_hashes() {
        let pins: Vec<&str> =
            REQUIREMENTS.lines().filter(|l| l.contains("==") && !l.starts_with('#')).collect();
        assert!(pins.len() > 30, "{pins:?}");
        for pin in pins {
            assert!(pin.ends_with('\\'), "no hash follows: {pin}");
        }
        assert!(REQUIREMENTS.contains("\nansible-core==2.19."));
    }

    #[test]
    fn an_environment_is_only_whole_with_its_own_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let link = link(folder.path());
        assert_eq!(find(folder.path()), None);
        std::fs::create_dir_all(&link).unwrap();
        let interpreter = folder.path().join("python3.11");
        let (python, playbook) = (link.join("python"), link.join("ansible-playbook"));
        for file in [&interpreter, &playbook] {
            std::fs::write(file, "").unwrap();
        }
        std::os::unix::fs::symlink(&interpreter, &python).unwrap();
        let facts = Python {
            bin: link.clone(),
            python: python.clone(),
            ansible_playbook: playbook,
            callback_plugins: link.join("c"),
            action_plugins: link.join("a"),
            interpreter: std::fs::canonicalize(&interpreter).unwrap(),
        };
        std::fs::write(link.join(FACTS), serde_json::to_vec(&facts).unwrap()).unwrap();
        assert_eq!(find(folder.path()), Some(facts));
        let other = folder.path().join("python3.13");
        std::fs::write(&other, "").unwrap();
        std::fs::remove_file(&python).unwrap();
        std::os::unix::fs::symlink(&other, &python).unwrap();
        assert_eq!(find(folder.path()), None);
    }
}
