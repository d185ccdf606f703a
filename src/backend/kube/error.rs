//! What can go wrong between us and the API server, in words.

use std::borrow::Cow;
use std::time::Duration;

use ::kube::core::Status;

use super::credentials::Who;
use crate::domain::{Problem, ProblemKind, RecordError};

/// A failed call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {doing}: {text}")]
pub struct KubeError {
    /// What kind of failure.
    pub kind: KubeErrorKind,
    doing: String,
    text: String,
    /// Whose credentials were not taken.
    who: Option<Who>,
    /// When the API server wants to be asked again.
    retry_after: Option<Duration>,
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
        Self { kind, doing: doing.into(), text: text.into(), who: None, retry_after: None }
    }

    /// The API server takes these credentials for nobody's, or they could not be got.
    fn not_authenticated(doing: impl Into<String>, who: &Who, what: &str) -> Self {
        let text = format!("not authenticated to {who}: {what}");
        Self { who: Some(who.clone()), ..Self::new(KubeErrorKind::NotAuthenticated, doing, text) }
    }

    /// What the API server answered.
    fn of_status(doing: impl Into<String>, who: &Who, status: &Status) -> Self {
        match kind_of(status.code, &status.reason) {
            KubeErrorKind::NotAuthenticated => Self::not_authenticated(doing, who, refusal(&status.message)),
            kind => {
                let seconds = status.details.as_ref().map(|details| u64::from(details.retry_after_seconds));
                let retry_after = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
                let text = status_text(&status.message, &status.reason);
                Self { retry_after, ..Self::new(kind, doing, text) }
            }
        }
    }

    pub(super) fn from_kube(doing: impl Into<String>, who: &Who, error: ::kube::Error) -> Self {
        use ::kube::Error as E;
        if let Some(what) = super::credentials::told(&error) {
            return Self::not_authenticated(doing, who, &what);
        }
        let (kind, text) = match error {
            E::Api(status) => return Self::of_status(doing, who, &status),
            E::HyperError(error) => (KubeErrorKind::Unreachable, innermost(&error)),
            E::Service(error) => (KubeErrorKind::Unreachable, innermost(error.as_ref())),
            E::ReadEvents(error) => (KubeErrorKind::Unreachable, innermost(&error)),
            other => (KubeErrorKind::Failed, innermost(&other)),
        };
        Self::new(kind, doing, text)
    }

    pub(super) fn from_watch(doing: &str, who: &Who, error: ::kube::runtime::watcher::Error) -> Self {
        use ::kube::runtime::watcher::Error as E;
        match error {
            E::InitialListFailed(e) | E::WatchStartFailed(e) | E::WatchFailed(e) => {
                Self::from_kube(doing, who, e)
            }
            E::WatchError(status) => Self::of_status(doing, who, &status),
            E::NoResourceVersion => {
                Self::new(KubeErrorKind::Failed, doing, "the answer has no resource version")
            }
        }
    }

    /// How long the API server wants to be left alone, where it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether the same may go well by itself, without anybody changing anything.
    #[must_use]
    pub fn passes(&self) -> bool {
        use KubeErrorKind as K;
        matches!(self.kind, K::Unreachable | K::NotAuthenticated | K::Expired | K::Failed)
    }

    /// The same with other words for what was being done.
    #[must_use]
    pub fn while_doing(mut self, doing: impl Into<String>) -> Self {
        self.doing = doing.into();
        self
    }

    /// What an operator can do about it; empty when there is nothing to say.
    #[must_use]
    pub fn advice(&self) -> Cow<'static, str> {
        let advice = match (self.kind, &self.who) {
            (KubeErrorKind::NotAuthenticated, Some(who)) => return who.advice(),
            (KubeErrorKind::Forbidden, _) => "ask for that permission",
            (KubeErrorKind::Unreachable, _) => "is the API server up, and reachable from here?",
            _ => "",
        };
        Cow::Borrowed(advice)
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

/// Why credentials were not taken.
fn refusal(message: &str) -> &str {
    match message {
        // All that a real API server says of credentials that are missing, expired or wrong.
        "" | "Unauthorized" => "the API server does not take these credentials",
        other => other,
    }
}

fn status_text(message: &str, reason: &str) -> String {
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

#[cfg(test)]
mod tests {
    use ::kube::runtime::watcher;

    use super::*;

    fn status(code: u16, message: &str) -> Box<Status> {
        Box::new(Status::failure(message, "Unauthorized").with_code(code))
    }

    #[test]
    fn who_is_not_authenticated_where_and_what_to_do_are_told() {
        let who = Who::of_context("arn:aws:eks:cluster/staging one");
        let text = "cannot watch runs: not authenticated to arn:aws:eks:cluster/staging one: \
                    the API server does not take these credentials";
        let of_call = ::kube::Error::Api(status(401, "Unauthorized"));
        let of_watch = watcher::Error::WatchError(status(401, "Unauthorized"));
        let of_start = watcher::Error::WatchStartFailed(::kube::Error::Api(status(401, "")));
        for error in [
            KubeError::from_kube("watch runs", &who, of_call),
            KubeError::from_watch("watch runs", &who, of_watch),
            KubeError::from_watch("watch runs", &who, of_start),
        ] {
            assert_eq!(error.kind, KubeErrorKind::NotAuthenticated);
            assert_eq!(error.to_string(), text);
            assert!(error.advice().contains("kubectl --context 'arn:aws:eks:cluster/staging one' get nodes"));
        }
        let error =
            KubeError::from_kube("list runs", &Who::Pod, ::kube::Error::Api(status(401, "it is over")));
        assert!(
            error.to_string().ends_with("to the cluster with the pod's own account: it is over"),
            "{error}"
        );
        assert!(error.advice().contains("service account") && !error.advice().contains("log in"));
        let error = KubeError::from_kube("list runs", &who, ::kube::Error::Api(status(403, "no")));
        assert_eq!(
            (error.to_string().as_str(), &*error.advice()),
            ("cannot list runs: no", "ask for that permission")
        );
    }

    #[test]
    fn a_plugin_that_failed_is_told_with_the_context() {
        let error = ::kube::Error::Auth(::kube::client::AuthError::ExecPluginFailed);
        let error = KubeError::from_kube("get credentials", &Who::of_context("staging"), error);
        let text = "cannot get credentials: not authenticated to staging: what the credential plugin printed is no credential";
        assert_eq!(error.to_string(), text);
    }
}
