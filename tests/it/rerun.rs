//! S19: what Ansible counted is what is shown, and only what failed is run again.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostwright::backend::ara::Ara;
use hostwright::domain::{Counts, ExitCode, Phase, RunDetails, parse_recap};
use hostwright::ops;
use hostwright::play::runner;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::console::{Far, wait_for_console};
use crate::pty::Pty;
use crate::server::Server;
use crate::stage::Stage;
use crate::support;

const PATIENCE: Duration = Duration::from_secs(240);

/// One playbook, six fake hosts: each does what its name says.
const PLAYBOOK: &str = r#"
- name: Six ends
  hosts: all
  gather_facts: false
  vars:
    who: "{{ inventory_hostname.split('.')[0] }}"
    ansible_connection: "{{ 'ssh' if who in ['gone', 'shrug'] else 'local' }}"
    ansible_host: 127.0.0.1
    ansible_port: 1
  tasks:
    - name: Reach it
      ping:
      ignore_unreachable: "{{ who == 'shrug' }}"
    - name: Fail and ignore
      command: /bin/false
      ignore_errors: true
      when: who == 'ignores'
    - name: Risky
      when: who == 'rescues'
      block:
        - name: Fails inside
          command: /bin/false
      rescue:
        - name: Rescue it
          debug: msg=rescued
    - name: Fail
      fail: msg=on-purpose
      when: who == 'fails'
    - name: Change
      command: /bin/true
      when: who == 'okay'
"#;

/// Host, how it ends, and of the recap: failed, unreachable, rescued, ignored.
const HOSTS: [(&str, ExitCode, [u32; 4]); 6] = [
    ("okay.example.org", ExitCode::Ready, [0, 0, 0, 0]),
    ("fails.example.org", ExitCode::FailedTask, [1, 0, 0, 0]),
    ("rescues.example.org", ExitCode::Ready, [0, 0, 1, 0]),
    ("ignores.example.org", ExitCode::Ready, [0, 0, 0, 1]),
    ("gone.example.org", ExitCode::UnreachableHost, [0, 1, 0, 0]),
    // Since ansible-core 2.19 what is ignored is counted so, and as no unreachable host.
    ("shrug.example.org", ExitCode::Ready, [0, 0, 0, 1]),
];

/// Notes how Ansible was called and for which hosts, then is Ansible.
const NOTING: &str = "#!/bin/sh\n\
    note=$(mktemp NOTES/call.XXXXXX)\n\
    for argument; do\n\
      echo \"$argument\"\n\
      case $argument in --inventory=*) grep -o '[a-z]*[.]example[.]org' \"${argument#--inventory=}\" | sort -u | sed 's/^/host /';; esac\n\
    done >\"$note\"\n\
    exec ANSIBLE \"$@\"\n";

/// A cluster with a server and a runner of Jobs, and the notes of each call of Ansible.
struct Ground {
    stage: Stage,
    server: Server,
    shutdown: CancellationToken,
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Ground {
    async fn new() -> Self {
        let mut stage = Stage::new(PLAYBOOK).await.with_ara().await;
        let dir = stage.dir.path().to_owned();
        let (notes, program, job) = (dir.join("notes"), dir.join("noting"), dir.join("job.yaml"));
        std::fs::create_dir(&notes).unwrap();
        let text = NOTING.replace("NOTES", &notes.to_string_lossy());
        let text = text.replace("ANSIBLE", &stage.settings.provision.ansible_playbook);
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(&job, include_str!("../../assets/play/job.yaml")).unwrap();
        stage.settings.job.template = Some(job);
        // An unreachable host is another attempt's to reach: not here.
        stage.settings.job.backoff_limit = 0;
        let server = Server::start_unseen(&stage.settings).await;
        server.until_ready(200, |said| said["delivers"] == true).await;
        let shutdown = CancellationToken::new();
        let ground = Self { stage, server, shutdown };
        ground.write_config(&program);
        ground.start_pods(&dir);
        for (host, ..) in HOSTS {
            ground.server.post(&json!({"hostname": host})).await.run(202);
        }
        ground
    }

    fn write_config(&self, program: &Path) {
        let settings = &self.stage.settings;
        let config = json!({
            "provision": {
                "ansible_playbook": program,
                "python": settings.provision.python,
                "work_dir": settings.provision.work_dir,
            },
            "environments": {"test": {
                "kubernetes": {"kubeconfig": settings.environment.kubernetes.kubeconfig, "namespace": "hostwright"},
                "ara": {"url": settings.environment.ara.as_ref().unwrap().url},
                "policy": {
                    "source": settings.environment.policy.source,
                    "variables": {"ansible_python_interpreter": settings.provision.python},
                },
            }},
        });
        std::fs::write(self.config(), toml::to_string(&config).unwrap()).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.stage.dir.path().join("config.toml")
    }

    fn start_pods(&self, dir: &Path) {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let options = runner::Options {
            namespace: "hostwright".into(),
            logs: dir.join("logs"),
            work: dir.join("pods"),
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
        tokio::spawn(runner::run(self.stage.kube.client(), options, self.shutdown.clone()));
    }

    async fn command(&self, args: &[&str]) -> std::process::Output {
        let mut command = tokio::process::Command::new(support::exe());
        command.args(["-e", "test", "--config"]).arg(self.config()).args(args);
        command.env_remove("HOSTWRIGHT_CONFIG").kill_on_drop(true).output().await.unwrap()
    }

    async fn of(&self, host: &str) -> RunDetails {
        ops::runs::of_host(&self.stage.kube, &host.parse().unwrap()).await.unwrap()
    }

    /// Waits until a host's run of this number is over.
    async fn until_over(&self, host: &str, number: u32) -> RunDetails {
        let started = Instant::now();
        loop {
            let details = self.of(host).await;
            if details.run.number == number && details.run.is_over() {
                return details;
            }
            assert!(started.elapsed() < PATIENCE, "{host}: {details:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// All calls of Ansible so far: the host, and the arguments without what differs between any two calls.
    fn calls(&self) -> Vec<(String, Vec<String>)> {
        let notes = std::fs::read_dir(self.stage.dir.path().join("notes")).unwrap();
        let mut calls: Vec<_> = notes
            .map(|note| {
                let text = std::fs::read_to_string(note.unwrap().path()).unwrap();
                let (hosts, words): (Vec<&str>, Vec<&str>) =
                    text.lines().partition(|line| line.starts_with("host "));
                let words = words.into_iter().filter(|word| {
                    !["--inventory=", "--extra-vars=@"].iter().any(|start| word.starts_with(start))
                });
                let host = hosts.join(" ").replacen("host ", "", 1);
                (host, words.map(str::to_owned).collect())
            })
            .collect();
        calls.sort();
        calls
    }

    /// What the pod's log says of its host at the end.
    async fn recap(&self, run: &RunDetails) -> Counts {
        let said = self.command(&["runs", "logs", &run.run.name]).await;
        let log = String::from_utf8(said.stdout).unwrap();
        let found: Vec<_> = log
            .lines()
            .skip_while(|line| !line.contains("PLAY RECAP"))
            .filter_map(parse_recap)
            .filter(|(host, _)| host == run.run.host.as_str())
            .collect();
        assert_eq!(found.len(), 1, "{log}");
        found[0].1
    }
}

fn argv(host: &str, playbook: &Path) -> (String, Vec<String>) {
    let limit = format!("--limit={host}");
    let words = ["--diff", &limit, "--", &playbook.to_string_lossy()].map(str::to_owned);
    (host.to_owned(), words.to_vec())
}

/// S19: six fake hosts, with the real Ansible and ARA: counted as the recap does, rolled up by the worst, with the exact limit; of all
/// that are marked only those that failed or were not reached are run again, one call for each, with the same exact limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_counted_is_the_recap_and_only_what_failed_is_run_again() {
    let ground = Ground::new().await;
    // An empty limit would mean all hosts.
    let said = ground.command(&["hosts", "approve", "--limit", "", HOSTS[0].0]).await;
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("the limit is empty"), "{said:?}");
    assert_eq!(ground.of(HOSTS[0].0).await.run.phase, Phase::Pending);
    for (host, ..) in HOSTS {
        let said = ground.command(&["hosts", "approve", "--limit", host, host]).await;
        assert!(said.status.success(), "{said:?}");
    }
    let ara = Ara::new(ground.stage.settings.environment.ara.as_ref().unwrap()).unwrap();
    for (host, exit, ends) in HOSTS {
        let details = ground.until_over(host, 1).await;
        let outcome = details.run.last_outcome().unwrap().clone();
        assert_eq!(outcome.exit, exit, "{host}: {}", outcome.text);
        let phase = if exit == ExitCode::Ready { Phase::Ready } else { Phase::Failed };
        assert_eq!(details.run.phase, phase, "{host}");
        let recap = ground.recap(&details).await;
        assert_eq!([recap.failed, recap.unreachable, recap.rescued, recap.ignored], ends, "{host}");
        let recorded = ops::results::of_run(&ara, &details.run.uid).await.unwrap();
        assert_eq!((outcome.counts, recorded.counts), (Some(recap), recap), "{host}");
        let shown = ground.command(&["hosts", "show", host]).await;
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains(&recap.to_string()), "{host}: {recap}: {shown}");
    }
    let playbook = ground.stage.policy().join("site.yml").canonicalize().unwrap();
    let mut expected: Vec<_> = HOSTS.iter().map(|(host, ..)| argv(host, &playbook)).collect();
    expected.sort();
    assert_eq!(ground.calls(), expected);

    let far = Far::at(ground.stage.kube.server().trim_end_matches('/'));
    tokio::task::spawn_blocking(move || retry_all_that_failed(&far)).await.unwrap();
    let failed = || HOSTS.into_iter().filter(|(_, exit, _)| *exit != ExitCode::Ready);
    for (host, exit, _) in failed() {
        assert_eq!(ground.until_over(host, 2).await.run.last_outcome().unwrap().exit, exit, "{host}");
    }
    expected.extend(failed().map(|(host, ..)| argv(host, &playbook)));
    expected.sort();
    assert_eq!(ground.calls(), expected, "those again, and no other");
    let mut numbers = BTreeMap::new();
    for (host, exit, _) in HOSTS {
        numbers.insert(host, (ground.of(host).await.run.number, exit == ExitCode::Ready));
    }
    assert!(numbers.values().all(|(number, ready)| *number == if *ready { 1 } else { 2 }), "{numbers:?}");
}

/// What an operator presses: only what failed is in the list, and the question names each.
fn retry_all_that_failed(far: &Far) {
    let mut pty = Pty::start(far.command(&[]), (160, 50));
    wait_for_console(&mut pty);
    for (host, ..) in HOSTS {
        pty.wait_for(host);
    }
    pty.keys("/").write(b"phase:failed").keys("<enter>").wait_gone("okay.example.org");
    pty.keys("*").wait_for("2 marked").keys("r").wait_for("Retry 2");
    let question = pty.screen();
    for (host, exit, _) in HOSTS {
        let named = question.split("Retry 2").nth(1).unwrap().contains(host);
        assert_eq!(named, exit != ExitCode::Ready, "{host}:\n{question}");
    }
    pty.keys("y").wait_for("2 done").keys("q");
    assert_eq!(pty.wait_exit(), 0);
}
