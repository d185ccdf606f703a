//! Events about Jobs and pods, as the Job controller and the kubelet record them.
//!
//! Best effort, as there: a task of its own sends them one after the other, and an event that does not get through is dropped.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many events may wait to be sent; one a Job has a handful.
const WAITING: usize = 256;
/// The longest note that an API server takes.
const LONGEST_NOTE: usize = 1024;

/// Whether an event tells of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// All as it should be.
    Normal,
    /// Something went wrong.
    Warning,
}

/// Records events. Cheap to clone; the sending task ends when the last clone is gone.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    sender: mpsc::Sender<Event>,
    node: String,
}

impl Recorder {
    /// A recorder for one namespace, and the task that sends.
    pub(super) fn new(client: Client, namespace: &str, node: &str) -> (Self, JoinHandle<()>) {
        let (sender, mut waiting) = mpsc::channel::<Event>(WAITING);
        let api: Api<Event> = Api::namespaced(client, namespace);
        let task = tokio::spawn(async move {
            while let Some(event) = waiting.recv().await {
                if let Err(error) = api.create(&PostParams::default(), &event).await {
                    tracing::debug!(reason = event.reason, %error, "cannot record an event");
                }
            }
        });
        (Self { sender, node: node.to_owned() }, task)
    }

    /// Records an event about a Job.
    pub(super) fn job(&self, job: &Job, tone: Tone, reason: &str, note: &str) {
        self.send(job.object_ref(&()), "job-controller", tone, reason, note);
    }

    /// Records an event about a pod.
    pub(super) fn pod(&self, pod: &Pod, tone: Tone, reason: &str, note: &str) {
        self.send(pod.object_ref(&()), "kubelet", tone, reason, note);
    }

    fn send(&self, about: ObjectReference, part: &str, tone: Tone, reason: &str, note: &str) {
        let now = Timestamp::now();
        let name = about.name.clone().unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            action: Some(reason.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(note.chars().take(LONGEST_NOTE / 4).collect()),
            reason: Some(reason.to_owned()),
            regarding: Some(about),
            reporting_controller: Some(part.to_owned()),
            reporting_instance: Some(self.node.clone()),
            type_: Some(format!("{tone:?}")),
            ..Event::default()
        };
        if let Err(error) = self.sender.try_send(event) {
            tracing::debug!(%error, "cannot record an event");
        }
    }
}
