//! `ansible-playbook` as a child process: arguments, environment, signals.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncWrite;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::stream::{Source, pass};
use super::watch::Watch;
use super::{AnsibleError, Finished, Playbook};

/// How long the rest of the output may take after the end of the program; only something that it left running holds it open.
const DRAIN: Duration = Duration::from_secs(2);

pub(super) async fn run(
    playbook: &Playbook<'_>,
    out: &mut (impl AsyncWrite + Unpin),
    shutdown: &CancellationToken,
    grace: Duration,
) -> Result<Finished, AnsibleError> {
    let start = |source| AnsibleError::Start { program: playbook.program.to_owned(), source };
    let mut child = command(playbook).spawn().map_err(start)?;
    let missing = || start(std::io::Error::other("it has no output"));
    let mut stdout = child.stdout.take().ok_or_else(missing)?;
    let mut stderr = child.stderr.take().ok_or_else(missing)?;

    let mut watch = Watch::default();
    let ended = {
        let output = pass(&mut stdout, &mut stderr, out, |source, line| match source {
            Source::Out => watch.line(line),
            Source::Err => watch.error_line(line),
        });
        let mut output = std::pin::pin!(output);
        let ended = end_of(&mut child, shutdown, grace);
        let mut ended = std::pin::pin!(ended);
        // The end is waited for beside the output, so that a log which nobody reads holds up no signal.
        tokio::select! {
            ended = &mut ended => {
                tokio::time::timeout(DRAIN, output).await.ok();
                ended
            }
            () = &mut output => ended.await,
        }
    };
    let (status, told) = (ended.status.map_err(start)?, ended.told_to_stop);
    Ok(watch.finish(status.code(), told))
}

fn command(playbook: &Playbook<'_>) -> Command {
    let mut command = Command::new(playbook.program);
    command.args(arguments(playbook));
    command.current_dir(playbook.policy).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Our own settings may hold the queue's password; the policy has no use for them.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOSTWRIGHT_") {
            command.env_remove(name);
        }
    }
    command.envs(environment(playbook)).envs(playbook.environment.iter().map(|(name, value)| (name, value)));
    command
}

fn arguments(playbook: &Playbook<'_>) -> Vec<OsString> {
    let joined = |option: &str, value: &std::ffi::OsStr| {
        let mut argument = OsString::from(option);
        argument.push(value);
        argument
    };
    // With `=` no value can be taken for an option.
    let mut arguments = vec![
        joined("--inventory=", playbook.inventory.as_os_str()),
        joined("--extra-vars=@", playbook.variables.as_os_str()),
        "--diff".into(),
    ];
    if let Some(limit) = playbook.limit {
        arguments.push(joined("--limit=", limit.as_ref()));
    }
    if !playbook.tags.is_empty() {
        arguments.push(joined("--tags=", playbook.tags.join(",").as_ref()));
    }
    if playbook.check {
        arguments.push("--check".into());
    }
    arguments.push("--".into());
    arguments.push(playbook.playbook.into());
    arguments
}

fn environment(playbook: &Playbook<'_>) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("PYTHONUNBUFFERED", "1".into()),
        // The policy's folder may be read-only, or somebody's work.
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ("ANSIBLE_FORCE_COLOR", "1".into()),
        ("ANSIBLE_NOCOWS", "1".into()),
        ("ANSIBLE_STDOUT_CALLBACK", "default".into()),
        ("ANSIBLE_HOST_KEY_CHECKING", "True".into()),
        ("ANSIBLE_RETRY_FILES_ENABLED", "False".into()),
        ("ANSIBLE_INVENTORY_ENABLED", "yaml".into()),
        ("ANSIBLE_INVENTORY_UNPARSED_FAILED", "True".into()),
        ("ANSIBLE_LOCAL_TEMP", playbook.scratch.join("tmp").into()),
        ("ANSIBLE_SSH_CONTROL_PATH_DIR", playbook.sockets.into()),
        ("ANSIBLE_PERSISTENT_CONTROL_PATH_DIR", playbook.sockets.into()),
    ];
    if let Some(path) = playbook.config.path() {
        variables.push(("ANSIBLE_CONFIG", path.into()));
    }
    if !speaks_utf8(|name| std::env::var(name).ok()) {
        // Ansible refuses to start without it.
        variables.push(("LC_ALL", "C.UTF-8".into()));
    }
    variables
}

fn speaks_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(set).and_then(variable).unwrap_or_default();
    locale.to_ascii_lowercase().replace('-', "").contains("utf8")
}

struct Ended {
    status: std::io::Result<ExitStatus>,
    told_to_stop: bool,
}

async fn end_of(child: &mut Child, shutdown: &CancellationToken, grace: Duration) -> Ended {
    tokio::select! {
        status = child.wait() => return Ended { status, told_to_stop: false },
        () = shutdown.cancelled() => {}
    }
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(group) = group {
        // A group that is gone already is what we want.
        kill_process_group(group, Signal::TERM).ok();
    }
    if let Ok(status) = tokio::time::timeout(grace, child.wait()).await {
        return Ended { status, told_to_stop: true };
    }
    if let Some(group) = group {
        // Ansible's workers lead sessions of their own: the group's signal does not reach them.
        for pid in descendants(group) {
            kill_process(pid, Signal::KILL).ok();
        }
        kill_process_group(group, Signal::KILL).ok();
    }
    Ended { status: child.wait().await, told_to_stop: true }
}

/// The living children, children's children and so on of a process, as the kernel lists them now.
fn descendants(of: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut todo = vec![of];
    while let Some(parent) = todo.pop() {
        let parent = parent.as_raw_nonzero();
        let Ok(threads) = std::fs::read_dir(format!("/proc/{parent}/task")) else { continue };
        for thread in threads.filter_map(Result::ok) {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children: Vec<Pid> = children
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .filter_map(Pid::from_raw)
                .collect();
            todo.extend(&children);
            found.extend(children);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ansible::PolicyConfig;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    struct Fake {
        dir: tempfile::TempDir,
        config: PolicyConfig,
        program: String,
    }

    impl Fake {
        /// A program that does what the script says, in Ansible's place.
        fn new(script: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let program = dir.path().join("ansible-playbook");
            let text = format!("#!/bin/sh\n[ \"$1\" = probe ] && exit 0\n{script}\n");
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            // A child that another test forks in this moment may still hold the file open for writing.
            loop {
                match std::process::Command::new(&program).arg("probe").spawn() {
                    Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                    other => break assert!(other.unwrap().wait().unwrap().success()),
                }
            }
            let program = program.to_string_lossy().into_owned();
            Self { dir, config: PolicyConfig::default(), program }
        }

        fn playbook(&self) -> Playbook<'_> {
            Playbook {
                program: &self.program,
                policy: self.dir.path(),
                config: &self.config,
                playbook: Path::new("-site.yml"),
                inventory: Path::new("/in/inventory.yaml"),
                variables: Path::new("/in/vars.yaml"),
                scratch: self.dir.path(),
                sockets: self.dir.path(),
                limit: Some("-x"),
                tags: &[],
                check: true,
                environment: vec![("ARA_API_CLIENT", "http".into())],
            }
        }
    }

    async fn run(fake: &Fake, grace: Duration, stop: Option<CancellationToken>) -> (Finished, String) {
        let mut out = Vec::new();
        let shutdown = stop.unwrap_or_default();
        let finished = fake.playbook().run(&mut out, &shutdown, grace).await.unwrap();
        (finished, String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn arguments_are_a_vector_and_the_environment_is_ours() {
        let fake = Fake::new("printf '%s|' \"$@\"; echo $ARA_API_CLIENT $ANSIBLE_FORCE_COLOR; pwd");
        let (finished, out) = run(&fake, Duration::ZERO, None).await;
        assert_eq!(finished.code, Some(0));
        let expected = format!(
            "--inventory=/in/inventory.yaml|--extra-vars=@/in/vars.yaml|--diff|--limit=-x|--check|--|-site.yml|http 1\n{}\n",
            fake.dir.path().canonicalize().unwrap().display()
        );
        assert_eq!(out, expected);
    }

    #[tokio::test]
    async fn the_recap_and_the_exit_code_are_told_apart() {
        let fake =
            Fake::new("echo 'PLAY RECAP *'; echo 'web : ok=1 changed=0 unreachable=0 failed=0'; exit 4");
        let (finished, _) = run(&fake, Duration::ZERO, None).await;
        assert_eq!((finished.code, finished.counts.map(|c| c.ok)), (Some(4), Some(1)));
        assert!(!finished.interrupted);
    }

    #[tokio::test]
    async fn a_stop_reaches_the_group_and_then_kills_it() {
        for (script, code) in [
            ("trap 'exit 7' TERM; echo up; sleep 1000 & wait", Some(7)),
            (
                "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000' & echo up; while :; do sleep 1000; done",
                None,
            ),
        ] {
            let fake = Fake::new(script);
            let shutdown = CancellationToken::new();
            let (mut reader, mut writer) = tokio::io::duplex(64);
            let playbook = fake.playbook();
            let running = playbook.run(&mut writer, &shutdown, Duration::from_millis(300));
            let stop = async {
                let mut line = [0; 3];
                tokio::io::AsyncReadExt::read_exact(&mut reader, &mut line).await.unwrap();
                shutdown.cancel();
            };
            let (finished, ()) = tokio::join!(running, stop);
            let finished = finished.unwrap();
            assert_eq!(finished.code, code);
            assert!(finished.interrupted);
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let mut fake = Fake::new("");
        fake.program = "/nowhere/ansible-playbook".to_owned();
        let error = fake
            .playbook()
            .run(&mut Vec::new(), &CancellationToken::new(), Duration::ZERO)
            .await
            .unwrap_err();
        assert!(error.to_string().starts_with("cannot start /nowhere/ansible-playbook: "), "{error}");
    }

    #[test]
    fn the_locale_that_counts_is_the_first_that_is_set() {
        let with = |pairs: &'static [(&str, &str)]| {
            speaks_utf8(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert!(with(&[("LANG", "en_US.UTF-8")]) && with(&[("LC_ALL", "C.utf8"), ("LANG", "C")]));
        assert!(!with(&[]) && !with(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
    }
}
