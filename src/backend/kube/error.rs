//! What can go wrong between us and the API server, in words.

use crate::domain::{Problem, ProblemKind, RecordError};

/// A failed call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {doing}: {text}")]
pub struct KubeError {
    /// What kind of failure.
    pub kind: KubeErrorKind,
    doing: String,
    text: String,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubeErrorKind {
    /// No answer.
    Unreachable,
    /// 401.
    NotAuthenticated,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 409 with the reason `AlreadyExists`.
    AlreadyExists,
    /// 409 else: the object changed meanwhile.
    Conflict,
    /// 400, 413 or 422, or a kubeconfig that cannot be used.
    Invalid,
    /// 410: the resource version is too old.
    Expired,
    /// The Job carries our label but is no run.
    NoRun,
    /// Everything else.
    Failed,
}

impl KubeError {
    /// A failure: kind, what was being done ("approve web-1"), and what happened.
    pub(super) fn new(kind: KubeErrorKind, doing: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind, doing: doing.into(), text: text.into() }
    }

    pub(super) fn from_kube(doing: impl Into<String>, error: ::kube::Error) -> Self {
        use ::kube::Error as E;
        if let Some(text) = super::credentials::told(&error) {
            return Self::new(KubeErrorKind::NotAuthenticated, doing, text);
        }
        let (kind, text) = match error {
            E::Api(status) => {
                (kind_of(status.code, &status.reason), status_text(&status.message, &status.reason))
            }
            E::HyperError(error) => (KubeErrorKind::Unreachable, innermost(&error)),
            E::Service(error) => (KubeErrorKind::Unreachable, innermost(error.as_ref())),
            E::ReadEvents(error) => (KubeErrorKind::Unreachable, innermost(&error)),
            other => (KubeErrorKind::Failed, innermost(&other)),
        };
        Self::new(kind, doing, text)
    }

    pub(super) fn from_watch(doing: &str, error: ::kube::runtime::watcher::Error) -> Self {
        use ::kube::runtime::watcher::Error as E;
        match error {
            E::InitialListFailed(e) | E::WatchStartFailed(e) | E::WatchFailed(e) => Self::from_kube(doing, e),
            E::WatchError(status) => Self::new(
                kind_of(status.code, &status.reason),
                doing,
                status_text(&status.message, &status.reason),
            ),
            E::NoResourceVersion => {
                Self::new(KubeErrorKind::Failed, doing, "the answer has no resource version")
            }
        }
    }

    /// The same with other words for what was being done.
    #[must_use]
    pub fn while_doing(mut self, doing: impl Into<String>) -> Self {
        self.doing = doing.into();
        self
    }

    /// What an operator can do about it; empty when there is nothing to say.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self.kind {
            KubeErrorKind::NotAuthenticated => {
                "log in to the cluster again (kubectl get nodes tells whether it worked)"
            }
            KubeErrorKind::Forbidden => "ask for that permission",
            KubeErrorKind::Unreachable => "is the API server up, and reachable from here?",
            _ => "",
        }
    }

    /// As the console and the commands show it.
    #[must_use]
    pub fn problem(&self, subject: impl Into<String>) -> Problem {
        let kind = match self.kind {
            KubeErrorKind::Unreachable => ProblemKind::Unreachable,
            KubeErrorKind::NotAuthenticated => ProblemKind::NotAuthenticated,
            KubeErrorKind::Forbidden => ProblemKind::Forbidden,
            KubeErrorKind::NotFound => ProblemKind::NotFound,
            KubeErrorKind::AlreadyExists | KubeErrorKind::Conflict => ProblemKind::Conflict,
            KubeErrorKind::Invalid => ProblemKind::Invalid,
            KubeErrorKind::Expired | KubeErrorKind::NoRun | KubeErrorKind::Failed => ProblemKind::Failed,
        };
        Problem::new(subject, kind, self.to_string()).advise(self.advice())
    }
}

impl From<RecordError> for KubeError {
    fn from(error: RecordError) -> Self {
        Self::new(KubeErrorKind::NoRun, format!("read Job {}", error.job), error.to_string())
    }
}

/// `AlreadyExists` is a 409 too: the reason tells.
fn kind_of(code: u16, reason: &str) -> KubeErrorKind {
    match (code, reason) {
        (401, _) => KubeErrorKind::NotAuthenticated,
        (403, _) => KubeErrorKind::Forbidden,
        (404, _) => KubeErrorKind::NotFound,
        (409, "AlreadyExists") => KubeErrorKind::AlreadyExists,
        (409, _) => KubeErrorKind::Conflict,
        (410, _) => KubeErrorKind::Expired,
        (400 | 413 | 422, _) => KubeErrorKind::Invalid,
        (429 | 500..=599, _) => KubeErrorKind::Unreachable,
        _ => KubeErrorKind::Failed,
    }
}

fn status_text(message: &str, reason: &str) -> String {
    // All that a real API server says of credentials that are missing, expired or wrong.
    if message == "Unauthorized" {
        return "not authenticated: the API server does not take these credentials".to_owned();
    }
    if message.is_empty() { reason.to_owned() } else { message.to_owned() }
}

/// The cause at the bottom: the layers above it only repeat that something failed.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
