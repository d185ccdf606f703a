//! What was done, by whom, on what and how it ended: recorded by every deed that changes something, read from the cluster's
//! Events.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::OpError;
use crate::backend::kube::{About, ActivityEvent, Kube, KubeErrorKind};
use crate::config::{Environment, Permit};
use crate::domain::Problem;
use crate::domain::activity::{Activity, Deed, Ending};

/// How long a cluster keeps Events unless its administrators say otherwise (`kube-apiserver --event-ttl`).
pub const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// What the cluster still knows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Activities {
    /// Newest first.
    pub activities: Vec<Activity>,
    /// From when on the list is complete, as far as can be known: what is older may have been forgotten.
    pub since: Timestamp,
    /// Namespaces that we could not look into, with the reason.
    pub unseen: Vec<Problem>,
}

/// The namespaces that our Events are in: that of the runs first, those of the targets and the tokens.
#[must_use]
pub fn namespaces(kube: &Kube, environment: &Environment) -> Vec<String> {
    let mut all = vec![kube.namespace().to_owned()];
    for other in [environment.targets.namespace.as_str(), super::tokens::NAMESPACE] {
        if !all.iter().any(|n| n == other) {
            all.push(other.to_owned());
        }
    }
    all
}

/// What was done since then (all that the cluster still knows without it), newest first.
///
/// # Errors
/// When the namespace of the runs cannot be looked into; others that cannot are named in the answer.
pub async fn list(
    kube: &Kube,
    environment: &Environment,
    since: Option<Timestamp>,
) -> Result<Activities, OpError> {
    let mut activities = Vec::new();
    let mut unseen = Vec::new();
    let names = namespaces(kube, environment);
    let looks = names.iter().map(|namespace| kube.activity(namespace));
    for (namespace, found) in names.iter().zip(futures_util::future::join_all(looks).await) {
        match found {
            Ok(found) => activities.extend(found),
            Err(error) if namespace != kube.namespace() => unseen.push(error.problem(namespace.as_str())),
            Err(error) => return Err(error.into()),
        }
    }
    let oldest = activities.iter().map(|a| a.at).min();
    let kept = Timestamp::now().checked_sub(KEPT).unwrap_or(Timestamp::UNIX_EPOCH);
    activities.retain(|a| since.is_none_or(|since| a.at >= since));
    activities.sort_by(|a, b| (b.at, &b.id).cmp(&(a.at, &a.id)));
    Ok(Activities { activities, since: oldest.map_or(kept, |oldest| oldest.min(kept)), unseen })
}

/// Follows what is done. What was done before comes first; after a break some is told again, with the same id. The stream ends
/// only for a namespace that is not ours to look into.
pub fn watch(kube: &Kube, environment: &Environment) -> impl Stream<Item = ActivityEvent> + Send + use<> {
    let own = kube.namespace().to_owned();
    let streams = namespaces(kube, environment).into_iter().map(|namespace| {
        let events: Pin<Box<dyn Stream<Item = ActivityEvent> + Send>> = Box::pin(kube.watch_activity(&namespace));
        if namespace == own {
            return events;
        }
        // Told once; asking again and again for what we may not see helps nobody.
        let open = |open: &mut bool, event: ActivityEvent| {
            let told = open.then_some(event);
            *open &= !matches!(&told, Some(ActivityEvent::Failed(error, _)) if error.kind == KubeErrorKind::Forbidden);
            std::future::ready(told)
        };
        Box::pin(events.scan(true, open))
    });
    stream::select_all(streams)
}

/// Does something and records it: done, with what `note` makes of it (nothing: it changed nothing, and is not recorded), or
/// failed, with the reason.
pub(super) async fn recorded<T>(
    kube: &Kube,
    permit: &Permit,
    (deed, about, by): (Deed, &About, &str),
    work: impl Future<Output = Result<T, OpError>>,
    note: impl FnOnce(&T) -> Option<String>,
) -> Result<T, OpError> {
    let done = Box::pin(work).await;
    match &done {
        Ok(value) => {
            if let Some(note) = note(value) {
                Box::pin(kube.report(permit, about, deed, &note, by)).await;
            }
        }
        Err(error) => failed(kube, deed, &about.words(), by, error),
    }
    done
}

/// Notes in the activity file that a deed failed.
pub fn failed(kube: &Kube, deed: Deed, on: &str, by: &str, error: &OpError) {
    kube.note(by, deed.word(), on, Ending::Failed, &error.to_string());
}
