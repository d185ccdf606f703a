//! A cluster in a process of its own: the loopback API with as many runs as one likes, all older than an hour, and an ARA that has
//! nothing.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hostwright::domain::{HostName, Kind, run_name};
use hostwright::play::api::{Api, Options};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What is in the cluster.
pub(crate) struct Size {
    pub(crate) runs: usize,
    /// The first so many runs have a pod.
    pub(crate) pods: usize,
    /// The lines of the first run's log.
    pub(crate) lines: usize,
    /// They are pending, else ready.
    pub(crate) pending: bool,
}

pub(crate) struct Cluster {
    pub(crate) api: String,
    folder: PathBuf,
    process: Child,
    ara: String,
}

impl Cluster {
    /// Starts one with these runs; its files are in the folder.
    pub(crate) fn start(folder: &Path, size: &Size) -> Self {
        // The first start makes what every cluster has.
        drop(Self::serve(folder));
        fill(folder, size);
        Self::serve(folder)
    }

    fn serve(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("cluster").arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (api, ara) = (lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap());
        Self { api, ara, folder: folder.to_owned(), process }
    }

    /// A configuration whose one environment is this cluster.
    pub(crate) fn config(&self, amqp: Option<&str>) -> PathBuf {
        let kubeconfig = self.folder.join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {"server": self.api}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t", "namespace": "hostwright"}}],
            "users": [{"name": "t", "user": {}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let mut text = format!(
            "[environments.lan]\npolicy.source = \"/nonexistent\"\nkubernetes.kubeconfig = {kubeconfig:?}\nara.url = {:?}\n",
            self.ara
        );
        if let Some(url) = amqp {
            writeln!(text, "amqp.url = {url:?}").unwrap();
        }
        write_config(&self.folder, &text)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Its end of the pipe closes: it ends by itself, and its state is on the disk.
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}

/// Writes a configuration file for its owner only.
pub(crate) fn write_config(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("config.toml");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path
}

/// The process: serves until its standard input is closed.
pub(crate) async fn serve(folder: &Path) {
    let shutdown = CancellationToken::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut options = Options::new(folder.join("logs"), "", &url);
    options.state = Some(folder.join("state"));
    let api = tokio::spawn(Api::open(options).unwrap().run(listener, shutdown.clone()));
    let nothing = || async { axum::Json(json!({"count": 0, "next": null, "previous": null, "results": []})) };
    let ara = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "{url}\nhttp://{}", ara.local_addr().unwrap()).unwrap();
    out.flush().unwrap();
    tokio::spawn(async move { axum::serve(ara, axum::Router::new().fallback(nothing)).await });
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()).ok()).await.unwrap();
    shutdown.cancel();
    api.await.unwrap().unwrap();
}

/// The host of a run: the first is the newest.
pub(crate) fn host(n: usize) -> String {
    format!("web-{n:05}.lan.example.org")
}

/// The name of a run's Job.
pub(crate) fn job_name(n: usize) -> String {
    run_name(Kind::Provision, &HostName::parse(&host(n)).unwrap(), 1)
}

/// What a host says of itself.
pub(crate) fn announcement(n: usize, group: &str) -> String {
    let facts = json!({"os": "debian 13", "cores": 16, "memory": "64 GiB", "serial": format!("C02{n:08}")});
    json!({
        "host": host(n), "address": format!("10.{}.{}.{}", n / 62_500, n / 250 % 250, n % 250 + 1), "groups": [group, "k8s_worker"],
        "facts": facts,
    })
    .to_string()
}

/// Appends runs to the state file, as the API itself writes them.
fn fill(folder: &Path, size: &Size) {
    let path = folder.join("state");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut rv = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["rv"].as_u64())
        .max()
        .unwrap();
    let mut lines = String::new();
    let mut put = |of: &str, object: Value| {
        rv += 1;
        let mut object = object;
        object["metadata"]["resourceVersion"] = rv.to_string().into();
        object["metadata"]["namespace"] = "hostwright".into();
        let name = object["metadata"]["name"].clone();
        let at = Timestamp::now().as_second();
        let record =
            json!({"rv": rv, "at": at, "of": of, "namespace": "hostwright", "name": name, "object": object});
        writeln!(lines, "{record}").unwrap();
    };
    for n in 0..size.runs {
        let object = job(n, size.pending);
        if n < size.pods {
            put("pods", pod(&object, n));
        }
        put("jobs.batch", object);
    }
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    if size.lines > 0 {
        write_log(folder, size.lines);
    }
}

fn uid(kind: u32, n: usize) -> String {
    format!("{kind:08x}-d9cb-469f-a165-{n:012x}")
}

/// Two hours ago and more, each run half a minute before the next.
fn born(n: usize) -> Timestamp {
    let ago = 7_200 + 30 * i64::try_from(n).unwrap();
    Timestamp::from_second(Timestamp::now().as_second()).unwrap() - SignedDuration::from_secs(ago)
}

fn job(n: usize, pending: bool) -> Value {
    let (name, uid, born) = (job_name(n), uid(1, n), born(n));
    let hash = name.rsplit('-').nth(1).unwrap().to_owned();
    let said = announcement(n, "web");
    let mut job: Value = serde_json::from_str(include_str!("job.json")).unwrap();
    let labels = json!({
        "app.kubernetes.io/managed-by": "hostwright", "hostwright.dev/host": hash, "hostwright.dev/kind": "provision",
    });
    let annotations = json!({
        "hostwright.dev/announcement": said, "hostwright.dev/digest": format!("{n:064x}"),
        "hostwright.dev/host": host(n), "hostwright.dev/last-seen": born, "hostwright.dev/number": "1",
    });
    job["metadata"] = json!({"name": name, "uid": uid, "creationTimestamp": born, "generation": 2, "labels": labels, "annotations": annotations});
    let template = &mut job["spec"]["template"]["metadata"];
    *template = json!({"labels": labels, "annotations": annotations});
    for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
        template["labels"][key] = uid.clone().into();
    }
    for key in ["batch.kubernetes.io/job-name", "job-name"] {
        template["labels"][key] = name.clone().into();
    }
    job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid.into();
    if pending {
        job["spec"]["suspend"] = true.into();
        job["status"] = json!({"uncountedTerminatedPods": {}});
        return job;
    }
    let end = born + SignedDuration::from_secs(90);
    let condition =
        |kind| json!({"type": kind, "status": "True", "lastProbeTime": end, "lastTransitionTime": end});
    job["status"] = json!({
        "startTime": born, "completionTime": end, "ready": 0, "succeeded": 1, "terminating": 0,
        "uncountedTerminatedPods": {}, "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    let outcome = json!({
        "exit": "ready", "at": end, "text": "20 ok, 18 changed, 2 skipped",
        "counts": {"ok": 20, "changed": 18, "unreachable": 0, "failed": 0, "skipped": 2, "rescued": 0, "ignored": 0},
    });
    let annotations = &mut job["metadata"]["annotations"];
    for (key, value) in [
        ("decision", "approved".to_owned()),
        ("decided-by", "ann".to_owned()),
        ("decided-at", born.to_string()),
        ("delivered", born.to_string()),
        ("outcome", outcome.to_string()),
        ("parameters", json!({"playbook": "site.yml", "groups": ["web"]}).to_string()),
    ] {
        annotations[format!("hostwright.dev/{key}")] = value.into();
    }
    job
}

fn pod(job: &Value, n: usize) -> Value {
    let template = &job["spec"]["template"];
    let name = &job["metadata"]["name"];
    let (begun, ended) = (born(n), born(n) + SignedDuration::from_secs(90));
    json!({
        "metadata": {
            "name": format!("{}-xxxxx", name.as_str().unwrap()), "uid": uid(2, n), "creationTimestamp": begun,
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": template["spec"],
        "status": {
            "phase": "Succeeded", "startTime": begun, "containerStatuses": [{
                "name": "provision", "image": "hostwright", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": begun, "finishedAt": ended}},
            }],
        },
    })
}

/// A log as Ansible writes it: 100 bytes a line.
fn write_log(folder: &Path, lines: usize) {
    let folder = folder.join("logs").join(uid(2, 0));
    std::fs::create_dir_all(&folder).unwrap();
    let mut text = String::new();
    for n in 1..=lines {
        let what = if n % 20 == 1 {
            format!("TASK [collectd : write part {n:06} of the configuration] ***********************")
        } else {
            format!("changed: [{}] => (item=line {n:06} of {lines:06}, 0644, root)", host(0))
        };
        writeln!(text, "{} {what}", born(0)).unwrap();
    }
    std::fs::write(folder.join("provision.log"), text).unwrap();
}
