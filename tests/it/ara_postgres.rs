//! ARA as it is deployed, against a real PostgreSQL that wants client certificates: what `deploy render` prints is run as a kubelet
//! would run it, in the image's Python environment. Only paths and the address that it listens on are others.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use hostwright::backend::ara::Ara;
use hostwright::config::{self, AraCredentials};
use hostwright::domain::results::{PlaybookStatus, ResultStatus, run_label};
use hostwright::ops::results;
use hostwright::play::leash::{self, Leashed};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::authelia::{Policy, Request, Rules, TRICKS};
use crate::deploy::{Home, find};
use crate::support::certificates::Ca;
use crate::support::postgres::{OTHER_ADDRESS, Postgres, identity};
use crate::support::{self, image};

const LONG: Duration = Duration::from_secs(120);
const SECRET_KEY: &str = "signs cookies in this test alone, and is long enough for Django";

/// What is shipped, rendered for a database, with a folder for each of the pod's.
struct Shipped {
    objects: Vec<Value>,
    folder: TempDir,
    programs: &'static Path,
    port: u16,
}

impl Shipped {
    async fn render(database: &str, database_port: u16) -> Self {
        let objects = Home::new(&format!(
            "ara.url = \"http://127.0.0.1\"\n\
             ara_server = {{ database = \"{database}\", port = {database_port}, keep_for = \"90d\" }}\n"
        ))
        .objects();
        let shipped = Self {
            objects,
            folder: support::temp(),
            programs: image::programs().await,
            port: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port(),
        };
        for folder in ["etc/ara", "etc/ara-database", "var/lib/ara", "tmp"] {
            std::fs::create_dir_all(shipped.folder.path().join(folder)).unwrap();
        }
        let settings = &find(&shipped.objects, "ConfigMap", "hostwright-ara")["data"]["settings.yaml"];
        let settings = shipped.here(settings.as_str().unwrap());
        std::fs::write(shipped.folder.path().join("etc/ara/settings.yaml"), settings).unwrap();
        shipped
    }

    /// A text of the pod's with this machine's paths and addresses.
    fn here(&self, text: &str) -> String {
        let at = |path: &str| format!("{}{path}", self.folder.path().display());
        let text = match text {
            "*:8000" | "--listen=*:8000" => text.replace("*:8000", &format!("127.0.0.1:{}", self.port)),
            "http://hostwright-ara:8000" => self.url(),
            "/tmp" => at("/tmp"),
            _ => text.to_owned(),
        };
        let paths = ["/etc/ara-database/", "/etc/ara/", "/var/lib/ara"];
        paths.iter().fold(text, |text, path| text.replace(path, &at(path)))
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Puts the database's CA, a certificate and its key where the Secret would be.
    fn present(&self, ca: &Ca, certificate: &(String, String)) {
        let folder = self.folder.path().join("etc/ara-database");
        // What was there may be read-only to us.
        std::fs::remove_dir_all(&folder).unwrap();
        identity(&folder, ca, certificate);
        // A kubelet writes them as root with the mode of the manifest, and the pod reads them by its group. Who is not root can't make
        // it so, and libpq wants more of who owns the key.
        let secret = &self.pod("Deployment", "hostwright-ara", "/spec/template")["volumes"][1]["secret"];
        let mode = u32::try_from(secret["defaultMode"].as_u64().unwrap()).unwrap();
        let mode = if rustix::process::geteuid().is_root() { mode } else { mode & 0o700 };
        let key = folder.join("tls.key");
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn pod(&self, kind: &str, name: &str, template: &str) -> &Value {
        find(&self.objects, kind, name).pointer(&format!("{template}/spec")).unwrap()
    }

    fn migrate(&self) -> &Value {
        &self.pod("Deployment", "hostwright-ara", "/spec/template")["initContainers"][0]
    }

    fn server(&self) -> &Value {
        &self.pod("Deployment", "hostwright-ara", "/spec/template")["containers"][0]
    }

    fn prune(&self) -> &Value {
        &self.pod("CronJob", "hostwright-ara-prune", "/spec/jobTemplate/spec/template")["containers"][0]
    }

    /// A container's command line, and its variables in the place of ours.
    fn command(&self, container: &Value) -> (std::path::PathBuf, Vec<String>, BTreeMap<String, String>) {
        let words = container["command"].as_array().unwrap().iter();
        let mut words = words.map(|word| self.here(word.as_str().unwrap()));
        let program = self.programs.join(words.next().unwrap());
        let variables = container["env"].as_array().unwrap().iter().map(|variable| {
            let value = variable["value"].as_str().map(|value| self.here(value)).unwrap_or_else(|| {
                let of = &variable["valueFrom"]["secretKeyRef"];
                assert_eq!((&of["name"], &of["key"]), (&"hostwright-ara".into(), &"secret-key".into()));
                SECRET_KEY.to_owned()
            });
            (variable["name"].as_str().unwrap().to_owned(), value)
        });
        let mut variables: BTreeMap<String, String> = variables.collect();
        variables.insert("PATH".into(), format!("{}:/usr/bin:/bin", self.programs.display()));
        variables.insert("LC_ALL".into(), "C.UTF-8".into());
        variables.insert("TMPDIR".into(), self.here("/tmp"));
        (program, words.collect(), variables)
    }

    async fn run(&self, container: &Value) -> (bool, String) {
        let (program, arguments, variables) = self.command(container);
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(variables).current_dir(self.folder.path());
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let Output { status, stdout, stderr } = tokio::time::timeout(LONG, output).await.unwrap().unwrap();
        (status.success(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
    }

    /// Starts the server and waits until its probe says that it is ready.
    async fn serve(&self) -> Leashed {
        let (program, arguments, variables) = self.command(self.server());
        let mut command =
            leash::command(support::exe(), Duration::from_secs(5), program.as_os_str(), arguments);
        command.env_clear().envs(variables).current_dir(self.folder.path());
        let log = std::fs::File::create(self.folder.path().join("ara.log")).unwrap();
        command.stderr(log.try_clone().unwrap()).stdout(log);
        let server = Leashed::spawn(command).unwrap();
        let ready = async {
            while self.probe("readinessProbe").await != Some(StatusCode::OK) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(LONG, ready).await.is_err() {
            panic!("{}", std::fs::read_to_string(self.folder.path().join("ara.log")).unwrap());
        }
        server
    }

    /// What a probe is answered.
    async fn probe(&self, name: &str) -> Option<StatusCode> {
        let probe = &self.server()[name]["httpGet"];
        let host = &probe["httpHeaders"][0];
        assert_eq!(host["name"], "Host");
        self.get(probe["path"].as_str().unwrap(), host["value"].as_str().unwrap()).await
    }

    async fn get(&self, path: &str, host: &str) -> Option<StatusCode> {
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = Client::builder().no_proxy().build().unwrap();
        let asked = client.get(format!("{}{path}", self.url())).header("Host", host).send().await;
        asked.ok().map(|answer| answer.status())
    }

    /// Records a playbook under a run's label.
    async fn record(&self, run: &str) {
        let folder = self.folder.path().join(run);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("site.yml"), PLAYBOOK).unwrap();
        let plugins = |kind: &str| format!("ara.setup.{kind}_plugins");
        let mut variables = BTreeMap::new();
        for kind in ["callback", "action"] {
            let asked =
                Command::new(self.programs.join("python")).args(["-m", &plugins(kind)]).output().await;
            let path = String::from_utf8(asked.unwrap().stdout).unwrap();
            variables.insert(format!("ANSIBLE_{}_PLUGINS", kind.to_uppercase()), path.trim().to_owned());
        }
        let path = format!("{}:/usr/bin:/bin", self.programs.display());
        let mut command = Command::new(self.programs.join("ansible-playbook"));
        command.args(["-i", "localhost,", "-c", "local", "site.yml"]).env_clear().envs(variables);
        command.env("PATH", path).env("HOME", &folder).env("LC_ALL", "C.UTF-8").current_dir(&folder);
        // Ansible goes by the system's idea of a home, which not every user has.
        command.env("ANSIBLE_REMOTE_TMP", folder.join("tmp"));
        command.env("ARA_API_CLIENT", "http").env("ARA_API_SERVER", self.url());
        command.env("ARA_DEFAULT_LABELS", run_label(run));
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(LONG, output).await.unwrap().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }

    /// The head of the answer to a path as it is written here: clients clean it first, and a proxy may not.
    async fn raw(&self, target: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        let ask = format!("GET {target} HTTP/1.0\r\nHost: localhost\r\nAccept: text/html\r\n\r\n");
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(LONG, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn client(&self) -> Ara {
        let settings = config::Ara { url: self.url(), credentials: AraCredentials::Anonymous, ca: None };
        Ara::new(&settings).unwrap()
    }
}

const PLAYBOOK: &str = "
- name: Recorded
  hosts: all
  gather_facts: false
  vars: {ansible_python_interpreter: '{{ ansible_playbook_python }}'}
  tasks:
    - {name: Say it, command: echo naïve ✓}
    - {name: Look, command: cat /nowhere, ignore_errors: true}
    - {name: Leave it, debug: {msg: x}, when: false}
";

#[tokio::test]
async fn a_playbook_is_recorded_read_and_pruned_with_the_shipped_settings() {
    let postgres = Postgres::start().await;
    let shipped = Shipped::render("127.0.0.1", postgres.port()).await;
    shipped.present(postgres.ca(), &postgres.ca().user("ara", "clients"));

    // The first container makes the tables, and again it finds nothing to do.
    let (ok, said) = shipped.run(shipped.migrate()).await;
    assert!(ok && said.contains("Applying api.0001_initial... OK"), "{said}");
    let (ok, said) = shipped.run(shipped.migrate()).await;
    assert!(ok && said.contains("No migrations to apply"), "{said}");

    let mut server = shipped.serve().await;
    assert_eq!(shipped.probe("livenessProbe").await, Some(StatusCode::OK));
    assert_eq!(shipped.get("/api/v1/playbooks", "hostwright-ara:8000").await, Some(StatusCode::OK));
    assert_eq!(
        shipped.get("/api/v1/playbooks", "elsewhere.example.org").await,
        Some(StatusCode::BAD_REQUEST)
    );
    // The web pages with what they load.
    assert_eq!(shipped.get("/", "hostwright-ara").await, Some(StatusCode::OK));
    // What Authelia lets in without a login is never a web page to ARA, however it is written.
    let rules = Rules::shipped();
    let page = |answer: &str| answer.starts_with("HTTP/1.0 200") && answer.contains("<title>ara ");
    assert!(page(&shipped.raw("/").await) && page(&shipped.raw("/hosts").await));
    let mut open = 0;
    for target in TRICKS {
        let request = Request { domain: "ara.example.org", from: "10.0.0.1", method: "GET", target };
        if rules.policy(&request) == Policy::Bypass {
            open += 1;
            let answer = shipped.raw(target).await;
            assert!(!page(&answer), "{target}: {answer}");
        }
    }
    assert!(open > 3);
    // It came in over TLS, with its own certificate.
    let log = postgres.log();
    assert!(log.contains("connection authenticated: identity=\"O=clients,CN=ara\" method=cert"), "{log}");
    let authorized =
        "connection authorized: user=ara database=ara application_name=hostwright-ara SSL enabled";
    assert!(log.contains(authorized), "{log}");

    for run in ["old", "kept", "new"] {
        shipped.record(run).await;
    }
    let ara = shipped.client();
    let found = results::follow("new").look(&ara).await.unwrap();
    assert_eq!(found.playbooks.len(), 1);
    assert_eq!(found.playbooks[0].status, PlaybookStatus::Completed);
    let how: Vec<_> = found.results.iter().map(|r| (r.task.as_str(), r.status)).collect();
    let wanted = [
        ("Say it", ResultStatus::Changed),
        ("Look", ResultStatus::Ignored),
        ("Leave it", ResultStatus::Skipped),
    ];
    assert_eq!(how, wanted);
    let details = ara.result(found.results[0].id).await.unwrap();
    assert_eq!(details.stdout, "naïve ✓");

    // Nobody can wait for 90 days.
    for (run, days) in [("old", 91), ("kept", 89)] {
        let id = ara.playbooks(&run_label(run)).await.unwrap()[0].id;
        let age = format!("UPDATE playbooks SET started = started - interval '{days} days' WHERE id = {id}");
        postgres.sql("ara", &age).await;
    }
    let left = async || {
        let mut left = Vec::new();
        for run in ["old", "kept", "new"] {
            left.push(ara.playbooks(&run_label(run)).await.unwrap().len());
        }
        left
    };
    assert_eq!(left().await, [1, 1, 1]);
    let (ok, said) = shipped.run(shipped.prune()).await;
    assert!(ok && said.contains("1 playbooks deleted"), "{said}");
    assert_eq!(left().await, [0, 1, 1]);
    // Its results went with it.
    assert_eq!(postgres.sql("ara", "SELECT count(*) FROM results").await, "6");
    assert!(results::follow("new").look(&ara).await.unwrap().results.len() == 3);

    // While the database is away it is not ready, and not started anew; with it, it is back at once, on every thread.
    postgres.pause().await;
    assert_ne!(shipped.probe("readinessProbe").await, Some(StatusCode::OK));
    assert_eq!(shipped.probe("livenessProbe").await, Some(StatusCode::OK));
    postgres.resume().await;
    assert_eq!(shipped.probe("readinessProbe").await, Some(StatusCode::OK));
    for _ in 0..20 {
        assert_eq!(shipped.get("/api/v1/playbooks", "localhost").await, Some(StatusCode::OK));
    }

    // Without a server the job fails, and is seen to.
    server.stop().await.unwrap();
    let (ok, said) = shipped.run(shipped.prune()).await;
    assert!(!ok, "{said}");
    postgres.stop().await;
}

#[tokio::test]
async fn without_the_right_certificate_nobody_comes_in_and_nobody_is_let_in() {
    let postgres = Postgres::start().await;
    let shipped = Shipped::render("127.0.0.1", postgres.port()).await;
    let strangers = Ca::new("another-ca");
    let ours = postgres.ca().user("ara", "clients");
    let files = shipped.folder.path().join("etc/ara-database");
    let refused = async |shipped: &Shipped, says: &str| {
        let (ok, said) = shipped.run(shipped.migrate()).await;
        assert!(!ok && said.contains(says), "{says}: {said}");
        assert_eq!(postgres.sql("ara", "SELECT count(*) FROM pg_tables WHERE tableowner = 'ara'").await, "0");
    };

    // No certificate at all.
    shipped.present(postgres.ca(), &ours);
    for name in ["tls.crt", "tls.key"] {
        std::fs::remove_file(files.join(name)).unwrap();
    }
    refused(&shipped, "connection requires a valid client certificate").await;
    // One of somebody else's CA.
    shipped.present(postgres.ca(), &strangers.user("ara", "clients"));
    refused(&shipped, "unknown ca").await;
    // One of another user.
    shipped.present(postgres.ca(), &postgres.ca().user("mallory", "clients"));
    refused(&shipped, "certificate authentication failed for user \"ara\"").await;
    // A server that another CA signed for.
    shipped.present(&strangers, &ours);
    refused(&shipped, "certificate verify failed").await;
    // A server that has another name: it answers there, but its certificate does not say so.
    assert!(postgres.try_at(OTHER_ADDRESS, "verify-ca").await.0);
    let (ok, said) = postgres.try_at("127.0.0.1", "disable").await;
    assert!(!ok && said.contains("no encryption"), "{said}");
    let elsewhere = Shipped::render(OTHER_ADDRESS, postgres.port()).await;
    elsewhere.present(postgres.ca(), &ours);
    refused(&elsewhere, "does not match host name \"127.0.0.2\"").await;
    // A key that others can read.
    shipped.present(postgres.ca(), &ours);
    std::fs::set_permissions(files.join("tls.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&shipped, "has group or world access").await;

    // With everything right the same command goes through.
    shipped.present(postgres.ca(), &ours);
    let (ok, said) = shipped.run(shipped.migrate()).await;
    assert!(ok, "{said}");
    postgres.stop().await;
}
