//! The sample policy with the real Ansible: what it does to each kind of host, and what ARA records when several run at once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use hostwright::play::policy;
use tokio::process::Command;

use crate::support;

const CA: &str = "-----BEGIN CERTIFICATE-----\nMIIBdDCCARmgAwIBAgIUI5xi1Sd8NAx/fgUqZrbtGhvvsjkwCgYIKoZIzj0EAwIw\nDzENMAsGA1UEAwwEa3ViZTAeFw0yNjEyMDExNDU4MjBaFw0yNjEyMzExNDU4MjBa\nMA8xDTALBgNVBAMMBGt1YmUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATUtYZ2\no3GWsx9Ws0uOyJMVAMhYDJQlCcYeFIIrE9NOPzBg1RyxbgCXNTysjPkWTeY47Owr\nCvN5mCRkC+/nPU3No1MwUTAdBgNVHQ4EFgQUIGpOPmQEHqhitzf27AzKwnXg+qow\nHwYDVR0jBBgwFoAUIGpOPmQEHqhitzf27AzKwnXg+qowDwYDVR0TAQH/BAUwAwEB\n/zAKBggqhkjOPQQDAgNJADBGAiEA7xAdBZNLnm5eD9woPjnEgc+6naQW2AriM0eQ\nJj7Oru8CIQDah5rRExmdVfKmKLRAu1zrspfkz61APGdEV2gRxArlTQ==\n-----END CERTIFICATE-----\n";

/// What a host could send to run commands where Ansible runs.
const HOSTILE: &str = "{{ lookup('ansible.builtin.pipe', 'id') }}";

/// The policy, unpacked, with the folder that its hosts are in.
struct Policy {
    folder: tempfile::TempDir,
    host: &'static str,
}

struct Run {
    code: Option<i32>,
    output: String,
}

impl Run {
    fn of(output: std::process::Output) -> Self {
        let text = [output.stdout, output.stderr].concat();
        Self { code: output.status.code(), output: String::from_utf8(text).unwrap() }
    }

    /// A host's counts of the recap.
    fn counts(&self) -> BTreeMap<&str, u32> {
        let recap = self.output.rsplit("PLAY RECAP").next().unwrap();
        let counts = recap.split_whitespace().filter_map(|word| word.split_once('='));
        counts.map(|(name, count)| (name, count.parse().unwrap())).collect()
    }
}

impl Policy {
    async fn new(host: &'static str, group: &str) -> Self {
        let folder = support::temp();
        let unpacked = policy::unpack(&folder.path().join("policy")).await.unwrap();
        assert!(unpacked.git);
        // Written as `provision` writes them: what a host said is data, marked so.
        let inventory = format!(
            "all:\n  hosts: {{{host}: {{ansible_host: 192.0.2.7}}}}\n  children: {{{group}: {{hosts: {{{host}: }}}}}}\n"
        );
        let join = serde_json::json!({
            "token": "abcdef.0123456789abcdef",
            "endpoint": "https://[2001:db8::1]:6443",
            "server": "[2001:db8::1]:6443",
            "ca_hash": "sha256:00",
            "ca_cert": CA,
            "cluster_info": "apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster: {server: 'https://[2001:db8::1]:6443'}\n",
        });
        let variables = format!(
            "hosts_dir: {}\nkubelet_is_played: false\nhostwright_run: !unsafe \"6ff1\"\nhostwright_address: !unsafe \"192.0.2.7\"\n\
             hostwright_facts: !unsafe {}\nhostwright_keys: !unsafe {}\nhostwright_join: !unsafe {join}\nhostwright_root_ca: !unsafe {}\n",
            serde_json::json!(folder.path().join("hosts")),
            serde_json::json!({"kernel": HOSTILE, HOSTILE: 1}),
            serde_json::json!([format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 {HOSTILE}")]),
            serde_json::json!(CA),
        );
        std::fs::write(folder.path().join("inventory.yaml"), inventory).unwrap();
        std::fs::write(folder.path().join("variables.yaml"), variables).unwrap();
        Self { folder, host }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("hosts").join(self.host).join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    async fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(&support::python().await.ansible_playbook);
        let variables = format!("@{}", self.folder.path().join("variables.yaml").display());
        command.arg("-i").arg(self.folder.path().join("inventory.yaml")).arg("-e").arg(variables);
        command.arg("site.yml").args(more).current_dir(self.folder.path().join("policy"));
        command
            .env("ANSIBLE_NOCOLOR", "1")
            .env("LC_ALL", "C.UTF-8")
            .env("ANSIBLE_HOME", self.folder.path().join("ansible"));
        command.env_remove("ANSIBLE_CONFIG").stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn run(&self, more: &[&str]) -> Run {
        Run::of(self.command(more).await.output().await.unwrap())
    }
}

#[tokio::test]
async fn a_web_host_is_checked_then_provisioned_then_left_alone() {
    let policy = Policy::new("web-1.example.org", "web").await;
    let check = policy.run(&["--check", "--diff"]).await;
    assert_eq!(check.code, Some(0), "{}", check.output);
    assert!(
        check.output.contains("+web-1.example.org"),
        "a check shows what it would change: {}",
        check.output
    );
    assert!(!policy.file("etc").exists(), "a check changes nothing");

    let first = policy.run(&[]).await;
    assert_eq!(first.code, Some(0), "{}", first.output);
    let counts = first.counts();
    assert!((15..=25).contains(&counts["ok"]) && counts["changed"] >= 15, "{}", first.output);
    assert!(!first.output.contains("WARNING"), "{}", first.output);

    assert_eq!(policy.text("etc/hostname"), "web-1.example.org\n");
    assert!(policy.text("etc/motd").contains("Groups: web"));
    assert!(policy.text("etc/collectd/collectd.conf").contains("LoadPlugin apache"));
    assert!(
        policy
            .text("etc/ssh/ssh_known_hosts")
            .contains(&format!("web-1.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 {HOSTILE}"))
    );
    let facts: serde_json::Value = serde_json::from_str(&policy.text("etc/hostwright/facts.json")).unwrap();
    assert_eq!(facts, serde_json::json!({"kernel": HOSTILE, HOSTILE: 1}));
    let password = policy.text("etc/hostwright/console-password");
    assert!(!first.output.contains(password.trim()), "a secret was printed");

    let second = policy.run(&[]).await;
    assert_eq!((second.code, second.counts()["changed"]), (Some(0), 0), "{}", second.output);
}

#[tokio::test]
async fn a_worker_introduces_itself_with_the_token() {
    let policy = Policy::new("node-1.example.org", "k8s_worker").await;
    let check = policy.run(&["--check", "--diff"]).await;
    assert_eq!(check.code, Some(0), "{}", check.output);
    let run = policy.run(&["--diff"]).await;
    assert_eq!(run.code, Some(0), "{}", run.output);
    assert!(!format!("{}{}", check.output, run.output).contains("0123456789abcdef"), "the token was printed");
    let kubeconfig: serde_json::Value =
        serde_saphyr::from_str(&policy.text("etc/kubernetes/bootstrap-kubelet.conf")).unwrap();
    assert_eq!(kubeconfig["users"][0]["user"]["token"], "abcdef.0123456789abcdef");
    assert_eq!(kubeconfig["clusters"][0]["cluster"]["server"], "https://[2001:db8::1]:6443");
    let join: serde_json::Value = serde_saphyr::from_str(&policy.text("etc/kubernetes/join.yaml")).unwrap();
    assert_eq!(join["discovery"]["bootstrapToken"]["apiServerEndpoint"], "[2001:db8::1]:6443");
    assert_eq!(policy.text("etc/kubernetes/pki/ca.crt"), CA);
    assert!(!policy.file("etc/collectd").exists(), "a member of the cluster is no target");
}

#[tokio::test]
async fn a_controller_checks_the_api_servers_with_the_root_ca() {
    let policy = Policy::new("ctl-1.example.org", "k8s_controller").await;
    let check = policy.run(&["--check", "--diff"]).await;
    assert_eq!(check.code, Some(0), "{}", check.output);
    let run = policy.run(&[]).await;
    assert_eq!(run.code, Some(0), "{}", run.output);
    let ca = policy.file("etc/haproxy/kube-root-ca.crt");
    assert_eq!(std::fs::read_to_string(&ca).unwrap(), CA);
    let haproxy = policy.text("etc/haproxy/haproxy.cfg");
    assert!(haproxy.contains("option httpchk\n"), "{haproxy}");
    assert!(haproxy.contains(&format!(
        "check-ssl check-sni kubernetes verify required verifyhost kubernetes ca-file {}",
        ca.display()
    )));
    assert!(haproxy.contains("server api-3 [2001:db8::13]:6443"));
    // Debian keeps it where a user's PATH does not reach.
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let checked = Command::new("haproxy")
        .arg("-c")
        .arg("-f")
        .arg(policy.file("etc/haproxy/haproxy.cfg"))
        .env("PATH", path)
        .output();
    let checked = checked.await.expect("haproxy is missing: apt-get install haproxy");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[tokio::test]
async fn each_kind_of_host_ends_as_its_name_says_and_ara_records_them_at_once() {
    // The name, Ansible's exit code, ARA's status, then: unreachable, failed, rescued, ignored.
    let kinds = [
        ("web-2.example.org", 0, "completed", [0, 0, 0, 0]),
        ("broken-1.example.org", 2, "failed", [0, 1, 0, 0]),
        ("lost-1.example.org", 4, "failed", [1, 0, 0, 0]),
        ("quirky-1.example.org", 0, "completed", [0, 0, 1, 1]),
    ];
    let ara = support::ara().await;
    let python = support::python().await;
    let mut children = Vec::new();
    for (host, ..) in kinds {
        let policy = Policy::new(host, "web").await;
        let mut command = policy.command(&[]).await;
        command
            .env("ANSIBLE_CALLBACK_PLUGINS", &python.callback_plugins)
            .env("ANSIBLE_ACTION_PLUGINS", &python.action_plugins)
            .env("ARA_API_CLIENT", "http")
            .env("ARA_API_SERVER", ara.url())
            .env("ARA_DEFAULT_LABELS", format!("at-once-{host}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        children.push((command.spawn().unwrap(), policy));
    }
    for ((host, code, status, ends), (child, _policy)) in kinds.into_iter().zip(children) {
        let run = Run::of(child.wait_with_output().await.unwrap());
        // ARA's trouble is only a warning to Ansible.
        assert!(!run.output.contains("WARNING") && !run.output.contains("locked"), "{}", run.output);
        let counts = run.counts();
        assert_eq!(run.code, Some(code), "{}", run.output);
        assert_eq!(
            ["unreachable", "failed", "rescued", "ignored"].map(|name| counts[name]),
            ends,
            "{}",
            run.output
        );
        let said = match host.split_once('-').unwrap().0 {
            "broken" => "srv/data/lost+found': No such file or directory",
            "lost" => "port 1: Connection refused",
            _ => host,
        };
        assert!(run.output.contains(said), "{}", run.output);
        let playbook = only(&ara.url(), &format!("playbooks?label=at-once-{host}")).await;
        assert_eq!(playbook["status"], status, "{playbook}");
        let recorded = only(&ara.url(), &format!("hosts?playbook={}", playbook["id"])).await;
        for count in ["ok", "changed", "failed", "unreachable", "skipped"] {
            assert_eq!(recorded[count], counts[count], "{host} {count}: {recorded}");
        }
    }
}

/// The only result of a question to ARA.
async fn only(url: &str, question: &str) -> serde_json::Value {
    rustls::crypto::ring::default_provider().install_default().ok();
    let answer: serde_json::Value =
        reqwest::get(format!("{url}/api/v1/{question}")).await.unwrap().json().await.unwrap();
    assert_eq!(answer["count"], 1, "{question}: {answer}");
    answer["results"][0].clone()
}
