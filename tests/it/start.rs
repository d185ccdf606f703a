//! Where the console starts: as the command line says, or where it was.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use hostwright::backend::kube::NewRun;
use hostwright::domain::{Kind, RawAnnouncement};
use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

use crate::ground::Ground;
use crate::journey::wait_until;
use crate::pty::Pty;
use crate::support;

/// A cluster with two runs, and what the console keeps of it.
async fn ground() -> Ground {
    let ground = Ground::new().await;
    for host in ["web-1.example.org", "db-1.example.org"] {
        let announcement =
            RawAnnouncement { hostname: host.into(), ..RawAnnouncement::default() }.check().unwrap();
        let new = NewRun {
            kind: Kind::Provision,
            number: 1,
            announcement: &announcement,
            seen: Timestamp::now(),
            decided: None,
            waits: None,
            answers: None,
            queue: false,
        };
        ground.kube.create_run(&ground.permit(), &ground.template(), &new).await.unwrap();
    }
    ground
}

fn console(ground: &Ground, args: &[&str]) -> Pty {
    let mut pty = console_at(ground, args);
    pty.wait_for(" test ").wait_for(" pending");
    pty
}

/// Wherever it starts.
fn console_at(ground: &Ground, args: &[&str]) -> Pty {
    let mut command = Pty::hostwright(["--config"]);
    command.arg(ground.config());
    command.args(args);
    command.env("XDG_STATE_HOME", ground.dir.path().join("state"));
    command.env("HOME", ground.dir.path());
    Pty::start(command, (120, 30))
}

fn file(ground: &Ground) -> PathBuf {
    ground.dir.path().join("state/hostwright/console/test.json")
}

fn place(ground: &Ground) -> Value {
    serde_json::from_slice(&std::fs::read(file(ground)).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_names_screen_and_filter() {
    let ground = ground().await;
    let ended = tokio::task::spawn_blocking(move || {
        let mut pty = console(&ground, &["--screen", "runs", "--filter", "phase:failed"]);
        pty.wait_for("phase:failed").wait_for("2 hidden").keys("q");
        (pty.wait_exit(), place(&ground))
    });
    let (code, place) = ended.await.unwrap();
    assert_eq!((code, &place["screen"]), (0, &"runs".into()));
}

#[test]
fn what_is_wrong_there_is_refused_with_what_would_be_right() {
    let said = |args: &[&str]| {
        let output = Command::new(support::exe()).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (args, part) in [
        (&["--screen", "ruins"][..], "'runs'"),
        (&["--filter", "colour:red"], "there is no field colour: phase, group"),
        (&["--filter", "age:soon"], "soon is no age"),
        (&["--screen", "runs", "hosts", "list"], "this command opens none"),
    ] {
        let (code, text) = said(args);
        assert!(code == Some(2) && text.contains(part), "{args:?}: {code:?} {text}");
    }
}

/// The line is lost, the process killed: the next console is where this one was.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_session_it_comes_back_where_it_was() {
    let ground = ground().await;
    tokio::task::spawn_blocking(move || come_and_go(&ground)).await.unwrap();
}

fn come_and_go(ground: &Ground) {
    let mut pty = console(ground, &[]);
    pty.keys("2 s /").write(b"web phase:pend\r").wait_for("1 hidden").signal(Signal::HUP);
    assert_eq!(pty.wait_exit(), 129);
    assert_eq!(file(ground).metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let mut pty = console(ground, &[]);
    pty.wait_for("web phase:pend").wait_for("1 hidden").keys("3");
    // It writes this by itself, soon.
    wait_until("the targets in the file", || (place(ground)["screen"] == "targets").then_some(()));
    assert!(pty.signal(Signal::KILL).wait_exit() != 0);
    let runs = &place(ground)["tables"]["runs"];
    assert_eq!((&runs["filter"], &runs["column"]), (&"web phase:pend".into(), &"host".into()));

    let mut pty = console(ground, &["--screen", "runs", "--filter", "db"]);
    pty.wait_for("1 hidden").wait_for("db-1").signal(Signal::TERM);
    assert_eq!(pty.wait_exit(), 143);
    std::fs::write(file(ground), "{broken").unwrap();
    let mut pty = console(ground, &[]);
    pty.wait_for("web-1").wait_for("db-1").keys("q");
    assert_eq!(pty.wait_exit(), 0);
    let log = ground.dir.path().join("state/hostwright/log/hostwright.log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("cannot read where the console was") && log.contains("test.json"), "{log}");
}

/// Killed inside a run's log, it is there again; where the run was deleted meanwhile it says so.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_inside_a_runs_log_it_is_there_again() {
    let ground = ground().await;
    let ground = tokio::task::spawn_blocking(move || {
        let mut pty = console(&ground, &["--screen", "runs"]);
        pty.wait_for("db-1").keys("/").write(b"web-1\r").wait_for("1 hidden").keys("<enter>");
        pty.wait_for("› web-1.example.org #1").keys("l l").wait_for("LOG").wait_gone("OVERVIEW");
        let kept = || file(&ground).exists() && place(&ground)["run"]["zoom"] == true;
        wait_until("the log in the file", || kept().then_some(()));
        assert!(pty.signal(Signal::KILL).wait_exit() != 0);

        // Killed before there was a list, it has forgotten nothing.
        let mut pty = console_at(&ground, &[]);
        assert!(pty.wait_for(" test ").signal(Signal::KILL).wait_exit() != 0);

        let mut pty = console_at(&ground, &[]);
        pty.wait_for("› web-1.example.org #1").wait_for("LOG").wait_gone("OVERVIEW");
        pty.keys("<esc>").wait_for("OVERVIEW").keys("2").wait_for("1 hidden").keys("<enter>");
        pty.wait_for("› web-1.example.org #1").keys("q");
        assert_eq!(pty.wait_exit(), 0);
        ground
    });
    let ground = ground.await.unwrap();
    let host = hostwright::domain::HostName::parse("web-1.example.org").unwrap();
    let [run] = ground.kube.runs(Some(&host)).await.unwrap().try_into().unwrap();
    ground.kube.delete_run(&ground.permit(), &run).await.unwrap();
    let left = tokio::task::spawn_blocking(move || {
        let mut pty = console_at(&ground, &[]);
        pty.wait_for(&format!("{} was open here before; it is gone", run.name))
            .wait_for("No run passes")
            .keys("q");
        (pty.wait_exit(), place(&ground)["run"].is_null())
    });
    assert_eq!(left.await.unwrap(), (0, true));
}
