//! One life of the pod: reads its own Job, takes the message, makes the attempt, and settles everything in the right order.

use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

use super::details::{self, Letter};
use super::log::Log;
use super::patience::{SHORT, patiently};
use super::{End, Failure, Own, attempt, finish, unless_stopped};
use crate::backend::kube::{Kube, KubeError, KubeErrorKind};
use crate::config::{Permit, Settings};
use crate::domain::{ExitCode, RunDetails, Verdict};
use crate::ops::OpError;

/// What every step needs.
pub(super) struct Session<'a> {
    pub(super) settings: &'a Settings,
    pub(super) own: &'a Own,
    pub(super) permit: Permit,
    pub(super) kube: Kube,
    /// The run as it is written on its Job.
    pub(super) run: RunDetails,
    pub(super) shutdown: &'a CancellationToken,
}

impl<'a> Session<'a> {
    /// Reads the own Job.
    pub(super) async fn open(
        settings: &'a Settings,
        own: &'a Own,
        shutdown: &'a CancellationToken,
    ) -> Result<Self, Failure> {
        let permit = settings.permit().map_err(|error| Failure::new(ExitCode::Misconfigured, error))?;
        let reading = async {
            let kube = Kube::connect(&settings.environment.kubernetes).await?;
            let kube = kube.of_environment(&settings.environment.name);
            let run = patiently(&kube, SHORT, shutdown, || kube.run(&own.name)).await?;
            Ok((kube, run))
        };
        let (kube, run) = unless_stopped(shutdown, reading).await?.map_err(|e| Failure::kube(&e))?;
        if run.run.uid != own.uid {
            let text = format!("run {} is another one by now: this pod is left over", own.name);
            return Err(Failure::new(ExitCode::BackEnd, text));
        }
        Ok(Self { settings, own, permit, kube, run, shutdown })
    }

    /// Everything after that.
    pub(super) async fn go<W: AsyncWrite + Unpin>(self, log: &mut Log<W>) -> End {
        if let Some(outcome) = &self.run.run.outcome {
            log.say("an earlier pod of this run ended it already").await;
            details::clear(&self, log).await;
            return End { exit: outcome.exit, text: outcome.text.clone(), counts: outcome.counts };
        }
        if self.run.run.decision.as_ref().is_none_or(|d| d.verdict != Verdict::Approved) {
            let failure = Failure::new(ExitCode::UnreadableMessage, "the run is not approved");
            return finish::finish(&self, failure.into(), &[], Letter::None, log).await;
        }
        match details::get(&self, log).await {
            Ok((details, letter)) => {
                let (end, playbooks) = Box::pin(attempt::attempt(&self, &details, log)).await;
                finish::finish(&self, end, &playbooks, letter, log).await
            }
            Err(failure) => finish::finish(&self, failure.into(), &[], Letter::None, log).await,
        }
    }
}

impl Failure {
    /// A call to the cluster failed.
    pub(super) fn kube(error: &KubeError) -> Self {
        let exit = match error.kind {
            // Without a permission the next pod would get no further.
            KubeErrorKind::Invalid | KubeErrorKind::Forbidden => ExitCode::Misconfigured,
            KubeErrorKind::NoRun => ExitCode::UnreadableMessage,
            _ => ExitCode::BackEnd,
        };
        let advice = error.advice();
        let text = if advice.is_empty() { error.to_string() } else { format!("{error}: {advice}") };
        Self::new(exit, text)
    }

    /// A deed failed.
    pub(super) fn op(error: &OpError) -> Self {
        match error {
            OpError::Kube(error) => Self::kube(error),
            OpError::Missing(_) | OpError::Targets { .. } | OpError::ReadOnly(_) => {
                Self::new(ExitCode::Misconfigured, error)
            }
            _ => Self::new(ExitCode::BackEnd, error),
        }
    }
}
