//! The debug bundle: what is in it, and what never is.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support;

/// One secret of each kind that a configuration can hold, as it is written.
const SECRETS: [&str; 11] = [
    "s3cret-amqp%40url",
    "s3cret-amqp-file",
    "s3cret-ara-password",
    "s3cret-ara-token",
    "s3cret-ara-token-file",
    "s3cret-ara-header",
    "s3cret-git-password",
    "s3cret-git-token",
    "s3cret-variable",
    "s3cret-hook-token",
    "s3cret-server-token",
];

const CONFIG: &str = r#"
environment = "one"
[server]
token_file = "server-token"
[environments.one]
hook_token_file = "hook-token"
kubernetes.kubeconfig = "/nonexistent/kubeconfig"
amqp.url = "amqp://me:s3cret-amqp%40url@127.0.0.1:1/%2f"
ara = { url = "http://127.0.0.1:1", username = "me", password = "s3cret-ara-password" }
policy = { source = "https://deploy:s3cret-git-password@git.example.org/policy.git", variables = { db = { db_password = "s3cret-variable" } } }
[environments.two]
policy.source = "https://s3cret-git-token@git.example.org/policy.git"
amqp.url_file = "amqp-url"
ara = { url = "http://127.0.0.1:1", token = "s3cret-ara-token" }
[environments.three]
policy.source = "/srv/policy"
ara = { url = "http://127.0.0.1:1", token_file = "ara-token" }
[environments.four]
policy.source = "/srv/policy"
ara = { url = "http://127.0.0.1:1", header = "X-Api-Key", header_value = "s3cret-ara-header" }
"#;

fn folder(config: &str) -> TempDir {
    let folder = support::temp();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    };
    write("config.toml", config);
    write("server-token", "s3cret-server-token\n");
    write("hook-token", "s3cret-hook-token\n");
    write("ara-token", "s3cret-ara-token-file\n");
    write("amqp-url", "amqp://me:s3cret-amqp-file@127.0.0.1:1/%2f\n");
    // A log should never hold a secret; if it does by mistake, it does not get out.
    let log: String = SECRETS.iter().map(|secret| format!("INFO it was {secret} all along\n")).collect();
    write("state/hostwright/log/hostwright.log", &format!("{log}s3cret-amqp@url\nINFO the end\u{1b}[2J\n"));
    folder
}

fn bundle(folder: &Path) -> Output {
    let mut command = Command::new(support::exe());
    command.arg("--config").arg(folder.join("config.toml")).args(["debug-bundle", "bundle.txt"]);
    command
        .env_clear()
        .env("HOME", folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("TERM", "xterm-kitty");
    command.env("HTTPS_PROXY", "http://me:s3cret-proxy@127.0.0.1:1").current_dir(folder);
    command.output().unwrap()
}

#[test]
fn it_says_all_that_helps_and_no_secret() {
    let folder = folder(CONFIG);
    let output = bundle(folder.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let path = folder.path().join("bundle.txt");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    for part in [
        &format!("hostwright {}", env!("CARGO_PKG_VERSION")),
        "== system",
        "TERM=xterm-kitty",
        "HTTPS_PROXY is set",
        "amqp://me:********@127.0.0.1:1/%2f",
        "config.toml:10:",
        "environment one",
        "cluster: Invalid: ",
        "queue: Unreachable: ",
        "ara: Unreachable: ",
        "hook-token file 0",
        "INFO it was ******** all along",
        "INFO the end",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    for secret in SECRETS.iter().chain(&["s3cret-amqp@url", "s3cret-proxy", "s3cret", "\u{1b}"]) {
        assert!(!text.contains(secret), "{secret:?} is in:\n{text}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains(secret) && !said.contains(secret));
    }
    let again = bundle(folder.path());
    assert_eq!(again.status.code(), Some(1), "a file that is there is not written over");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_configuration_with_mistakes_is_one_more_thing_to_tell() {
    let folder = folder("[server]\nlisten = 7\n");
    let output = bundle(folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("bundle.txt")).unwrap();
    assert!(text.contains("it has mistakes:") && text.contains("config.toml:2:"), "{text}");
    assert!(text.contains("INFO the end"), "{text}");
}
