//! What each effect that has an answer does: one op each, and its outcome in words.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use tokio_util::sync::CancellationToken;

use super::outside::Outside;
use super::{secrets, topics};
use crate::app::{Answer, Effect, EffectId, Msg, RunRef};
use crate::config::Variables;
use crate::domain::approvals::Hold;
use crate::domain::{Problem, ProblemKind, Run};
use crate::ops;
use crate::ops::decide::{self, Changes, Seen};
use crate::ops::machine;
use crate::ops::marks::{self, Wish};

/// How often something long says how far it is.
const PROGRESS: Duration = Duration::from_millis(100);
/// What a hold is about, in problems.
const APPROVALS: &str = "approvals";

type Done = Result<Answer, Problem>;

/// Does one effect that has an answer.
pub(super) async fn carry_out(
    outside: Outside,
    effect: Effect,
    cancel: &CancellationToken,
    tell: mpsc::Sender<Msg>,
) -> Done {
    match effect {
        Effect::Approve { run, digest, parameters, .. } => {
            let changes = parameters.map(changes).unwrap_or_default();
            approve(&outside, run, digest, &changes).await
        }
        Effect::Reject { run, digest, .. } => reject(&outside, run, digest).await,
        Effect::Check { run, digest, .. } => mark(&outside, run, digest, Wish::Check).await,
        // What a finished run was made of does not change any more.
        Effect::Retry { run, .. } => mark(&outside, run, String::new(), Wish::Retry).await,
        Effect::Stop { run, .. } => stop(&outside, &run).await,
        Effect::Forget { run, .. } => forget(&outside, &run).await,
        Effect::Hold { reason, .. } => hold(&outside, &reason).await,
        Effect::Release { hold, .. } => release(&outside, &hold).await,
        Effect::OpenRun { run, .. } => open(&outside, &run).await,
        Effect::FetchResult { result, .. } => fetch(&outside, result).await,
        Effect::Fetch { what, .. } => Box::pin(topics::read(&outside, what)).await,
        Effect::Change { change, .. } => Box::pin(topics::change(&outside, change)).await,
        Effect::Secret { id, deed } => Box::pin(secrets::carry_out(&outside, id, deed, cancel, tell)).await,
        Effect::BootMachine { .. } => boot(&outside).await,
        Effect::SaveLog { id, run } => save_log(&outside, id, &run, tell).await,
        other => Err(Problem::new(
            other.doing(),
            ProblemKind::Refused,
            format!("{}: not possible here", other.doing()),
        )),
    }
}

/// What the operator chose differs from nothing: it is all that is applied.
fn changes(chosen: crate::domain::Parameters) -> Changes {
    Changes {
        playbook: Some(chosen.playbook),
        branch: chosen.branch,
        groups: Some(chosen.groups),
        tags: chosen.tags,
        limit: chosen.limit,
        variables: chosen.variables,
    }
}

fn seen(run: RunRef, digest: String) -> Seen {
    Seen { name: run.name, uid: run.uid, digest }
}

async fn approve(outside: &Outside, run: RunRef, digest: String, changes: &Changes) -> Done {
    let host = run.host.to_string();
    let permit = outside.permit(&host)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, &host).await?;
    let environment = &outside.settings.environment;
    decide::approve(&kube, &permit, environment, &seen(run, digest), changes, &by)
        .await
        .map(|approved| Answer::Done(approval(&approved.run)))
        .map_err(|error| error.problem(&host))
}

/// What came of an approval.
fn approval(run: &Run) -> String {
    let waits = if run.waits.is_some() { "; it waits for a place" } else { "" };
    format!("approved {}{waits}", run.host)
}

async fn reject(outside: &Outside, run: RunRef, digest: String) -> Done {
    let host = run.host.to_string();
    let permit = outside.permit(&host)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, &host).await?;
    decide::reject(&kube, &permit, &seen(run, digest), &by)
        .await
        .map(|_| Answer::Done(format!("rejected {host}")))
        .map_err(|error| error.problem(&host))
}

async fn mark(outside: &Outside, run: RunRef, digest: String, wish: Wish) -> Done {
    let host = run.host.to_string();
    let permit = outside.permit(&host)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, &host).await?;
    let done = match wish {
        Wish::Check => format!("asked for a check of {host}"),
        Wish::Retry => format!("asked for another run of {host}"),
    };
    marks::mark(&kube, &permit, wish, &seen(run, digest), &by)
        .await
        .map(|_| Answer::Done(done))
        .map_err(|error| error.problem(&host))
}

async fn stop(outside: &Outside, run: &RunRef) -> Done {
    let permit = outside.permit(&run.name)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, &run.name).await?;
    decide::stop(&kube, &permit, &run.name, &run.uid, &by)
        .await
        .map(|_| Answer::Done(format!("stopped {}", run.name)))
        .map_err(|error| error.problem(&run.name))
}

async fn forget(outside: &Outside, run: &RunRef) -> Done {
    let host = run.host.to_string();
    let permit = outside.permit(&host)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, &host).await?;
    ops::forget::forget(&kube, &permit, &run.host, &by)
        .await
        .map(|_| Answer::Done(format!("asked to forget {host}")))
        .map_err(|error| error.problem(&host))
}

async fn hold(outside: &Outside, reason: &str) -> Done {
    let permit = outside.permit(APPROVALS)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, APPROVALS).await?;
    ops::approvals::hold(&kube, &permit, reason, &by)
        .await
        .map(|_| Answer::Done("holding all approvals".to_owned()))
        .map_err(|error| error.problem(APPROVALS))
}

async fn release(outside: &Outside, seen: &Hold) -> Done {
    let permit = outside.permit(APPROVALS)?;
    let kube = outside.kube().await?;
    let by = outside.operator(&kube, APPROVALS).await?;
    ops::approvals::release(&kube, &permit, Some(seen), &by)
        .await
        .map(|_| Answer::Done("released approvals".to_owned()))
        .map_err(|error| error.problem(APPROVALS))
}

async fn boot(outside: &Outside) -> Done {
    const SUBJECT: &str = "machine";
    let permit = outside.permit(SUBJECT)?;
    let hook = outside.hook()?;
    let kube = outside.kube().await?;
    let host = machine::unused_name(&kube).await.map_err(|error| error.problem(SUBJECT))?;
    machine::boot(&hook, &permit, &host, &machine::boot_id())
        .await
        .map_err(|error| error.problem(host.to_string()))?;
    Ok(Answer::Done(format!("{host} boots")))
}

/// Saves a run's log, and tells about ten times a second how far that is.
async fn save_log(outside: &Outside, id: EffectId, run: &RunRef, tell: mpsc::Sender<Msg>) -> Done {
    let state = Variables::of_process().state_dir();
    let homeless = || {
        let text = "cannot save the log: neither XDG_STATE_HOME nor HOME says where";
        Problem::new(&run.name, ProblemKind::Refused, text)
    };
    let folder = state.ok_or_else(homeless)?.join("logs");
    let kube = outside.kube().await?;
    let mut told = Instant::now();
    let progress = |bytes: u64| {
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            // Where there is no room now the next one says more.
            tell.try_send(Msg::Progress { id, text: size(bytes) }).ok();
        }
    };
    let saved = ops::logs::save(&kube, &run.name, &run.uid, &folder, progress).await;
    let saved = saved.map_err(|error| error.problem(&run.name))?;
    Ok(Answer::Done(format!("saved {} in {}", size(saved.bytes), saved.path.display())))
}

/// A number of bytes as people say it.
fn size(bytes: u64) -> String {
    const STEP: u64 = 1000;
    match bytes {
        0..STEP => format!("{bytes} bytes"),
        _ if bytes < STEP * STEP => format!("{}.{} kB", bytes / STEP, bytes % STEP / 100),
        _ => format!("{}.{} MB", bytes / (STEP * STEP), bytes % (STEP * STEP) / 100_000),
    }
}

async fn fetch(outside: &Outside, result: u64) -> Done {
    let nothing =
        || Problem::new("ara", ProblemKind::Refused, "this environment has no ARA: nothing is recorded");
    let ara = outside.ara().await.ok_or_else(nothing)??;
    let details = ops::results::details(ara, result).await.map_err(|error| error.problem())?;
    Ok(Answer::Result(Box::new(details)))
}

async fn open(outside: &Outside, run: &RunRef) -> Done {
    let kube = outside.kube().await?;
    let details = kube.run(&run.name).await.map_err(|error| error.problem(&run.name))?;
    if details.run.uid == run.uid {
        Ok(Answer::Run(Box::new(ops::runs::explain(&kube, details).await)))
    } else {
        let text = format!("run {} is gone: another one has its name", run.name);
        Err(Problem::new(&run.name, ProblemKind::NotFound, text))
    }
}
