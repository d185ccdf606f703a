//! Decisions: approve, reject, stop. One wins; the loser is told who.

use jiff::Timestamp;

use super::{OpError, TRIES};
use crate::backend::kube::{Kube, KubeErrorKind};
use crate::config::{Environment, Permit};
use crate::domain::{Announcement, Decision, Parameters, Phase, Run, RunDetails, Verdict};

/// What the operator was looking at: a decision holds for nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The Job's name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The announcement's digest.
    pub digest: String,
}

impl From<&Run> for Seen {
    fn from(run: &Run) -> Self {
        Self { name: run.name.clone(), uid: run.uid.clone(), digest: run.digest.clone() }
    }
}

/// What differs from the environment's and the host's own wishes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Another playbook.
    pub playbook: Option<String>,
    /// Another branch.
    pub branch: Option<String>,
    /// Other groups.
    pub groups: Option<Vec<String>>,
    /// Only these tags.
    pub tags: Vec<String>,
    /// Extra variables.
    pub variables: std::collections::BTreeMap<String, serde_json::Value>,
}

/// What a run applies when nobody says otherwise.
#[must_use]
pub fn parameters(environment: &Environment, announcement: &Announcement, changes: &Changes) -> Parameters {
    let branch = changes.branch.clone().or_else(|| announcement.branch.clone());
    Parameters {
        playbook: changes.playbook.clone().unwrap_or_else(|| environment.policy.playbook.clone()),
        branch: branch.or_else(|| environment.policy.branch.clone()),
        groups: changes.groups.clone().unwrap_or_else(|| announcement.groups.clone()),
        tags: changes.tags.clone(),
        limit: None,
        variables: changes.variables.clone(),
        check: false,
    }
}

/// Approves a pending run: it is resumed with the decision on it.
///
/// # Errors
/// When somebody decided before, the announcement has changed, or the API server refuses.
pub async fn approve(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    seen: &Seen,
    changes: &Changes,
    by: &str,
) -> Result<RunDetails, OpError> {
    for _ in 0..TRIES {
        let details = open(kube, seen).await?;
        if details.run.digest != seen.digest {
            return Err(OpError::Changed(details.run.host));
        }
        let decision = Decision { verdict: Verdict::Approved, by: by.to_owned(), at: Timestamp::now() };
        let parameters = parameters(environment, &details.announcement, changes);
        let queue = environment.amqp.is_some();
        match kube.approve_run(permit, &details, &decision, &parameters, queue).await {
            Err(error) if error.kind == KubeErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
            Ok(approved) => {
                kube.tell(permit, &approved.run, "Approved", &format!("approved by {by}"), by, decision.at)
                    .await;
                return Ok(approved);
            }
        }
    }
    Err(OpError::Contended(format!("approve {}", seen.name)))
}

/// Rejects a pending run: it never starts.
///
/// # Errors
/// When somebody decided before, or the API server refuses.
pub async fn reject(kube: &Kube, permit: &Permit, seen: &Seen, by: &str) -> Result<RunDetails, OpError> {
    for _ in 0..TRIES {
        let details = open(kube, seen).await?;
        let decision = Decision { verdict: Verdict::Rejected, by: by.to_owned(), at: Timestamp::now() };
        match kube.reject_run(permit, &details.run, &decision).await {
            Err(error) if error.kind == KubeErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
            Ok(rejected) => {
                kube.tell(permit, &rejected.run, "Rejected", &format!("rejected by {by}"), by, decision.at)
                    .await;
                return Ok(rejected);
            }
        }
    }
    Err(OpError::Contended(format!("reject {}", seen.name)))
}

/// Stops a run that was approved and has not ended: its pod is ended, and nothing more happens to it.
///
/// # Errors
/// When there is nothing to stop, or the API server refuses.
pub async fn stop(
    kube: &Kube,
    permit: &Permit,
    name: &str,
    uid: &str,
    by: &str,
) -> Result<RunDetails, OpError> {
    for _ in 0..TRIES {
        let details = current(kube, name, uid).await?;
        let phase = details.run.phase;
        if !matches!(phase, Phase::Queued | Phase::Running) {
            return Err(OpError::Phase { deed: "stop", run: name.to_owned(), phase });
        }
        match kube.stop_run(permit, &details.run).await {
            Err(error) if error.kind == KubeErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
            Ok(stopped) => {
                let note = format!("stopped by {by}");
                kube.tell(permit, &stopped.run, "Stopped", &note, by, Timestamp::now()).await;
                return Ok(stopped);
            }
        }
    }
    Err(OpError::Contended(format!("stop {name}")))
}

/// The run as it is now, provided that it still waits for a decision.
async fn open(kube: &Kube, seen: &Seen) -> Result<RunDetails, OpError> {
    let details = current(kube, &seen.name, &seen.uid).await?;
    match &details.run.decision {
        Some(Decision { verdict, by, at }) => {
            Err(OpError::Decided { host: details.run.host, verdict: *verdict, by: by.clone(), at: *at })
        }
        None if details.run.phase == Phase::Pending && !details.run.deleting => Ok(details),
        None => Err(OpError::Phase {
            deed: "decide on",
            run: details.run.host.to_string(),
            phase: details.run.phase,
        }),
    }
}

/// The run as it is now; a name that another run has taken meanwhile is not found.
pub(super) async fn current(kube: &Kube, name: &str, uid: &str) -> Result<RunDetails, OpError> {
    match kube.run(name).await {
        Ok(details) if details.run.uid == uid => Ok(details),
        Ok(_) => Err(OpError::NotFound(format!("run {name} any more: another one has its name"))),
        Err(error) if error.kind == KubeErrorKind::NotFound => Err(OpError::NotFound(format!("run {name}"))),
        Err(error) => Err(error.into()),
    }
}
