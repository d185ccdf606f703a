//! The agent `sync` through the real binary against a real AWS server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cloud::{Cloud, Desk, Said};

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Waits for something that the agent does.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// An agent that runs on, ended with the test.
struct Agent {
    child: Child,
    log: std::sync::mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Agent {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (tell, log) = std::sync::mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, log, said: Vec::new() }
    }

    /// A line of the log that holds this, now or soon.
    async fn says(&mut self, text: &str) -> String {
        let Self { log, said, .. } = self;
        until(text, || {
            said.extend(log.try_iter());
            said.iter().find(|line| line.contains(text)).cloned()
        })
        .await
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    async fn ended(&mut self) -> Option<i32> {
        let child = &mut self.child;
        until("the end", || child.try_wait().unwrap()).await.code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A round of its own.
async fn once(desk: &Desk, args: &[&str]) -> Said {
    desk.run(&[&["sync", "--once", "--node", "node-1", "--to", "node"], args].concat()).await
}

fn at(desk: &Desk, below: &str) -> PathBuf {
    desk.path().join("node").join(below)
}

#[tokio::test]
async fn one_round_takes_what_is_asked_for_and_says_what_the_node_has() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    for key in ["manifests/a.yaml", "manifests/b/c.yaml", "secure/etcd.key", "locked/root.key", "common/x"] {
        cloud.put(key, key).await;
    }
    let said = once(&desk, &["manifests", "secure/"]).await;
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    assert!(said.err.contains("3 written, 0 removed, 0 as they were"), "{said:?}");
    assert_eq!(read(&at(&desk, "manifests/b/c.yaml")).as_deref(), Some("manifests/b/c.yaml"));
    assert!(!at(&desk, "common").exists() && !at(&desk, "locked").exists());

    let status: Value = serde_json::from_str(&cloud.text("status/sync/node-1.json").await).unwrap();
    assert_eq!((&status["node"], status["files"].as_array().unwrap().len()), (&"node-1".into(), 3));
    assert!(status["synced"].is_string() && status["files"][0]["version_id"].is_string(), "{status}");
    let head =
        cloud.s3.head_object().bucket(&cloud.bucket).key("status/sync/node-1.json").send().await.unwrap();
    assert_eq!(head.ssekms_key_id.as_deref(), Some(cloud.key.as_str()));

    // The next one reads nothing; a file that was altered is put back, one that nobody took stays.
    let said = once(&desk, &["manifests", "secure"]).await;
    assert!(said.code == 0 && said.err.contains("0 written, 0 removed, 3 as they were"), "{said:?}");
    std::fs::write(at(&desk, "secure/etcd.key"), "altered").unwrap();
    std::fs::write(at(&desk, "secure/mine"), "mine").unwrap();
    cloud.s3.delete_object().bucket(&cloud.bucket).key("manifests/a.yaml").send().await.unwrap();
    let said = once(&desk, &["manifests", "secure"]).await;
    assert!(said.err.contains("wrote secure/etcd.key (altered here, put back)"), "{said:?}");
    assert!(said.err.contains("removed manifests/a.yaml"), "{said:?}");
    assert_eq!(read(&at(&desk, "secure/mine")).as_deref(), Some("mine"));

    // What is not asked for any more goes, too.
    let said = once(&desk, &["manifests"]).await;
    assert!(said.code == 0 && !at(&desk, "secure/etcd.key").exists(), "{said:?}");
}

#[tokio::test]
async fn hostile_keys_are_named_and_nothing_lands_outside() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let good = ["m/sp ace", "m/%41", "m/{b}", "m/\u{fc}", "m/u\u{308}"];
    let bad = ["m/../../evil", "m//b", "m/./c", "m/x", "m/.hostwright/lock"];
    for key in good.iter().chain(&bad).chain(&["m/x/y", "m/dir/"]) {
        cloud.put(key, if key.ends_with('/') { "" } else { key }).await;
    }
    let said = once(&desk, &["m", "--strip"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    for key in good {
        assert_eq!(read(&at(&desk, key.strip_prefix("m/").unwrap())).as_deref(), Some(key));
    }
    for key in bad {
        assert!(said.err.contains(&format!("left out {key}: ")), "{key}: {said:?}");
    }
    assert_eq!(read(&at(&desk, "x/y")).as_deref(), Some("m/x/y"));
    assert!(!said.err.contains("m/dir"), "nothing is lost by an empty folder: {said:?}");
    assert!(!desk.path().join("evil").exists() && !desk.path().parent().unwrap().join("evil").exists());
}

#[tokio::test]
async fn what_no_node_takes_and_what_is_wrong_is_refused() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    for (args, code, says) in [
        (&["locked"][..], 2, "never leaves for a node"),
        (&["status"], 2, "where the nodes say"),
        (&["a", "a/b"], 2, "is in a/"),
        (&["a", "b", "--strip"], 2, "--strip"),
        (&["a", "--node", "../x"], 2, "no name for a node"),
        (&["a", "--every", "0s"], 2, "100ms"),
        (&["a", "--bucket", "No"], 2, "--bucket"),
        (&[], 2, "PREFIX"),
    ] {
        let said = desk.run(&[&["sync", "--once", "--to", "node"], args].concat()).await;
        assert!(said.code == code && said.err.contains(says), "{args:?}: {said:?}");
    }
    let said = desk.run(&["--read-only", "sync", "m", "--once", "--to", "node"]).await;
    assert!(said.code == 4 && !at(&desk, "").exists(), "{said:?}");
}

#[tokio::test]
async fn a_node_needs_no_configuration() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    cloud.put("m/a", "one").await;
    let bare = |args: &[&str]| {
        let mut command = Command::new(crate::support::exe());
        let given = ["sync", "m", "--once", "--to", "node", "--node", "bare", "--bucket", &cloud.bucket];
        command.args(given).args(["--endpoint", &cloud.url, "--region", "eu-west-1"]).args(args);
        command.current_dir(desk.path()).env_clear().env("HOME", desk.path().join("nowhere"));
        command.env("AWS_ACCESS_KEY_ID", "AKIANODE").env("AWS_SECRET_ACCESS_KEY", "hunter2");
        command.env("AWS_EC2_METADATA_DISABLED", "true").stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let said = bare(&[]).await.unwrap();
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && err.contains("says nothing of itself"), "{err}");
    assert_eq!(read(&at(&desk, "m/a")).as_deref(), Some("one"));
    assert!(!err.contains("hunter2"));
    let said = bare(&["--kms-key", &cloud.key]).await.unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(cloud.text("status/sync/bare.json").await.contains("m/a"));
}

#[tokio::test]
async fn it_follows_the_bucket_until_it_is_told_to_end() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    cloud.put("m/a", "one").await;
    let start = || {
        let mut command = desk.command(&["sync", "m", "--to", "node", "--every", "100ms", "--node", "n"]);
        command.args(["--metrics", "127.0.0.1:0", "--", "sh", "-c"]);
        command.arg("echo told of $HOSTWRIGHT_SYNC_FOLDER; test ! -e \"$HOSTWRIGHT_SYNC_FOLDER/m/bad\"");
        Agent::start(command)
    };
    let mut agent = start();
    agent.says("told of ").await;
    let metrics = agent.says("metrics are served").await;
    cloud.put("m/a", "two").await;
    cloud.put("m/b", "new").await;
    until("m/b", || read(&at(&desk, "m/b"))).await;
    until("m/a", || read(&at(&desk, "m/a")).filter(|text| text == "two")).await;
    std::fs::write(at(&desk, "m/a"), "altered").unwrap();
    until("put back", || read(&at(&desk, "m/a")).filter(|text| text == "two")).await;
    cloud.s3.delete_object().bucket(&cloud.bucket).key("m/b").send().await.unwrap();
    until("removed", || (!at(&desk, "m/b").exists()).then_some(())).await;
    // A command that fails is said, and what is in the bucket is followed all the same.
    cloud.put("m/bad", "x").await;
    agent.says("sh failed: exit status: 1").await;
    cloud.s3.delete_object().bucket(&cloud.bucket).key("m/bad").send().await.unwrap();
    agent.says("no longer: sh failed").await;

    let address: Value = serde_json::from_str(&metrics).unwrap();
    let address = address["address"].as_str().unwrap().to_owned();
    let scraped = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let scraped = scraped.await.unwrap();
    assert!(scraped.contains("\nhostwright_sync_put_back_total 1\n"), "{scraped}");
    assert!(!scraped.contains("\nhostwright_sync_failed_commands_total 0\n"), "{scraped}");

    // A second agent is kept away; a killed one is followed by the next.
    let said = desk.run(&["sync", "m", "--to", "node", "--once", "--node", "n"]).await;
    assert!(said.code == 4 && said.err.contains("(sync)"), "{said:?}");
    agent.signal(Signal::KILL);
    agent.ended().await;
    std::fs::write(at(&desk, "m/a"), "altered again").unwrap();
    let mut agent = start();
    until("put back", || read(&at(&desk, "m/a")).filter(|text| text == "two")).await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended().await, Some(0));
}

#[tokio::test]
async fn a_kill_at_any_point_leaves_whole_files() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let text = |number: usize| format!("{number}").repeat(40_000);
    for number in 0..24 {
        cloud.put(&format!("m/{number:02}"), text(number)).await;
    }
    for patience in [1, 60, 120, 180, 240] {
        let mut agent = Agent::start(desk.command(&["sync", "m", "--to", "node", "--node", "n"]));
        // The moment is not waited for: wherever it hits, what is there must be whole.
        tokio::time::sleep(Duration::from_millis(patience)).await;
        agent.signal(Signal::KILL);
        agent.ended().await;
        for number in 0..24 {
            let there = read(&at(&desk, &format!("m/{number:02}")));
            assert!(there.is_none_or(|there| there == text(number)), "{number} is not whole");
        }
    }
    let said = once(&desk, &["m"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let names: Vec<_> =
        std::fs::read_dir(at(&desk, "m")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 24, "something half written stayed: {names:?}");
}
