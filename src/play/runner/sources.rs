//! The Secrets and ConfigMaps that a pod refers to, read once before its container starts.
//!
//! Called by `launch.rs`. What it holds goes into the container's environment and volumes and nowhere else: never into a message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, Secret, Volume};
use kube::{Api, Client};

use super::env::ConfigError;

/// What an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

type Entries = BTreeMap<String, Vec<u8>>;

/// What was read: `None` for an object that is not there.
#[derive(Default)]
pub(super) struct Sources(BTreeMap<(Kind, String), Option<Entries>>);

impl Sources {
    /// Reads all that `container` and its volumes refer to.
    ///
    /// # Errors
    /// When one cannot be read; that one is not there is no error yet.
    pub(super) async fn read(
        client: &Client,
        namespace: &str,
        container: &Container,
        volumes: &[&Volume],
    ) -> Result<Self, ConfigError> {
        let mut read = BTreeMap::new();
        for (kind, name) in references(container, volumes) {
            let entries = match kind {
                Kind::Secret => {
                    let found = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(&name).await;
                    found.map(|s| s.map(|s| bytes(s.data)))
                }
                Kind::ConfigMap => {
                    let found = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(&name).await;
                    found.map(|c| {
                        c.map(|c| {
                            let text =
                                c.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.into_bytes()));
                            bytes(c.binary_data).into_iter().chain(text).collect()
                        })
                    })
                }
            };
            let entries = entries.map_err(|e| ConfigError(format!("cannot read {kind} {name}: {e}")))?;
            read.insert((kind, name), entries);
        }
        Ok(Self(read))
    }

    /// Every entry of one object; none when it is not there and optional.
    pub(super) fn all(&self, kind: Kind, name: &str, optional: bool) -> Result<Entries, ConfigError> {
        match self.0.get(&(kind, name.to_owned())).and_then(Option::as_ref) {
            Some(entries) => Ok(entries.clone()),
            None if optional => Ok(Entries::new()),
            None => Err(ConfigError(format!("{kind} {name} not found"))),
        }
    }

    /// One entry of one object; `None` when it or its object is not there and optional.
    pub(super) fn one(
        &self,
        kind: Kind,
        name: &str,
        key: &str,
        optional: bool,
    ) -> Result<Option<Vec<u8>>, ConfigError> {
        match self.all(kind, name, optional)?.remove(key) {
            None if !optional => Err(ConfigError(format!("{kind} {name} has no key {key}"))),
            found => Ok(found),
        }
    }
}

fn bytes(data: Option<BTreeMap<String, k8s_openapi::ByteString>>) -> Entries {
    data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect()
}

/// The volumes of `spec` that `container` mounts. The mount of the service account's token is none of them: a container here
/// reaches the API server through the variables that the runner gives it.
pub(super) fn mounted<'a>(spec: &'a PodSpec, container: &Container) -> Vec<&'a Volume> {
    const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let mounts =
        || container.volume_mounts.iter().flatten().filter(|m| m.mount_path.trim_end_matches('/') != TOKEN);
    spec.volumes.iter().flatten().filter(|v| mounts().any(|m| m.name == v.name)).collect()
}

fn references(container: &Container, volumes: &[&Volume]) -> BTreeSet<(Kind, String)> {
    let whole = container.env_from.iter().flatten().flat_map(|from| {
        let secret = from.secret_ref.as_ref().map(|r| (Kind::Secret, r.name.clone()));
        secret.into_iter().chain(from.config_map_ref.as_ref().map(|r| (Kind::ConfigMap, r.name.clone())))
    });
    let single = container.env.iter().flatten().filter_map(|v| v.value_from.as_ref()).flat_map(|from| {
        let secret = from.secret_key_ref.as_ref().map(|r| (Kind::Secret, r.name.clone()));
        secret.into_iter().chain(from.config_map_key_ref.as_ref().map(|r| (Kind::ConfigMap, r.name.clone())))
    });
    let folders = volumes.iter().flat_map(|v| {
        let secret = v.secret.as_ref().and_then(|s| s.secret_name.clone()).map(|n| (Kind::Secret, n));
        secret.into_iter().chain(v.config_map.as_ref().map(|c| (Kind::ConfigMap, c.name.clone())))
    });
    whole.chain(single).chain(folders).collect()
}

#[cfg(test)]
type Known<'a> = &'a [(&'a str, &'a [u8])];

#[cfg(test)]
impl Sources {
    /// Sources as if they had been read.
    pub(super) fn known(objects: &[(Kind, &str, Known<'_>)]) -> Self {
        let entries = |list: Known<'_>| list.iter().map(|(k, v)| ((*k).to_owned(), v.to_vec())).collect();
        Self(objects.iter().map(|(k, n, e)| ((*k, (*n).to_owned()), Some(entries(e)))).collect())
    }
}
