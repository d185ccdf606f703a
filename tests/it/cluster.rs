//! What is known of the cluster: from the loopback API, and a certificate as a server shows it.

use std::sync::Arc;

use hostwright::backend::kube::Kube;
use hostwright::config::Kubernetes;
use hostwright::domain::cluster::Served;
use hostwright::ops::cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use serde_json::{Value, json};

use crate::ground::{Ground, write_kubeconfig};
use crate::stage::CA;

#[tokio::test]
async fn the_cluster_is_shown_and_its_ca_printed() {
    let ground = Ground::new().await;
    let info = ground.run(&["cluster", "info", "-o", "json"]).await.json();
    assert_eq!(info["server"].as_str().unwrap().trim_end_matches('/'), ground.url);
    assert!(info["version"].as_str().unwrap().starts_with('v'), "{info}");
    assert_eq!(
        (&info["served"], &info["same_ca"], &info["problems"]),
        (&json!("plain"), &json!(true), &json!([]))
    );
    assert_eq!(info["join_server"], "https://[2001:db8::1]:6443");
    assert_eq!(info["join_ca"][0], info["root_ca"][0]);
    assert_eq!(info["root_ca"][0]["subject"], "CN=test-ca");
    let table = ground.run(&["cluster", "info"]).await.done();
    for word in ["plain HTTP", "CN=test-ca", "sha256:", "same CA", "yes"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    assert_eq!(ground.run(&["cluster", "ca"]).await.done(), CA);
}

#[tokio::test]
async fn the_token_in_the_playgrounds_address_is_not_shown() {
    let ground = Ground::loopback(|options| options.token = Some("hunter2".to_owned())).await;
    write_kubeconfig(
        ground.settings.environment.kubernetes.kubeconfig.as_ref().unwrap(),
        &format!("{}/hunter2", ground.url),
    );
    let said = ground.run(&["cluster", "info"]).await;
    assert!(!said.out.contains("hunter2") && !said.err.contains("hunter2"), "{}{}", said.out, said.err);
    assert!(said.done().contains("CN=test-ca"));
}

#[tokio::test]
async fn another_ca_and_a_missing_one_are_said() {
    let ground = Ground::new().await;
    let CertifiedKey { cert, .. } = generate_simple_self_signed(vec!["other".to_owned()]).unwrap();
    let ca = data_encoding::BASE64.encode(cert.pem().as_bytes());
    let cluster = json!({"server": "https://a:1", "certificate-authority-data": ca});
    let kubeconfig = json!({"clusters": [{"name": "", "cluster": cluster}]}).to_string();
    let patch = json!({"data": {"kubeconfig": kubeconfig}});
    let maps = ground.api::<ConfigMap>("kube-public");
    maps.patch("cluster-info", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let info = ground.run(&["cluster", "info", "-o", "json"]).await.json();
    assert_eq!(info["same_ca"], false);

    maps.delete("cluster-info", &DeleteParams::default()).await.unwrap();
    let said = ground.run(&["cluster", "info", "-o", "json"]).await;
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no machine can join"), "{}", said.err);
    let info: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&info["same_ca"], &info["join_ca"]), (&Value::Null, &json!([])));
    assert!(info["version"].is_string());
}

#[tokio::test]
async fn a_certificate_is_shown_as_it_is_served() {
    let names = ["api.example.org", "127.0.0.1", "2001:db8::1"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
        // The other side ends it once it has seen enough.
        while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok_and(|(read, _)| read > 0) {}
    });
    let dir = crate::support::temp();
    let kubeconfig = dir.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, &format!("https://127.0.0.1:{port}"));
    let place = Kubernetes { kubeconfig: Some(kubeconfig), context: None, namespace: None };
    rustls::crypto::ring::default_provider().install_default().ok();
    let kube = Kube::connect(&place).await.unwrap();
    let Served::Tls(seen) = cluster::served(&kube).await.unwrap() else { panic!("no TLS") };
    assert_eq!(seen.names, ["api.example.org", "127.0.0.1", "2001:db8::1"]);
    let hash = <sha2::Sha256 as sha2::Digest>::digest(cert.der());
    let hash: Vec<String> = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(seen.fingerprint, hash.join(":"));
    server.join().unwrap();
    let error = cluster::served(&kube).await.unwrap_err().to_string();
    assert!(error.contains("API server's certificate"), "{error}");
}
