//! Runs: creating, reading, deciding, marking, deleting.

use ::kube::Api;
use ::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::job::{self, JobTemplate, NewRun};
use super::{Kube, KubeError, KubeErrorKind};
use crate::config::Permit;
use crate::domain::record;
use crate::domain::{
    Announcement, Decision, HostName, Kind, Mark, Outcome, Parameters, Run, RunDetails, Stop, Wait, run_name,
};

const PAGE: u32 = 100;
/// How often a list is begun anew whose moment left the API server's history between two pages. That history reaches back minutes.
const RESTARTS: usize = 3;

impl Kube {
    pub(super) fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// One run by its Job's name.
    ///
    /// # Errors
    /// When there is none, it cannot be read, or the API server does not answer.
    pub async fn run(&self, name: &str) -> Result<RunDetails, KubeError> {
        let job = self.limited(format!("read run {name}"), self.jobs().get(name)).await?;
        Ok(job::read(&job)?)
    }

    /// A run's Job as the API server has it.
    ///
    /// # Errors
    /// When there is none, it cannot be read, or the API server does not answer.
    pub async fn run_object(&self, name: &str) -> Result<serde_json::Value, KubeError> {
        let job = self.limited(format!("read run {name}"), self.jobs().get(name)).await?;
        serde_json::to_value(job).map_err(|error| {
            KubeError::new(KubeErrorKind::Failed, format!("read run {name}"), error.to_string())
        })
    }

    /// All runs, or those of one host, in pages. Jobs that carry our label but are no runs are logged and left out.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn runs(&self, host: Option<&HostName>) -> Result<Vec<Run>, KubeError> {
        self.list(host, |details| details.run).await
    }

    /// Like [`Kube::runs`], with everything that is written on each.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn run_details(&self, host: Option<&HostName>) -> Result<Vec<RunDetails>, KubeError> {
        self.list(host, |details| details).await
    }

    /// Lists page by page, and keeps of each run only what is wanted of it.
    async fn list<T>(
        &self,
        host: Option<&HostName>,
        keep: impl Fn(RunDetails) -> T,
    ) -> Result<Vec<T>, KubeError> {
        let mut selector = format!("{}={}", record::MANAGED_BY, record::MANAGER);
        if let Some(host) = host {
            selector.push_str(&format!(",{}={}", record::HOST_HASH, host.hash()));
        }
        let first = ListParams::default().labels(&selector).limit(PAGE);
        let mut page = first.clone();
        let mut runs = Vec::new();
        let mut restarts = 0;
        loop {
            let list = match self.limited("list runs", self.jobs().list(&page)).await {
                Err(error) if error.kind == KubeErrorKind::Expired && restarts < RESTARTS => {
                    restarts += 1;
                    runs.clear();
                    page = first.clone();
                    continue;
                }
                other => other?,
            };
            for item in &list.items {
                match job::read(item) {
                    // A hash is not a name: two hosts may share ten characters of one.
                    Ok(details) if host.is_none_or(|h| *h == details.run.host) => runs.push(keep(details)),
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, "left out"),
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(runs),
            }
        }
    }

    /// Creates a run.
    ///
    /// # Errors
    /// `AlreadyExists` when somebody else created the run of that number; that is how one of many hooks wins.
    pub async fn create_run(
        &self,
        _: &Permit,
        template: &JobTemplate,
        new: &NewRun<'_>,
    ) -> Result<RunDetails, KubeError> {
        let doing = format!("create run {}", run_name(new.kind, &new.announcement.host, new.number));
        let job = template
            .build(new, &self.namespace)
            .map_err(|e| KubeError::new(KubeErrorKind::Invalid, doing.clone(), e.to_string()))?;
        let job = self.limited(doing, self.jobs().create(&PostParams::default(), &job)).await?;
        Ok(job::read(&job)?)
    }

    /// Replaces the announcement of a pending run, provided that it is still as it was read.
    ///
    /// # Errors
    /// `Conflict` when it changed meanwhile.
    pub async fn replace_announcement(
        &self,
        _: &Permit,
        run: &Run,
        announcement: &Announcement,
        seen: Timestamp,
    ) -> Result<RunDetails, KubeError> {
        let patch = json!({"metadata": {"resourceVersion": run.resource_version, "annotations": {
            record::ANNOUNCEMENT: announcement.to_json(),
            record::DIGEST: announcement.digest(),
            record::SEEN: record::stamp(seen),
        }}});
        self.patch_run(&run.name, &patch, format!("record the announcement of {}", run.host)).await
    }

    /// Notes when the host of a run last called, and from which boot. It may not bring back a run that was deleted meanwhile.
    ///
    /// # Errors
    /// When the run is gone or the API server does not answer.
    pub async fn set_seen(
        &self,
        _: &Permit,
        run: &Run,
        seen: Timestamp,
        boot: Option<&str>,
    ) -> Result<RunDetails, KubeError> {
        let mut patch =
            json!({"metadata": {"uid": run.uid, "annotations": {record::SEEN: record::stamp(seen)}}});
        if let Some(boot) = boot {
            job::merge(&mut patch, json!({"metadata": {"annotations": {record::BOOT: boot}}}));
        }
        self.patch_run(&run.name, &patch, format!("note that {} called", run.host)).await
    }

    /// Approves a pending run, provided that it is still as it was read: one patch with decision, parameters and resume; with
    /// `waits`, it stays suspended until [`Kube::start_run`].
    ///
    /// # Errors
    /// `Conflict` when it changed meanwhile: read it again to see whether somebody decided.
    pub async fn approve_run(
        &self,
        _: &Permit,
        details: &RunDetails,
        decision: &Decision,
        parameters: &Parameters,
        waits: Option<&Wait>,
    ) -> Result<RunDetails, KubeError> {
        let mut patch = job::decision_patch(decision, parameters, &details.announcement, waits);
        job::merge(&mut patch, json!({"metadata": {"resourceVersion": details.run.resource_version}}));
        // Without a queue of its own the run has no message: its details ride in the Job.
        if !details.run.queue {
            job::merge(&mut patch, job::delivered_patch(decision.at));
        }
        self.patch_run(&details.run.name, &patch, format!("approve {}", details.run.host)).await
    }

    /// Starts a run that waits for its place, provided that it is still as it was read.
    ///
    /// # Errors
    /// `Conflict` when it changed meanwhile.
    pub async fn start_run(&self, _: &Permit, run: &Run) -> Result<RunDetails, KubeError> {
        let patch = json!({
            "metadata": {"resourceVersion": run.resource_version, "labels": {record::HELD: null}},
            "spec": {"suspend": false},
        });
        self.patch_run(&run.name, &patch, format!("start run {}", run.name)).await
    }

    /// Rejects a run that has not started, provided that it is still as it was read.
    ///
    /// # Errors
    /// `Conflict` when it changed meanwhile.
    pub async fn reject_run(
        &self,
        _: &Permit,
        run: &Run,
        decision: &Decision,
    ) -> Result<RunDetails, KubeError> {
        let patch = json!({"metadata": {
            "resourceVersion": run.resource_version,
            "labels": {record::HELD: "rejected"},
            "annotations": {
                record::DECISION: decision.verdict.as_str(),
                record::DECIDED_BY: decision.by,
                record::DECIDED_AT: record::stamp(decision.at),
            },
        }});
        self.patch_run(&run.name, &patch, format!("reject {}", run.host)).await
    }

    /// Suspends a run that goes on, for good: its pod is ended.
    ///
    /// # Errors
    /// `Conflict` when it changed meanwhile.
    pub async fn stop_run(&self, _: &Permit, run: &Run, stop: &Stop) -> Result<RunDetails, KubeError> {
        let stop = serde_json::to_string(stop).map_err(|e| not_json("stop", &run.name, &e))?;
        let patch = json!({
            "metadata": {
                "resourceVersion": run.resource_version,
                "labels": {record::HELD: "stopped"},
                "annotations": {record::STOP: stop},
            },
            "spec": {"suspend": true},
        });
        self.patch_run(&run.name, &patch, format!("stop run {}", run.name)).await
    }

    /// Leaves a mark on a run, provided that it is still as it was read: `key` is [`record::RETRY`] or [`record::CHECK`].
    ///
    /// # Errors
    /// `Conflict` when it changed meanwhile.
    pub async fn mark_run(
        &self,
        _: &Permit,
        run: &Run,
        key: &str,
        mark: &Mark,
    ) -> Result<RunDetails, KubeError> {
        let text = serde_json::to_string(mark).map_err(|e| not_json("mark", &run.name, &e))?;
        let patch =
            json!({"metadata": {"resourceVersion": run.resource_version, "annotations": {key: text}}});
        self.patch_run(&run.name, &patch, format!("mark run {}", run.name)).await
    }

    /// Notes that the broker confirmed the run's message.
    ///
    /// # Errors
    /// When the run is gone or the API server does not answer.
    pub async fn set_delivered(&self, _: &Permit, run: &Run, at: Timestamp) -> Result<RunDetails, KubeError> {
        let mut patch = job::delivered_patch(at);
        let clean = json!({"metadata": {"uid": run.uid, "annotations": {record::DELIVERY_PROBLEM: null}}});
        job::merge(&mut patch, clean);
        self.patch_run(&run.name, &patch, format!("mark run {} delivered", run.name)).await
    }

    /// Notes why the run's message is not with the broker yet.
    ///
    /// # Errors
    /// When the run is gone or the API server does not answer.
    pub async fn set_delivery_problem(
        &self,
        _: &Permit,
        run: &Run,
        problem: &str,
    ) -> Result<RunDetails, KubeError> {
        let patch = json!({"metadata": {"uid": run.uid, "annotations": {record::DELIVERY_PROBLEM: problem}}});
        self.patch_run(&run.name, &patch, format!("note on run {} why it is not delivered", run.name)).await
    }

    /// Writes how the run ended, and which playbooks ARA recorded. The UID is compared: a name can come back.
    ///
    /// # Errors
    /// When the run is gone or the API server does not answer.
    pub async fn set_outcome(
        &self,
        _: &Permit,
        name: &str,
        uid: &str,
        outcome: Option<&Outcome>,
        playbooks: &[u64],
    ) -> Result<RunDetails, KubeError> {
        let ids: Vec<String> = playbooks.iter().map(u64::to_string).collect();
        let mut annotations = serde_json::Map::new();
        if let Some(outcome) = outcome {
            let text =
                serde_json::to_string(outcome).map_err(|e| not_json("write the outcome on", name, &e))?;
            annotations.insert(record::OUTCOME.to_owned(), json!(text));
        }
        if !ids.is_empty() {
            annotations.insert(record::PLAYBOOKS.to_owned(), json!(ids.join(",")));
        }
        let patch = json!({"metadata": {"uid": uid, "annotations": annotations}});
        self.patch_run(name, &patch, format!("write the outcome on run {name}")).await
    }

    /// Deletes a run and its pods.
    ///
    /// # Errors
    /// `Conflict` when the name belongs to another run by now.
    pub async fn delete_run(&self, _: &Permit, run: &Run) -> Result<(), KubeError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(run.uid.clone()), resource_version: None }),
            ..DeleteParams::background()
        };
        self.limited(format!("delete run {}", run.name), self.jobs().delete(&run.name, &params)).await?;
        Ok(())
    }

    /// Takes our finalizer off a run whose queue is gone. Another run that has the name by now keeps its own.
    ///
    /// # Errors
    /// `Conflict` when somebody else changed the finalizers meanwhile.
    pub async fn release_run(&self, _: &Permit, name: &str, uid: &str) -> Result<(), KubeError> {
        let doing = format!("release run {name}");
        let job = match self.limited(doing.clone(), self.jobs().get(name)).await {
            Err(error) if error.kind == KubeErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let finalizers = job.metadata.finalizers.clone().unwrap_or_default();
        if job.metadata.uid.as_deref() != Some(uid)
            || !finalizers.iter().any(|f| f == record::QUEUE_FINALIZER)
        {
            return Ok(());
        }
        let rest: Vec<_> = finalizers.into_iter().filter(|f| f != record::QUEUE_FINALIZER).collect();
        let patch =
            json!({"metadata": {"resourceVersion": job.metadata.resource_version, "finalizers": rest}});
        self.limited(doing, self.jobs().patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await?;
        Ok(())
    }

    /// The numbers that a host's runs of one kind have taken.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn next_number(&self, kind: Kind, host: &HostName) -> Result<u32, KubeError> {
        let runs = self.runs(Some(host)).await?;
        Ok(runs.iter().filter(|r| r.kind == kind).map(|r| r.number).max().unwrap_or(0) + 1)
    }

    async fn patch_run(&self, name: &str, patch: &Value, doing: String) -> Result<RunDetails, KubeError> {
        let job = self
            .limited(doing, self.jobs().patch(name, &PatchParams::default(), &Patch::Merge(patch)))
            .await?;
        Ok(job::read(&job)?)
    }
}

/// An empty annotation would make the Job no run at all: what cannot be written is not.
fn not_json(deed: &str, run: &str, error: &serde_json::Error) -> KubeError {
    KubeError::new(KubeErrorKind::Failed, format!("{deed} run {run}"), error.to_string())
}
