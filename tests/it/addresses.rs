//! S18: addresses of both kinds, in URLs, and as what a host is known by.

use hostwright::backend::hook::Hook;
use hostwright::backend::kube::Kube;
use hostwright::config::Kubernetes;
use hostwright::domain::Phase;
use hostwright::ops;
use hostwright::play::api::{Api, Options};
use hostwright::server::{self, Context};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::ground::write_kubeconfig;
use crate::server::{Cluster, Server};
use crate::stage::{CA, settings_of};
use crate::support;

async fn on_v6() -> TcpListener {
    TcpListener::bind("[::1]:0").await.expect("this needs IPv6 on the loopback interface (::1)")
}

/// Everything listens on `::1` and is reached by URLs with it: the API server, the hook, the commands.
#[tokio::test(flavor = "multi_thread")]
async fn everything_on_the_loopback_of_ipv6_is_reached_by_its_literal() {
    let dir = support::temp();
    let stop = CancellationToken::new();
    let _ends = stop.clone().drop_guard();
    let listener = on_v6().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    assert!(url.starts_with("http://[::1]:"), "{url}");
    let options = Options::new(dir.path().join("logs"), CA, "https://[2001:db8::1]:6443");
    tokio::spawn(Api::open(options).unwrap().run(listener, stop.clone()));
    let kubeconfig = dir.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, &url);
    let none = std::path::Path::new("/nonexistent");
    let mut settings = settings_of(&kubeconfig, none, none, none, none);
    settings.server.networks = vec!["::1/128".parse().unwrap()];
    let listener = on_v6().await;
    let hook = listener.local_addr().unwrap();
    let context = Context::new(&settings).await.unwrap();
    tokio::spawn(server::run(listener, context, stop.clone()));

    // As a setting says where the server listens, which is where a machine of its own calls.
    settings.server.listen = hook;
    let to_hook = Hook::new(&settings).unwrap();
    let body = json!({"hostname": "v6.example.org", "groups": ["k8s_worker"]});
    to_hook.online(&settings.permit().unwrap(), &body).await.unwrap();
    let by_url = Hook::at(&format!("http://{hook}/"), None).unwrap();
    let body = json!({"hostname": "v4.example.org", "address": "192.0.2.7"});
    by_url.online(&settings.permit().unwrap(), &body).await.unwrap();
    let body = json!({"hostname": "both.example.org", "address": "2001:DB8:0::7"});
    by_url.online(&settings.permit().unwrap(), &body).await.unwrap();

    let place = Kubernetes { kubeconfig: Some(kubeconfig.clone()), context: None, namespace: None };
    let kube = Kube::connect(&place).await.unwrap();
    let address = async |host: &str| {
        let run = ops::runs::of_host(&kube, &host.parse().unwrap()).await.unwrap();
        assert_eq!(run.run.phase, Phase::Pending);
        run.announcement.address.unwrap().to_string()
    };
    assert_eq!(address("v6.example.org").await, "::1");
    assert_eq!(address("v4.example.org").await, "192.0.2.7");
    assert_eq!(address("both.example.org").await, "2001:db8::7");

    let config = dir.path().join("config.toml");
    let text = json!({"environments": {"test": {
        "kubernetes": {"kubeconfig": kubeconfig}, "policy": {"source": "/policy"}, "hook": format!("http://{hook}"),
    }}});
    std::fs::write(&config, toml::to_string(&text).unwrap()).unwrap();
    let said = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(support::exe());
        command.arg("--config").arg(&config).args(["-e", "test"]).args(arguments).kill_on_drop(true);
        let output = command.env("XDG_STATE_HOME", dir.path()).output().await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said(&["hosts", "list"]).await.contains("both.example.org"));
    assert!(said(&["cluster", "info"]).await.contains("https://[2001:db8::1]:6443"));
    said(&["hosts", "approve", "v6.example.org"]).await;
    let run = ops::runs::of_host(&kube, &"v6.example.org".parse().unwrap()).await.unwrap();
    assert_eq!(run.run.phase, Phase::Queued);
    assert!(said(&["tokens", "join-command"]).await.starts_with("kubeadm join [2001:db8::1]:6443 --token "));
}

/// Two spellings are one address: what was seen has not changed, and an approval of it holds.
#[tokio::test(flavor = "multi_thread")]
async fn two_spellings_of_an_address_are_one_announcement() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    for (host, one, other) in [
        ("a.example.org", "::ffff:10.0.0.1", "10.0.0.1"),
        ("b.example.org", "2001:DB8::1", "2001:db8:0:0:0::1"),
    ] {
        server.post(&json!({"hostname": host, "address": one})).await.run(202);
        let first = cluster.of(host).await;
        server.post(&json!({"hostname": host, "address": other})).await.run(200);
        let second = cluster.of(host).await;
        assert_eq!(first.run.digest, second.run.digest, "{host}");
        assert_eq!(second.announcement.address, Some(other.parse().unwrap()), "{host}");
        server.post(&json!({"hostname": host, "address": "192.0.2.99"})).await;
        assert_ne!(cluster.of(host).await.run.digest, first.run.digest, "{host}");
    }
}

/// A host is known by its name: of two with one address (behind one router) none is taken for the other.
#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_with_one_address_stay_two() {
    let cluster = Cluster::new().await;
    let server = Server::start(&cluster).await;
    let names = ["a.example.org", "b.example.org"];
    for (host, address) in names.iter().zip(["2001:db8::5", "2001:DB8:0::5"]) {
        server.post(&json!({"hostname": host, "address": address})).await.run(202);
    }
    let first = cluster.approve(names[0]).await;
    assert_eq!(cluster.of(names[1]).await.run.phase, Phase::Pending);
    assert_eq!(cluster.of(names[0]).await.run.uid, first.run.uid);
    // The address alone names nobody.
    let said = cluster.command(&["hosts", "show", "2001:db8::5"]);
    assert_ne!(said.status.code(), Some(0));
}
