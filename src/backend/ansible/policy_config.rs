//! What we must know of a policy's `ansible.cfg`: environment variables replace its settings, and where we set one for ARA the
//! policy's own value has to stay in force beside it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A policy's `ansible.cfg`.
#[derive(Debug, Clone, Default)]
pub struct PolicyConfig {
    path: Option<PathBuf>,
    text: String,
}

impl PolicyConfig {
    /// Reads it; a policy without one has no settings.
    #[must_use]
    pub fn read(policy: &Path) -> Self {
        let path = policy.join("ansible.cfg");
        match std::fs::read_to_string(&path) {
            Ok(text) => Self { path: Some(path), text },
            Err(_) => Self::default(),
        }
    }

    /// Its path, if the policy has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Our folder of plug-ins of this kind, and behind it those that count without us.
    pub(super) fn plugin_path(&self, kind: &str, ours: &Path) -> OsString {
        let variable = format!("ANSIBLE_{}_PLUGINS", kind.to_ascii_uppercase());
        let theirs = std::env::var(variable)
            .ok()
            .or_else(|| self.setting("defaults", &format!("{kind}_plugins")))
            .unwrap_or_else(|| format!("~/.ansible/plugins/{kind}:/usr/share/ansible/plugins/{kind}"));
        let mut path = ours.as_os_str().to_owned();
        path.push(":");
        path.push(theirs);
        path
    }

    /// ARA's default, what the policy adds to it, and our private folder.
    pub(super) fn ignored_files(&self, private: &Path) -> OsString {
        let theirs = std::env::var("ARA_IGNORED_FILES")
            .ok()
            .or_else(|| self.setting("ara", "ignored_files"))
            .unwrap_or_else(|| ".ansible/tmp".to_owned());
        let mut list = OsString::from(theirs);
        list.push(",");
        list.push(private);
        list
    }

    /// One setting, as Python's configparser reads it for Ansible.
    fn setting(&self, section: &str, key: &str) -> Option<String> {
        let mut current = "";
        let mut found = None;
        for line in self.text.lines() {
            let line = line.split(" ;").next().unwrap_or("");
            if line.starts_with(['#', ';', ' ', '\t']) {
                continue;
            }
            if let Some(name) = line.trim_end().strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                current = name;
            } else if let Some((name, value)) = line.split_once(['=', ':'])
                && current == section
                && name.trim().eq_ignore_ascii_case(key)
            {
                found = Some(value.trim().to_owned());
            }
        }
        found.filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policys_own_plug_ins_stay() {
        let policy = tempfile::tempdir().unwrap();
        std::fs::write(
            policy.path().join("ansible.cfg"),
            "# callback_plugins = ./no\n[ssh_connection]\ncallback_plugins=./no\n[defaults]\nCallback_Plugins = ./own:../more ; ours\n\n[ara]\nignored_files: secret.yml\n",
        )
        .unwrap();
        let config = PolicyConfig::read(policy.path());
        assert_eq!(config.path(), Some(policy.path().join("ansible.cfg").as_path()));
        assert_eq!(config.plugin_path("callback", Path::new("/ara")), "/ara:./own:../more");
        assert_eq!(
            config.plugin_path("action", Path::new("/ara")),
            "/ara:~/.ansible/plugins/action:/usr/share/ansible/plugins/action"
        );
        assert_eq!(config.ignored_files(Path::new("/w/in")), "secret.yml,/w/in");
        assert_eq!(PolicyConfig::default().ignored_files(Path::new("/w/in")), ".ansible/tmp,/w/in");
    }
}
