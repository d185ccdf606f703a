//! Git: fetches a branch of the policy's repository.
//!
//! `provision` calls this. Git runs as a child process with an argument vector: no branch or URL can become an option, no helper
//! program comes out of a URL, nothing asks at a terminal, and everything ends in time.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

use crate::domain::text::plain;

/// How many names near the wanted one are told.
const NEAR: usize = 5;
/// The most characters that are told of git's own words.
const COMPLAINT: usize = 400;

/// Why a policy could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git is not there.
    #[error("cannot start git: {0}")]
    Start(#[source] std::io::Error),
    /// The repository did not answer, or not in time.
    #[error("cannot fetch {url}: {why}")]
    Unreachable {
        /// The repository, without credentials.
        url: String,
        /// What git said.
        why: String,
    },
    /// The repository has no such branch.
    #[error("{url} has no branch {branch:?}{}", near_words(near))]
    NoBranch {
        /// The repository, without credentials.
        url: String,
        /// The branch that was asked for.
        branch: String,
        /// Its branches with the nearest names.
        near: Vec<String>,
    },
}

fn near_words(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) }
}

/// Clones one branch (the default one without a name), its last commit only, into a folder that does not exist yet.
///
/// Submodules come with it. When the future is dropped, git ends.
///
/// # Errors
/// See [`GitError`].
pub async fn clone(url: &str, branch: Option<&str>, into: &Path, limit: Duration) -> Result<(), GitError> {
    let mut command = git();
    // A repository that is a folder would be linked to, whole, without `--no-local`.
    command.args(["clone", "--quiet", "--depth=1", "--single-branch", "--no-tags", "--no-local"]);
    if let Some(branch) = branch {
        command.arg(format!("--branch={branch}"));
    }
    command.arg("--").arg(url).arg(into);
    let failed = match run(&mut command, limit).await {
        Ok(()) => return submodules(url, into, limit).await,
        Err(failed) => failed,
    };
    let (Failed::Said(_), Some(branch)) = (&failed, branch) else { return Err(failed.about(url)) };
    // Only a repository that answers can be said to lack a branch.
    match branches(url, limit).await {
        Ok(names) if !names.iter().any(|name| name == branch) => Err(GitError::NoBranch {
            url: shown(url),
            branch: branch.to_owned(),
            near: nearest(branch, names),
        }),
        _ => Err(failed.about(url)),
    }
}

async fn submodules(url: &str, policy: &Path, limit: Duration) -> Result<(), GitError> {
    if !policy.join(".gitmodules").exists() {
        return Ok(());
    }
    let mut command = git();
    command.arg("-C").arg(policy).args([
        "submodule",
        "--quiet",
        "update",
        "--init",
        "--recursive",
        "--depth=1",
    ]);
    run(&mut command, limit).await.map_err(|failed| failed.about(url))
}

async fn branches(url: &str, limit: Duration) -> Result<Vec<String>, Failed> {
    let mut command = git();
    command.args(["ls-remote", "--heads", "--", url]);
    let output = output(&mut command, limit).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.split_once("\trefs/heads/")).map(|(_, b)| b.to_owned()).collect())
}

/// The names nearest to the wanted one, best first.
#[must_use]
pub fn nearest(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    names.sort_by_cached_key(|name| (strsim::osa_distance(wanted, name), name.clone()));
    names.truncate(NEAR);
    names
}

/// Whether a folder is a repository itself, with or without a work tree.
#[must_use]
pub fn is_repository(folder: &Path) -> bool {
    folder.join(".git").exists() || (folder.join("HEAD").is_file() && folder.join("objects").is_dir())
}

/// A URL without the password in it.
#[must_use]
pub fn shown(url: &str) -> String {
    match url.split_once("://").map(|(scheme, rest)| (scheme, rest, rest.split('/').next().unwrap_or(""))) {
        Some((scheme, rest, authority)) => match authority.rsplit_once('@') {
            Some((_, host)) => {
                format!("{scheme}://{host}{}", rest.strip_prefix(authority).unwrap_or_default())
            }
            None => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.args(["-c", "protocol.ext.allow=never", "-c", "advice.detachedHead=false"]);
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_LFS_SKIP_SMUDGE", "1").env("LC_ALL", "C");
    if std::env::var_os("GIT_SSH_COMMAND").is_none() && std::env::var_os("GIT_SSH").is_none() {
        command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
    }
    // Whoever called us from inside a repository did not mean that one.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

enum Failed {
    Start(std::io::Error),
    Late(Duration),
    Said(String),
}

impl Failed {
    fn about(self, url: &str) -> GitError {
        let why = match self {
            Self::Start(source) => return GitError::Start(source),
            Self::Late(limit) => format!("git took longer than {} s", limit.as_secs()),
            Self::Said(text) => text.replace(url, &shown(url)),
        };
        GitError::Unreachable { url: shown(url), why }
    }
}

async fn run(command: &mut Command, limit: Duration) -> Result<(), Failed> {
    output(command, limit).await.map(|_| ())
}

async fn output(command: &mut Command, limit: Duration) -> Result<Output, Failed> {
    let child = command.spawn().map_err(Failed::Start)?;
    let output = tokio::time::timeout(limit, child.wait_with_output())
        .await
        .map_err(|_| Failed::Late(limit))?
        .map_err(Failed::Start)?;
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<String> = text.lines().map(plain).filter(|line| !line.trim().is_empty()).collect();
    Err(Failed::Said(lines.join(" ").chars().take(COMPLAINT).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn git_in(dir: &Path, args: &[&str]) {
        let mut command = git();
        command.arg("-C").arg(dir).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args);
        run(&mut command, LIMIT).await.map_err(|f| f.about("test")).unwrap();
    }

    /// A repository with the branches `main` and `stable`.
    async fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        git_in(dir.path(), &["init", "-q", "-b", "main"]).await;
        std::fs::write(dir.path().join("site.yml"), "[]\n").unwrap();
        git_in(dir.path(), &["add", "."]).await;
        git_in(dir.path(), &["commit", "-q", "-m", "one"]).await;
        git_in(dir.path(), &["checkout", "-q", "-b", "stable"]).await;
        std::fs::write(dir.path().join("stable.yml"), "[]\n").unwrap();
        git_in(dir.path(), &["add", "."]).await;
        git_in(dir.path(), &["commit", "-q", "-m", "two"]).await;
        git_in(dir.path(), &["checkout", "-q", "main"]).await;
        dir
    }

    #[tokio::test]
    async fn a_branch_is_fetched_with_its_last_commit_only() {
        let (repository, work) = (repository().await, tempfile::tempdir().unwrap());
        let url = repository.path().to_string_lossy().into_owned();
        let into = work.path().join("policy");
        clone(&url, Some("stable"), &into, LIMIT).await.unwrap();
        assert!(into.join("stable.yml").is_file());
        assert!(into.join(".git/shallow").is_file());
        let default = work.path().join("default");
        clone(&url, None, &default, LIMIT).await.unwrap();
        assert!(!default.join("stable.yml").exists());
    }

    #[tokio::test]
    async fn a_missing_branch_and_a_missing_repository_are_told_apart() {
        let (repository, work) = (repository().await, tempfile::tempdir().unwrap());
        let url = repository.path().to_string_lossy().into_owned();
        let error = clone(&url, Some("stabel"), &work.path().join("a"), LIMIT).await.unwrap_err();
        assert!(matches!(&error, GitError::NoBranch { near, .. } if near[0] == "stable"), "{error}");
        let error = clone("/nowhere/at/all", Some("main"), &work.path().join("b"), LIMIT).await.unwrap_err();
        assert!(matches!(error, GitError::Unreachable { .. }), "{error}");
    }

    #[tokio::test]
    async fn what_is_hostile_stays_text() {
        let (repository, work) = (repository().await, tempfile::tempdir().unwrap());
        let url = repository.path().to_string_lossy().into_owned();
        let mark = work.path().join("mark");
        let touch = format!("touch {}", mark.display());
        for branch in [format!("--upload-pack={touch}"), format!("-u{touch}"), "$(id)".into()] {
            let error = clone(&url, Some(&branch), &work.path().join("a"), LIMIT).await.unwrap_err();
            assert!(matches!(error, GitError::NoBranch { .. }), "{error}");
        }
        for url in [format!("ext::sh -c '{touch}'"), format!("--upload-pack={touch}")] {
            let error = clone(&url, None, &work.path().join("b"), LIMIT).await.unwrap_err();
            assert!(matches!(error, GitError::Unreachable { .. }), "{error}");
        }
        assert!(!mark.exists());
    }

    #[test]
    fn a_password_in_a_url_is_not_told() {
        assert_eq!(shown("https://u:p@git.example.org/a@b.git"), "https://git.example.org/a@b.git");
        assert_eq!(shown("git@github.example.org:a/b"), "git@github.example.org:a/b");
        let error = Failed::Said("fatal: https://u:p@h/x not found".into()).about("https://u:p@h/x");
        assert!(!error.to_string().contains("u:p"), "{error}");
    }
}
