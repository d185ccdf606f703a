//! What a machine needs to join, and the ConfigMap of targets.

use ::kube::api::{ListParams, ObjectMeta, PostParams};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};

use super::{Kube, KubeError, KubeErrorKind};
use crate::config::Permit;
use crate::domain::rights::{Answer, Right};

/// A ConfigMap's data, with what a conditional write needs.
#[derive(Debug, Clone)]
pub struct ConfigMapData {
    object: ConfigMap,
}

impl ConfigMapData {
    /// One that is not there yet and holds nothing.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let metadata = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        Self { object: ConfigMap { metadata, ..ConfigMap::default() } }
    }

    pub(super) fn of(object: ConfigMap) -> Self {
        Self { object }
    }

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

    /// Takes a value away; nothing is sent yet.
    pub fn remove(&mut self, key: &str) {
        if let Some(data) = &mut self.object.data {
            data.remove(key);
        }
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
        let object = self.limited(doing, self.config_maps(namespace).get(name)).await?;
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
        self.limited(doing, self.config_maps(namespace).replace(name, &PostParams::default(), &data.object))
            .await?;
        Ok(())
    }

    /// Creates a ConfigMap.
    ///
    /// # Errors
    /// `AlreadyExists` when somebody else has.
    pub async fn create_config_map(&self, _: &Permit, data: &ConfigMapData) -> Result<(), KubeError> {
        let name = data.object.metadata.name.as_deref().unwrap_or_default();
        let namespace = data.object.metadata.namespace.as_deref().unwrap_or_default();
        let doing = format!("create ConfigMap {namespace}/{name}");
        self.limited(doing, self.config_maps(namespace).create(&PostParams::default(), &data.object)).await?;
        Ok(())
    }

    /// Who the API server takes us for.
    ///
    /// # Errors
    /// When the API server does not answer, or is older than 1.28 and cannot say.
    pub async fn whoami(&self) -> Result<String, KubeError> {
        let api: ::kube::Api<SelfSubjectReview> = ::kube::Api::all(self.client());
        let review = self
            .limited("ask who we are", api.create(&PostParams::default(), &SelfSubjectReview::default()))
            .await?;
        let user = review.status.and_then(|s| s.user_info).and_then(|u| u.username);
        Ok(user.unwrap_or_else(|| "unknown".to_owned()))
    }

    /// Whether the API server would let us do this: exact for one right, where a list of all our rules may be incomplete.
    ///
    /// # Errors
    /// When it does not answer, or does not say such things to us.
    pub async fn may(&self, right: &Right) -> Result<Answer, KubeError> {
        let attributes = ResourceAttributes {
            verb: Some(right.verb.to_owned()),
            group: Some(right.group.to_owned()),
            resource: Some(right.resource.to_owned()),
            subresource: right.subresource.map(str::to_owned),
            namespace: Some(right.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: right.name.clone(),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let api: ::kube::Api<SelfSubjectAccessReview> = ::kube::Api::all(self.client());
        let doing = format!("ask whether we may {right}");
        let status = self.limited(doing.as_str(), api.create(&PostParams::default(), &review)).await?.status;
        let silent = || KubeError::new(KubeErrorKind::Failed, doing.as_str(), "the answer does not say");
        let status = status.ok_or_else(silent)?;
        if status.allowed {
            return Ok(Answer::Yes);
        }
        let words = [status.reason, status.evaluation_error].into_iter().flatten();
        let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
        Ok(Answer::No(words.join("; ")))
    }

    /// The newest warning among a run's Events: what the cluster says of a Job that gets no pod (a quota, a missing account).
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn newest_warning(&self, run_uid: &str) -> Result<Option<String>, KubeError> {
        let api: ::kube::Api<CoreEvent> = ::kube::Api::namespaced(self.client(), &self.namespace);
        let fields = format!("involvedObject.uid={run_uid},type=Warning");
        let list =
            self.limited("read the run's Events", api.list(&ListParams::default().fields(&fields))).await?;
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
