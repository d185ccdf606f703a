//! Why an approved run is not delivered, written on the run for whoever wonders. Rarely, since each write is somebody else's conflict.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Context;
use crate::domain::Run;
use crate::ops;

/// How often one run is written on.
const EVERY: Duration = Duration::from_secs(60);

/// When each run was last written on.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<HashMap<String, Instant>>);

impl Notes {
    fn times(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget_old(&self) {
        self.times().retain(|_, at| at.elapsed() < EVERY);
    }

    /// Writes the problem on the run, unless it says so already or was written on a moment ago.
    pub(super) async fn write(&self, context: &Context, run: &Run, problem: &str) {
        if self.times().contains_key(&run.uid) {
            return;
        }
        match ops::deliver::note_problem(&context.kube, &context.permit, run, problem).await {
            Ok(true) => _ = self.times().insert(run.uid.clone(), Instant::now()),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(run = run.name, %error, "why it is not delivered is not written on it");
            }
        }
    }
}
