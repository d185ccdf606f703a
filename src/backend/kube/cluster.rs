//! What a machine needs to join, and the ConfigMap of targets.

use std::collections::BTreeMap;

use ::kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Secret};

use super::{Kube, KubeError, KubeErrorKind, limited};
use crate::config::Permit;
use crate::domain::{BootstrapToken, record};

/// A ConfigMap's data, with what a conditional write needs.
#[derive(Debug, Clone)]
pub struct ConfigMapData {
    object: ConfigMap,
}

impl ConfigMapData {
    /// A value, or nothing when there is no such key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.object.data.as_ref()?.get(key).map(String::as_str)
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.object.data.iter().flatten().map(|(key, _)| key.as_str())
    }

    /// Sets a value; nothing is sent yet.
    pub fn set(&mut self, key: &str, value: String) {
        self.object.data.get_or_insert_default().insert(key.to_owned(), value);
    }

    /// How many bytes all values take together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.object.data.iter().flatten().map(|(key, value)| key.len() + value.len()).sum()
    }
}

impl Kube {
    /// Reads a ConfigMap.
    ///
    /// # Errors
    /// When there is none, or the API server does not answer or refuses.
    pub async fn config_map(&self, namespace: &str, name: &str) -> Result<ConfigMapData, KubeError> {
        let doing = format!("read ConfigMap {namespace}/{name}");
        let object = limited(doing, self.config_maps(namespace).get(name)).await?;
        Ok(ConfigMapData { object })
    }

    /// Writes a ConfigMap, provided that nobody has changed it since it was read.
    ///
    /// # Errors
    /// `Conflict` when somebody has.
    pub async fn write_config_map(&self, _: &Permit, data: &ConfigMapData) -> Result<(), KubeError> {
        let name = data.object.metadata.name.as_deref().unwrap_or_default();
        let namespace = data.object.metadata.namespace.as_deref().unwrap_or_default();
        let doing = format!("write ConfigMap {namespace}/{name}");
        if data.object.metadata.resource_version.is_none() {
            return Err(KubeError::new(KubeErrorKind::Invalid, doing, "it has no resource version"));
        }
        limited(doing, self.config_maps(namespace).replace(name, &PostParams::default(), &data.object))
            .await?;
        Ok(())
    }

    /// Creates a bootstrap token's Secret in `kube-system`, good for signing `cluster-info` and for authentication as a new
    /// node (Kubernetes, "Authenticating with Bootstrap Tokens").
    ///
    /// # Errors
    /// `AlreadyExists` when the id is taken.
    pub async fn create_token(
        &self,
        _: &Permit,
        token: &BootstrapToken,
        expires: Timestamp,
        description: &str,
    ) -> Result<(), KubeError> {
        let data = BTreeMap::from([
            ("token-id", token.id().to_owned()),
            ("token-secret", token.secret().to_owned()),
            ("expiration", record::stamp(expires)),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("usage-bootstrap-signing", "true".to_owned()),
            ("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token".to_owned()),
            ("description", description.to_owned()),
        ]);
        let secret = Secret {
            metadata: ObjectMeta { name: Some(token.secret_name()), ..ObjectMeta::default() },
            type_: Some("bootstrap.kubernetes.io/token".to_owned()),
            string_data: Some(data.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ..Secret::default()
        };
        let doing = format!("create bootstrap token {}", token.id());
        limited(doing, self.secrets("kube-system").create(&PostParams::default(), &secret)).await?;
        Ok(())
    }

    /// Deletes a bootstrap token; one that is gone already is no error.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn delete_token(&self, _: &Permit, id: &str) -> Result<(), KubeError> {
        let name = format!("bootstrap-token-{id}");
        let doing = format!("delete bootstrap token {id}");
        match limited(doing, self.secrets("kube-system").delete(&name, &DeleteParams::default())).await {
            Err(error) if error.kind != KubeErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Who the API server takes us for.
    ///
    /// # Errors
    /// When the API server does not answer, or is older than 1.28 and cannot say.
    pub async fn whoami(&self) -> Result<String, KubeError> {
        let api: ::kube::Api<SelfSubjectReview> = ::kube::Api::all(self.client.clone());
        let review =
            limited("ask who we are", api.create(&PostParams::default(), &SelfSubjectReview::default()))
                .await?;
        let user = review.status.and_then(|s| s.user_info).and_then(|u| u.username);
        Ok(user.unwrap_or_else(|| "unknown".to_owned()))
    }

    /// The newest warning among a run's Events: what the cluster says of a Job that gets no pod (a quota, a missing account).
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn newest_warning(&self, run_uid: &str) -> Result<Option<String>, KubeError> {
        let api: ::kube::Api<CoreEvent> = ::kube::Api::namespaced(self.client.clone(), &self.namespace);
        let fields = format!("involvedObject.uid={run_uid},type=Warning");
        let list = limited("read the run's Events", api.list(&ListParams::default().fields(&fields))).await?;
        let at = |event: &CoreEvent| {
            let series = event.series.as_ref().and_then(|s| s.last_observed_time.as_ref()).map(|t| t.0);
            series
                .or_else(|| event.last_timestamp.as_ref().map(|t| t.0))
                .or_else(|| event.event_time.as_ref().map(|t| t.0))
                .or_else(|| event.metadata.creation_timestamp.as_ref().map(|t| t.0))
        };
        let newest = list.items.into_iter().max_by_key(at);
        Ok(newest.map(|event| {
            let parts = [event.reason, event.message].into_iter().flatten().filter(|text| !text.is_empty());
            parts.collect::<Vec<_>>().join(": ")
        }))
    }
}
