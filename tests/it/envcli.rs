//! The command `env` through the real binary, and the operator's shell in a real terminal.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::environments::STAGING;
use crate::pty::{CommandBuilder, Pty};
use crate::support;

const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "elsewhere",
 "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
 "users": [{"name": "u", "user": {}}],
 "contexts": [{"name": "elsewhere", "context": {"cluster": "c", "user": "u"}},
              {"name": "lan", "context": {"cluster": "c", "user": "u"}}]}"#;

/// A home with a configuration, a kubeconfig and two files of variables.
struct Home(TempDir);

struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Self {
        let home = Self(support::temp());
        let kubeconfig = home.path().join("kubeconfig");
        let config = format!(
            "[environments.staging]\npolicy.source = \"{}\"\nkubernetes = {{ kubeconfig = \"{}\", context = \"lan\", namespace = \"machines\" }}\n",
            home.path().display(),
            kubeconfig.display()
        );
        std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        std::fs::create_dir(home.path().join("environments")).unwrap();
        home.write("staging", STAGING);
        home.write("broken", "environment = \"broken\"\n");
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.path().join("environments").join(format!("{name}.tfvars"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(support::exe());
        command.args(args).current_dir(self.path()).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path()).env("HOSTWRIGHT_CONFIG", self.path().join("config.toml"));
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("USER", "olga").env("LANG", "C.UTF-8");
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Said {
        let Output { status, stdout, stderr } =
            self.command(args).envs(variables.iter().copied()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
    }

    fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, &[])
    }

    /// What a check finds wrong. (Nobody has AWS credentials here.)
    fn wrong(&self, args: &[&str]) -> Vec<String> {
        let all = self.json(args);
        let wrong = all.as_array().unwrap().iter().filter(|line| line["state"] == "wrong");
        wrong.map(|line| line["check"].as_str().unwrap().to_owned()).collect()
    }

    fn json(&self, args: &[&str]) -> Value {
        let said = self.run(&[args, &["-o", "json"]].concat());
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {}{}", said.out, said.err))
    }

    /// The binary in a terminal.
    fn pty(&self, args: &[&str], shell: &str) -> Pty {
        let mut command: CommandBuilder = Pty::hostwright(args);
        command.cwd(self.path());
        for name in ["ZDOTDIR", "AWS_ACCESS_KEY_ID", "HOSTWRIGHT_SHELL", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path());
        command.env("HOSTWRIGHT_CONFIG", self.path().join("config.toml"));
        command.env("AWS_PROFILE", "other");
        command.env("SHELL", shell);
        Pty::start(command, (100, 30))
    }
}

#[test]
fn list_says_which_there_are_and_whether_they_are_complete() {
    let home = Home::new();
    let all = home.json(&["env", "list"]);
    let row = |name: &str| all.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    assert_eq!(all.as_array().unwrap().len(), 3, "{all}");
    let staging = row("staging");
    assert_eq!((&staging["variables"], &staging["current"]), (&"complete".into(), &true.into()));
    assert_eq!((&row("broken")["variables"], &row("broken")["mistakes"]), (&"incomplete".into(), &5.into()));
    assert_eq!(row("play-olga")["variables"], "none", "looking makes no file");
    assert!(!home.file("play-olga").exists());
    let table = home.run(&["env", "list", "-e", "broken"]).out;
    assert!(table.lines().any(|line| line.starts_with("*  broken")), "{table}");
}

#[test]
fn show_has_the_values_as_the_file_has_them_and_no_secrets() {
    let home = Home::new();
    let shown = home.json(&["env", "show", "staging"]);
    assert_eq!(shown["secure_subnets"]["az10_cidr"], "10.80.12.0/24");
    assert_eq!(shown["kubeapi_internal_dns"], "kube");
    assert_eq!(shown["database_password"], "********");
    assert_eq!(shown["compute_asg_max"], 100);
    let table = home.run(&["env", "show"]).out;
    let line = table.lines().find(|line| line.starts_with("kubeapi_internal_dns")).unwrap();
    assert!(line.ends_with("default"), "{line}");
    assert!(table.contains("staging.tfvars:6:27") && !table.contains("hunter2"), "{table}");

    let said = home.run(&["env", "show", "broken"]);
    assert_eq!((said.code, said.err.lines().count()), (2, 5), "{}", said.err);
    assert!(said.err.contains("broken.tfvars: kms_master_id is missing"), "{}", said.err);
    let said = home.run(&["env", "show", "nowhere"]);
    assert_eq!(said.code, 3, "{}", said.err);
    for name in ["../staging", "Staging", "", "a/b"] {
        assert_eq!(home.run(&["env", "show", name]).code, 2, "{name}");
    }
}

#[test]
fn a_playground_of_ones_own_is_made_once_and_never_overwritten() {
    let home = Home::new();
    let said = home.run(&["--read-only", "env", "check", "play"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(!home.file("play-olga").exists(), "read-only made a file");

    let said = home.run(&["env", "check", "play"]);
    assert_eq!(said.code, 2, "{}{}", said.out, said.err);
    let path = home.file("play-olga");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("environment           = \"play-olga\""), "{text}");
    assert!(text.contains("\"play-olga-kube-secrets-eu-west-1\"") && !text.contains("USER"), "{text}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for key in ["kms_master_id", "public_zone_name", "private_zone_name"] {
        let line = said.out.lines().find(|line| line.contains(key)).unwrap();
        assert!(line.starts_with("wrong") && line.contains("is still a placeholder"), "{line}");
    }

    let filled = text.replace("kms_master_id         = \"NEEDS_ADDING\"", "kms_master_id = \"alias/play\"");
    let filled = filled.replace("NEEDS_ADDING", "play.example.org");
    std::fs::write(&path, &filled).unwrap();
    assert_eq!(home.run(&["env", "init", "play"]).code, 4);
    assert_eq!(home.run(&["env", "init", "play-olga"]).code, 4);
    assert_eq!(home.wrong(&["env", "check", "play"]), ["credentials"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), filled);
}

#[test]
fn a_name_that_cannot_stand_in_names_is_refused_and_can_be_set() {
    let home = Home::new();
    for user in ["Olga", "olga.p", "../x", "a b"] {
        let said = home.run_with(&["env", "init", "play"], &[("USER", user)]);
        assert_eq!(said.code, 2, "{user}: {}", said.err);
        assert!(said.err.contains("platform.user"), "{}", said.err);
    }
    assert_eq!(std::fs::read_dir(home.path().join("environments")).unwrap().count(), 2);
    let set = [("USER", "Olga"), ("HOSTWRIGHT_PLATFORM__USER", "olga-p"), ("AWS_REGION", "us-east-2")];
    let said = home.run_with(&["env", "init", "play"], &set);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("To be filled in:") && said.out.contains("kms_master_id"), "{}", said.out);
    let text = std::fs::read_to_string(home.file("play-olga-p")).unwrap();
    assert!(text.contains("play-olga-p-kube-secrets-us-east-2"), "{text}");
    assert!(text.contains("aws_region            = \"us-east-2\""), "{text}");
}

#[test]
fn a_teams_own_template_is_used() {
    let home = Home::new();
    home.write("play", "environment = \"play-USER\"\nsecrets_bucket_name = \"acme-play-USER\"\n");
    home.run(&["env", "init", "play"]);
    let text = std::fs::read_to_string(home.file("play-olga")).unwrap();
    assert_eq!(text, "environment = \"play-olga\"\nsecrets_bucket_name = \"acme-play-olga\"\n");
    let said = home.run(&["env", "init", "lan"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(std::fs::read_to_string(home.file("lan")).unwrap().contains("\"lan-kube-secrets-eu-west-1\""));
}

#[test]
fn check_says_line_by_line_what_is_right_and_wrong() {
    let home = Home::new();
    let said = home.run(&["env", "check", "staging"]);
    assert_eq!(home.wrong(&["env", "check", "staging"]), ["credentials"], "{}{}", said.out, said.err);
    assert!(said.out.contains("context lan, namespace machines"), "{}", said.out);
    let config = std::fs::read_to_string(home.path().join("config.toml")).unwrap();
    let wrong =
        config.replace("\"lan\"", "\"lam\"").replace("policy.source = \"", "policy.source = \"/nowhere");
    std::fs::write(home.path().join("config.toml"), wrong).unwrap();
    let found = home.json(&["env", "check", "staging"]);
    let state = |check: &str| -> Vec<(String, String)> {
        let rows = found.as_array().unwrap().iter().filter(|row| row["check"] == check);
        rows.map(|r| (r["state"].as_str().unwrap().into(), r["text"].as_str().unwrap().into())).collect()
    };
    assert_eq!(state("variables")[0].0, "ok");
    assert_eq!(state("kubernetes")[0].0, "wrong");
    assert!(state("kubernetes")[0].1.contains("no context \"lam\": it has elsewhere, lan"), "{found}");
    assert_eq!(state("policy")[0].0, "wrong");
    assert_eq!(home.run(&["env", "check", "staging"]).code, 1);
    let said = home.run(&["env", "check", "broken"]);
    assert_eq!(said.code, 2);
    assert!(said.out.contains("there is no [environments.broken]"), "{}", said.out);
    assert_eq!(home.run(&["env", "check", "nowhere"]).code, 3);
}

#[test]
fn a_command_runs_with_the_environments_variables() {
    let home = Home::new();
    let print = ["env", "shell", "staging", "--", "env", "-0"];
    let inherited = [("AWS_PROFILE", "other"), ("TF_VAR_environment", "other"), ("TF_VAR_left", "x")];
    let said = home.run_with(&print, &inherited);
    assert_eq!(said.code, 0, "{}", said.err);
    let value = |said: &Said, name: &str| {
        said.out.split('\0').find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    assert_eq!(value(&said, "AWS_PROFILE").unwrap(), "staging");
    assert_eq!(value(&said, "AWS_REGION").unwrap(), "eu-west-1");
    assert_eq!(value(&said, "HOSTWRIGHT_ENV").unwrap(), "staging");
    assert_eq!(value(&said, "HOSTWRIGHT_TFVARS").unwrap(), home.file("staging").display().to_string());
    assert_eq!(value(&said, "TF_VAR_environment").unwrap(), "staging");
    assert_eq!(value(&said, "TF_VAR_ssh_access_list").unwrap(), "[\"192.0.2.65/32\"]");
    assert_eq!(value(&said, "TF_VAR_left"), None, "another environment's variables");
    let list = value(&said, "KUBECONFIG").unwrap();
    let (own, usual) = list.split_once(':').unwrap();
    assert_eq!(usual, home.path().join("kubeconfig").display().to_string());
    assert!(!Path::new(own).exists(), "its folder stays");
    // Keys win over every profile.
    let said = home.run_with(&print, &[("AWS_PROFILE", "other"), ("AWS_ACCESS_KEY_ID", "AKIA")]);
    assert_eq!(value(&said, "AWS_PROFILE"), None);
    let held = home.run(&["env", "shell", "staging", "--", "sh", "-c", "cat \"${KUBECONFIG%%:*}\""]).out;
    let held: Value = serde_json::from_str(&held).unwrap();
    assert_eq!(held["current-context"], "lan");
    assert_eq!(held["contexts"][0]["context"]["namespace"], "machines");
}

#[test]
fn a_command_without_a_cluster_sees_none() {
    let home = Home::new();
    home.write("lan", &STAGING.replace("\"staging\"", "\"lan\""));
    let show = ["env", "shell", "lan", "--", "sh", "-c", "cat \"$KUBECONFIG\""];
    let said = home.run_with(&show, &[("KUBECONFIG", "/somewhere/else")]);
    let held: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(held.get("current-context"), None);
    assert!(said.err.contains("no cluster"), "{}", said.err);
}

#[test]
fn the_exit_code_is_the_commands_own() {
    let home = Home::new();
    let code = |command: &[&str]| home.run(&[&["env", "shell", "staging", "--"], command].concat()).code;
    assert_eq!(code(&["true"]), 0);
    assert_eq!(code(&["sh", "-c", "exit 37"]), 37);
    assert_eq!(code(&["sh", "-c", "kill -KILL $$"]), 137);
    assert_eq!(code(&["/nowhere/at-all"]), 1);
    let inside = home.run_with(&["env", "shell", "staging"], &[("HOSTWRIGHT_SHELL", "prod")]);
    assert_eq!((inside.code, inside.err.contains("the shell of prod already")), (4, true), "{}", inside.err);
}

/// What every shell must show: the prompt, the variables in spite of its start-up files, the exit code.
fn session(shell: &str, start_up: (&str, &str), own: &str) {
    let home = Home::new();
    let path = home.path().join(start_up.0);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, start_up.1).unwrap();
    let mut pty = home.pty(&["env", "shell", "staging"], shell);
    pty.wait_for("[staging] ");
    pty.write(b"echo p=$AWS_PROFILE e=$HOSTWRIGHT_ENV own=$OWN k=$KUBECONFIG\r");
    pty.wait_for(&format!("p=staging e=staging own={own} k="));
    let screen = pty.screen().replace('\n', "");
    assert!(screen.contains("/kubeconfig:") && !screen.contains("k=/mine"), "{screen}");
    // Typed ahead it stands on the screen as it was typed, which is not what comes of it.
    pty.write(b"clear; echo a\"\"gain\r").wait_for("again\n[staging] ");
    assert_eq!(pty.screen().matches("[staging]").count(), 1, "{}", pty.screen());
    pty.write(b"exit 23\r");
    assert_eq!(pty.wait_exit(), 23);
}

#[test]
fn bash_has_the_prompt_and_keeps_the_variables() {
    let rc = "export OWN=rc AWS_PROFILE=mine KUBECONFIG=/mine\nPROMPT_COMMAND='PS1=\"mine> \"'\n";
    session("/bin/bash", (".bashrc", rc), "rc");
}

#[test]
fn zsh_has_the_prompt_and_keeps_the_variables() {
    let rc = "export OWN=rc AWS_PROFILE=mine KUBECONFIG=/mine\nPROMPT='mine> '\n";
    session("/usr/bin/zsh", (".zshrc", rc), "rc");
}

#[test]
fn fish_has_the_prompt_and_keeps_the_variables() {
    let rc = "set -gx OWN rc\nset -gx AWS_PROFILE mine\nset -gx KUBECONFIG /mine\nfunction fish_prompt\n  echo 'mine> '\nend\n";
    session("/usr/bin/fish", (".config/fish/config.fish", rc), "rc");
}

#[test]
fn any_other_shell_has_the_prompt() {
    session("/bin/sh", (".profile", ""), "");
}

#[test]
fn interrupts_are_the_shells_and_an_end_ends_it() {
    let home = Home::new();
    let mut pty = home.pty(&["env", "shell", "staging"], "/bin/bash");
    pty.wait_for("[staging] ");
    // It says when it runs: before that the key would be the prompt's.
    pty.write(b"sh -c 'echo ru\"\"nning; exec cat'\r").wait_for("running").keys("C-c");
    pty.wait_until("the next prompt", |screen| screen.contents().matches("[staging]").count() == 2);
    pty.write(b"echo code=$?\r").wait_for("code=130");
    pty.write(b"ls -d ${KUBECONFIG%/kubeconfig:*} && echo folder\r").wait_for("\nfolder");
    let screen = pty.screen();
    let line = screen.lines().rev().find(|line| line.contains("hostwright-env-") && !line.contains("ls -d"));
    let folder = line.unwrap().trim().to_owned();
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_exit(), 129);
    assert!(!Path::new(&folder).exists(), "{folder} stays");
}
