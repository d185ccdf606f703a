//! The deeds: one async function over back ends each. The console, the commands and the servers all call the same one.

pub mod announce;
pub mod cluster;
pub mod decide;
pub mod deliver;
mod error;
pub mod logs;
pub mod machine;
pub mod marks;
pub mod prune;
pub mod results;
pub mod runs;
pub mod targets;
pub mod tokens;

pub use error::OpError;

use crate::backend::kube::Kube;
use crate::config::Environment;

/// How often a change is tried again when somebody else changed the same object meanwhile.
const TRIES: usize = 8;

/// The name that a decision is signed with: who the API server takes us for (its admission policy compares the two), and in
/// the playground, where everybody is the same user to it, the name that this machine knows the operator by.
pub async fn operator(kube: &Kube, environment: &Environment) -> String {
    let local =
        || std::env::var("USER").ok().filter(|u| !u.is_empty()).unwrap_or_else(|| "operator".to_owned());
    if environment.playground {
        return local();
    }
    match kube.whoami().await {
        Ok(name) => name,
        Err(error) => {
            tracing::warn!(%error, "decisions are signed with the local user name");
            local()
        }
    }
}
