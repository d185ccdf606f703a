//! A kubeconfig that holds a program to one context and namespace, laid over the operator's own.

use std::path::PathBuf;

use ::kube::config::Kubeconfig;
use serde_json::json;

use super::{KubeError, KubeErrorKind};
use crate::config::Kubernetes;

/// What holds `kubectl` to a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The context.
    pub context: String,
    /// The namespace, where one is set.
    pub namespace: Option<String>,
    /// A kubeconfig to stand in front of the operator's: the first file that names something wins. No secrets are in it.
    pub overlay: String,
    /// The operator's file, where the settings name one.
    pub file: Option<PathBuf>,
}

const DOING: &str = "read the kubeconfig";

/// The context that these settings mean, looked up in the operator's kubeconfig.
///
/// # Errors
/// When the kubeconfig cannot be read or lacks the context.
pub fn pin(settings: &Kubernetes) -> Result<Pin, KubeError> {
    let invalid = |text: String| KubeError::new(KubeErrorKind::Invalid, DOING, text);
    let config = match &settings.kubeconfig {
        Some(path) => Kubeconfig::read_from(path).map_err(|e| invalid(format!("{}: {e}", path.display())))?,
        None => Kubeconfig::read().map_err(|e| invalid(e.to_string()))?,
    };
    let Some(name) = settings.context.clone().or_else(|| config.current_context.clone()) else {
        return Err(invalid("it has no current context, and kubernetes.context names none".to_owned()));
    };
    let found = config.contexts.iter().find(|context| context.name == name);
    let Some(context) = found.and_then(|context| context.context.clone()) else {
        let names: Vec<&str> = config.contexts.iter().map(|context| context.name.as_str()).collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(invalid(format!("it has no context {name:?}: it has {has}")));
    };
    let namespace = settings.namespace.clone().or(context.namespace);
    let mut inside = json!({"cluster": context.cluster, "user": context.user});
    if let (Some(namespace), Some(inside)) = (&namespace, inside.as_object_mut()) {
        inside.insert("namespace".to_owned(), json!(namespace));
    }
    let overlay = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": inside}],
    });
    Ok(Pin { context: name, namespace, overlay: overlay.to_string(), file: settings.kubeconfig.clone() })
}

/// A kubeconfig that names no cluster: with it a program speaks to none rather than to the wrong one.
pub const NO_CLUSTER: &str = r#"{"apiVersion": "v1", "kind": "Config"}"#;
