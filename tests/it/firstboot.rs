//! The script with which a new machine calls the hook, run by the system's own shell.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::server::{Cluster, Server};
use crate::support;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti it's & \"odd\" 100%";

/// A new machine.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(support::temp());
        std::fs::create_dir(machine.path("ssh")).unwrap();
        std::fs::write(machine.path("ssh/ssh_host_ed25519_key.pub"), format!("{KEY}\n")).unwrap();
        std::fs::write(machine.path("token"), "hunter2\n").unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The script, started.
    fn call(&self, hook: &str, name: &str) -> Child {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/firstboot/hostwright-online");
        let mut command = Command::new("sh");
        command.arg(script).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOSTWRIGHT_HOOK", hook).env("HOSTWRIGHT_HOSTNAME", name);
        command.env("HOSTWRIGHT_STATE", self.path("state")).env("HOSTWRIGHT_KEYS", self.path("ssh"));
        command.env("HOSTWRIGHT_TOKEN_FILE", self.path("token")).env("TMPDIR", self.0.path());
        command.env("HOSTWRIGHT_PAUSE", "1").env("HOSTWRIGHT_LONGEST_PAUSE", "2");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap_or_else(|error| panic!("sh: {error}"))
    }

    /// Waits for its end: the exit code and what it said.
    async fn end(call: Child) -> (i32, String) {
        let output = tokio::time::timeout(Duration::from_secs(60), call.wait_with_output());
        let output = output.await.expect("the script does not end").unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8(said).unwrap())
    }

    /// Temporary folders that it left.
    fn left(&self) -> usize {
        let names = std::fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("tmp.")).count()
    }
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_machine_is_pending_with_its_keys_and_its_boot_and_says_so_once() {
    let cluster = Cluster::with(|_| {}).await;
    let server = Server::start(&cluster).await;
    let machine = Machine::new();
    let name = "web-1.example.org";
    let (code, said) = Machine::end(machine.call(&server.url(), name)).await;
    assert_eq!(code, 0, "{said}");
    let host = name.parse().unwrap();
    let details = hostwright::ops::runs::of_host(&cluster.kube, &host).await.unwrap();
    assert_eq!(details.run.boot.as_deref(), Some(boot().as_str()));
    let keys: Vec<&str> = details.announcement.keys.iter().map(|key| key.as_str()).collect();
    assert_eq!(keys, [KEY.rsplit_once(" it's").unwrap().0], "the comment is nobody's business");

    // In this boot nothing more is said, also where nobody would answer.
    let (code, said) = Machine::end(machine.call("http://127.0.0.1:1", name)).await;
    assert!(code == 0 && said.contains("told already"), "{said}");
    // After a reboot it is.
    std::fs::write(machine.path("state/told"), "another boot\n").unwrap();
    let (code, _) = Machine::end(machine.call(&server.url(), name)).await;
    assert_eq!((code, machine.left()), (0, 0));
    server.stop().await;
}

#[derive(Clone, Default)]
struct Hook {
    calls: Arc<Mutex<Vec<(HeaderMap, String)>>>,
}

/// Not yet, not you, and then yes.
async fn answer(
    State(hook): State<Hook>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap, &'static str) {
    let mut calls = hook.calls.lock().unwrap();
    calls.push((headers, String::from_utf8(body.to_vec()).unwrap()));
    let mut head = HeaderMap::new();
    match calls.len() {
        1 => {
            head.insert("retry-after", "1".parse().unwrap());
            (StatusCode::SERVICE_UNAVAILABLE, head, "later")
        }
        2 => (StatusCode::FORBIDDEN, head, "not from\u{1b}[2J there"),
        _ => (StatusCode::ACCEPTED, head, "{}"),
    }
}

#[tokio::test]
async fn it_comes_again_until_it_is_heard_and_shows_its_token_to_nobody() {
    let hook = Hook::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let app = Router::new().route("/host/online", post(answer)).with_state(hook.clone());
    tokio::spawn(async { axum::serve(listener, app).await });
    let machine = Machine::new();

    // Without a key it waits; killed meanwhile it leaves nothing, and is started again.
    std::fs::rename(machine.path("ssh"), machine.path("later")).unwrap();
    let mut waiting = machine.call(&url, "a.example.org");
    for _ in 0..200 {
        if machine.left() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pid = rustix::process::Pid::from_raw(waiting.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(waiting.wait().await.unwrap().code(), Some(143));
    assert_eq!((machine.left(), hook.calls.lock().unwrap().len()), (0, 0));
    std::fs::rename(machine.path("later"), machine.path("ssh")).unwrap();

    let (code, said) = Machine::end(machine.call(&url, "a.example.org")).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("503: later") && said.contains("403: not from?[2J there"), "{said:?}");
    assert!(!said.contains("hunter2"), "{said}");
    let calls = hook.calls.lock().unwrap();
    assert_eq!(calls.len(), 3);
    for (headers, body) in calls.iter() {
        assert_eq!(headers["authorization"], "Bearer hunter2");
        let fields: Vec<(String, String)> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let field =
            |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim_end());
        assert_eq!(field("hostname"), Some("a.example.org"));
        assert_eq!((field("boot"), field("sshkeys")), (Some(boot().as_str()), Some(KEY)));
    }
    assert_eq!(machine.left(), 0);
}

#[test]
fn the_unit_starts_the_script_and_gives_it_its_folder() {
    let unit = include_str!("../../assets/firstboot/hostwright-online.service");
    let script = include_str!("../../assets/firstboot/hostwright-online");
    for line in ["After=network-online.target", "StateDirectory=hostwright-online", "Restart=on-failure"] {
        assert!(unit.lines().any(|one| one.starts_with(line)), "{line}");
    }
    assert!(
        unit.contains("ExecStart=/usr/local/sbin/hostwright-online")
            && script.contains("/var/lib/hostwright-online")
    );
}
