//! The webhook server in this process, over real HTTP, against the playground's API: what machines are answered, and what the
//! server does by itself afterwards.
//!
//! Requests are written byte by byte here: half a request, and an answer's exact head, are what some of these tests are about.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use hostwright::backend::kube::{JobTemplate, Kube, RunsEvent};
use hostwright::config::{Amqp, Approval, Permit, Secret, Settings};
use hostwright::domain::approvals::Approvals;
use hostwright::domain::{HostName, Kind, Phase, RawAnnouncement, Run, RunDetails, Verdict};
use hostwright::ops::decide::{self, Seen};
use hostwright::ops::marks::{self, Wish};
use hostwright::ops::{self, OpError};
use hostwright::play::api::{Api, Options};
use hostwright::server::{self, Context};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::stage::{self, CA, HOST};
use crate::support;
use crate::support::apiserver::{self, ApiServer};

const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";

/// A cluster that can be stopped and started again, with settings that point at it.
pub(crate) struct Cluster {
    pub(crate) dir: TempDir,
    address: SocketAddr,
    pub(crate) settings: Settings,
    pub(crate) kube: Kube,
    api: ApiServer,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let dir = support::temp();
        let api = ApiServer::start(dir.path()).await;
        let address = api.address();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, apiserver::kubeconfig(&api.url()).to_string()).unwrap();
        let none = Path::new("/nonexistent");
        let mut settings = stage::settings_of(&kubeconfig, none, none, none, none);
        change(&mut settings);
        let kube = Kube::connect(&settings.environment.kubernetes).await.unwrap();
        Self { dir, address, settings, kube, api }
    }

    async fn stop(&mut self) {
        self.api.stop().await;
    }

    /// With everything that was in it.
    async fn start_again(&mut self) {
        self.api.start_again().await;
    }

    pub(crate) fn permit(&self) -> Permit {
        self.settings.permit().unwrap()
    }

    pub(crate) async fn runs(&self) -> Vec<Run> {
        let mut runs = self.kube.runs(None).await.unwrap();
        runs.sort_by(|a, b| (&a.host, a.kind, a.number).cmp(&(&b.host, b.kind, b.number)));
        runs
    }

    async fn names(&self) -> Vec<String> {
        self.runs().await.into_iter().map(|run| run.name).collect()
    }

    pub(crate) async fn of(&self, host: &str) -> RunDetails {
        ops::runs::of_host(&self.kube, &host.parse().unwrap()).await.unwrap()
    }

    pub(crate) async fn approve(&self, host: &str) -> RunDetails {
        let seen = Seen::from(&self.of(host).await.run);
        let changes = decide::Changes::default();
        let environment = &self.settings.environment;
        decide::approve(&self.kube, &self.permit(), environment, &seen, &changes, "ann").await.unwrap()
    }

    pub(crate) async fn reject(&self, host: &str) -> RunDetails {
        let seen = Seen::from(&self.of(host).await.run);
        decide::reject(&self.kube, &self.permit(), &seen, "ann").await.unwrap()
    }

    pub(crate) async fn mark(&self, wish: Wish, run: &Run) {
        marks::mark(&self.kube, &self.permit(), wish, &run.into(), "bob").await.unwrap();
    }

    /// Runs a command of the real program on this cluster.
    pub(crate) fn command(&self, args: &[&str]) -> std::process::Output {
        let config = self.dir.path().join("config.toml");
        let text = json!({"environments": {"test": {
            "kubernetes": {"kubeconfig": self.settings.environment.kubernetes.kubeconfig},
            "policy": {"source": "/policy"},
        }}});
        std::fs::write(&config, toml::to_string(&text).unwrap()).unwrap();
        let mut command = std::process::Command::new(support::exe());
        command.arg("--config").arg(&config).args(["-e", "test"]).args(args).output().unwrap()
    }

    /// Waits for something to be so in the cluster.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&[Run]) -> bool) -> Vec<Run> {
        let mut runs = Vec::new();
        let told = tokio::time::timeout(PATIENCE, async {
            loop {
                runs = self.runs().await;
                if condition(&runs) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(told.await.is_ok(), "{what} did not happen: {runs:#?}");
        runs
    }
}

/// A server that runs in this process.
pub(crate) struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Server {
    /// Where machines call it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One that has seen the cluster.
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        let server = Self::start_unseen(&cluster.settings).await;
        server.until_ready(200, |_| true).await;
        server
    }

    /// One that has seen the cluster and does the work.
    pub(crate) async fn leading(cluster: &Cluster) -> Self {
        let server = Self::start_unseen(&cluster.settings).await;
        server.until_ready(200, |said| said["delivers"] == true).await;
        server
    }

    pub(crate) async fn start_unseen(settings: &Settings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let context = Context::new(settings).await.unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(server::run(listener, context, shutdown.clone()));
        Self { address, shutdown, running }
    }

    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, &mut self.running).await.unwrap().unwrap();
    }

    async fn send(&self, head: &str, body: &str) -> Answer {
        let mut wire = Wire::open(self.address).await;
        let head = format!("{head}\r\nHost: hook\r\nConnection: close\r\nContent-Length: {}", body.len());
        wire.write(&format!("{head}\r\n\r\n{body}")).await;
        wire.answer().await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1"), "").await
    }

    /// Posts JSON, with further header lines.
    async fn post_with(&self, headers: &str, body: &Value) -> Answer {
        let head = format!("POST /host/online HTTP/1.1\r\nContent-Type: application/json{headers}");
        self.send(&head, &body.to_string()).await
    }

    pub(crate) async fn post(&self, body: &Value) -> Answer {
        self.post_with("", body).await
    }

    async fn form(&self, pairs: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let head =
            "POST /host/online HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded; charset=UTF-8";
        self.send(head, &body).await
    }

    /// Waits until `/readyz` says so.
    pub(crate) async fn until_ready(&self, status: u16, condition: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let told = tokio::time::timeout(PATIENCE, async {
            loop {
                let answer = self.get("/readyz").await;
                if answer.status == status && condition(&answer.json()) {
                    return answer.json();
                }
                last = Some(answer);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        told.await.unwrap_or_else(|_| panic!("/readyz never said {status}: {last:?}"))
    }
}

/// One connection.
struct Wire(TcpStream);

impl Wire {
    async fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads up to an empty line.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = tokio::time::timeout(PATIENCE, self.0.read_u8()).await.unwrap();
            head.push(byte.unwrap_or_else(|e| panic!("{e} after {:?}", String::from_utf8_lossy(&head))));
        }
        String::from_utf8(head).unwrap()
    }

    async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: BTreeMap<_, _> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        self.0.read_exact(&mut body).await.unwrap();
        Answer { status, headers, body: String::from_utf8(body).unwrap() }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// That it is a refusal, and its reason.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.json()["error"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn run(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.json()["run"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn host(name: &str) -> Value {
    json!({"hostname": name})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_call_makes_a_run_and_a_second_one_updates_it() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let body = json!({
        "hostname": "Web-1.Example.ORG.", "sshkeys": [format!("{KEY} root@web")], "boot": "b-1",
        "address": "::ffff:10.0.0.7", "branch": "main", "groups": ["web", "db"], "facts": {"cores": 4},
    });
    let answer = server.post(&body).await;
    assert_eq!(answer.status, 202);
    let name = answer.run(202);
    assert_eq!(answer.json(), json!({"host": HOST, "run": name, "phase": "pending"}));
    let first = cluster.kube.run(&name).await.unwrap();
    assert_eq!(first.run.phase, Phase::Pending);
    assert_eq!(
        serde_json::to_value(&first.announcement).unwrap(),
        json!({"host": HOST, "keys": [KEY], "boot": "b-1", "address": "10.0.0.7", "branch": "main",
               "groups": ["web", "db"], "facts": {"cores": 4}})
    );

    // The same by a form, with other facts: the announcement is replaced.
    let long_ago = Timestamp::now().checked_sub(SignedDuration::from_hours(1)).unwrap();
    cluster.kube.set_seen(&cluster.permit(), &first.run, long_ago, None).await.unwrap();
    let keys = format!("# from ssh-keyscan\n{KEY} root@web\n");
    let form = [
        ("hostname", HOST),
        ("sshkeys", keys.as_str()),
        ("boot", "b-1"),
        ("address", "10.0.0.7"),
        ("branch", "main"),
        ("groups", "web,db"),
        ("facts", r#"{"cores": 8}"#),
    ];
    assert_eq!(server.form(&form).await.run(200), name);
    let second = cluster.kube.run(&name).await.unwrap();
    assert_eq!(second.run.uid, first.run.uid);
    assert_eq!(second.announcement.facts["cores"], 8);
    assert_eq!(second.announcement.keys, first.announcement.keys);
    assert_eq!(second.announcement.groups, first.announcement.groups);
    assert_ne!(second.run.digest, first.run.digest);
    let age = |run: &RunDetails| Timestamp::now().duration_since(run.run.seen);
    assert!(age(&second) < SignedDuration::from_mins(30), "{}", second.run.seen);

    // Once decided, what was approved stays; only last-seen moves.
    let approved = cluster.approve(HOST).await;
    cluster.kube.set_seen(&cluster.permit(), &approved.run, long_ago, None).await.unwrap();
    assert_eq!(server.post(&body).await.run(200), name);
    let third = cluster.kube.run(&name).await.unwrap();
    assert_eq!(third.announcement, second.announcement);
    assert!(age(&third) < SignedDuration::from_mins(30), "{}", third.run.seen);
    assert_eq!(cluster.names().await, [name]);
}

/// S17: twenty equal calls at once.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_parallel_calls_make_one_run() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let body = json!({"hostname": HOST, "boot": "b-1", "facts": {"cores": 4}});
    let answers = join_all((0..20).map(|_| server.post(&body))).await;
    let created = answers.iter().filter(|answer| answer.status == 202).count();
    let found = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((created, found), (1, 19), "{answers:?}");
    let names = cluster.names().await;
    assert_eq!(names.len(), 1);
    assert!(answers.iter().all(|answer| answer.json()["run"] == names[0]));
}

/// S17: the connection is gone before the answer, and the machine calls again.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answer_was_lost_can_be_made_again() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let body = json!({"hostname": HOST, "boot": "b-1"});
    let text = body.to_string();
    let mut wire = Wire::open(server.address).await;
    let head = "POST /host/online HTTP/1.1\r\nHost: hook\r\nContent-Type: application/json";
    wire.write(&format!("{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len())).await;
    drop(wire);
    let answer = server.post(&body).await;
    assert!([200, 202].contains(&answer.status), "{answer:?}");
    assert_eq!(cluster.names().await.len(), 1);
}

/// S17: a boot that was answered starts nothing, also when its run is over; whoever asks anew gets another run.
#[tokio::test(flavor = "multi_thread")]
async fn a_boot_that_was_answered_starts_nothing_and_another_boot_does() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let boot = |id: &str| json!({"hostname": HOST, "boot": id});
    let first = server.post(&boot("b-1")).await.run(202);
    cluster.reject(HOST).await;
    let again = server.post(&boot("b-1")).await;
    assert_eq!(again.run(200), first);
    assert_eq!(again.json()["phase"], "rejected");
    assert_eq!(cluster.names().await, [first.as_str()]);
    let second = server.post(&boot("b-2")).await.run(202);
    assert_eq!(cluster.names().await, [first.clone(), second.clone()]);
    // Who says no boot id asks for another run, too.
    cluster.reject(HOST).await;
    let third = server.post(&host(HOST)).await.run(202);
    assert_eq!(cluster.names().await, [first, second, third]);
}

/// S17: names that differ only by case are one host, those that differ only in a cut tail are two.
#[tokio::test(flavor = "multi_thread")]
async fn two_spellings_are_one_host_and_two_long_names_are_two() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let first = server.post(&host("WEB-9.Example.org")).await.run(202);
    assert_eq!(server.form(&[("hostname", " web-9.example.ORG. ")]).await.run(200), first);
    // Names of 253 characters that differ in the last one.
    let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(60));
    let names = [format!("{long}a"), format!("{long}b")];
    let mut runs = vec![first];
    for name in names.iter().map(String::as_str).chain(["xn--kln-sna", "a.b."]) {
        let run = server.post(&host(name)).await.run(202);
        assert!(run.len() <= 57 && !runs.contains(&run), "{run}");
        let details = cluster.kube.run(&run).await.unwrap();
        assert_eq!(details.run.host, HostName::parse(name).unwrap());
        runs.push(run);
    }
}

/// S17: the names that are none, and every other field.
#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_field_is_named_with_the_reason() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let names = [
        ("WEB_01", "has characters other than letters, digits, hyphens and dots"),
        ("köln", "has characters other than letters, digits, hyphens and dots"),
        ("fe80::1%eth0", "has characters other than letters, digits, hyphens and dots"),
        ("a b", "has characters other than letters, digits, hyphens and dots"),
        ("$(id)", "has characters other than letters, digits, hyphens and dots"),
        ("../x", "has characters other than letters, digits, hyphens and dots"),
        ("-x", "has a part that starts or ends with a hyphen"),
        ("a..b", "has a part that is empty or longer than 63 characters"),
        ("10.0.0.1", "is an address, not a name"),
        ("", "is empty"),
        ("localhost", "is a name that Ansible reserves"),
        ("ALL", "is a name that Ansible reserves"),
    ];
    for (name, reason) in names {
        let expected = json!({"field": "hostname", "error": format!("hostname {reason}")});
        for answer in [server.post(&host(name)).await, server.form(&[("hostname", name)]).await] {
            assert_eq!((answer.status, answer.json()), (400, expected.clone()), "{name:?}");
        }
    }
    let long = format!("{}a", "a.".repeat(127));
    let answer = server.post(&host(&long)).await;
    assert_eq!(answer.refused(400), "hostname is longer than 253 characters");

    let wrong = [
        ("sshkeys", json!("nonsense"), "line 1: is not an SSH public key in OpenSSH's one-line form"),
        ("sshkeys", json!([KEY, "$(id)"]), "line 2: is not an SSH public key in OpenSSH's one-line form"),
        ("sshkeys", json!([1]), "is not a list of texts"),
        ("sshkeys", json!({}), "is not a text"),
        ("boot", json!("../x"), "must be letters, digits and hyphens, at most 64"),
        ("boot", json!("b".repeat(65)), "must be letters, digits and hyphens, at most 64"),
        ("boot", json!(7), "is not a text"),
        ("boot", json!(["b"]), "is not a text"),
        ("address", json!("web"), "is not an IPv4 or IPv6 address"),
        ("address", json!("fe80::1%eth0"), "is not an IPv4 or IPv6 address"),
        ("address", json!("0.0.0.0"), "is not the address of one host"),
        ("address", json!("ff02::1"), "is not the address of one host"),
        ("branch", json!("--upload-pack=x"), "is not a plain branch name"),
        ("branch", json!("a..b"), "is not a plain branch name"),
        ("branch", json!("b".repeat(101)), "is not a plain branch name"),
        ("branch", json!(true), "is not a text"),
        ("groups", json!(["all"]), "may not name all, which Ansible reserves"),
        (
            "groups",
            json!("web:!db"),
            "must be letters, digits and underscores, at most 63, not starting with a digit",
        ),
        ("groups", json!([1]), "is not a list of texts"),
        ("facts", json!([]), "is not a JSON object"),
        ("facts", json!("os"), "is not a JSON object"),
        ("hostname", json!(1), "is not a text"),
        ("hostname", json!(null), "is missing"),
    ];
    for (field, value, reason) in wrong {
        let mut body = host(HOST);
        body[field] = value;
        let answer = server.post(&body).await;
        let expected = json!({"field": field, "error": format!("{field} {reason}")});
        assert_eq!((answer.status, answer.json()), (400, expected), "{body}");
    }
    for (field, value) in [("boot", "a b"), ("address", "::"), ("branch", "/x"), ("groups", "9a")] {
        let answer = server.form(&[("hostname", HOST), (field, value)]).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!(field)), "{value}");
    }
    let answer = server.form(&[("hostname", HOST), ("facts", "[]")]).await;
    assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("facts")));
    let answer = server.form(&[("host", HOST)]).await;
    assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("hostname is missing")));
    assert_eq!(cluster.names().await, Vec::<String>::new());
}

/// S17: method, content type and JSON.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_of_ours_is_refused_with_the_reason() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let json = "POST /host/online HTTP/1.1\r\nContent-Type: application/json";
    for (body, reason) in [
        ("{", "the body is not JSON"),
        ("", "the body is not JSON"),
        ("hostname=web-1", "the body is not JSON"),
        ("[]", "the body is not a JSON object"),
        (&"[".repeat(10_000), "the body is not JSON"),
    ] {
        let answer = server.send(json, body).await;
        assert!(answer.refused(400).starts_with(reason), "{answer:?}");
    }
    let answer = server.send("POST /host/offline HTTP/1.1", "").await;
    assert_eq!(answer.refused(404), "there is nothing here: POST /host/online");
    for (head, allowed) in [
        ("GET /host/online HTTP/1.1", "POST"),
        ("PUT /host/online HTTP/1.1", "POST"),
        ("POST /healthz HTTP/1.1", "GET"),
        ("DELETE /readyz HTTP/1.1", "GET"),
    ] {
        let answer = server.send(head, "").await;
        assert!(answer.refused(405).contains("use POST for /host/online"), "{answer:?}");
        // RFC 9110, 15.5.6: the answer says what may be used.
        let allow = answer.headers.get("allow").map(String::as_str).unwrap_or_default();
        assert!(allow.split(',').any(|method| method.trim() == allowed), "{head}: {answer:?}");
    }
    for kind in ["", "\r\nContent-Type: text/plain", "\r\nContent-Type: multipart/form-data; boundary=x"] {
        let answer = server.send(&format!("POST /host/online HTTP/1.1{kind}"), "{}").await;
        let reason = answer.refused(415);
        assert_eq!(reason, "send application/json or application/x-www-form-urlencoded");
    }
    assert_eq!(cluster.names().await, Vec::<String>::new());
}

/// S17: sizes.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_announcements_have_a_size() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let head = "POST /host/online HTTP/1.1\r\nContent-Type: application/json";
    let text = host(HOST).to_string();
    // 16 KiB go, a byte more does not: the rest is white space.
    let room = 16 * 1024 - text.len();
    let answer = server.send(head, &format!("{text}{}", " ".repeat(room + 1))).await;
    assert_eq!(answer.refused(413), "the body has more than 16384 bytes");
    server.send(head, &format!("{text}{}", " ".repeat(room))).await.run(202);

    // The announcement as it would be kept, with the caller's address.
    let with_fact =
        |length: usize| json!({"hostname": "web-2.example.org", "facts": {"a": "x".repeat(length)}});
    let empty = json!({"host": "web-2.example.org", "address": "127.0.0.1", "facts": {"a": ""}});
    let room = 8 * 1024 - empty.to_string().len();
    let answer = server.post(&with_fact(room + 1)).await;
    let reason = answer.refused(413);
    assert_eq!(reason, "the announcement has 8193 bytes, more than 8192: send fewer facts");
    server.post(&with_fact(room)).await.run(202);
    assert_eq!(cluster.names().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_its_bearer_is_heard() {
    let mut cluster = Cluster::new().await;
    let file = cluster.dir.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    cluster.settings.server.token_file = Some(file);
    let server = Server::start(&cluster).await;
    for header in [
        "",
        "\r\nAuthorization: Bearer s3cre",
        "\r\nAuthorization: Bearer s3crets",
        "\r\nAuthorization: Bearer",
        "\r\nAuthorization: Basic s3cret",
        "\r\nX-Auth-Token: s3cret",
    ] {
        let answer = server.post_with(header, &host(HOST)).await;
        assert_eq!(answer.refused(401), "the bearer token is missing or wrong", "{header:?}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    // Nor is a stranger told what is wrong with the rest.
    let answer = server.post_with("", &host("a b")).await;
    assert_eq!(answer.status, 401);
    assert_eq!(cluster.names().await, Vec::<String>::new());
    server.post_with("\r\nAuthorization: bearer s3cret", &host(HOST)).await.run(202);
    assert_eq!(server.get("/healthz").await.status, 200);
}

/// S18: who calls, as the machine's own address, and never as one that a stranger gives.
#[tokio::test(flavor = "multi_thread")]
async fn who_calls_from_elsewhere_is_not_heard() {
    let change = |s: &mut Settings| s.server.networks = vec!["192.0.2.0/24".parse().unwrap()];
    let mut cluster = Cluster::with(change).await;
    let server = Server::start(&cluster).await;
    let forwarded = "\r\nX-Forwarded-For: 192.0.2.7";
    for header in ["", forwarded] {
        let answer = server.post_with(header, &host(HOST)).await;
        assert_eq!(answer.refused(403), "127.0.0.1 may not call from there");
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    server.stop().await;

    // Behind a proxy of ours it is the machine's own address that counts, and that is announced.
    cluster.settings.server.proxies = vec!["127.0.0.1/32".parse().unwrap()];
    let server = Server::start(&cluster).await;
    let answer = server.post_with("\r\nX-Forwarded-For: 192.0.2.7, 198.51.100.1", &host(HOST)).await;
    assert_eq!(answer.refused(403), "198.51.100.1 may not call from there");
    server.post_with("\r\nX-Forwarded-For: 203.0.113.9, ::ffff:192.0.2.7", &host(HOST)).await.run(202);
    let address = cluster.of(HOST).await.announcement.address.unwrap();
    assert_eq!(address.to_string(), "192.0.2.7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_header_from_nobody_we_know_is_not_believed() {
    let cluster = Cluster::with(|s| s.server.proxies = vec!["192.0.2.1/32".parse().unwrap()]).await;
    let server = Server::start(&cluster).await;
    server.post_with("\r\nX-Forwarded-For: 203.0.113.9", &host(HOST)).await.run(202);
    assert_eq!(cluster.of(HOST).await.announcement.address.unwrap().to_string(), "127.0.0.1");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_too_many_pending_only_known_hosts_are_heard() {
    let cluster = Cluster::with(|s| s.server.pending_limit = 2).await;
    let server = Server::start(&cluster).await;
    let body = |name: &str, cores: u32| json!({"hostname": name, "facts": {"cores": cores}});
    let first = server.post(&body("web-1.example.org", 1)).await.run(202);
    server.post(&body("web-2.example.org", 1)).await.run(202);
    server.until_ready(200, |said| said["pending"] == 2).await;
    let answer = server.post(&body("web-3.example.org", 1)).await;
    assert_eq!(answer.refused(429), "2 hosts are pending already: try again later");
    assert_eq!(answer.headers["retry-after"], "60");
    // What a known host says still counts.
    assert_eq!(server.post(&body("web-1.example.org", 2)).await.run(200), first);
    assert_eq!(cluster.of("web-1.example.org").await.announcement.facts["cores"], 2);
    assert_eq!(cluster.names().await.len(), 2);
    cluster.approve("web-2.example.org").await;
    server.until_ready(200, |said| said["pending"] == 1).await;
    server.post(&body("web-3.example.org", 1)).await.run(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_hosts_at_once_are_counted_exactly() {
    let cluster = Cluster::with(|s| s.server.pending_limit = 3).await;
    let server = Server::start(&cluster).await;
    let bodies: Vec<_> = (0..20).map(|n| host(&format!("web-{n}.example.org"))).collect();
    let answers = join_all(bodies.iter().map(|body| server.post(body))).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(202), count(429)), (3, 17), "{answers:?}");
    assert_eq!(cluster.names().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_does_is_counted_and_no_host_is_named() {
    let cluster = Cluster::with(|s| s.server.pending_limit = 2).await;
    let server = Server::leading(&cluster).await;
    for name in ["a.example.org", "b.example.org", "c.example.org"] {
        server.post(&host(name)).await;
    }
    cluster.reject("a.example.org").await;
    let wanted = [
        "hostwright_server_hook_calls_total{status=\"202\"} 2",
        "hostwright_server_hook_calls_total{status=\"429\"} 1",
        "hostwright_server_hook_call_duration_seconds_count 3",
        "hostwright_server_runs_created_total 2",
        "hostwright_server_runs{phase=\"pending\"} 1",
        "hostwright_server_runs{phase=\"rejected\"} 1",
        "hostwright_server_back_end_up{back_end=\"kubernetes\"} 1",
        "hostwright_server_delivers 1",
        "hostwright_server_approvals_held 0",
        "hostwright_server_runs_undelivered 0",
        "# EOF",
    ];
    let mut missing = vec![];
    for _ in 0..100 {
        let text = server.get("/metrics").await.body;
        assert!(!text.contains("example.org"), "{text}");
        missing = wanted.iter().filter(|line| !text.lines().any(|one| one == **line)).collect();
        if missing.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(missing, Vec::<&&str>::new());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_runs_are_not_known_nobody_is_taken_in() {
    let mut cluster = Cluster::with(|s| s.server.request_timeout = Duration::from_secs(1)).await;
    let proxy = crate::proxy::Proxy::start(cluster.address.port()).await;
    let direct = cluster.settings.environment.kubernetes.kubeconfig.clone().unwrap();
    let text = std::fs::read_to_string(&direct).unwrap();
    let through = cluster.dir.path().join("through-proxy");
    let behind = format!("127.0.0.1:{}", proxy.port());
    std::fs::write(&through, text.replace(&cluster.address.to_string(), &behind)).unwrap();
    cluster.settings.environment.kubernetes.kubeconfig = Some(through);
    proxy.stall();
    let server = Server::start_unseen(&cluster.settings).await;
    let answer = server.post(&host(HOST)).await;
    assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (503, "5"), "{answer:?}");
    let said = server.get("/readyz").await;
    assert_eq!((said.status, &said.json()["pending"]), (503, &Value::Null));
    proxy.go_on();
    server.until_ready(200, |said| said["pending"] == 0).await;
    server.post(&host(HOST)).await.run(202);
    assert_eq!(cluster.names().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_leads_nowhere_else_is_only_taken_from_this_machine() {
    let cluster = Cluster::with(|s| s.server.proxies = vec!["127.0.0.1/32".parse().unwrap()]).await;
    let server = Server::start(&cluster).await;
    let body = |address: &str| json!({"hostname": HOST, "address": address});
    let reason = "address is a loopback or link-local address: it names no host to anybody else";
    for address in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1"] {
        let answer = server.post_with("\r\nX-Forwarded-For: 203.0.113.9", &body(address)).await;
        let expected = json!({"field": "address", "error": reason});
        assert_eq!((answer.status, answer.json()), (400, expected), "{address}");
    }
    for address in ["0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
        let answer = server.post_with("\r\nX-Forwarded-For: 203.0.113.9", &body(address)).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("address")), "{address}");
    }
    assert_eq!(cluster.names().await, Vec::<String>::new());
    server.post_with("\r\nX-Forwarded-For: 203.0.113.9", &body("203.0.113.10")).await.run(202);
    server.post(&body("127.0.0.1")).await.run(200);
}

/// Waits until the server has closed a connection.
async fn is_closed(mut wire: Wire) -> bool {
    let read = tokio::time::timeout(PATIENCE, wire.0.read_u8()).await.expect("it stays open");
    read.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_its_share_of_connections() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let mut open = Vec::new();
    // Each is seen by the server before the next one comes.
    for _ in 0..64 {
        let mut wire = Wire::open(server.address).await;
        wire.write("GET /healthz HTTP/1.1\r\nHost: hook\r\n\r\n").await;
        assert_eq!(wire.answer().await.status, 200);
        open.push(wire);
    }
    assert!(is_closed(Wire::open(server.address).await).await);
    open.pop();
    // The server notes the end of a connection a moment later.
    let again = async {
        loop {
            let mut wire = Wire::open(server.address).await;
            wire.write("GET /healthz HTTP/1.1\r\nHost: hook\r\n\r\n").await;
            if wire.0.read_u8().await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_crowd_the_health_pages_still_answer() {
    let cluster = Cluster::with(|s| s.server.proxies = vec!["127.0.0.1/32".parse().unwrap()]).await;
    let server = Server::start(&cluster).await;
    // Both ends are in this process.
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    files.current = files.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, files).unwrap();
    let mut open = Vec::new();
    for _ in 0..960 {
        let mut wire = Wire::open(server.address).await;
        wire.write("GET /healthz HTTP/1.1\r\nHost: hook\r\n\r\n").await;
        assert_eq!(wire.answer().await.status, 200);
        open.push(wire);
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    assert_eq!(server.get("/readyz").await.status, 200);
    let answer = server.post(&host(HOST)).await;
    assert_eq!(answer.refused(503), "too many machines call at once: try again");
    assert_eq!(answer.headers["retry-after"], "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_run_without_a_pod_says_what_the_cluster_says() {
    use k8s_openapi::api::core::v1::Event;
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    server.post(&host(HOST)).await.run(202);
    let run = cluster.approve(HOST).await.run;
    let events: ::kube::Api<Event> = ::kube::Api::namespaced(cluster.kube.client(), "hostwright");
    let tell = async |name: &str, uid: &str, kind: &str, at: &str, message: &str| {
        let event = json!({
            "metadata": {"name": name, "namespace": "hostwright"},
            "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "hostwright", "name": run.name, "uid": uid},
            "type": kind, "reason": "FailedCreate", "message": message, "firstTimestamp": at, "lastTimestamp": at,
        });
        events.create(&Default::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    };
    let quota = "Error creating: pods \"provision-x\" is forbidden: exceeded quota: small";
    tell("old", &run.uid, "Warning", "2026-01-01T00:00:00Z", "no account").await;
    tell("new", &run.uid, "Warning", "2026-01-01T00:00:02Z", quota).await;
    tell("fine", &run.uid, "Normal", "2026-01-01T00:00:03Z", "all is well").await;
    tell("other", "another-uid", "Warning", "2026-01-01T00:00:04Z", "not ours").await;

    for noun in ["runs", "hosts"] {
        let output = cluster.command(&[noun, "show", HOST, "-o", "json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(shown["reason"], format!("FailedCreate: {quota}"), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_commands_did_is_told_in_the_form_that_was_asked_for() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let name = server.post(&host(HOST)).await.run(202);
    cluster.approve(HOST).await;
    let json = |args: &[&str], code: i32| -> Value {
        let output = cluster.command(&[args, &["-o", "json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let stopped = json(&["runs", "stop", HOST, "nobody.example.org"], 3);
    assert_eq!(stopped[0], json!({"run": name, "host": HOST, "phase": "stopped"}));
    assert_eq!(
        (&stopped[1]["run"], &stopped[1]["error"]["kind"]),
        (&json!("nobody.example.org"), &json!("not-found"))
    );
    let added = json(&["targets", "add", "web-1.example.org", "web-2.example.org"], 0);
    assert_eq!((&added["changed"], &added["absent"]), (&json!(2), &json!([])));
    assert!(added["size"].as_u64().unwrap() > 0);
    let removed = json(&["targets", "remove", "web-1.example.org", "web-9.example.org"], 3);
    assert_eq!((&removed["changed"], &removed["absent"]), (&json!(1), &json!(["web-9.example.org:9103"])));
    let yaml = cluster.command(&["targets", "remove", "web-2.example.org", "-o", "yaml"]);
    assert!(String::from_utf8_lossy(&yaml.stdout).contains("changed: 1"), "{yaml:?}");
    let table = cluster.command(&["targets", "add", "web-2.example.org"]);
    assert_eq!(String::from_utf8_lossy(&table.stdout), "1 added\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_with_a_name_that_the_cluster_does_not_know() {
    let cluster = Cluster::new().await;
    let mut environment = cluster.settings.environment.clone();
    let known = ops::operator(&cluster.kube, &environment).await.unwrap();
    assert_eq!(known, cluster.kube.whoami().await.unwrap());
    // An API server without SelfSubjectReview, as before Kubernetes 1.28.
    let old = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubeconfig = cluster.dir.path().join("old");
    let text = std::fs::read_to_string(environment.kubernetes.kubeconfig.as_ref().unwrap()).unwrap();
    let address = old.local_addr().unwrap().to_string();
    std::fs::write(&kubeconfig, text.replace(&cluster.address.to_string(), &address)).unwrap();
    tokio::spawn(async { axum::serve(old, axum::Router::new()).await });
    environment.kubernetes.kubeconfig = Some(kubeconfig);
    let kube = Kube::connect(&environment.kubernetes).await.unwrap();
    let error = ops::operator(&kube, &environment).await.unwrap_err().to_string();
    assert!(error.contains("cannot sign") && error.contains("SelfSubjectReview"), "{error}");
    // The playground has no users.
    environment.playground = true;
    assert!(!ops::operator(&kube, &environment).await.unwrap().is_empty());
}

/// A hundred and twenty runs behind a proxy, in an API that looks back on few changes.
async fn many_runs_and_little_history() -> (TempDir, Kube, Kube, crate::proxy::Proxy, CancellationToken) {
    let dir = support::temp();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut options = Options::new(dir.path().join("logs"), CA, "https://[2001:db8::1]:6443");
    options.history = 8;
    let shutdown = CancellationToken::new();
    tokio::spawn(Api::open(options).unwrap().run(listener, shutdown.clone()));
    let proxy = crate::proxy::Proxy::start(port).await;
    let connect = async |port: u16| {
        let kubeconfig = dir.path().join(format!("kubeconfig-{port}"));
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t", "namespace": "hostwright"}}],
            "users": [{"name": "t", "user": {}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let none = Path::new("/nonexistent");
        let settings = stage::settings_of(&kubeconfig, none, none, none, none);
        (Kube::connect(&settings.environment.kubernetes).await.unwrap(), settings)
    };
    let (direct, settings) = connect(port).await;
    let (behind, _) = connect(proxy.port()).await;
    let template = JobTemplate::parse(include_str!("../../assets/play/job.yaml"), &settings.job).unwrap();
    for n in 0..120 {
        let raw = RawAnnouncement { hostname: format!("web-{n}.example.org"), ..RawAnnouncement::default() };
        let announcement = raw.check().unwrap();
        let permit = settings.permit().unwrap();
        ops::announce::announce(&direct, &permit, &template, &announcement, false).await.unwrap();
    }
    (dir, direct, behind, proxy, shutdown)
}

/// More changes than the history holds.
async fn changes(kube: &Kube) {
    let maps: ::kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        ::kube::Api::namespaced(kube.client(), "hostwright");
    for n in 0..10 {
        let map = json!({"metadata": {"generateName": "change-"}, "data": {"n": n.to_string()}});
        maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_whose_moment_is_forgotten_between_two_pages_begins_anew() {
    let (_dir, direct, behind, proxy, _shutdown) = many_runs_and_little_history().await;
    let second_page = proxy.stop_at(b"continue=");
    let listing = tokio::spawn(async move { behind.runs(None).await });
    tokio::time::timeout(PATIENCE, second_page).await.unwrap();
    changes(&direct).await;
    proxy.go_on();
    let runs = listing.await.unwrap().unwrap();
    let names: std::collections::BTreeSet<_> = runs.iter().map(|run| &run.name).collect();
    assert_eq!((runs.len(), names.len()), (120, 120), "all of them, each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_list_is_forgotten_between_two_pages_begins_anew() {
    let (_dir, direct, behind, proxy, _shutdown) = many_runs_and_little_history().await;
    let second_page = proxy.stop_at(b"continue=");
    let mut events = std::pin::pin!(behind.watch_runs());
    let watching = async {
        let (mut seen, mut failed) = (std::collections::BTreeSet::new(), 0);
        while let Some(event) = events.next().await {
            match event {
                RunsEvent::Reset => seen.clear(),
                RunsEvent::Changed(runs) => seen.extend(runs.into_iter().map(|run| run.name)),
                RunsEvent::Failed(..) | RunsEvent::Polled(..) => failed += 1,
                RunsEvent::Listed => break,
                RunsEvent::Removed(uid) => panic!("{uid}"),
            }
        }
        (seen.len(), failed)
    };
    let meddling = async {
        second_page.await;
        changes(&direct).await;
        proxy.go_on();
    };
    let (found, ()) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(watching, meddling) }).await.unwrap();
    assert_eq!(found, (120, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_token_file_is_no_token() {
    let mut cluster = Cluster::new().await;
    let file = cluster.dir.path().join("token");
    std::fs::write(&file, " \n").unwrap();
    cluster.settings.server.token_file = Some(file.clone());
    let config = cluster.dir.path().join("config.toml");
    let text = json!({
        "server": {"token_file": file, "listen": "127.0.0.1:0"},
        "environments": {"test": {
            "kubernetes": {"kubeconfig": cluster.settings.environment.kubernetes.kubeconfig},
            "policy": {"source": "/policy"},
        }},
    });
    std::fs::write(&config, toml::to_string(&text).unwrap()).unwrap();
    let mut serve = std::process::Command::new(support::exe());
    serve.arg("--config").arg(&config).args(["-e", "test", "serve"]);
    let output = serve.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("server.token_file") && said.contains("is empty"), "{said}");
    let mut announce = std::process::Command::new(support::exe());
    announce.arg("--config").arg(&config).args(["-e", "test", "hosts", "announce", HOST]);
    let said = announce.output().unwrap().stderr;
    assert!(String::from_utf8_lossy(&said).contains("token's file is empty"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_cluster_machines_are_told_to_come_again() {
    let mut cluster = Cluster::new().await;
    let server = Server::leading(&cluster).await;
    let up = json!({
        "cluster": "up", "queue": "unused", "ara": "unused", "pending": 0, "delivers": true, "approvals": "open",
    });
    server.until_ready(200, |said| *said == up).await;
    cluster.stop().await;
    let answer = server.post(&host(HOST)).await;
    assert!(answer.refused(503).ends_with("try again"), "{answer:?}");
    assert_eq!(answer.headers["retry-after"], "5");
    let said = server.until_ready(503, |_| true).await;
    assert_eq!(said["cluster"], "down");
    // It is the cluster that is gone, not this process: killing it would mend nothing.
    assert_eq!(
        (server.get("/healthz").await.status, server.get("/healthz").await.body.as_str()),
        (200, "ok\n")
    );
    cluster.start_again().await;
    server.until_ready(200, |said| said["cluster"] == "up").await;
    server.post(&host(HOST)).await.run(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_comes_back_unchanged_is_seen_to_be_up() {
    let mut cluster = Cluster::new().await;
    // Another one leads, so that nothing is written: the watch goes on where it was, and says nothing.
    let (permit, now) = (cluster.permit(), Timestamp::now());
    cluster.kube.hold_lease(&permit, "hostwright-server", "another", HOUR, now).await.unwrap();
    let server = Server::start_unseen(&cluster.settings).await;
    server.until_ready(200, |said| said["cluster"] == "up").await;
    cluster.stop().await;
    server.until_ready(503, |said| said["cluster"] == "down").await;
    cluster.start_again().await;
    let said = server.until_ready(200, |said| said["cluster"] == "up").await;
    assert_eq!(said["delivers"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_saw_the_cluster_is_not_ready() {
    let mut cluster = Cluster::new().await;
    cluster.stop().await;
    let server = Server::start_unseen(&cluster.settings).await;
    let said = server.until_ready(503, |said| said["cluster"] == "down").await;
    assert_eq!(said["delivers"], false);
    assert_eq!(server.post(&host(HOST)).await.status, 503);
    cluster.start_again().await;
    server.until_ready(200, |_| true).await;
    server.post(&host(HOST)).await.run(202);
}

/// S15: a broker that speaks no AMQP; the run says why its message is not delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_broker_is_told_and_stops_no_announcement() {
    // A port on which somebody listens who never says a word of AMQP.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = mute.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = mute.accept().await {
            drop(connection);
        }
    });
    let change = |s: &mut Settings| {
        s.environment.amqp = Some(Amqp {
            url: Secret::new(format!("amqp://guest:guest@{address}")),
            exchange: "hostwright".into(),
            dead_letter: "hostwright.dead".into(),
        });
    };
    let cluster = Cluster::with(change).await;
    let server = Server::leading(&cluster).await;
    server.post(&host(HOST)).await.run(202);
    cluster.approve(HOST).await;
    let said = server.until_ready(200, |said| said["queue"] == "down").await;
    assert_eq!(said["cluster"], "up");
    assert!(cluster.of(HOST).await.run.undelivered());
    // The host's page says why.
    let why = |run: &Run| {
        run.host.as_str() == HOST && run.phase == Phase::Queued && run.reason.contains("RabbitMQ")
    };
    cluster.until("the reason on the run", |runs| runs.iter().any(why)).await;
    server.post(&host("web-2.example.org")).await.run(202);
}

/// A request whose head is with the server, which waits for the body.
async fn half_a_request(server: &Server, body: &str) -> Wire {
    let mut wire = Wire::open(server.address).await;
    let head =
        "POST /host/online HTTP/1.1\r\nHost: hook\r\nContent-Type: application/json\r\nExpect: 100-continue";
    wire.write(&format!("{head}\r\nContent-Length: {}\r\n\r\n", body.len())).await;
    assert!(wire.head().await.starts_with("HTTP/1.1 100 "));
    wire
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_at_the_end_is_answered() {
    let cluster = Cluster::new().await;
    let server = Server::leading(&cluster).await;
    let mut idle = Wire::open(server.address).await;
    idle.write("GET /healthz HTTP/1.1\r\nHost: hook\r\n\r\n").await;
    assert_eq!(idle.answer().await.status, 200);
    let body = host(HOST).to_string();
    let mut wire = half_a_request(&server, &body).await;
    server.shutdown.cancel();
    // An idle connection ends, and nobody new is let in.
    let mut end = Vec::new();
    tokio::time::timeout(PATIENCE, idle.0.read_to_end(&mut end)).await.unwrap().unwrap();
    assert_eq!(TcpStream::connect(server.address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    wire.write(&body).await;
    wire.answer().await.run(202);
    server.stop().await;
    assert_eq!(cluster.names().await.len(), 1);
    // The Lease was given up: the next server need not wait for it to expire.
    let next = Server::start_unseen(&cluster.settings).await;
    let told = next.until_ready(200, |said| said["delivers"] == true);
    tokio::time::timeout(Duration::from_secs(5), told).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let cluster = Cluster::with(|s| s.server.request_timeout = Duration::from_millis(300)).await;
    let server = Server::start(&cluster).await;
    let mut wire = half_a_request(&server, &host(HOST).to_string()).await;
    let answer = wire.answer().await;
    assert!((400..600).contains(&answer.status) && answer.headers.contains_key("retry-after"), "{answer:?}");
    assert!(answer.json()["error"].as_str().unwrap().contains("took too long"));
    // Nor is the end put off by one.
    let _wire = half_a_request(&server, "{}").await;
    server.stop().await;
    assert_eq!(cluster.names().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_approves_by_itself_and_only_its_own() {
    let rule = Approval::Hosts(vec!["*.lan.example.org".into()]);
    let cluster = Cluster::with(|s| s.environment.approval = rule).await;
    let server = Server::leading(&cluster).await;
    // The one that the rule does not cover comes first: when the other is decided, it has been passed over.
    server.post(&host("web.lan.example.org.evil.org")).await.run(202);
    server.post(&json!({"hostname": "web.lan.example.org", "groups": ["web"]})).await.run(202);
    let runs = cluster.until("delivery", |runs| runs.iter().any(|run| run.delivered.is_some())).await;
    let by_rule = runs.iter().find(|run| run.host.as_str() == "web.lan.example.org").unwrap();
    let decision = by_rule.decision.as_ref().unwrap();
    assert_eq!((decision.verdict, decision.by.as_str()), (Verdict::Approved, "rule"));
    assert_eq!(by_rule.phase, Phase::Queued);
    assert_eq!(cluster.of("web.lan.example.org").await.parameters.unwrap().groups, ["web"]);
    let other = cluster.of("web.lan.example.org.evil.org").await;
    assert_eq!((other.run.phase, other.run.decision), (Phase::Pending, None));
}

/// The run that answers the mark, once it is told.
fn answer_of<'a>(runs: &'a [Run], wish: Wish, marked: &Run) -> Option<&'a Run> {
    let name = wish.mark(runs.iter().find(|run| run.uid == marked.uid)?)?.answered.as_ref()?;
    runs.iter().find(|run| run.name == *name)
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_become_one_job_each_also_with_two_servers() {
    let cluster = Cluster::new().await;
    let first = Server::leading(&cluster).await;
    let second = Server::start(&cluster).await;
    assert_eq!(second.get("/readyz").await.json()["delivers"], false);
    first.post(&json!({"hostname": HOST, "groups": ["web"]})).await.run(202);

    // A check of a run that is still pending.
    let pending = cluster.of(HOST).await.run;
    cluster.mark(Wish::Check, &pending).await;
    let runs = cluster.until("a check", |runs| answer_of(runs, Wish::Check, &pending).is_some()).await;
    let check = answer_of(&runs, Wish::Check, &pending).unwrap();
    assert_eq!((check.kind, check.phase, runs.len()), (Kind::Check, Phase::Queued, 2));
    assert_eq!(check.decision.as_ref().unwrap().by, "bob");
    let parameters = cluster.kube.run(&check.name).await.unwrap().parameters.unwrap();
    assert!(parameters.check && parameters.groups == ["web"], "{parameters:?}");
    assert_eq!(cluster.of(HOST).await.run.phase, Phase::Pending);

    // A retry of a rejected run asks for a new decision.
    let rejected = cluster.reject(HOST).await.run;
    cluster.mark(Wish::Retry, &rejected).await;
    let runs = cluster.until("a retry", |runs| answer_of(runs, Wish::Retry, &rejected).is_some()).await;
    let retry = answer_of(&runs, Wish::Retry, &rejected).unwrap();
    assert_eq!((retry.kind, retry.phase, retry.number, runs.len()), (Kind::Provision, Phase::Pending, 2, 3));

    // A retry of one that was approved does not. The other server answers when the first is gone.
    let approved = cluster.approve(HOST).await.run;
    let (kube, permit) = (&cluster.kube, cluster.permit());
    let stopped = decide::stop(kube, &permit, &approved.name, &approved.uid, "ann").await.unwrap().run;
    assert_eq!(stopped.phase, Phase::Stopped);
    first.stop().await;
    cluster.mark(Wish::Retry, &stopped).await;
    let runs = cluster.until("a retry", |runs| answer_of(runs, Wish::Retry, &stopped).is_some()).await;
    let retry = answer_of(&runs, Wish::Retry, &stopped).unwrap();
    assert_eq!((retry.phase, retry.number, runs.len()), (Phase::Queued, 3, 4));
    assert_eq!(retry.decision.as_ref().unwrap().by, "bob");
    // And delivers it.
    let delivered = |runs: &[Run]| runs.iter().any(|run| run.number == 3 && run.delivered.is_some());
    let runs = cluster.until("delivery", delivered).await;
    assert_eq!(runs.len(), 4, "{runs:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_forgotten_is_gone_and_new_when_it_calls_again() {
    let cluster = Cluster::new().await;
    let server = Server::leading(&cluster).await;
    for name in [HOST, "other.example.org"] {
        server.post(&host(name)).await.run(202);
    }
    // While the host is pending, and while its run goes on, the command says what to do first.
    let refused = |said: &std::process::Output, what: &str| {
        let err = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(4), "{err}");
        assert!(err.contains(what), "{err}");
    };
    refused(&cluster.command(&["hosts", "forget", HOST]), "reject it first");
    cluster.reject(HOST).await;
    server.post(&host(HOST)).await.run(202);
    let run = cluster.approve(HOST).await.run;
    refused(&cluster.command(&["hosts", "forget", HOST]), "stop it first");
    decide::stop(&cluster.kube, &cluster.permit(), &run.name, &run.uid, "ann").await.unwrap();
    let old: Vec<String> =
        cluster.runs().await.into_iter().filter(|run| run.host.as_str() == HOST).map(|run| run.uid).collect();
    assert_eq!(old.len(), 2);

    let said = cluster.command(&["hosts", "forget", HOST]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let runs = cluster.until("the deletion", |runs| runs.iter().all(|run| run.host.as_str() != HOST)).await;
    assert_eq!(runs.len(), 1, "the other host stays: {runs:#?}");
    let done = ops::activity::list(&cluster.kube, &cluster.settings.environment, None).await.unwrap();
    let count = |word: &str| done.activities.iter().filter(|a| a.action == word).count();
    assert_eq!((count("forget"), count("prune")), (1, 2), "{done:#?}");

    server.post(&host(HOST)).await.run(202);
    let new = cluster.of(HOST).await.run;
    assert_eq!((new.number, new.phase), (1, Phase::Pending));
    assert!(!old.contains(&new.uid));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_many_answer_at_once_is_one_job() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    server.post(&host(HOST)).await.run(202);
    server.stop().await;
    let pending = cluster.runs().await.remove(0);
    cluster.mark(Wish::Check, &pending).await;
    let run = cluster.reject(HOST).await.run;
    cluster.mark(Wish::Retry, &run).await;
    let marked = cluster.kube.run(&run.name).await.unwrap().run;
    let template = JobTemplate::parse(include_str!("../../assets/job.yaml"), &cluster.settings.job).unwrap();
    let (permit, environment) = (cluster.permit(), &cluster.settings.environment);
    let free = Approvals::default();
    let answer = || marks::answer(&cluster.kube, &permit, environment, &template, &marked, &free);
    // No Lease is perfect: a server that hangs for a while may think that it still holds it.
    for answered in join_all((0..8).map(|_| answer())).await {
        assert!(matches!(answered, Ok(_) | Err(OpError::Contended(_))), "{answered:?}");
    }
    let runs = cluster.runs().await;
    let made: Vec<_> = runs.iter().map(|run| (run.kind, run.number)).collect();
    assert_eq!(made, [(Kind::Provision, 1), (Kind::Provision, 2), (Kind::Check, 1)]);
    for wish in Wish::ALL {
        assert!(answer_of(&runs, wish, &run).is_some(), "{runs:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_host_has_one_check_at_a_time() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    // Three runs of one host, the last with another announcement.
    for groups in [["web"], ["web"], ["db"]] {
        server.post(&json!({"hostname": HOST, "groups": groups})).await.run(202);
        let run = cluster.approve(HOST).await.run;
        decide::stop(&cluster.kube, &cluster.permit(), &run.name, &run.uid, "ann").await.unwrap();
    }
    server.stop().await;
    let marked = cluster.runs().await;
    for run in &marked {
        cluster.mark(Wish::Check, run).await;
    }
    let server = Server::leading(&cluster).await;
    let checks =
        |runs: &[Run]| -> Vec<Run> { runs.iter().filter(|run| run.kind == Kind::Check).cloned().collect() };
    let answers = |runs: &[Run]| -> Vec<Option<String>> {
        let provisions = runs.iter().filter(|run| run.kind == Kind::Provision);
        provisions.map(|run| run.check.as_ref().unwrap().answered.clone()).collect()
    };
    // Whichever came first: the two that ask for the same share a check, the other one waits.
    let answered = |runs: &[Run]| answers(runs).iter().flatten().count();
    let runs = cluster.until("a check", |runs| answered(runs) > 0).await;
    let first = checks(&runs).remove(0);
    let shared = first.digest == marked[0].digest;
    let share = if shared { 2 } else { 1 };
    let runs = cluster.until("the answers of the first check", |runs| answered(runs) == share).await;
    assert_eq!(checks(&runs).len(), 1);
    assert!(answers(&runs).iter().flatten().all(|name| *name == first.name));
    assert_eq!(answers(&runs)[0].is_some(), shared);

    // An operator who asks for another one is told which is in the way.
    let answered_one =
        runs.iter().find(|run| run.check.as_ref().is_some_and(|m| m.answered.is_some())).unwrap();
    let (kube, permit) = (&cluster.kube, cluster.permit());
    let refused = marks::mark(kube, &permit, Wish::Check, &answered_one.into(), "eve").await.unwrap_err();
    assert!(matches!(&refused, OpError::Busy { run, .. } if *run == first.name), "{refused}");

    // When it is over the next one comes.
    decide::stop(kube, &permit, &first.name, &first.uid, "ann").await.unwrap();
    let runs = cluster.until("all answers", |runs| answered(runs) == 3).await;
    assert_eq!(checks(&runs).len(), 2, "{runs:#?}");
    assert_eq!(checks(&runs).iter().filter(|check| !check.is_over()).count(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_runs_go_and_the_newest_stay() {
    let change = |s: &mut Settings| {
        s.server.keep_runs = 2;
        s.server.repair_interval = Duration::from_millis(200);
    };
    let cluster = Cluster::with(change).await;
    // The runs are made by a server that is gone before it does anything about them.
    let mut settings = cluster.settings.clone();
    settings.server.keep_runs = 100;
    let server = Server::start_unseen(&settings).await;
    let call = async |name: &str, boot: u32| {
        server.post(&json!({"hostname": name, "boot": boot.to_string()})).await.run(202)
    };
    let mut web = Vec::new();
    for boot in 1..=4 {
        web.push(call("web-1.example.org", boot).await);
        cluster.reject("web-1.example.org").await;
    }
    web.push(call("web-1.example.org", 5).await);
    let db = call("db-1.example.org", 1).await;
    cluster.reject("db-1.example.org").await;
    server.stop().await;
    assert_eq!(cluster.names().await.len(), 6);
    let server = Server::leading(&cluster).await;
    let runs = cluster.until("pruning", |runs| runs.len() <= 3).await;
    let left: Vec<_> = runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(left, [db.as_str(), &web[3], &web[4]]);
    server.stop().await;
    assert_eq!(cluster.names().await, [db.as_str(), &web[3], &web[4]]);
}
