//! Bootstrap tokens: listed, minted, waited for until the cluster has signed them, revoked, and made into the command that a
//! machine joins with.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::activity::recorded;
use super::{OpError, TRIES};
use crate::backend::kube::{About, Kube, KubeErrorKind};
use crate::config::{Permit, Signer};
use crate::domain::activity::Deed;
use crate::domain::{BootstrapToken, NODE_GROUP, Token, is_token_group};

/// Where the cluster's components look for bootstrap tokens.
pub const NAMESPACE: &str = "kube-system";
/// The signer needs milliseconds where it runs.
pub const SIGNED_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From here on a clock that differs is worth a word: tokens are short-lived.
const SKEW: SignedDuration = SignedDuration::from_secs(30);
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);
/// How the keys of signatures in `cluster-info` begin.
const SIGNATURE: &str = "jws-kubeconfig-";

/// A token to mint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// How long it shall be good.
    pub lifetime: Duration,
    /// The groups that it gives.
    pub groups: Vec<String>,
    /// What it is for; others can read it.
    pub description: String,
    /// How long its signature is waited for; none where the cluster has no signer.
    pub signed_within: Option<Duration>,
    /// The UID of the run that it is for, which gives it its id; none: a random id. What an earlier attempt of the run left under that
    /// id is replaced, so that a run has one token at most.
    pub run: Option<String>,
}

impl NewToken {
    /// A token for a new node.
    #[must_use]
    pub fn for_node(lifetime: Duration, description: String, signer: Signer) -> Self {
        let signed_within = (signer == Signer::Required).then_some(SIGNED_WITHIN);
        Self { lifetime, groups: vec![NODE_GROUP.to_owned()], description, signed_within, run: None }
    }

    /// The same for the node that a run makes.
    #[must_use]
    pub fn for_run(uid: &str, lifetime: Duration, description: String, signer: Signer) -> Self {
        Self { run: Some(uid.to_owned()), ..Self::for_node(lifetime, description, signer) }
    }
}

/// A token that was minted. Its secret part is known nowhere else but in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// The token.
    pub token: BootstrapToken,
    /// Until when it is good, by our clock.
    pub expires: Timestamp,
}

/// All tokens, malformed ones too, without their secret parts.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn list(kube: &Kube) -> Result<Vec<Token>, OpError> {
    Ok(kube.tokens().await?)
}

/// Mints a token and waits until `cluster-info` carries its signature, unless the cluster has no signer.
///
/// # Errors
/// When a group is none that a token may give, the API server refuses, or the signature does not come: the token is deleted
/// again.
pub async fn mint(kube: &Kube, permit: &Permit, new: &NewToken, by: &str) -> Result<Minted, OpError> {
    if let Some(group) = new.groups.iter().find(|group| !is_token_group(group)) {
        return Err(OpError::Invalid(format!(
            "{group} is no group that a token may give: system:bootstrappers: and lower-case letters, digits, : and -"
        )));
    }
    let lifetime = SignedDuration::try_from(new.lifetime).unwrap_or(LONGEST).min(LONGEST);
    let creating = create(kube, permit, new, lifetime).await;
    let minted = creating.inspect_err(|error| {
        super::activity::failed(kube, Deed::CreateToken, "token", by, error);
    })?;
    let about = About::Token(minted.token.id().to_owned());
    let note = |minted: &Minted| {
        let description =
            if new.description.is_empty() { String::new() } else { format!(": {}", new.description) };
        Some(format!(
            "token {} created by {by}, good until {}{description}",
            minted.token.id(),
            minted.expires
        ))
    };
    let work = async {
        let Some(patience) = new.signed_within else { return Ok(minted) };
        let Err(error) = signed(kube, &minted, patience).await else { return Ok(minted) };
        if let Err(second) = kube.delete_token(permit, minted.token.id()).await {
            tracing::warn!(error = %second, "an unsigned token stays until it expires");
        }
        Err(error)
    };
    recorded(kube, permit, (Deed::CreateToken, &about, by), work, note).await
}

/// Creates the token's Secret: under an id that is free, or under the run's own.
async fn create(
    kube: &Kube,
    permit: &Permit,
    new: &NewToken,
    lifetime: SignedDuration,
) -> Result<Minted, OpError> {
    for _ in 0..TRIES {
        let token = random(new.run.as_deref())?;
        let expires = Timestamp::now().checked_add(lifetime).unwrap_or(Timestamp::MAX);
        match kube.create_token(permit, &token, expires, &new.groups, &new.description).await {
            Ok(()) => return Ok(Minted { token, expires }),
            // Left by an attempt that was killed. Its secret part nobody knows, and we may not read it.
            Err(error) if error.kind == KubeErrorKind::AlreadyExists && new.run.is_some() => {
                kube.delete_token(permit, token.id()).await?;
            }
            Err(error) if error.kind == KubeErrorKind::AlreadyExists => {}
            Err(error) => {
                // Where only the answer is lost there may be one that nobody would know of.
                if error.kind == KubeErrorKind::Unreachable {
                    kube.delete_token(permit, token.id()).await.ok();
                }
                return Err(error.into());
            }
        }
    }
    Err(OpError::Contended("create a bootstrap token: another has its id each time".to_owned()))
}

/// Deletes a token that was looked at.
///
/// # Errors
/// When it is gone, another has its name by now, or the API server does not answer or refuses.
pub async fn delete(kube: &Kube, permit: &Permit, token: &Token, by: &str) -> Result<(), OpError> {
    let about = About::Token(token.id.clone());
    let work = async {
        let Token { id, name, uid, .. } = token;
        kube.delete_token_secret(permit, name, uid).await.map_err(|error| match error.kind {
            KubeErrorKind::NotFound => OpError::NotFound(format!("token {id}")),
            KubeErrorKind::Conflict => {
                OpError::Contended(format!("delete token {id}: another has its name by now"))
            }
            _ => error.into(),
        })
    };
    let note = |(): &()| Some(format!("token {} deleted by {by}", token.id));
    recorded(kube, permit, (Deed::DeleteToken, &about, by), work, note).await
}

/// Deletes a token that we minted ourselves; one that is gone already is no error.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn revoke(kube: &Kube, permit: &Permit, id: &str, by: &str) -> Result<(), OpError> {
    let about = About::Token(id.to_owned());
    let work = async { Ok(kube.delete_token(permit, id).await?) };
    let note = |(): &()| Some(format!("token {id} deleted by {by}"));
    recorded(kube, permit, (Deed::DeleteToken, &about, by), work, note).await
}

/// A token with its secret part, for [`join_command`].
///
/// # Errors
/// When there is none, it cannot join anything, or the API server does not answer or refuses.
pub async fn reveal(kube: &Kube, id: &str) -> Result<BootstrapToken, OpError> {
    let none = || OpError::NotFound(format!("token {id}"));
    // An id is part of a path into the API.
    if !id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        return Err(none());
    }
    let token = kube.token(id).await?.ok_or_else(none)?;
    if let Some(why) = token.malformed.first() {
        return Err(OpError::Invalid(format!("token {id} cannot be used: {why}")));
    }
    if token.expires.is_some_and(|at| at <= Timestamp::now()) {
        return Err(OpError::Invalid(format!("token {id} cannot be used: it has expired")));
    }
    kube.reveal_token(id).await?.ok_or_else(none)
}

/// The command that a new machine joins with, from `cluster-info`. It holds the token: never log it.
///
/// # Errors
/// When `cluster-info` is missing or cannot be read, or names a server that kubeadm could not be given.
pub async fn join_command(kube: &Kube, token: &BootstrapToken) -> Result<String, OpError> {
    let info = super::cluster::join(kube).await?;
    if !info.endpoint.trim().to_ascii_lowercase().starts_with("https:") {
        let text = format!("cluster-info names a server that is no https URL: {}", info.endpoint);
        return Err(OpError::Missing(text));
    }
    Ok(format!(
        "kubeadm join {} --token {} --discovery-token-ca-cert-hash {}",
        info.server,
        token.reveal(),
        info.ca_hash
    ))
}

/// How far the API server's clock is from ours, when that is worth a word: tokens would be good for longer or shorter.
pub async fn clock_warning(kube: &Kube) -> Option<String> {
    let ahead = kube.clock_ahead().await.ok().flatten()?;
    (ahead.abs() >= SKEW).then(|| {
        let way = if ahead.is_negative() { "behind" } else { "ahead of" };
        format!(
            "the API server's clock is {} s {way} this machine's: tokens end by the API server's",
            ahead.abs().as_secs()
        )
    })
}

/// A new token, with the id of the run if it is for one.
fn random(run: Option<&str>) -> Result<BootstrapToken, OpError> {
    for _ in 0..4 {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes)
            .map_err(|e| OpError::Missing(format!("this machine gives no random numbers: {e}")))?;
        let token = match run {
            Some(uid) => BootstrapToken::of_run(uid, &bytes),
            None => BootstrapToken::from_random(&bytes),
        };
        if let Some(token) = token {
            return Ok(token);
        }
    }
    Err(OpError::Missing("this machine's random numbers are not random".to_owned()))
}

async fn signed(kube: &Kube, minted: &Minted, patience: Duration) -> Result<(), OpError> {
    let id = minted.token.id();
    let started = tokio::time::Instant::now();
    loop {
        let info = super::cluster::info(kube).await?;
        let content = info.get("kubeconfig").unwrap_or_default();
        // That of an earlier token of the same id stays until the signer has seen the new one.
        let signature = info.get(&format!("{SIGNATURE}{id}"));
        if signature.is_some_and(|signature| minted.token.has_signed(content, signature)) {
            return Ok(());
        }
        if started.elapsed() > patience {
            let others = info.keys().any(|key| key.starts_with(SIGNATURE));
            let why = match signature {
                Some(_) => "the one that is there is of another secret part: signing fails, or is slow (see the log of kube-controller-manager)".to_owned(),
                None => unsigned(kube, minted, others).await,
            };
            let seconds = patience.as_secs();
            return Err(OpError::Missing(format!(
                "cluster-info got no signature for token {id} within {seconds} s: {why}"
            )));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Why a token has no signature.
async fn unsigned(kube: &Kube, minted: &Minted, others: bool) -> String {
    if matches!(kube.token(minted.token.id()).await, Ok(None)) {
        return "the token is gone: somebody deleted it, or the token cleaner took it for expired".to_owned();
    }
    let ahead = kube.clock_ahead().await.ok().flatten().unwrap_or_default();
    if Timestamp::now().checked_add(ahead).is_ok_and(|there| there >= minted.expires) {
        return format!(
            "the token has expired by the API server's clock, which is {} s from this machine's",
            ahead.abs().as_secs()
        );
    }
    if others {
        return "other tokens have one: signing fails, or is slow (see the log of kube-controller-manager)"
            .to_owned();
    }
    "no token has one: is the bootstrap signer on? (kube-controller-manager --controllers=*,bootstrapsigner; or set provision.signer = \"off\")".to_owned()
}
