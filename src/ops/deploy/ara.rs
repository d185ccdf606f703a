//! What an environment says of the ARA server that is shipped: its database, the names that it answers to, what it keeps, who reaches it.

use serde_json::{Value, json};

use super::{name, set};
use crate::config::{AraServer, Settings};
use crate::ops::OpError;

/// What all objects of ARA are called.
const ARA: &str = "hostwright-ara";
/// What those are called that prune.
const PRUNE: &str = "hostwright-ara-prune";

/// The ARA server of an environment.
pub(super) struct Ara<'a> {
    server: &'a AraServer,
    /// The names that it answers to; for others it has an error.
    hosts: Vec<String>,
}

impl<'a> Ara<'a> {
    /// None when the environment has none of its own.
    ///
    /// # Errors
    /// When nobody would know where it is.
    pub(super) fn new(settings: &'a Settings, namespace: &str) -> Result<Option<Self>, OpError> {
        let environment = &settings.environment;
        let Some(server) = &environment.ara_server else { return Ok(None) };
        let host = environment
            .ara
            .as_ref()
            .and_then(|ara| Some(ara.url.parse::<http::Uri>().ok()?.host()?.to_owned()))
            .ok_or_else(|| {
                let text =
                    "ara_server is deployed, but ara.url does not say where runs and consoles reach it";
                OpError::Invalid(text.to_owned())
            })?;
        let mut hosts = vec![host];
        for more in [ARA.to_owned(), format!("{ARA}.{namespace}"), format!("{ARA}.{namespace}.svc")] {
            if !hosts.contains(&more) {
                hosts.push(more);
            }
        }
        // The probes' name.
        hosts.push("localhost".to_owned());
        Ok(Some(Self { server, hosts }))
    }

    /// Puts it into an object, if the object is ARA's.
    ///
    /// # Errors
    /// When what is shipped is not what is expected here.
    pub(super) fn put(&self, object: &mut Value) -> Result<(), OpError> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        match (kind, name(object)) {
            ("ConfigMap", ARA) => self.settings(object)?,
            ("NetworkPolicy", ARA) => {
                let from = "/spec/ingress/0/from/0/namespaceSelector/matchLabels";
                set(object, from, "kubernetes.io/metadata.name", json!(self.server.ingress));
                set(object, "/spec/egress/1/ports/0", "port", json!(self.server.port));
            }
            ("CronJob", PRUNE) => self.days(object)?,
            _ => {}
        }
        Ok(())
    }

    /// The settings are YAML in YAML.
    fn settings(&self, object: &mut Value) -> Result<(), OpError> {
        let wrong = |error: String| OpError::Invalid(format!("ARA's shipped settings are no YAML: {error}"));
        let text = object.pointer("/data/settings.yaml").and_then(Value::as_str).unwrap_or_default();
        let mut settings: Value = serde_saphyr::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let server = self.server;
        set(&mut settings, "/default", "ALLOWED_HOSTS", json!(self.hosts));
        set(&mut settings, "/default", "DATABASE_HOST", json!(server.database));
        set(&mut settings, "/default", "DATABASE_PORT", json!(server.port));
        set(&mut settings, "/default", "DATABASE_NAME", json!(server.name));
        set(&mut settings, "/default", "DATABASE_USER", json!(server.user));
        let text = serde_saphyr::to_string(&settings).map_err(|e| wrong(e.to_string()))?;
        set(object, "/data", "settings.yaml", json!(text));
        Ok(())
    }

    /// How long playbooks are kept stands in the command of the job that prunes.
    fn days(&self, object: &mut Value) -> Result<(), OpError> {
        let at = "/spec/jobTemplate/spec/template/spec/containers/0/command";
        let command = object.pointer_mut(at).and_then(Value::as_array_mut);
        let days = command.and_then(|words| {
            let days = words.iter().position(|word| word == "--days")?;
            words.get_mut(days + 1)
        });
        let days =
            days.ok_or_else(|| OpError::Invalid("the shipped job of ARA says no --days".to_owned()))?;
        *days = json!(self.server.keep_days().to_string());
        Ok(())
    }
}
