//! kube-auth under 2,000 TokenReviews a second while its files are replaced: how long an answer takes, from outside, over TLS.
//!
//! `cargo bench --bench kube_auth` prints the figures; they are in `benches/README.md`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use hostwright::server::kube_auth::{self, Options};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const RATE: u32 = 2_000;
const SECONDS: u32 = 15;
const CONNECTIONS: u32 = 20;
const TOKENS: u32 = 1_000;

fn tokens(generation: u32) -> String {
    (0..TOKENS).map(|n| format!("token-{n},user-{n},{generation},\"a,b\"\n")).collect()
}

/// One connection's requests, each at its time; how long each took from that time on.
async fn ask(client: reqwest::Client, url: String, begun: Instant, first: u32) -> Vec<Duration> {
    let mut took = Vec::new();
    for n in (first..RATE * SECONDS).step_by(CONNECTIONS as usize) {
        let due = begun + Duration::from_secs(1) / RATE * n;
        tokio::time::sleep_until(due.into()).await;
        let spec = json!({"token": format!("token-{}", n % TOKENS)});
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        let answer: Value = client.post(&url).json(&review).send().await.unwrap().json().await.unwrap();
        assert_eq!(answer.pointer("/status/authenticated"), Some(&Value::Bool(true)));
        took.push(due.elapsed());
    }
    took
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(at("tls.crt"), cert.pem()).unwrap();
    std::fs::write(at("tls.key"), signing_key.serialize_pem()).unwrap();
    std::fs::write(at("tokens.csv"), tokens(0)).unwrap();
    std::fs::write(at("policy.jsonl"), "# nothing\n").unwrap();
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        tokens: at("tokens.csv"),
        policy: at("policy.jsonl"),
        tls_cert: at("tls.crt"),
        tls_key: at("tls.key"),
        client_ca: None,
    };
    let listener = TcpListener::bind(options.listen).await.unwrap();
    let url = format!("https://localhost:{}/authorize/token", listener.local_addr().unwrap().port());
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(kube_auth::run(listener, options, shutdown.clone()));
    let root = reqwest::Certificate::from_pem(cert.pem().as_bytes()).unwrap();
    let client = || {
        let builder =
            reqwest::Client::builder().no_proxy().tls_certs_only([root.clone()]).pool_max_idle_per_host(1);
        builder.build().unwrap()
    };
    let ready = client();
    while ready.get(url.replace("/authorize/token", "/readyz")).send().await.is_err() {}
    let begun = Instant::now() + Duration::from_millis(200);
    let askers: Vec<_> =
        (0..CONNECTIONS).map(|n| tokio::spawn(ask(client(), url.clone(), begun, n))).collect();
    let path = Arc::new(at("tokens.csv"));
    let replacing = tokio::spawn(async move {
        for generation in 1.. {
            let new = path.with_extension("new");
            tokio::fs::write(&new, tokens(generation)).await.unwrap();
            tokio::fs::rename(&new, &*path).await.unwrap();
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    });
    let mut all = Vec::new();
    for asker in askers {
        all.extend(asker.await.unwrap());
    }
    replacing.abort();
    all.sort_unstable();
    let of = |share: f64| all.get(((all.len() as f64 - 1.0) * share) as usize).unwrap();
    println!(
        "{} TokenReviews at {RATE} a second, a new token file every 0.7 s: median {:?}, p99 {:?}, most {:?}",
        all.len(),
        of(0.5),
        of(0.99),
        of(1.0),
    );
    shutdown.cancel();
    server.await.unwrap().unwrap();
}
