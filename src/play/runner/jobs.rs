//! One Job, brought one step further: read it and its pods, decide, write the status, act.
//!
//! Called by `run.rs`, once at a time for each Job. It reads afresh each time, so a decision never rests on an old view, and the
//! status is written under the version that was read: when the Job has changed, nothing is done and it comes up again.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;

use super::controller::{self, Action, Backoff, Decision, Which};
use super::events::{Recorder, Tone};
use super::{LONGEST_BACKOFF, MANAGED_BY, Options, patch, pods};

/// Who the writes are by.
pub(super) const FIELD_MANAGER: &str = "hostwright-job-runner";

/// Why a step failed. The Job comes up again.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// The API server refused or could not be reached.
    #[error("cannot {deed} of Job {job}: {source}")]
    Api {
        /// What was being done.
        deed: &'static str,
        /// The Job.
        job: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// A status could not be written down.
    #[error("cannot write the status of Job {job}: {source}")]
    Status {
        /// The Job.
        job: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// No randomness for a pod's name.
    #[error("cannot name a pod of Job {job}: {source}")]
    Name {
        /// The Job.
        job: String,
        /// What the system said.
        source: getrandom::Error,
    },
}

impl StepError {
    /// Whether somebody else was quicker: nothing is wrong.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(&**source, kube::Error::Api(s) if s.code == 409))
    }
}

/// What a step needs.
#[derive(Clone)]
pub(super) struct Jobs {
    jobs: Api<Job>,
    pods: Api<Pod>,
    options: Arc<Options>,
    recorder: Recorder,
}

impl Jobs {
    /// For the Jobs of the options' namespace.
    pub(super) fn new(client: &Client, options: &Arc<Options>, recorder: Recorder) -> Self {
        Self {
            jobs: Api::namespaced(client.clone(), &options.namespace),
            pods: Api::namespaced(client.clone(), &options.namespace),
            options: Arc::clone(options),
            recorder,
        }
    }

    /// Brings the Job of this name one step further; with `closing` it starts nothing. Returns when it is due again of itself.
    pub(super) async fn step(&self, name: &str, closing: bool) -> Result<Option<Timestamp>, StepError> {
        // Pods first: a Job that a pod names and that is not there afterwards is gone for good.
        let selector = ListParams::default().labels(&format!("{}={name}", pods::JOB_NAME));
        let all = self.pods.list(&selector).await.map_err(failed("list the pods", name))?.items;
        let job = self.jobs.get_opt(name).await.map_err(failed("read the object", name))?;
        let uid = job.as_ref().and_then(|j| j.metadata.uid.as_deref());
        let (free, all): (Vec<Pod>, Vec<Pod>) = all.into_iter().partition(|p| !pods::is_owned(p));
        for pod in free.iter().filter(|p| pods::is_on_node(p, &self.options.node) && pods::is_tracked(p)) {
            self.release(name, &Which::of(pod)).await?;
        }
        let (own, others): (Vec<Pod>, Vec<Pod>) = all
            .into_iter()
            .filter(|p| pods::owner(p).is_some_and(|(job, _)| job == name))
            .partition(|p| pods::owner(p).map(|(_, owner)| owner) == uid);
        self.end_strays(name, &others).await?;
        let Some(job) = job.filter(is_ours) else { return Ok(None) };
        let backoff = Backoff { base: self.options.backoff, most: LONGEST_BACKOFF };
        let decision = controller::decide(&job, &own, Timestamp::now(), backoff, closing);
        self.carry_out(name, &job, decision).await
    }

    /// Ends the pods on our node whose Job is gone, also those of a runner that is gone too.
    async fn end_strays(&self, name: &str, others: &[Pod]) -> Result<(), StepError> {
        for pod in others.iter().filter(|p| pods::is_on_node(p, &self.options.node)) {
            let which = Which::of(pod);
            if pod.metadata.deletion_timestamp.is_none() {
                // Under the version that was read: a pod may have been set free before its Job went.
                let mut params = exactly(&which.uid);
                if let Some(conditions) = &mut params.preconditions {
                    conditions.resource_version.clone_from(&pod.metadata.resource_version);
                }
                let ended = self.pods.delete(&which.name, &params).await.map(|_| ());
                unless_gone(ended).map_err(failed("delete a pod left", name))?;
            }
            if pods::is_tracked(pod) {
                self.release(name, &which).await?;
            }
        }
        Ok(())
    }

    async fn carry_out(
        &self,
        name: &str,
        job: &Job,
        decision: Decision,
    ) -> Result<Option<Timestamp>, StepError> {
        if let Some(status) = &decision.status {
            let version = job.metadata.resource_version.as_deref();
            let change = patch::status(job.status.as_ref(), status, version)
                .map_err(|source| StepError::Status { job: name.to_owned(), source })?;
            if let Some(change) = change {
                let params =
                    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
                self.jobs
                    .patch_status(name, &params, &Patch::Merge(&change))
                    .await
                    .map_err(failed("write the status", name))?;
                self.tell(job, status);
            }
        }
        for action in &decision.actions {
            self.act(name, Some(job), action).await?;
        }
        Ok(decision.again)
    }

    async fn act(&self, name: &str, job: Option<&Job>, action: &Action) -> Result<(), StepError> {
        match action {
            Action::Release(which) => self.release(name, which).await,
            Action::End(which) => {
                let ended = self.pods.delete(&which.name, &exactly(&which.uid)).await.map(|_| ());
                if unless_gone(ended).map_err(failed("delete a pod", name))? {
                    self.tell_job(
                        job,
                        Tone::Normal,
                        "SuccessfulDelete",
                        &format!("Deleted pod: {}", which.name),
                    );
                }
                Ok(())
            }
            Action::Start => match job {
                Some(job) => self.start(name, job).await,
                None => Ok(()),
            },
            Action::Expire => {
                let uid = job.and_then(|j| j.metadata.uid.clone()).unwrap_or_default();
                let params =
                    DeleteParams { preconditions: exactly(&uid).preconditions, ..DeleteParams::background() };
                let deleted = self.jobs.delete(name, &params).await.map(|_| ());
                unless_gone(deleted).map(|_| ()).map_err(failed("delete the object", name))
            }
        }
    }

    /// Takes our finalizer off a pod, leaving others' as they are.
    async fn release(&self, name: &str, which: &Which) -> Result<(), StepError> {
        let pod = self.pods.get_opt(&which.name).await.map_err(failed("read a pod", name))?;
        let Some(pod) = pod.filter(|p| pods::uid(p) == which.uid && pods::is_tracked(p)) else {
            return Ok(());
        };
        let rest: Vec<&String> =
            pod.metadata.finalizers.iter().flatten().filter(|f| *f != pods::TRACKING).collect();
        let rest = if rest.is_empty() { serde_json::Value::Null } else { json!(rest) };
        let change = json!({"metadata": {
            "uid": which.uid, "resourceVersion": pod.metadata.resource_version, "finalizers": rest,
        }});
        let released =
            self.pods.patch(&which.name, &PatchParams::default(), &Patch::Merge(change)).await.map(|_| ());
        unless_gone(released).map(|_| ()).map_err(failed("release a pod", name))
    }

    async fn start(&self, name: &str, job: &Job) -> Result<(), StepError> {
        let mut random = [0u8; 5];
        getrandom::fill(&mut random).map_err(|source| StepError::Name { job: name.to_owned(), source })?;
        let Some(pod) = pods::from_template(job, &self.options.node, &pods::suffix(random)) else {
            return Ok(());
        };
        match self.pods.create(&PostParams::default(), &pod).await {
            Ok(pod) => {
                let note = format!("Created pod: {}", pods::name(&pod));
                self.tell_job(Some(job), Tone::Normal, "SuccessfulCreate", &note);
                Ok(())
            }
            Err(error) => {
                self.tell_job(Some(job), Tone::Warning, "FailedCreate", &format!("Error creating: {error}"));
                Err(failed("create a pod", name)(error))
            }
        }
    }

    /// Tells what has become true with this status.
    fn tell(&self, job: &Job, status: &JobStatus) {
        let known: Vec<&JobCondition> =
            job.status.iter().flat_map(|s| s.conditions.iter().flatten()).collect();
        for c in status.conditions.iter().flatten() {
            if known.iter().any(|k| k.type_ == c.type_ && k.status == c.status) {
                continue;
            }
            let message = c.message.as_deref().unwrap_or_default();
            let reason = c.reason.as_deref().unwrap_or_default();
            match (c.type_.as_str(), c.status.as_str()) {
                ("Failed", "True") => self.tell_job(Some(job), Tone::Warning, reason, message),
                ("Complete", "True") => self.tell_job(Some(job), Tone::Normal, "Completed", "Job completed"),
                ("Suspended", "True") => self.tell_job(Some(job), Tone::Normal, "Suspended", message),
                ("Suspended", _) => self.tell_job(Some(job), Tone::Normal, "Resumed", message),
                _ => {}
            }
        }
    }

    fn tell_job(&self, job: Option<&Job>, tone: Tone, reason: &str, note: &str) {
        if let Some(job) = job {
            self.recorder.job(job, tone, reason, note);
        }
    }
}

/// Whether this runner runs the Job.
pub(super) fn is_ours(job: &Job) -> bool {
    let (key, value) = MANAGED_BY;
    job.metadata.labels.as_ref().and_then(|l| l.get(key)).is_some_and(|v| v == value)
}

/// A deletion of this very object, not of a namesake.
pub(super) fn exactly(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    }
}

/// Whether it was there: that it is gone is what was wanted.
pub(super) fn unless_gone(result: kube::Result<()>) -> kube::Result<bool> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        other => other.map(|()| true),
    }
}

fn failed(deed: &'static str, job: &str) -> impl FnOnce(kube::Error) -> StepError {
    let job = job.to_owned();
    move |source| StepError::Api { deed, job, source: Box::new(source) }
}
