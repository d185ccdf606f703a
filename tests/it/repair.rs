//! What a dead broker, a killed server and a killed pod leave behind is mended, and nothing is provisioned twice. The server is the
//! real binary, so that it can be killed; pods are real processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hostwright::backend::amqp::Broker;
use hostwright::config::{Amqp, Secret};
use hostwright::domain::{Phase, RunDetails};
use hostwright::ops::{self, decide};
use hostwright::play::runner;
use hostwright::play::services::rabbitmq::RabbitMq;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::proxy::Proxy;
use crate::stage::{self, HOST, Stage};
use crate::support;

const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster whose Jobs run, a broker that can be stopped, and a server that can be killed.
struct Bench {
    stage: Stage,
    broker: RabbitMq,
    _broker_folder: TempDir,
    /// Where the server listens; all its settings else are the defaults.
    listen: String,
    server: Option<Child>,
    pods: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.pods.cancel();
        self.kill_server();
    }
}

impl Bench {
    /// The playbook writes a line to `log` each time; with `gate` it waits for a file of that name.
    async fn new(gate: bool) -> Self {
        let (broker, folder) = support::own_rabbitmq().await;
        let mut stage = Stage::new("").await;
        let log = stage.policy().join("log");
        let mut tasks = format!("- ansible.builtin.shell: echo applied >> {}\n", log.display());
        if gate {
            tasks += &format!(
                "- ansible.builtin.wait_for: {{path: {}, sleep: 1}}\n",
                stage.policy().join("gate").display()
            );
        }
        std::fs::write(stage.policy().join("site.yml"), stage::local(&tasks)).unwrap();
        stage.settings.environment.amqp = Some(Amqp {
            url: Secret::new(broker.url()),
            exchange: "hostwright".into(),
            dead_letter: "hostwright.dead".into(),
        });
        let listen = format!("127.0.0.1:{}", free_port());
        let pods = CancellationToken::new();
        let bench = Self { stage, broker, _broker_folder: folder, listen, server: None, pods };
        bench.write_config();
        bench
    }

    fn config(&self) -> PathBuf {
        self.stage.dir.path().join("config.toml")
    }

    fn write_config(&self) {
        let settings = &self.stage.settings;
        let job = self.stage.dir.path().join("job.yaml");
        std::fs::write(&job, include_str!("../../assets/play/job.yaml")).unwrap();
        let config = json!({
            "server": {"listen": self.listen},
            "job": {"template": job, "image": "hostwright:test", "grace": "5s"},
            "provision": {
                "ansible_playbook": settings.provision.ansible_playbook,
                "python": settings.provision.python,
                "work_dir": settings.provision.work_dir,
            },
            "environments": {"test": {
                "kubernetes": {"kubeconfig": settings.environment.kubernetes.kubeconfig, "namespace": "hostwright"},
                "amqp": {"url": self.broker.url()},
                "policy": {
                    "source": settings.environment.policy.source,
                    "variables": {"ansible_python_interpreter": settings.provision.python},
                },
            }},
        });
        std::fs::write(self.config(), toml::to_string(&config).unwrap()).unwrap();
    }

    /// Starts the server and waits until it answers.
    async fn start_server(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.stage.dir.path().join("server.log"))
            .unwrap();
        let server = Command::new(support::exe())
            .args(["-e", "test", "--config"])
            .arg(self.config())
            .arg("serve")
            .env_remove("HOSTWRIGHT_CONFIG")
            .env("XDG_STATE_HOME", self.stage.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.server = Some(server);
        let url = format!("http://{}/readyz", self.listen);
        let ready = async || http().get(&url).send().await.is_ok_and(|answer| answer.status().is_success());
        let started = Instant::now();
        while !ready().await {
            assert!(started.elapsed() < PATIENCE, "the server is not ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The cluster through a proxy for everybody but this test.
    async fn through_proxy(&mut self) -> Proxy {
        let direct = self.stage.settings.environment.kubernetes.kubeconfig.clone().unwrap();
        let server = self.stage.kube.server().trim_end_matches('/').to_owned();
        let port = server.rsplit_once(':').unwrap().1.parse().unwrap();
        let proxy = Proxy::start(port).await;
        let text = std::fs::read_to_string(&direct).unwrap();
        let through = self.stage.dir.path().join("through-proxy");
        std::fs::write(&through, text.replace(&server, &format!("http://127.0.0.1:{}", proxy.port())))
            .unwrap();
        self.stage.settings.environment.kubernetes.kubeconfig = Some(through);
        self.write_config();
        proxy
    }

    /// As `kill -9`.
    fn kill_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().ok();
            server.wait().ok();
        }
    }

    fn start_pods(&self) {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let options = runner::Options {
            namespace: "hostwright".into(),
            logs: self.stage.dir.path().join("logs"),
            work: self.stage.dir.path().join("pods"),
            program: support::exe().to_owned(),
            leash: vec![text(support::exe()), "leash".into()],
            env: vec![
                ("HOSTWRIGHT_CONFIG".into(), text(&self.config())),
                ("HOSTWRIGHT_ENV".into(), "test".into()),
                ("PATH".into(), std::env::var("PATH").unwrap()),
            ],
            node: "test".into(),
            backoff: Duration::from_secs(1),
            stop_within: Duration::from_secs(5),
        };
        tokio::spawn(runner::run(self.stage.kube.client(), options, self.pods.clone()));
    }

    /// The host calls, once.
    async fn called(&self) {
        let body = json!({"hostname": HOST, "address": "127.0.0.1"});
        let answer =
            http().post(format!("http://{}/host/online", self.listen)).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 202, "{:?}", answer.text().await);
    }

    fn command(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new(support::exe());
        command.args(["-e", "test", "--config"]).arg(self.config()).args(args).stdin(Stdio::null());
        command.env_remove("HOSTWRIGHT_CONFIG").output().unwrap()
    }

    /// The host calls, and an operator approves it.
    async fn approved(&self) -> RunDetails {
        self.called().await;
        let output = self.command(&["hosts", "approve", HOST]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ops::runs::of_host(&self.stage.kube, &HOST.parse().unwrap()).await.unwrap()
    }

    async fn until(&self, what: &str, condition: impl AsyncFn(&RunDetails) -> bool) -> RunDetails {
        let started = Instant::now();
        loop {
            let run = ops::runs::of_host(&self.stage.kube, &HOST.parse().unwrap()).await.unwrap();
            if condition(&run).await {
                return run;
            }
            let log =
                || std::fs::read_to_string(self.stage.dir.path().join("server.log")).unwrap_or_default();
            assert!(started.elapsed() < PATIENCE, "{what} did not happen: {run:?}\n{}", log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn until_ready(&self) -> RunDetails {
        self.until("ready", async |run| {
            assert_ne!(run.run.phase, Phase::Failed, "{run:?}");
            run.run.phase == Phase::Ready
        })
        .await
    }

    /// How often the playbook was applied.
    fn applied(&self) -> usize {
        std::fs::read_to_string(self.stage.policy().join("log")).unwrap_or_default().lines().count()
    }

    fn queues(&self) -> Broker {
        Broker::new(self.stage.settings.environment.amqp.as_ref().unwrap()).unwrap()
    }

    async fn queue_goes(&self, run: &RunDetails) {
        let broker = self.queues();
        self.until("the queue goes", async |_| broker.queue_state(&run.run.uid).await.unwrap().is_none())
            .await;
    }
}

pub(crate) fn http() -> reqwest::Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::new()
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_broker_left_is_delivered_once_it_is_back() {
    let mut bench = Bench::new(false).await;
    bench.broker.stop().await;
    bench.start_server().await;
    bench.start_pods();
    let run = bench.approved().await;
    assert!(run.run.undelivered());
    // Whoever wonders why it stays queued is told.
    let run = bench.until("the reason", async |run| !run.run.reason.is_empty()).await;
    let port = bench.broker.port().to_string();
    assert!(run.run.reason.contains(&port), "{}", run.run.reason);
    let shown = bench.command(&["runs", "show", HOST, "-o", "json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["reason"], run.run.reason);

    bench.broker.start_again().await.unwrap();
    let back = Instant::now();
    let run = bench.until("delivery", async |run| run.run.delivered.is_some()).await;
    assert!(back.elapsed() < Duration::from_secs(60), "{:?}", back.elapsed());
    assert!(!run.run.reason.contains(&port), "{}", run.run.reason);
    let run = bench.until_ready().await;
    assert_eq!(bench.applied(), 1);
    bench.queue_goes(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_between_approval_and_publishing_loses_nothing() {
    let mut bench = Bench::new(false).await;
    bench.start_pods();
    bench.broker.stop().await;
    bench.start_server().await;
    let run = bench.approved().await;
    let log = bench.stage.dir.path().join("server.log");
    bench.until("a try", async |_| std::fs::read_to_string(&log).unwrap().contains("deliveries wait")).await;
    bench.kill_server();
    bench.broker.start_again().await.unwrap();
    assert!(bench.stage.again(&run).await.run.delivered.is_none());
    bench.start_server().await;
    bench.until_ready().await;
    assert_eq!(bench.applied(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_between_publishing_and_marking_provisions_nothing_twice() {
    let mut bench = Bench::new(false).await;
    let proxy = bench.through_proxy().await;
    bench.start_server().await;
    // The server's mark does not get through.
    let marks = proxy.stop_at(b"hostwright.dev/delivered");
    bench.called().await;
    let kube = &bench.stage.kube;
    let run = ops::runs::of_host(kube, &HOST.parse().unwrap()).await.unwrap().run;
    let (permit, environment) = (bench.stage.settings.permit().unwrap(), &bench.stage.settings.environment);
    let changes = decide::Changes::default();
    decide::approve(kube, &permit, environment, &(&run).into(), &changes, "ann").await.unwrap();
    tokio::time::timeout(PATIENCE, marks).await.expect("the server marks nothing");
    let waiting = bench.queues().queue_state(&run.uid).await.unwrap().expect("no queue");
    assert_eq!(waiting.messages, 1, "it was published");
    bench.kill_server();
    // What was held back is lost with the server.
    proxy.cut();
    proxy.go_on();
    let run = bench.until("undelivered", async |run| run.run.undelivered()).await;

    bench.start_server().await;
    bench.until("marked", async |run| run.run.delivered.is_some()).await;
    bench.start_pods();
    bench.until_ready().await;
    bench.queue_goes(&run).await;
    assert_eq!(bench.applied(), 1);
    assert_eq!(bench.stage.kube.pods(&run.run.uid).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_provision_gives_its_message_back_and_the_next_pod_finishes() {
    let mut bench = Bench::new(true).await;
    bench.start_server().await;
    bench.start_pods();
    let run = bench.approved().await;
    bench.until("the playbook runs", async |_| bench.applied() == 1).await;
    let killed = provision_of(&run.run.uid).expect("no provision process");
    kill_process(killed, Signal::KILL).unwrap();
    bench.until("the next pod runs", async |_| bench.applied() == 2).await;
    std::fs::write(bench.stage.policy().join("gate"), "").unwrap();
    let run = bench.until_ready().await;
    let pods = bench.stage.kube.pods(&run.run.uid).await.unwrap();
    assert_eq!(pods.iter().map(|pod| pod.exit_code).collect::<Vec<_>>(), [Some(137), Some(0)]);
    bench.queue_goes(&run).await;
}

/// The process of `provision` for this run, found by its environment.
fn provision_of(uid: &str) -> Option<Pid> {
    let wanted = format!("HOSTWRIGHT_RUN={uid}");
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = line.split(|b| *b == 0);
        let program = words.next()?.ends_with(b"hostwright");
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let ours = environment.split(|b| *b == 0).any(|pair| pair == wanted.as_bytes());
        (program && words.next()? == b"provision" && ours).then(|| Pid::from_raw(pid)).flatten()
    })
}
