//! An API server for a test: a real one where `KUBEBUILDER_ASSETS` says where one is, else the loopback API.
//!
//! Both look the same to a test: a cluster of its own with the namespaces, ConfigMaps and accounts of a new one, at a plain URL.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostwright::play::api::{Api, Options};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::envtest::{self, Lease};
use super::{front, manager};

/// It ends when dropped.
pub(crate) struct ApiServer {
    address: SocketAddr,
    /// Where the loopback API keeps its state and its logs.
    dir: PathBuf,
    /// None: the loopback API.
    real: Option<Arc<Lease>>,
    shutdown: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl ApiServer {
    /// A new cluster; `dir` is a folder of the test's own.
    pub(crate) async fn start(dir: &Path) -> Self {
        let real = match envtest::assets() {
            Some(assets) => Some(Arc::new(envtest::lease(assets).await)),
            None => None,
        };
        Self::with(dir, real).await
    }

    /// The loopback API, for what only that one has: pods' logs, which are a kubelet's to serve.
    pub(crate) async fn loopback(dir: &Path) -> Self {
        Self::with(dir, None).await
    }

    async fn with(dir: &Path, real: Option<Arc<Lease>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let mut server = Self { address, dir: dir.to_owned(), real, shutdown, running: None };
        server.serve(listener);
        if server.real.is_some() {
            manager::plant(&server.client()).await;
        }
        server
    }

    /// Nobody answers any more.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.cancel();
        if let Some(running) = self.running.take() {
            running.await.unwrap();
        }
    }

    /// The same cluster, with everything in it, at the same address.
    pub(crate) async fn start_again(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.shutdown = CancellationToken::new();
        self.serve(listener);
    }

    fn serve(&mut self, listener: TcpListener) {
        let shutdown = self.shutdown.clone();
        self.running = Some(match &self.real {
            Some(real) => {
                let (real, client) = (real.clone(), self.client());
                tokio::spawn(async move {
                    let managing = tokio::spawn(manager::run(client));
                    front::serve(&real, listener, shutdown).await;
                    managing.abort();
                })
            }
            None => {
                let mut options = Options::new(self.dir.join("logs"), manager::CA, manager::ENDPOINT);
                options.state = Some(self.dir.join("api-state"));
                let api = Api::open(options).unwrap();
                tokio::spawn(async move { api.run(listener, shutdown).await.unwrap() })
            }
        });
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Plain HTTP, where everybody may do everything.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that may do everything.
    pub(crate) fn client(&self) -> Client {
        Client::try_from(Config::new(self.url().parse().unwrap())).unwrap()
    }

    /// How one who may do everything comes in to the server itself: through TLS where it is a real one.
    pub(crate) fn kubeconfig(&self) -> Value {
        self.real.as_ref().map_or_else(|| kubeconfig(&self.url()), |real| real.kubeconfig())
    }
}

/// A kubeconfig without a user.
pub(crate) fn kubeconfig(url: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "t",
        "clusters": [{"name": "t", "cluster": {"server": url}}],
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t", "namespace": "hostwright"}}],
        "users": [{"name": "t", "user": {}}],
    })
}
