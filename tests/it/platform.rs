//! Bring-up against a real AWS server; what it makes is tried with OpenSSL, OpenSSH and a real etcd of three members.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hostwright::play::leash::{Leashed, command};
use serde_json::{Value, json};

use crate::cloud::{Cloud, Desk};
use crate::support;

const STEPS: [&str; 7] = ["check", "buckets", "fetch", "key-pair", "certificates", "upload", "manifests"];

/// A desk whose environment has no bucket yet.
pub(crate) async fn desk(name: &str) -> (Cloud, Desk) {
    let mut cloud = Cloud::new().await;
    cloud.bucket = format!("{name}-{}", std::process::id());
    let desk = Desk::new(&cloud);
    let read = |file: &str| std::fs::read_to_string(desk.path().join(file)).unwrap();
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/manifests");
    desk.write("config.toml", &format!("{}manifests = \"{}\"\n", read("config.toml"), manifests.display()));
    let variables = "environments/staging.tfvars";
    let terraform = format!("{}-terraform", cloud.bucket);
    desk.write(variables, &read(variables).replace("staging-terraform", &terraform));
    (cloud, desk)
}

/// The steps of a bring-up by name.
pub(crate) async fn bring_up(desk: &Desk, args: &[&str]) -> BTreeMap<String, Value> {
    let said = desk.json(&[&["platform", "bring-up"], args].concat()).await;
    let steps = said.as_array().unwrap();
    steps.iter().map(|step| (step["step"].as_str().unwrap().to_owned(), step.clone())).collect()
}

fn changed(step: &Value) -> Vec<String> {
    step["changed"].as_array().unwrap().iter().map(|key| key.as_str().unwrap().to_owned()).collect()
}

/// What is in the local copy, with what it holds.
fn files(desk: &Desk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![desk.copy()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with(".hostwright") => {}
                true => waiting.push(path),
                false => drop(files.insert(path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    files
}

/// Runs a program, which is to end well, and returns what it printed.
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: tests/run installs it"));
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {text}");
    text
}

#[tokio::test]
async fn from_nothing_to_uploaded_secrets_and_pushed_manifests_and_again_nothing_changes() {
    let (cloud, desk) = desk("bring-up").await;
    let dry = bring_up(&desk, &["--dry-run"]).await;
    assert_eq!(changed(&dry["buckets"]).len(), 2, "{dry:?}");
    assert!(!desk.copy().exists(), "a look ahead makes nothing");

    let first = bring_up(&desk, &[]).await;
    for step in STEPS {
        assert_eq!(first[step]["state"], "done", "{first:?}");
    }
    // Each says beforehand what it then makes.
    for step in ["buckets", "key-pair", "certificates"] {
        let mut made = [changed(&first[step]), changed(&dry[step])];
        made.iter_mut().for_each(|keys| keys.sort());
        assert_eq!(made[0], made[1], "{step}");
    }
    assert_eq!(changed(&first["upload"]).len(), files(&desk).len());
    assert!(changed(&first["manifests"]).contains(&"platform/settings.yaml".to_owned()));

    let before = files(&desk);
    let again = bring_up(&desk, &[]).await;
    for step in STEPS {
        assert_eq!((changed(&again[step]), &again[step]["state"]), (Vec::new(), &json!("done")), "{again:?}");
    }
    assert_eq!(files(&desk), before);
    // Somebody else at another desk gets the same and makes nothing.
    let other = Desk::new(&cloud);
    for file in ["config.toml", "environments/staging.tfvars"] {
        std::fs::copy(desk.path().join(file), other.path().join(file)).unwrap();
    }
    let theirs = bring_up(&other, &[]).await;
    assert_eq!(changed(&theirs["fetch"]).len(), before.len());
    for step in ["buckets", "key-pair", "certificates", "upload", "manifests"] {
        assert_eq!(changed(&theirs[step]), Vec::<String>::new(), "{theirs:?}");
    }
    let rows = desk.json(&["secrets", "status"]).await;
    let text = rows.to_string();
    assert!(!text.contains("PRIVATE KEY"), "{text}");
}

#[tokio::test]
async fn only_what_is_missing_is_made_and_what_cannot_be_made_whole_is_said() {
    let (_cloud, desk) = desk("partly").await;
    let read_only = desk.run(&["--read-only", "platform", "bring-up"]).await;
    assert_eq!(read_only.code, 4, "{read_only:?}");
    let early = desk.run(&["platform", "bring-up", "upload"]).await;
    assert!(early.code != 0, "without a bucket: {early:?}");
    bring_up(&desk, &[]).await;
    let before = files(&desk);

    // A certificate that is gone here and there comes back for the same key; a lost kubeconfig has the token that its user has.
    let gone = ["secure/pki/etcd-peer.crt", "compute/kubeconfig/proxy.yaml"];
    let removed = desk.run(&[&["secrets", "rm"], gone.as_slice()].concat()).await;
    assert_eq!(removed.code, 0, "{removed:?}");
    let again = bring_up(&desk, &[]).await;
    let mut made = changed(&again["certificates"]);
    made.sort();
    assert_eq!(made, ["compute/kubeconfig/proxy.yaml", "secure/pki/etcd-peer.crt"], "{again:?}");
    let now = files(&desk);
    let path = |key: &str| desk.copy().join(key);
    assert_eq!(now[&path(gone[1])], before[&path(gone[1])], "the same token");
    assert_ne!(now[&path(gone[0])], before[&path(gone[0])]);
    let others = now.iter().filter(|(file, _)| **file != path(gone[0]));
    assert!(others.clone().all(|(file, bytes)| before[file] == *bytes), "nothing else was touched");

    // The CA without its key signs nothing.
    for key in ["locked/pki/ca.key", "secure/pki/etcd-peer.crt"] {
        assert_eq!(desk.run(&["secrets", "rm", key]).await.code, 0);
    }
    let said = desk.run(&["platform", "bring-up"]).await;
    assert!(said.code == 4 && said.err.contains("locked/pki/ca.key is not"), "{said:?}");
    assert!(said.out.contains("key-pair"), "what came before is told: {said:?}");
}

#[tokio::test]
async fn a_certificate_is_renewed_when_the_environment_has_another_name_for_it() {
    let (_cloud, desk) = desk("renew").await;
    bring_up(&desk, &[]).await;
    assert_eq!(desk.run(&["platform", "certificates"]).await.code, 0);
    let variables = desk.path().join("environments/staging.tfvars");
    let text = std::fs::read_to_string(&variables)
        .unwrap()
        .replace("kubeapi_dns = \"kube\"", "kubeapi_dns = \"api\"");
    std::fs::write(&variables, text).unwrap();
    let said = desk.run(&["platform", "certificates"]).await;
    assert!(said.code == 1 && said.out.contains("does not name api.example.org"), "{said:?}");
    let noted = bring_up(&desk, &["certificates"]).await;
    assert!(noted["certificates"]["notes"].to_string().contains("platform renew secure/pki/kubeapi-server"));

    let before = files(&desk);
    let unknown = desk.run(&["platform", "renew", "secure/pki/nothing"]).await;
    assert_eq!(unknown.code, 3, "{unknown:?}");
    let renewed = desk.json(&["platform", "renew"]).await;
    assert_eq!(changed(&renewed), ["secure/pki/kubeapi-server.key", "secure/pki/kubeapi-server.crt"]);
    let differing: Vec<_> = files(&desk).into_iter().filter(|(file, bytes)| before[file] != *bytes).collect();
    assert_eq!(differing.len(), 2);
    assert_eq!(desk.run(&["platform", "certificates"]).await.code, 0);
    let uploaded = desk.json(&["secrets", "upload"]).await;
    assert!(uploaded.to_string().contains("kubeapi-server.crt"), "{uploaded}");
}

#[tokio::test]
async fn openssl_and_openssh_take_what_was_made() {
    let (_cloud, desk) = desk("openssl").await;
    bring_up(&desk, &[]).await;
    let copy = desk.copy();
    let at = |key: &str| copy.join(key).display().to_string();
    let listed = desk.json(&["platform", "certificates"]).await;
    let keys: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), 10);
    for key in keys.iter().filter(|key| **key != "common/pki/ca.crt") {
        let purposes: &[&str] = match *key {
            key if key.contains("etcd-server") || key.contains("etcd-peer") => &["sslserver", "sslclient"],
            key if key.contains("client") => &["sslclient"],
            _ => &["sslserver"],
        };
        for purpose in purposes {
            let args = [
                "verify",
                "-x509_strict",
                "-purpose",
                purpose,
                "-CAfile",
                &at("common/pki/ca.crt"),
                &at(key),
            ];
            assert!(run("openssl", &args).contains(": OK"));
        }
        let of_key = run("openssl", &["pkey", "-pubout", "-in", &at(&key.replace(".crt", ".key"))]);
        assert_eq!(run("openssl", &["x509", "-noout", "-pubkey", "-in", &at(key)]), of_key, "{key}");
    }
    let server = at("secure/pki/kubeapi-server.crt");
    for name in ["kube.example.org", "kube-int.lan.example.org", "kubernetes.default.svc", "localhost"] {
        run("openssl", &["verify", "-verify_hostname", name, "-CAfile", &at("common/pki/ca.crt"), &server]);
    }
    run("openssl", &["verify", "-verify_ip", "10.96.0.1", "-CAfile", &at("common/pki/ca.crt"), &server]);
    let public = run("openssl", &["pkey", "-pubout", "-in", &at("secure/pki/service-account.key")]);
    assert_eq!(public, std::fs::read_to_string(at("secure/pki/service-account.pub")).unwrap());
    let public = run("ssh-keygen", &["-y", "-f", &at("locked/ssh/id_ed25519")]);
    let words = |text: &str| text.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&public), words(&std::fs::read_to_string(at("locked/ssh/id_ed25519.pub")).unwrap()));
    for key in ["locked/kubeconfig/admin.yaml", "secure/kube-auth/authentication.yaml"] {
        let config = kube::config::Kubeconfig::read_from(at(key)).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert!(cluster.server.as_ref().unwrap().starts_with("https://"));
        assert_eq!(cluster.insecure_skip_tls_verify, None);
    }
}

/// A member of etcd on a leash.
fn member(copy: &Path, data: &Path, number: usize, ports: &[(u16, u16)]) -> Leashed {
    let pki = |name: &str, end: &str| copy.join(format!("secure/pki/{name}.{end}")).into_os_string();
    let ca = || copy.join("common/pki/ca.crt").into_os_string();
    let (client, peer) = ports[number];
    let of = |port: u16| format!("https://127.0.0.1:{port}");
    let cluster: Vec<String> =
        ports.iter().enumerate().map(|(n, (_, peer))| format!("node{n}={}", of(*peer))).collect();
    let texts = [
        ("--name", format!("node{number}")),
        ("--data-dir", data.join(number.to_string()).display().to_string()),
        ("--listen-client-urls", of(client)),
        ("--advertise-client-urls", of(client)),
        ("--listen-peer-urls", of(peer)),
        ("--initial-advertise-peer-urls", of(peer)),
        ("--initial-cluster", cluster.join(",")),
        ("--log-level", "error".to_owned()),
    ];
    let mut args: Vec<OsString> =
        texts.into_iter().flat_map(|(flag, text)| [flag.into(), text.into()]).collect();
    for (flag, file) in [
        ("--cert-file", pki("etcd-server", "crt")),
        ("--key-file", pki("etcd-server", "key")),
        ("--trusted-ca-file", ca()),
        ("--peer-cert-file", pki("etcd-peer", "crt")),
        ("--peer-key-file", pki("etcd-peer", "key")),
        ("--peer-trusted-ca-file", ca()),
    ] {
        args.extend([flag.into(), file]);
    }
    args.extend(["--client-cert-auth".into(), "--peer-client-cert-auth".into()]);
    let grace = Duration::from_secs(5);
    let mut command = command(support::exe(), grace, OsStr::new("etcd"), args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Leashed::spawn(command).unwrap()
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A client of etcd's HTTP gateway; with the certificate of the API server, or with none.
fn client(copy: &Path, with_certificate: bool) -> reqwest::Client {
    let read = |key: &str| std::fs::read(copy.join(key)).unwrap();
    let ca = reqwest::Certificate::from_pem(&read("common/pki/ca.crt")).unwrap();
    let builder = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().timeout(Duration::from_secs(5));
    let builder = match with_certificate {
        true => {
            let pem =
                [read("secure/pki/kubeapi-etcd-client.crt"), read("secure/pki/kubeapi-etcd-client.key")];
            builder.identity(reqwest::Identity::from_pem(&pem.concat()).unwrap())
        }
        false => builder,
    };
    builder.build().unwrap()
}

#[tokio::test]
async fn three_members_of_etcd_run_with_the_fetched_secrets() {
    let (cloud, desk) = desk("etcd").await;
    bring_up(&desk, &[]).await;
    // The nodes have what was fetched, not what was made.
    let node = Desk::new(&cloud);
    assert_eq!(node.run(&["secrets", "fetch", "common", "secure"]).await.code, 0);
    let (copy, data) = (node.copy(), support::temp());
    let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
    let mut members: Vec<Leashed> = (0..3).map(|n| member(&copy, data.path(), n, &ports)).collect();

    let url = |n: usize, path: &str| format!("https://127.0.0.1:{}{path}", ports[n].0);
    let post = async |client: &reqwest::Client, n: usize, path: &str, body: Value| {
        client.post(url(n, path)).json(&body).send().await?.json::<Value>().await
    };
    let ours = client(&copy, true);
    let until = Instant::now() + Duration::from_secs(60);
    // With a majority a write is taken.
    let put = json!({"key": data_encoding::BASE64.encode(b"a"), "value": data_encoding::BASE64.encode(b"b")});
    loop {
        match post(&ours, 0, "/v3/kv/put", put.clone()).await {
            Ok(answer) if answer.get("header").is_some() => break,
            other => assert!(Instant::now() < until, "etcd does not take a write: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let got = post(&ours, 2, "/v3/kv/range", json!({"key": put["key"]})).await.unwrap();
    assert_eq!(got["kvs"][0]["value"], put["value"], "{got}");
    let listed = post(&ours, 1, "/v3/cluster/member/list", json!({})).await.unwrap();
    assert_eq!(listed["members"].as_array().unwrap().len(), 3, "{listed}");
    let stranger = client(&copy, false);
    assert!(
        post(&stranger, 0, "/v3/kv/range", json!({"key": put["key"]})).await.is_err(),
        "without a certificate"
    );
    for member in &mut members {
        member.stop().await.unwrap();
    }
}
