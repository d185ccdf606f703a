//! The Lease by which one of several servers delivers.

use std::time::Duration;

use ::kube::Api;
use ::kube::api::{ObjectMeta, PostParams};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::{Kube, KubeError, KubeErrorKind};
use crate::config::Permit;

/// Who holds the Lease after a try to take or keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// We do.
    Us,
    /// Somebody else does.
    Other(String),
}

impl Kube {
    /// Takes the Lease when it is free or expired, renews it when it is ours. `us` must be unique to this process.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn hold_lease(
        &self,
        _: &Permit,
        name: &str,
        us: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Holder, KubeError> {
        let api: Api<Lease> = Api::namespaced(self.client(), &self.namespace);
        let doing = format!("hold Lease {name}");
        let Some(mut lease) = self.limited(doing.clone(), api.get_opt(name)).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
                spec: Some(held(None, us, lifetime, now)),
            };
            return match self.limited(doing, api.create(&PostParams::default(), &lease)).await {
                Ok(_) => Ok(Holder::Us),
                Err(error) if error.kind == KubeErrorKind::AlreadyExists => {
                    Ok(Holder::Other("another server".to_owned()))
                }
                Err(error) => Err(error),
            };
        };
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let lasts = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(0)));
        let expired = spec.renew_time.as_ref().is_none_or(|at| now.duration_since(at.0) > lasts);
        if holder != us && !holder.is_empty() && !expired {
            return Ok(Holder::Other(holder));
        }
        lease.spec = Some(held(Some(spec), us, lifetime, now));
        match self.limited(doing, api.replace(name, &PostParams::default(), &lease)).await {
            Ok(_) => Ok(Holder::Us),
            Err(error) if error.kind == KubeErrorKind::Conflict => {
                Ok(Holder::Other("another server".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the Lease up, so that another server need not wait for it to expire.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn release_lease(&self, _: &Permit, name: &str, us: &str) -> Result<(), KubeError> {
        let api: Api<Lease> = Api::namespaced(self.client(), &self.namespace);
        let doing = format!("release Lease {name}");
        let Some(mut lease) = self.limited(doing.clone(), api.get_opt(name)).await? else { return Ok(()) };
        let Some(spec) = lease.spec.as_mut().filter(|s| s.holder_identity.as_deref() == Some(us)) else {
            return Ok(());
        };
        spec.holder_identity = None;
        spec.renew_time = None;
        self.limited(doing, api.replace(name, &PostParams::default(), &lease)).await?;
        Ok(())
    }
}

fn held(before: Option<LeaseSpec>, us: &str, lifetime: Duration, now: Timestamp) -> LeaseSpec {
    let before = before.unwrap_or_default();
    let ours = before.holder_identity.as_deref() == Some(us);
    let transitions = before.lease_transitions.unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(us.to_owned()),
        lease_duration_seconds: Some(i32::try_from(lifetime.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: if ours { before.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if ours { transitions } else { transitions + 1 }),
        ..before
    }
}
