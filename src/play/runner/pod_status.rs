//! The status of a pod as a kubelet writes it, at each step from pending to its end.
//!
//! Pure; called by `worker.rs`, which reads the pod before and writes the result. Conditions that others set stay.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::controller::whole_seconds;
use super::env::POD_ADDRESS;

/// A step in the life of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Its container waits, for this reason.
    Waiting {
        /// One word, such as `ContainerCreating`.
        reason: &'static str,
        /// More words, if there are any.
        message: Option<String>,
    },
    /// Its container's process runs.
    Running {
        /// Since when.
        started: Timestamp,
        /// The process id.
        pid: Option<u32>,
    },
    /// Its container has ended.
    Ended(End),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// The exit code; 128 + signal when a signal brought it about.
    pub(super) code: i32,
    /// One word, such as `Completed` or `Error`.
    pub(super) reason: &'static str,
    /// What it left to say.
    pub(super) message: Option<String>,
    /// When it started, if it did.
    pub(super) started: Option<Timestamp>,
    /// When it ended.
    pub(super) finished: Timestamp,
    /// Why the pod was ended though its container would have gone on.
    pub(super) disruption: Option<Disruption>,
}

/// Why a pod ended through no fault of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disruption {
    /// The pod's reason.
    pub(super) reason: &'static str,
    /// The reason in the condition `DisruptionTarget`.
    pub(super) cause: &'static str,
    /// In words.
    pub(super) message: &'static str,
}

/// An earlier runner ended without seeing the pod's end.
pub(super) const LOST: Disruption =
    Disruption { reason: "NodeLost", cause: "NodeLost", message: "the playground was restarted" };
/// This runner is told to stop.
pub(super) const STOPPED: Disruption =
    Disruption { reason: "Terminated", cause: "TerminationByKubelet", message: "the playground was stopped" };

/// The pod's status after `step`.
pub(super) fn after(pod: &Pod, step: &Step, now: Timestamp) -> PodStatus {
    let mut status = pod.status.clone().unwrap_or_default();
    let now = Time(whole_seconds(now));
    status.start_time.get_or_insert(now.clone());
    status.host_ip = Some(POD_ADDRESS.to_owned());
    status.host_ips = Some(vec![HostIP { ip: POD_ADDRESS.to_owned() }]);
    status.pod_ip = Some(POD_ADDRESS.to_owned());
    status.pod_ips = Some(vec![PodIP { ip: POD_ADDRESS.to_owned() }]);
    status.phase = Some(phase(step).to_owned());
    if let Some(disruption) = disruption(step) {
        status.reason = Some(disruption.reason.to_owned());
        status.message = Some(disruption.message.to_owned());
    }
    set_conditions(&mut status, step, &now);
    if let Some(container) = pod.spec.as_ref().and_then(|s| s.containers.first()) {
        let known = status.container_statuses.take().unwrap_or_default().into_iter().next();
        let known_id = known.and_then(|c| c.container_id);
        let running = matches!(step, Step::Running { .. });
        status.container_statuses = Some(vec![ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            ready: running,
            started: Some(running),
            container_id: container_id(step).or(known_id),
            state: Some(state(step)),
            ..ContainerStatus::default()
        }]);
    }
    status
}

fn phase(step: &Step) -> &'static str {
    match step {
        Step::Waiting { .. } => "Pending",
        Step::Running { .. } => "Running",
        Step::Ended(end) if end.code == 0 => "Succeeded",
        Step::Ended(_) => "Failed",
    }
}

fn disruption(step: &Step) -> Option<Disruption> {
    match step {
        Step::Ended(end) if end.code != 0 => end.disruption,
        _ => None,
    }
}

fn container_id(step: &Step) -> Option<String> {
    match step {
        Step::Running { pid, .. } => pid.map(|p| format!("process://{p}")),
        _ => None,
    }
}

fn state(step: &Step) -> ContainerState {
    let time = |t: Timestamp| Time(whole_seconds(t));
    match step {
        Step::Waiting { reason, message } => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some((*reason).to_owned()),
                message: message.clone(),
            }),
            ..ContainerState::default()
        },
        Step::Running { started, .. } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(time(*started)) }),
            ..ContainerState::default()
        },
        Step::Ended(end) => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: end.code,
                reason: Some(end.reason.to_owned()),
                message: end.message.clone(),
                started_at: end.started.map(time),
                finished_at: Some(time(end.finished)),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        },
    }
}

fn set_conditions(status: &mut PodStatus, step: &Step, now: &Time) {
    let unready = match phase(step) {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        "Running" => None,
        _ => Some("ContainersNotReady"),
    };
    let initialized = (phase(step) == "Succeeded").then_some("PodCompleted");
    set(status, "PodScheduled", true, None, None, now);
    set(status, "Initialized", true, initialized, None, now);
    set(status, "ContainersReady", unready.is_none(), unready, None, now);
    set(status, "Ready", unready.is_none(), unready, None, now);
    if let Some(d) = disruption(step) {
        set(status, "DisruptionTarget", true, Some(d.cause), Some(d.message), now);
    }
}

fn set(
    status: &mut PodStatus,
    kind: &str,
    holds: bool,
    reason: Option<&str>,
    message: Option<&str>,
    now: &Time,
) {
    let state = if holds { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter_mut().find(|c| c.type_ == kind);
    let (reason, message) = (reason.map(str::to_owned), message.map(str::to_owned));
    match known {
        Some(condition) => {
            if condition.status != state {
                condition.last_transition_time = Some(now.clone());
            }
            state.clone_into(&mut condition.status);
            (condition.reason, condition.message) = (reason, message);
        }
        None => conditions.push(PodCondition {
            type_: kind.to_owned(),
            status: state.to_owned(),
            reason,
            message,
            last_transition_time: Some(now.clone()),
            ..PodCondition::default()
        }),
    }
}
