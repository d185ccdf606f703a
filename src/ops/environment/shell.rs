//! The operator's shell in an environment: its variables, a kubeconfig held to its cluster, and a prompt that names it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tempfile::TempDir;

use super::Named;
use crate::backend::kube::{self, KubeError, NO_CLUSTER};
use crate::config::{Config, VariablesFile};

/// The shells that can be told what their prompt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// fish.
    Fish,
    /// Any other: it takes its prompt from `PS1`, if from anywhere.
    Other,
}

impl Kind {
    /// What a program is, by its name.
    #[must_use]
    pub fn of(program: &str) -> Self {
        match Path::new(program).file_name().and_then(|name| name.to_str()) {
            Some("bash") => Self::Bash,
            Some("zsh") => Self::Zsh,
            Some("fish") => Self::Fish,
            _ => Self::Other,
        }
    }
}

/// A shell, or a command, to be run in an environment.
#[derive(Debug)]
pub struct Shell {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables to set.
    pub set: BTreeMap<String, OsString>,
    /// Variables to take away.
    pub unset: Vec<String>,
    /// What the operator ought to know before.
    pub warnings: Vec<String>,
    /// Holds its files; keep it until the shell has ended.
    pub folder: TempDir,
}

/// Why there is no shell.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// One inside another: which environment it is could not be told any more.
    #[error("this is the shell of {0} already: leave it first (exit)")]
    Inside(String),
    /// The cluster's kubeconfig is not usable.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// Its files could not be written.
    #[error("cannot prepare the shell's files: {0}")]
    Files(#[from] std::io::Error),
}

/// Says in a shell which environment it is of.
const INSIDE: &str = "HOSTWRIGHT_SHELL";
/// What the operator's start-up files may not change: the shell's files set these again after them.
const HELD: [&str; 9] = [
    INSIDE,
    "HOSTWRIGHT_ENV",
    "HOSTWRIGHT_TFVARS",
    "KUBECONFIG",
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
];

/// Prepares the operator's shell, or a command, in an environment.
///
/// # Errors
/// When this is such a shell already, the kubeconfig is not usable, or files cannot be written.
pub fn prepare(
    config: &Config,
    named: &Named,
    file: Option<&VariablesFile>,
    command: &[OsString],
) -> Result<Shell, ShellError> {
    let outside: BTreeMap<String, OsString> =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    if let Some(inside) = outside.get(INSIDE).filter(|name| !name.is_empty()) {
        return Err(ShellError::Inside(inside.to_string_lossy().into_owned()));
    }
    let folder = tempfile::Builder::new().prefix("hostwright-env-").tempdir()?;
    let mut shell =
        Shell { argv: Vec::new(), set: BTreeMap::new(), unset: Vec::new(), warnings: Vec::new(), folder };
    shell.names(config, named);
    shell.cluster(config, named, outside.get("KUBECONFIG"))?;
    shell.aws(config, named, file, &outside);
    if let Some(file) = file {
        shell.terraform(file, &outside);
    }
    if command.is_empty() {
        let usual = OsString::from("/bin/sh");
        let program = outside.get("SHELL").filter(|shell| !shell.is_empty()).unwrap_or(&usual);
        shell.interactive(program, named, &outside)?;
    } else {
        shell.argv = command.to_vec();
    }
    Ok(shell)
}

impl Shell {
    fn put(&mut self, name: &str, value: impl Into<OsString>) {
        self.set.insert(name.to_owned(), value.into());
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<OsString> {
        let path = self.folder.path().join(name);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(path.into_os_string())
    }

    fn names(&mut self, config: &Config, named: &Named) {
        self.put(INSIDE, &named.name);
        // The name by which every other command finds it.
        let known =
            if config.environments.contains_key(&named.name) { &named.name } else { &named.configured };
        self.put("HOSTWRIGHT_ENV", known);
    }

    /// A kubeconfig of its own in front of the operator's: `kubectl config use-context` in here changes nothing elsewhere.
    fn cluster(
        &mut self,
        config: &Config,
        named: &Named,
        kubeconfig: Option<&OsString>,
    ) -> Result<(), ShellError> {
        let Some(settings) = named.settings(config) else {
            let path = self.write("kubeconfig", NO_CLUSTER)?;
            self.put("KUBECONFIG", path);
            let configured = &named.configured;
            self.warnings.push(format!(
                "no cluster: there is no [environments.{configured}] in the configuration, so KUBECONFIG names none"
            ));
            return Ok(());
        };
        let pin = kube::pin(&settings.kubernetes)?;
        let mut list = self.write("kubeconfig", &pin.overlay)?;
        list.push(":");
        match (&pin.file, kubeconfig.filter(|list| !list.is_empty())) {
            (Some(file), _) => list.push(file),
            (None, Some(usual)) => list.push(usual),
            (None, None) => {
                list.push(std::env::var_os("HOME").unwrap_or_default());
                list.push("/.kube/config");
            }
        }
        self.put("KUBECONFIG", list);
        Ok(())
    }

    /// Keys in the operator's variables win; else the profile is that of the environment, never one that was set for another.
    fn aws(
        &mut self,
        config: &Config,
        named: &Named,
        file: Option<&VariablesFile>,
        outside: &BTreeMap<String, OsString>,
    ) {
        let settings = named.aws(config);
        if let Some(endpoint) = settings.endpoint {
            self.put("AWS_ENDPOINT_URL", endpoint);
        }
        if let Some(path) = settings.credentials_file {
            self.put("AWS_SHARED_CREDENTIALS_FILE", path);
        }
        if outside.get("AWS_ACCESS_KEY_ID").is_some_and(|key| !key.is_empty()) {
            self.unset.push("AWS_PROFILE".to_owned());
        } else {
            self.put("AWS_PROFILE", named.profile(config, file));
        }
        self.unset.push("AWS_DEFAULT_PROFILE".to_owned());
        if let Some(region) = file.and_then(|file| file.variables.aws_region.as_ref()) {
            self.put("AWS_REGION", region);
            self.put("AWS_DEFAULT_REGION", region);
        }
    }

    /// What the file gives, as Terraform takes variables: JSON is HCL. Another environment's are taken away.
    fn terraform(&mut self, file: &VariablesFile, outside: &BTreeMap<String, OsString>) {
        let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        self.put("HOSTWRIGHT_TFVARS", path);
        self.unset.extend(outside.keys().filter(|name| name.starts_with("TF_VAR_")).cloned());
        for (name, value) in &file.given {
            let value = match value {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            // A variable of the process cannot hold a NUL, nor its name an equals sign.
            if !value.contains('\0') && !name.contains(['=', '\0']) {
                self.put(&format!("TF_VAR_{name}"), value);
            }
        }
    }

    fn interactive(
        &mut self,
        program: &OsString,
        named: &Named,
        outside: &BTreeMap<String, OsString>,
    ) -> std::io::Result<()> {
        // The name is letters, digits and hyphens: nothing that a shell or a prompt takes for more.
        let prompt = format!("[{}] ", named.name);
        self.argv.push(program.clone());
        match Kind::of(&program.to_string_lossy()) {
            Kind::Bash => {
                let rc = self.write("bashrc", &bash(&self.held(posix), &prompt))?;
                self.argv.extend(["--rcfile".into(), rc, "-i".into()]);
            }
            Kind::Zsh => {
                let own = outside.get("ZDOTDIR").or_else(|| outside.get("HOME")).cloned().unwrap_or_default();
                self.write(
                    ".zshenv",
                    &zshenv(&own.to_string_lossy(), &self.folder.path().to_string_lossy()),
                )?;
                self.write(".zshrc", &zshrc(&own.to_string_lossy(), &self.held(posix), &prompt))?;
                self.put("ZDOTDIR", self.folder.path().as_os_str().to_owned());
                self.argv.push("-i".into());
            }
            Kind::Fish => {
                let rc = self.write("config.fish", &fish(&self.held(fish_set), &prompt))?;
                let source = format!("source {}", quoted_fish(&rc.to_string_lossy()));
                self.argv.extend(["--init-command".into(), source.into(), "--interactive".into()]);
            }
            Kind::Other => {
                let usual =
                    outside.get("PS1").map_or_else(|| "$ ".to_owned(), |p| p.to_string_lossy().into_owned());
                self.put("PS1", format!("{prompt}{usual}"));
                self.argv.push("-i".into());
            }
        }
        Ok(())
    }

    /// What start-up files may not change, as a shell's commands. No secret is among it.
    fn held(&self, line: fn(&str, Option<&str>) -> String) -> String {
        let mut lines = String::new();
        for name in HELD {
            let value = self.set.get(name).map(|value| value.to_string_lossy().into_owned());
            if value.is_some() || self.unset.iter().any(|unset| unset == name) {
                lines.push_str(&line(name, value.as_deref()));
            }
        }
        lines
    }
}

fn posix(name: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("export {name}={}\n", shell_words::quote(value)),
        None => format!("unset {name}\n"),
    }
}

fn quoted_fish(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn fish_set(name: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("set -gx {name} {}\n", quoted_fish(value)),
        None => format!("set -e {name}\n"),
    }
}

/// Prompts are often made anew before each line: the name is put in front then too.
fn bash(held: &str, prompt: &str) -> String {
    format!(
        "[ -r ~/.bashrc ] && . ~/.bashrc\n{held}\
         __hostwright_prompt() {{ case $PS1 in '{prompt}'*) ;; *) PS1='{prompt}'$PS1 ;; esac; }}\n\
         if (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501 )); then PROMPT_COMMAND+=(__hostwright_prompt)\n\
         else PROMPT_COMMAND=\"${{PROMPT_COMMAND:+$PROMPT_COMMAND\n}}__hostwright_prompt\"; fi\n"
    )
}

fn zshenv(own: &str, folder: &str) -> String {
    let (own, folder) = (shell_words::quote(own), shell_words::quote(folder));
    format!("ZDOTDIR={own}\n[[ -r $ZDOTDIR/.zshenv ]] && . $ZDOTDIR/.zshenv\nZDOTDIR={folder}\n")
}

fn zshrc(own: &str, held: &str, prompt: &str) -> String {
    let own = shell_words::quote(own);
    format!(
        "ZDOTDIR={own}\n[[ -r $ZDOTDIR/.zshrc ]] && . $ZDOTDIR/.zshrc\n{held}\
         __hostwright_prompt() {{ [[ $PROMPT == '{prompt}'* ]] || PROMPT='{prompt}'$PROMPT }}\n\
         autoload -Uz add-zsh-hook\nadd-zsh-hook precmd __hostwright_prompt\n"
    )
}

fn fish(held: &str, prompt: &str) -> String {
    format!(
        "{held}functions -q fish_prompt; and functions --copy fish_prompt __hostwright_own_prompt\n\
         function fish_prompt\n    echo -n '{prompt}'\n    functions -q __hostwright_own_prompt; and __hostwright_own_prompt\nend\n"
    )
}
