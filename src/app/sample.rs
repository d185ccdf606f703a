//! Sample data for tests.

use jiff::{SignedDuration, Timestamp};

use super::environment::EnvironmentInfo;
use crate::config::{Need, Rights, TargetSettings};
use crate::domain::results::{ResultDetails, ResultStatus, TaskResult};
use crate::domain::rights::Answer;
use crate::domain::secret::{BucketFacts, Encryption, FileState, SecretRow, Setting};
use crate::domain::{HostName, Kind, Phase, Run};

/// The moment that tests happen at.
pub(crate) fn now() -> Timestamp {
    "2026-12-01T14:02:00Z".parse().unwrap()
}

/// So many seconds before that moment.
pub(crate) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// The UID of a sample run.
pub(crate) fn uid(host: &str, number: u32) -> String {
    format!("uid-{host}-{number}")
}

/// A run of a host, in its simplest form.
pub(crate) fn run(host: &str, phase: Phase) -> Run {
    let host_name = HostName::parse(host).unwrap();
    Run {
        uid: uid(host, 1),
        name: crate::domain::run_name(Kind::Provision, &host_name, 1),
        resource_version: "1".into(),
        host: host_name,
        kind: Kind::Provision,
        number: 1,
        phase,
        reason: String::new(),
        created: ago(600),
        seen: ago(60),
        started: None,
        finished: None,
        digest: format!("digest-{host}"),
        boot: None,
        address: None,
        branch: None,
        groups: Vec::new(),
        key: None,
        decision: None,
        delivered: None,
        outcome: None,
        stop: None,
        retry: None,
        check: None,
        forget: None,
        playbooks: Vec::new(),
        last_attempt: None,
        answers: None,
        queue: false,
        deleting: false,
        failed_pods: 0,
        waits: None,
    }
}

/// A secret of ten bytes in this state.
pub(crate) fn secret(key: &str, state: FileState) -> SecretRow {
    use FileState::{Nowhere, OnlyHere, RemovedThere};
    let there = !matches!(state, OnlyHere | RemovedThere | Nowhere);
    SecretRow {
        key: key.to_owned(),
        state,
        size: 10,
        modified: Some(ago(3 * 86_400)),
        etag: there.then(|| format!("\"{key}\"")),
        encryption: if there { Encryption::Ours } else { Encryption::Nothing },
        versions: there.then_some(2),
        expires: None,
        problem: None,
    }
}

/// A bucket that is as it must be.
pub(crate) fn bucket() -> BucketFacts {
    let good = |text: &str| Setting::Good(text.to_owned());
    BucketFacts {
        bucket: "secrets-staging-example".into(),
        folder: "platform/secrets".into(),
        public_access: good("blocked"),
        versioning: good("kept"),
        encryption: good("KMS, the environment's key"),
    }
}

/// A result of a task, in its simplest form.
pub(crate) fn result(id: u64, role: &str, task: &str, status: ResultStatus) -> TaskResult {
    TaskResult {
        id,
        playbook: 1,
        play: "Provision".into(),
        role: Some(role.to_owned()).filter(|r| !r.is_empty()),
        task: task.into(),
        action: "command".into(),
        host: "nas-1.lan.example.org".into(),
        status,
        changed: status == ResultStatus::Changed,
        started: Some(ago(120)),
        duration_ms: 800,
        place: format!("roles/{role}/tasks/main.yml:{id}"),
    }
}

/// The whole of one result.
pub(crate) fn result_details(id: u64) -> ResultDetails {
    ResultDetails {
        result: result(id, "zfs", "import pool", ResultStatus::Failed),
        message: String::new(),
        stdout: String::new(),
        stderr: String::new(),
        rc: None,
        exception: String::new(),
        diffs: Vec::new(),
        censored: false,
        content: serde_json::json!({}),
    }
}

/// The environment that tests happen in.
pub(crate) fn environment() -> EnvironmentInfo {
    EnvironmentInfo {
        others: Vec::new(),
        target_port: 9103,
        name: "staging".into(),
        guarded: true,
        playground: false,
        read_only: false,
        operator: "ann".into(),
        cluster: "staging/hostwright".into(),
        amqp: true,
        ara: true,
        playbook: "site.yml".into(),
        branch: Some("main".into()),
        zone: jiff::tz::TimeZone::UTC,
        local: jiff::tz::TimeZone::fixed(jiff::tz::offset(2)),
    }
}

/// What the cluster says where it denies these rights.
pub(crate) fn rights(denied: &[Need]) -> Rights {
    let targets = TargetSettings {
        namespace: "default".into(),
        name: "scrape-collectd".into(),
        key: "targets".into(),
        port: 9103,
    };
    let answer = |need: &Need| if denied.contains(need) { Answer::No(String::new()) } else { Answer::Yes };
    let of = |need: Need| (need, (need.right("hostwright", &targets), answer(&need)));
    Rights { who: Some("olga".into()), answers: Need::ALL.map(of).into() }
}
