//! Credentials through the real binary against a real AWS server: `env check`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::cloud::{Cloud, Desk};
use crate::pty::{CommandBuilder, Pty};
use crate::support;

const MFA: &str = "arn:aws:iam::123456789012:mfa/olga";
const ROLE: &str = "arn:aws:iam::123456789012:role/ops";

/// Ends the question for a code with Ctrl-C and compares the terminal's settings before and after.
fn interrupted(command: CommandBuilder) {
    let mut pty = Pty::start(Pty::command("cat"), (80, 24));
    let before = pty.settings();
    pty.keys("C-d").wait_exit();
    let mut pty = Pty::start(command, (200, 40));
    pty.wait_for("MFA code of").keys("C-c");
    assert_eq!(pty.wait_exit(), 1);
    assert_eq!(pty.settings(), before, "the terminal is left as it was");
}

/// The lines of one check.
fn lines(report: &Value, check: &str) -> Vec<(String, String)> {
    let lines = report.as_array().unwrap().iter().filter(|line| line["check"] == check);
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    lines.map(|line| (text(line, "state"), text(line, "text"))).collect()
}

fn line(report: &Value, check: &str) -> (String, String) {
    let lines = lines(report, check);
    assert_eq!(lines.len(), 1, "{check}: {report}");
    lines[0].clone()
}

async fn report(desk: &Desk, variables: &[(&str, &str)]) -> Value {
    let said = desk.run_with(&["env", "check", "-o", "json"], variables).await;
    assert!(!said.out.contains("hunter2") && !said.err.contains("hunter2"), "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

#[tokio::test]
async fn check_tells_account_identity_region_key_and_buckets() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    cloud.put("common/a", "x").await;
    let all = report(&desk, &[]).await;
    assert_eq!(line(&all, "credentials"), ("ok".into(), "profile staging, without an end".into()));
    assert_eq!(line(&all, "region"), ("ok".into(), "eu-west-1, from profile staging".into()));
    assert!(line(&all, "identity").1.starts_with("arn:aws:sts::123456789012:"));
    assert_eq!(line(&all, "clock"), ("ok".into(), "as AWS's".into()));
    assert_eq!(line(&all, "kms"), ("ok".into(), cloud.key.clone()));
    assert_eq!(line(&all, "secrets bucket"), ("ok".into(), cloud.bucket.clone()));
    assert_eq!(line(&all, "terraform bucket").0, "warning");

    // The operator's variables win, whole or not at all.
    let keys =
        [("AWS_ACCESS_KEY_ID", "AKIAOTHER"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION", "eu-north-1")];
    let all = report(&desk, &keys).await;
    assert_eq!(line(&all, "credentials").1, "AWS_ACCESS_KEY_ID, without an end");
    assert_eq!(line(&all, "region").1, "eu-north-1, from AWS_REGION");
    let all = report(&desk, &keys[..1]).await;
    let (state, text) = line(&all, "credentials");
    assert!(state == "wrong" && text.contains("AWS_SECRET_ACCESS_KEY"), "{text}");

    let path = desk.path().join("environments/staging.tfvars");
    let text = std::fs::read_to_string(&path).unwrap();
    let other = "aws_account = \"210987654321\"\naws_region = \"us-east-2\"\naws_profile = \"base\"\n";
    std::fs::write(&path, format!("{text}{other}")).unwrap();
    desk.write(".aws/credentials", "[base]\naws_access_key_id = A\naws_secret_access_key = hunter2\n");
    let all = report(&desk, &[]).await;
    assert_eq!(line(&all, "credentials").1, "profile base, without an end");
    assert_eq!(line(&all, "region").1, "us-east-2, from aws_region of the environment");
    let (state, text) = line(&all, "account");
    assert!(state == "wrong" && text.contains("belongs to 210987654321"), "{text}");
    let said = desk.run(&["secrets", "list"]).await;
    assert!(said.code == 1 && said.err.contains("belongs to account 210987654321"), "{said:?}");
}

#[tokio::test]
async fn what_is_missing_is_named_with_all_that_was_tried() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    desk.write(".aws/config", "[profile other]\nregion = eu-west-1\n");
    desk.write(".aws/credentials", "");
    let (state, text) = line(&report(&desk, &[]).await, "credentials");
    assert_eq!(state, "wrong");
    for part in ["AWS_ACCESS_KEY_ID is not set", ".aws/config", "no profile staging", "there are other"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    desk.write(".aws/config", "[profile staging]\nrole_arn = r\nsource_profile = gone\n");
    let (_, text) = line(&report(&desk, &[]).await, "credentials");
    assert!(text.contains("there is no profile gone, which profile staging names as its source"), "{text}");
    let circle = "[profile staging]\nrole_arn = r\nsource_profile = b\n[profile b]\nrole_arn = r\nsource_profile = staging\n";
    desk.write(".aws/config", circle);
    let (_, text) = line(&report(&desk, &[]).await, "credentials");
    assert!(text.contains("lead to each other"), "{text}");
    desk.write(".aws/config", "[profile staging\nregion");
    let (state, text) = line(&report(&desk, &[]).await, "credentials");
    assert!(state == "wrong" && text.contains("read the AWS profiles"), "{text}");
}

#[tokio::test]
async fn a_role_is_taken_with_another_profiles_keys_or_its_own() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let config = format!(
        "[profile staging]\nrole_arn = {ROLE}\nsource_profile = base\nexternal_id = x\nduration_seconds = 900\n\
         role_session_name = olga\n"
    );
    desk.write(".aws/config", &config);
    desk.write(
        ".aws/credentials",
        "[base]\naws_access_key_id = A\naws_secret_access_key = hunter2\naws_session_token = hunter22\n",
    );
    let all = report(&desk, &[]).await;
    let (state, text) = line(&all, "credentials");
    assert!(state == "warning" && text.starts_with("profile staging (a role), until "), "{state} {text}");
    assert!(line(&all, "identity").1.contains("assumed-role/ops/olga"), "{all}");

    desk.write(".aws/config", &config.replace("base", "staging").replace("900", "3600"));
    desk.write(".aws/credentials", "[staging]\naws_access_key_id = A\naws_secret_access_key = hunter2\n");
    let all = report(&desk, &[]).await;
    assert_eq!(line(&all, "credentials").0, "ok");
    assert!(line(&all, "identity").1.contains("assumed-role/ops/olga"), "{all}");

    let script = desk.path().join("credentials.sh");
    let expires = "2099-01-01T00:00:00Z";
    let printed = format!(
        "echo '{{\"Version\": 1, \"AccessKeyId\": \"A\", \"SecretAccessKey\": \"hunter2\", \"SessionToken\": \"t\", \"Expiration\": \"{expires}\"}}'"
    );
    desk.write("credentials.sh", &printed);
    desk.write(".aws/config", &format!("[profile staging]\ncredential_process = sh {}\n", script.display()));
    desk.write(".aws/credentials", "");
    assert!(line(&report(&desk, &[]).await, "credentials").1.ends_with("until 2099-01-01T00:00:00Z"));
}

#[tokio::test]
async fn a_code_is_asked_for_once_and_the_session_kept_for_its_owner() {
    let cloud = Cloud::new().await;
    for (how, config) in [
        (
            "a role with MFA",
            format!("[profile staging]\nrole_arn = {ROLE}\nsource_profile = base\nmfa_serial = {MFA}\n"),
        ),
        (
            "with MFA",
            format!(
                "[profile staging]\nmfa_serial = {MFA}\naws_access_key_id = A\naws_secret_access_key = hunter2\n"
            ),
        ),
    ] {
        let desk = Desk::new(&cloud);
        desk.write(".aws/config", &config);
        desk.write(".aws/credentials", "[base]\naws_access_key_id = A\naws_secret_access_key = hunter2\n");
        let (state, text) = line(&report(&desk, &[]).await, "credentials");
        assert!(state == "wrong" && text.contains(MFA) && text.contains("on a terminal"), "{text}");

        let command = || {
            let mut command = Pty::command(support::exe());
            command.args(["env", "check"]);
            command.env_clear();
            desk.variables().into_iter().for_each(|(name, value)| command.env(name, value));
            command.cwd(desk.path());
            command
        };
        let asked = command();
        tokio::task::spawn_blocking(move || interrupted(asked)).await.unwrap();
        let screen = {
            let command = command();
            tokio::task::spawn_blocking(move || {
                let mut pty = Pty::start(command, (200, 40));
                pty.wait_for("MFA code of").write(b"654321\r");
                pty.wait_for("identity");
                pty.wait_exit();
                pty.screen()
            })
            .await
            .unwrap()
        };
        assert!(!screen.contains("654321"), "{screen}");
        assert!(screen.contains(&format!("profile staging ({how}), until ")), "{screen}");
        let (state, text) = line(&report(&desk, &[]).await, "credentials");
        assert!(state == "ok" && text.contains(how), "kept: {text}");

        let kept = desk.path().join(".cache/hostwright/aws");
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let files: Vec<_> = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!((files.len(), mode(&files[0]), mode(&kept)), (1, 0o600, 0o700));
        // One that has ended is asked for again.
        let text = std::fs::read_to_string(&files[0]).unwrap();
        let mut session: Value = serde_json::from_str(&text).unwrap();
        session["expires"] = "2026-01-01T00:00:00Z".into();
        std::fs::write(&files[0], session.to_string()).unwrap();
        assert_eq!(line(&report(&desk, &[]).await, "credentials").0, "wrong");
    }
}

/// What a machine on AWS is asked for its role's keys: the instance's metadata (version 2, with a session) and the container's
/// endpoint.
async fn machine() -> String {
    use axum::routing::{get, put};
    let keys = || async {
        axum::Json(serde_json::json!({
            "Code": "Success", "AccessKeyId": "AKIAMACHINE", "SecretAccessKey": "hunter2", "Token": "hunter22",
            "Expiration": "2099-01-01T00:00:00Z", "AccountId": "123456789012",
        }))
    };
    let session = |headers: axum::http::HeaderMap| async move {
        assert!(headers.contains_key("x-aws-ec2-metadata-token-ttl-seconds"));
        ([("x-aws-ec2-metadata-token-ttl-seconds", "21600")], "session")
    };
    let role = |headers: axum::http::HeaderMap| async move {
        assert_eq!(headers["x-aws-ec2-metadata-token"], "session");
        "node"
    };
    let roles = "/latest/meta-data/iam/security-credentials/";
    let app = axum::Router::new()
        .route("/latest/api/token", put(session))
        .route(roles, get(role))
        .route(&format!("{roles}node"), get(keys))
        .route("/container", get(keys));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await });
    url
}

#[tokio::test]
async fn a_machine_without_profiles_has_its_own_role() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    desk.write(".aws/config", "");
    desk.write(".aws/credentials", "");
    let url = machine().await;
    let container = format!("{url}/container");
    let instance =
        [("AWS_EC2_METADATA_DISABLED", "false"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str())];
    let region = ("AWS_REGION", "eu-west-1");
    let of_container = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.as_str()), region];
    let of_instance = [instance[0], instance[1], region];
    for variables in [of_instance.as_slice(), &of_container] {
        let all = report(&desk, variables).await;
        let said = ("ok".into(), "this machine's own role, until 2099-01-01T00:00:00Z".into());
        assert_eq!(line(&all, "credentials"), said, "{all}");
        assert!(line(&all, "identity").1.starts_with("arn:aws:sts::123456789012:"), "{all}");
    }
    // A profile may take its role with the machine's.
    for (word, variables) in
        [("Ec2InstanceMetadata", of_instance.as_slice()), ("EcsContainer", &of_container)]
    {
        let config = format!(
            "[profile staging]\nrole_arn = {ROLE}\ncredential_source = {word}\nrole_session_name = olga\n"
        );
        desk.write(".aws/config", &config);
        let all = report(&desk, variables).await;
        assert!(line(&all, "credentials").1.starts_with("profile staging (a role), until "), "{all}");
        assert!(line(&all, "identity").1.contains("assumed-role/ops/olga"), "{all}");
    }
}
