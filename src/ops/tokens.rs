//! Bootstrap tokens: minted for one run, waited for until the cluster has signed them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::OpError;
use crate::backend::kube::{Kube, KubeErrorKind};
use crate::config::{Permit, Signer};
use crate::domain::BootstrapToken;

/// Where the cluster's components look for bootstrap tokens.
pub const NAMESPACE: &str = "kube-system";
/// The signer needs milliseconds where it runs.
const SIGNED_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Mints a token and waits until `cluster-info` carries its signature, unless the cluster has no signer.
///
/// # Errors
/// When the API server refuses, or the signature does not come: the token is deleted again.
pub async fn mint(
    kube: &Kube,
    permit: &Permit,
    lifetime: Duration,
    description: &str,
    signer: Signer,
) -> Result<BootstrapToken, OpError> {
    let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::from_hours(1));
    let token = loop {
        let token = random()?;
        let expires = Timestamp::now().checked_add(lifetime).unwrap_or(Timestamp::MAX);
        match kube.create_token(permit, &token, expires, description).await {
            Err(error) if error.kind == KubeErrorKind::AlreadyExists => {}
            other => break other.map(|()| token)?,
        }
    };
    if signer == Signer::Required
        && let Err(error) = signed(kube, &token).await
    {
        if let Err(second) = revoke(kube, permit, token.id()).await {
            tracing::warn!(error = %second, "an unsigned token stays until it expires");
        }
        return Err(error);
    }
    Ok(token)
}

/// Deletes a token.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn revoke(kube: &Kube, permit: &Permit, id: &str) -> Result<(), OpError> {
    Ok(kube.delete_token(permit, id).await?)
}

fn random() -> Result<BootstrapToken, OpError> {
    for _ in 0..4 {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes)
            .map_err(|e| OpError::Missing(format!("this machine gives no random numbers: {e}")))?;
        if let Some(token) = BootstrapToken::from_random(&bytes) {
            return Ok(token);
        }
    }
    Err(OpError::Missing("this machine's random numbers are not random".to_owned()))
}

async fn signed(kube: &Kube, token: &BootstrapToken) -> Result<(), OpError> {
    let key = format!("jws-kubeconfig-{}", token.id());
    let started = tokio::time::Instant::now();
    loop {
        if super::cluster::info(kube).await?.get(&key).is_some() {
            return Ok(());
        }
        if started.elapsed() > SIGNED_WITHIN {
            return Err(OpError::Missing(format!(
                "cluster-info got no signature for token {} within {} s: is the bootstrap signer on? (kube-controller-manager --controllers=*,bootstrapsigner; or set provision.signer = \"off\")",
                token.id(),
                SIGNED_WITHIN.as_secs()
            )));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
