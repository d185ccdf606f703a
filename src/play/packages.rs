//! Debian and Ubuntu packages that the playground needs, installed where that is possible after saying so.
//!
//! Called by [`python`](super::python) and [`services`](super::services) when a program is missing. It must never be called for
//! anything outside the playground and the tests.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::progress::{Progress, Report, last_line};

const SCRIPT: &str = include_str!("../../assets/play/install-packages.sh");

/// How often the installer's last line is shown.
const SHOWN: Duration = Duration::from_millis(250);

/// Whether missing packages may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// As root or with a sudo that asks nothing, after saying so.
    IfPossible,
    /// Never: what is missing is an error that names the command.
    Never,
}

/// Why something that is missing was not installed.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// Nobody was allowed to, or able to, install it.
    #[error("{what} is missing: {}", advice(packages))]
    Missing {
        /// What the packages are needed for.
        what: &'static str,
        /// The packages that bring it.
        packages: &'static [&'static str],
    },
    /// The installation was tried and failed.
    #[error("{what} is missing and installing it failed: {said}: {}", advice(packages))]
    Failed {
        /// What the packages are needed for.
        what: &'static str,
        /// The packages that bring it.
        packages: &'static [&'static str],
        /// The last that the installer said.
        said: String,
    },
}

fn advice(packages: &[&str]) -> String {
    if Path::new("/etc/debian_version").exists() {
        format!("run: sudo apt-get install --no-install-recommends {}", packages.join(" "))
    } else {
        format!("install what your system calls {}", packages.join(", "))
    }
}

/// Installs packages that bring `what`, without letting them start services.
///
/// It is not stopped when the future is dropped: a package manager is better left to finish.
///
/// # Errors
/// [`PackagesError::Missing`] when it is not allowed or not possible, [`PackagesError::Failed`] when it went wrong.
pub async fn install(
    what: &'static str,
    packages: &'static [&'static str],
    install: Install,
    report: Report<'_>,
) -> Result<(), PackagesError> {
    let missing = PackagesError::Missing { what, packages };
    if install == Install::Never || !Path::new("/usr/bin/apt-get").exists() {
        return Err(missing);
    }
    let Some(mut command) = as_root().await else { return Err(missing) };
    let tell = |detail: String| report(Progress { step: "System packages", detail, fraction: None });
    tell(format!("installing {} with apt-get, for {what}", packages.join(" ")));
    let failed = |said: String| PackagesError::Failed { what, packages, said };
    // Into a file and in a group of its own: neither a closed pipe nor a Ctrl-C may reach a package manager half-way.
    let said = tempfile::tempfile().map_err(|e| failed(e.to_string()))?;
    let (out, err) = (said.try_clone(), said.try_clone());
    command
        .args(["sh", "-c", SCRIPT, "install-packages"])
        .args(packages)
        .process_group(0)
        .stdin(Stdio::null());
    command.stdout(out.map_err(|e| failed(e.to_string()))?).stderr(err.map_err(|e| failed(e.to_string()))?);
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            () = tokio::time::sleep(SHOWN) => tell(last_line(&said).unwrap_or_default()),
        }
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(last_line(&said).unwrap_or_else(|| status.to_string()))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The beginning of a command that runs as root: `env`, with a sudo before it that asks nothing where one is needed.
async fn as_root() -> Option<Command> {
    if rustix::process::geteuid().is_root() {
        return Some(Command::new("env"));
    }
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let may = sudo.status().await.is_ok_and(|status| status.success());
    may.then(|| {
        let mut command = Command::new("sudo");
        command.args(["-n", "env"]);
        command
    })
}
