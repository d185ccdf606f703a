//! Where credentials come from: the kubeconfig, its credential plugin, or the pod's own account.
//!
//! A plugin is never let at the terminal: it gets no input, and what it says on its standard error is kept for the error message.
//! Otherwise it would write into the console, and read the keys that are meant for it.

use std::process::Output;

use ::kube::client::AuthError;
use ::kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use ::kube::{Client, Config};

use super::{CONNECT_LIMIT, KubeError, KubeErrorKind};
use crate::config::Kubernetes;
use crate::domain::text::plain;

/// How much of what a plugin said is told, in characters.
const LONGEST_SAYING: usize = 300;
const DOING: &str = "read the kubeconfig";

/// Where the API server is and how we show who we are. A plugin is not run yet.
pub(super) async fn config(settings: &Kubernetes) -> Result<Config, KubeError> {
    let invalid = |text: String| KubeError::new(KubeErrorKind::Invalid, DOING, text);
    let read = match (&settings.kubeconfig, &settings.context) {
        (Some(path), _) => {
            Some(Kubeconfig::read_from(path).map_err(|e| invalid(format!("{}: {e}", path.display())))?)
        }
        (None, Some(_)) => Some(Kubeconfig::read().map_err(|e| invalid(e.to_string()))?),
        (None, None) => None,
    };
    let mut config = match read {
        Some(text) => {
            let options = KubeConfigOptions { context: settings.context.clone(), ..Default::default() };
            Config::from_custom_kubeconfig(text, &options).await.map_err(|e| invalid(e.to_string()))?
        }
        None => Config::infer().await.map_err(|e| invalid(e.to_string()))?,
    };
    if let Some(exec) = &mut config.auth_info.exec {
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    config.connect_timeout = Some(CONNECT_LIMIT);
    if crate::domain::is_here(config.cluster_url.host().unwrap_or_default()) {
        config.proxy_url = None;
    }
    Ok(config)
}

/// Makes the client. The plugin runs, which may take its time, on a thread of its own.
pub(super) async fn client(config: Config) -> Result<Client, KubeError> {
    let doing = "get credentials";
    match tokio::task::spawn_blocking(move || Client::try_from(config)).await {
        Ok(made) => made.map_err(|error| KubeError::from_kube(doing, error)),
        Err(error) => Err(KubeError::new(KubeErrorKind::Failed, doing, error.to_string())),
    }
}

/// What is to be told of credentials that could not be got, if that is what went wrong somewhere in this error. The library's own
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
    let what = match error {
        AuthError::AuthExecRun { out, .. } => failed(out),
        AuthError::AuthExecStart(error) => format!("the credential plugin cannot be started: {error}"),
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            "what the credential plugin printed is no credential".to_owned()
        }
        other => other.to_string(),
    };
    format!("not authenticated: {what}")
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
}
