//! What Ansible did, read from a real ARA: every count as in Ansible's own recap, also while it still runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use hostwright::backend::ara::{Ara, AraError};
use hostwright::config::{self, AraCredentials, Secret};
use hostwright::domain::results::{PlaybookStatus, ResultStatus, RunResults, TaskResult, run_label};
use hostwright::domain::{Counts, ProblemKind, parse_recap};
use hostwright::ops::results;
use hostwright::play::python::Python;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::support;

const LONG: Duration = Duration::from_secs(120);

fn ara(url: &str, credentials: AraCredentials) -> Ara {
    Ara::new(&config::Ara { url: url.into(), credentials, ca: None }).unwrap()
}

fn anonymous(url: &str) -> Ara {
    ara(url, AraCredentials::Anonymous)
}

/// `ansible-playbook`, recording in an ARA under a label.
fn ansible(python: &Python, url: &str, run: &str, folder: &Path) -> Command {
    let mut command = Command::new(&python.ansible_playbook);
    command
        .args(["-i", "inventory", "--diff", "site.yml"])
        .current_dir(folder)
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", python.bin.display()))
        .env("HOME", folder)
        .env("ANSIBLE_HOST_KEY_CHECKING", "False")
        .env("ANSIBLE_CALLBACK_PLUGINS", &python.callback_plugins)
        .env("ANSIBLE_ACTION_PLUGINS", &python.action_plugins)
        .env("ARA_API_CLIENT", "http")
        .env("ARA_API_SERVER", url)
        .env("ARA_DEFAULT_LABELS", run_label(run))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn recaps(output: &str) -> BTreeMap<String, Counts> {
    output.lines().skip_while(|line| !line.starts_with("PLAY RECAP")).filter_map(parse_recap).collect()
}

fn by_host(results: &[TaskResult]) -> BTreeMap<String, Counts> {
    let mut hosts: BTreeMap<String, Vec<TaskResult>> = BTreeMap::new();
    for result in results {
        hosts.entry(result.host.clone()).or_default().push(result.clone());
    }
    hosts.into_iter().map(|(host, results)| (host, RunResults::count(&results))).collect()
}

fn find<'a>(results: &'a RunResults, task: &str, host: &str) -> &'a TaskResult {
    let found = results.results.iter().find(|r| r.task == task && r.host == host);
    found.unwrap_or_else(|| panic!("no result of {task:?} on {host}"))
}

const INVENTORY: &str = "\
[local]
okay
fails
rescues
ignores
both
always
[remote]
gone
shrug
[local:vars]
ansible_connection=local
[remote:vars]
ansible_connection=ssh
ansible_host=127.0.0.1
ansible_port=1
[all:vars]
ansible_python_interpreter={{ ansible_playbook_python }}
";

const EVERYTHING: &str = r#"
- name: Everything at once
  hosts: all
  gather_facts: false
  tasks:
    - name: Reach it
      ping:
      ignore_unreachable: "{{ inventory_hostname == 'shrug' }}"
    - name: Reach it again
      ping:
      ignore_unreachable: "{{ inventory_hostname == 'shrug' }}"
    - name: Change something
      command: echo hi
      when: inventory_hostname != 'shrug'
    - name: Skip
      debug: msg=x
      when: false
    - name: Fail and ignore
      command: /bin/false
      ignore_errors: true
      when: inventory_hostname in ['ignores', 'both']
    - name: Risky
      when: inventory_hostname in ['rescues', 'both']
      block:
        - name: Fails inside
          command: sh -c 'echo out; echo err >&2; exit 3'
      rescue:
        - name: Rescue it
          debug: msg=rescued
      always:
        - name: Always
          debug: msg=always
    - name: Included
      include_tasks: more.yml
      when: inventory_hostname in ['okay', 'both']
    - import_tasks: more.yml
    - name: Once
      debug: msg=once
      run_once: true
    - name: Delegated
      command: echo
      delegate_to: okay
      when: inventory_hostname in ['both', 'ignores']
    - name: Until
      command: sh -c 'echo >> {{ playbook_dir }}/tries-{{ inventory_hostname }}; test $(wc -l < {{ playbook_dir }}/tries-{{ inventory_hostname }}) -ge 2'
      register: tried
      until: tried is succeeded
      retries: 3
      delay: 0
      when: inventory_hostname == 'okay'
    - name: Flush
      meta: flush_handlers
    - name: Rescue that fails as well
      when: inventory_hostname == 'fails'
      block:
        - name: First failure
          fail: msg=first
      rescue:
        - name: Second failure
          fail: msg=second
    - name: Always after a failure
      when: inventory_hostname == 'always'
      block:
        - name: Fails for good
          fail: msg=bad
      always:
        - name: Cleans up
          debug: msg=clean
- name: With a role
  hosts: okay:both:rescues
  roles:
    - web
  tasks:
    - name: Secret
      command: echo hunter2
      no_log: true
    - name: Loop
      debug: msg={{ item }}
      loop: [1, 2]
    - name: Loop that fails partly
      command: "/bin/sh -c 'exit {{ item }}'"
      loop: [0, 1]
      ignore_errors: true
    - name: failed and changed
      shell: "true"
      failed_when: true
      ignore_errors: true
    - name: In a role, by name
      include_role: {name: web, tasks_from: extra}
    - name: Rescued once more
      when: inventory_hostname == 'rescues'
      block:
        - name: Last failure
          fail: msg=late
      rescue:
        - name: Last rescue
          meta: clear_host_errors
"#;

const ROLE: [(&str, &str); 3] = [
    (
        "roles/web/tasks/main.yml",
        "- name: Write the file\n  copy: {content: \"a line\\n\", dest: \"{{ playbook_dir }}/out-{{ inventory_hostname }}\"}\n  notify: Restart\n- name: \"with : colon\"\n  debug: msg=x\n",
    ),
    ("roles/web/tasks/extra.yml", "- name: Extra\n  debug: msg=extra\n"),
    ("roles/web/handlers/main.yml", "- name: Restart\n  debug: msg=restarted\n"),
];

/// Runs all of it once, recorded as run `everything`: two tests look at it. Returns Ansible's own recap.
async fn everything(url: &str) -> &'static BTreeMap<String, Counts> {
    static DONE: OnceCell<BTreeMap<String, Counts>> = OnceCell::const_new();
    DONE.get_or_init(|| play_everything(url)).await
}

async fn play_everything(url: &str) -> BTreeMap<String, Counts> {
    let folder = support::temp();
    write(folder.path(), &ROLE);
    write(
        folder.path(),
        &[
            ("inventory", INVENTORY),
            ("site.yml", EVERYTHING),
            ("more.yml", "- name: More\n  debug: msg=more\n"),
        ],
    );
    let done = ansible(support::python().await, url, "everything", folder.path()).output().await.unwrap();
    let output = String::from_utf8(done.stdout).unwrap();
    let recaps = recaps(&output);
    assert_eq!(recaps.len(), 8, "the recap's hosts");
    recaps
}

/// S19: more ways to end than the scenario has, host by host; see also `rerun.rs`.
#[tokio::test]
async fn every_count_is_that_of_the_recap() {
    let url = support::ara().await.url();
    let recaps = everything(&url).await;
    let ara = anonymous(&url);
    ara.ping().await.unwrap();
    let found = results::of_run(&ara, "everything").await.unwrap();

    assert_eq!(by_host(&found.results), *recaps, "host by host");
    let mut sum = Counts::default();
    recaps.values().for_each(|counts| sum.add(*counts));
    assert_eq!(found.counts, sum);
    assert!(sum.rescued > 2 && sum.ignored > 4 && sum.unreachable == 1 && sum.failed == 2, "{sum:?}");

    let [playbook] = found.playbooks.as_slice() else { panic!("{:?}", found.playbooks) };
    assert_eq!(playbook.status, PlaybookStatus::Failed);
    assert!(playbook.labels.contains(&"run:everything".to_owned()) && playbook.path.ends_with("site.yml"));
    assert_eq!(ara.playbooks("run:everything").await.unwrap(), found.playbooks);
    assert_eq!(ara.playbooks("run:everythin").await.unwrap(), []);

    let status = |task, host| find(&found, task, host).status;
    assert_eq!(status("Fails inside", "both"), ResultStatus::Rescued);
    assert_eq!(status("First failure", "fails"), ResultStatus::Rescued);
    assert_eq!(status("Second failure", "fails"), ResultStatus::Failed);
    assert_eq!(status("Fails for good", "always"), ResultStatus::Failed);
    assert_eq!(status("Reach it", "gone"), ResultStatus::Unreachable);
    assert_eq!(status("Reach it", "shrug"), ResultStatus::Ignored);
    let handler = find(&found, "Restart", "okay");
    assert_eq!((handler.role.as_deref(), handler.play.as_str()), (Some("web"), "With a role"));
    assert!(handler.place.ends_with("roles/web/handlers/main.yml:1"), "{}", handler.place);
    assert_eq!(find(&found, "with : colon", "okay").role.as_deref(), Some("web"));
    assert_eq!(find(&found, "Extra", "okay").role.as_deref(), Some("web"));
    assert_eq!(find(&found, "Loop", "okay").role, None);
    assert!(found.results.is_sorted_by_key(|result| result.id));
}

#[tokio::test]
async fn a_result_is_decoded_whole() {
    let url = support::ara().await.url();
    everything(&url).await;
    let ara = anonymous(&url);
    let found = results::of_run(&ara, "everything").await.unwrap();
    let details = async |task, host| {
        let row = find(&found, task, host);
        let details = results::details(&ara, row.id).await.unwrap();
        assert_eq!(&details.result, row, "alone as in the list");
        details
    };
    let inside = details("Fails inside", "both").await;
    assert_eq!((inside.stdout.as_str(), inside.stderr.as_str(), inside.rc), ("out", "err", Some(3)));
    assert_eq!((inside.message.as_str(), inside.exception.as_str()), ("non-zero return code", ""));
    assert_eq!(inside.content["rc"], 3);
    details("First failure", "fails").await;
    assert_eq!(details("Second failure", "fails").await.message, "second");
    assert!(details("Reach it", "gone").await.message.contains("Connection refused"));
    details("Reach it", "shrug").await;
    let file = details("Write the file", "okay").await;
    let [diff] = file.diffs.as_slice() else { panic!("{:?}", file.diffs) };
    assert_eq!((diff.before.as_str(), diff.after.as_str()), ("", "a line\n"));
    assert!(diff.after_header.ends_with("out-okay"), "{diff:?}");
    let secret = details("Secret", "okay").await;
    assert!(secret.censored && !format!("{secret:?}").contains("hunter2"));
    let items = details("Loop that fails partly", "okay").await;
    assert!(items.message.ends_with("item=1: non-zero return code"), "{}", items.message);
    assert_eq!(items.rc, Some(1));

    let error = results::details(&ara, 999_999_999).await.unwrap_err();
    assert_eq!(error, AraError::NotFound { url, what: "result 999999999".into() });
    assert_eq!(error.problem().kind, ProblemKind::NotFound);
}

/// Something between us and ARA that notes what is asked.
async fn noting(url: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = asked.clone();
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = reqwest::Client::new();
    let forward = async move |uri: Uri| -> Response {
        note.lock().unwrap().push(uri.path().to_owned());
        let answer = client.get(format!("{url}{uri}")).send().await.unwrap();
        ([(header::CONTENT_TYPE, "application/json")], answer.bytes().await.unwrap()).into_response()
    };
    (serve(Router::new().fallback(forward)).await, asked)
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test]
async fn a_run_is_followed_while_it_goes_on() {
    const PLAY: &str = r#"
- name: Slow
  hosts: okay:both
  gather_facts: false
  tasks:
    - block:
        - name: Broken
          fail: msg=broken
      rescue:
        - name: Mended
          debug: msg=mended
    - name: Waits
      command: sh -c 'until test -e {{ playbook_dir }}/go; do sleep 0.05; done'
- name: Second
  hosts: okay
  gather_facts: false
  tasks:
    - name: Last
      debug: msg=last
"#;
    let real = support::ara().await.url();
    let (url, asked) = noting(real.clone()).await;
    let ara = anonymous(&url);
    let folder = support::temp();
    write(folder.path(), &[("inventory", INVENTORY), ("site.yml", PLAY)]);
    let mut following = results::follow("live");
    assert_eq!(following.look(&ara).await.unwrap(), RunResults::default());

    let playing = ansible(support::python().await, &real, "live", folder.path()).output();
    let playing = tokio::spawn(playing);
    let during = tokio::time::timeout(LONG, async {
        loop {
            let found = following.look(&ara).await.unwrap();
            if found.results.len() == 4 {
                return found;
            }
        }
    });
    let during = during.await.expect("the first results in time");
    assert_eq!(during.playbooks[0].status, PlaybookStatus::Running);
    // Nobody knows yet that the failure is taken care of.
    assert_eq!(find(&during, "Broken", "okay").status, ResultStatus::Failed);
    assert_eq!((during.counts.failed, during.counts.ok), (2, 2));

    asked.lock().unwrap().clear();
    assert_eq!(following.look(&ara).await.unwrap(), during);
    assert_eq!(*asked.lock().unwrap(), ["/api/v1/playbooks"], "nothing new is one request");

    std::fs::write(folder.path().join("go"), "").unwrap();
    let output = String::from_utf8(playing.await.unwrap().unwrap().stdout).unwrap();
    let after = following.look(&ara).await.unwrap();
    assert_eq!(by_host(&after.results), recaps(&output));
    assert_eq!(after.playbooks[0].status, PlaybookStatus::Completed);
    assert_eq!(find(&after, "Broken", "both").status, ResultStatus::Rescued);
    assert_eq!(after, results::of_run(&ara, "live").await.unwrap(), "as if read at once");

    asked.lock().unwrap().clear();
    following.look(&ara).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["/api/v1/playbooks"]);
}

/// A second ARA, which lets nobody read without a password.
async fn guarded() -> (tokio::process::Child, tempfile::TempDir, String) {
    let python = support::python().await;
    let folder = support::temp();
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let command = || {
        let mut command = Command::new(&python.python);
        command
            .env("ARA_BASE_DIR", folder.path())
            .env("ARA_READ_LOGIN_REQUIRED", "true")
            .env("ARA_WRITE_LOGIN_REQUIRED", "true")
            .env("DJANGO_SETTINGS_MODULE", "ara.server.settings")
            .env("DJANGO_SUPERUSER_PASSWORD", "hunter2")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    };
    let user = ["createsuperuser", "--noinput", "--username=ann", "--email=ann@example.org"];
    for arguments in [&["migrate"][..], &user[..]] {
        let done = command().args(["-m", "ara.server"]).args(arguments).output().await.unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let listen = format!("--listen=127.0.0.1:{port}");
    let serving = command().args(["-m", "waitress", &listen, "ara.server.wsgi:application"]).spawn().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let up = async {
        while matches!(anonymous(&url).ping().await, Err(AraError::Unreachable { .. })) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, up).await.expect("ARA in time");
    (serving, folder, url)
}

#[tokio::test]
async fn credentials_open_what_is_closed() {
    let (_serving, folder, url) = guarded().await;
    let error = anonymous(&url).ping().await.unwrap_err();
    assert_eq!(error, AraError::WantsCredentials { url: url.clone() });
    assert_eq!(error.problem().kind, ProblemKind::NotAuthenticated);
    assert!(error.problem().advice.contains("ara.username"), "{}", error.problem());

    let basic = |password: &str| {
        ara(&url, AraCredentials::Basic { username: "ann".into(), password: Secret::new(password) })
    };
    let error = basic("wrong").ping().await.unwrap_err();
    assert!(matches!(error, AraError::NotAuthenticated { .. } | AraError::Forbidden { .. }), "{error}");
    let ara = basic("hunter2");
    ara.ping().await.unwrap();

    write(
        folder.path(),
        &[
            ("inventory", INVENTORY),
            (
                "site.yml",
                "- hosts: okay\n  gather_facts: false\n  tasks: [{name: Hello, debug: {msg: hi}}]\n",
            ),
        ],
    );
    let mut play = ansible(support::python().await, &url, "guarded", folder.path());
    play.env("ARA_API_USERNAME", "ann").env("ARA_API_PASSWORD", "hunter2");
    assert!(play.output().await.unwrap().status.success());
    let found = results::of_run(&ara, "guarded").await.unwrap();
    assert_eq!((found.counts.ok, found.results[0].task.as_str()), (1, "Hello"));
}

#[tokio::test]
async fn what_is_not_ara_is_named() {
    let login = || async { Html("<html><form action=/login>") };
    let sent_on = || async { Redirect::to("/login?next=%2Fapi&token=hunter2") };
    let text = |text: &'static str| {
        move || async move { ([(header::CONTENT_TYPE, "application/json")], text).into_response() }
    };
    let router = Router::new()
        .nest("/page", Router::new().fallback(login))
        .nest("/redirect", Router::new().fallback(sent_on))
        .nest("/closed", Router::new().fallback(|| async { StatusCode::FORBIDDEN }))
        .nest("/broken", Router::new().fallback(|| async { StatusCode::BAD_GATEWAY }))
        .nest("/other", Router::new().fallback(text(r#"{"hello": "world"}"#)))
        .nest("/half", Router::new().fallback(text(r#"{"count": 1, "resu"#)));
    let url = serve(router).await;
    let ask = async |path: &str| anonymous(&format!("{url}{path}")).ping().await.unwrap_err();

    let page = ask("/page").await;
    assert!(matches!(&page, AraError::NotAra { reason, .. } if reason == "it sends a web page"), "{page}");
    let problem = page.problem();
    assert!(problem.to_string().contains("answers, but not as ARA"), "{problem}");
    assert!(problem.advice.contains("is a login page in front of it?"), "{problem}");
    let on = ask("/redirect").await;
    assert!(matches!(&on, AraError::NotAra { reason, .. } if reason == "it sends us on to /login"), "{on}");
    assert!(matches!(ask("/closed").await, AraError::Forbidden { .. }));
    let broken = ask("/broken").await;
    assert!(matches!(&broken, AraError::Failed { reason, .. } if reason.contains("502")), "{broken}");
    assert!(matches!(ask("/other").await, AraError::Malformed { .. }));
    assert!(matches!(ask("/half").await, AraError::Malformed { .. }));
    assert!(matches!(ask("/nothing").await, AraError::NotFound { .. }));

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = anonymous(&format!("http://{free}")).ping().await.unwrap_err();
    assert_eq!(
        nobody,
        AraError::Unreachable { url: format!("http://{free}"), reason: "Connection refused".into() }
    );
}

#[tokio::test]
async fn a_ca_of_ones_own_is_trusted_when_it_is_named() {
    const SERVER: &str = r#"
import datetime, http.server, ipaddress, ssl, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
folder = sys.argv[1]
now = datetime.datetime.now(datetime.timezone.utc)
def certificate(name, key, issuer, signer, extensions):
    named = lambda n: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)])
    made = (x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer)).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)))
    for extension, critical in extensions:
        made = made.add_extension(extension, critical)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
ca, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
open(folder + "/ca.pem", "wb").write(certificate("ca", ca, "ca", ca, [(x509.BasicConstraints(True, None), True)]))
names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
open(folder + "/leaf.pem", "wb").write(certificate("ara", leaf, "ca", ca, [(names, False)]) + leaf.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"count": 0, "next": null, "previous": null, "results": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/leaf.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.handle_error = lambda *_: None
server.serve_forever()
"#;
    let folder = support::temp();
    let mut serving = Command::new(&support::python().await.python)
        .args(["-c", SERVER])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = tokio::io::BufReader::new(serving.stdout.take().unwrap());
    let mut port = String::new();
    tokio::io::AsyncBufReadExt::read_line(&mut lines, &mut port).await.unwrap();
    let settings = |ca: Option<&str>| config::Ara {
        url: format!("https://127.0.0.1:{}", port.trim()),
        credentials: AraCredentials::Anonymous,
        ca: ca.map(|file| folder.path().join(file)),
    };
    let error = Ara::new(&settings(None)).unwrap().ping().await.unwrap_err();
    assert!(matches!(error, AraError::Tls { .. }), "{error:?}");
    Ara::new(&settings(Some("ca.pem"))).unwrap().ping().await.unwrap();
    write(folder.path(), &[("empty.pem", "nothing")]);
    for bad in ["empty.pem", "missing.pem"] {
        let error = Ara::new(&settings(Some(bad))).unwrap_err();
        assert!(matches!(error, AraError::Ca { .. }), "{error}");
    }
}

/// The wire of an ARA with many results, some of which become visible late.
struct Many {
    ids: Mutex<Vec<u64>>,
}

async fn answer(
    State(many): State<Arc<Many>>,
    Query(query): Query<BTreeMap<String, String>>,
    uri: Uri,
) -> Response {
    let ids = many.ids.lock().unwrap().clone();
    let number = |key: &str, default| query.get(key).map_or(default, |text| text.parse().unwrap());
    let (limit, offset) = (number("limit", 100), number("offset", 0));
    let (count, rows) = match uri.path() {
        "/api/v1/playbooks" => (
            1,
            json!([{"id": 7, "status": "running", "labels": [{"id": 1, "name": "run:many"}], "path": "/p",
                    "items": {"results": ids.len()}}]),
        ),
        "/api/v1/plays" => (1, json!([{"id": 1, "name": null}])),
        "/api/v1/tasks" => (1, json!([{"id": 1, "name": "T", "action": "debug", "path": "/p", "lineno": 1}])),
        "/api/v1/hosts" => (1, json!([{"id": 1, "name": "h"}])),
        _ => {
            assert_eq!((query["order"].as_str(), query["playbook"].as_str()), ("id", "7"));
            let row = |id: &u64| {
                json!({"id": id, "status": "ok", "playbook": 7, "play": 1, "task": 1, "host": 1,
                "changed": false, "ignore_errors": false, "started": null, "ended": null})
            };
            (ids.len(), ids.iter().skip(offset).take(limit).map(row).collect())
        }
    };
    let next = (offset + limit < count).then_some("http://somewhere.else/next");
    axum::Json(json!({"count": count, "next": next, "previous": null, "results": rows})).into_response()
}

#[tokio::test]
async fn many_results_are_read_in_pages_late_ones_too_and_never_too_many() {
    let many = Arc::new(Many { ids: Mutex::new((1..=2_500).filter(|id| *id != 2_000).collect()) });
    let url = serve(Router::new().fallback(answer).with_state(many.clone())).await;
    let ara = anonymous(&url);
    let mut following = results::follow("many");
    let ids = |found: &RunResults| found.results.iter().map(|r| r.id).collect::<Vec<_>>();
    let found = following.look(&ara).await.unwrap();
    assert_eq!((ids(&found), found.truncated), (many.ids.lock().unwrap().clone(), false));
    // Committed later than those with higher ids.
    *many.ids.lock().unwrap() = (1..=2_510).collect();
    let found = following.look(&ara).await.unwrap();
    assert_eq!(ids(&found), (1..=2_510).collect::<Vec<_>>());

    *many.ids.lock().unwrap() = (1..=20_500).collect();
    let found = following.look(&ara).await.unwrap();
    assert_eq!((found.results.len(), found.truncated), (20_000, true));
}
