//! The Job runner: what a cluster's Job controller and a node's kubelet do for Jobs, done on this machine.
//!
//! The playground calls [`run`]. It is a client of a Kubernetes API like any other, the loopback one or a real one: it watches the
//! Jobs of one namespace that carry [`MANAGED_BY`], gives each that may run a pod, and runs the pod's container as a child process.
//!
//! | file | part |
//! | --- | --- |
//! | `controller.rs`, `tally.rs`, `failure.rs`, `conditions.rs` | the Job controller's decisions; pure |
//! | `pods.rs`, `pod_status.rs`, `env.rs`, `expand.rs` | what pods say, are made of and are given; pure |
//! | `jobs.rs`, `queue.rs` | reads a Job and its pods, decides, writes, acts; which Job is next |
//! | `kubelet.rs`, `worker.rs` | one worker for each pod: from pending to its end |
//! | `launch.rs`, `sources.rs`, `volumes.rs`, `process.rs`, `log.rs` | what a container is started with, its process, its log |
//! | `run.rs` | the loop over watches, Jobs and pods |
//!
//! It must not know what a run is: it knows Jobs and pods only. What it does not do, it refuses with a message on the Job or the
//! pod: `Indexed` Jobs, `OnFailure`, several containers in a pod, images (the container's command is a program of this machine),
//! volumes other than `emptyDir`, `configMap`, `secret` and `downwardAPI`.

mod conditions;
mod controller;
#[cfg(test)]
mod controller_tests;
mod env;
mod events;
mod expand;
mod failure;
mod jobs;
mod kubelet;
mod launch;
mod log;
mod patch;
mod pod_status;
mod pods;
mod process;
mod queue;
mod run;
mod sources;
mod tally;
mod volumes;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

pub use run::run;

/// The label that a Job must carry, as key and value, for this runner to take it.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "hostwright");

/// The longest wait between two attempts of a Job, as in Kubernetes.
const LONGEST_BACKOFF: Duration = Duration::from_secs(6 * 60);

/// What the runner needs to know of its machine.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespace whose Jobs are run.
    pub namespace: String,
    /// Where logs go: `<logs>/<pod UID>/<container>.log`, each line led by its time. Removed with the pod.
    pub logs: PathBuf,
    /// A folder of this runner alone: each pod gets a folder in it, private and gone with the pod.
    pub work: PathBuf,
    /// The program that a container's command `hostwright` stands for, also when a container has no command (its image's own).
    /// Its whole path, too. Other commands are looked up in the container's `PATH`.
    pub program: PathBuf,
    /// What holds a container so that it ends with the runner: a program (its whole path) and its first arguments, which `--grace SECONDS -- PROGRAM
    /// ARGS…` is added to; for example `hostwright leash`. Empty: containers are started directly.
    pub leash: Vec<String>,
    /// Variables given to every container, over its own: what is where on this machine (`KUBECONFIG`, `HOSTWRIGHT_CONFIG` …) is
    /// not what it is in an image. They are not expanded in commands.
    pub env: Vec<(String, String)>,
    /// The name of the node that the pods are bound to.
    pub node: String,
    /// How long a Job waits after its first failure; twice that after the second, at most six minutes. Kubernetes: 10 s.
    pub backoff: Duration,
    /// How long containers get to end when the runner is told to stop, even if their own grace period is longer.
    pub stop_within: Duration,
}

/// Why the runner could not run. Nothing that goes wrong with one Job or with the API server ends it: that is retried.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A folder could not be prepared.
    #[error("cannot run Jobs: cannot prepare the folder {folder}: {source}", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A watch ended for good, which it never should.
    #[error("cannot run Jobs: the watch on {0} ended")]
    WatchEnded(&'static str),
}
