//! Pods of a Job: what one of them says about itself, and how a new one is made from the Job's template.
//!
//! Pure: called by the controller's and the kubelet's part alike. It must not look at the clock nor speak to the API.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The finalizer that keeps a finished pod until the Job's counters hold it.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The label that names the pod's Job.
pub(super) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The label with the UID of the pod's Job.
pub(super) const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// The longest prefix that the API server keeps in front of the five random characters.
const LONGEST_PREFIX: usize = 57;
/// Letters and digits that spell no words, as Kubernetes draws its suffixes.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Where a pod stands, as the controller counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not finished, nobody asked for its end.
    Active,
    /// Not finished, its end was asked for.
    Terminating,
    /// Finished with exit code 0.
    Succeeded,
    /// Finished otherwise.
    Failed,
}

/// Where `pod` stands.
pub(super) fn standing(pod: &Pod) -> Standing {
    match phase(pod) {
        "Succeeded" => Standing::Succeeded,
        "Failed" => Standing::Failed,
        _ if pod.metadata.deletion_timestamp.is_some() => Standing::Terminating,
        _ => Standing::Active,
    }
}

/// The pod's phase, `Pending` when nobody wrote one yet.
pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending")
}

/// Whether the pod has finished.
pub(super) fn is_terminal(pod: &Pod) -> bool {
    matches!(standing(pod), Standing::Succeeded | Standing::Failed)
}

/// Whether the pod's condition `Ready` is true.
pub(super) fn is_ready(pod: &Pod) -> bool {
    pod.status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Whether the controller has still to count this pod.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|f| f == TRACKING)
}

/// The pod's UID; empty for an object that never was in an API server.
pub(super) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// The pod's name.
pub(super) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// Name and UID of the Job that controls this pod.
pub(super) fn owner(pod: &Pod) -> Option<(&str, &str)> {
    pod.metadata
        .owner_references
        .iter()
        .flatten()
        .find(|o| o.controller == Some(true) && o.kind == "Job")
        .map(|o| (o.name.as_str(), o.uid.as_str()))
}

/// The Job that the pod was made for, whether or not it still belongs to it.
pub(super) fn job_label(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(JOB_NAME).map(String::as_str)
}

/// Whether any controller owns this pod.
pub(super) fn is_owned(pod: &Pod) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|o| o.controller == Some(true))
}

/// Whether the pod is bound to this node.
pub(super) fn is_on_node(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node)
}

/// How the containers of the pod ended, with their names, those that set up first.
pub(super) fn ends(pod: &Pod) -> impl Iterator<Item = (&str, &ContainerStateTerminated)> {
    pod.status
        .iter()
        .flat_map(|s| s.init_container_statuses.iter().flatten().chain(s.container_statuses.iter().flatten()))
        .filter_map(|c| Some((c.name.as_str(), c.state.as_ref()?.terminated.as_ref()?)))
}

/// When the pod finished: its last container's end, or else the last thing known of it.
pub(super) fn finished_at(pod: &Pod) -> Option<Timestamp> {
    let ended = ends(pod).filter_map(|(_, end)| end.finished_at.as_ref()).map(|t| t.0).max();
    let unready = || {
        pod.status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten())
            .filter(|c| c.type_ == "Ready")
            .find_map(|c| c.last_transition_time.as_ref().map(|t| t.0))
    };
    let known = || {
        let meta = &pod.metadata;
        meta.deletion_timestamp.as_ref().or(meta.creation_timestamp.as_ref()).map(|t| t.0)
    };
    ended.or_else(unready).or_else(known)
}

/// The pod's grace period in seconds; Kubernetes' default is 30.
pub(super) fn grace_seconds(pod: &Pod) -> u64 {
    let asked = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
    asked.and_then(|g| u64::try_from(g).ok()).unwrap_or(30)
}

/// Five characters for a pod's name, out of five random bytes.
pub(super) fn suffix(random: [u8; 5]) -> String {
    random
        .iter()
        .filter_map(|b| SUFFIX_ALPHABET.get(usize::from(*b) % SUFFIX_ALPHABET.len()))
        .map(|b| char::from(*b))
        .collect()
}

/// A pod for `job`, bound to `node`, its name ended by `suffix`.
///
/// `None` for a Job that lacks what every stored Job has: name, UID and specification.
pub(super) fn from_template(job: &Job, node: &str, suffix: &str) -> Option<Pod> {
    let (job_name, job_uid) = (job.metadata.name.as_deref()?, job.metadata.uid.as_deref()?);
    let template = &job.spec.as_ref()?.template;
    let meta = template.metadata.clone().unwrap_or_default();
    let mut labels = meta.labels.unwrap_or_default();
    for (key, value) in
        [(CONTROLLER_UID, job_uid), (JOB_NAME, job_name), ("controller-uid", job_uid), ("job-name", job_name)]
    {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let mut finalizers = meta.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|f| f == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    let prefix: String = job_name.chars().take(LONGEST_PREFIX).collect();
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.node_name = Some(node.to_owned());
    spec.restart_policy.get_or_insert_with(|| "Never".to_owned());
    Some(Pod {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{suffix}")),
            generate_name: Some(format!("{prefix}-")),
            namespace: job.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: meta.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![OwnerReference {
                api_version: "batch/v1".to_owned(),
                kind: "Job".to_owned(),
                name: job_name.to_owned(),
                uid: job_uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    })
}

/// The pod's specification, or an empty one.
pub(super) fn spec(pod: &Pod) -> PodSpec {
    pod.spec.clone().unwrap_or_default()
}

/// Labels or annotations, or an empty map.
pub(super) fn map(entries: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    entries.cloned().unwrap_or_default()
}
