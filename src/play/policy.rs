//! The sample policy, embedded in the program and written into the playground's folder, where its user may change it.
//!
//! Called when the playground starts. It must never overwrite what the user changed: what it wrote is remembered by hash, and only a file
//! that is still as it was written gets the content of a newer version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tokio::process::Command;

/// Remembers what was written: a hash and a path a line.
const WRITTEN: &str = ".hostwright";

/// The branch that the sample policy lives on.
const BRANCH: &str = "main";

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../assets/policy/", $path)))),*]
    };
}

/// Every file of `assets/policy` (a test compares).
const FILES: [(&str, &str); 27] = files![
    "README.md",
    "ansible.cfg",
    "group_vars/all.yml",
    "group_vars/k8s_controller.yml",
    "group_vars/k8s_worker.yml",
    "group_vars/web.yml",
    "roles/base/defaults/main.yml",
    "roles/base/tasks/main.yml",
    "roles/base/tasks/quirky.yml",
    "roles/base/templates/motd.j2",
    "roles/collectd/defaults/main.yml",
    "roles/collectd/handlers/main.yml",
    "roles/collectd/tasks/main.yml",
    "roles/collectd/templates/apache.conf.j2",
    "roles/collectd/templates/collectd.conf.j2",
    "roles/k8s_controller/defaults/main.yml",
    "roles/k8s_controller/handlers/main.yml",
    "roles/k8s_controller/tasks/main.yml",
    "roles/k8s_controller/templates/haproxy.cfg.j2",
    "roles/k8s_worker/defaults/main.yml",
    "roles/k8s_worker/tasks/main.yml",
    "roles/k8s_worker/tasks/played-kubelet.yml",
    "roles/k8s_worker/templates/bootstrap-kubelet.conf.j2",
    "roles/k8s_worker/templates/join.yaml.j2",
    "roles/k8s_worker/templates/kubelet.yaml.j2",
    "site.yml",
    "vars/playground.yml",
];

/// What became of the policy's folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unpacked {
    /// Files that were written anew.
    pub written: Vec<PathBuf>,
    /// Files that the user changed and that this version has other content for.
    pub kept: Vec<PathBuf>,
    /// Whether the folder is a git repository, so that branches can be tried.
    pub git: bool,
}

/// Why the policy could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file could not be read or written.
    #[error("cannot unpack the sample policy: {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Git is there and refused.
    #[error("cannot make a repository of the sample policy: git {doing}: {said}")]
    Git {
        /// What was being done.
        doing: &'static str,
        /// The last that it said.
        said: String,
    },
}

/// Writes the sample policy into `folder`, and makes it a git repository with one commit where git is at hand.
///
/// # Errors
/// When a file cannot be written, or git is there and refuses.
pub async fn unpack(folder: &Path) -> Result<Unpacked, PolicyError> {
    let git = Git { folder };
    let repository = folder.join(".git").exists();
    if repository && git.run("branch", &["symbolic-ref", "--short", "HEAD"]).await? != BRANCH {
        // Somebody is at a branch of their own: it is theirs until they are back.
        return Ok(Unpacked { git: true, ..Unpacked::default() });
    }
    let mut unpacked = write(folder)?;
    unpacked.git = git.commit(repository, &unpacked.written).await?;
    Ok(unpacked)
}

fn write(folder: &Path) -> Result<Unpacked, PolicyError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PolicyError::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(at(folder))?;
    let record = folder.join(WRITTEN);
    let before = remembered(&std::fs::read_to_string(&record).unwrap_or_default());
    let mut unpacked = Unpacked::default();
    let mut now = String::new();
    for (name, content) in FILES {
        let path = folder.join(name);
        let hash = hash(content.as_bytes());
        match std::fs::read(&path) {
            Ok(there) if there == content.as_bytes() => {}
            Ok(there) if before.get(name) != Some(&self::hash(&there)) => {
                unpacked.kept.push(name.into());
                // Stays remembered as it was: taken back by hand, it is ours again.
                if let Some(hash) = before.get(name) {
                    now.push_str(&format!("{hash}  {name}\n"));
                }
                continue;
            }
            Ok(_) | Err(_) => {
                if let Some(parent) = path.parent() {
                    std::fs::create_dir_all(parent).map_err(at(parent))?;
                }
                std::fs::write(&path, content).map_err(at(&path))?;
                unpacked.written.push(name.into());
            }
        }
        now.push_str(&format!("{hash}  {name}\n"));
    }
    // What this version has no more of.
    for (name, hash) in before.iter().filter(|(name, _)| FILES.iter().all(|(file, _)| file != *name)) {
        let path = folder.join(name);
        if std::fs::read(&path).is_ok_and(|there| self::hash(&there) == *hash) {
            std::fs::remove_file(&path).map_err(at(&path))?;
            unpacked.written.push(name.into());
        }
    }
    std::fs::write(&record, now).map_err(at(&record))?;
    Ok(unpacked)
}

fn hash(content: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(content))
}

/// What was written before, by path. The file lies open to its user: only plain paths inside the folder count.
fn remembered(text: &str) -> BTreeMap<String, String> {
    let plain =
        |name: &str| Path::new(name).components().all(|c| matches!(c, std::path::Component::Normal(_)));
    let lines = text.lines().filter_map(|line| line.split_once("  "));
    lines.filter(|(_, name)| plain(name)).map(|(hash, name)| (name.to_owned(), hash.to_owned())).collect()
}

/// Git in the policy's folder, free of the user's own settings and of an environment that names another repository.
struct Git<'a> {
    folder: &'a Path,
}

impl Git<'_> {
    /// Commits what was written; makes the repository first. `false` when git is not installed.
    async fn commit(&self, repository: bool, written: &[PathBuf]) -> Result<bool, PolicyError> {
        if !repository {
            let made = self.run("init", &["init", "-q", "-b", BRANCH]).await;
            if matches!(&made, Err(PolicyError::Git { said, .. }) if said.is_empty()) {
                return Ok(false);
            }
            made?;
            let exclude = self.folder.join(".git/info/exclude");
            let path = exclude.parent().unwrap_or(self.folder);
            std::fs::create_dir_all(path)
                .and_then(|()| std::fs::write(&exclude, format!("/{WRITTEN}\n")))
                .map_err(|source| PolicyError::File { path: exclude, source })?;
        }
        // A start that was killed may have left a repository without a commit.
        let begun =
            repository && self.run("rev-parse", &["rev-parse", "-q", "--verify", "HEAD"]).await.is_ok();
        let written: Vec<&str> = written.iter().filter_map(|path| path.to_str()).collect();
        if begun && written.is_empty() {
            return Ok(true);
        }
        // Once begun, only what is ours is committed, as far as it is there or git knows it; whatever else is changed is the user's.
        let list = ["ls-files", "--cached", "--others", "--"];
        let ours = if begun {
            self.run("ls-files", &[&list, written.as_slice()].concat()).await?
        } else {
            ".".to_owned()
        };
        let ours: Vec<&str> = ours.lines().collect();
        self.run("add", &[&["add", "--all", "--"], ours.as_slice()].concat()).await?;
        let status = [&["status", "--porcelain", "--"], ours.as_slice()].concat();
        if !ours.is_empty() && !self.run("status", &status).await?.is_empty() {
            let commit = ["commit", "-q", "-m", "The sample policy", "--"];
            self.run("commit", &[&commit, ours.as_slice()].concat()).await?;
        }
        Ok(true)
    }

    /// Runs git and returns what it printed. An error with nothing said is a git that is not there.
    async fn run(&self, doing: &'static str, arguments: &[&str]) -> Result<String, PolicyError> {
        let failed = |said: &str| PolicyError::Git { doing, said: said.trim().to_owned() };
        let mut git = Command::new("git");
        for name in [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_COMMON_DIR",
            "GIT_PREFIX",
        ] {
            git.env_remove(name);
        }
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0");
        git.args(["-c", "user.name=Hostwright", "-c", "user.email=hostwright@localhost"]).args(arguments);
        git.current_dir(self.folder).stdin(Stdio::null()).kill_on_drop(true);
        match git.output().await {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
            }
            Ok(output) => {
                Err(failed(&format!("{} {}", output.status, String::from_utf8_lossy(&output.stderr))))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(failed("")),
            Err(error) => Err(failed(&error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &Path, root: &Path, names: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found(&path, root, names);
            } else {
                names.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/policy");
        let mut names = Vec::new();
        found(&root, &root, &mut names);
        names.sort();
        let mut embedded: Vec<_> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        embedded.sort();
        assert_eq!(embedded, names);
    }

    #[tokio::test]
    async fn what_the_user_changed_stays() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy");
        let first = unpack(&policy).await.unwrap();
        assert_eq!((first.written.len(), first.kept.len()), (FILES.len(), 0));
        assert!(first.git, "git is needed for this test: apt-get install git");
        assert_eq!(unpack(&policy).await.unwrap(), Unpacked { git: true, ..Unpacked::default() });

        let motd = policy.join("roles/base/templates/motd.j2");
        std::fs::write(&motd, "mine\n").unwrap();
        std::fs::remove_file(policy.join("site.yml")).unwrap();
        let second = unpack(&policy).await.unwrap();
        assert_eq!(second.kept, [Path::new("roles/base/templates/motd.j2")]);
        assert_eq!(second.written, [Path::new("site.yml")]);
        assert_eq!(std::fs::read_to_string(&motd).unwrap(), "mine\n");
    }

    #[tokio::test]
    async fn an_earlier_version_is_replaced_and_committed() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path();
        unpack(policy).await.unwrap();
        // As an earlier version wrote it: other content and one more file, both remembered and committed.
        std::fs::write(policy.join("site.yml"), "- old\n").unwrap();
        std::fs::write(policy.join("gone.yml"), "gone\n").unwrap();
        let record = policy.join(WRITTEN);
        let text = std::fs::read_to_string(&record).unwrap();
        let kept: String =
            text.lines().filter(|l| !l.ends_with("  site.yml")).map(|l| format!("{l}\n")).collect();
        let old = format!("{kept}{}  site.yml\n{}  gone.yml\n", hash(b"- old\n"), hash(b"gone\n"));
        std::fs::write(&record, old).unwrap();
        let git = Git { folder: policy };
        git.run("add", &["add", "."]).await.unwrap();
        git.run("commit", &["commit", "-q", "-m", "earlier"]).await.unwrap();
        // What the user has not committed stays uncommitted.
        std::fs::write(policy.join("notes"), "mine").unwrap();

        let unpacked = unpack(policy).await.unwrap();
        assert_eq!(unpacked.written, [Path::new("site.yml"), Path::new("gone.yml")]);
        assert!(!policy.join("gone.yml").exists());
        assert_eq!(git.run("status", &["status", "--porcelain"]).await.unwrap(), "?? notes");
        assert_eq!(git.run("log", &["rev-list", "--count", "HEAD"]).await.unwrap(), "3");
    }

    #[tokio::test]
    async fn a_branch_of_the_users_own_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        unpack(folder.path()).await.unwrap();
        Git { folder: folder.path() }.run("switch", &["switch", "-q", "-c", "try"]).await.unwrap();
        std::fs::remove_file(folder.path().join("site.yml")).unwrap();
        let unpacked = unpack(folder.path()).await.unwrap();
        assert_eq!(unpacked, Unpacked { git: true, ..Unpacked::default() });
        assert!(!folder.path().join("site.yml").exists());
    }

    #[test]
    fn a_record_names_nothing_outside() {
        let record = remembered("aa  site.yml\nbb  ../x\ncc  /etc/passwd\ndd\n");
        assert_eq!(record.keys().collect::<Vec<_>>(), ["site.yml"]);
    }
}
