//! The leash with real processes: nothing outlives the one who holds it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hostwright::play::leash::{Leashed, command};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;

const EXE: &str = env!("CARGO_BIN_EXE_hostwright");
/// Far longer than any test runs: who waits for it has failed.
const LONG: Duration = Duration::from_secs(600);

/// A shell script on a leash, its output to be read.
fn shell(grace: Duration, script: &str) -> (Leashed, Lines<BufReader<ChildStdout>>) {
    let mut command = command(Path::new(EXE), grace, OsStr::new("sh"), ["-c", script]);
    command.stdout(Stdio::piped());
    let mut leashed = Leashed::spawn(command).unwrap();
    let out = BufReader::new(leashed.child.stdout.take().unwrap()).lines();
    (leashed, out)
}

async fn number(out: &mut Lines<BufReader<ChildStdout>>) -> u32 {
    out.next_line().await.unwrap().expect("a line").parse().unwrap()
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn code_of(script: &str) -> Option<i32> {
    shell(LONG, script).0.wait().await.unwrap().code()
}

#[tokio::test]
async fn the_exit_code_is_the_programs() {
    assert_eq!(code_of("exit 0").await, Some(0));
    assert_eq!(code_of("exit 7").await, Some(7));
    assert_eq!(code_of("kill -KILL $$").await, Some(137));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let mut command = command(Path::new(EXE), LONG, OsStr::new("/no/such/program"), ["x"]);
    command.stderr(Stdio::piped());
    let mut leashed = Leashed::spawn(command).unwrap();
    let mut said = String::new();
    leashed.child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(leashed.wait().await.unwrap().code(), Some(127));
    assert!(said.contains("/no/such/program"), "{said}");
}

#[tokio::test]
async fn the_program_reads_nothing_and_its_output_passes() {
    let (mut leashed, mut out) = shell(LONG, "cat; echo read nothing");
    assert_eq!(out.next_line().await.unwrap().as_deref(), Some("read nothing"));
    assert!(leashed.wait().await.unwrap().success());
}

#[tokio::test]
async fn letting_go_asks_the_program_to_end() {
    let script = "trap 'echo asked; exit 3' TERM; echo $$; while :; do sleep 600 & wait; done";
    let (mut leashed, mut out) = shell(LONG, script);
    number(&mut out).await;
    assert_eq!(leashed.stop().await.unwrap().code(), Some(3));
    assert_eq!(out.next_line().await.unwrap().as_deref(), Some("asked"));
}

#[tokio::test]
async fn a_signal_to_the_leash_does_the_same() {
    let (mut leashed, mut out) =
        shell(LONG, "trap 'exit 4' TERM; echo $$; while :; do sleep 600 & wait; done");
    number(&mut out).await;
    let leash = rustix::process::Pid::from_raw(leashed.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(leash, rustix::process::Signal::TERM).unwrap();
    assert_eq!(leashed.wait().await.unwrap().code(), Some(4));
}

#[tokio::test]
async fn a_deaf_program_is_killed_after_its_grace() {
    let (mut leashed, mut out) =
        shell(Duration::from_millis(100), "trap '' TERM; echo $$; while :; do sleep 600; done");
    let pid = number(&mut out).await;
    assert_eq!(leashed.stop().await.unwrap().code(), Some(137));
    assert!(!alive(pid));
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    let script = "setsid sh -c 'trap \"\" TERM HUP; sleep 600 & echo $!; echo $$; wait' & read x < \"$0\"";
    // The script ends when the test has read both process ids and writes to the pipe.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("go");
    assert!(tokio::process::Command::new("mkfifo").arg(&pipe).status().await.unwrap().success());
    let mut command = command(
        Path::new(EXE),
        LONG,
        OsStr::new("sh"),
        [OsStr::new("-c"), OsStr::new(script), pipe.as_os_str()],
    );
    command.stdout(Stdio::piped());
    let mut leashed = Leashed::spawn(command).unwrap();
    let mut out = BufReader::new(leashed.child.stdout.take().unwrap()).lines();
    let (grandchild, child) = (number(&mut out).await, number(&mut out).await);
    assert!(alive(grandchild) && alive(child));
    tokio::fs::write(&pipe, "go\n").await.unwrap();
    assert!(leashed.wait().await.unwrap().success());
    assert!(!alive(grandchild) && !alive(child));
}

#[tokio::test]
async fn nothing_survives_when_the_holder_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let held = folder.path().join("held");
    assert!(tokio::process::Command::new("mkfifo").arg(&held).status().await.unwrap().success());
    // The holder is a process of its own that holds the leash's standard input and can only be killed.
    let mut holder = tokio::process::Command::new("sh")
        .args(["-c", "trap '' TERM; exec 9>\"$0\"; exec sleep 600"])
        .arg(&held)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let script =
        format!("exec {EXE} leash --grace 600 -- sh -c 'sleep 600 & echo $!; echo $$; wait' < \"$0\"");
    let mut leash = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(&held)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut out = BufReader::new(leash.stdout.take().unwrap()).lines();
    let (child, program) = (number(&mut out).await, number(&mut out).await);
    assert!(alive(child) && alive(program));
    holder.kill().await.unwrap();
    assert_eq!(leash.wait().await.unwrap().code(), Some(128 + 15));
    assert!(!alive(child) && !alive(program));
}
