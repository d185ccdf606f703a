//! Jobs: how a run becomes one, how one is read as a run, and what an attempt notes on it.

use std::collections::BTreeMap;

use ::kube::api::{Patch, PatchParams};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Map, Value, json};

use super::{Kube, KubeError, KubeErrorKind};
use crate::config::{JobSettings, Permit};
use crate::domain::record::{self, JobRecord};
use crate::domain::{
    Announcement, Decision, HostName, JobState, Kind, Outcome, Parameters, RecordError, RunDetails, Wait,
    run_name,
};

/// A Job manifest that every run starts from.
#[derive(Debug, Clone)]
pub struct JobTemplate(Value);

/// Why a manifest is no Job template.
#[derive(Debug, thiserror::Error)]
#[error("the Job template {0}")]
pub struct TemplateError(String);

/// A run that is to be created.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    /// What it is for.
    pub kind: Kind,
    /// The number among the host's runs of this kind.
    pub number: u32,
    /// What the host said.
    pub announcement: &'a Announcement,
    /// When the host last called.
    pub seen: Timestamp,
    /// A run that needs no further decision starts at once.
    pub decided: Option<(&'a Decision, &'a Parameters)>,
    /// It starts only once it has a place.
    pub waits: Option<&'a Wait>,
    /// The mark that it answers.
    pub answers: Option<String>,
    /// The run's message travels over the broker: its queue is deleted before the Job goes.
    pub queue: bool,
}

impl JobTemplate {
    /// Reads a manifest and fills in the settings.
    ///
    /// # Errors
    /// When it is not YAML, not a `batch/v1` Job, or has no container.
    pub fn parse(yaml: &str, settings: &JobSettings) -> Result<Self, TemplateError> {
        let mut job: Value =
            serde_saphyr::from_str(yaml).map_err(|e| TemplateError(format!("is not YAML: {e}")))?;
        if job.get("apiVersion") != Some(&json!("batch/v1")) || job.get("kind") != Some(&json!("Job")) {
            return Err(TemplateError("is not a batch/v1 Job".to_owned()));
        }
        let pod = job.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut);
        let pod = pod.ok_or_else(|| TemplateError("has no pod template".to_owned()))?;
        pod.insert("terminationGracePeriodSeconds".to_owned(), json!(settings.grace.as_secs()));
        if let Some(account) = &settings.service_account {
            pod.insert("serviceAccountName".to_owned(), json!(account));
        }
        let container = pod.get_mut("containers").and_then(Value::as_array_mut).and_then(|c| c.first_mut());
        let container = container
            .and_then(Value::as_object_mut)
            .ok_or_else(|| TemplateError("has no container".to_owned()))?;
        if settings.template.is_none() || !container.contains_key("image") {
            container.insert("image".to_owned(), json!(settings.image));
        }
        let spec = job.get_mut("spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec {
            spec.insert("backoffLimit".to_owned(), json!(settings.backoff_limit));
            spec.insert("activeDeadlineSeconds".to_owned(), json!(settings.deadline.as_secs()));
        }
        let template = Self(job);
        template.to_job(template.0.clone())?;
        Ok(template)
    }

    /// Tells the container which environment it works in, unless the template says so itself.
    #[must_use]
    pub fn for_environment(mut self, name: &str) -> Self {
        let container = self.0.pointer_mut("/spec/template/spec/containers/0").and_then(Value::as_object_mut);
        if let Some(container) = container {
            let env = container.entry("env").or_insert_with(|| json!([]));
            if let Some(env) = env
                .as_array_mut()
                .filter(|env| env.iter().all(|e| e.get("name") != Some(&json!("HOSTWRIGHT_ENV"))))
            {
                env.push(json!({"name": "HOSTWRIGHT_ENV", "value": name}));
            }
        }
        self
    }

    /// The Job of a new run.
    pub(super) fn build(&self, new: &NewRun<'_>, namespace: &str) -> Result<Job, TemplateError> {
        let mut job = self.0.clone();
        let host = &new.announcement.host;
        merge(
            &mut job,
            json!({
                "metadata": {
                    "name": run_name(new.kind, host, new.number),
                    "namespace": namespace,
                    "labels": labels(new.kind, host),
                    "annotations": {
                        record::HOST: host.as_str(),
                        record::NUMBER: new.number.to_string(),
                        record::ANNOUNCEMENT: new.announcement.to_json(),
                        record::DIGEST: new.announcement.digest(),
                        record::SEEN: record::stamp(new.seen),
                    },
                },
                "spec": {"suspend": true, "template": {"metadata": {"labels": labels(new.kind, host)}}},
            }),
        );
        if let Some(answers) = &new.answers {
            merge(&mut job, json!({"metadata": {"annotations": {record::ANSWERS: answers}}}));
        }
        if new.queue {
            merge(&mut job, json!({"metadata": {"finalizers": [record::QUEUE_FINALIZER]}}));
        }
        if let Some((decision, parameters)) = new.decided {
            merge(&mut job, decision_patch(decision, parameters, new.announcement, new.waits));
            if !new.queue {
                merge(&mut job, delivered_patch(decision.at));
            }
        }
        self.to_job(job)
    }

    #[allow(clippy::unused_self)]
    fn to_job(&self, job: Value) -> Result<Job, TemplateError> {
        serde_json::from_value(job).map_err(|e| TemplateError(format!("is not a valid Job: {e}")))
    }
}

fn labels(kind: Kind, host: &HostName) -> Value {
    json!({record::MANAGED_BY: record::MANAGER, record::KIND: kind.as_str(), record::HOST_HASH: host.hash()})
}

/// The change that approves a run: the decision on the Job, and what `provision` needs on the pod template, which is frozen
/// once the Job is no longer suspended. A run that waits for a place stays suspended, under a label.
pub(super) fn decision_patch(
    decision: &Decision,
    parameters: &Parameters,
    announcement: &Announcement,
    waits: Option<&Wait>,
) -> Value {
    let parameters = serde_json::to_string(parameters).unwrap_or_default();
    let mut patch = json!({
        "metadata": {"annotations": {
            record::DECISION: decision.verdict.as_str(),
            record::DECIDED_BY: decision.by,
            record::DECIDED_AT: record::stamp(decision.at),
            record::PARAMETERS: parameters,
        }},
        "spec": {
            "suspend": waits.is_some(),
            "template": {"metadata": {"annotations": {
                record::HOST: announcement.host.as_str(),
                record::ANNOUNCEMENT: announcement.to_json(),
                record::PARAMETERS: parameters,
                record::DECISION: decision.verdict.as_str(),
            }}},
        },
    });
    if let Some(waits) = waits {
        let waits = serde_json::to_string(waits).unwrap_or_default();
        let label = json!({record::HELD: "place"});
        merge(&mut patch, json!({"metadata": {"labels": label, "annotations": {record::WAITS: waits}}}));
    }
    patch
}

impl Kube {
    /// Notes on a run how an attempt ended that another may mend, and which playbooks ARA recorded: for people to read, it ends
    /// nothing. The UID is compared: a name can come back.
    ///
    /// # Errors
    /// When the run is gone or the API server does not answer.
    pub async fn set_last_attempt(
        &self,
        _: &Permit,
        name: &str,
        uid: &str,
        attempt: &Outcome,
        playbooks: &[u64],
    ) -> Result<(), KubeError> {
        let doing = format!("note the last attempt on run {name}");
        let text = serde_json::to_string(attempt)
            .map_err(|e| KubeError::new(KubeErrorKind::Failed, doing.clone(), e.to_string()))?;
        let mut patch = json!({"metadata": {"uid": uid, "annotations": {record::LAST_ATTEMPT: text}}});
        if !playbooks.is_empty() {
            let ids = playbooks.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
            merge(&mut patch, json!({"metadata": {"annotations": {record::PLAYBOOKS: ids}}}));
        }
        self.limited(doing, self.jobs().patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await?;
        Ok(())
    }
}

pub(super) fn delivered_patch(at: Timestamp) -> Value {
    json!({"metadata": {"annotations": {record::DELIVERED: record::stamp(at)}}})
}

/// Lays one object over another, as a merge patch does (RFC 7386), without its nulls.
pub(super) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Null, Value::Object(over)) if over.is_empty() => {}
        (base, over) => {
            if let (Value::Null, Value::Object(_)) = (&base, &over) {
                *base = Value::Object(Map::new());
                merge(base, over);
            } else {
                *base = over;
            }
        }
    }
}

/// Reads a Job as a run.
pub(super) fn read(job: &Job) -> Result<RunDetails, RecordError> {
    let empty = BTreeMap::new();
    let meta = &job.metadata;
    let spec = job.spec.clone().unwrap_or_default();
    let status = job.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|c| c.type_ == kind && c.status == "True");
    let ended = condition("Complete").or_else(|| condition("Failed"));
    let why = condition("Failed").or_else(|| condition("FailureTarget"));
    let time = |t: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| t.0;
    JobRecord {
        uid: meta.uid.as_deref().unwrap_or_default(),
        name: meta.name.as_deref().unwrap_or_default(),
        resource_version: meta.resource_version.as_deref().unwrap_or_default(),
        created: meta.creation_timestamp.as_ref().map(time).unwrap_or_default(),
        labels: meta.labels.as_ref().unwrap_or(&empty),
        annotations: meta.annotations.as_ref().unwrap_or(&empty),
        finalizers: meta.finalizers.as_deref().unwrap_or_default(),
        state: JobState {
            suspend: spec.suspend.unwrap_or(false),
            complete: condition("Complete").is_some(),
            failed: condition("Failed").is_some(),
            failure_target: condition("FailureTarget").is_some(),
            ready: status.ready.unwrap_or(0),
            active: status.active.unwrap_or(0),
            terminating: status.terminating.unwrap_or(0),
            verdict: None,
        },
        reason: why.map(|c| sentence(c.reason.as_deref(), c.message.as_deref())).unwrap_or_default(),
        started: status.start_time.as_ref().map(time),
        finished: status
            .completion_time
            .as_ref()
            .or_else(|| ended.and_then(|c| c.last_transition_time.as_ref()))
            .map(time),
        deleting: meta.deletion_timestamp.is_some(),
        failed_pods: status.failed.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
    }
    .read()
}

fn sentence(reason: Option<&str>, message: Option<&str>) -> String {
    match (reason.filter(|r| !r.is_empty()), message.filter(|m| !m.is_empty())) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_built_in_template_gets_what_the_settings_say() {
        let settings = JobSettings {
            template: None,
            image: "registry.example.org/hostwright:1".to_owned(),
            service_account: Some("provision".to_owned()),
            backoff_limit: 7,
            deadline: Duration::from_secs(60),
            grace: Duration::from_secs(9),
        };
        let template = JobTemplate::parse(include_str!("../../../assets/job.yaml"), &settings).unwrap();
        let Value::Object(job) = template.for_environment("staging").0 else { panic!("no object") };
        let job = Value::Object(job);
        let pod = job.pointer("/spec/template/spec").unwrap();
        let container = &pod["containers"][0];
        assert_eq!(container["image"], settings.image.as_str());
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        let env = container["env"].as_array().unwrap();
        assert!(env.contains(&json!({"name": "HOSTWRIGHT_ENV", "value": "staging"})));
        assert_eq!(
            (&pod["serviceAccountName"], &pod["terminationGracePeriodSeconds"]),
            (&json!("provision"), &json!(9))
        );
        assert_eq!(
            (&job["spec"]["backoffLimit"], &job["spec"]["activeDeadlineSeconds"]),
            (&json!(7), &json!(60))
        );
    }

    #[test]
    fn what_is_no_job_is_refused() {
        let settings = JobSettings {
            template: None,
            image: "x:1".to_owned(),
            service_account: None,
            backoff_limit: 0,
            deadline: Duration::ZERO,
            grace: Duration::ZERO,
        };
        for yaml in [
            "",
            "- a",
            "kind: Pod",
            "apiVersion: batch/v1\nkind: Job",
            "a: [",
            "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: []}}}",
        ] {
            assert!(JobTemplate::parse(yaml, &settings).is_err(), "{yaml}");
        }
    }
}
