//! What ARA recorded of a run.

use crate::backend::ara::{Ara, AraError, Following};
use crate::domain::results::{ResultDetails, RunResults, run_label};

/// Everything that ARA has of a run, read once. Who looks again and again uses [`follow`].
///
/// # Errors
/// Named for what happened. A run that is not recorded (yet) is no error: it has no playbooks.
pub async fn of_run(ara: &Ara, run: &str) -> Result<RunResults, AraError> {
    follow(run).look(ara).await
}

/// Follows the results of a run: each look reads what is new.
#[must_use]
pub fn follow(run: &str) -> Following {
    Following::new(run_label(run))
}

/// The whole of one result.
///
/// # Errors
/// Named for what happened.
pub async fn details(ara: &Ara, result: u64) -> Result<ResultDetails, AraError> {
    ara.result(result).await
}
