//! The variables that a container's specification gives it.
//!
//! Pure: what Secrets and ConfigMaps hold was read before (`sources.rs`). Called by `launch.rs`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Pod};

use super::expand::expand;
use super::pods;
use super::sources::{Kind, Sources};
use super::volumes::Mounts;

/// Variables by name.
pub(super) type Variables = BTreeMap<String, String>;

/// The address of every pod here: they share the machine's loopback interface.
pub(super) const POD_ADDRESS: &str = "127.0.0.1";

/// Why a container cannot be configured: what a kubelet reports as `CreateContainerConfigError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConfigError(pub(super) String);

/// Adds the container's variables to `variables`, in order: whole Secrets and ConfigMaps first, then one by one, later ones over
/// earlier ones. A value may refer to those before it.
pub(super) fn add(
    variables: &mut Variables,
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    mounts: &Mounts,
) -> Result<(), ConfigError> {
    for whole in container.env_from.iter().flatten() {
        let prefix = whole.prefix.as_deref().unwrap_or_default();
        let secret = whole.secret_ref.as_ref().map(|r| (Kind::Secret, &r.name, r.optional));
        let config_map = whole.config_map_ref.as_ref().map(|r| (Kind::ConfigMap, &r.name, r.optional));
        let Some((kind, name, optional)) = secret.or(config_map) else { continue };
        for (key, value) in sources.all(kind, name, optional == Some(true))? {
            variables.insert(format!("{prefix}{key}"), text(&value, &format!("key {key} of {kind} {name}"))?);
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(variables, pod, variable, sources, mounts)? {
            let place = format!("variable {}", variable.name);
            variables.insert(variable.name.clone(), text(value.as_bytes(), &place)?);
        }
    }
    Ok(())
}

/// The value of one variable; `None` when it comes from something optional that is not there.
fn value(
    known: &Variables,
    pod: &Pod,
    variable: &EnvVar,
    sources: &Sources,
    mounts: &Mounts,
) -> Result<Option<String>, ConfigError> {
    match &variable.value_from {
        Some(from) => value_from(pod, variable, from, sources),
        None => {
            let text = variable.value.as_deref().unwrap_or_default();
            Ok(Some(mounts.place(&expand(text, |name| known.get(name).map(String::as_str)))))
        }
    }
}

fn value_from(
    pod: &Pod,
    variable: &EnvVar,
    from: &EnvVarSource,
    sources: &Sources,
) -> Result<Option<String>, ConfigError> {
    if let Some(field) = &from.field_ref {
        return match field_value(pod, &field.field_path) {
            Some(value) => Ok(Some(value)),
            None => Err(ConfigError(format!(
                "variable {} wants the pod's field {}, which the playground's Job runner does not give",
                variable.name, field.field_path
            ))),
        };
    }
    let secret = from.secret_key_ref.as_ref().map(|r| (Kind::Secret, &r.name, &r.key, r.optional));
    let config_map = from.config_map_key_ref.as_ref().map(|r| (Kind::ConfigMap, &r.name, &r.key, r.optional));
    let Some((kind, name, key, optional)) = secret.or(config_map) else {
        return Err(ConfigError(format!(
            "variable {} comes from a source that the playground's Job runner does not know",
            variable.name
        )));
    };
    let Some(value) = sources.one(kind, name, key, optional == Some(true))? else { return Ok(None) };
    text(&value, &format!("key {key} of {kind} {name}")).map(Some)
}

/// A field of the pod as the downward API gives it; `None` for one that it does not know.
pub(super) fn field_value(pod: &Pod, path: &str) -> Option<String> {
    let meta = &pod.metadata;
    if let Some((map, key)) = subscript(path) {
        let entries = match map {
            "metadata.labels" => meta.labels.as_ref(),
            "metadata.annotations" => meta.annotations.as_ref(),
            _ => return None,
        };
        return Some(entries.and_then(|e| e.get(key)).cloned().unwrap_or_default());
    }
    let spec = || pods::spec(pod);
    let value = match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "spec.nodeName" => spec().node_name,
        "spec.serviceAccountName" => spec().service_account_name,
        "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs" => Some(POD_ADDRESS.to_owned()),
        _ => return None,
    };
    Some(value.unwrap_or_default())
}

/// Splits `metadata.labels['key']` into `metadata.labels` and `key`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once('[')?;
    let quoted = rest.strip_suffix(']')?;
    let key = |quote| quoted.strip_prefix(quote)?.strip_suffix(quote);
    Some((map, key('\'').or_else(|| key('"'))?))
}

/// What a process can be given in its environment: text without a zero byte.
fn text(value: &[u8], place: &str) -> Result<String, ConfigError> {
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(ConfigError(format!("{place} is not text: it cannot be given to a program as a variable"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(env: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "hw", "uid": "u-1", "labels": {"a.b/c": "label"},
                "annotations": {"note": "two\nlines"}},
            "spec": {"nodeName": "playground", "containers": [{"name": "c", "env": env, "envFrom": [
                {"prefix": "P_", "configMapRef": {"name": "map"}}, {"secretRef": {"name": "none", "optional": true}}]}]},
        }))
        .unwrap()
    }

    fn resolve(env: &serde_json::Value) -> Result<Variables, ConfigError> {
        let pod = pod(env);
        let sources = Sources::known(&[
            (Kind::ConfigMap, "map", &[("key", b"value")]),
            (Kind::Secret, "secret", &[("password", b"hunter2"), ("binary", b"\xff")]),
        ]);
        let mut variables = Variables::from([("FIRST".to_owned(), "1".to_owned())]);
        let container = &pods::spec(&pod).containers[0];
        add(&mut variables, &pod, container, &sources, &Mounts::default()).map(|()| variables)
    }

    fn from(source: &serde_json::Value) -> Result<Option<String>, ConfigError> {
        resolve(&json!([{"name": "X", "valueFrom": source}])).map(|mut v| v.remove("X"))
    }

    #[test]
    fn fields_of_the_pod_are_given() {
        for (path, expected) in [
            ("metadata.name", "p"),
            ("metadata.namespace", "hw"),
            ("metadata.uid", "u-1"),
            ("metadata.labels['a.b/c']", "label"),
            ("metadata.annotations['note']", "two\nlines"),
            ("metadata.annotations['missing']", ""),
            ("spec.nodeName", "playground"),
            ("status.podIP", "127.0.0.1"),
        ] {
            let value = from(&json!({"fieldRef": {"fieldPath": path}}));
            assert_eq!(value, Ok(Some(expected.to_owned())), "{path}");
        }
        for path in ["spec.containers", "metadata.labels", "metadata.labels[x]", "metadata.labels['x'"] {
            assert!(from(&json!({"fieldRef": {"fieldPath": path}})).is_err(), "{path}");
        }
    }

    #[test]
    fn secrets_and_config_maps_are_given() {
        let key = |kind: &str, name: &str, key: &str, optional: bool| {
            from(&json!({kind: {"name": name, "key": key, "optional": optional}}))
        };
        assert_eq!(key("secretKeyRef", "secret", "password", false), Ok(Some("hunter2".to_owned())));
        assert_eq!(key("configMapKeyRef", "map", "key", false), Ok(Some("value".to_owned())));
        assert_eq!(key("configMapKeyRef", "none", "key", true), Ok(None));
        assert_eq!(key("configMapKeyRef", "map", "other", true), Ok(None));
        for (kind, name, entry, says) in [
            ("secretKeyRef", "none", "password", "Secret none not found"),
            ("secretKeyRef", "secret", "other", "Secret secret has no key other"),
            ("secretKeyRef", "secret", "binary", "key binary of Secret secret is not text"),
        ] {
            let message = key(kind, name, entry, false).unwrap_err().to_string();
            assert!(message.contains(says) && !message.contains("hunter2"), "{message}");
        }
        let unknown = from(&json!({"resourceFieldRef": {"resource": "limits.cpu"}}));
        assert!(unknown.unwrap_err().to_string().contains("variable X"));
    }

    #[test]
    fn values_refer_to_what_came_before_and_later_ones_win() {
        let env = json!([
            {"name": "A", "value": "$(FIRST)$(P_key)$(LATER)"}, {"name": "LATER", "value": "x"},
            {"name": "A", "value": "$(A)!"}, {"name": "EMPTY"},
        ]);
        let variables = resolve(&env).unwrap();
        assert_eq!(variables["A"], "1value$(LATER)!");
        assert_eq!((variables["P_key"].as_str(), variables["EMPTY"].as_str()), ("value", ""));
    }
}
