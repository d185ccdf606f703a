//! ARA: what Ansible did, as its callback recorded it, read through the REST API (1.8; 1.7 is the same where we read).
//!
//! [`Ara`] is a cheap handle. Lists carry ids only, so whoever shows results uses [`Following`], which joins plays, tasks and hosts
//! to them, and reads on the next look only what is new: with HTTP Basic, one request costs ARA a quarter of a second.
//! Nothing is ever written here; recording is the callback's.

mod details;
mod error;
mod follow;
mod transport;
mod wire;

use crate::config;
use crate::domain::results::{Playbook, ResultDetails};

pub use error::AraError;
pub use follow::Following;
use transport::{Page, Transport};
use wire::{RawDetails, RawPlaybook, RawResult};

/// ARA: a cheap handle that keeps its connections.
#[derive(Debug, Clone)]
pub struct Ara(Transport);

impl Ara {
    /// A handle made from settings. It reads the CA's file and the system's trust roots, and connects nowhere.
    ///
    /// # Errors
    /// When URL, credentials or CA cannot be used.
    pub fn new(settings: &config::Ara) -> Result<Self, AraError> {
        Transport::new(settings).map(Self)
    }

    /// Asks whether ARA is there and lets us read.
    ///
    /// # Errors
    /// Named for what happened.
    pub async fn ping(&self) -> Result<(), AraError> {
        self.0.list::<RawPlaybook>("playbooks", &[("limit", "1")]).await.map(drop)
    }

    /// The playbooks with a label, oldest first.
    ///
    /// # Errors
    /// Named for what happened.
    pub async fn playbooks(&self, label: &str) -> Result<Vec<Playbook>, AraError> {
        Ok(self.labelled(label).await?.into_iter().map(RawPlaybook::into_playbook).collect())
    }

    /// The whole of one result.
    ///
    /// # Errors
    /// Named for what happened; [`AraError::NotFound`] when ARA has no such result (any more).
    pub async fn result(&self, id: u64) -> Result<ResultDetails, AraError> {
        let raw: RawDetails = self.0.get(&format!("results/{id}"), &[], &format!("result {id}")).await?;
        // The host's counters say how many of its failures counted in the end, not which: that takes its other failures.
        let doubtful = raw.how.status() == wire::Status::Failed && raw.playbook.over() && raw.host.failed > 0;
        let failures = if doubtful { self.failures(raw.host.id).await? } else { vec![id] };
        Ok(details::decode(raw, &failures))
    }

    /// The ids of the failures of a host, oldest first. A host that failed more than a page full is as good as failed.
    async fn failures(&self, host: u64) -> Result<Vec<u64>, AraError> {
        let host = host.to_string();
        let query = [("host", host.as_str()), ("status", "failed"), ("order", "id"), ("limit", "1000")];
        let page: Page<RawResult> = self.0.list("results", &query).await?;
        Ok(page.results.iter().filter(|r| r.how.status() == wire::Status::Failed).map(|r| r.id).collect())
    }

    async fn labelled(&self, label: &str) -> Result<Vec<RawPlaybook>, AraError> {
        let query = [("label", label), ("order", "id"), ("limit", "1000")];
        let page: Page<RawPlaybook> = self.0.list("playbooks", &query).await?;
        // ARA compares without case, and a proxy may drop what it does not know.
        let mut found: Vec<_> = page.results.into_iter().filter(|p| p.has_label(label)).collect();
        found.sort_by_key(|p| p.id);
        Ok(found)
    }
}
