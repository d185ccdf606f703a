//! The process of one container, as a rule held on a leash (`hostwright leash`), and what is left of one whose runner died.
//!
//! Called by `worker.rs`. A signal is only ever sent to a process that cannot have been replaced by another of the same number: our
//! own child before it is reaped, its children, or one whose start time is still the one that was noted.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::env::Variables;

/// How often a foreign process is looked at while its end is awaited.
const LOOK: Duration = Duration::from_millis(50);
/// What a killed process may take to vanish.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// All that a process is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launch {
    /// The program's file.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// Its whole environment.
    pub(super) env: Variables,
    /// The folder that it starts in.
    pub(super) folder: PathBuf,
    /// How long it gets between being asked to end and being killed.
    pub(super) grace: Duration,
}

/// A running container.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// The leash ends the program when this pipe closes.
    held: Option<ChildStdin>,
    leashed: bool,
}

/// The pipes that a container writes to.
pub(super) type Streams = (ChildStdout, ChildStderr);

impl Process {
    /// Starts `launch`, through `leash` unless that is empty.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(launch: &Launch, leash: &[String]) -> std::io::Result<(Self, Streams)> {
        let mut command = match leash.split_first() {
            Some((holder, rest)) => {
                let mut command = Command::new(holder);
                command.args(rest).arg("--grace").arg(launch.grace.as_secs().to_string()).arg("--");
                command.arg(&launch.program).stdin(Stdio::piped());
                command
            }
            None => {
                let mut command = Command::new(&launch.program);
                command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
                command
            }
        };
        command.args(&launch.args).env_clear().envs(&launch.env).current_dir(&launch.folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let held = child.stdin.take();
        let pipe = || std::io::Error::other("its output cannot be read");
        let streams = (child.stdout.take().ok_or_else(pipe)?, child.stderr.take().ok_or_else(pipe)?);
        Ok((Self { child, held, leashed: !leash.is_empty() }, streams))
    }

    /// The process id, of the leash where there is one; `None` once it has ended.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the end; the exit code, 128 + signal when a signal brought it about. Can be dropped and called again.
    pub(super) async fn wait(&mut self) -> std::io::Result<i32> {
        let status = self.child.wait().await?;
        Ok(status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(255))
    }

    /// Asks the program to end; a leash kills it when its grace period is over. Returns at once.
    pub(super) fn ask(&mut self) {
        if self.leashed {
            self.held = None;
        }
        if let Some(pid) = self.pid() {
            kill_process(pid, Signal::TERM).ok();
        }
    }

    /// Kills the program. A leash then kills whatever it left, and reports its end.
    pub(super) fn kill(&self) {
        if let Some(pid) = self.pid() {
            if self.leashed {
                kill_children(pid);
            } else {
                kill_process_group(pid, Signal::KILL).ok();
            }
        }
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }
}

/// The program that a container's command names.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn find(command: &str, own: &Path, path: &str, folder: &Path) -> Result<PathBuf, String> {
    if command == "hostwright" {
        return Ok(own.to_owned());
    }
    if command.contains('/') {
        let file = folder.join(command);
        return if is_program(&file) { Ok(file) } else { Err(format!("{command:?} is no program")) };
    }
    std::env::split_paths(OsStr::new(path))
        .map(|p| folder.join(p).join(command))
        .find(|file| is_program(file))
        .ok_or_else(|| format!("no program {command:?} in PATH ({path})"))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Notes the process in `note`, so that a later runner can see to its end.
pub(super) async fn write_note(note: &Path, pid: u32) -> std::io::Result<()> {
    let started = started(pid).map(|s| s.to_string()).unwrap_or_default();
    tokio::fs::write(note, format!("{pid} {started}\n")).await
}

/// Sees to it that the process noted in `note` by an earlier runner has ended: waits for it (its leash is ending it), at most
/// `grace`, then kills it. A missing note means that there is no such process.
pub(super) async fn end_noted(note: &Path, grace: Duration) {
    let Some((pid, start)) = tokio::fs::read_to_string(note).await.ok().and_then(|t| parse_note(&t)) else {
        return;
    };
    let same = move || started(pid) == Some(start);
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    if same() {
        kill_process(number, Signal::TERM).ok();
    }
    if gone(same, grace).await {
        return;
    }
    kill_children(number);
    if same() {
        kill_process_group(number, Signal::KILL).ok();
    }
    if !gone(same, LAST_WAIT).await && same() {
        kill_process(number, Signal::KILL).ok();
        gone(same, LAST_WAIT).await;
    }
}

/// Waits until the process is not there any more; whether that came to be in time.
async fn gone(same: impl Fn() -> bool, within: Duration) -> bool {
    let watching = async {
        while same() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(within, watching).await.is_ok()
}

fn parse_note(text: &str) -> Option<(u32, u64)> {
    let (pid, start) = text.trim().split_once(' ')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// The moment that a process was started, in the kernel's own count; `None` when there is no such process, or only its remains.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = || stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
    if fields()?.next()? == "Z" {
        return None;
    }
    fields()?.nth(19)?.parse().ok()
}

fn kill_children(parent: Pid) {
    let parent = parent.as_raw_nonzero().get();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if let (Some(pid), true) = (Pid::from_raw(pid), of == Some(parent)) {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let own = Path::new("/opt/own");
        let find = |command: &str| find(command, own, "/nowhere:/bin", folder.path());
        assert_eq!(find("hostwright"), Ok(own.to_owned()));
        assert_eq!(find("sh"), Ok("/bin/sh".into()));
        assert_eq!(find("/bin/sh"), Ok("/bin/sh".into()));
        std::fs::write(folder.path().join("plain"), "").unwrap();
        for wrong in ["nonesuch", "./plain", "/bin", "", "./nonesuch"] {
            assert!(find(wrong).is_err(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_noted_process_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("note");
        end_noted(&note, Duration::from_secs(1)).await;
        let script = "trap '' TERM; echo ready; while :; do sleep 60; done";
        let launch = Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: Variables::from([("PATH".into(), "/bin:/usr/bin".into())]),
            folder: folder.path().to_owned(),
            grace: Duration::from_secs(1),
        };
        let (mut process, (stdout, _stderr)) = Process::start(&launch, &[]).unwrap();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(stdout));
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        write_note(&note, process.id().unwrap()).await.unwrap();
        let (code, ()) = tokio::join!(process.wait(), end_noted(&note, Duration::from_millis(200)));
        assert_eq!(code.unwrap(), 137);
        // A note of a process that is gone, or whose number another one has: nothing is sent.
        std::fs::write(&note, format!("{} 1\n", std::process::id())).unwrap();
        end_noted(&note, Duration::from_secs(1)).await;
    }
}
