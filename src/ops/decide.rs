//! Decisions: approve, reject, stop. One wins; the loser is told who. While approvals are held ([`approvals`]) none is given.

use jiff::Timestamp;

use super::activity::failed;
use super::{OpError, approvals, until_unchanged};
use crate::backend::kube::{Kube, KubeErrorKind};
use crate::config::{Environment, Permit};
use crate::domain::activity::{Deed, subject};
use crate::domain::approvals::Approvals;
use crate::domain::{Announcement, Decision, Message, Parameters, Phase, Run, RunDetails, Stop, Verdict};

/// What the operator was looking at: a decision holds for nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The Job's name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The announcement's digest; empty where it cannot change any more.
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
    /// An Ansible limit.
    pub limit: Option<String>,
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
        limit: changes.limit.clone(),
        variables: changes.variables.clone(),
        check: false,
    }
}

/// Who approves.
#[derive(Clone, Copy)]
enum Approver<'a> {
    /// An operator, by name.
    Operator(&'a str),
    /// The configuration, by the server, which knows the limit on runs at a time.
    Rule(usize),
}

impl Approver<'_> {
    /// As decisions name it.
    fn name(&self) -> &str {
        match self {
            Self::Operator(name) => name,
            Self::Rule(_) => "rule",
        }
    }

    /// What holds for an approval now, provided that approvals are not held. The rule has to know that; an operator who may not look
    /// is not stopped.
    async fn may(&self, kube: &Kube, run: &Run) -> Result<Approvals, OpError> {
        let deed = || format!("approve {}", run.host);
        match self {
            Self::Operator(_) => approvals::not_held(kube, deed).await,
            Self::Rule(runs_at_once) => match approvals::look(kube).await? {
                Approvals { hold: Some(hold), .. } => Err(OpError::Held { deed: deed(), hold }),
                open => Ok(Approvals { runs_at_once: *runs_at_once, ..open }),
            },
        }
    }
}

/// Approves a pending run: it is resumed with the decision on it, or, with a limit on runs at a time, left to the server, which
/// starts it when it has a place ([`places`](super::places)).
///
/// # Errors
/// When somebody decided before, the announcement has changed, approvals are held, or the API server refuses.
pub async fn approve(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    seen: &Seen,
    changes: &Changes,
    by: &str,
) -> Result<RunDetails, OpError> {
    approve_as(kube, permit, environment, seen, changes, Approver::Operator(by)).await
}

/// Approves a pending run as the configuration says. Where nobody can tell whether approvals are held the rule waits.
///
/// # Errors
/// As [`approve`]; also when the ConfigMap that says whether approvals are held may not be read.
pub async fn approve_by_rule(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    seen: &Seen,
    runs_at_once: usize,
) -> Result<RunDetails, OpError> {
    let rule = Approver::Rule(runs_at_once);
    approve_as(kube, permit, environment, seen, &Changes::default(), rule).await
}

async fn approve_as(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    seen: &Seen,
    changes: &Changes,
    approver: Approver<'_>,
) -> Result<RunDetails, OpError> {
    let by = approver.name();
    let approved = until_unchanged(&format!("approve {}", seen.name), || async {
        let details = open(kube, seen).await?;
        if details.run.digest != seen.digest {
            return Err(OpError::Changed(details.run.host));
        }
        let approvals = approver.may(kube, &details.run).await?;
        let decision = Decision { verdict: Verdict::Approved, by: by.to_owned(), at: Timestamp::now() };
        let parameters = parameters(environment, &details.announcement, changes);
        can_be_applied(&details, &parameters)?;
        let waits = approvals.wait(decision.at);
        Ok(kube.approve_run(permit, &details, &decision, &parameters, waits.as_ref()).await?)
    })
    .await
    .inspect_err(|error| failed(kube, Deed::Approve, &on(&seen.name), by, error))?;
    kube.tell(permit, &approved.run, "Approved", &format!("approved by {by}"), by, Timestamp::now()).await;
    Ok(approved)
}

/// What could never be applied is refused before the approval, which cannot be taken back.
fn can_be_applied(details: &RunDetails, parameters: &Parameters) -> Result<(), OpError> {
    let wrong = |what: &dyn std::fmt::Display| {
        OpError::Invalid(format!("cannot approve {}: {what}", details.run.host))
    };
    parameters.check_playbook().and_then(|()| parameters.check()).map_err(|what| wrong(&what))?;
    let RunDetails { run, announcement, .. } = details;
    let message = Message::new(run.uid.clone(), run.name.clone(), announcement.clone(), parameters.clone());
    message.to_bytes().map(drop).map_err(|error| wrong(&error))
}

/// Rejects a run that has not started: pending, or approved and still without a place. It never starts.
///
/// # Errors
/// When somebody decided before, or the API server refuses.
pub async fn reject(kube: &Kube, permit: &Permit, seen: &Seen, by: &str) -> Result<RunDetails, OpError> {
    let rejected = until_unchanged(&format!("reject {}", seen.name), || async {
        let details = match current(kube, &seen.name, &seen.uid).await? {
            waiting if waiting.run.waits.is_some() && !waiting.run.deleting => waiting,
            other => undecided(other)?,
        };
        let decision = Decision { verdict: Verdict::Rejected, by: by.to_owned(), at: Timestamp::now() };
        Ok(kube.reject_run(permit, &details.run, &decision).await?)
    })
    .await
    .inspect_err(|error| failed(kube, Deed::Reject, &on(&seen.name), by, error))?;
    kube.tell(permit, &rejected.run, "Rejected", &format!("rejected by {by}"), by, Timestamp::now()).await;
    Ok(rejected)
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
    let stopped = until_unchanged(&format!("stop {name}"), || async {
        let details = current(kube, name, uid).await?;
        let phase = details.run.phase;
        if !matches!(phase, Phase::Queued | Phase::Running) {
            return Err(OpError::Phase { deed: "stop", run: name.to_owned(), phase });
        }
        let stop = Stop { by: by.to_owned(), at: Timestamp::now() };
        Ok(kube.stop_run(permit, &details.run, &stop).await?)
    })
    .await
    .inspect_err(|error| failed(kube, Deed::Stop, &on(name), by, error))?;
    kube.tell(permit, &stopped.run, "Stopped", &format!("stopped by {by}"), by, Timestamp::now()).await;
    Ok(stopped)
}

/// How the activity calls a run.
pub(super) fn on(run: &str) -> String {
    subject("Job", "", run)
}

/// The run as it is now, provided that it still waits for a decision.
async fn open(kube: &Kube, seen: &Seen) -> Result<RunDetails, OpError> {
    undecided(current(kube, &seen.name, &seen.uid).await?)
}

fn undecided(details: RunDetails) -> Result<RunDetails, OpError> {
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
