//! The API server's manifest of the secure layer, with kube-auth: its flags and files, and with `KUBEBUILDER_ASSETS` a real API server
//! that is started with them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hostwright::play::leash::{Leashed, command};
use serde_json::{Value, json};

use crate::cloud::Desk;
use crate::platform::{bring_up, desk, free_port};
use crate::support;

const GRACE: Duration = Duration::from_secs(5);

/// The static pods of a secure node, whose files are those of the local copy.
async fn pods(desk: &Desk) -> Vec<Value> {
    let variables = desk.path().join("environments/staging.tfvars");
    let text = std::fs::read_to_string(&variables).unwrap();
    let more = format!(
        "sync_folder = \"{}\"\nhostwright_image = \"registry.example.org/hostwright:0.1.0\"\n",
        desk.copy().display()
    );
    std::fs::write(&variables, text + &more).unwrap();
    bring_up(desk, &[]).await;
    let said = desk.run(&["manifests", "render", "secure"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    serde_saphyr::from_multiple(&said.out).unwrap()
}

/// The command of a pod.
fn arguments(pods: &[Value], name: &str) -> Vec<String> {
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name).unwrap();
    let command = pod["spec"]["containers"][0]["command"].as_array().unwrap();
    command.iter().map(|part| part.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_file_that_the_secure_nodes_pods_name_is_one_that_bring_up_made() {
    let (_cloud, desk) = desk("secure").await;
    let pods = pods(&desk).await;
    let names: Vec<&str> = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["kube-apiserver", "kube-auth"]);
    let copy = desk.copy().display().to_string();
    let mut files = 0;
    for argument in names.iter().flat_map(|name| arguments(&pods, name)) {
        if let Some((_, file)) = argument.split_once('=').filter(|(_, file)| file.starts_with(&copy)) {
            assert!(Path::new(file).is_file(), "{argument}");
            assert!(!file.contains("/locked/"), "{argument}");
            files += 1;
        }
    }
    assert_eq!(files, 18);
    let image = |pod: &Value| pod["spec"]["containers"][0]["imagePullPolicy"].clone();
    assert!(pods.iter().all(|pod| image(pod) == "IfNotPresent"));
}

/// A secure node of one: etcd, kube-auth and the API server with the commands of the manifests, but for addresses and ports.
struct Node {
    url: String,
    copy: PathBuf,
    data: PathBuf,
    _programs: [Leashed; 3],
}

fn spawn(program: &Path, args: Vec<OsString>, log: &Path) -> Leashed {
    let mut command = command(support::exe(), GRACE, OsStr::new(program), args);
    let log = std::fs::File::create(log).unwrap();
    command.stdout(Stdio::null()).stderr(log);
    Leashed::spawn(command).unwrap()
}

fn etcd(assets: &Path, copy: &Path, data: &Path, port: u16) -> Leashed {
    let file = |key: &str| copy.join(key).display().to_string();
    let (url, peer) = (format!("https://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", free_port()));
    let flags = [
        ("data-dir", data.join("etcd").display().to_string()),
        ("listen-client-urls", url.clone()),
        ("advertise-client-urls", url),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("default={peer}")),
        ("cert-file", file("secure/pki/etcd-server.crt")),
        ("key-file", file("secure/pki/etcd-server.key")),
        ("trusted-ca-file", file("common/pki/ca.crt")),
        ("client-cert-auth", "true".to_owned()),
    ];
    let args = flags.into_iter().map(|(flag, value)| format!("--{flag}={value}").into()).collect();
    spawn(&assets.join("etcd"), args, &data.join("etcd.log"))
}

impl Node {
    fn start(assets: &Path, desk: &Desk, pods: &[Value], data: &Path) -> Self {
        let (copy, [api, auth, store]) = (desk.copy(), [free_port(), free_port(), free_port()]);
        // The same files, but for the port: several tests run at once.
        let ours = |file: &str| {
            let text = std::fs::read_to_string(copy.join("secure/kube-auth").join(file)).unwrap();
            std::fs::write(data.join(file), text.replace(":8471", &format!(":{auth}"))).unwrap();
            format!("{}/{file}", data.display())
        };
        let webhooks = ["authentication.yaml", "authorization.yaml"].map(ours);
        let listen = arguments(pods, "kube-auth").into_iter().skip(1);
        let listen = listen.map(|part| part.replace(":8471", &format!(":{auth}")).into()).collect();
        let flags = arguments(pods, "kube-apiserver").into_iter().skip(1).map(|flag| {
            let (name, value) = flag.split_once('=').unwrap();
            let value = match name {
                "--advertise-address" => "192.0.2.1".to_owned(),
                "--secure-port" => api.to_string(),
                "--etcd-servers" => format!("https://127.0.0.1:{store}"),
                "--authentication-token-webhook-config-file" => webhooks[0].clone(),
                "--authorization-webhook-config-file" => webhooks[1].clone(),
                _ => value.to_owned(),
            };
            format!("{name}={value}").into()
        });
        // Where there is no cluster: nobody makes the default accounts, and this address is nobody's.
        let mut flags: Vec<OsString> = flags.collect();
        flags.extend(
            [
                "--bind-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount",
            ]
            .map(OsString::from),
        );
        flags.push(format!("--cert-dir={}", data.display()).into());
        Self {
            _programs: [
                etcd(assets, &copy, data, store),
                spawn(support::exe(), listen, &data.join("kube-auth.log")),
                spawn(&assets.join("kube-apiserver"), flags, &data.join("api.log")),
            ],
            url: format!("https://localhost:{api}"),
            copy,
            data: data.to_owned(),
        }
    }

    /// The token of a user, from its kubeconfig.
    fn token(&self, kubeconfig: &str) -> String {
        let text = std::fs::read_to_string(self.copy.join(kubeconfig)).unwrap();
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        config["users"][0]["user"]["token"].as_str().unwrap().to_owned()
    }

    /// The status that a call as somebody ends with; 0: no answer.
    async fn call(
        &self,
        token: Option<&str>,
        method: reqwest::Method,
        path: &str,
        body: Option<Value>,
    ) -> u16 {
        let ca = std::fs::read(self.copy.join("common/pki/ca.crt")).unwrap();
        let client = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(&ca).unwrap()])
            .no_proxy()
            .timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        let mut request = client.request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await.map_or(0, |answer| answer.status().as_u16())
    }

    async fn get(&self, token: Option<&str>, path: &str) -> u16 {
        self.call(token, reqwest::Method::GET, path, None).await
    }

    /// The ends of what the programs said.
    fn logs(&self) -> String {
        let end = |name: &str| {
            let text = std::fs::read_to_string(self.data.join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(5).collect();
            lines.into_iter().rev().map(|line| format!("{name}: {line}\n")).collect::<String>()
        };
        ["etcd.log", "kube-auth.log", "api.log"].map(end).concat()
    }

    /// Waits until a call ends so.
    async fn until(&self, token: Option<&str>, path: &str, status: u16, limit: Duration) {
        let begun = Instant::now();
        loop {
            let got = self.get(token, path).await;
            if got == status {
                return;
            }
            let logs = self.logs();
            assert!(begun.elapsed() < limit, "GET {path} is {got} and not {status} after {limit:?}\n{logs}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Where `KUBEBUILDER_ASSETS` leads to a real API server: it takes the manifest's flags and files, and asks kube-auth.
#[tokio::test]
async fn a_real_api_server_takes_the_manifest_and_asks_kube_auth() {
    let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty()) else {
        return;
    };
    let (_cloud, desk) = desk("api").await;
    let (pods, data) = (pods(&desk).await, support::temp());
    let node = Node::start(Path::new(&assets), &desk, &pods, data.path());
    node.until(None, "/readyz", 200, Duration::from_secs(60)).await;

    let admin = node.token("locked/kubeconfig/admin.yaml");
    node.until(Some(&admin), "/api/v1/namespaces/default/secrets", 200, Duration::from_secs(20)).await;
    assert_eq!(node.get(Some("nobody"), "/api/v1/namespaces").await, 401);
    assert_eq!(node.get(None, "/api/v1/namespaces").await, 403);

    // The rules: a kubelet sees pods and changes no secret; a bootstrapping one may only ask for its certificate.
    let kubelet = node.token("compute/kubeconfig/kubelet.yaml");
    assert_eq!(node.get(Some(&kubelet), "/api/v1/pods").await, 200);
    assert_eq!(node.get(Some(&kubelet), "/api/v1/namespaces/default/secrets").await, 200);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}});
    let make =
        node.call(Some(&kubelet), reqwest::Method::POST, "/api/v1/namespaces/default/secrets", Some(secret));
    assert_eq!(make.await, 403);
    let bootstrap = node.token("compute/kubeconfig/bootstrap.yaml");
    assert_eq!(
        node.get(Some(&bootstrap), "/apis/certificates.k8s.io/v1/certificatesigningrequests").await,
        200
    );
    assert_eq!(node.get(Some(&bootstrap), "/api/v1/pods").await, 403);
    // What Kubernetes knows by name has its rules in RBAC.
    let scheduler = node.token("secure/kubeconfig/scheduler.yaml");
    assert_eq!(node.get(Some(&scheduler), "/api/v1/pods").await, 200);

    // A token that is taken back stops working within a minute.
    let tokens = desk.copy().join("secure/kube-auth/tokens.csv");
    let text = std::fs::read_to_string(&tokens).unwrap();
    let rest: String =
        text.lines().filter(|line| !line.contains(&admin)).map(|line| format!("{line}\n")).collect();
    std::fs::write(&tokens, rest).unwrap();
    node.until(Some(&admin), "/api/v1/namespaces", 401, Duration::from_secs(60)).await;
    assert_eq!(node.get(Some(&kubelet), "/api/v1/pods").await, 200, "others go on");
}
