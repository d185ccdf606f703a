//! An API server in trouble, as the webhook server and the console meet it: each way in which it fails to answer, one by one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hostwright::domain::Phase;
use hostwright::server::Context;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::console::{Far, wait_for_console};
use crate::gate::{Fault, Gate};
use crate::ground::{Ground, write_kubeconfig};
use crate::operators::pending;
use crate::pty::Pty;
use crate::repair::{free_port, http};
use crate::scenarios::{wait_words, words};
use crate::server::{Cluster, Server, host};
use crate::support;

const PATIENCE: Duration = Duration::from_secs(90);
/// So long an API server is in trouble while its requests are counted.
const WHILE: Duration = Duration::from_secs(8);

/// What can come in place of an answer, with words of what is said of it.
const FAULTS: [(Fault, &str); 12] = [
    (Fault::Status(401), "not authenticated"),
    (Fault::Status(403), "no rule for olga"),
    (Fault::Status(404), "could not find the requested resource"),
    (Fault::Status(409), "the object has been modified"),
    (Fault::Status(410), "too old resource version"),
    (Fault::Busy(429, 1), "too many requests"),
    (Fault::Status(500), "prevented the request from succeeding"),
    (Fault::Page(502), "answered 502 Bad Gateway"),
    (Fault::Busy(503, 7), "unable to handle the request"),
    (Fault::Status(504), "prevented the request"),
    (Fault::Silence, "did not answer within"),
    (Fault::Reset, "Connection reset by peer"),
];

/// The settings with the API server behind the gate.
fn behind(gate: &Gate, cluster: &Cluster) -> hostwright::config::Settings {
    let mut settings = cluster.settings.clone();
    let path = cluster.dir.path().join("gated");
    write_kubeconfig(&path, &gate.url());
    settings.environment.kubernetes.kubeconfig = Some(path);
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_api_server_answers_a_machine_is_told_when_to_come_again() {
    let cluster = Cluster::with(|settings| {
        settings.server.request_timeout = Duration::from_secs(2);
        settings.server.pending_limit = 100;
    })
    .await;
    let gate = Gate::start(cluster.kube.server().trim_end_matches('/')).await;
    let server = Server::start_unseen(&behind(&gate, &cluster)).await;
    server.until_ready(200, |_| true).await;
    let mut number = 0;
    for (fault, _) in FAULTS {
        for verb in ["list", "create"] {
            number += 1;
            let name = format!("web-{number}.example.org");
            gate.fail(verb, "/jobs", fault, usize::MAX);
            let started = Instant::now();
            let answer = server.post(&host(&name)).await;
            assert!(started.elapsed() < Duration::from_secs(6), "{fault:?} {verb}: {:?}", started.elapsed());
            let reason = answer.refused(503);
            assert!(reason.ends_with("try again") && !reason.contains('<'), "{fault:?} {verb}: {reason}");
            let wanted = if fault == Fault::Busy(503, 7) { "7" } else { "5" };
            assert_eq!(answer.headers["retry-after"], wanted, "{fault:?} {verb}: {answer:?}");
            gate.mend();
            server.post(&host(&name)).await.run(202);
        }
    }
    assert_eq!(cluster.runs().await.len(), number);
    // What an API server asks for is passed on within bounds.
    gate.fail("list", "/jobs", Fault::Busy(429, 100_000), usize::MAX);
    assert_eq!(server.post(&host("web-x.example.org")).await.headers["retry-after"], "60");
}

/// The real server as a process: its log is looked at.
struct Served {
    _child: tokio::process::Child,
    url: String,
    log: std::path::PathBuf,
}

impl Served {
    fn start(ground: &Ground, gate: &Gate) -> Self {
        let dir = ground.dir.path();
        write_kubeconfig(&dir.join("gated"), &gate.url());
        let listen = format!("127.0.0.1:{}", free_port());
        let config = json!({
            "server": {"listen": listen, "repair_interval": "2s"},
            "environments": {"test": {
                "approval": {"hosts": ["*.lan.example.org"]},
                "kubernetes": {"kubeconfig": dir.join("gated")},
                "policy": {"source": "/policy"},
            }},
        });
        let path = dir.join("served.toml");
        std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
        let log = dir.join("served.log");
        let mut command = tokio::process::Command::new(support::exe());
        command.arg("--config").arg(&path).args(["-e", "test", "serve"]).env_clear();
        command.env("HOME", dir).env("XDG_STATE_HOME", dir).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        Self { _child: child, url: format!("http://{listen}/readyz"), log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    async fn until(&self, what: &str, condition: impl Fn(u16, &Value) -> bool) {
        let started = Instant::now();
        loop {
            if let Ok(answer) = http().get(&self.url).send().await {
                let status = answer.status().as_u16();
                if condition(status, &answer.json().await.unwrap()) {
                    return;
                }
            }
            assert!(started.elapsed() < PATIENCE, "{what} did not happen:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// How often each request was made since then.
fn asked(gate: &Gate, since: std::time::Instant) -> BTreeMap<String, usize> {
    let mut asked = BTreeMap::new();
    for request in gate.seen().into_iter().filter(|request| request.at >= since) {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        *asked.entry(format!("{} {path}", request.verb)).or_insert(0) += 1;
    }
    asked
}

/// So often at most in [`WHILE`]. What one may do are many questions on one path.
fn most(request: &str) -> usize {
    if request.ends_with("reviews") { 72 } else { 24 }
}

async fn a_server_rides_out(fault: Fault, said: &str) {
    let ground = Ground::new().await;
    let gate = Gate::start(&ground.url).await;
    let served = Served::start(&ground, &gate);
    served.until("leading", |status, said| status == 200 && said["delivers"] == true).await;
    let since = std::time::Instant::now();
    gate.fail("", "", fault, usize::MAX);
    gate.cut();
    let run = pending(&ground, "web-1.lan.example.org").await;
    served.until("trouble", |status, said| status == 503 && said["cluster"] == "down").await;
    tokio::time::sleep(WHILE).await;
    for (request, times) in asked(&gate, since) {
        assert!(times <= most(&request), "{fault:?}: {request} {times} times in {:?}", since.elapsed());
    }
    let log = served.log();
    let told = log.lines().filter(|line| line.contains("the watch over runs broke off")).count();
    assert!((1..=3).contains(&told), "{fault:?} was told {told} times:\n{log}");
    assert!(!log.contains("<html>") && log.contains(said), "{fault:?}:\n{log}");
    assert_eq!(ground.kube.run(&run.name).await.unwrap().run.phase, Phase::Pending, "{fault:?}");
    gate.mend();
    served.until("recovery", |status, said| status == 200 && said["delivers"] == true).await;
    let started = Instant::now();
    while ground.kube.run(&run.name).await.unwrap().run.phase != Phase::Queued {
        assert!(started.elapsed() < PATIENCE, "{fault:?}: not approved by the rule:\n{}", served.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// It backs off, says once what is wrong, and does by itself what waited meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn the_servers_loop_rides_out_an_api_server_in_trouble() {
    let rides: Vec<_> =
        FAULTS.into_iter().map(|(fault, said)| tokio::spawn(a_server_rides_out(fault, said))).collect();
    for ride in rides {
        ride.await.unwrap();
    }
}

fn a_console_rides_out(far: &Far, gate: &Gate, fault: Fault, said: &str, mended: impl FnOnce() -> Ground) {
    let mut pty = Pty::start(far.command(&[]), (160, 40));
    wait_for_console(&mut pty);
    pty.wait_for("web-1.example.org");
    let (from, since) = (pty.mark(), std::time::Instant::now());
    gate.fail("", "", fault, usize::MAX);
    gate.cut();
    wait_words(&mut pty, said);
    // The absence of requests can only be seen over a time.
    std::thread::sleep(WHILE);
    for (request, times) in asked(gate, since) {
        assert!(times <= most(&request), "{fault:?}: {request} {times} times in {:?}", since.elapsed());
    }
    assert!(pty.screen().contains("web-1.example.org"), "{fault:?}:\n{}", pty.screen());
    assert!(!words(&pty).contains("<html>"), "{fault:?}:\n{}", pty.screen());
    gate.mend();
    let _ground = mended();
    pty.wait_for("web-2.example.org").wait_gone("as of");
    for screen in pty.frames(from) {
        assert!(screen.contains("web-1.example.org"), "{fault:?}: a frame without its row:\n{screen}");
    }
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0, "{fault:?}");
}

/// The rows stay, what is wrong is said, it is asked again with pauses, and what is new is seen afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_console_rides_out_an_api_server_in_trouble() {
    let mut rides = Vec::new();
    for (fault, said) in FAULTS {
        rides.push(tokio::spawn(async move {
            let ground = Ground::new().await;
            pending(&ground, "web-1.example.org").await;
            let gate = Gate::start(&ground.url).await;
            let far = Far::at(&gate.url());
            let runtime = tokio::runtime::Handle::current();
            let mended = move || {
                runtime.block_on(pending(&ground, "web-2.example.org"));
                ground
            };
            let ride = move || a_console_rides_out(&far, &gate, fault, said, mended);
            tokio::task::spawn_blocking(ride).await.unwrap();
        }));
    }
    for ride in rides {
        ride.await.unwrap();
    }
}

/// A watch on which nothing comes any more, not even its end, while everything else is answered: within 65 s it is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_falls_silent_is_noticed_by_server_and_console() {
    let cluster = Cluster::new().await;
    let gate = Gate::start(cluster.kube.server().trim_end_matches('/')).await;
    gate.fail("watch", "/jobs", Fault::Mute, 2);
    let server = Server::start_unseen(&behind(&gate, &cluster)).await;
    server.until_ready(200, |_| true).await;
    let far = Far::at(&gate.url());
    let mut pty = Pty::start(far.command(&[]), (120, 40));
    wait_for_console(&mut pty);
    pty.wait_until("both watches", |_| {
        gate.seen().iter().filter(|request| request.fault == Some(Fault::Mute)).count() == 2
    });
    let direct = Server::start_unseen(&cluster.settings).await;
    direct.until_ready(200, |_| true).await;
    direct.post(&host("web-1.example.org")).await.run(202);
    let started = Instant::now();
    let console = tokio::task::spawn_blocking(move || {
        pty.wait_for("web-1.example.org").keys("q");
        assert_eq!(pty.wait_exit(), 0);
    });
    until_pending(&server, 1).await;
    console.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(80), "{:?}", started.elapsed());
}

async fn until_pending(server: &Server, pending: u64) {
    let started = Instant::now();
    loop {
        let said = server.get("/readyz").await.json();
        if said["pending"] == pending {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The line to the API server is dead: nothing comes back and nothing breaks off. The server says so, and watches anew afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_line_is_noticed_by_the_server_and_a_new_one_is_used() {
    let cluster = Cluster::new().await;
    let port = cluster.kube.server().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    let proxy = crate::proxy::Proxy::start(port).await;
    let mut settings = cluster.settings.clone();
    let path = cluster.dir.path().join("proxied");
    write_kubeconfig(&path, &format!("http://127.0.0.1:{}", proxy.port()));
    settings.environment.kubernetes.kubeconfig = Some(path);
    let server = Server::start_unseen(&settings).await;
    server.until_ready(200, |said| said["delivers"] == true).await;
    proxy.stall();
    let said = server.until_ready(503, |_| true).await;
    assert_eq!(said["cluster"], "down");
    // Meanwhile a run comes of which the dead watch never tells: its connection stays stalled for ever.
    let direct = Server::start_unseen(&cluster.settings).await;
    direct.until_ready(200, |_| true).await;
    direct.post(&host("web-1.example.org")).await.run(202);
    proxy.go_on_for_new();
    server.until_ready(200, |said| said["pending"] == 1).await;
}

/// A token in a file is read anew by a server that the API server does not know any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_reads_its_token_anew() {
    let cluster = Cluster::new().await;
    let gate = Gate::start(cluster.kube.server().trim_end_matches('/')).await;
    gate.only("one");
    let mut settings = cluster.settings.clone();
    let (token, path) = (cluster.dir.path().join("token"), cluster.dir.path().join("with-token"));
    std::fs::write(&token, "one").unwrap();
    with_token_file(&path, &gate.url(), &token);
    settings.environment.kubernetes.kubeconfig = Some(path);
    assert!(Context::new(&settings).await.is_ok());
    let server = Server::start_unseen(&settings).await;
    server.until_ready(200, |_| true).await;
    gate.only("two");
    gate.cut();
    server.until_ready(503, |_| true).await;
    assert_eq!(server.post(&host("web-1.example.org")).await.status, 503);
    std::fs::write(&token, "two").unwrap();
    server.until_ready(200, |_| true).await;
    server.post(&host("web-1.example.org")).await.run(202);
}

/// A kubeconfig whose token is in a file, as a pod's own is.
pub(crate) fn with_token_file(path: &Path, url: &str, token: &Path) {
    write_kubeconfig(path, url);
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    config["users"][0]["user"]["tokenFile"] = json!(token);
    std::fs::write(path, config.to_string()).unwrap();
}
