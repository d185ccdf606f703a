//! Real API servers from the folder that `KUBEBUILDER_ASSETS` names (the envtest convention: it holds `etcd` and `kube-apiserver`).
//!
//! The flags are those of controller-runtime's envtest (`pkg/internal/testing/controlplane` there). A server takes three seconds to
//! start and 300 MB. So each is used again: a test has one for itself alone, and gets it as a new one is, because what the tests
//! before left is taken out of its etcd.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data_encoding::BASE64;
use hostwright::play::leash;
use hostwright::play::services::ServiceError;
use hostwright::play::services::supervise::{Recipe, Service};
use rcgen::KeyPair;
use reqwest::{Certificate, Client, Identity};
use serde_json::{Value, json};
use tokio::process::Command;

use super::certificates::Ca;

/// The user as whom tests are known, as in the loopback API.
const USER: &str = "playground";
/// The token of that user, for kubeconfigs that are to have one.
pub(crate) const TOKEN: &str = "none";
/// What a server may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a start is tried: a port that was free may be taken when the server opens it.
const TRIES: usize = 3;
/// What a server makes after it says that it is ready.
const FIRST: [&str; 6] = [
    "/registry/namespaces/default",
    "/registry/namespaces/kube-public",
    "/registry/namespaces/kube-system",
    "/registry/configmaps/kube-system/extension-apiserver-authentication",
    "/registry/configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking",
    "/registry/services/specs/default/kubernetes",
];
/// What a server writes for itself while it runs.
const ITS_OWN: [&str; 6] = [
    "/registry/apiregistration.k8s.io/",
    "/registry/leases/kube-system/apiserver-",
    "/registry/masterleases/",
    "/registry/peerserverleases/",
    "/registry/ranges/",
    "/registry/events/kube-system/apiserver-",
];

/// The folder of programs, if tests are to run against a real API server.
pub(crate) fn assets() -> Option<PathBuf> {
    std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// A real API server that the caller has for itself. Dropped, it waits for the next test.
pub(crate) struct Lease(Arc<Real>);

impl std::ops::Deref for Lease {
    type Target = Real;

    fn deref(&self) -> &Real {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        IDLE.lock().unwrap().push(Arc::clone(&self.0));
    }
}

static IDLE: Mutex<Vec<Arc<Real>>> = Mutex::new(Vec::new());

/// A server in the state of a new one.
pub(crate) async fn lease(assets: PathBuf) -> Lease {
    let idle = IDLE.lock().unwrap().pop();
    if let Some(real) = idle {
        real.etcd.reset().await;
        return Lease(real);
    }
    let real = super::lasting(async move {
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut tries = 1;
        loop {
            match Real::start(&assets).await {
                Ok(real) => return real,
                Err(error) if tries == TRIES => panic!("KUBEBUILDER_ASSETS={}: {error}", assets.display()),
                Err(_) => tries += 1,
            }
        }
    });
    Lease(Arc::new(real.await))
}

/// An API server and its etcd.
pub(crate) struct Real {
    etcd: Etcd,
    api: Api,
    /// They run as long as these are held.
    _services: [Service; 2],
}

impl Real {
    async fn start(assets: &Path) -> Result<Self, ServiceError> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let folder = super::lasting_folder("envtest").join(COUNT.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let etcd = Etcd::new(assets, &folder);
        let first = Service::start(etcd.recipe.clone()).await?;
        let api = Api::new(assets, &folder, &etcd.url());
        let second = Service::start(api.recipe.clone()).await?;
        let etcd = etcd.remembering().await;
        Ok(Self { etcd, api, _services: [first, second] })
    }

    /// `https://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        self.api.recipe.url()
    }

    /// A client that may do everything.
    pub(crate) fn admin(&self) -> Client {
        self.api.recipe.client.clone()
    }

    /// A client that is nobody until it shows a token.
    pub(crate) fn stranger(&self) -> Client {
        client(&self.api.ca, None)
    }

    /// The way in for one who may do everything, through TLS and with a client certificate.
    pub(crate) fn kubeconfig(&self) -> Value {
        let encoded = |text: &str| BASE64.encode(text.as_bytes());
        let (certificate, key) = &self.api.identity;
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {
                "server": self.url(), "certificate-authority-data": encoded(&self.api.ca),
            }}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t", "namespace": "hostwright"}}],
            "users": [{"name": "t", "user": {
                "client-certificate-data": encoded(certificate), "client-key-data": encoded(key),
            }}],
        })
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Trusts this CA alone, and uses a connection for each request at a time: tests hold many watches.
fn client(ca: &str, identity: Option<&(String, String)>) -> Client {
    let roots = Certificate::from_pem_bundle(ca.as_bytes()).unwrap();
    let mut builder = Client::builder().no_proxy().http1_only().tls_certs_only(roots);
    if let Some((certificate, key)) = identity {
        builder = builder.identity(Identity::from_pem(format!("{certificate}{key}").as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

/// One of the two programs: how it is started and asked.
#[derive(Clone)]
struct Program {
    name: &'static str,
    path: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    port: u16,
    scheme: &'static str,
    ready: &'static str,
    client: Client,
}

impl Program {
    fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }
}

impl Recipe for Program {
    fn name(&self) -> &'static str {
        self.name
    }

    fn command(&self) -> Result<Command, ServiceError> {
        let mut command = leash::command(super::exe(), GRACE, self.path.as_os_str(), &self.arguments);
        command.env_clear();
        Ok(command)
    }

    async fn ready(&self) -> bool {
        let answer = self.client.get(format!("{}{}", self.url(), self.ready)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    fn log(&self) -> &Path {
        &self.log
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

struct Api {
    recipe: Program,
    ca: String,
    /// Certificate and key of one who may do everything.
    identity: (String, String),
}

impl Api {
    fn new(assets: &Path, folder: &Path, etcd: &str) -> Self {
        let ca = Ca::new("envtest-ca");
        let identity = ca.user(USER, "system:masters");
        let (certificate, key) = ca.sign("127.0.0.1");
        let accounts = KeyPair::generate().unwrap();
        let write = |name: &str, text: &str| {
            super::private_file(&folder.join(name), text);
            folder.join(name).display().to_string()
        };
        let port = free_port();
        let arguments = [
            ("etcd-servers", etcd.to_owned()),
            ("bind-address", "127.0.0.1".to_owned()),
            ("secure-port", port.to_string()),
            // It tells nobody where it is: else it looks for an address of this machine that is not loopback.
            ("advertise-address", "192.0.2.1".to_owned()),
            ("endpoint-reconciler-type", "none".to_owned()),
            ("cert-dir", folder.display().to_string()),
            ("tls-cert-file", write("server.crt", &certificate)),
            ("tls-private-key-file", write("server.key", &key)),
            ("client-ca-file", write("ca.crt", &ca.pem())),
            ("authorization-mode", "RBAC".to_owned()),
            ("enable-bootstrap-token-auth", "true".to_owned()),
            ("token-auth-file", write("tokens.csv", &format!("{TOKEN},{USER},{USER},system:masters\n"))),
            ("service-account-issuer", format!("https://127.0.0.1:{port}/")),
            ("service-account-key-file", write("accounts.pub", &accounts.public_key_pem())),
            ("service-account-signing-key-file", write("accounts.key", &accounts.serialize_pem())),
            ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
            ("allow-privileged", "true".to_owned()),
            // It wants a default account in the namespace, which a controller makes.
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
        ];
        let recipe = Program {
            name: "kube-apiserver",
            path: assets.join("kube-apiserver"),
            arguments: arguments.map(|(name, value)| format!("--{name}={value}")).to_vec(),
            log: folder.join("kube-apiserver.log"),
            port,
            scheme: "https",
            ready: "/readyz",
            client: client(&ca.pem(), Some(&identity)),
        };
        Self { recipe, ca: ca.pem(), identity }
    }
}

/// An etcd, and what it held when its API server was new.
struct Etcd {
    recipe: Program,
    first: BTreeMap<String, Kept>,
}

/// A key's value and version, as etcd writes them in JSON.
#[derive(Clone)]
struct Kept {
    value: Value,
    version: Value,
}

impl Etcd {
    fn new(assets: &Path, folder: &Path) -> Self {
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let data = folder.join("etcd").display().to_string();
        let arguments = [
            ("data-dir", data.as_str()),
            ("listen-client-urls", &url),
            ("advertise-client-urls", &url),
            ("listen-peer-urls", "http://127.0.0.1:0"),
            // A test's cluster need not outlive a power cut.
            ("unsafe-no-fsync", "true"),
        ];
        let recipe = Program {
            name: "etcd",
            path: assets.join("etcd"),
            arguments: arguments.map(|(name, value)| format!("--{name}={value}")).to_vec(),
            log: folder.join("etcd.log"),
            port,
            scheme: "http",
            ready: "/health",
            client: Client::builder().no_proxy().build().unwrap(),
        };
        Self { recipe, first: BTreeMap::new() }
    }

    fn url(&self) -> String {
        self.recipe.url()
    }

    /// Asks as etcd's gateway from JSON to its own protocol has it.
    async fn ask(&self, what: &str, body: &Value) -> Value {
        let asked = self.recipe.client.post(format!("{}/v3/kv/{what}", self.url())).json(body);
        let answer = asked.send().await.unwrap_or_else(|e| panic!("etcd: {what}: {e}"));
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "etcd: {what}: {status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Everything that the API server keeps.
    async fn all(&self) -> BTreeMap<String, Kept> {
        let encoded = |text: &str| BASE64.encode(text.as_bytes());
        let range = json!({"key": encoded("/registry/"), "range_end": encoded("/registry0")});
        let answer = self.ask("range", &range).await;
        let pairs = answer["kvs"].as_array().cloned().unwrap_or_default();
        let key = |pair: &Value| BASE64.decode(pair["key"].as_str().unwrap().as_bytes()).unwrap();
        let kept =
            |pair: &Value| Kept { value: pair["value"].clone(), version: pair["mod_revision"].clone() };
        pairs.iter().map(|pair| (String::from_utf8(key(pair)).unwrap(), kept(pair))).collect()
    }

    /// Waits until the API server has made what it makes, and remembers all of it.
    async fn remembering(mut self) -> Self {
        let complete = async {
            loop {
                let all = self.all().await;
                if FIRST.iter().all(|key| all.contains_key(*key)) {
                    return all;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let told = tokio::time::timeout(PATIENCE, complete).await;
        self.first = told.expect("the API server did not make its first namespaces");
        self
    }

    /// Brings everything back to what it was at first. The API server sees it as it sees any change.
    async fn reset(&self) {
        let now = self.all().await;
        let its_own = |key: &str| ITS_OWN.iter().any(|prefix| key.starts_with(prefix));
        for key in now.keys().filter(|key| !self.first.contains_key(*key) && !its_own(key)) {
            self.ask("deleterange", &json!({"key": BASE64.encode(key.as_bytes())})).await;
        }
        for (key, kept) in self.first.iter().filter(|(key, _)| !its_own(key)) {
            if now.get(key).is_none_or(|now| now.version != kept.version && now.value != kept.value) {
                let put = json!({"key": BASE64.encode(key.as_bytes()), "value": kept.value});
                self.ask("put", &put).await;
            }
        }
    }
}
