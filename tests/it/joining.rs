//! Joining the cluster: a worker's bootstrap token from its minting to its end, and the files that the sample policy makes of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hostwright::agent::provision;
use hostwright::domain::Parameters;
use hostwright::domain::{BootstrapToken, ExitCode, Phase, RunDetails, run_token_id};
use hostwright::play::policy;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::journey::{Play, call_hook};
use crate::provision::until;
use crate::stage::{CA, HOST, PATIENCE, Stage, announcement, local, own, site, variables};
use crate::support;

/// A stage whose policy writes the token that it gets into a file.
async fn stage() -> Stage {
    let stage = Stage::new("").await;
    let task = format!(
        "- copy: {{dest: \"{}\", content: \"{{{{ hostwright_join.token }}}}\"}}\n  diff: false\n  no_log: true",
        stage.dir.path().join("token").display()
    );
    std::fs::write(stage.policy().join("site.yml"), local(&task)).unwrap();
    stage
}

fn given(stage: &Stage) -> BootstrapToken {
    BootstrapToken::parse(&std::fs::read_to_string(stage.dir.path().join("token")).unwrap()).unwrap()
}

/// The names of the run's token and no other.
fn only(run: &RunDetails) -> Vec<String> {
    vec![format!("bootstrap-token-{}", run_token_id(&run.run.uid))]
}

/// Waits until the pod has found the Node to be so.
async fn waits(log: &std::path::Path, words: &str) {
    until(|| std::fs::read_to_string(log).is_ok_and(|text| text.contains(words))).await;
}

#[tokio::test]
async fn a_worker_joins_and_its_token_is_gone() {
    let stage = stage().await;
    let run = stage.approved(&site(&["k8s_worker"])).await;
    let path = stage.dir.path().join("log");
    let out = tokio::fs::File::create(&path).await.unwrap();
    let running = provision::run(&stage.settings, own(&run), out, CancellationToken::new());
    let kubelet = async {
        waits(&path, &format!("node {HOST} is not there")).await;
        // As long as the host has not joined its token is good, and nobody takes the run for done.
        assert_eq!(stage.token_names().await, only(&run));
        assert_eq!(given(&stage).id(), run_token_id(&run.run.uid));
        assert_eq!(stage.again(&run).await.run.outcome, None);
        stage.node(HOST, false).await;
        waits(&path, "not ready: KubeletNotReady: said the kubelet").await;
        assert_eq!(stage.token_names().await, only(&run));
        stage.node(HOST, true).await;
    };
    let (exit, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(running, kubelet) }).await.unwrap();
    let log = std::fs::read_to_string(&path).unwrap();
    assert_eq!(exit, ExitCode::Ready, "{log}");
    assert_eq!((stage.tokens().await, stage.targets().await), (0, vec![]));
    let token = given(&stage);
    assert!(log.contains(&format!("bootstrap token {}.… deleted", token.id())), "{log}");
    assert!(!log.contains(token.secret()), "{log}");
    let outcome = stage.again(&run).await.run.outcome.unwrap();
    assert_eq!((outcome.exit, outcome.counts.unwrap().ok), (ExitCode::Ready, 1));

    // Another run of the same host finds it there, and does not wait.
    let run = stage.approved(&site(&["k8s_worker"])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::Ready);
    assert_ne!(given(&stage).id(), token.id());
    assert_eq!(stage.tokens().await, 0);
}

#[tokio::test]
async fn a_node_that_never_gets_ready_is_named_and_its_token_goes() {
    let mut stage = stage().await;
    for (join, token, there, words) in [
        (2, 600, None, "in time (provision.join_timeout)"),
        (2, 600, Some(false), "is there and not ready: KubeletNotReady: said the kubelet"),
        // The playbook takes longer than the token's two seconds.
        (600, 2, None, "when its bootstrap token ended (provision.token_lifetime)"),
    ] {
        stage.settings.provision.join_timeout = Duration::from_secs(join);
        stage.settings.provision.token_lifetime = Duration::from_secs(token);
        stage.settings.provision.signer = hostwright::config::Signer::Off;
        if let Some(ready) = there {
            stage.node(HOST, ready).await;
        }
        let run = stage.approved(&site(&["k8s_worker"])).await;
        let (exit, log) = stage.provision(&run).await;
        assert_eq!((exit, exit.code()), (ExitCode::NotJoined, 20), "{log}");
        assert!(log.contains("hostwright: not joined: the playbook went well (1 ok"), "{log}");
        assert!(log.contains(words), "{log}");
        assert_eq!(stage.tokens().await, 0);
        // Another attempt may mend it: it is noted, and ends nothing.
        let after = stage.again(&run).await.run;
        let attempt = after.last_attempt.unwrap();
        assert_eq!((after.outcome, attempt.exit), (None, ExitCode::NotJoined));
        assert!(attempt.text.contains(words) && attempt.counts.unwrap().ok == 1, "{}", attempt.text);
        assert_ne!(after.phase, Phase::Failed);
    }
    // As it does.
    let run = stage.approved(&site(&["k8s_worker"])).await;
    stage.node(HOST, true).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::Ready);
    assert_eq!(stage.tokens().await, 0);
}

#[tokio::test]
async fn a_pod_that_is_told_to_stop_while_it_waits_takes_its_token_back() {
    let stage = stage().await;
    let run = stage.approved(&site(&["k8s_worker"])).await;
    let path = stage.dir.path().join("log");
    let out = tokio::fs::File::create(&path).await.unwrap();
    let shutdown = CancellationToken::new();
    let running = provision::run(&stage.settings, own(&run), out, shutdown.clone());
    let stop = async {
        waits(&path, "is not there").await;
        shutdown.cancel();
    };
    let (exit, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(running, stop) }).await.unwrap();
    assert_eq!((exit, stage.tokens().await), (ExitCode::Interrupted, 0));
    assert_eq!(stage.again(&run).await.run.outcome, None);
}

/// Killed while it waits, again and again: a run has one token at most, and none in the end.
#[tokio::test]
async fn a_pod_that_is_killed_while_it_waits_leaves_one_token_to_the_next_and_that_one_none() {
    let stage = stage().await;
    let run = stage.approved(&site(&["k8s_worker"])).await;
    let config = stage.config();
    let pod = |attempt: u32| {
        let path = stage.dir.path().join(format!("log-{attempt}"));
        let out = std::fs::File::create(&path).unwrap();
        let mut command = tokio::process::Command::new(support::exe());
        command.args(["leash", "--"]).arg(support::exe()).arg("provision").kill_on_drop(true);
        command.envs(variables(&run)).env("HOSTWRIGHT_CONFIG", &config).env("HOSTWRIGHT_ENV", "test");
        command.stdin(Stdio::piped()).stdout(out);
        (command.spawn().unwrap(), path)
    };
    let mut secrets = Vec::new();
    for attempt in 0..2 {
        let (mut leash, path) = pod(attempt);
        waits(&path, "is not there").await;
        assert_eq!(stage.token_names().await, only(&run));
        secrets.push(given(&stage).secret().to_owned());
        let id = leash.id().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        leash.wait().await.unwrap();
        // It could take nothing back.
        assert_eq!(stage.token_names().await, only(&run));
    }
    assert_ne!(secrets[0], secrets[1]);
    stage.node(HOST, true).await;
    let (mut leash, path) = pod(2);
    // The leash is held until the program has ended.
    let held = leash.stdin.take();
    let ended = tokio::time::timeout(PATIENCE, leash.wait()).await.unwrap().unwrap();
    drop(held);
    let log = std::fs::read_to_string(path).unwrap();
    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(!secrets.contains(&given(&stage).secret().to_owned()));
    assert_eq!((stage.tokens().await, stage.left_in_work()), (0, vec![]));
}

/// S25: what others made by hand and wrongly is warned about, passed over, and left alone.
#[tokio::test]
async fn malformed_tokens_of_others_are_passed_over() {
    use k8s_openapi::api::core::v1::Secret;
    let stage = stage().await;
    let secrets: kube::Api<Secret> = kube::Api::namespaced(stage.client(), "kube-system");
    for (id, field, value) in [
        ("aaaaa1", "token-id", "AAAAA1"),
        ("aaaa2", "token-secret", "0123456789abcdef"),
        ("aaaaa3", "expiration", "next week"),
        ("aaaaa4", "token-secret", "short"),
        ("aaaaa5", "auth-extra-groups", "system:masters"),
    ] {
        let mut secret = json!({
            "metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id, "token-secret": "0123456789abcdef", "expiration": "2126-01-01T00:00:00Z",
                "usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
            },
        });
        secret["stringData"][field] = value.into();
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&kube::api::PostParams::default(), &secret).await.unwrap();
    }
    let before = stage.token_names().await;
    stage.node(HOST, true).await;
    let run = stage.approved(&site(&["k8s_worker"])).await;
    assert_eq!(stage.provision(&run).await.0, ExitCode::Ready);
    assert_eq!(stage.token_names().await, before);
    let mut command = tokio::process::Command::new(support::exe());
    command.arg("--config").arg(stage.config()).args(["-e", "test", "tokens", "list"]).kill_on_drop(true);
    let said = command.output().await.unwrap();
    let table = String::from_utf8(said.stdout).unwrap();
    assert_eq!((said.status.code(), table.matches("malformed").count()), (Some(0), 5), "{table}");
}

/// What a host may say of itself to get more into a file than a value.
const HOSTILE: &str = "MARK\" ' \n  token: evil\nserver evil 192.0.2.66:6443\n- {{ lookup('pipe', 'id') }} {% for %} !!python/x";

/// A stage with the sample policy, whose hosts are folders in it.
async fn sample(stage: Stage, more: &[(&str, Value)]) -> Stage {
    let mut stage = stage;
    let folder = stage.dir.path().join("sample");
    policy::unpack(&folder).await.unwrap();
    stage.settings.environment.policy.source = folder.to_string_lossy().into_owned();
    let variables = &mut stage.settings.environment.policy.variables;
    variables.insert("hosts_dir".to_owned(), json!(stage.dir.path().join("hosts")));
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    stage
}

fn file(stage: &Stage, name: &str) -> PathBuf {
    stage.dir.path().join("hosts").join(HOST).join(name)
}

fn read(stage: &Stage, name: &str) -> String {
    std::fs::read_to_string(file(stage, name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Provisions the host, which says hostile things of itself, in these groups.
async fn provisioned(stage: &Stage, groups: &[&str]) -> (ExitCode, String) {
    let facts = json!({"kernel": HOSTILE, HOSTILE: [HOSTILE, {"token": HOSTILE}], "cluster_domain": HOSTILE});
    let run = stage.approved_for(&announcement(&facts), &site(groups)).await;
    let done = stage.provision(&run).await;
    // It came as far as the host, as data.
    assert!(read(stage, "etc/hostwright/facts.json").contains("{{ lookup('pipe', 'id') }}"));
    done
}

/// A kubeconfig, strictly: `v1.Config` of client-go, as far as one for bootstrapping has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KubeConfig {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
    contexts: Vec<NamedContext>,
    current_context: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    token: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    cluster: String,
    user: String,
}

/// `KubeletConfiguration` (`kubelet.config.k8s.io/v1beta1`), as far as the policy writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kubelet {
    api_version: String,
    kind: String,
    authentication: Authentication,
    authorization: Authorization,
    #[serde(rename = "clusterDNS")]
    cluster_dns: Vec<IpAddr>,
    cluster_domain: String,
    rotate_certificates: bool,
    #[serde(rename = "serverTLSBootstrap")]
    server_tls_bootstrap: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Authentication {
    anonymous: Enabled,
    webhook: Enabled,
    x509: X509,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enabled {
    enabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct X509 {
    #[serde(rename = "clientCAFile")]
    client_ca_file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Authorization {
    mode: String,
}

/// `JoinConfiguration` (`kubeadm.k8s.io/v1beta4`), as far as the policy writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Join {
    api_version: String,
    kind: String,
    node_registration: Registration,
    discovery: Discovery,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registration {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Discovery {
    bootstrap_token: Discover,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Discover {
    token: String,
    api_server_endpoint: String,
    ca_cert_hashes: Vec<String>,
}

fn strictly<T: for<'de> Deserialize<'de>>(stage: &Stage, name: &str) -> T {
    let text = read(stage, name);
    assert!(!text.contains("MARK") && !text.contains("evil"), "{name}: {text}");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"))
}

/// S18, S25: what the sample policy gives kubelet and kubeadm, by real Ansible, for each form of the API server's address.
#[tokio::test]
async fn kubelet_and_kubeadm_can_read_what_they_are_given() {
    let stage = sample(Stage::new("").await, &[("kubelet_is_played", json!(false))]).await;
    stage.node(HOST, true).await;
    for (url, server) in [
        ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443"),
        ("https://192.0.2.10:6443", "192.0.2.10:6443"),
        ("https://api.example.org", "api.example.org:443"),
    ] {
        stage.joins_at(url).await;
        let (exit, log) = provisioned(&stage, &["k8s_worker"]).await;
        assert_eq!(exit, ExitCode::Ready, "{log}");

        let bootstrap: KubeConfig = strictly(&stage, "etc/kubernetes/bootstrap-kubelet.conf");
        assert_eq!((bootstrap.api_version.as_str(), bootstrap.kind.as_str()), ("v1", "Config"));
        let ([cluster], [user], [context]) =
            (&bootstrap.clusters[..], &bootstrap.users[..], &bootstrap.contexts[..])
        else {
            panic!("more than one of a kind");
        };
        assert_eq!((&context.context.cluster, &context.context.user), (&cluster.name, &user.name));
        assert_eq!(bootstrap.current_context, context.name);
        assert_eq!(cluster.cluster.server, url);
        let ca = data_encoding::BASE64.decode(cluster.cluster.certificate_authority_data.as_bytes());
        assert_eq!(String::from_utf8(ca.unwrap()).unwrap(), CA);
        assert_eq!(read(&stage, "etc/kubernetes/pki/ca.crt").trim(), CA.trim());
        let token = BootstrapToken::parse(&user.user.token).unwrap();
        assert!(!log.contains(token.secret()), "{log}");

        let join: Join = strictly(&stage, "etc/kubernetes/join.yaml");
        assert_eq!(
            (join.api_version.as_str(), join.kind.as_str()),
            ("kubeadm.k8s.io/v1beta4", "JoinConfiguration")
        );
        let discover = join.discovery.bootstrap_token;
        assert_eq!(
            (join.node_registration.name.as_str(), discover.api_server_endpoint.as_str()),
            (HOST, server)
        );
        assert_eq!(discover.token, token.reveal());
        let [hash] = &discover.ca_cert_hashes[..] else { panic!("{:?}", discover.ca_cert_hashes) };
        assert_eq!(hash.strip_prefix("sha256:").map(str::len), Some(64));

        let kubelet: Kubelet = strictly(&stage, "var/lib/kubelet/config.yaml");
        assert_eq!(
            (kubelet.api_version.as_str(), kubelet.kind.as_str()),
            ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration")
        );
        let Authentication { anonymous, webhook, x509 } = kubelet.authentication;
        assert_eq!((anonymous.enabled, webhook.enabled), (false, true));
        assert_eq!(x509.client_ca_file, PathBuf::from("/etc/kubernetes/pki/ca.crt"));
        assert_eq!((kubelet.authorization.mode.as_str(), kubelet.cluster_dns.len()), ("Webhook", 1));
        assert_eq!(kubelet.cluster_domain, "cluster.local");
        assert!(kubelet.rotate_certificates && kubelet.server_tls_bootstrap);
        assert_eq!(
            read(&stage, "etc/default/kubelet"),
            format!("KUBELET_EXTRA_ARGS=--hostname-override={HOST}\n")
        );
    }
}

/// S18: what the sample policy gives HAProxy, by real Ansible, is a configuration to a real HAProxy.
#[tokio::test]
async fn haproxy_takes_addresses_of_both_kinds_and_names() {
    let servers = json!([
        {"name": "api-1", "address": "192.0.2.11:6443"},
        {"name": "api-2", "address": "[2001:db8::12]:6443"},
        {"name": "api-3", "address": "ipv6@[2001:db8::13]:6443"},
        // Nobody knows it yet: that keeps the others from nothing.
        {"name": "api-4", "address": "api-4.example.invalid:6443"},
    ]);
    for bind in [":::6443 v4v6", "127.0.0.1:6443", "[::1]:6443"] {
        let more = [("api_servers", servers.clone()), ("haproxy_bind", json!(bind))];
        let stage = sample(Stage::new("").await, &more).await;
        let (exit, log) = provisioned(&stage, &["k8s_controller"]).await;
        assert_eq!(exit, ExitCode::Ready, "{log}");
        let root = file(&stage, "etc/haproxy/kube-root-ca.crt");
        assert_eq!(std::fs::read_to_string(&root).unwrap().trim(), CA.trim());
        let path = file(&stage, "etc/haproxy/haproxy.cfg");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("MARK") && !text.contains("evil"), "{text}");
        assert!(text.contains(&format!("ca-file {}", root.display())), "{text}");
        let listed: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("server ")?.split_once(' ')).collect();
        assert_eq!(listed.len(), 4, "{text}");
        assert_eq!(listed["api-2"], "[2001:db8::12]:6443");
        let checked = haproxy(&path).await;
        assert_eq!(checked.0, Some(0), "{}", checked.1);
        // It is no program that takes everything.
        let broken = stage.dir.path().join("broken.cfg");
        std::fs::write(&broken, text.replace("[2001:db8::12]:6443", "2001:db8::12:port")).unwrap();
        assert_eq!(haproxy(&broken).await.0, Some(1));
    }
}

async fn haproxy(path: &std::path::Path) -> (Option<i32>, String) {
    // Debian keeps it where a user's PATH does not reach.
    let places = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = tokio::process::Command::new("haproxy");
    command.arg("-c").arg("-f").arg(path).env("PATH", places).kill_on_drop(true);
    let said = command.output().await.expect("haproxy is missing: apt-get install haproxy");
    (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
}

/// As in the playground: the policy does the kubelet's part with the token, and the run ends when the host has joined.
#[tokio::test]
async fn a_worker_of_the_playground_becomes_a_node() {
    let stage = sample(Stage::loopback("").await, &[]).await;
    stage.joins_at(stage.kube.server().trim_end_matches('/')).await;
    let check = Parameters { check: true, ..site(&["k8s_worker"]) };
    let run = stage.approved(&check).await;
    let (exit, log) = stage.provision(&run).await;
    assert_eq!((exit, stage.kube.node(HOST).await.unwrap()), (ExitCode::Ready, None), "{log}");
    for again in [false, true] {
        let (exit, log) = provisioned(&stage, &["k8s_worker"]).await;
        assert_eq!(exit, ExitCode::Ready, "{log}");
        assert!(stage.kube.node(HOST).await.unwrap().unwrap().ready);
        assert!(log.contains(&format!("node {HOST} is ready")) && log.contains("deleted"), "{log}");
        assert_eq!(stage.tokens().await, 0, "{again}");
        let text = read(&stage, "etc/kubernetes/bootstrap-kubelet.conf");
        let kubeconfig: KubeConfig = serde_saphyr::from_str(&text).unwrap();
        let token = &kubeconfig.users[0].user.token;
        assert!(!log.contains(token), "{log}");
        // What is left on the host opens nothing any more.
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}api/v1/nodes/{HOST}", stage.kube.server());
        let answer = client.get(url).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), 401);
    }
}

/// The whole of it in the playground: a worker and a controller call, are approved, and join; nothing of the token is left or recorded.
#[tokio::test(flavor = "multi_thread")]
async fn in_the_playground_a_worker_joins_and_a_controller_gets_the_root_ca() {
    let play = Play::start(&["--no-machines"]).await;
    let (worker, controller) = ("node-1.play.test", "control-1.play.test");
    for (host, group) in [(worker, "k8s_worker"), (controller, "k8s_controller")] {
        let (status, said) = call_hook(&play, &json!({"hostname": host, "groups": [group]})).await;
        assert_eq!(status, 202, "{said}");
    }
    let approved = play.run(&["hosts", "approve", worker, controller, "--wait"]);
    let log = String::from_utf8(play.run(&["runs", "logs", worker]).stdout).unwrap();
    assert!(approved.status.success(), "{}\n{log}", String::from_utf8_lossy(&approved.stderr));
    assert!(log.contains(&format!("node {worker} is ready")), "{log}");
    assert_eq!(play.json(&["tokens", "list"]), json!([]));
    let place = hostwright::config::Kubernetes {
        kubeconfig: Some(PathBuf::from(play.url("kubeconfig"))),
        context: None,
        namespace: None,
    };
    let kube = hostwright::backend::kube::Kube::connect(&place).await.unwrap();
    assert!(kube.node(worker).await.unwrap().unwrap().ready);
    assert_eq!(kube.node(controller).await.unwrap(), None);

    let hosts = play.folder.path().join("play/hosts");
    let read = |name: &str| std::fs::read_to_string(hosts.join(name)).unwrap();
    let ca = String::from_utf8(play.run(&["cluster", "ca"]).stdout).unwrap();
    assert_eq!(read(&format!("{controller}/etc/haproxy/kube-root-ca.crt")).trim(), ca.trim());
    let text = read(&format!("{worker}/etc/kubernetes/bootstrap-kubelet.conf"));
    let kubeconfig: KubeConfig = serde_saphyr::from_str(&text).unwrap();
    let token = BootstrapToken::parse(&kubeconfig.users[0].user.token).unwrap();
    let results = play.json(&["runs", "results", worker]).to_string();
    assert!(results.contains("The Node is ready"), "{results}");
    assert!(!results.contains(token.secret()) && !log.contains(token.secret()));
}
