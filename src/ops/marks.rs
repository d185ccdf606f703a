//! Retry and check: an operator leaves a mark on a run, and the server turns it into a new Job. Operators may not create Jobs
//! themselves: whoever may create one may use every account and Secret of the namespace.

use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;

use super::activity::failed;
use super::decide::{Changes, Seen, current, on, parameters};
use super::{OpError, approvals, until_unchanged};
use crate::backend::kube::{JobTemplate, Kube, NewRun, RunsEvent};
use crate::config::{Environment, Permit};
use crate::domain::activity::Deed;
use crate::domain::approvals::Approvals;
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

    /// Whether a run may be marked so.
    #[must_use]
    pub fn possible(self, run: &Run) -> bool {
        let provision = run.kind == Kind::Provision && !run.deleting;
        match self {
            Self::Retry => provision && run.phase.finished(),
            // Beside a run that goes on a check would see a host half-way, and a rejected one is not to be touched.
            Self::Check => {
                provision
                    && matches!(run.phase, Phase::Pending | Phase::Ready | Phase::Failed | Phase::Stopped)
            }
        }
    }

    /// Whether answering it starts what may change a host: held like an approval, which it is. Undoing a rejection only makes a
    /// run that waits for one.
    #[must_use]
    pub fn starts(self, run: &Run) -> bool {
        self == Self::Retry && run.phase != Phase::Rejected
    }

    /// Whether the server has to answer the run's mark of this kind now.
    #[must_use]
    pub fn is_due(self, run: &Run, held: bool) -> bool {
        self.mark(run).is_some_and(Mark::waits) && !run.deleting && !(held && self.starts(run))
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

/// Leaves a mark on the run that was looked at.
///
/// # Errors
/// When the run does not allow it, its announcement has changed, somebody asked before, a retry is held like all approvals, or the API server refuses.
pub async fn mark(
    kube: &Kube,
    permit: &Permit,
    wish: Wish,
    seen: &Seen,
    by: &str,
) -> Result<RunDetails, OpError> {
    let name = &seen.name;
    let marked = until_unchanged(&format!("mark {name}"), || async {
        let details = current(kube, name, &seen.uid).await?;
        let run = &details.run;
        if let Some(Mark { by, at, answered: None, .. }) = wish.mark(run) {
            return Err(OpError::Asked { deed: wish.word(), run: name.clone(), by: by.clone(), at: *at });
        }
        if let Some(Mark { by, at, answered: None, .. }) = &run.forget {
            return Err(OpError::Asked { deed: "forget", run: name.clone(), by: by.clone(), at: *at });
        }
        if !wish.possible(run) {
            return Err(OpError::Phase { deed: wish.word(), run: name.clone(), phase: run.phase });
        }
        if !seen.digest.is_empty() && run.digest != seen.digest {
            return Err(OpError::Changed(run.host.clone()));
        }
        if wish.starts(run) {
            approvals::not_held(kube, || format!("retry {}", run.host)).await?;
        }
        // One check of a host at a time: the second would only say the same, or see the first at work.
        if wish == Wish::Check
            && let Some(check) = kube.runs(Some(&run.host)).await?.into_iter().find(goes_on)
        {
            let (host, run, phase) = (check.host, check.name, check.phase);
            return Err(OpError::Busy { deed: wish.word(), host, run, phase, first: "wait for its end" });
        }
        let mark =
            Mark { by: by.to_owned(), at: Timestamp::now(), digest: seen.digest.clone(), answered: None };
        Ok(kube.mark_run(permit, run, wish.key(), &mark).await?)
    })
    .await
    .inspect_err(|error| {
        let deed = if wish == Wish::Check { Deed::Check } else { Deed::Retry };
        failed(kube, deed, &on(name), by, error);
    })?;
    let (reason, note) = match wish {
        Wish::Retry => ("RetryRequested", format!("{by} wants another run")),
        Wish::Check => ("CheckRequested", format!("{by} wants a check")),
    };
    kube.tell(permit, &marked.run, reason, &note, by, Timestamp::now()).await;
    Ok(marked)
}

/// A check that has not ended.
fn goes_on(run: &Run) -> bool {
    run.kind == Kind::Check && !run.is_over()
}

/// Turns a run's waiting marks into new Jobs; what the server does on every change. Doing it twice makes one Job: the new run
/// names the mark that it answers. While approvals are held, what would
/// start a change of the host waits; with a limit on runs at a time, the new Job waits for its place.
///
/// # Errors
/// When the API server does not answer or refuses; the marks stay, and the next pass tries again.
pub async fn answer(
    kube: &Kube,
    permit: &Permit,
    environment: &Environment,
    template: &JobTemplate,
    run: &Run,
    approvals: &Approvals,
) -> Result<Vec<Run>, OpError> {
    let mut made = Vec::new();
    for wish in Wish::ALL {
        if wish.is_due(run, approvals.hold.is_some()) {
            let server = Server { kube, permit, environment, template, approvals };
            made.extend(server.answer(wish, run).await?);
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

/// What the server answers marks with.
struct Server<'a> {
    kube: &'a Kube,
    permit: &'a Permit,
    environment: &'a Environment,
    template: &'a JobTemplate,
    approvals: &'a Approvals,
}

impl Server<'_> {
    async fn answer(&self, wish: Wish, run: &Run) -> Result<Option<Run>, OpError> {
        until_unchanged(&format!("answer the mark on {}", run.name), || async {
            let details = match current(self.kube, &run.name, &run.uid).await {
                Err(OpError::NotFound(_)) => return Ok(None),
                other => other?,
            };
            let Some(mark) = wish.mark(&details.run).filter(|mark| mark.waits()).cloned() else {
                return Ok(None);
            };
            let made = if mark.digest.is_empty() || mark.digest == details.run.digest {
                match self.made_of(wish, &details, &mark).await? {
                    Some(made) => Some(made),
                    // It is looked at again when the run that is in its way has changed.
                    None => return Ok(None),
                }
            } else {
                // The host said something else after the operator looked: nobody asked for that.
                tracing::warn!(run = run.name, "a mark was dropped: the announcement has changed since");
                None
            };
            let answered = made.as_ref().map_or_else(|| "dropped".to_owned(), |made| made.name.clone());
            let mark = Mark { answered: Some(answered), ..mark };
            self.kube.mark_run(self.permit, &details.run, wish.key(), &mark).await?;
            Ok(made)
        })
        .await
    }

    /// The run that answers a mark: the one that was made before this process was killed, the one that the host's own call
    /// made meanwhile, the check that somebody else asked for at the same time, or a new one. None when the mark has to wait for
    /// another check of the host to end.
    async fn made_of(&self, wish: Wish, details: &RunDetails, mark: &Mark) -> Result<Option<Run>, OpError> {
        let run = &details.run;
        let answers = answer_id(&run.uid, wish.key(), mark);
        let siblings = self.kube.runs(Some(&run.host)).await?;
        if let Some(made) = siblings.iter().find(|r| r.answers.as_ref() == Some(&answers)) {
            return Ok(Some(made.clone()));
        }
        let newer = |r: &&Run| r.kind == Kind::Provision && r.number > run.number && !r.is_over();
        if let Some(newer) = siblings.iter().find(newer).filter(|_| wish == Wish::Retry) {
            return Ok(Some(newer.clone()));
        }
        if let Some(check) = siblings.iter().find(|r| goes_on(r)).filter(|_| wish == Wish::Check) {
            return Ok((check.digest == run.digest).then(|| check.clone()));
        }
        let kind = wish.kind();
        let number = siblings.iter().filter(|r| r.kind == kind).map(|r| r.number).max().unwrap_or(0) + 1;
        let same = || parameters(self.environment, &details.announcement, &Changes::default());
        let mut parameters = details.parameters.clone().unwrap_or_else(same);
        parameters.check = wish == Wish::Check;
        let decision = Decision { verdict: Verdict::Approved, by: mark.by.clone(), at: Timestamp::now() };
        let waits = self.approvals.wait(decision.at);
        let undo = wish == Wish::Retry && run.phase == Phase::Rejected;
        let new = NewRun {
            kind,
            number,
            announcement: &details.announcement,
            seen: run.seen,
            decided: (!undo).then_some((&decision, &parameters)),
            waits: waits.as_ref().filter(|_| !undo),
            answers: Some(answers),
            queue: self.environment.amqp.is_some(),
        };
        Ok(Some(self.kube.create_run(self.permit, self.template, &new).await?.run))
    }
}
