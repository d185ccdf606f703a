//! Finding runs, and following one to its end.

use futures_util::StreamExt;

use super::OpError;
use crate::backend::kube::{Kube, KubeErrorKind, RunsEvent};
use crate::domain::{HostName, Kind, Phase, Run, RunDetails, newest_by_host};

/// The newest provision run of each host, sorted by name.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn hosts(kube: &Kube) -> Result<Vec<Run>, OpError> {
    let runs = kube.runs(None).await?;
    Ok(newest_by_host(&runs).into_iter().cloned().collect())
}

/// The newest provision run of one host.
///
/// # Errors
/// When the host has none, or the API server does not answer or refuses.
pub async fn of_host(kube: &Kube, host: &HostName) -> Result<RunDetails, OpError> {
    let runs = kube.run_details(Some(host)).await?;
    runs.into_iter()
        .filter(|d| d.run.kind == Kind::Provision)
        .max_by_key(|d| d.run.number)
        .ok_or_else(|| OpError::NotFound(format!("host {host}")))
}

/// A run by its name, or the newest one of the host of that name.
///
/// # Errors
/// When there is neither, or the API server does not answer or refuses.
pub async fn find(kube: &Kube, name: &str) -> Result<RunDetails, OpError> {
    // A run's name is a host name in form; anything else would only be a path into the API.
    if HostName::parse(name).is_err() {
        return Err(OpError::NotFound(format!("run or host {name}")));
    }
    match kube.run(name).await {
        Ok(details) => Ok(details),
        Err(error) if matches!(error.kind, KubeErrorKind::NotFound | KubeErrorKind::Invalid) => {
            match HostName::parse(name) {
                Ok(host) => of_host(kube, &host).await.map_err(|error| match error {
                    OpError::NotFound(_) => OpError::NotFound(format!("run or host {name}")),
                    other => other,
                }),
                Err(_) => Err(OpError::NotFound(format!("run {name}"))),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Adds why a run stays queued, where the Job itself does not say: what its newest pod waits for, or the newest warning among its
/// Events. A quota or a missing account shows only there.
pub async fn explain(kube: &Kube, mut details: RunDetails) -> RunDetails {
    let run = &mut details.run;
    if run.phase != Phase::Queued || !run.reason.is_empty() || run.deleting {
        return details;
    }
    let asked = match kube.pods(&run.uid).await.map(|pods| pods.into_iter().next_back()) {
        Ok(Some(pod)) => Ok(Some(pod.reason)),
        Ok(None) => kube.newest_warning(&run.uid).await,
        Err(error) => Err(error),
    };
    match asked {
        Ok(reason) => run.reason = reason.unwrap_or_default(),
        // Who may see runs need not see their Events: the run is told without.
        Err(error) => tracing::debug!(run = run.name, %error, "why it is queued is not known"),
    }
    details
}

/// Follows a run until nothing more happens to it, telling each state on the way.
///
/// # Errors
/// When the run is gone.
pub async fn wait(kube: &Kube, run: &Run, mut tell: impl FnMut(&Run)) -> Result<Run, OpError> {
    let mut events = std::pin::pin!(kube.watch_run(&run.name));
    let gone = || OpError::NotFound(format!("run {} any more", run.name));
    let mut present = false;
    while let Some(event) = events.next().await {
        match event {
            RunsEvent::Reset => present = false,
            RunsEvent::Changed(runs) => {
                for now in runs.into_iter().filter(|r| r.uid == run.uid) {
                    present = true;
                    tell(&now);
                    if now.is_over() {
                        return Ok(now);
                    }
                }
            }
            RunsEvent::Listed if !present => return Err(gone()),
            RunsEvent::Removed(uid) if uid == run.uid => return Err(gone()),
            RunsEvent::Listed | RunsEvent::Removed(_) => {}
            RunsEvent::Failed(error, delay) | RunsEvent::Polled(error, delay) => {
                tracing::warn!(%error, retry_in = delay.as_secs_f32(), "the run goes on, but cannot be seen");
            }
        }
    }
    Err(gone())
}

/// The run's Job as the cluster has it, as YAML; without the record of who wrote which field.
///
/// # Errors
/// When there is no such run, or it cannot be read.
pub async fn yaml(kube: &Kube, name: &str) -> Result<String, OpError> {
    let mut job = kube.run_object(name).await?;
    if let Some(metadata) = job.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    serde_saphyr::to_string(&job).map_err(|error| OpError::Invalid(format!("run {name} is no YAML: {error}")))
}
