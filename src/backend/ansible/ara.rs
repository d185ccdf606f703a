//! Where ARA's plug-ins for Ansible are, and the environment that makes Ansible record a run with them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::AnsibleError;
use crate::config::{Ara, AraCredentials};

/// How long Python may take to say where its packages are.
const ASK_TIMEOUT: Duration = Duration::from_secs(20);
/// How long Ansible waits for one answer of ARA: ARA's own 30 seconds, at every task, would hold up a run for hours.
const API_TIMEOUT_SECONDS: &str = "5";

/// ARA's plug-ins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugins {
    /// The folder of the callback that records.
    callback: PathBuf,
    /// The folder of the actions that a policy may call.
    action: PathBuf,
}

impl Plugins {
    /// Finds them in the packages of this Python. In a virtual environment a look at its folders is enough; elsewhere Python is
    /// asked, which takes a tenth of a second.
    ///
    /// # Errors
    /// When Python cannot be started or has no ARA.
    pub async fn find(python: &str) -> Result<Self, AnsibleError> {
        match locate(python).and_then(|program| in_virtual_environment(&program)) {
            Some(plugins) => Ok(plugins),
            None => ask(python).await,
        }
    }

    fn under(folder: &Path) -> Option<Self> {
        let callback = folder.join("callback");
        callback.join("ara_default.py").is_file().then(|| Self { callback, action: folder.join("action") })
    }
}

/// The program's path, as the shell would find it; links are not followed, since a virtual environment's Python is one.
fn locate(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn in_virtual_environment(python: &Path) -> Option<Plugins> {
    let base = python.parent()?.parent()?;
    if !base.join("pyvenv.cfg").is_file() {
        return None;
    }
    let versions = std::fs::read_dir(base.join("lib")).ok()?;
    let mut found = versions
        .filter_map(Result::ok)
        .filter_map(|version| Plugins::under(&version.path().join("site-packages/ara/plugins")));
    let first = found.next()?;
    // Two versions of Python in one environment: only Python itself knows which one it is.
    found.next().is_none().then_some(first)
}

async fn ask(python: &str) -> Result<Plugins, AnsibleError> {
    let program = || python.to_owned();
    let child = Command::new(python)
        .args(["-c", "import ara.setup; print(ara.setup.plugins)"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| AnsibleError::Start { program: program(), source })?;
    let output = tokio::time::timeout(ASK_TIMEOUT, child.wait_with_output())
        .await
        .map_err(|_| AnsibleError::NoAra { python: program(), why: "it did not answer".to_owned() })?
        .map_err(|source| AnsibleError::Start { program: program(), source })?;
    let said = String::from_utf8_lossy(&output.stdout);
    Plugins::under(Path::new(said.trim())).ok_or_else(|| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let why = complaint.lines().last().unwrap_or("it has no ara_default.py").trim().to_owned();
        AnsibleError::NoAra { python: program(), why }
    })
}

/// The variables that make Ansible record to this ARA under these labels.
///
/// `private` is never recorded: ARA keeps every file that Ansible loads, the extra variables with their secrets too.
#[must_use]
pub fn recording(
    ara: &Ara,
    plugins: &Plugins,
    labels: &[String],
    private: &Path,
    settings: &super::PolicyConfig,
) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("ANSIBLE_CALLBACK_PLUGINS", settings.plugin_path("callback", &plugins.callback)),
        ("ANSIBLE_ACTION_PLUGINS", settings.plugin_path("action", &plugins.action)),
        ("ARA_API_CLIENT", "http".into()),
        ("ARA_API_SERVER", ara.url.trim_end_matches('/').trim_end_matches("/api/v1").into()),
        ("ARA_API_TIMEOUT", API_TIMEOUT_SECONDS.into()),
        ("ARA_DEFAULT_LABELS", labels.join(",").into()),
        ("ARA_IGNORED_ARGUMENTS", "extra_vars,inventory".into()),
        ("ARA_IGNORED_FILES", settings.ignored_files(private)),
    ];
    // Of the ways to identify oneself ARA's own client has this one; the others serve reading through a proxy.
    if let AraCredentials::Basic { username, password } = &ara.credentials {
        variables.push(("ARA_API_USERNAME", username.into()));
        variables.push(("ARA_API_PASSWORD", password.reveal().into()));
    }
    if let Some(ca) = &ara.ca {
        variables.push(("ARA_API_CA", ca.into()));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(versions: &[&str]) -> tempfile::TempDir {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("pyvenv.cfg"), "").unwrap();
        for version in versions {
            let callback = base.path().join(format!("lib/{version}/site-packages/ara/plugins/callback"));
            std::fs::create_dir_all(&callback).unwrap();
            std::fs::write(callback.join("ara_default.py"), "").unwrap();
        }
        base
    }

    #[test]
    fn a_virtual_environment_shows_its_plug_ins_without_python() {
        let one = environment(&["python3.11"]);
        let plugins = in_virtual_environment(&one.path().join("bin/python3")).unwrap();
        assert!(plugins.callback.join("ara_default.py").is_file());
        let two = environment(&["python3.11", "python3.12"]);
        assert_eq!(in_virtual_environment(&two.path().join("bin/python3")), None);
        std::fs::remove_file(one.path().join("pyvenv.cfg")).unwrap();
        assert_eq!(in_virtual_environment(&one.path().join("bin/python3")), None);
    }

    #[tokio::test]
    async fn a_python_without_ara_is_named_with_its_complaint() {
        // A shell understands no Python, as a Python without ARA understands no `import ara.setup`.
        let error = Plugins::find("/bin/sh").await.unwrap_err();
        assert!(error.to_string().starts_with("/bin/sh has no ARA: "), "{error}");
    }
}
