//! The `scrape-collectd` ConfigMap: adding, removing and labelling targets, without losing what others write at the same time.

use std::time::Duration;

use super::OpError;
use crate::backend::kube::{About, ConfigMapData, Kube, KubeErrorKind};
use crate::config::{Permit, TargetSettings};
use crate::domain::activity::Deed;
use crate::domain::target::{
    CONFIGMAP_LIMIT, LabelChange, Listing, NewTarget, Target, Targets, TargetsError, attribute, nearly_full,
};

/// Bounded by time, not by tries: 50 writers at once need up to 23 tries each when they collide.
const LONGEST: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// How many targets were added, removed or changed.
    pub changed: usize,
    /// Those of the given addresses that are no targets.
    pub absent: Vec<String>,
    /// How many bytes the ConfigMap holds now, of 1,048,576.
    pub size: usize,
}

impl Change {
    /// Whether the ConfigMap is nearly full.
    #[must_use]
    pub fn nearly_full(&self) -> bool {
        nearly_full(self.size)
    }
}

/// All targets.
///
/// # Errors
/// When the ConfigMap is missing or malformed, or the API server does not answer or refuses.
pub async fn list(kube: &Kube, settings: &TargetSettings) -> Result<Vec<Target>, OpError> {
    Ok(look(kube, settings).await?.targets)
}

/// All targets as the ConfigMap has them, and how much room they take. [`attribute`] finds out more from the runs.
///
/// # Errors
/// As [`list`].
pub async fn look(kube: &Kube, settings: &TargetSettings) -> Result<Listing, OpError> {
    let data =
        kube.config_map(&settings.namespace, &settings.name).await.map_err(|e| missing(settings, e))?;
    Ok(Listing { targets: read(&data, settings)?.list(), size: data.size() })
}

/// The same, and the runs that put targets there where the entries do not say so themselves. Without leave to list runs
/// those stay unknown.
///
/// # Errors
/// As [`list`].
pub async fn look_with_runs(kube: &Kube, settings: &TargetSettings) -> Result<Listing, OpError> {
    let mut listing = look(kube, settings).await?;
    if listing.targets.iter().any(|t| t.run.is_none() && t.unknown.is_none()) {
        match kube.runs(None).await {
            Ok(runs) => attribute(&mut listing.targets, &runs),
            Err(error) => tracing::warn!(%error, "which run added a target is not known"),
        }
    }
    Ok(listing)
}

/// Adds targets in one write; one that is there already is left or gets its new labels.
///
/// # Errors
/// When the ConfigMap is missing, malformed or full, or the API server does not answer or refuses.
pub async fn add(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    new: &[NewTarget],
    by: &str,
) -> Result<Change, OpError> {
    let addresses: Vec<&str> = new.iter().map(|n| n.address.as_str()).collect();
    recorded(kube, permit, settings, (Deed::AddTargets, "added", by), &addresses, |targets| {
        (new.iter().filter(|new| targets.add(new)).count(), Vec::new())
    })
    .await
}

/// Removes targets in one write.
///
/// # Errors
/// When the ConfigMap is missing or malformed, or the API server does not answer or refuses.
pub async fn remove(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    addresses: &[String],
    by: &str,
) -> Result<Change, OpError> {
    let named: Vec<&str> = addresses.iter().map(String::as_str).collect();
    recorded(kube, permit, settings, (Deed::RemoveTargets, "removed", by), &named, |targets| {
        let absent: Vec<String> = addresses.iter().filter(|a| !targets.remove(a)).cloned().collect();
        (addresses.len() - absent.len(), absent)
    })
    .await
}

/// Changes the labels of targets in one write.
///
/// # Errors
/// When the ConfigMap is missing, malformed or full, or the API server does not answer or refuses.
pub async fn label(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    addresses: &[String],
    labels: &LabelChange,
    by: &str,
) -> Result<Change, OpError> {
    let named: Vec<&str> = addresses.iter().map(String::as_str).collect();
    recorded(kube, permit, settings, (Deed::LabelTargets, "labelled", by), &named, |targets| {
        let mut changed = 0;
        let mut absent = Vec::new();
        for address in addresses {
            match targets.label(address, labels) {
                Some(true) => changed += 1,
                Some(false) => {}
                None => absent.push(address.clone()),
            }
        }
        (changed, absent)
    })
    .await
}

async fn recorded(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    (deed, word, by): (Deed, &str, &str),
    addresses: &[&str],
    apply: impl Fn(&mut Targets) -> (usize, Vec<String>),
) -> Result<Change, OpError> {
    let about = About::Targets { namespace: settings.namespace.clone(), name: settings.name.clone() };
    let work = change(kube, permit, settings, apply);
    let note = |change: &Change| {
        (change.changed > 0).then(|| format!("{} {word} by {by}: {}", change.changed, addresses.join(" ")))
    };
    super::activity::recorded(kube, permit, (deed, &about, by), work, note).await
}

/// Reads, changes and writes; from the reading on again when somebody else wrote meanwhile.
async fn change(
    kube: &Kube,
    permit: &Permit,
    settings: &TargetSettings,
    apply: impl Fn(&mut Targets) -> (usize, Vec<String>),
) -> Result<Change, OpError> {
    let started = tokio::time::Instant::now();
    loop {
        let mut data =
            kube.config_map(&settings.namespace, &settings.name).await.map_err(|e| missing(settings, e))?;
        let mut targets = read(&data, settings)?;
        let (changed, absent) = apply(&mut targets);
        if changed > 0 {
            let text = targets.to_text().map_err(|error| place(settings, error))?;
            let before = data.size();
            data.set(&settings.key, text);
            // What makes it smaller is let through: else nobody could mend it.
            if data.size() > CONFIGMAP_LIMIT && data.size() >= before {
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
        return Ok(Change { changed, absent, size: data.size() });
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
