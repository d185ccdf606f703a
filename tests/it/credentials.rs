//! S03: credentials that expire, and the plugins that get them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::console::{Far, wait_for_console};
use crate::gate::Gate;
use crate::ground::Ground;
use crate::operators::pending;
use crate::proxy::Proxy;
use crate::pty::Pty;

/// What the plugin says on its standard error, and what nobody may see.
const SPEAKS: &str = "THE PLUGIN SPEAKS";
const SECRET: &str = "s3cret-of-the-plugin";

/// A plugin that waits for the file `go`, tries to read what is typed, and prints the file `credential`.
const PLUGIN: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 9
echo "THE PLUGIN SPEAKS" >&2
echo run >>runs
printf '\033[2J\n' >&2
if read -r line; then echo "$line" >>stolen; fi
while [ ! -e go ]; do sleep 0.05; done
if [ -e over ]; then echo "your session is over, say login" >&2; exit 1; fi
cat credential
"#;

/// A kubeconfig whose user is whom the plugin says.
fn with_plugin(far: &Far) -> std::path::PathBuf {
    let folder = far.path().join("plugin");
    std::fs::create_dir(&folder).unwrap();
    let plugin = folder.join("login");
    std::fs::write(&plugin, PLUGIN).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o700)).unwrap();
    let kubeconfig = far.path().join("kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin:?}, interactiveMode: Always, \
         env: [{{name: SECRET, value: {SECRET}}}]}}}}"
    );
    std::fs::write(&kubeconfig, text.replace("{token: none}", &exec)).unwrap();
    folder
}

fn credential(folder: &Path, token: &str, expires: Option<&str>, yaml: bool) {
    let expires = expires.map(|at| format!("\"expirationTimestamp\": \"{at}\", ")).unwrap_or_default();
    let text = match yaml {
        true => format!(
            "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus:\n  token: {token}\n"
        ),
        false => format!(
            "{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \
             \"status\": {{{expires}\"token\": \"{token}\"}}}}"
        ),
    };
    std::fs::write(folder.join("new"), text).unwrap();
    std::fs::rename(folder.join("new"), folder.join("credential")).unwrap();
}

/// Nothing of the plugin is on the screen, and nothing that was typed came to it.
fn assert_kept_apart(pty: &Pty, folder: &Path) {
    let sent = String::from_utf8_lossy(&pty.bytes()).into_owned();
    assert!(!sent.contains(SPEAKS) && !sent.contains(SECRET), "{}", pty.screen());
    assert!(!folder.join("stolen").exists(), "the plugin read what was typed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_has_neither_screen_nor_keys_and_the_console_does_not_wait_for_it() {
    let ground = Ground::new().await;
    pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    gate.only("one");
    let far = Far::at(&gate.url());
    let folder = with_plugin(&far);
    credential(&folder, "one", None, false);
    let mut pty = Pty::start(far.command(&[]), (120, 40));
    wait_for_console(&mut pty);
    pty.wait_until("the plugin", |_| folder.join("runs").exists());
    // It has not answered yet; the console has.
    pty.keys("?").wait_for("HOSTS").keys("<esc>").wait_gone("HOSTS").write(b"3").wait_for("a add").keys("1");
    assert!(!pty.screen().contains("web-1.example.org"));
    std::fs::write(folder.join("go"), "").unwrap();
    pty.wait_for("web-1.example.org");
    assert_kept_apart(&pty, &folder);
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn quitting_does_not_wait_for_a_plugin() {
    let ground = Ground::new().await;
    let far = Far::at(&ground.url);
    let folder = with_plugin(&far);
    let mut pty = Pty::start(far.command(&[]), (80, 24));
    wait_for_console(&mut pty);
    pty.wait_until("the plugin", |_| folder.join("runs").exists());
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
    assert_kept_apart(&pty, &folder);
    std::fs::write(folder.join("go"), "").unwrap();
}

/// While the console runs its token is no good any more: the plugin is asked again, what it says is told, and a good one counts.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_of_a_plugin_is_got_anew_and_its_failure_is_told() {
    let (expires, past) = (Some("2020-01-01T00:00:00Z"), None);
    for (what, expires, yaml) in
        [("json", past, false), ("yaml", past, true), ("with its end", expires, false)]
    {
        let ground = Ground::new().await;
        pending(&ground, "web-1.example.org").await;
        let gate = Gate::start(&ground.url).await;
        let proxy = Proxy::start(gate.port()).await;
        gate.only("one");
        let far = Far::at(&format!("http://127.0.0.1:{}", proxy.port()));
        let folder = with_plugin(&far);
        credential(&folder, "one", expires, yaml);
        std::fs::write(folder.join("go"), "").unwrap();
        let mut pty = Pty::start(far.command(&[]), (160, 40));
        pty.wait_for("web-1.example.org");
        gate.only("two");
        std::fs::write(folder.join("over"), "").unwrap();
        proxy.cut();
        pty.wait_for("your session is over, say login");
        pty.wait_for("not authenticated to far").wait_for("web-1.example.org").wait_for("as of");
        pending(&ground, "web-2.example.org").await;
        credential(&folder, "two", expires, yaml);
        std::fs::remove_file(folder.join("over")).unwrap();
        pty.wait_for("web-2.example.org").wait_gone("as of").wait_gone("not authenticated");
        assert_kept_apart(&pty, &folder);
        pty.keys("q");
        assert_eq!(pty.wait_exit(), 0, "{what}");
    }
}

/// A new login writes another token into the kubeconfig: it counts without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_a_new_login_wrote_counts_without_a_restart() {
    let ground = Ground::new().await;
    pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    gate.only("two");
    let far = Far::at(&gate.url());
    let mut pty = Pty::start(far.command(&[]), (160, 40));
    pty.wait_for("not authenticated to far").wait_for("log in to the cluster again");
    let kubeconfig = far.path().join("kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::write(&kubeconfig, text.replace("{token: none}", "{token: two}")).unwrap();
    pty.wait_for("web-1.example.org").wait_gone("log in to the cluster");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// An open log goes on with the new credentials: no line is lost and none is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_log_goes_on_after_its_line_and_its_token_broke() {
    let ground = Ground::loopback(|_| {}).await;
    let run = pending(&ground, "web-1.example.org").await;
    let log = crate::logs::with_pod(&ground, &run).await;
    let gate = Gate::start(&ground.url).await;
    let proxy = Proxy::start(gate.port()).await;
    gate.only("one");
    let far = Far::at(&format!("http://127.0.0.1:{}", proxy.port()));
    let folder = with_plugin(&far);
    credential(&folder, "one", None, false);
    std::fs::write(folder.join("go"), "").unwrap();
    for n in 1..=6 {
        log.write(n);
    }
    let mut pty = Pty::start(far.command(&[]), (120, 50));
    pty.wait_for("web-1.example.org").keys("<enter>").wait_for("line 006.");
    gate.only("two");
    proxy.cut();
    for n in 7..=11 {
        log.write(n);
    }
    pty.wait_for("not authenticated to far");
    credential(&folder, "two", None, false);
    pty.wait_for("line 011.");
    for n in 12..=16 {
        log.write(n);
    }
    pty.wait_for("line 016.");
    let screen = pty.screen();
    for n in 1..=16 {
        assert_eq!(screen.matches(&format!("line {n:03}.")).count(), 1, "line {n}:\n{screen}");
    }
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// How long a plugin may take is not ours to say: longer than a call may take, and its credentials count all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_takes_longer_than_a_call_may_is_waited_for() {
    let ground = Ground::new().await;
    pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    gate.only("one");
    let far = Far::at(&gate.url());
    let folder = with_plugin(&far);
    credential(&folder, "one", Some("2020-01-01T00:00:00Z"), false);
    let mut pty = Pty::start(far.command(&[]), (120, 40));
    wait_for_console(&mut pty);
    pty.wait_until("the plugin", |_| folder.join("runs").exists());
    // The length of the wait is the input.
    tokio::time::sleep(Duration::from_secs(20)).await;
    std::fs::write(folder.join("go"), "").unwrap();
    pty.wait_for("web-1.example.org");
    assert_kept_apart(&pty, &folder);
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}
