//! The webhook server as a machine sees it: for `hosts announce` and for the playground's machines.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Permit, Secret, Settings};
use crate::domain::{Problem, ProblemKind};

const LIMIT: Duration = Duration::from_secs(15);

/// A handle on the hook.
#[derive(Debug)]
pub struct Hook {
    client: reqwest::Client,
    url: String,
    token: Option<Secret>,
}

/// What the hook answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The host.
    pub host: String,
    /// Its run.
    pub run: String,
    /// Where the run stands.
    pub phase: String,
}

/// Why the hook did not take an announcement.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The token cannot be read, or no client can be made.
    #[error("cannot call the hook: {0}")]
    Settings(String),
    /// It does not answer.
    #[error("cannot reach the hook at {url}: {text}: is `hostwright serve` up?")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What happened.
        text: String,
    },
    /// It refused.
    #[error("the hook refused: {text} ({status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its reason.
        text: String,
    },
}

impl HookError {
    /// As the console and the commands show it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let kind = match self {
            Self::Settings(_) => ProblemKind::Invalid,
            Self::Unreachable { .. } => ProblemKind::Unreachable,
            Self::Refused { status: 401 | 403, .. } => ProblemKind::Forbidden,
            Self::Refused { status: 429 | 503, .. } => ProblemKind::Unreachable,
            Self::Refused { status: 400..=499, .. } => ProblemKind::Invalid,
            Self::Refused { .. } => ProblemKind::Failed,
        };
        Problem::new("hook", kind, self.to_string())
    }
}

impl Hook {
    /// The environment's hook, or the server's own listening address.
    ///
    /// # Errors
    /// When the token's file cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, HookError> {
        let environment = &settings.environment;
        let base = environment.hook.clone().unwrap_or_else(|| format!("http://{}", settings.server.listen));
        let file = environment.hook_token_file.as_ref().or(settings.server.token_file.as_ref());
        let token = file
            .map(|path| {
                let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
                let token = text.and_then(|text| match text.trim() {
                    "" => Err("the token's file is empty".to_owned()),
                    token => Ok(Secret::new(token)),
                });
                token.map_err(|e| HookError::Settings(format!("{}: {e}", path.display())))
            })
            .transpose()?;
        Self::at(&base, token)
    }

    /// The hook at a base URL.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn at(base: &str, token: Option<Secret>) -> Result<Self, HookError> {
        let url = format!("{}/host/online", base.trim_end_matches('/'));
        let mut builder = reqwest::Client::builder().timeout(LIMIT);
        let host = reqwest::Url::parse(&url).ok().and_then(|url| url.host_str().map(str::to_owned));
        if host.is_some_and(|host| crate::domain::is_here(&host)) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|e| HookError::Settings(e.to_string()))?;
        Ok(Self { client, url, token })
    }

    /// Announces a host; `body` is the JSON of the request.
    ///
    /// # Errors
    /// When the hook does not answer or refuses.
    pub async fn online(&self, _: &Permit, body: &serde_json::Value) -> Result<Answer, HookError> {
        let mut request = self.client.post(&self.url).json(body);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.reveal());
        }
        let unreachable =
            |e: reqwest::Error| HookError::Unreachable { url: self.url.clone(), text: root_cause(&e) };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.text().await.map_err(unreachable)?;
        if status.is_success() {
            return serde_json::from_str(&text).map_err(|_| HookError::Refused {
                status: status.as_u16(),
                text: "it answers, but not as the hook".to_owned(),
            });
        }
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        let text =
            serde_json::from_str::<Refusal>(&text).map_or_else(|_| "no reason given".to_owned(), |r| r.error);
        Err(HookError::Refused { status: status.as_u16(), text })
    }
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
