//! Fetches the policy and finds the playbook in it.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::Failure;
use crate::backend::git::{self, GitError};
use crate::config::Policy;
use crate::domain::{ExitCode, Parameters};

/// How long git may take. The Job tries again later.
const FETCH_LIMIT: Duration = Duration::from_secs(180);

/// The policy on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetched {
    /// Its folder.
    pub(super) folder: PathBuf,
    /// The playbook in it.
    pub(super) playbook: PathBuf,
}

/// Clones the policy to `into`, or finds it where it is: a folder is used in place unless a branch of it is wanted.
pub(super) async fn fetch(
    settings: &Policy,
    parameters: &Parameters,
    into: &Path,
) -> Result<Fetched, Failure> {
    let branch = parameters.branch.as_deref().or(settings.branch.as_deref());
    let source = Path::new(&settings.source);
    let folder = if source.is_dir() && branch.is_none() && !is_bare(source) {
        source.to_owned()
    } else {
        clone(&settings.source, branch, into).await?;
        into.to_owned()
    };
    let playbook = find(&folder, &parameters.playbook)?;
    Ok(Fetched { folder, playbook })
}

async fn clone(source: &str, branch: Option<&str>, into: &Path) -> Result<(), Failure> {
    let path = Path::new(source);
    if path.is_absolute() && !path.is_dir() {
        return no_policy(format!("there is no policy at {source}"));
    }
    if let (true, Some(branch)) = (path.is_dir() && !git::is_repository(path), branch) {
        return no_policy(format!("the policy {source} is a plain folder: it has no branch {branch:?}"));
    }
    match git::clone(source, branch, into, FETCH_LIMIT).await {
        Ok(()) => Ok(()),
        Err(error @ GitError::NoBranch { .. }) => no_policy(format!("no policy: {error}")),
        Err(error @ GitError::Start(_)) => Err(Failure::new(ExitCode::Misconfigured, error)),
        Err(error @ GitError::Unreachable { .. }) => Err(Failure::new(ExitCode::PolicyUnreachable, error)),
    }
}

fn is_bare(folder: &Path) -> bool {
    git::is_repository(folder) && !folder.join(".git").exists()
}

fn no_policy<T>(text: String) -> Result<T, Failure> {
    Err(Failure::new(ExitCode::NoPolicy, text))
}

/// The playbook's real path, which lies inside the policy's.
fn find(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !plain {
        return no_policy(format!("playbook {name:?} is not a path inside the policy"));
    }
    let (Ok(root), Ok(real)) = (folder.canonicalize(), folder.join(path).canonicalize()) else {
        return no_policy(missing(folder, name));
    };
    if !real.starts_with(&root) {
        return no_policy(format!("playbook {name:?} is a link that leads out of the policy"));
    }
    if !real.is_file() {
        return no_policy(missing(folder, name));
    }
    Ok(real)
}

fn missing(folder: &Path, name: &str) -> String {
    let near = git::nearest(name, playbooks(folder));
    let has = if near.is_empty() { "it has none".to_owned() } else { format!("it has {}", near.join(", ")) };
    format!("the policy has no playbook {name:?}; {has}")
}

/// The YAML files at the policy's top and in its `playbooks` folder.
fn playbooks(folder: &Path) -> Vec<String> {
    ["", "playbooks/"]
        .into_iter()
        .flat_map(|part| std::fs::read_dir(folder.join(part)).into_iter().flatten().map(move |e| (part, e)))
        .filter_map(|(part, entry)| entry.ok().map(|e| (part, e)))
        .filter(|(_, entry)| entry.path().extension().is_some_and(|ext| ext == "yml" || ext == "yaml"))
        .map(|(part, entry)| format!("{part}{}", entry.file_name().to_string_lossy()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("site.yml"), "[]").unwrap();
        std::fs::create_dir(dir.path().join("playbooks")).unwrap();
        std::fs::write(dir.path().join("playbooks/web.yaml"), "[]").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("out.yml")).unwrap();
        dir
    }

    async fn fetched(source: &str, branch: Option<&str>, playbook: &str) -> Result<Fetched, Failure> {
        let settings = Policy {
            source: source.into(),
            branch: None,
            playbook: String::new(),
            variables: BTreeMap::new(),
        };
        let parameters = Parameters {
            playbook: playbook.into(),
            branch: branch.map(str::to_owned),
            ..Parameters::default()
        };
        let work = tempfile::tempdir().unwrap();
        fetch(&settings, &parameters, &work.path().join("policy")).await
    }

    #[tokio::test]
    async fn a_folder_is_used_in_place() {
        let dir = folder();
        let source = dir.path().to_string_lossy();
        let found = fetched(&source, None, "./playbooks/web.yaml").await.unwrap();
        assert_eq!(found.folder, dir.path());
        assert!(found.playbook.ends_with("playbooks/web.yaml"));
    }

    #[tokio::test]
    async fn a_playbook_stays_inside_the_policy() {
        let dir = folder();
        let source = dir.path().to_string_lossy();
        for name in ["", "/etc/hostname", "../x.yml", "playbooks/../../x", "out.yml", "playbooks", "."] {
            let failure = fetched(&source, None, name).await.unwrap_err();
            assert_eq!(failure.exit, ExitCode::NoPolicy, "{name}: {}", failure.text);
        }
        let failure = fetched(&source, None, "sites.yml").await.unwrap_err();
        assert!(failure.text.contains("site.yml"), "{}", failure.text);
    }

    #[tokio::test]
    async fn a_branch_needs_a_repository() {
        let dir = folder();
        let failure = fetched(&dir.path().to_string_lossy(), Some("main"), "site.yml").await.unwrap_err();
        assert_eq!(failure.exit, ExitCode::NoPolicy);
        assert!(failure.text.contains("plain folder"), "{}", failure.text);
        let failure = fetched("/nowhere/policy", None, "site.yml").await.unwrap_err();
        assert_eq!(failure.exit, ExitCode::NoPolicy);
        let failure = fetched("file:///nowhere/policy", None, "site.yml").await.unwrap_err();
        assert_eq!(failure.exit, ExitCode::PolicyUnreachable);
    }
}
