//! What can go wrong with ARA, in words for an operator.

use std::path::PathBuf;

use crate::domain::{BackEnd, Problem, ProblemKind};

/// What went wrong with ARA. What to do is in [`problem`](AraError::problem).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum AraError {
    /// The settings' URL.
    #[error("the URL of ARA cannot be used: {0}")]
    Url(String),
    /// The settings' credentials.
    #[error("the credentials for ARA cannot be used: {0}")]
    Credentials(String),
    /// The settings' CA.
    #[error("cannot use the CA of ARA, {path}: {reason}")]
    Ca { path: PathBuf, reason: String },
    /// Nobody answers.
    #[error("cannot reach ARA at {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// The certificate is not trusted.
    #[error("no TLS connection to ARA at {url}: {reason}")]
    Tls { url: String, reason: String },
    /// No whole answer in time.
    #[error("no answer from ARA at {url} within {seconds} s")]
    TimedOut { url: String, seconds: u64 },
    /// 401 without credentials.
    #[error("ARA at {url} wants credentials")]
    WantsCredentials { url: String },
    /// 401 with credentials.
    #[error("ARA at {url} does not accept our credentials")]
    NotAuthenticated { url: String },
    /// 403.
    #[error("ARA at {url} does not let us read")]
    Forbidden { url: String },
    /// There is no such object.
    #[error("ARA at {url} has no {what}")]
    NotFound { url: String, what: String },
    /// Something answers that is not ARA.
    #[error("{url} answers, but not as ARA: {reason}")]
    NotAra { url: String, reason: String },
    /// Any other status.
    #[error("ARA at {url} failed: {reason}")]
    Failed { url: String, reason: String },
    /// ARA's answer makes no sense.
    #[error("cannot read the answer of ARA at {url}: {reason}")]
    Malformed { url: String, reason: String },
}

impl AraError {
    /// The same for the console, with what to do about it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let (kind, advice) = match self {
            Self::Url(_) => (
                ProblemKind::Invalid,
                "write ara.url as https://HOST, without /api/v1, and the credentials in settings of their own",
            ),
            Self::Credentials(_) => {
                (ProblemKind::Invalid, "look at ara's username, password, token, header and header_value")
            }
            Self::Ca { .. } => (ProblemKind::Invalid, "ara.ca names a PEM file with the CA's certificate"),
            Self::Unreachable { .. } | Self::TimedOut { .. } => {
                (ProblemKind::Unreachable, "check that it runs and that this machine may reach it")
            }
            Self::Tls { .. } => {
                (ProblemKind::Unreachable, "name the CA that signed its certificate in ara.ca")
            }
            Self::WantsCredentials { .. } => (
                ProblemKind::NotAuthenticated,
                "set ara.username and password_file, or token_file, or header and header_value_file",
            ),
            Self::NotAuthenticated { .. } => {
                (ProblemKind::NotAuthenticated, "check the credentials in [environments.NAME.ara]")
            }
            Self::Forbidden { .. } => {
                (ProblemKind::Forbidden, "ask who runs it for leave to read, or use other credentials")
            }
            Self::NotFound { .. } => {
                (ProblemKind::NotFound, "it may have been pruned; else check ara.url (without /api/v1)")
            }
            Self::NotAra { .. } => (
                ProblemKind::NotAuthenticated,
                "is a login page in front of it? Give credentials that it takes, or a URL behind it",
            ),
            Self::Failed { .. } => (ProblemKind::Failed, "see ARA's log"),
            Self::Malformed { .. } => (ProblemKind::Failed, "ARA 1.7 and 1.8 are understood"),
        };
        Problem::new(BackEnd::Ara.word(), kind, self.to_string()).advise(advice)
    }
}

impl From<AraError> for Problem {
    fn from(error: AraError) -> Self {
        error.problem()
    }
}
