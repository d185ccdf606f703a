//! The watch over one ConfigMap: it heals itself, and asks now and then where it may not watch.

use std::time::Duration;

use ::kube::Api;
use ::kube::runtime::watcher::{self, watch_object};
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;

use super::watch::wanted;
use super::{ConfigMapData, Kube, KubeError, KubeErrorKind};

/// How often it is read where it may not be watched, and how often it is asked for what is forbidden.
const DENIED_DELAY: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// What the watch tells.
#[derive(Debug)]
pub enum ConfigMapEvent {
    /// It is so now; none: there is no such ConfigMap.
    Now(Option<Box<ConfigMapData>>),
    /// It cannot be looked at; the watch goes on after this time.
    Failed(KubeError, Duration),
}

type Objects = stream::BoxStream<'static, watcher::Result<Option<ConfigMap>>>;

struct Watch {
    kube: Kube,
    api: Api<ConfigMap>,
    name: String,
    objects: Objects,
    delay: Duration,
    wait: Option<Duration>,
}

impl Kube {
    /// Follows one ConfigMap. The stream never ends: what fails is told and tried again with a growing delay.
    pub fn watch_config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Stream<Item = ConfigMapEvent> + Send + use<> {
        let api = self.config_maps(namespace);
        let objects = watch_object(api.clone(), name).boxed();
        let (kube, name) = (self.clone(), name.to_owned());
        let watch = Watch { kube, api, name, objects, delay: FIRST_DELAY, wait: None };
        stream::unfold(watch, |mut watch| async move {
            if let Some(wait) = watch.wait.take() {
                tokio::time::sleep(wait).await;
            }
            let event = match watch.objects.next().await? {
                Ok(object) => {
                    watch.delay = FIRST_DELAY;
                    ConfigMapEvent::Now(object.map(ConfigMapData::of).map(Box::new))
                }
                Err(error) => watch.broke_off(error).await,
            };
            Some((event, watch))
        })
    }
}

impl Watch {
    /// What is told of a failure: what the ConfigMap says all the same, where it may be read and not be watched.
    async fn broke_off(&mut self, error: watcher::Error) -> ConfigMapEvent {
        let doing = format!("watch ConfigMap {}", self.name);
        let error = KubeError::from_watch(&doing, &self.kube.who(), error);
        let denied = error.kind == KubeErrorKind::Forbidden;
        if denied {
            self.delay = self.delay.max(DENIED_DELAY);
        }
        if denied || error.kind == KubeErrorKind::Expired {
            // The watcher would ask for the same again, for ever: a new one lists.
            self.objects = watch_object(self.api.clone(), &self.name).boxed();
        }
        let delay = wanted(self.delay, &error);
        self.wait = Some(delay);
        if !denied {
            self.delay = (self.delay * 2).min(LONGEST_DELAY);
            return ConfigMapEvent::Failed(error, delay);
        }
        let doing = format!("read ConfigMap {}", self.name);
        match self.kube.limited(doing, self.api.get_opt(&self.name)).await {
            Ok(object) => ConfigMapEvent::Now(object.map(ConfigMapData::of).map(Box::new)),
            Err(error) => ConfigMapEvent::Failed(error, delay),
        }
    }
}
