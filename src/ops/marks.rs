//! Retry and check: an operator leaves a mark on a run, and the server turns it into a new Job. Operators may not create Jobs
//! themselves: whoever may create one may use every account and Secret of the namespace.

use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;

use super::decide::{Changes, current, parameters};
use super::{OpError, TRIES};
use crate::backend::kube::{JobTemplate, Kube, KubeErrorKind, NewRun, RunsEvent};
use crate::config::{Environment, Permit};
use crate::domain::record::{self, answer_id};
use crate::domain::{Decision, Kind, Mark, Phase, Run, RunDetails, Verdict};

/// A server that runs answers within a second.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// What a mark asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The same again. Of a rejected run: a new pending one.
    Retry,
    /// What would be changed.
    Check,
}

impl Wish {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Retry, Self::Check];

    fn key(self) -> &'static str {
        match self {
            Self::Retry => record::RETRY,
            Self::Check => record::CHECK,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Check => "check",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Retry => Kind::Provision,
            Self::Check => Kind::Check,
        }
    }

    /// The run's mark of this kind.
    #[must_use]
    pub fn mark(self, run: &Run) -> Option<&Mark> {
        match self {
            Self::Retry => run.retry.as_ref(),
            Self::Check => run.check.as_ref(),
        }
    }
}

/// Leaves a mark.
///
/// # Errors
/// When the run does not allow it, somebody asked before, or the API server refuses.
pub async fn mark(
    kube: &Kube,
    permit: &Permit,
    wish: Wish,
    name: &str,
    uid: &str,
    by: &str,
) -> Result<RunDetails, OpError> {
    for _ in 0..TRIES {
        let details = current(kube, name, uid).await?;
        let run = &details.run;
        if let Some(Mark { by, at, answered: None }) = wish.mark(run) {
            return Err(OpError::Asked { deed: wish.word(), run: name.to_owned(), by: by.clone(), at: *at });
        }
        let possible = match wish {
            Wish::Retry => run.phase.finished() && !run.deleting && run.kind == Kind::Provision,
            Wish::Check => !run.deleting && run.kind == Kind::Provision,
        };
        if !possible {
            return Err(OpError::Phase { deed: wish.word(), run: name.to_owned(), phase: run.phase });
        }
        let mark = Mark { by: by.to_owned(), at: Timestamp::now(), answered: None };
        match kube.mark_run(permit, run, wish.key(), &mark).await {
            Err(error) if error.kind == KubeErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
            Ok(details) => return Ok(details),
        }
    }
    Err(OpError::Contended(format!("mark {name}")))
}

/// Turns a run's waiting marks into new Jobs; what the server does on every change. Doing it twice makes one Job: the new run
/// names the mark that it answers.
///
/// # Errors
/// When the API server does not answer or refuses; the marks stay, and the next pass tries again.
pub async fn answer(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    template: &JobTemplate,
    run: &Run,
) -> Result<Vec<Run>, OpError> {
    let mut made = Vec::new();
    for wish in Wish::ALL {
        if wish.mark(run).is_some_and(|mark| mark.answered.is_none()) && !run.deleting {
            made.extend(answer_one(kube, permit, environment, template, wish, run).await?);
        }
    }
    Ok(made)
}

/// Waits for the run that the server makes of a mark.
///
/// # Errors
/// When the run is gone, or the server does not answer within a minute.
pub async fn answered(kube: &Kube, wish: Wish, run: &Run) -> Result<Run, OpError> {
    let mut events = std::pin::pin!(kube.watch_run(&run.name));
    let name = tokio::time::timeout(ANSWERED_WITHIN, async {
        while let Some(event) = events.next().await {
            let RunsEvent::Changed(runs) = event else { continue };
            let answered =
                runs.iter().filter(|r| r.uid == run.uid).find_map(|r| wish.mark(r)?.answered.clone());
            if answered.is_some() {
                return answered;
            }
        }
        None
    });
    match name.await {
        Ok(Some(name)) => Ok(kube.run(&name).await?.run),
        Ok(None) => Err(OpError::NotFound(format!("run {} any more", run.name))),
        Err(_) => Err(OpError::Missing(format!(
            "the server has not answered the {} of {} within a minute: does `hostwright serve` run?",
            wish.word(),
            run.name
        ))),
    }
}

async fn answer_one(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    template: &JobTemplate,
    wish: Wish,
    run: &Run,
) -> Result<Option<Run>, OpError> {
    for _ in 0..TRIES {
        let details = match current(kube, &run.name, &run.uid).await {
            Err(OpError::NotFound(_)) => return Ok(None),
            other => other?,
        };
        let Some(mark) = wish.mark(&details.run).filter(|m| m.answered.is_none()).cloned() else {
            return Ok(None);
        };
        let answers = answer_id(&run.uid, wish.key(), &mark);
        let siblings = kube.runs(Some(&run.host)).await?;
        let answer = siblings.iter().find(|r| r.answers.as_ref() == Some(&answers)).cloned();
        // A host that called again meanwhile has a newer run: that one is the answer to a retry.
        let newer = (wish == Wish::Retry)
            .then(|| {
                siblings.iter().find(|r| r.kind == Kind::Provision && r.number > run.number && !r.is_over())
            })
            .flatten();
        let made = match answer.or_else(|| newer.cloned()) {
            Some(run) => run,
            None => {
                match create(kube, permit, environment, template, wish, &details, &mark, &siblings, answers)
                    .await
                {
                    Err(error) if error.is_kube(KubeErrorKind::AlreadyExists) => continue,
                    other => other?,
                }
            }
        };
        let answered = Mark { answered: Some(made.name.clone()), ..mark };
        match kube.mark_run(permit, &details.run, wish.key(), &answered).await {
            Err(error) if error.kind == KubeErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(Some(made)),
        }
    }
    Err(OpError::Contended(format!("answer the mark on {}", run.name)))
}

#[allow(clippy::too_many_arguments)]
async fn create(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    template: &JobTemplate,
    wish: Wish,
    details: &RunDetails,
    mark: &Mark,
    siblings: &[Run],
    answers: String,
) -> Result<Run, OpError> {
    let kind = wish.kind();
    let number = siblings.iter().filter(|r| r.kind == kind).map(|r| r.number).max().unwrap_or(0) + 1;
    let mut parameters = details
        .parameters
        .clone()
        .unwrap_or_else(|| parameters(environment, &details.announcement, &Changes::default()));
    parameters.check = wish == Wish::Check;
    let decision = Decision { verdict: Verdict::Approved, by: mark.by.clone(), at: Timestamp::now() };
    let undo = wish == Wish::Retry && details.run.phase == Phase::Rejected;
    let new = NewRun {
        kind,
        number,
        announcement: &details.announcement,
        seen: details.run.seen,
        decided: (!undo).then_some((&decision, &parameters)),
        answers: Some(answers),
        queue: environment.amqp.is_some(),
    };
    Ok(kube.create_run(permit, template, &new).await?.run)
}
