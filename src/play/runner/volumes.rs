//! Volumes as folders of the pod. Nothing can be mounted at a path here, so each is told by `HOSTWRIGHT_VOLUME_<NAME>`, and what the
//! specification writes as a path below a mount (`/etc/hostwright/config.toml`) is given as the path below that folder.
//!
//! Called by `launch.rs`, off the runtime's threads: it writes files.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, KeyToPath, Pod, Volume};

use super::env::{ConfigError, Variables, field_value};
use super::pods;
use super::sources::{Kind, Sources};

/// Where the paths that a container has mounts at are on this machine.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<(String, PathBuf)>);

impl Mounts {
    /// The same path on this machine, when `text` is one at or below a mount; else `text`.
    pub(super) fn place(&self, text: &str) -> String {
        let below = |(mount, folder): &(String, PathBuf)| {
            let rest = text.strip_prefix(mount.as_str())?;
            let path = match rest.strip_prefix('/') {
                Some(inner) => folder.join(inner),
                None if rest.is_empty() => folder.clone(),
                None => return None,
            };
            Some((mount.len(), path.to_string_lossy().into_owned()))
        };
        // The deepest mount holds the path.
        self.0.iter().filter_map(below).max().map_or_else(|| text.to_owned(), |(_, path)| path)
    }
}

/// Makes the folder of each volume below `folder` and names it in `variables`; says where the container's mounts are.
///
/// # Errors
/// For a volume of another kind, an object or key that is not there, or a file that cannot be written.
pub(super) fn provide(
    volumes: &[&Volume],
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    folder: &Path,
    variables: &mut Variables,
) -> Result<Mounts, ConfigError> {
    let mut mounts = Mounts::default();
    for volume in volumes {
        let files = files(volume, pod, sources)?;
        let place = folder.join(&volume.name);
        make(&place, &files).map_err(|e| {
            ConfigError(format!("cannot write volume {} to {}: {e}", volume.name, place.display()))
        })?;
        variables.insert(variable(&volume.name), place.to_string_lossy().into_owned());
        for mount in container.volume_mounts.iter().flatten().filter(|m| m.name == volume.name) {
            let part = match mount.sub_path.as_deref() {
                Some(part) if !part.is_empty() => place.join(inside(part)?),
                _ => place.clone(),
            };
            mounts.0.push((mount.mount_path.trim_end_matches('/').to_owned(), part));
        }
    }
    Ok(mounts)
}

/// The variable that tells where the volume of this name is.
fn variable(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("HOSTWRIGHT_VOLUME_{name}")
}

type Files = Vec<(PathBuf, Vec<u8>)>;

fn files(volume: &Volume, pod: &Pod, sources: &Sources) -> Result<Files, ConfigError> {
    if volume.empty_dir.is_some() {
        return Ok(Vec::new());
    }
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        return entries(Kind::Secret, name, secret.items.as_deref(), secret.optional, sources);
    }
    if let Some(map) = &volume.config_map {
        return entries(Kind::ConfigMap, &map.name, map.items.as_deref(), map.optional, sources);
    }
    if let Some(downward) = &volume.downward_api {
        let items = downward.items.iter().flatten();
        return items
            .map(|item| {
                let field = item.field_ref.as_ref().map(|f| f.field_path.as_str()).unwrap_or_default();
                let value = field_file(pod, field).ok_or_else(|| {
                    ConfigError(format!(
                        "volume {} wants the pod's field {field:?}, which the playground's Job runner does not give",
                        volume.name
                    ))
                })?;
                Ok((inside(&item.path)?, value.into_bytes()))
            })
            .collect();
    }
    Err(ConfigError(format!(
        "volume {} is of a kind that the playground's Job runner does not have: use emptyDir, configMap, secret or downwardAPI",
        volume.name
    )))
}

fn entries(
    kind: Kind,
    name: &str,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    sources: &Sources,
) -> Result<Files, ConfigError> {
    let optional = optional == Some(true);
    let Some(items) = items else {
        let all = sources.all(kind, name, optional)?;
        return all.into_iter().map(|(key, value)| Ok((inside(&key)?, value))).collect();
    };
    let mut files = Vec::new();
    for item in items {
        if let Some(value) = sources.one(kind, name, &item.key, optional)? {
            files.push((inside(&item.path)?, value));
        }
    }
    Ok(files)
}

/// A field as a file: also the whole of the labels or annotations, one to a line.
fn field_file(pod: &Pod, path: &str) -> Option<String> {
    let entries = match path {
        "metadata.labels" => pods::map(pod.metadata.labels.as_ref()),
        "metadata.annotations" => pods::map(pod.metadata.annotations.as_ref()),
        _ => return field_value(pod, path),
    };
    let lines: Vec<String> = entries.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
    Some(lines.join("\n"))
}

/// A path that stays inside its volume.
fn inside(path: &str) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(path);
    if path.components().all(|c| matches!(c, Component::Normal(_))) && path.components().next().is_some() {
        Ok(path)
    } else {
        Err(ConfigError(format!("{} is no path inside a volume", path.display())))
    }
}

fn make(place: &Path, files: &Files) -> std::io::Result<()> {
    let folders = || {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
    };
    folders().create(place)?;
    for (path, bytes) in files {
        let file = place.join(path);
        if let Some(parent) = file.parent() {
            folders().create(parent)?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).open(&file)?.write_all(bytes)?;
    }
    Ok(())
}
