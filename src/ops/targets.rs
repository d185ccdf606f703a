//! The `scrape-collectd` ConfigMap: adding and removing targets, without losing what others write at the same time.

use std::time::Duration;

use super::OpError;
use crate::backend::kube::{ConfigMapData, Kube, KubeErrorKind};
use crate::config::{Permit, TargetSettings};
use crate::domain::target::{CONFIGMAP_LIMIT, HOST_LABEL, RUN_LABEL, Target, Targets, TargetsError};

/// Bounded by time, not by tries: 50 writers at once need up to 23 tries each when they collide.
const LONGEST: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// From here on it is said that the ConfigMap fills up.
const FULL_PERCENT: usize = 80;

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// How many targets were added or removed.
    pub changed: usize,
    /// How many bytes the ConfigMap holds now, of 1,048,576.
    pub size: usize,
}

impl Change {
    /// Whether the ConfigMap is nearly full.
    #[must_use]
    pub fn nearly_full(&self) -> bool {
        self.size * 100 >= CONFIGMAP_LIMIT * FULL_PERCENT
    }
}

/// All targets.
///
/// # Errors
/// When the ConfigMap is missing or malformed, or the API server does not answer or refuses.
pub async fn list(kube: &Kube, settings: &TargetSettings) -> Result<Vec<Target>, OpError> {
    let data =
        kube.config_map(&settings.namespace, &settings.name).await.map_err(|e| missing(settings, e))?;
    Ok(read(&data, settings)?.list())
}

/// Adds targets (`host:port`, host, run); one that is there already is left or gets its new labels.
///
/// # Errors
/// When the ConfigMap is missing, malformed or full, or the API server does not answer or refuses.
pub async fn add(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    new: &[(String, String, Option<String>)],
) -> Result<Change, OpError> {
    change(kube, permit, settings, |targets| {
        let mut changed = 0;
        for (address, host, run) in new {
            let mut labels = vec![(HOST_LABEL, host.as_str())];
            labels.extend(run.as_deref().map(|run| (RUN_LABEL, run)));
            changed += usize::from(targets.add(address, &labels));
        }
        changed
    })
    .await
}

/// Removes targets.
///
/// # Errors
/// When the ConfigMap is missing or malformed, or the API server does not answer or refuses.
pub async fn remove(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    addresses: &[String],
) -> Result<Change, OpError> {
    change(kube, permit, settings, |targets| addresses.iter().filter(|a| targets.remove(a)).count()).await
}

async fn change(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    apply: impl Fn(&mut Targets) -> usize,
) -> Result<Change, OpError> {
    let started = tokio::time::Instant::now();
    loop {
        let mut data =
            kube.config_map(&settings.namespace, &settings.name).await.map_err(|e| missing(settings, e))?;
        let mut targets = read(&data, settings)?;
        let changed = apply(&mut targets);
        if changed > 0 {
            let text = targets.to_text().map_err(|error| place(settings, error))?;
            data.set(&settings.key, text);
            if data.size() > CONFIGMAP_LIMIT {
                return Err(place(settings, TargetsError::TooLarge(data.size())));
            }
            match kube.write_config_map(permit, &data).await {
                Ok(()) => {}
                Err(error) if error.kind == KubeErrorKind::Conflict && started.elapsed() < LONGEST => {
                    super::pause(LONGEST_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
        }
        return Ok(Change { changed, size: data.size() });
    }
}

fn read(data: &ConfigMapData, settings: &TargetSettings) -> Result<Targets, OpError> {
    Targets::parse(data.get(&settings.key).unwrap_or_default()).map_err(|error| place(settings, error))
}

fn place(settings: &TargetSettings, error: TargetsError) -> OpError {
    OpError::Targets {
        place: format!("{}/{}, key {}", settings.namespace, settings.name, settings.key),
        error,
    }
}

fn missing(settings: &TargetSettings, error: crate::backend::kube::KubeError) -> OpError {
    if error.kind == KubeErrorKind::NotFound {
        let TargetSettings { namespace, name, .. } = settings;
        OpError::Missing(format!(
            "there is no ConfigMap {namespace}/{name} for the targets: create it (kubectl create configmap {name} -n {namespace})"
        ))
    } else {
        error.into()
    }
}
