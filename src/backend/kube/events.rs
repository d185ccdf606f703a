//! Kubernetes Events of what was done: writing, listing, following. An Event is a courtesy: the cluster forgets it after an
//! hour, the annotations of a run are the record.

use std::time::Duration;

use ::kube::Api;
use ::kube::api::{ListParams, ObjectMeta, PostParams};
use ::kube::runtime::watcher;
use futures_util::{Stream, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::watch::{Events, LIFE, batch, wanted};
use super::{Kube, KubeError, KubeErrorKind};
use crate::config::Permit;
use crate::domain::activity::{Activity, Deed, Ending, subject};
use crate::domain::{Run, approvals, record};

const REPORTER: &str = "hostwright.dev/hostwright";
/// What the API takes of a note and of a reporting instance, in bytes.
const NOTE_LIMIT: usize = 1024;
const INSTANCE_LIMIT: usize = 128;
const PAGE: u32 = 500;
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// What something was done on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A run.
    Run {
        /// The Job's name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// The targets.
    Targets {
        /// The ConfigMap's namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A bootstrap token, by its id.
    Token(String),
    /// All approvals.
    Approvals,
    /// Nothing that has an object of its own: what is said stands for itself.
    Other(String),
}

impl From<&Run> for About {
    fn from(run: &Run) -> Self {
        Self::Run { name: run.name.clone(), uid: run.uid.clone() }
    }
}

impl About {
    /// The words for it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Run { name, .. } => subject("Job", "", name),
            Self::Targets { namespace, name } => subject("ConfigMap", namespace, name),
            Self::Token(id) => subject("Secret", "", id),
            Self::Approvals => subject("ConfigMap", "", approvals::CONFIGMAP),
            Self::Other(what) => what.clone(),
        }
    }

    fn reference(&self, own: &str) -> ObjectReference {
        let of = |api: &str, kind: &str, namespace: &str, name: &str| ObjectReference {
            api_version: Some(api.to_owned()),
            kind: Some(kind.to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        match self {
            Self::Run { name, uid } => {
                ObjectReference { uid: Some(uid.clone()), ..of("batch/v1", "Job", own, name) }
            }
            Self::Targets { namespace, name } => of("v1", "ConfigMap", namespace, name),
            Self::Token(id) => of("v1", "Secret", "kube-system", &format!("bootstrap-token-{id}")),
            Self::Approvals => of("v1", "ConfigMap", own, approvals::CONFIGMAP),
            Self::Other(_) => of("v1", "Namespace", own, own),
        }
    }
}

/// What the watch over Events tells.
#[derive(Debug)]
pub enum ActivityEvent {
    /// Deeds, some perhaps known already: after a break all are told again.
    Seen(Vec<Activity>),
    /// All that the cluster still knows has been told.
    Listed,
    /// The watch of a namespace broke off and goes on after this time.
    Failed(KubeError, Duration),
}

impl Kube {
    /// Tells what happened to a run. A failure is logged and nothing more.
    pub async fn tell(&self, permit: &Permit, run: &Run, reason: &str, note: &str, by: &str, at: Timestamp) {
        self.event(permit, &About::from(run), reason, note, by, at).await;
    }

    /// Tells what was done on something, in the activity file and as an Event. A failure is logged and nothing more.
    pub async fn report(&self, permit: &Permit, about: &About, deed: Deed, note: &str, by: &str) {
        self.event(permit, about, deed.reason(), note, by, Timestamp::now()).await;
    }

    /// Notes in the activity file alone what was done or tried: who, what, on what, how it ended.
    pub fn note(&self, by: &str, action: &str, on: &str, outcome: Ending, text: &str) {
        let environment = self.environment.as_ref();
        let outcome = outcome.word();
        tracing::info!(target: "hostwright::activity", who = by, environment, action, on, outcome, "{text}");
    }

    async fn event(&self, _: &Permit, about: &About, reason: &str, note: &str, by: &str, at: Timestamp) {
        let on = about.words();
        self.note(by, Deed::word_of(reason), &on, Ending::Done, note);
        let written = self.write_event(about.reference(&self.namespace), reason, note, by, at).await;
        let foreign = !matches!(about, About::Run { .. } | About::Other(_));
        let written = match written {
            // Where we may not write Events the namespace of the runs is as near as it gets.
            Err(error)
                if foreign && matches!(error.kind, KubeErrorKind::Forbidden | KubeErrorKind::NotFound) =>
            {
                let own = About::Other(on.clone()).reference(&self.namespace);
                self.write_event(own, reason, &format!("{on}: {note}"), by, at).await
            }
            other => other,
        };
        if let Err(error) = written {
            tracing::warn!(on, %error, "no Event");
        }
    }

    async fn write_event(
        &self,
        regarding: ObjectReference,
        reason: &str,
        note: &str,
        by: &str,
        at: Timestamp,
    ) -> Result<(), KubeError> {
        let namespace = regarding.namespace.clone().unwrap_or_default();
        let label = (record::MANAGED_BY.to_owned(), record::MANAGER.to_owned());
        let event = Event {
            metadata: ObjectMeta {
                // With a hyphen: a start that ends in a dot is refused.
                generate_name: Some(format!("{}-", regarding.name.as_deref().unwrap_or_default())),
                namespace: Some(namespace.clone()),
                labels: Some([label].into()),
                ..ObjectMeta::default()
            },
            action: Some(reason.to_owned()),
            event_time: Some(MicroTime(at)),
            note: Some(shortened(note, NOTE_LIMIT)),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(REPORTER.to_owned()),
            reporting_instance: Some(shortened(by, INSTANCE_LIMIT)),
            type_: Some("Normal".to_owned()),
            ..Event::default()
        };
        self.limited("write an Event", self.events(&namespace).create(&PostParams::default(), &event))
            .await?;
        Ok(())
    }

    /// What the cluster still knows of our deeds in a namespace, in no order.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn activity(&self, namespace: &str) -> Result<Vec<Activity>, KubeError> {
        let doing = format!("list the Events of namespace {namespace}");
        let mut page = ListParams::default().labels(&selector()).limit(PAGE);
        let mut activity = Vec::new();
        loop {
            let list = self.limited(doing.clone(), self.events(namespace).list(&page)).await?;
            activity.extend(list.items.iter().filter_map(read));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(activity),
            }
        }
    }

    /// Follows our deeds in a namespace. The stream never ends: what fails is told and tried again with a growing delay.
    pub fn watch_activity(&self, namespace: &str) -> impl Stream<Item = ActivityEvent> + Send + use<> {
        let (kube, api) = (self.clone(), self.events(namespace));
        let doing = format!("watch the Events of namespace {namespace}");
        let state = (begin(&api), FIRST_DELAY, None);
        stream::unfold(state, move |(mut events, mut delay, wait)| {
            let (kube, api, doing) = (kube.clone(), api.clone(), doing.clone());
            async move {
                if let Some(wait) = wait {
                    tokio::time::sleep(wait).await;
                }
                let mut wait = None;
                let mut told = Vec::new();
                for event in batch(&mut events).await? {
                    match event {
                        Ok(event) => {
                            delay = FIRST_DELAY;
                            tell(&mut told, event);
                        }
                        Err(error) => {
                            let error = KubeError::from_watch(&doing, &kube.who(), error);
                            if error.kind == KubeErrorKind::Expired {
                                events = begin(&api);
                            }
                            let pause = wanted(delay, &error);
                            told.push(ActivityEvent::Failed(error, pause));
                            wait = Some(pause);
                            delay = (delay * 2).min(LONGEST_DELAY);
                            break;
                        }
                    }
                }
                Some((stream::iter(told), (events, delay, wait)))
            }
        })
        .flatten()
    }

    fn events(&self, namespace: &str) -> Api<Event> {
        Api::namespaced(self.client(), namespace)
    }
}

fn begin(api: &Api<Event>) -> Events<Event> {
    let config = watcher::Config::default().labels(&selector()).page_size(PAGE).timeout(LIFE);
    watcher::watcher(api.clone(), config).boxed()
}

fn tell(told: &mut Vec<ActivityEvent>, event: watcher::Event<Event>) {
    match event {
        watcher::Event::Apply(event) | watcher::Event::InitApply(event) => {
            let Some(activity) = read(&event) else { return };
            if let Some(ActivityEvent::Seen(batch)) = told.last_mut() {
                batch.push(activity);
            } else {
                told.push(ActivityEvent::Seen(vec![activity]));
            }
        }
        watcher::Event::InitDone => told.push(ActivityEvent::Listed),
        // The cluster forgets; who has seen it need not.
        watcher::Event::Init | watcher::Event::Delete(_) => {}
    }
}

fn selector() -> String {
    format!("{}={}", record::MANAGED_BY, record::MANAGER)
}

/// An Event as we wrote it; none for those of others.
fn read(event: &Event) -> Option<Activity> {
    if event.reporting_controller.as_deref() != Some(REPORTER) {
        return None;
    }
    let regarding = event.regarding.as_ref()?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    Some(Activity {
        id: text(&event.metadata.uid),
        at: event.event_time.as_ref().map(|time| time.0).or(created)?,
        who: text(&event.reporting_instance),
        action: Deed::word_of(event.reason.as_deref().unwrap_or_default()).to_owned(),
        on: subject(
            regarding.kind.as_deref().unwrap_or_default(),
            regarding.namespace.as_deref().unwrap_or_default(),
            regarding.name.as_deref().unwrap_or_default(),
        ),
        outcome: if event.type_.as_deref() == Some("Warning") { Ending::Failed } else { Ending::Done },
        text: text(&event.note),
    })
}

/// The beginning of a text, in at most so many bytes.
fn shortened(text: &str, bytes: usize) -> String {
    let fits = |(at, c): &(usize, char)| at + c.len_utf8() <= bytes;
    text.char_indices().take_while(fits).map(|(_, c)| c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_fits_the_api_in_bytes() {
        assert_eq!(shortened("aä€", 3), "aä");
        assert_eq!(shortened("aä€", 6), "aä€");
        assert_eq!(shortened(&"ä".repeat(NOTE_LIMIT), NOTE_LIMIT).len(), NOTE_LIMIT);
    }
}
