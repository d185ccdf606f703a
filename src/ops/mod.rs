//! The deeds: one async function over back ends each. The console, the commands and the servers all call the same one.

pub mod activity;
pub mod announce;
pub mod approvals;
pub mod aws;
pub mod cluster;
pub mod decide;
pub mod deliver;
pub mod deploy;
pub mod environment;
mod error;
pub mod forget;
pub mod logs;
pub mod machine;
pub mod manifests;
pub mod marks;
pub mod places;
pub mod platform;
pub mod prune;
pub mod queue;
pub mod results;
pub mod rights;
pub mod runs;
pub mod secrets;
pub mod shell;
pub mod sync;
pub mod targets;
pub mod tokens;

pub use error::OpError;

use std::time::Duration;

use crate::backend::kube::{Kube, KubeErrorKind};
use crate::config::Environment;

/// How often a change is tried again when somebody else changed the same object meanwhile.
const TRIES: usize = 8;
const PAUSE: Duration = Duration::from_millis(100);

/// Does something again that lost against somebody else's change, from the reading on, a bounded number of times.
async fn until_unchanged<T, F>(doing: &str, attempt: impl Fn() -> F) -> Result<T, OpError>
where
    F: Future<Output = Result<T, OpError>>,
{
    for _ in 0..TRIES {
        match attempt().await {
            Err(error)
                if error.is_kube(KubeErrorKind::Conflict) || error.is_kube(KubeErrorKind::AlreadyExists) =>
            {
                pause(PAUSE).await;
            }
            other => return other,
        }
    }
    Err(OpError::Contended(doing.to_owned()))
}

/// A random time up to `longest`, so that those who collided do not collide again.
async fn pause(longest: Duration) {
    let mut bytes = [0; 4];
    // Without random numbers the whole time must do.
    let share = getrandom::fill(&mut bytes)
        .map_or(1.0, |()| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX));
    tokio::time::sleep(longest.mul_f64(share)).await;
}

/// The name that a decision is signed with: who the API server takes us for (its admission policy compares the two), and in
/// the playground, where everybody is the same user to it, the name that this machine knows the operator by.
///
/// # Errors
/// When the API server does not say who we are: a name of this machine's would be one that anybody can choose.
pub async fn operator(kube: &Kube, environment: &Environment) -> Result<String, OpError> {
    if environment.playground {
        let local = std::env::var("USER").ok().filter(|user| !user.is_empty());
        return Ok(local.unwrap_or_else(|| "operator".to_owned()));
    }
    match kube.whoami().await {
        Ok(name) => Ok(name),
        Err(error) if error.kind == KubeErrorKind::NotFound => Err(OpError::Missing(format!(
            "cannot sign this with your name: the cluster of {} does not say who you are (SelfSubjectReview, Kubernetes 1.28 or newer)",
            environment.name
        ))),
        Err(error) => {
            Err(error.while_doing("sign this with your name, which the cluster was asked for").into())
        }
    }
}
