//! Where credentials come from: the kubeconfig, its credential plugin, or the pod's own account.
//!
//! A plugin is never let at the terminal: it gets no input, and what it says on its standard error is kept for the error message.
//! Otherwise it would write into the console, and read the keys that are meant for it.

use std::borrow::Cow;
use std::fmt;
use std::process::Output;
use std::sync::Arc;

use ::kube::client::AuthError;
use ::kube::config::{ExecInteractiveMode, InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use ::kube::{Client, Config};

use super::busy::patient;
use super::{CONNECT_LIMIT, KubeError, KubeErrorKind};
use crate::config::Kubernetes;
use crate::domain::text::plain;

/// How much of what a plugin said is told, in characters.
const LONGEST_SAYING: usize = 300;
const DOING: &str = "read the kubeconfig";

/// Whose credentials we show, in words that an operator knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    /// Those of this context of the kubeconfig; harmless text.
    Context(Arc<str>),
    /// The pod's own account.
    Pod,
}

impl Who {
    pub(super) fn of_context(name: &str) -> Self {
        Self::Context(plain(name).into())
    }

    /// What to do when they are not taken.
    pub(super) fn advice(&self) -> Cow<'static, str> {
        match self {
            // Of their own accord the tools would ask the current context's cluster, which may be another.
            Self::Context(name) => Cow::Owned(format!(
                "log in to the cluster again (kubectl --context {} get nodes tells whether it worked)",
                shell_words::quote(name)
            )),
            Self::Pod => Cow::Borrowed("is the pod's service account still there, and its token mounted?"),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Context(name) => f.write_str(name),
            Self::Pod => f.write_str("the cluster with the pod's own account"),
        }
    }
}

/// Where the API server is, how we show who we are, and as whom. A plugin is not run yet.
pub(super) async fn config(settings: &Kubernetes) -> Result<(Config, Who), KubeError> {
    let invalid = |text: String| KubeError::new(KubeErrorKind::Invalid, DOING, text);
    let read = match (&settings.kubeconfig, &settings.context) {
        (Some(path), _) => {
            Some(Kubeconfig::read_from(path).map_err(|e| invalid(format!("{}: {e}", path.display())))?)
        }
        (None, Some(_)) => Some(Kubeconfig::read().map_err(|e| invalid(e.to_string()))?),
        (None, None) => None,
    };
    let (mut config, who) = match read {
        Some(text) => {
            of_context(text, settings.context.as_deref()).await.map_err(|e| invalid(e.to_string()))?
        }
        None => inferred().await.map_err(|e| invalid(e.to_string()))?,
    };
    if let Some(exec) = &mut config.auth_info.exec {
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    config.connect_timeout = Some(CONNECT_LIMIT);
    config.default_retry = false;
    if crate::domain::is_here(config.cluster_url.host().unwrap_or_default()) {
        config.proxy_url = None;
    }
    Ok((config, who))
}

/// This context of a kubeconfig, or its current one.
async fn of_context(text: Kubeconfig, context: Option<&str>) -> Result<(Config, Who), KubeconfigError> {
    let who = Who::of_context(context.or(text.current_context.as_deref()).unwrap_or_default());
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
    Ok((Config::from_custom_kubeconfig(text, &options).await?, who))
}

/// The kubeconfig where tools look for it, else the pod's own account.
async fn inferred() -> Result<(Config, Who), InferConfigError> {
    if let Ok(text) = Kubeconfig::read()
        && let Ok(found) = of_context(text, None).await
    {
        return Ok(found);
    }
    Ok((Config::infer().await?, Who::Pod))
}

/// Makes the client. The plugin runs, which may take its time, on a thread of its own.
pub(super) async fn client(config: Config, who: &Who) -> Result<Client, KubeError> {
    let doing = "get credentials";
    match tokio::task::spawn_blocking(move || Client::try_from(config)).await {
        Ok(made) => made.map(patient).map_err(|error| KubeError::from_kube(doing, who, error)),
        Err(error) => Err(KubeError::new(KubeErrorKind::Failed, doing, error.to_string())),
    }
}

/// Why credentials could not be got, if that is what went wrong somewhere in this error. The library's own
/// words hold the plugin's command line, environment and output, in which there may be secrets.
pub(super) fn told(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<AuthError>() {
            return Some(of_auth(error));
        }
        if let Some(::kube::Error::Auth(error)) = error.downcast_ref::<::kube::Error>() {
            return Some(of_auth(error));
        }
        cause = error.source();
    }
    None
}

fn of_auth(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => failed(out),
        AuthError::AuthExecStart(error) => format!("the credential plugin cannot be started: {error}"),
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            "what the credential plugin printed is no credential".to_owned()
        }
        other => other.to_string(),
    }
}

/// What a plugin that failed said last.
fn failed(out: &Output) -> String {
    let said = String::from_utf8_lossy(&out.stderr);
    let Some(last) = said.lines().map(str::trim).rfind(|line| !line.is_empty()) else {
        return format!("the credential plugin failed ({}) and said nothing", out.status);
    };
    let last: String = plain(last).chars().take(LONGEST_SAYING).collect();
    format!("the credential plugin says: {last}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_plugin_that_fails_is_told_by_its_last_words_and_not_by_its_secrets() {
        let out = Output {
            status: std::process::ExitStatus::from_raw(256),
            stdout: b"{\"token\": \"s3cret\"}".to_vec(),
            stderr: b"asking\nyour session is over\x1b[2J: log in\n\n".to_vec(),
        };
        let error = AuthError::AuthExecRun { cmd: "SECRET=s3cret \"login\"".to_owned(), out: Box::new(out) };
        let error = ::kube::Error::Service(Box::new(error));
        let text = told(&error).unwrap();
        assert!(text.contains("plugin says: your session is over"), "{text}");
        assert!(!text.contains("s3cret") && !text.contains('\x1b'), "{text}");
        assert_eq!(told(&std::io::Error::other("else")), None);
    }

    #[tokio::test]
    async fn the_context_is_the_one_that_is_asked_for_or_the_current_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: \"one\\e[2J\"\n\
                    contexts: [{name: \"one\\e[2J\", context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: u}}]\n\
                    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n";
        std::fs::write(file.path(), text).unwrap();
        let who = async |context: Option<&str>| {
            let kubeconfig = Some(file.path().to_owned());
            let context = context.map(str::to_owned);
            let settings = Kubernetes { kubeconfig, context, namespace: None };
            config(&settings).await.map(|(_, who)| who.to_string())
        };
        assert_eq!(who(Some("two")).await.unwrap(), "two");
        assert_eq!(who(None).await.unwrap(), plain("one\x1b[2J"), "harmless on a terminal");
        assert!(!plain("one\x1b[2J").contains('\x1b'));
        assert_eq!(who(Some("three")).await.unwrap_err().kind, KubeErrorKind::Invalid);
    }
}
