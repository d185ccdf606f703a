//! A limit on runs at a time: the server starts what waits for a place.
//!
//! Who approves, an operator or the rule, reads the limit from the ConfigMap of [`approvals`](super::approvals), where the server
//! wrote it, and with a limit leaves the run suspended, as one that waits for a place. Only the server that holds the Lease starts
//! those, so nobody else has to count. It counts anew each time, on a list that is fresh from the API server: neither its own starts that
//! its watch has not shown yet nor those of a server before it are missed, and a process that is killed at any point leaves
//! nothing half done.
//!
//! Two servers that both think they hold the Lease (one hung for longer than the Lease lasts) start the same runs, since the order is the
//! same for both, and each start is conditional on the resource version: one of the two wins.

use jiff::Timestamp;

use super::OpError;
use crate::backend::kube::{About, Kube, KubeErrorKind};
use crate::config::Permit;
use crate::domain::activity::Deed;
use crate::domain::places::next;
use crate::domain::text::short_span;

/// Starts the runs that have a place now, who waits longest first. Returns how many.
///
/// # Errors
/// When the API server does not answer or refuses; the others keep waiting, and the next pass tries again.
pub async fn fill(kube: &Kube, permit: &Permit, limit: usize, held: bool) -> Result<usize, OpError> {
    let runs = kube.runs(None).await?;
    let mut started = 0;
    for run in next(&runs, limit, held) {
        match kube.start_run(permit, run).await {
            Ok(_) => started += 1,
            // Somebody stopped or rejected it, or it has just been written on: the watch tells, and all is counted anew.
            Err(error) if matches!(error.kind, KubeErrorKind::Conflict | KubeErrorKind::NotFound) => continue,
            Err(error) => return Err(error.into()),
        }
        let waited =
            run.waits.as_ref().map_or(0, |wait| Timestamp::now().duration_since(wait.since).as_secs());
        let note = format!("{} has a place; it waited {}", run.host, short_span(waited));
        Box::pin(kube.report(permit, &About::from(run), Deed::Start, &note, "server")).await;
    }
    Ok(started)
}
