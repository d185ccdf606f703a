//! Problems as the console shows them, and the health of back ends.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// The outside systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackEnd {
    /// The Kubernetes API.
    Cluster,
    /// RabbitMQ.
    Queue,
    /// ARA.
    Ara,
    /// The secrets bucket.
    Bucket,
}

impl BackEnd {
    /// The word on screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Queue => "queue",
            Self::Ara => "ara",
            Self::Bucket => "bucket",
        }
    }
}

/// What kind of trouble: decides symbol, advice and exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// The back end does not answer.
    Unreachable,
    /// Who we are was not accepted (401).
    NotAuthenticated,
    /// We may not (403).
    Forbidden,
    /// There is no such object.
    NotFound,
    /// Somebody else changed it meanwhile, or it is not open any more.
    Conflict,
    /// An operator holds all approvals.
    Held,
    /// Read-only, or a condition that does not hold.
    Refused,
    /// What was given cannot be used.
    Invalid,
    /// Everything else.
    Failed,
}

/// Something that went wrong: subject, kind, text, advice, and when it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What it happened to: a host, a run, a back end.
    pub subject: String,
    /// The kind.
    pub kind: ProblemKind,
    /// What was being done and what happened.
    pub text: String,
    /// What to do about it; may be empty.
    pub advice: String,
    /// When it is tried again, if it is.
    pub retry_at: Option<Timestamp>,
}

impl Problem {
    /// A problem without advice and without another try.
    #[must_use]
    pub fn new(subject: impl Into<String>, kind: ProblemKind, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), kind, text: text.into(), advice: String::new(), retry_at: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, ": {}", self.advice) }
    }
}

/// What is known of a back end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum Health {
    /// The environment does not use it.
    Unused,
    /// Not tried yet.
    #[default]
    Unknown,
    /// It answers.
    Up,
    /// It does not.
    Down {
        /// Since when.
        since: Timestamp,
        /// Why, and when it is tried again.
        problem: Problem,
    },
}
