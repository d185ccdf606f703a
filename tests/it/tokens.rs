//! Bootstrap tokens: broken ones are listed with the reason, the secret part stays where it is, a signature is waited for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use hostwright::backend::kube::Kube;
use hostwright::config::Signer;
use hostwright::domain::BootstrapToken;
use hostwright::ops::OpError;
use hostwright::ops::tokens::{self, NewToken};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::ground::{Ground, answering};
use crate::support::manager::signature;

const SECRET: &str = "0123456789abcdef";

/// Puts a Secret there as somebody would by hand.
async fn put(ground: &Ground, name: &str, change: &[(&str, Option<&str>)]) {
    let id = name.strip_prefix("bootstrap-token-").unwrap();
    let mut data = BTreeMap::from([
        ("token-id", id),
        ("token-secret", SECRET),
        ("expiration", "2126-12-01T10:00:00Z"),
        ("usage-bootstrap-authentication", "true"),
        ("usage-bootstrap-signing", "true"),
        ("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token"),
    ]);
    let mut kind = "bootstrap.kubernetes.io/token";
    for (key, value) in change {
        match (*key, value) {
            ("type", Some(value)) => kind = value,
            (key, Some(value)) => drop(data.insert(key, value)),
            (key, None) => drop(data.remove(key)),
        }
    }
    let secret = json!({"metadata": {"name": name}, "type": kind, "stringData": data});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    ground.api::<Secret>("kube-system").create(&PostParams::default(), &secret).await.unwrap();
}

/// S25: ten Secrets, five of them broken each in one way.
#[tokio::test]
async fn ten_of_which_five_are_broken() {
    let ground = Ground::new().await;
    for id in ["aaaaa1", "aaaaa2", "aaaaa3"] {
        put(&ground, &format!("bootstrap-token-{id}"), &[("description", Some("for\u{1b}[2Jweb"))]).await;
    }
    put(&ground, "bootstrap-token-aaaaa4", &[("expiration", None)]).await;
    put(&ground, "bootstrap-token-aaaaa5", &[("expiration", Some("2026-01-01T01:00:00+02:00"))]).await;
    for (id, broken) in [
        ("bbbbb1", ("token-id", Some("BBBBB1"))),
        ("bbbb2", ("description", Some("an id of five"))),
        ("bbbbb3", ("expiration", Some("next week"))),
        ("bbbbb4", ("token-secret", None)),
        ("bbbbb5", ("type", Some("Opaque"))),
    ] {
        put(&ground, &format!("bootstrap-token-{id}"), &[broken]).await;
    }
    let said = ground.run(&["tokens", "list", "-o", "json"]).await;
    assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET));
    let list = said.json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 10, "{list:?}");
    let of = |id: &str| list.iter().find(|t| t["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    for id in ["aaaaa1", "aaaaa2", "aaaaa3", "aaaaa4", "aaaaa5"] {
        assert_eq!(of(id)["malformed"], Value::Null, "{id}");
        assert_eq!(of(id)["usages"], json!(["authentication", "signing"]));
    }
    assert_eq!(
        (&of("aaaaa4")["expires"], &of("aaaaa5")["expires"]),
        (&Value::Null, &json!("2025-12-31T23:00:00Z"))
    );
    for (id, why) in [
        ("bbbbb1", "its id is not 6"),
        ("bbbb2", "its id is not 6"),
        ("bbbbb3", "RFC 3339"),
        ("bbbbb4", "its secret part"),
        ("bbbbb5", "its type is not"),
    ] {
        let malformed = of(id)["malformed"].to_string();
        assert!(malformed.contains(why), "{id}: {malformed}");
    }
    let table = ground.run(&["tokens", "list"]).await.done();
    for word in ["never expires", "expired", "malformed: its type", " left", "new nodes"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    assert!(!table.contains('\u{1b}') && !table.contains(SECRET), "{table}");

    // What is broken can be thrown away like any other.
    let said =
        ground.run(&["tokens", "delete", "bbbb2", "bbbbb5", "nobody", &format!("aaaaa1.{SECRET}")]).await;
    assert_eq!((said.code, said.out.lines().count()), (3, 3), "{}{}", said.out, said.err);
    assert!(!format!("{}{}", said.out, said.err).contains(SECRET));
    assert_eq!(tokens::list(&ground.kube).await.unwrap().len(), 7);
}

async fn secrets(ground: &Ground) -> Vec<Secret> {
    ground.api::<Secret>("kube-system").list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn create_join_and_delete() {
    let ground = Ground::new().await;
    let before = Timestamp::now();
    let said = ground
        .run(&[
            "tokens",
            "create",
            "--ttl",
            "1h",
            "--group",
            "system:bootstrappers:web",
            "--description",
            "a rack",
        ])
        .await;
    assert_eq!(said.err, "");
    let token = BootstrapToken::parse(said.done().trim()).unwrap();
    let made = secrets(&ground).await.remove(0);
    let field = |key: &str| String::from_utf8(made.data.as_ref().unwrap()[key].0.clone()).unwrap();
    assert_eq!(made.metadata.name.as_deref(), Some(token.secret_name().as_str()));
    assert_eq!(made.type_.as_deref(), Some("bootstrap.kubernetes.io/token"));
    assert_eq!(field("auth-extra-groups"), "system:bootstrappers:web");
    assert_eq!(
        (field("usage-bootstrap-signing"), field("usage-bootstrap-authentication")),
        ("true".into(), "true".into())
    );
    assert!(field("expiration").ends_with('Z'));
    let lasts = field("expiration").parse::<Timestamp>().unwrap().duration_since(before);
    assert!((lasts - SignedDuration::from_hours(1)).abs() < SignedDuration::from_secs(60), "{lasts:?}");

    let join = ground.run(&["tokens", "join-command", token.id()]).await.done();
    let hash = "sha256:";
    assert!(
        join.starts_with(&format!(
            "kubeadm join [2001:db8::1]:6443 --token {} --discovery-token-ca-cert-hash {hash}",
            token.reveal()
        )),
        "{join}"
    );
    assert_eq!(join.trim().rsplit(hash).next().unwrap().len(), 64);
    let fresh = ground.run(&["tokens", "join-command"]).await.done();
    assert!(fresh.starts_with("kubeadm join ") && !fresh.contains(&token.reveal()), "{fresh}");
    assert_eq!(secrets(&ground).await.len(), 2);

    assert_eq!(
        ground.run(&["tokens", "delete", token.id()]).await.done(),
        format!("token {} deleted\n", token.id())
    );
    assert_eq!(ground.run(&["tokens", "delete", token.id()]).await.code, 3);
    assert_eq!(ground.run(&["tokens", "join-command", token.id()]).await.code, 3);

    let lines = ground.activity_file();
    let actions: Vec<&str> = lines.iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["create token", "create token", "delete token"]);
    assert_eq!(lines[0]["on"], json!(format!("token {}", token.id())));
    let told = ground.kube.activity("kube-system").await.unwrap();
    assert_eq!(told.len(), 3);
    let everything = format!("{lines:?}{told:?}");
    assert!(!everything.contains(token.secret()), "{everything}");
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let ground = Ground::new().await;
    put(&ground, "bootstrap-token-old000", &[("expiration", Some("2026-01-01T00:00:00Z"))]).await;
    for (arguments, code) in [
        (vec!["tokens", "create", "--group", "system:masters"], 2),
        (vec!["tokens", "create", "--ttl", "5s"], 2),
        (vec!["tokens", "create", "--ttl", "soon"], 2),
        (vec!["tokens", "join-command", "old000"], 2),
        (vec!["tokens", "join-command", "../secrets"], 3),
        (vec!["--read-only", "tokens", "create"], 4),
        (vec!["--read-only", "tokens", "join-command"], 4),
        (vec!["--read-only", "tokens", "delete", "old000"], 4),
    ] {
        let said = ground.run(&arguments).await;
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{arguments:?}: {}", said.err);
    }
    assert_eq!(secrets(&ground).await.len(), 1);
    // Without cluster-info nobody can join: no token is made for it.
    ground.api::<ConfigMap>("kube-public").delete("cluster-info", &DeleteParams::default()).await.unwrap();
    let said = ground.run(&["tokens", "join-command"]).await;
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no machine can join"), "{}", said.err);
    assert_eq!(secrets(&ground).await.len(), 1);
}

#[tokio::test]
async fn another_token_of_the_same_name_is_not_deleted() {
    let ground = Ground::new().await;
    put(&ground, "bootstrap-token-aaaaa1", &[]).await;
    let seen = tokens::list(&ground.kube).await.unwrap().remove(0);
    let api = ground.api::<Secret>("kube-system");
    api.delete(&seen.name, &DeleteParams::default()).await.unwrap();
    put(&ground, "bootstrap-token-aaaaa1", &[]).await;
    let error = tokens::delete(&ground.kube, &ground.permit(), &seen, "test").await.unwrap_err();
    assert!(error.to_string().contains("another has its name"), "{error}");
    assert_eq!(tokens::list(&ground.kube).await.unwrap().len(), 1);
}

/// An API server with as much of one as minting needs, whose signer does as told.
#[derive(Clone)]
struct Stub(Arc<Mutex<Told>>);

struct Told {
    /// When a token is signed; none: never.
    signs_after: Option<Duration>,
    /// Another token's signature is there.
    others: bool,
    /// What is signed is an earlier token of the same id.
    another: bool,
    /// The token cleaner takes each token at once.
    cleans: bool,
    token: Option<(Value, Instant)>,
    deleted: usize,
}

impl Stub {
    async fn start(told: Told) -> (Self, Kube, tempfile::TempDir) {
        let stub = Self(Arc::new(Mutex::new(told)));
        let secrets = "/api/v1/namespaces/kube-system/secrets";
        let router = Router::new()
            .route(secrets, post(Self::create))
            .route(&format!("{secrets}/{{name}}"), get(Self::secret).delete(Self::delete))
            .route("/api/v1/namespaces/kube-public/configmaps/cluster-info", get(Self::info))
            .route("/version", get(|| async { "{}" }))
            .with_state(stub.clone());
        let (kube, dir) = answering(router).await;
        (stub, kube, dir)
    }

    async fn create(State(stub): State<Self>, Json(secret): Json<Value>) -> (StatusCode, Json<Value>) {
        stub.0.lock().unwrap().token = Some((secret.clone(), Instant::now()));
        (StatusCode::CREATED, Json(secret))
    }

    async fn secret(State(stub): State<Self>, Path(_): Path<String>) -> (StatusCode, Json<Value>) {
        let told = stub.0.lock().unwrap();
        match &told.token {
            Some((secret, _)) if !told.cleans => (StatusCode::OK, Json(secret.clone())),
            _ => {
                let status = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "none"});
                (StatusCode::NOT_FOUND, Json(status))
            }
        }
    }

    async fn delete(State(stub): State<Self>, Path(_): Path<String>) -> Json<Value> {
        stub.0.lock().unwrap().deleted += 1;
        Json(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
    }

    async fn info(State(stub): State<Self>) -> Json<Value> {
        let told = stub.0.lock().unwrap();
        let mut data = json!({"kubeconfig": "x"});
        if told.others {
            data["jws-kubeconfig-others"] = json!("x..y");
        }
        if let (Some((secret, at)), Some(after)) = (&told.token, told.signs_after)
            && at.elapsed() >= after
        {
            let field = |key: &str| secret["stringData"][key].as_str().unwrap();
            let signing = if told.another { SECRET } else { field("token-secret") };
            let id = field("token-id");
            data[format!("jws-kubeconfig-{id}")] = json!(signature(id, signing, "x"));
        }
        Json(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info"}, "data": data}),
        )
    }
}

fn never() -> Told {
    Told { signs_after: None, others: false, another: false, cleans: false, token: None, deleted: 0 }
}

async fn minted(kube: &Kube, patience: Duration) -> Result<tokens::Minted, OpError> {
    let ground = Ground::new().await;
    let mut new = NewToken::for_node(Duration::from_secs(60), String::new(), Signer::Required);
    assert_eq!(new.signed_within, Some(tokens::SIGNED_WITHIN));
    new.signed_within = Some(patience);
    tokens::mint(kube, &ground.permit(), &new, "test").await
}

/// S25: a token is good for a host only once `cluster-info` is signed for it.
#[tokio::test]
async fn a_signature_that_comes_late_is_waited_for() {
    let late = Duration::from_secs(5);
    let (stub, kube, _dir) = Stub::start(Told { signs_after: Some(late), ..never() }).await;
    let start = Instant::now();
    minted(&kube, tokens::SIGNED_WITHIN).await.unwrap();
    assert!(start.elapsed() >= late);
    assert_eq!(stub.0.lock().unwrap().deleted, 0);
}

#[tokio::test]
async fn a_signature_that_does_not_come_is_explained_and_the_token_deleted() {
    for (told, said) in [
        (never(), "is the bootstrap signer on?"),
        (Told { others: true, ..never() }, "other tokens have one"),
        (Told { cleans: true, ..never() }, "the token is gone"),
        (Told { another: true, signs_after: Some(Duration::ZERO), ..never() }, "of another secret part"),
    ] {
        let (stub, kube, _dir) = Stub::start(told).await;
        let error = minted(&kube, Duration::from_millis(300)).await.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("got no signature"), "{error}");
        let secret =
            stub.0.lock().unwrap().token.clone().unwrap().0["stringData"]["token-secret"].to_string();
        assert!(!error.contains(secret.trim_matches('"')), "{error}");
        assert_eq!(stub.0.lock().unwrap().deleted, 1);
    }
}

/// S25: tokens end by the API server's clock; that one in another place is worth a word.
#[tokio::test]
async fn a_clock_that_differs_is_told() {
    for (ahead, said) in [(3600, "s ahead of this machine's"), (-3600, "s behind this machine's"), (0, "")] {
        let date = move || async move {
            let there = Timestamp::now() + SignedDuration::from_secs(ahead);
            (
                [(
                    "date",
                    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&there).unwrap(),
                )],
                "{}",
            )
        };
        let (kube, _dir) = answering(Router::new().route("/version", get(date))).await;
        let warning = tokens::clock_warning(&kube).await.unwrap_or_default();
        assert!(warning.contains(said) && warning.is_empty() == said.is_empty(), "{ahead}: {warning:?}");
        if let Some(seconds) = warning.split_whitespace().find_map(|word| word.parse::<i64>().ok()) {
            assert!((3500..3700).contains(&seconds), "{warning}");
        }
    }
}
