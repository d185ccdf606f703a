//! Makes the Python environment: finds Python, makes a `venv`, installs the pins, and links the whole in place at the end.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{FACTS, Python, PythonError, REQUIREMENTS, read};
use crate::play::leash::{Leashed, command};
use crate::play::packages::{self, Install};
use crate::play::progress::{Progress, Report};

/// Interpreters to try, best first: the system's own, then versioned ones, which a system with an older default may have.
const CANDIDATES: [&str; 4] = ["python3", "python3.13", "python3.12", "python3.11"];

/// Prints the version and fails without `venv` or what it needs (Debian ships them apart from Python).
const ASK: &str = "import sys, importlib.util as u
print('%d.%d' % sys.version_info[:2])
sys.exit(any(u.find_spec(m) is None for m in ('venv', 'ensurepip')))";

/// Prints where ARA's plugins are.
const PLUGINS: &str = "import ara.setup, json; from ara.setup.callback_plugins import callback_plugins as c
from ara.setup.action_plugins import action_plugins as a; print(json.dumps([c, a]))";

/// A Python for Ansible's modules that has their library loaded already; the sample policy uses it where it is.
const MODULE_PYTHON: &str = include_str!("../../../assets/play/module-python.py");

/// How often a lock that another process holds is tried again.
const LOCK_TRIED: Duration = Duration::from_millis(200);

/// What `pip` and `venv` may take to end when they are stopped.
const GRACE: Duration = Duration::from_secs(2);

/// Settings of the user's own that would lead `pip` or Python astray.
const UNWANTED: [&str; 8] = [
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "PIP_USER",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_REQUIREMENT",
    "PIP_CONSTRAINT",
];

/// The making of one environment.
pub(super) struct Make<'a> {
    pub(super) folder: &'a Path,
    pub(super) exe: &'a Path,
    pub(super) link: &'a Path,
    pub(super) install: Install,
    pub(super) report: Report<'a>,
}

impl Make<'_> {
    /// Makes it, unless another process did so meanwhile.
    pub(super) async fn run(&self) -> Result<Python, PythonError> {
        std::fs::create_dir_all(self.folder).map_err(|e| file(self.folder, e))?;
        let _lock = self.lock().await?;
        if let Some(python) = read(self.link) {
            return Ok(python);
        }
        let interpreter = self.interpreter().await?;
        self.remove_rests();
        let home = self.new_folder()?;
        self.tell("making the environment", 0.0);
        self.step(
            "making it with venv",
            interpreter.as_ref(),
            ["-m".as_ref(), "venv".as_ref(), home.as_os_str()],
            |_| {},
        )
        .await?;
        let python = self.fill(&home).await?;
        // All is there: from here on it is found.
        let new = home.with_extension("link");
        std::os::unix::fs::symlink(home.file_name().unwrap_or_default(), &new).map_err(|e| file(&new, e))?;
        std::fs::rename(&new, self.link).map_err(|e| file(self.link, e))?;
        self.tell("ready", 1.0);
        Ok(python)
    }

    fn tell(&self, detail: impl Into<String>, fraction: f32) {
        (self.report)(Progress {
            step: "Python environment",
            detail: detail.into(),
            fraction: Some(fraction),
        });
    }

    /// The lock that whoever makes an environment holds. The system frees it when the process ends, in whatever way.
    async fn lock(&self) -> Result<File, PythonError> {
        let path = self.folder.join("python.lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| file(&path, e))?;
        let mut told = false;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(file(&path, error)),
                Err(TryLockError::WouldBlock) if told => {}
                Err(TryLockError::WouldBlock) => {
                    self.tell("another hostwright is making it; waiting", 0.0);
                    told = true;
                }
            }
            tokio::time::sleep(LOCK_TRIED).await;
        }
    }

    /// A Python that can make an environment; installed if there is none.
    async fn interpreter(&self) -> Result<OsString, PythonError> {
        match search().await {
            Found::Usable(python) => return Ok(python),
            Found::OnlyOld(found) => return Err(PythonError::TooOld { found }),
            Found::NoVenv | Found::Nothing => {}
        }
        let what = "Python with its venv module";
        packages::install(what, &["python3", "python3-venv"], self.install, self.report).await?;
        match search().await {
            Found::Usable(python) => Ok(python),
            Found::OnlyOld(found) => Err(PythonError::TooOld { found }),
            Found::NoVenv | Found::Nothing => Err(PythonError::Step {
                doing: "looking for Python",
                said: "python3 -m venv does not work".into(),
            }),
        }
    }

    /// Removes what interrupted makings left: the lock is ours, so nobody is at it.
    fn remove_rests(&self) {
        let Some(name) = self.link.file_name().and_then(OsStr::to_str) else { return };
        let Ok(entries) = std::fs::read_dir(self.folder) else { return };
        let rest = format!("{name}.");
        for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&rest)) {
            // A rest that cannot be removed costs space and nothing else.
            std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path())).ok();
        }
    }

    fn new_folder(&self) -> Result<PathBuf, PythonError> {
        let name = self.link.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = std::path::absolute(self.folder).map_err(|e| file(self.folder, e))?;
        let home = tempfile::Builder::new()
            .prefix(&format!("{name}."))
            .tempdir_in(&folder)
            .map_err(|e| file(&folder, e))?;
        Ok(home.keep())
    }

    /// Installs the pins and writes down what is where.
    async fn fill(&self, home: &Path) -> Result<Python, PythonError> {
        let bin = home.join("bin");
        let python = bin.join("python");
        let requirements = home.join("requirements.txt");
        std::fs::write(&requirements, REQUIREMENTS).map_err(|e| file(&requirements, e))?;
        let arguments = "-m pip install --no-input --disable-pip-version-check --no-color --progress-bar off \
             --require-hashes --no-deps --only-binary :all: -r";
        let arguments = arguments.split_whitespace().map(OsStr::new).chain([requirements.as_os_str()]);
        let mut count = Count::default();
        self.step("installing from PyPI", python.as_ref(), arguments, |line| {
            if let Some((detail, fraction)) = count.news(line) {
                self.tell(detail, fraction);
            }
        })
        .await?;
        let mut plugins = String::new();
        let asking = ["-I".as_ref(), "-c".as_ref(), OsStr::new(PLUGINS)];
        self.step("asking where ARA's plugins are", python.as_ref(), asking, |line| {
            line.clone_into(&mut plugins);
        })
        .await?;
        let wrong = |e: serde_json::Error| PythonError::Step {
            doing: "asking where ARA's plugins are",
            said: e.to_string(),
        };
        let (callback_plugins, action_plugins) = serde_json::from_str(&plugins).map_err(wrong)?;
        let module_python = bin.join("module-python");
        let text = format!("#!{} -I\n{MODULE_PYTHON}", python.display());
        std::fs::write(&module_python, text).map_err(|e| file(&module_python, e))?;
        std::fs::set_permissions(&module_python, Permissions::from_mode(0o755))
            .map_err(|e| file(&module_python, e))?;
        let interpreter = std::fs::canonicalize(&python).map_err(|e| file(&python, e))?;
        let ansible_playbook = bin.join("ansible-playbook");
        let facts = Python { bin, python, ansible_playbook, callback_plugins, action_plugins, interpreter };
        let path = home.join(FACTS);
        let text = serde_json::to_vec_pretty(&facts).map_err(wrong)?;
        std::fs::write(&path, text).map_err(|e| file(&path, e))?;
        Ok(facts)
    }

    /// Runs one program on a leash, so that it ends with us, and hands on each line that it writes.
    async fn step<'s>(
        &self,
        doing: &'static str,
        program: &OsStr,
        arguments: impl IntoIterator<Item = &'s OsStr>,
        mut line: impl FnMut(&str),
    ) -> Result<(), PythonError> {
        let failed = |said: String| PythonError::Step { doing, said };
        let mut command = command(self.exe, GRACE, program, arguments);
        for name in UNWANTED {
            command.env_remove(name);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut leashed = Leashed::spawn(command).map_err(|e| failed(e.to_string()))?;
        let (out, err) = (leashed.child.stdout.take(), leashed.child.stderr.take());
        let read_out = async {
            let Some(out) = out else { return };
            let mut lines = BufReader::new(out).lines();
            while let Ok(Some(text)) = lines.next_line().await {
                line(&text);
            }
        };
        let read_err = async {
            let mut last = VecDeque::new();
            let Some(err) = err else { return last };
            let mut lines = BufReader::new(err).lines();
            while let Ok(Some(text)) = lines.next_line().await {
                last.push_back(text);
                if last.len() > 5 {
                    last.pop_front();
                }
            }
            last
        };
        let (status, (), last) = tokio::join!(leashed.wait(), read_out, read_err);
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if last.is_empty() => Err(failed(status.to_string())),
            Ok(_) => Err(failed(Vec::from(last).join("\n"))),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

fn file(path: &Path, source: std::io::Error) -> PythonError {
    PythonError::File { path: path.to_owned(), source }
}

/// What the search for Python came to.
enum Found {
    Usable(OsString),
    NoVenv,
    OnlyOld(String),
    Nothing,
}

async fn search() -> Found {
    let (mut old, mut bare) = (None, false);
    for name in CANDIDATES {
        let mut command = Command::new(name);
        command.args(["-I", "-c", ASK]).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let Ok(output) = command.output().await else { continue };
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let minor = version.strip_prefix("3.").and_then(|minor| minor.parse::<u32>().ok());
        match minor {
            Some(11..) if output.status.success() => return Found::Usable(name.into()),
            Some(11..) => bare = true,
            Some(_) => old = old.or(Some(format!("{name} is {version}"))),
            None => {}
        }
    }
    match old {
        _ if bare => Found::NoVenv,
        Some(found) => Found::OnlyOld(found),
        None => Found::Nothing,
    }
}

/// How far `pip` is, read from what it prints: it collects each package once and installs all of them at the end.
#[derive(Default)]
struct Count {
    collected: u16,
}

impl Count {
    /// Collecting takes about half of the time.
    fn news(&mut self, line: &str) -> Option<(String, f32)> {
        let all = REQUIREMENTS.lines().filter(|l| l.contains("==") && !l.starts_with('#')).count();
        if let Some(rest) = line.strip_prefix("Collecting ") {
            self.collected = self.collected.saturating_add(1);
            let package = rest.split_whitespace().next().unwrap_or_default().replace("==", " ");
            let all = f32::from(u16::try_from(all).unwrap_or(u16::MAX));
            return Some((
                format!("downloading {package}"),
                0.1 + 0.4 * (f32::from(self.collected) / all).min(1.0),
            ));
        }
        line.starts_with("Installing collected").then(|| (format!("installing {all} packages"), 0.55))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_what_pip_prints() {
        let mut count = Count::default();
        assert_eq!(count.news("Looking in links: /x"), None);
        let (detail, first) = count.news("Collecting ara==1.8.0 (from -r r.txt (line 3))").unwrap();
        assert_eq!(detail, "downloading ara 1.8.0");
        let (_, second) = count.news("Collecting django==5.2.19 (from -r r.txt (line 9))").unwrap();
        let (_, third) = count.news("Installing collected packages: ara, django").unwrap();
        assert!(first < second && second < third, "{first} {second} {third}");
    }
}
