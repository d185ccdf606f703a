//! Kubernetes: Jobs, pods and their logs, ConfigMaps, bootstrap token Secrets, Events.
//!
//! The cluster is the only store of runs. Everything that changes an object carries the resource version or the UID that it
//! was decided on.

mod busy;
mod cluster;
mod config_map;
mod credentials;
mod error;
mod events;
mod job;
mod lease;
mod nodes;
mod pin;
mod pods;
mod runs;
mod secrets;
mod served;
mod watch;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ::kube::Client;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use self::credentials::Who;
use crate::config::Kubernetes;

pub use busy::about;
pub use cluster::ConfigMapData;
pub use config_map::ConfigMapEvent;
pub use error::{KubeError, KubeErrorKind};
pub use events::{About, ActivityEvent};
pub use job::{JobTemplate, NewRun, TemplateError};
pub use lease::Holder;
pub use nodes::NodeState;
pub use pin::{NO_CLUSTER, Pin, pin};
pub use watch::RunsEvent;

/// How long a call that is no stream may take.
const CALL_LIMIT: Duration = Duration::from_secs(15);
/// How long the answer to the question whether anybody answers may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A handle on one cluster and one namespace; cheap to clone.
#[derive(Clone)]
pub struct Kube {
    /// Shared by all clones, so that [`Kube::renew`] renews it for all.
    link: Arc<RwLock<Link>>,
    settings: Kubernetes,
    namespace: String,
    server: String,
    /// For the activity file.
    environment: Arc<str>,
}

/// What a renewal replaces.
struct Link {
    client: Client,
    who: Who,
}

impl Kube {
    /// Reads the kubeconfig (or the pod's own account) and makes a client. Nothing is sent yet; a credential plugin is run.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read or lacks the context, or its credential plugin fails.
    pub async fn connect(settings: &Kubernetes) -> Result<Self, KubeError> {
        let (config, who) = credentials::config(settings).await?;
        let namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = credentials::client(config, &who).await?;
        let link = Arc::new(RwLock::new(Link { client, who }));
        Ok(Self { link, settings: settings.clone(), namespace, server, environment: Arc::from("") })
    }

    /// Takes the credentials anew: from the kubeconfig as it is now, and from its plugin. For those that the API server does not
    /// take any more; somebody may have logged in again.
    ///
    /// # Errors
    /// As [`Kube::connect`], or when the kubeconfig names another API server now; the old ones stay then.
    pub async fn renew(&self) -> Result<(), KubeError> {
        let (config, who) = credentials::config(&self.settings).await?;
        if config.cluster_url.to_string() != self.server {
            let text = "the kubeconfig names another API server now: start anew to go there";
            return Err(KubeError::new(KubeErrorKind::Invalid, "renew the credentials", text));
        }
        let client = credentials::client(config, &who).await?;
        *self.link.write().unwrap_or_else(PoisonError::into_inner) = Link { client, who };
        Ok(())
    }

    /// The same, with the environment's name for the activity file.
    #[must_use]
    pub fn of_environment(self, name: &str) -> Self {
        Self { environment: Arc::from(name), ..self }
    }

    /// The namespace of the runs.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The bare client, for the playground's Job runner, which does what no other part of this program may.
    #[must_use]
    pub fn client(&self) -> Client {
        self.link.read().unwrap_or_else(PoisonError::into_inner).client.clone()
    }

    /// Whose credentials we show.
    fn who(&self) -> Who {
        self.link.read().unwrap_or_else(PoisonError::into_inner).who.clone()
    }

    /// The API server's address.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Asks the API server for its version: the cheapest proof that it answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<String, KubeError> {
        let version =
            self.limited("ask for the API server's version", self.client().apiserver_version()).await?;
        Ok(version.git_version)
    }

    /// Whether the API server answers within a short time, be it with a refusal: for a watch that is silent, which may be that of a
    /// quiet cluster or that of a dead line. Where it does not know us any more the credentials are taken anew.
    ///
    /// # Errors
    /// When it does not answer, or only says that it is in need; when it does not know us.
    pub async fn answers(&self) -> Result<(), KubeError> {
        match tokio::time::timeout(ANSWER_LIMIT, self.ping()).await {
            Ok(Err(error)) if error.kind == KubeErrorKind::Unreachable => Err(error),
            Ok(Err(error)) if error.kind == KubeErrorKind::NotAuthenticated => {
                Err(self.renew().await.err().unwrap_or(error))
            }
            Ok(_) => Ok(()),
            Err(_) => {
                let text = format!("the API server did not answer within {} s", ANSWER_LIMIT.as_secs());
                Err(KubeError::new(KubeErrorKind::Unreachable, "ask whether it answers", text))
            }
        }
    }

    /// Runs one call with the time limit, and says what was being done when it fails.
    async fn limited<T>(
        &self,
        doing: impl Into<String>,
        call: impl Future<Output = Result<T, ::kube::Error>>,
    ) -> Result<T, KubeError> {
        match tokio::time::timeout(CALL_LIMIT, call).await {
            Ok(result) => result.map_err(|e| KubeError::from_kube(doing, &self.who(), e)),
            Err(_) => Err(KubeError::new(
                KubeErrorKind::Unreachable,
                doing,
                format!("the API server did not answer within {} s", CALL_LIMIT.as_secs()),
            )),
        }
    }

    fn config_maps(&self, namespace: &str) -> ::kube::Api<ConfigMap> {
        ::kube::Api::namespaced(self.client(), namespace)
    }

    fn secrets(&self, namespace: &str) -> ::kube::Api<Secret> {
        ::kube::Api::namespaced(self.client(), namespace)
    }
}

impl std::fmt::Debug for Kube {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The playground's URL holds its token.
        f.debug_struct("Kube").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
