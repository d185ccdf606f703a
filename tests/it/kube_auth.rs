//! The webhook for an API server's questions: over TLS, while its files are replaced in every way there is.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostwright::server::kube_auth::{self, KubeAuthError, Options};
use http_body_util::StreamBody;
use reqwest::{Certificate, Client, Identity, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support;
use crate::support::certificates::Ca;

const PATIENCE: Duration = Duration::from_secs(60);
const V1: &str = "abac.authorization.kubernetes.io/v1beta1";

/// A running webhook and its files.
struct Hook {
    dir: TempDir,
    ca: Ca,
    port: u16,
    client: Client,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), KubeAuthError>>,
}

impl Hook {
    /// With these two files, or without them.
    async fn start(tokens: Option<&str>, policy: Option<&str>, client_ca: Option<&Ca>) -> Self {
        let dir = support::temp();
        let ca = Ca::new("server-ca");
        let at = |name: &str| dir.path().join(name);
        let (cert, key) = ca.sign("localhost");
        let mut options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            tokens: at("tokens.csv"),
            policy: at("policy.jsonl"),
            tls_cert: at("tls.crt"),
            tls_key: at("tls.key"),
            client_ca: None,
        };
        std::fs::write(&options.tls_cert, cert).unwrap();
        std::fs::write(&options.tls_key, key).unwrap();
        for (path, text) in [(&options.tokens, tokens), (&options.policy, policy)] {
            if let Some(text) = text {
                std::fs::write(path, text).unwrap();
            }
        }
        if let Some(clients) = client_ca {
            std::fs::write(at("clients.pem"), clients.pem()).unwrap();
            options.client_ca = Some(at("clients.pem"));
        }
        let listener = TcpListener::bind(options.listen).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(kube_auth::run(listener, options, shutdown.clone()));
        let client = client(&ca, None);
        Self { dir, ca, port, client, shutdown, running }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let answer = self.client.get(self.url(path)).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    async fn post(&self, client: &Client, path: &str, body: &Value) -> (StatusCode, Value) {
        let answer = client.post(self.url(path)).json(body).send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    /// The status of a TokenReview.
    async fn who(&self, token: &str) -> Value {
        let (code, answer) = self.post(&self.client, "/authorize/token", &token_review("v1", token)).await;
        assert_eq!(code, 200, "{answer}");
        answer["status"].clone()
    }

    async fn may(&self, user: &str, verb: &str, resource: &str) -> bool {
        let spec = json!({"user": user, "resourceAttributes": {"verb": verb, "resource": resource, "namespace": "a"}});
        let (code, answer) = self.post(&self.client, "/authorize/policy", &access_review("v1", &spec)).await;
        assert_eq!(code, 200, "{answer}");
        answer["status"]["allowed"].as_bool().unwrap()
    }

    /// Waits until `/readyz` is so.
    async fn until(&self, condition: impl Fn(StatusCode, &Value) -> bool) -> Value {
        let mut last = (StatusCode::OK, Value::Null);
        let so = tokio::time::timeout(PATIENCE, async {
            loop {
                let (code, text) = self.get("/readyz").await;
                last = (code, serde_json::from_str(&text).unwrap());
                if condition(last.0, &last.1) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if so.await.is_err() {
            panic!("/readyz never said so: {last:?}");
        }
        last.1
    }

    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.running).await.unwrap().unwrap().unwrap();
    }
}

fn client(ca: &Ca, identity: Option<(String, String)>) -> Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    let roots = Certificate::from_pem_bundle(ca.pem().as_bytes()).unwrap();
    let mut builder = Client::builder().no_proxy().tls_certs_only(roots);
    if let Some((cert, key)) = identity {
        builder = builder.identity(Identity::from_pem(format!("{cert}{key}").as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

fn token_review(version: &str, token: &str) -> Value {
    let api = format!("authentication.k8s.io/{version}");
    json!({"apiVersion": api, "kind": "TokenReview", "metadata": {}, "spec": {"token": token, "audiences": ["x"]}})
}

fn access_review(version: &str, spec: &Value) -> Value {
    let api = format!("authorization.k8s.io/{version}");
    json!({"apiVersion": api, "kind": "SubjectAccessReview", "metadata": {}, "spec": spec})
}

fn policy(user: &str, resource: &str) -> String {
    let spec = json!({"user": user, "namespace": "*", "resource": resource});
    format!("{}\n", json!({"apiVersion": V1, "kind": "Policy", "spec": spec}))
}

#[tokio::test(flavor = "multi_thread")]
async fn both_reviews_are_answered_in_the_version_of_the_question() {
    let tokens = "secret-1,alice,7,\"ops,dev\"\nsecret-2,bob,8\n";
    let hook = Hook::start(Some(tokens), Some(&policy("alice", "pods")), None).await;
    hook.until(|code, _| code == 200).await;
    for version in ["v1", "v1beta1"] {
        let (code, answer) =
            hook.post(&hook.client, "/authorize/token", &token_review(version, "secret-1")).await;
        let user = json!({"username": "alice", "uid": "7", "groups": ["ops", "dev"]});
        let expected = json!({
            "apiVersion": format!("authentication.k8s.io/{version}"), "kind": "TokenReview",
            "status": {"authenticated": true, "user": user},
        });
        assert_eq!((code, answer), (StatusCode::OK, expected));
    }
    for unknown in ["", "secret", "secret-1 ", "secret-10", "SECRET-1"] {
        assert_eq!(hook.who(unknown).await, json!({"authenticated": false}), "{unknown}");
    }
    let pods =
        json!({"verb": "create", "resource": "pods", "subresource": "exec", "namespace": "a", "name": "x"});
    let groups = [("v1", "groups"), ("v1beta1", "group")];
    for (version, groups) in groups {
        let spec = json!({"user": "alice", groups: ["system:authenticated"], "extra": {"a": ["b"]}, "resourceAttributes": pods});
        let (code, answer) =
            hook.post(&hook.client, "/authorize/policy", &access_review(version, &spec)).await;
        assert_eq!(code, 200);
        assert_eq!(answer["apiVersion"], format!("authorization.k8s.io/{version}"));
        assert_eq!(answer["status"], json!({"allowed": true, "reason": "line 1 of the policy"}));
    }
    assert!(!hook.may("bob", "create", "pods").await);
    assert!(!hook.may("alice", "create", "secrets").await);
    let path = json!({"user": "alice", "nonResourceAttributes": {"path": "/version", "verb": "get"}});
    let (_, answer) = hook.post(&hook.client, "/authorize/policy", &access_review("v1", &path)).await;
    assert_eq!(answer["status"]["allowed"], false);
    assert_eq!(answer["status"].get("denied"), None, "other authorizers may still allow it");

    let (code, text) = hook.get("/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "hostwright_kube_auth_reviews_total{review=\"Token\",answer=\"Yes\"} 2",
        "hostwright_kube_auth_reviews_total{review=\"Token\",answer=\"No\"} 5",
        "hostwright_kube_auth_reviews_total{review=\"Access\",answer=\"Yes\"} 2",
        "hostwright_kube_auth_file_entries{file=\"tokens\"} 2",
        "hostwright_kube_auth_file_broken{file=\"policy\"} 0",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    hook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_review_is_refused_without_repeating_it() {
    let hook = Hook::start(Some("t,alice,1\n"), Some(&policy("alice", "pods")), None).await;
    hook.until(|code, _| code == 200).await;
    let both = json!({"user": "a", "resourceAttributes": {}, "nonResourceAttributes": {}});
    let cases = [
        ("/authorize/token", json!({"secret": "hunter2"})),
        (
            "/authorize/token",
            json!({"apiVersion": "v1", "kind": "TokenReview", "spec": {"token": ["hunter2"]}}),
        ),
        ("/authorize/token", access_review("v1", &json!({"token": "hunter2"}))),
        ("/authorize/token", token_review("v2", "hunter2")),
        ("/authorize/policy", access_review("v1", &json!({"user": "hunter2"}))),
        ("/authorize/policy", access_review("v1", &both)),
        ("/authorize/policy", token_review("v1", "hunter2")),
    ];
    for (path, body) in cases {
        let (code, answer) = hook.post(&hook.client, path, &body).await;
        assert_eq!(code, 400, "{body}");
        assert!(!answer.to_string().contains("hunter2"), "{answer}");
    }
    assert_eq!(hook.get("/authorize/token").await.0, 405);
    let slow = futures_util::stream::pending::<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>();
    let slow =
        hook.client.post(hook.url("/authorize/token")).body(reqwest::Body::wrap(StreamBody::new(slow)));
    assert_eq!(slow.send().await.unwrap().status(), 408);
    let large = json!({"x": "y".repeat(2 << 20)});
    let sent = hook.client.post(hook.url("/authorize/token")).json(&large).send().await;
    assert!(sent.is_err() || sent.unwrap().status() == 413);
    hook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_client_ca_only_its_certificates_may_ask() {
    let clients = Ca::new("clients");
    let hook = Hook::start(Some("t,alice,1\n"), Some(&policy("alice", "pods")), Some(&clients)).await;
    // Probes have no certificate.
    hook.until(|code, _| code == 200).await;
    let review = token_review("v1", "t");
    let (code, answer) = hook.post(&hook.client, "/authorize/token", &review).await;
    assert_eq!(code, 401);
    assert!(answer["error"].as_str().unwrap().contains("client certificate"));
    let known = client(&hook.ca, Some(clients.sign("kube-apiserver")));
    let (code, answer) = hook.post(&known, "/authorize/token", &review).await;
    assert_eq!((code, &answer["status"]["authenticated"]), (StatusCode::OK, &json!(true)));
    let strange = client(&hook.ca, Some(Ca::new("others").sign("kube-apiserver")));
    assert!(strange.post(hook.url("/authorize/token")).json(&review).send().await.is_err());
    hook.stop().await;
}

/// The ways in which a file gets a new content.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Another file takes its name.
    Rename,
    /// It is deleted, and comes again later.
    DeleteAndMake,
    /// It is emptied and written again in two pieces.
    InPlace,
    /// It is behind a folder that is a symbolic link, as in a Secret's volume.
    Swap,
}

fn replace(path: &Path, text: &str, way: Way) {
    let pause = || std::thread::sleep(Duration::from_millis(60));
    let new = path.with_extension("new");
    match way {
        Way::Rename => {
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, path).unwrap();
        }
        Way::DeleteAndMake => {
            std::fs::remove_file(path).unwrap();
            pause();
            std::fs::write(path, text).unwrap();
        }
        Way::InPlace => {
            use std::io::Write;
            let mut file = std::fs::File::create(path).unwrap();
            pause();
            let (first, second) = text.split_at(text.len() / 2);
            file.write_all(first.as_bytes()).unwrap();
            pause();
            file.write_all(second.as_bytes()).unwrap();
        }
        Way::Swap => {
            let folder = path.parent().unwrap();
            let name = path.file_name().unwrap();
            let data = folder.join(format!("..{}", text.len()));
            std::fs::remove_dir_all(&data).ok();
            std::fs::create_dir(&data).unwrap();
            std::fs::write(data.join(name), text).unwrap();
            let link = folder.join(format!("..data-{}", name.display()));
            let fresh = folder.join("..data_tmp");
            symlink(&data, &fresh).unwrap();
            std::fs::rename(&fresh, &link).unwrap();
            if !path.is_symlink() {
                symlink(link.join(name), &new).unwrap();
                std::fs::rename(&new, path).unwrap();
            }
        }
    }
}

/// The files of one generation: all tokens have its number as uid. Each is longer than the one before.
fn generation(number: usize) -> (String, String) {
    let lines: String = (0..200).map(|n| format!("token-{n},user-{n},{number}\n")).collect();
    let pad: String = (0..number).map(|n| format!("pad-{n},pad,{number}\n")).collect();
    let rules: String = (0..number).map(|n| policy(&format!("user-{n}"), "pods")).collect();
    (lines + &pad, rules)
}

/// E04: under load no request sees an empty set, an older one after a newer one, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_sees_an_empty_or_a_mixed_set_while_the_files_are_replaced_in_every_way() {
    let (tokens, rules) = generation(1);
    let hook = Arc::new(Hook::start(Some(&tokens), Some(&rules), None).await);
    hook.until(|code, _| code == 200).await;
    let stop = CancellationToken::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let askers: Vec<_> = (0..4)
        .map(|n: usize| {
            let (hook, stop, asked) = (Arc::clone(&hook), stop.clone(), Arc::clone(&asked));
            tokio::spawn(async move {
                let mut newest = 0;
                while !stop.is_cancelled() {
                    let token = asked.fetch_add(1, Ordering::Relaxed) * 7 % 200;
                    let status = hook.who(&format!("token-{token}")).await;
                    assert_eq!(status["authenticated"], true, "{n}: {status}");
                    let uid: usize = status["user"]["uid"].as_str().unwrap().parse().unwrap();
                    assert!(uid >= newest, "{uid} after {newest}");
                    newest = uid;
                    assert!(hook.may("user-0", "get", "pods").await);
                }
            })
        })
        .collect();
    let ways =
        [Way::Rename, Way::InPlace, Way::DeleteAndMake, Way::Swap, Way::Swap, Way::Rename, Way::InPlace];
    for (number, way) in (2..).zip(ways) {
        let (tokens, rules) = generation(number);
        let (at, rules_at) = (hook.path("tokens.csv"), hook.path("policy.jsonl"));
        tokio::task::spawn_blocking(move || {
            replace(&at, &tokens, way);
            replace(&rules_at, &rules, way);
        })
        .await
        .unwrap();
        hook.until(|code, told| {
            code == 200 && told["tokens"]["entries"] == 200 + number && told["policy"]["entries"] == number
        })
        .await;
        assert_eq!(hook.who("token-199").await["user"]["uid"], number.to_string(), "{way:?}");
        assert!(hook.may(&format!("user-{}", number - 1), "get", "pods").await, "{way:?}");
    }
    stop.cancel();
    for asker in askers {
        asker.await.unwrap();
    }
    assert!(asked.load(Ordering::Relaxed) > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_leaves_the_last_good_one_and_says_line_and_reason() {
    let hook = Hook::start(Some("secret-1,alice,1\n"), Some(&policy("alice", "pods")), None).await;
    hook.until(|code, _| code == 200).await;
    let nuls = "secret-1,alice,1\n\0\0\0\0\n";
    let broken = [
        ("secret-2,bob,2\nsecret-3,\"carol\"x,3\n", "line 2: more text behind"),
        ("secret-2,bob,2\nsecret-2,carol,3\n", "line 2: has the token of line 1"),
        ("secret-2,bob\n", "line 1: needs token, user, uid"),
        (nuls, "line 2: holds a NUL"),
        ("", "line 1: the file is empty"),
    ];
    for (text, says) in broken {
        replace(&hook.path("tokens.csv"), text, Way::Rename);
        let told =
            hook.until(|_, told| told["tokens"]["problem"].as_str().is_some_and(|p| p.contains(says))).await;
        assert!(!told.to_string().contains("secret-"), "{told}");
        assert_eq!(hook.get("/readyz").await.0, 200, "the last good one serves");
        assert_eq!(hook.who("secret-1").await["authenticated"], true, "{text}");
        assert_eq!(hook.who("secret-2").await["authenticated"], false, "{text}");
    }
    assert!(hook.get("/metrics").await.1.contains("hostwright_kube_auth_file_broken{file=\"tokens\"} 1"));
    std::fs::remove_file(hook.path("tokens.csv")).unwrap();
    hook.until(|_, told| told["tokens"]["problem"].as_str().is_some_and(|p| p.contains("No such file")))
        .await;
    assert_eq!(hook.who("secret-1").await["authenticated"], true);

    replace(&hook.path("policy.jsonl"), "{\"user\": \"bob\", \"reason\": 1}\n{\"user\"\n", Way::Rename);
    hook.until(|_, told| {
        told["policy"]["problem"].as_str().is_some_and(|p| p.contains("line 2: is no JSON"))
    })
    .await;
    assert!(hook.may("alice", "get", "pods").await && !hook.may("bob", "get", "pods").await);
    replace(&hook.path("policy.jsonl"), "{\"user\": \"bob\", \"namspace\": \"b\"}\n", Way::Rename);
    let told = hook.until(|_, told| told["policy"]["problem"].is_null()).await;
    assert!(told["policy"]["warnings"][0].as_str().unwrap().contains("is namespace meant?"), "{told}");
    std::fs::write(hook.path("tokens.csv"), "secret-4,dora,4\n").unwrap();
    hook.until(|_, told| told["tokens"]["problem"].is_null()).await;
    assert_eq!(hook.who("secret-4").await["user"]["username"], "dora");
    hook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_files_nothing_is_answered_and_a_renewed_certificate_is_shown() {
    let hook = Hook::start(None, Some(&policy("alice", "pods")), None).await;
    let told = hook.until(|code, _| code == 503).await;
    assert!(told["tokens"]["problem"].as_str().unwrap().contains("tokens.csv"), "{told}");
    let (code, _) = hook.post(&hook.client, "/authorize/token", &token_review("v1", "t")).await;
    assert_eq!(code, 503);
    assert_eq!(hook.get("/healthz").await, (StatusCode::OK, "ok\n".to_owned()));
    assert!(hook.may("alice", "get", "pods").await, "each file is for itself");
    std::fs::write(hook.path("tokens.csv"), "t,alice,1\n").unwrap();
    hook.until(|code, _| code == 200).await;

    // Key and certificate of another CA, one after the other: in between the old pair goes on.
    let other = Ca::new("next-ca");
    let (cert, key) = other.sign("localhost");
    replace(&hook.path("tls.key"), &key, Way::Rename);
    hook.until(|_, told| told["certificate"]["problem"].is_string()).await;
    assert!(client(&hook.ca, None).get(hook.url("/healthz")).send().await.is_ok());
    replace(&hook.path("tls.crt"), &cert, Way::Rename);
    hook.until(|_, told| told["certificate"]["problem"].is_null()).await;
    assert!(client(&hook.ca, None).get(hook.url("/healthz")).send().await.is_err());
    assert!(client(&other, None).get(hook.url("/healthz")).send().await.is_ok());
    hook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_says_what_it_misses_and_ends_when_told() {
    let dir = support::temp();
    let missing = dir.path().join("missing");
    let mut command = tokio::process::Command::new(support::exe());
    command.args(["kube-auth", "--listen", "127.0.0.1:0"]);
    for flag in ["--tokens", "--policy", "--tls-cert", "--tls-key", "--client-ca"] {
        command.arg(flag).arg(&missing);
    }
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the client CA") && said.contains("No such file"), "{said}");
}
