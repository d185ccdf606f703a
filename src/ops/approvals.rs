//! All approvals together: an operator holds them, with a reason, and somebody releases them.
//!
//! The hold stands on one ConfigMap in the namespace of the runs ([`CONFIGMAP`]), so that it survives consoles and servers.
//! Every write is conditional on what was read: of two operators one wins, and the other is told who. While it stands nothing
//! is started that changes a host: [`approve`](super::decide::approve) and a retry refuse, the server's rule and the answers to
//! retries wait. Checks, which change nothing, stops and rejections go on.
//!
//! The ConfigMap also says how many runs may go on at a time ([`publish`]): the server's settings decide that, and approvals are
//! given by consoles and commands that know other settings.
//!
//! The hold is read right before an approval is written, not with it: Kubernetes has no write over two objects. An approval
//! that was on its way when the hold was written may still go through.

use futures_util::{Stream, StreamExt};
use jiff::Timestamp;

use super::{OpError, activity, until_unchanged};
use crate::backend::kube::{About, ConfigMapData, ConfigMapEvent, Kube, KubeErrorKind};
use crate::config::Permit;
use crate::domain::activity::Deed;
use crate::domain::approvals::{
    self, Approvals, CONFIGMAP, HOLD, Hold, RELEASED, RUNS_AT_ONCE, Release, Standing,
};

/// What holds for all approvals. Where there is no ConfigMap nothing is held.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn look(kube: &Kube) -> Result<Approvals, OpError> {
    Ok(found(kube).await?.as_ref().map(read).unwrap_or_default())
}

/// Follows what holds for all approvals. While the API server does not answer nothing is told: the last word stands.
pub fn watch(kube: &Kube) -> impl Stream<Item = Standing> + Send + Unpin + use<> {
    let told = kube.watch_config_map(kube.namespace(), CONFIGMAP).filter_map(|event| {
        std::future::ready(match event {
            ConfigMapEvent::Now(data) => Some(Standing::Known(data.as_deref().map(read).unwrap_or_default())),
            ConfigMapEvent::Failed(error, _) if error.kind == KubeErrorKind::Forbidden => {
                Some(Standing::Unreadable(error.to_string()))
            }
            ConfigMapEvent::Failed(error, _) => {
                tracing::debug!(%error, "whether approvals are held is not known anew");
                None
            }
        })
    });
    Box::pin(told)
}

/// Holds all approvals.
///
/// # Errors
/// When the reason cannot be used, somebody holds them already, or the API server does not answer or refuses.
pub async fn hold(kube: &Kube, permit: &Permit, reason: &str, by: &str) -> Result<Hold, OpError> {
    let work = async {
        let reason = approvals::reason(reason).map_err(|error| OpError::Invalid(error.to_string()))?;
        until_unchanged("hold approvals", || async {
            let (mut data, new) = open(kube).await?;
            if let Some(hold) = read(&data).hold {
                return Err(OpError::Held { deed: "hold approvals".to_owned(), hold });
            }
            let hold = Hold { by: by.to_owned(), at: now(), reason: reason.clone() };
            data.set(HOLD, json(&hold)?);
            write(kube, permit, &data, new).await?;
            Ok(hold)
        })
        .await
    };
    let note = |hold: &Hold| Some(format!("approvals are held by {by}: {}", hold.reason));
    activity::recorded(kube, permit, (Deed::Hold, &About::Approvals, by), work, note).await
}

/// Releases approvals; with `seen`, only from the hold that was looked at. Returns the hold that ended.
///
/// # Errors
/// When they are not held, or held anew; when the API server does not answer or refuses.
pub async fn release(kube: &Kube, permit: &Permit, seen: Option<&Hold>, by: &str) -> Result<Hold, OpError> {
    let work = until_unchanged("release approvals", || async {
        let (mut data, new) = open(kube).await?;
        let Approvals { hold, released, .. } = read(&data);
        let Some(hold) = hold else { return Err(OpError::NotHeld(released)) };
        if seen.is_some_and(|seen| *seen != hold) {
            return Err(OpError::HeldAnew(hold));
        }
        data.remove(HOLD);
        data.set(RELEASED, json(&Release { by: by.to_owned(), at: now() })?);
        write(kube, permit, &data, new).await?;
        Ok(hold)
    });
    let note =
        |hold: &Hold| Some(format!("approvals are released by {by}; {} held them: {}", hold.by, hold.reason));
    activity::recorded(kube, permit, (Deed::Release, &About::Approvals, by), work, note).await
}

/// Tells everybody how many runs may go on at a time (0: any number). Without a limit nothing is written that is not there.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn publish(kube: &Kube, permit: &Permit, runs_at_once: usize) -> Result<(), OpError> {
    until_unchanged("tell how many runs may go on at a time", || async {
        let (mut data, new) = open(kube).await?;
        let text = (runs_at_once > 0).then(|| runs_at_once.to_string());
        if data.get(RUNS_AT_ONCE) == text.as_deref() {
            return Ok(());
        }
        match text {
            Some(text) => data.set(RUNS_AT_ONCE, text),
            None => data.remove(RUNS_AT_ONCE),
        }
        write(kube, permit, &data, new).await
    })
    .await
}

/// Whether an operator may let something start now. Who may not look at the ConfigMap is not stopped by it.
///
/// # Errors
/// When approvals are held, or the API server does not answer.
pub(super) async fn not_held(kube: &Kube, deed: impl FnOnce() -> String) -> Result<Approvals, OpError> {
    match look(kube).await {
        Ok(Approvals { hold: Some(hold), .. }) => Err(OpError::Held { deed: deed(), hold }),
        Err(error) if error.is_kube(KubeErrorKind::Forbidden) => {
            tracing::warn!(%error, "whether approvals are held is not known: taken as not held");
            Ok(Approvals::default())
        }
        other => other,
    }
}

async fn found(kube: &Kube) -> Result<Option<ConfigMapData>, OpError> {
    match kube.config_map(kube.namespace(), CONFIGMAP).await {
        Ok(data) => Ok(Some(data)),
        Err(error) if error.kind == KubeErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The ConfigMap to be changed, and whether it is still to be created.
async fn open(kube: &Kube) -> Result<(ConfigMapData, bool), OpError> {
    let found = found(kube).await?;
    let new = found.is_none();
    Ok((found.unwrap_or_else(|| ConfigMapData::new(kube.namespace(), CONFIGMAP)), new))
}

async fn write(kube: &Kube, permit: &Permit, data: &ConfigMapData, new: bool) -> Result<(), OpError> {
    if new { kube.create_config_map(permit, data).await } else { kube.write_config_map(permit, data).await }
        .map_err(OpError::from)
}

fn read(data: &ConfigMapData) -> Approvals {
    Approvals::read(|key| data.get(key))
}

fn json(value: &impl serde::Serialize) -> Result<String, OpError> {
    serde_json::to_string(value).map_err(|error| OpError::Invalid(format!("it cannot be written: {error}")))
}

/// In whole seconds, as times are written and shown.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
