//! Patience with the cluster: an API server that is restarted, upgraded or overrun is away for a minute or two, and a pod that gave up
//! at once would use up the run's attempts meanwhile.
//!
//! What no waiting mends ends at once. Every call that goes through here may be made twice: it is conditional, or does nothing the
//! second time.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backend::kube::{Kube, KubeError, KubeErrorKind, about};
use crate::ops::OpError;

/// For whatever another pod could do as well.
pub(super) const SHORT: Duration = Duration::from_secs(90);
/// For what would be lost else, such as the outcome of an hour's work.
pub(super) const LONG: Duration = Duration::from_secs(180);
/// A refusal is believed after this: an API server that has just been started refuses until it has read its own rules.
const REFUSED: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// An error that may be the cluster's.
pub(super) trait OfCluster {
    /// The cluster's error, if it is one.
    fn of_cluster(&self) -> Option<&KubeError>;
}

impl OfCluster for KubeError {
    fn of_cluster(&self) -> Option<&KubeError> {
        Some(self)
    }
}

impl OfCluster for OpError {
    fn of_cluster(&self) -> Option<&KubeError> {
        match self {
            Self::Kube(error) => Some(error),
            _ => None,
        }
    }
}

/// Does something until it goes well, what went wrong is not mended by waiting, the time is over, or the pod is told to stop. The
/// pauses grow, differ from pod to pod, and are as long as the API server asks for; after a 401 the credentials are read anew.
pub(super) async fn patiently<T, E: OfCluster, F: Future<Output = Result<T, E>>>(
    kube: &Kube,
    limit: Duration,
    shutdown: &CancellationToken,
    work: impl Fn() -> F,
) -> Result<T, E> {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match work().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let Some(cause) = error.of_cluster() else { return Err(error) };
        let limit = match cause.kind {
            KubeErrorKind::Forbidden => limit.min(REFUSED),
            _ if cause.passes() => limit,
            _ => return Err(error),
        };
        let wait = about(pause).max(cause.retry_after().unwrap_or_default());
        if started.elapsed() + wait > limit {
            return Err(error);
        }
        tracing::info!(error = %cause, again_in = wait.as_secs_f32(), "the cluster is asked again");
        let stranger = cause.kind == KubeErrorKind::NotAuthenticated;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shutdown.cancelled() => return Err(error),
        }
        if stranger && let Err(error) = kube.renew().await {
            tracing::info!(%error, "no new credentials");
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
