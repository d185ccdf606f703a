//! What the server makes of many machines: each calls the hook from an address and over a connection of its own, and comes again after
//! the time that a 503 names.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use crate::cluster::{self, Cluster, Size};
use crate::{Measured, broker, milliseconds, percentile, process};

const HOSTS: usize = 1_000;
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGKLZRLcEoB9FxfVHGWyZ/VEQJ+ySMf0spWobw8B49/2 host";
/// The machines come within this time.
const WITHIN: Duration = Duration::from_secs(10);

/// 1,000 hosts announce, one after the other or all at once, and then the same ones once more.
pub(crate) fn load(program: &Path, runtime: &Runtime, table: &mut Vec<Measured>) {
    let folder = TempDir::new().unwrap();
    let cluster = Cluster::start(folder.path(), &Size { runs: 0, pods: 0, lines: 0, pending: false });
    let broker = broker(program, runtime, &folder);
    let server = Server::start(program, &cluster.config(broker.as_ref().map(|b| b.url()).as_deref()));
    runtime.block_on(server.is_ready());

    let pause = WITHIN / u32::try_from(HOSTS).unwrap();
    let up = if broker.is_some() { "a broker is up" } else { "RabbitMQ is not installed" };
    let row = |what, calls: &mut Calls, bound| {
        let (median, most) = (percentile(&mut calls.spans, 50), percentile(&mut calls.spans, 100));
        let value = percentile(&mut calls.spans, 99);
        let note = format!(
            "median {median:.1} ms, longest {most:.1} ms; all in {:.1} s; {up}",
            calls.all.as_secs_f64()
        );
        Measured { what, bound, value, unit: "ms", note }
    };
    let counted = |what, bound: usize, note: &str| {
        let jobs = runtime.block_on(jobs(&cluster.api)) as f64;
        assert!((jobs - bound as f64).abs() < 0.5, "{what}: {jobs} runs, not {bound}");
        Measured { what, bound: bound as f64, value: jobs, unit: "runs", note: note.to_owned() }
    };
    let memory = |what, bound| {
        let pid = server.process.id();
        let (now, own) = process::resident(pid);
        let note = format!("now {now:.1} MB, of which {own:.1} MB its own, the rest the program's file");
        Measured { what, bound, value: process::peak(pid), unit: "MB", note }
    };
    let mut evenly = runtime.block_on(server.announce(0, "a", pause));
    table.push(row("1,000 new hosts call within 10 s: the hook's answer (p99)", &mut evenly, 100.0));
    table.push(counted("the same: runs", HOSTS, &evenly.answers("202")));

    let mut again = runtime.block_on(server.announce(0, "a", pause));
    table.push(row("the same 1,000 call again (p99)", &mut again, 100.0));
    table.push(counted("the same: runs", HOSTS, &again.answers("200")));

    table.push(memory("its memory at its most, so far", 40.0));

    let mut rush = runtime.block_on(server.announce(HOSTS, "a", Duration::ZERO));
    let (slowest, longest) = (rush.all, percentile(&mut rush.spans, 99));
    let note = format!("p99 {longest:.0} ms; {}", rush.answers("202"));
    let what = "1,000 more hosts call at the same moment: all are recorded";
    let bound = WITHIN.as_secs_f64();
    table.push(Measured { what, bound, value: slowest.as_secs_f64(), unit: "s", note });
    let mut crowd = runtime.block_on(server.announce(HOSTS, "b", Duration::ZERO));
    let note = format!("p99 {:.0} ms; {}", percentile(&mut crowd.spans, 99), crowd.answers("200"));
    let what = "the same call at the same moment after a reboot";
    table.push(Measured { what, bound, value: crowd.all.as_secs_f64(), unit: "s", note });
    table.push(counted("after all of it: runs", 2 * HOSTS, "one a host"));

    table.push(memory("its memory at its most, after that", f64::INFINITY));
}

/// What came of many calls.
struct Calls {
    /// How long each waited for its answer, in milliseconds.
    spans: Vec<f64>,
    statuses: Vec<u16>,
    /// How often a host was told to come again.
    turned_away: usize,
    /// From the first call to the last answer.
    all: Duration,
}

impl Calls {
    /// How many were answered so; it is to be all of them.
    fn answers(&self, status: &str) -> String {
        let so = self.statuses.iter().filter(|s| s.to_string() == status).count();
        let other = self.statuses.iter().find(|s| s.to_string() != status);
        assert_eq!(so, HOSTS, "only {so} of {HOSTS} were answered {status}, others {other:?}");
        format!("all answered {status}, {} times after a 503", self.turned_away)
    }
}

/// The server, at work for this cluster.
struct Server {
    process: Child,
    listen: SocketAddr,
}

impl Server {
    fn start(program: &Path, config: &Path) -> Self {
        let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text = std::fs::read_to_string(config).unwrap();
        let text = format!("{text}\n[server]\nlisten = \"{listen}\"\npending_limit = {}\n", 3 * HOSTS);
        let config = cluster::write_config(config.parent().unwrap(), &text);
        let mut command = Command::new(program);
        command.args(["--config".as_ref(), config.as_os_str(), "serve".as_ref()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        Self { process, listen }
    }

    async fn is_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = reqwest::get(format!("http://{}/readyz", self.listen)).await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            assert!(Instant::now() < deadline, "the server is not ready after 30 s");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets the hosts from `first` on call, so long after one another, with this boot.
    async fn announce(&self, first: usize, boot: &str, pause: Duration) -> Calls {
        let begun = tokio::time::Instant::now();
        let call = |n: usize| {
            let (to, body) = (self.listen, body(n, boot));
            let at = begun + pause * u32::try_from(n - first).unwrap();
            tokio::spawn(async move {
                tokio::time::sleep_until(at).await;
                let sent = Instant::now();
                let mut turned_away = 0;
                loop {
                    let (status, after) = post(to, address(n), &body).await;
                    if status != 503 {
                        return (milliseconds(sent.elapsed()), status, turned_away);
                    }
                    turned_away += 1;
                    tokio::time::sleep(Duration::from_secs(after)).await;
                }
            })
        };
        let mut calls =
            Calls { spans: Vec::new(), statuses: Vec::new(), turned_away: 0, all: Duration::ZERO };
        for answered in (first..first + HOSTS).map(call).collect::<Vec<_>>() {
            let (span, status, turned_away) = answered.await.unwrap();
            calls.spans.push(span);
            calls.statuses.push(status);
            calls.turned_away += turned_away;
        }
        calls.all = begun.elapsed();
        calls
    }
}

/// What a host sends.
fn body(n: usize, boot: &str) -> String {
    let said: Value = serde_json::from_str(&cluster::announcement(n, "web")).unwrap();
    json!({
        "hostname": said["host"], "address": said["address"], "groups": said["groups"], "facts": said["facts"],
        "boot": format!("{boot}-{n}"), "sshkeys": KEY,
    })
    .to_string()
}

/// The address that a host calls from.
fn address(n: usize) -> SocketAddr {
    let [high, low] = u16::try_from(n).unwrap().to_be_bytes();
    (Ipv4Addr::new(127, 1, high, low), 0).into()
}

/// One call: the status, and in how many seconds to come again.
async fn post(to: SocketAddr, from: SocketAddr, body: &str) -> (u16, u64) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(from).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let head = format!(
        "POST /host/online HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).expect("a status line").parse().unwrap();
    let after = answer.lines().find_map(|line| line.strip_prefix("retry-after: "));
    (status, after.map_or(1, |after| after.parse().unwrap()))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// How many Jobs there are.
async fn jobs(api: &str) -> usize {
    let url = format!("{api}/apis/batch/v1/namespaces/hostwright/jobs");
    let list: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    list["items"].as_array().unwrap().len()
}
