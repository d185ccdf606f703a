//! Why a deed was not done.

use jiff::Timestamp;

use crate::backend::amqp::AmqpError;
use crate::backend::ara::AraError;
use crate::backend::editor::EditorError;
use crate::backend::folder::FolderError;
use crate::backend::hook::HookError;
use crate::backend::kube::{KubeError, KubeErrorKind};
use crate::config::ReadOnly;
use crate::domain::approvals::{Hold, Release};
use crate::domain::aws::AwsError;
use crate::domain::record::stamp;
use crate::domain::secret::IndexError;
use crate::domain::target::TargetsError;
use crate::domain::{HostName, Phase, Problem, ProblemKind, Verdict};
use crate::ops::environment::EnvironmentError;

/// Why a deed was not done.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// The cluster did not do it.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// The broker did not do it.
    #[error(transparent)]
    Amqp(#[from] AmqpError),
    /// ARA did not answer.
    #[error(transparent)]
    Ara(#[from] AraError),
    /// The settings are read-only.
    #[error(transparent)]
    ReadOnly(#[from] ReadOnly),
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// Somebody decided before.
    #[error("cannot decide on {host}: {by} {} it at {at}", verdict.as_str())]
    Decided {
        /// The host.
        host: HostName,
        /// What they decided.
        verdict: Verdict,
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// The host said something else since the operator looked.
    #[error("cannot approve {0}: its announcement has changed since you looked: look again, then decide")]
    Changed(HostName),
    /// An operator holds all approvals.
    #[error("cannot {deed}: approvals are {}", hold.words())]
    Held {
        /// What was refused.
        deed: String,
        /// Who holds them, since when and why.
        hold: Hold,
    },
    /// Another hold than the one that was looked at.
    #[error("cannot release approvals: they are {} by now: look again, then decide", .0.words())]
    HeldAnew(Hold),
    /// There is no hold to be released.
    #[error("cannot release approvals: they are not held{}", ended(.0.as_ref()))]
    NotHeld(Option<Release>),
    /// The run is not where the deed needs it to be.
    #[error("cannot {deed} {run}: it is {phase}")]
    Phase {
        /// The deed.
        deed: &'static str,
        /// The run or host.
        run: String,
        /// Where it stands.
        phase: Phase,
    },
    /// The deed was asked for before and is still to be done.
    #[error("cannot {deed} {run}: {by} asked for that at {at}, the server has not done it yet")]
    Asked {
        /// The deed.
        deed: &'static str,
        /// The run.
        run: String,
        /// Who asked.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// Another run of the host has to end first.
    #[error("cannot {deed} {host}: its run {run} is {phase}: {first}")]
    Busy {
        /// The deed.
        deed: &'static str,
        /// The host.
        host: HostName,
        /// The run that goes on.
        run: String,
        /// Where it stands.
        phase: Phase,
        /// What has to happen first.
        first: &'static str,
    },
    /// Others kept changing the same object.
    #[error("cannot {0}: others keep changing it: try again")]
    Contended(String),
    /// The targets cannot be read or written.
    #[error("ConfigMap {place} {error}")]
    Targets {
        /// Namespace, name and key.
        place: String,
        /// What is wrong.
        error: TargetsError,
    },
    /// The hook did not take an announcement.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// AWS did not do it.
    #[error(transparent)]
    Aws(#[from] AwsError),
    /// The local copy of the secrets.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What is remembered of the local copy.
    #[error("cannot use what is remembered in {folder}: {error}")]
    Index {
        /// The folder.
        folder: String,
        /// What is wrong.
        error: IndexError,
    },
    /// The environment is not one to work in.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The editor.
    #[error(transparent)]
    Editor(#[from] EditorError),
    /// Somebody else changed the same secret.
    #[error("{0}")]
    Apart(String),
    /// It is not so that this could be done.
    #[error("{0}")]
    Refused(String),
    /// What was given cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The cluster lacks what is needed.
    #[error("{0}")]
    Missing(String),
}

fn ended(release: Option<&Release>) -> String {
    release.map(|r| format!(": {} released them at {}", r.by, stamp(r.at))).unwrap_or_default()
}

impl OpError {
    /// As the console and the commands show it.
    #[must_use]
    pub fn problem(&self, subject: impl Into<String>) -> Problem {
        let kind = match self {
            Self::Kube(error) => return error.problem(subject),
            Self::Amqp(error) => return Problem { subject: subject.into(), ..error.problem() },
            Self::Ara(error) => return Problem { subject: subject.into(), ..error.problem() },
            Self::Hook(error) => return Problem { subject: subject.into(), ..error.problem() },
            Self::Aws(error) => return error.problem(subject),
            Self::Environment(error) => match error.exit_code() {
                2 => ProblemKind::Invalid,
                3 => ProblemKind::NotFound,
                4 => ProblemKind::Refused,
                _ => ProblemKind::Failed,
            },
            Self::Folder(FolderError::Changed(_) | FolderError::Moving(_)) | Self::Apart(_) => {
                ProblemKind::Conflict
            }
            Self::Folder(FolderError::NotThere(_)) => ProblemKind::NotFound,
            Self::Folder(FolderError::Locked { .. }) | Self::Refused(_) => ProblemKind::Refused,
            Self::Folder(_) | Self::Index { .. } | Self::Editor(_) => ProblemKind::Failed,
            Self::ReadOnly(_) => ProblemKind::Refused,
            Self::NotFound(_) => ProblemKind::NotFound,
            Self::Decided { .. } | Self::Changed(_) | Self::Contended(_) => ProblemKind::Conflict,
            Self::Held { .. } => {
                let advice = "`hostwright approvals release` lets them go on";
                return Problem::new(subject, ProblemKind::Held, self.to_string()).advise(advice);
            }
            Self::NotHeld(_) | Self::HeldAnew(_) => ProblemKind::Conflict,
            Self::Phase { .. } | Self::Asked { .. } | Self::Busy { .. } => ProblemKind::Refused,
            Self::Invalid(_) => ProblemKind::Invalid,
            Self::Targets { .. } | Self::Missing(_) => ProblemKind::Failed,
        };
        Problem::new(subject, kind, self.to_string())
    }

    pub(super) fn is_kube(&self, kind: KubeErrorKind) -> bool {
        matches!(self, Self::Kube(error) if error.kind == kind)
    }
}
