//! The main job, through the real binary: a machine calls, an operator approves, Ansible runs, ARA records.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::pty::Pty;
use crate::support;

const PATIENCE: Duration = Duration::from_secs(120);

/// A headless playground of its own.
pub(crate) struct Play {
    pub(crate) folder: TempDir,
    pub(crate) ready: Value,
    process: Child,
}

impl Play {
    /// Starts one. Each takes about ten seconds.
    pub(crate) async fn start(args: &[&str]) -> Self {
        support::python().await;
        Self::start_in(support::temp(), args)
    }

    pub(crate) fn start_in(folder: TempDir, args: &[&str]) -> Self {
        let process = spawn_headless(&folder, args);
        Self::started(folder, process)
    }

    /// Waits until the one that was spawned is ready.
    fn started(folder: TempDir, mut process: Child) -> Self {
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = || std::fs::read_to_string(folder.path().join("stderr")).unwrap_or_default();
        let ready =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("no playground: {line:?}\n{}", said()));
        Self { folder, ready, process }
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        command(&self.folder).args(["-e", "play"]).args(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command that must succeed and print JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["-o", "json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn url(&self, name: &str) -> String {
        self.ready[name].as_str().unwrap().to_owned()
    }

    /// Kills the playground as a crash would; its folder is left.
    pub(crate) fn kill(mut self) -> TempDir {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // The drop must not find the process again.
        let folder = std::mem::replace(&mut self.folder, support::temp());
        drop(self);
        folder
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = rustix::process::Pid::from_raw(self.process.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        self.process.wait().ok();
    }
}

/// A proxy that nobody listens at: what goes through it fails.
const DEAD_PROXY: &str = "http://127.0.0.1:1";
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"];

/// Starts a headless playground and does not wait until it is ready.
fn spawn_headless(folder: &TempDir, args: &[&str]) -> Child {
    command(folder)
        .args(["play", "--headless", "--no-install"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(folder.path().join("stderr")).unwrap())
        .spawn()
        .unwrap()
}

/// The names of the processes that belong to the playground in this folder: all have it in their environment.
fn processes_of(folder: &TempDir) -> Vec<String> {
    let path = folder.path().to_str().unwrap().as_bytes();
    let belongs = |process: &PathBuf| {
        std::fs::read(process.join("environ")).is_ok_and(|e| e.windows(path.len()).any(|w| w == path))
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(belongs)
        .filter_map(|process| Some(std::fs::read_to_string(process.join("comm")).ok()?.trim().to_owned()))
        .collect()
}

/// RabbitMQ's nodes among them.
fn nodes_of(folder: &TempDir) -> usize {
    processes_of(folder).iter().filter(|name| *name == "beam.smp").count()
}

pub(crate) fn command(folder: &TempDir) -> Command {
    let mut command = Command::new(support::exe());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOSTWRIGHT_")) {
        command.env_remove(name);
    }
    command.envs(environment(folder));
    command
}

/// What makes a program find the playground in this folder, and nothing of the user's.
pub(crate) fn environment(folder: &TempDir) -> Vec<(&'static str, PathBuf)> {
    let at = |part: &str| folder.path().join(part);
    vec![
        ("HOSTWRIGHT_PLAY_DIR", at("play")),
        ("HOSTWRIGHT_PLAY_PYTHON", support::kept()),
        ("XDG_CONFIG_HOME", at("config")),
        ("XDG_STATE_HOME", at("state")),
        ("USER", "ann".into()),
    ]
}

/// An HTTP client; the binary installs the TLS provider by itself, a test has to.
fn http() -> reqwest::Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::new()
}

pub(crate) async fn call_hook(play: &Play, body: &Value) -> (u16, Value) {
    let response = http().post(format!("{}/host/online", play.url("hook"))).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Waits for something that is asked for again and again.
pub(crate) fn wait_until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// The counts of Ansible's own recap in a log.
fn recap(log: &str) -> BTreeMap<String, u64> {
    let (_, counts) =
        log.lines().filter_map(hostwright::domain::parse_recap).next_back().expect("no recap in the log");
    serde_json::from_value(serde_json::to_value(counts).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_calls_and_is_provisioned() {
    let play = Play::start(&["--no-machines"]).await;
    let host = "quirky-1.play.test";
    let (status, answer) = call_hook(&play, &json!({"hostname": host, "groups": ["web"], "boot": "1"})).await;
    assert_eq!(status, 202, "{answer}");
    assert_eq!(answer["phase"], "pending");
    let (status, again) = call_hook(&play, &json!({"hostname": host, "groups": ["web"], "boot": "1"})).await;
    assert_eq!((status, &again["run"]), (200, &answer["run"]));

    let approved = play.run(&["hosts", "approve", host, "--wait"]);
    let log = play.run(&["runs", "logs", host]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(approved.status.success(), "{}\n{log}", String::from_utf8_lossy(&approved.stderr));

    let results = play.json(&["runs", "results", host]);
    let recap = recap(&log);
    for (name, count) in &recap {
        assert_eq!(results["counts"][name].as_u64(), Some(*count), "{name} of {recap:?}");
    }
    assert!(recap["rescued"] > 0 && recap["ignored"] > 0 && recap["changed"] > 0, "{recap:?}");
    let recorded = results["results"].as_array().unwrap().len() as u64;
    assert_eq!(
        recorded,
        recap["ok"] + recap["failed"] + recap["skipped"] + recap["rescued"] + recap["unreachable"]
    );

    let targets = play.json(&["targets", "list"]);
    assert!(targets.as_array().unwrap().iter().any(|t| t["labels"]["host"] == host), "{targets}");

    let run = play.json(&["runs", "show", host]);
    let label = format!("run:{}", run["uid"].as_str().unwrap());
    let url = format!("{}/api/v1/playbooks", play.url("ara"));
    let playbooks: Value = reqwest::Client::new()
        .get(url)
        .query(&[("label", &label)])
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(playbooks["count"], 1, "{playbooks}");
    let files = play.folder.path().join("play/hosts").join(host);
    assert!(files.join("etc/motd").exists(), "no files in {}", files.display());
    assert_eq!(run["decision"]["by"], "ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_says_so_and_can_be_retried() {
    let play = Play::start(&["--no-machines"]).await;
    for host in ["broken-1.play.test", "lost-1.play.test"] {
        assert_eq!(call_hook(&play, &json!({"hostname": host, "groups": ["web"]})).await.0, 202);
    }
    let output = play.run(&["hosts", "approve", "broken-1.play.test", "lost-1.play.test", "--wait"]);
    assert_eq!(output.status.code(), Some(1));
    let broken = play.json(&["hosts", "show", "broken-1.play.test"]);
    assert_eq!((&broken["phase"], &broken["outcome"]["exit"]), (&json!("failed"), &json!("failed-task")));
    let lost = play.json(&["runs", "list", "--host", "lost-1.play.test"]);
    assert_eq!(lost[0]["phase"], "failed");
    let failed = play.json(&["runs", "results", "broken-1.play.test", "--failed"]);
    assert_eq!(failed["results"].as_array().unwrap().len(), 1, "{failed}");

    let retried = play.run(&["hosts", "retry", "broken-1.play.test", "--wait"]);
    assert_eq!(retried.status.code(), Some(1));
    let runs = play.json(&["runs", "list", "--host", "broken-1.play.test"]);
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs}");
    let checked = play.run(&["hosts", "check", "broken-1.play.test", "--wait"]);
    assert!(checked.status.code().is_some());
    let nobody = play.run(&["hosts", "approve", "nobody.play.test"]);
    assert_eq!(nobody.status.code(), Some(3), "{}", String::from_utf8_lossy(&nobody.stderr));
    let over = play.run(&["hosts", "approve", "broken-1.play.test"]);
    assert_eq!(over.status.code(), Some(4), "{}", String::from_utf8_lossy(&over.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_make_one_run_and_one_decision_wins() {
    let play = Play::start(&["--no-machines"]).await;
    let body = json!({"hostname": "web-1.play.test", "groups": ["web"], "boot": "1"});
    let calls = futures_util::future::join_all((0..20).map(|_| call_hook(&play, &body))).await;
    assert_eq!(calls.iter().filter(|(status, _)| *status == 202).count(), 1, "{calls:?}");
    assert_eq!(calls.iter().filter(|(status, _)| *status == 200).count(), 19, "{calls:?}");
    assert_eq!(play.json(&["runs", "list"]).as_array().unwrap().len(), 1);

    // What was looked at is what is approved: the announcement changes in between.
    let seen = play.json(&["hosts", "show", "web-1.play.test"]);
    let changed = json!({"hostname": "web-1.play.test", "groups": ["web", "k8s_worker"], "boot": "1"});
    assert_eq!(call_hook(&play, &changed).await.0, 200);
    let digest = seen["digest"].as_str().unwrap();
    let late = play.run(&["hosts", "approve", "web-1.play.test", "--digest", digest]);
    assert_eq!(late.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&late.stderr).contains("announcement has changed"));

    let spawn = |user: &str, verb: &str| {
        let mut command = command(&play.folder);
        command.env("USER", user).args(["-e", "play", "hosts", verb, "web-1.play.test"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let outputs: Vec<Output> = [spawn("ann", "approve"), spawn("bob", "reject")]
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    let (won, lost): (Vec<_>, Vec<_>) = outputs.iter().partition(|o| o.status.success());
    assert_eq!((won.len(), lost.len()), (1, 1), "{outputs:?}");
    assert_eq!(lost[0].status.code(), Some(4));
    let winner =
        play.json(&["hosts", "show", "web-1.play.test"])["decision"]["by"].as_str().unwrap().to_owned();
    assert!(String::from_utf8_lossy(&lost[0].stderr).contains(&winner), "{outputs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_playground_knows_what_was() {
    let play = Play::start(&[]).await;
    let second = command(&play.folder).args(["play", "--headless"]).output().unwrap();
    assert_eq!(second.status.code(), Some(4), "{}", String::from_utf8_lossy(&second.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&second.stdout).unwrap()["pid"], play.pid());
    let all = wait_until("the first machines come online", || {
        let hosts = play.json(&["hosts", "list"]);
        (hosts.as_array().unwrap().len() == 5).then_some(hosts)
    });
    let ready = play.ready.clone();
    let play = Play::start_in(play.kill(), &[]);
    assert_eq!(play.ready["hook"], ready["hook"], "ports are remembered");
    let names = |hosts: &Value| -> Vec<String> {
        hosts.as_array().unwrap().iter().map(|h| h["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&play.json(&["hosts", "list"])), names(&all));
    let boot = play.run(&["play", "host"]);
    assert!(boot.status.success(), "{}", String::from_utf8_lossy(&boot.stderr));
    assert_eq!(play.json(&["hosts", "list"]).as_array().unwrap().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_proxy_is_not_asked_for_this_machine_and_for_all_else_it_is() {
    support::python().await;
    let folder = support::temp();
    let mut start = command(&folder);
    start.args(["play", "--headless", "--no-install"]).envs(PROXY_VARIABLES.map(|name| (name, DEAD_PROXY)));
    start.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let play = Play::started(folder, start.spawn().unwrap());
    wait_until("the first machines come online", || {
        (play.json(&["hosts", "list"]).as_array().unwrap().len() == 5).then_some(())
    });
    let behind = |proxy: &str, args: &[&str]| {
        let mut command = command(&play.folder);
        command.args(args).envs(PROXY_VARIABLES.map(|name| (name, proxy.to_owned())));
        command.stdin(Stdio::null()).output().unwrap()
    };
    for args in [
        &["-e", "play", "hosts", "announce", "web-9.play.test"][..],
        &["-e", "play", "hosts", "approve", "web-9.play.test", "--wait"],
        &["-e", "play", "runs", "results", "web-9.play.test"],
    ] {
        let output = behind(DEAD_PROXY, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(proxy.accept().unwrap().0).read_line(&mut line).unwrap();
        line
    });
    let elsewhere = play.folder.path().join("elsewhere.toml");
    let far = "[environments.far]\nhook = \"http://hook.example.org\"\npolicy.source = \"/policy\"\n";
    std::fs::write(&elsewhere, far).unwrap();
    let config = elsewhere.to_str().unwrap();
    let output = behind(&url, &["--config", config, "-e", "far", "hosts", "announce", "web-9.example.org"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(asked.join().unwrap(), "POST http://hook.example.org/host/online HTTP/1.1\r\n");
}

/// Starts a playground and ends it with a signal while its RabbitMQ is starting.
fn interrupted_start(folder: &TempDir, signal: rustix::process::Signal) {
    let mut process = spawn_headless(folder, &["--no-machines"]);
    wait_until("RabbitMQ's start", || (nodes_of(folder) == 1).then_some(()));
    let pid = rustix::process::Pid::from_raw(process.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
    assert!(!process.wait().unwrap().success());
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "", "it was ready before it was ended");
}

fn ports_of(folder: &TempDir) -> Vec<String> {
    let part =
        |part: &str| std::fs::read_to_string(folder.path().join("play").join(part).join("port")).unwrap();
    ["services/rabbitmq", "services/ara"].map(part).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_was_ended_half_way_is_in_nobodys_way() {
    support::python().await;
    let folder = support::temp();
    interrupted_start(&folder, rustix::process::Signal::TERM);
    assert_eq!(processes_of(&folder), Vec::<String>::new(), "asked to end it waits for what it started");
    let ports = ports_of(&folder);

    // Killed it cannot wait: the next start has to.
    interrupted_start(&folder, rustix::process::Signal::KILL);
    let play = Play::start_in(folder, &["--no-machines"]);
    assert_eq!(nodes_of(&play.folder), 1);
    assert_eq!(ports_of(&play.folder), ports);
    assert_eq!(play.json(&["hosts", "list"]), json!([]));
}

/// `hostwright play` in a terminal, on the playground in this folder.
fn play_in_terminal(folder: &TempDir) -> Pty {
    let mut command = Pty::hostwright(["play", "--no-install"]);
    for (name, value) in environment(folder) {
        command.env(name, value);
    }
    Pty::start(command, (120, 40))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_play_opens_its_console_on_the_first_and_leaves_it_alone() {
    let play = Play::start(&["--no-machines"]).await;
    assert_eq!(call_hook(&play, &json!({"hostname": "web-1.play.test", "groups": ["web"]})).await.0, 202);
    tokio::task::spawn_blocking(move || {
        let mut pty = play_in_terminal(&play.folder);
        let said = format!("a playground is running already (process {}", play.pid());
        pty.wait_bytes(0, said.as_bytes()).wait_for("web-1.play.test").keys("q");
        assert_eq!(pty.wait_exit(), 0);
        assert_eq!(play.json(&["hosts", "list"]).as_array().unwrap().len(), 1);
        assert_eq!(nodes_of(&play.folder), 1);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn quitting_the_console_of_a_playground_leaves_nothing_behind() {
    support::python().await;
    tokio::task::spawn_blocking(|| {
        let folder = support::temp();
        let mut pty = play_in_terminal(&folder);
        let before = pty.settings();
        pty.wait_for("5 pending");
        assert_eq!(nodes_of(&folder), 1);
        pty.keys("q");
        assert_eq!(pty.wait_exit(), 0);
        assert_eq!(processes_of(&folder), Vec::<String>::new());
        assert!(!folder.path().join("play/ready.json").exists());
        assert_eq!(pty.settings(), before);
        assert_eq!(pty.modes_left(), Vec::<String>::new());
    })
    .await
    .unwrap();
}

/// What an operator does: open the console, look, approve, watch it become ready, quit.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_approves_in_the_console_and_sees_it_ready() {
    let play = Play::start(&["--no-machines"]).await;
    for (name, group, address) in
        [("web-1", "web", "10.20.0.7"), ("web-2", "web", "10.20.0.8"), ("node-1", "k8s_worker", "10.20.0.21")]
    {
        let body = json!({
            "hostname": format!("{name}.play.test"),
            "groups": [group],
            "address": address,
            "facts": {"os": "debian 13", "cores": 8},
        });
        assert_eq!(call_hook(&play, &body).await.0, 202);
    }
    tokio::task::spawn_blocking(move || {
        let mut command = Pty::hostwright(["-e", "play"]);
        for (name, value) in environment(&play.folder) {
            command.env(name, value);
        }
        let mut pty = Pty::start(command, (120, 40));
        let before = pty.settings();
        pty.wait_for("web-1.play.test").wait_for("3 pending").keys("/");
        pty.write(b"web-1\r").wait_for("2 hidden").keys("a").wait_for("Approve web-1.play.test");
        pty.keys("y").wait_for("1 running").keys("<esc>").wait_for("node-1");
        pty.wait_for("1 ready");
        assert_eq!(play.json(&["hosts", "show", "web-1.play.test"])["phase"], "ready");
        // Its results are on screen: a role, a task, and the recap's numbers.
        pty.keys("<enter>").wait_for("▾ base").wait_for("Message of the day").wait_for("ok 20");
        pty.keys("<esc>").wait_for("GROUPS  ").keys("q");
        assert_eq!(pty.wait_exit(), 0);
        assert_eq!(pty.settings(), before);
        assert_eq!(pty.modes_left(), Vec::<String>::new());
    })
    .await
    .unwrap();
}

/// Every foreground colour of the screen.
fn foregrounds(screen: &vt100::Screen) -> std::collections::BTreeSet<String> {
    let (rows, cols) = screen.size();
    let cells = (0..rows.get()).flat_map(|row| (0..cols.get()).map(move |col| (row, col)));
    cells.filter_map(|(row, col)| screen.cell(row, col)).map(|cell| format!("{:?}", cell.fgcolor())).collect()
}

/// A day with the console, with the keyboard alone, on a small terminal: three hosts marked, one checked first and its diff read, all
/// three approved at once; one fails, its failing task is found, what was wrong is mended, it is run again and is ready; targets and
/// tokens are looked at; the theme changes while all this is on screen.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_with_the_console_on_a_small_terminal() {
    let play = Play::start(&["--no-machines"]).await;
    for (name, group) in [("broken-1", "web"), ("web-1", "web"), ("web-2", "web")] {
        let body = json!({"hostname": format!("{name}.play.test"), "groups": [group]});
        assert_eq!(call_hook(&play, &body).await.0, 202);
    }
    tokio::task::spawn_blocking(move || {
        let mut command = Pty::hostwright(["-e", "play"]);
        for (name, value) in environment(&play.folder) {
            command.env(name, value);
        }
        command.env("COLORTERM", "truecolor");
        let config = play.folder.path().join("config/hostwright");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("config.toml"), "[console]\ntheme = \"dark\"\n").unwrap();
        let mut pty = Pty::start(command, (80, 24));
        pty.wait_for("3 pending").wait_for("broken-1.play.test");

        // One is checked first; what would change is read in the check's own run.
        pty.write(b"/web-1\r").wait_for("2 hidden").keys("c").wait_for("check of web-1.play.test");
        pty.keys("2").wait_for("check").write(b"/kind:check\r").wait_for("hidden");
        wait_until("the check's end", || {
            let runs = play.json(&["runs", "list", "--host", "web-1.play.test"]);
            runs.as_array()
                .unwrap()
                .iter()
                .any(|run| run["kind"] == "check" && run["phase"] == "ready")
                .then_some(())
        });
        pty.keys("<enter>").wait_for("Message of the day");
        pty.write(b"/Message of the day\r");
        pty.wait_for("1 of 1").keys("<enter>").wait_for("motd.j2").keys("d");
        pty.wait_for("+  Provisioned by Hostwright.");
        pty.keys("1").wait_for("HOST");
        pty.wait_for("2 hidden").keys("<esc>").wait_for("broken-1");

        // All three are marked and approved at once.
        pty.keys("g <space> <space> <space>").wait_for("3 marked").keys("a").wait_for("Approve 3 hosts");
        pty.keys("y").wait_for("Approve: 3 done").wait_for("2 ready").wait_for("1 failed");
        assert_eq!(play.json(&["hosts", "show", "broken-1.play.test"])["phase"], "failed");

        // Why it failed is under the cursor when the run is opened.
        pty.write(b"/phase:failed\r").wait_for("2 hidden").keys("g <enter>");
        pty.wait_for("The data volume is mounted").keys("<enter>").wait_for("lost+found");

        // What was wrong is mended on the machine, and the host is run again.
        let volume = play.folder.path().join("play/hosts/broken-1.play.test/srv/data/lost+found");
        std::fs::create_dir_all(volume).unwrap();
        pty.keys("r").wait_for("Retry broken-1.play.test").keys("y").wait_for("another run");
        pty.keys("1").wait_for("filter phase:failed").keys("<esc>").wait_gone("filter phase:failed");
        pty.wait_for("3 ready");
        assert_eq!(play.json(&["hosts", "show", "broken-1.play.test"])["phase"], "ready");

        // What the provisioning left in the cluster.
        pty.keys("3").wait_for("broken-1.play.test:9103").wait_for("web-2.play.test:9103");
        play.json(&["tokens", "create"]);
        pty.keys("5").wait_for("system:bootstrappers");

        // Another theme, while it runs.
        pty.keys("1").wait_for("broken-1");
        let mut before = std::collections::BTreeSet::new();
        pty.wait_until("colours", |screen| {
            before = foregrounds(screen);
            true
        });
        std::fs::write(config.join("config.toml"), "[console]\ntheme = \"light\"\n").unwrap();
        pty.wait_until("other colours", |screen| {
            let now = foregrounds(screen);
            now.intersection(&before).count() <= 1
        });
        pty.keys("q");
        assert_eq!(pty.wait_exit(), 0);
        assert_eq!(pty.modes_left(), Vec::<String>::new());
    })
    .await
    .unwrap();
}
