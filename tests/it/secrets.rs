//! The commands on secrets through the real binary against a real AWS server.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cloud::{Cloud, Desk};

/// All files below a folder but our own, by path, with what they hold.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, prefix: &str, all: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name == ".hostwright" {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{path}/"), all);
            } else {
                all.insert(path, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(folder, "", &mut all);
    all
}

/// The rows of `secrets list` by key.
async fn rows(desk: &Desk) -> BTreeMap<String, Value> {
    let listing = desk.json(&["secrets", "list"]).await;
    let rows = listing["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["key"].as_str().unwrap().to_owned(), row.clone())).collect()
}

async fn state(desk: &Desk, key: &str) -> String {
    rows(desk).await[key]["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_file_goes_there_and_back_and_every_state_is_told() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    cloud.put("common/a.yaml", "a: 1\n").await;
    cloud.put("locked/root.key", "secret").await;
    assert_eq!(state(&desk, "common/a.yaml").await, "only-there");
    let said = desk.run(&["secrets", "fetch"]).await;
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let copy = desk.copy();
    assert_eq!(std::fs::read(copy.join("common/a.yaml")).unwrap(), b"a: 1\n");
    for (path, mode) in [("common/a.yaml", 0o600), ("common", 0o700), ("", 0o700)] {
        let is = std::fs::metadata(copy.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(is, mode, "{path}");
    }
    let all = rows(&desk).await;
    let row = &all["common/a.yaml"];
    assert_eq!((&row["state"], &row["versions"]), (&"same".into(), &1.into()), "{row}");
    assert_eq!(row["encryption"]["encryption"], "ours", "{row}");
    assert_eq!(desk.run(&["secrets", "status"]).await.code, 0);

    std::fs::write(copy.join("common/a.yaml"), "a: 2\n").unwrap();
    std::fs::write(copy.join("common/new.json"), "{}").unwrap();
    assert_eq!(state(&desk, "common/a.yaml").await, "changed-here");
    assert_eq!(state(&desk, "common/new.json").await, "only-here");
    let said = desk.run(&["secrets", "fetch"]).await;
    assert!(said.code == 0 && said.out.contains("changed here  common/a.yaml"), "{said:?}");
    assert_eq!(std::fs::read(copy.join("common/a.yaml")).unwrap(), b"a: 2\n", "mine is kept");
    let said = desk.run(&["secrets", "upload", "common"]).await;
    assert!(said.code == 0 && said.out.matches("uploaded").count() == 2, "{said:?}");
    assert_eq!(cloud.text("common/a.yaml").await, "a: 2\n");
    assert_eq!(state(&desk, "common/new.json").await, "same");

    std::fs::remove_file(copy.join("common/new.json")).unwrap();
    assert_eq!(state(&desk, "common/new.json").await, "removed-here");
    assert_eq!(desk.run(&["secrets", "fetch", "common/new.json"]).await.code, 0);
    assert_eq!(desk.run(&["secrets", "rm", "common/new.json"]).await.code, 0);
    assert!(!copy.join("common/new.json").exists());
    cloud.s3.delete_object().bucket(&cloud.bucket).key("locked/root.key").send().await.unwrap();
    assert_eq!(state(&desk, "locked/root.key").await, "removed-there");
    let said = desk.run(&["secrets", "fetch", "--prune"]).await;
    assert!(said.out.contains("removed here  locked/root.key"), "{said:?}");
    assert_eq!(files(&copy).keys().collect::<Vec<_>>(), ["common/a.yaml"]);
    for args in [["secrets", "fetch", "nowhere"], ["secrets", "cat", "nowhere"], ["secrets", "rm", "nowhere"]]
    {
        assert_eq!(desk.run(&args).await.code, 3, "{args:?}");
    }
    let said = desk.run(&["--read-only", "secrets", "upload"]).await;
    assert_eq!(said.code, 4, "{said:?}");
}

/// Scenario S21.
#[tokio::test]
async fn keys_that_are_no_file_names_are_listed_exactly_and_stay_where_they_belong() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let long = format!("long/{}", "n".repeat(1_019));
    let deep = format!("deep/{}", ["d"; 500].join("/"));
    let good = [
        "common/with space",
        "common/%41",
        "common/A",
        "common/a",
        "common/{b}",
        "common/u\u{308}",
        "common/\u{fc}",
        "common/a b+\u{fc}{1}%41.txt",
        "common/-rf",
        "common/'\"$(x)`",
        "common/\u{202e}txt",
        deep.as_str(),
    ];
    let bad = [
        "../evil",
        "/abs",
        "a//b",
        "common/../../evil",
        "x",
        "full/",
        "common/./a",
        ".hostwright/index.json",
        long.as_str(),
    ];
    for key in good.iter().chain(&bad).chain(&["x/y", "ke/y"]) {
        cloud.put(key, *key).await;
    }
    cloud.put("dir/", "").await;
    let outside = desk.path().join("outside");
    std::fs::create_dir_all(&outside).unwrap();

    let listed = rows(&desk).await;
    for key in good.iter().chain(&bad).chain(&["x/y", "ke/y"]) {
        assert!(listed.contains_key(*key), "{key:?} is not listed");
    }
    let said = desk.run(&["secrets", "fetch"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    let skipped = desk.json(&["secrets", "fetch"]).await;
    let named: Vec<&str> =
        skipped["skipped"].as_array().unwrap().iter().map(|s| s["key"].as_str().unwrap()).collect();
    assert_eq!(named.len(), bad.len(), "{named:?}");
    assert!(said.err.lines().count() >= bad.len() && !said.err.contains('\u{202e}'), "{}", said.err);
    let fetched = files(&desk.copy());
    let mut expected: Vec<&str> = good.iter().copied().chain(["x/y", "ke/y"]).collect();
    expected.sort_unstable();
    assert_eq!(fetched.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    for (path, text) in &fetched {
        assert_eq!(text, path.as_bytes(), "{path} holds another object");
    }
    assert!(
        !desk.path().join("platform/evil").exists() && !desk.path().join("platform/secrets/evil").exists()
    );

    // This server takes a key with a line break from a form only, and does not give it back; it is listed as it is.
    let odd = "common/new\nline";
    let form = format!(
        "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n{odd}\r\n--x\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n1\r\n--x--\r\n"
    );
    let post = reqwest::Client::new().post(format!("{}/{}", cloud.url, cloud.bucket)).body(form);
    let post = post.header("Content-Type", "multipart/form-data; boundary=x").send().await.unwrap();
    assert!(post.status().is_success(), "{post:?}");
    assert!(rows(&desk).await.contains_key(odd));
    let table = desk.run(&["secrets", "list", "common"]).await.out;
    assert_eq!(
        table.lines().count(),
        1 + good.iter().filter(|key| key.starts_with("common/")).count() + 1 + 2,
        "{table}"
    );

    // A folder that leads elsewhere is not followed, and what is in its place is told.
    std::fs::remove_dir_all(desk.copy().join("ke")).unwrap();
    std::os::unix::fs::symlink(&outside, desk.copy().join("ke")).unwrap();
    let said = desk.run(&["secrets", "fetch", "ke/y"]).await;
    assert!(said.code == 1 && said.err.contains("symbolic link"), "{said:?}");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // What is uploaded reads back under the same key.
    let odd = desk.copy().join("common/a b+\u{fc}{1}%41.txt");
    std::fs::write(&odd, "changed").unwrap();
    assert_eq!(desk.run(&["secrets", "upload", "common/a b+\u{fc}{1}%41.txt"]).await.code, 0);
    assert_eq!(cloud.text("common/a b+\u{fc}{1}%41.txt").await, "changed");
}

/// Scenario E03.
#[tokio::test]
async fn two_operators_change_one_secret_and_the_second_is_shown_both() {
    let cloud = Cloud::new().await;
    let (olga, paul) = (Desk::new(&cloud), Desk::new(&cloud));
    cloud.put("common/db.yaml", "user: a\npassword: one\n").await;
    for desk in [&olga, &paul] {
        assert_eq!(desk.run(&["secrets", "fetch"]).await.code, 0);
    }
    std::fs::write(olga.copy().join("common/db.yaml"), "user: a\npassword: olgas\n").unwrap();
    std::fs::write(paul.copy().join("common/db.yaml"), "user: a\npassword: pauls\n").unwrap();
    assert_eq!(olga.run(&["secrets", "upload"]).await.code, 0);
    let said = paul.run(&["secrets", "upload"]).await;
    assert!(said.code == 4 && said.err.contains("was changed here and in the bucket"), "{said:?}");
    assert_eq!(cloud.text("common/db.yaml").await, "user: a\npassword: olgas\n");
    assert_eq!(state(&paul, "common/db.yaml").await, "both");
    let said = paul.run(&["secrets", "diff", "common/db.yaml"]).await;
    assert!(said.out.contains("both touch the same lines") && !said.out.contains("pauls"), "{said:?}");
    let said = paul.run(&["secrets", "diff", "--show", "common/db.yaml"]).await;
    for part in ["-password: one", "+password: pauls", "+password: olgas"] {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
    assert_eq!(paul.run(&["secrets", "fetch"]).await.code, 4, "nothing of mine is overwritten");
    assert_eq!(paul.run(&["secrets", "upload", "--over", "common/db.yaml"]).await.code, 0);
    assert_eq!(cloud.text("common/db.yaml").await, "user: a\npassword: pauls\n");

    // In the editor: somebody is quicker while it is open.
    paul.write(
        "editor.sh",
        "echo 'user: b' > \"$1\"; echo changed > edited; until [ -e go ]; do sleep 0.1; done\n",
    );
    let editor = format!("sh {}", paul.path().join("editor.sh").display());
    let mut command = paul.command(&["secrets", "edit", "common/db.yaml"]);
    command.env("EDITOR", &editor).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait(|| paul.path().join("edited").exists()).await;
    assert_eq!(olga.run(&["secrets", "fetch"]).await.code, 0);
    std::fs::write(olga.copy().join("common/db.yaml"), "user: c\n").unwrap();
    assert_eq!(olga.run(&["secrets", "upload"]).await.code, 0);
    std::fs::write(paul.path().join("go"), "").unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(4) && err.contains("somebody changed common/db.yaml"), "{err}");
    assert_eq!(cloud.text("common/db.yaml").await, "user: c\n");
}

async fn wait(mut there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !there() {
        assert!(Instant::now() < end, "it never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Scenario E02 through the command.
#[tokio::test]
async fn edit_uploads_what_was_changed_and_is_valid_and_leaves_nothing_behind() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let runtime = desk.path().join("run");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    let runtime = runtime.to_str().unwrap().to_owned();
    cloud.put("common/tokens.csv", "t0ken,olga,1,\"ops\"\n").await;
    assert_eq!(desk.run(&["secrets", "fetch"]).await.code, 0);
    let edit = async |editor: &str| {
        let variables = [("EDITOR", editor), ("XDG_RUNTIME_DIR", &runtime), ("TMPDIR", &runtime)];
        let said = desk.run_with(&["secrets", "edit", "common/tokens.csv"], &variables).await;
        assert!(
            files(Path::new(&runtime)).is_empty(),
            "{editor} left something: {:?}",
            files(Path::new(&runtime))
        );
        assert!(!said.err.contains("t0ken") && !said.out.contains("t0ken"), "{said:?}");
        (said.code, said.err)
    };
    assert_eq!(edit("true").await.0, 0);
    assert_eq!(edit("false").await.0, 1);
    assert_eq!(edit("sed -i s/olga/paul/").await.0, 0);
    assert_eq!(cloud.text("common/tokens.csv").await, "t0ken,paul,1,\"ops\"\n");
    let text = std::fs::read_to_string(desk.copy().join("common/tokens.csv")).unwrap();
    assert!(text.contains("paul"), "the local copy is the same again");
    let (code, err) = edit("sed -i s/,1,.*//").await;
    assert!(code == 2 && err.contains("line 1"), "{err}");
    assert_eq!(cloud.text("common/tokens.csv").await, "t0ken,paul,1,\"ops\"\n");
    assert_eq!(desk.run(&["secrets", "status"]).await.code, 0);

    // An old version comes back as the newest one.
    let history = desk.json(&["secrets", "history", "common/tokens.csv"]).await;
    let oldest = history.as_array().unwrap().last().unwrap()["id"].as_str().unwrap();
    assert_eq!(desk.run(&["secrets", "restore", "common/tokens.csv", "--version", oldest]).await.code, 0);
    assert_eq!(cloud.text("common/tokens.csv").await, "t0ken,olga,1,\"ops\"\n");
    let said = desk.run(&["secrets", "cat", "common/tokens.csv"]).await;
    assert_eq!(said.out, "t0ken,olga,1,\"ops\"\n");
    let again = desk.json(&["secrets", "history", "common/tokens.csv"]).await;
    assert_eq!(again.as_array().unwrap().len(), history.as_array().unwrap().len() + 1);
}

#[tokio::test]
async fn tokens_and_rules_are_given_to_known_names_and_nothing_else_changes() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    assert_eq!(desk.run(&["secrets", "grant-token", "olga"]).await.code, 3, "there is no file");
    cloud.put("common/tokens.csv", "t0ken,olga,1,\"ops\"\n").await;
    cloud
        .put(
            "common/abac.jsonl",
            "# rules\n{\"group\": \"auditors\", \"readonly\": true, \"resource\": \"*\"}\n",
        )
        .await;
    assert_eq!(desk.run(&["secrets", "fetch"]).await.code, 0);
    let names = desk.json(&["secrets", "names"]).await;
    assert_eq!(names["users"], serde_json::json!(["olga"]));
    assert!(
        ["ops", "auditors"]
            .iter()
            .all(|group| names["groups"].as_array().unwrap().contains(&(*group).into()))
    );

    let said = desk.run(&["secrets", "grant-token", "robot", "--group", "ops", "--group", "dev"]).await;
    let token = said.out.trim();
    assert!(said.code == 0 && token.len() == 43, "{said:?}");
    assert_eq!(
        cloud.text("common/tokens.csv").await,
        format!("t0ken,olga,1,\"ops\"\n{token},robot,2,\"ops,dev\"\n")
    );
    let rule = [
        "secrets",
        "grant-rule",
        "--group",
        "dev",
        "--namespace",
        "apps",
        "--resource",
        "pods",
        "--readonly",
    ];
    assert_eq!(desk.run(&rule).await.code, 0);
    let text = cloud.text("common/abac.jsonl").await;
    assert!(
        text.starts_with("# rules\n{") && text.lines().count() == 3 && text.contains("\"group\":\"dev\""),
        "{text}"
    );
    assert_eq!(desk.run(&["secrets", "status"]).await.code, 0, "the local copy is the same again");
    let said = desk.run(&["secrets", "grant-token", "a,b\nc"]).await;
    assert!(said.code == 2 && said.err.contains("control character"), "{said:?}");
    let both = futures_util::future::join_all((0..4).map(|n| {
        let desk = &desk;
        async move { desk.run(&["secrets", "grant-token", &format!("u{n}")]).await.code }
    }));
    assert_eq!(both.await, [0; 4], "who writes at the same time loses nothing");
    assert_eq!(cloud.text("common/tokens.csv").await.lines().count(), 6);
    cloud.put("secure/tokens.csv", "x,y,1\n").await;
    let said = desk.run(&["secrets", "grant-token", "z"]).await;
    assert!(said.code == 2 && said.err.contains("common/tokens.csv, secure/tokens.csv"), "{said:?}");
}

#[tokio::test]
async fn what_is_not_what_its_name_says_is_not_uploaded() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    for (name, text) in [
        ("a.yaml", "a: [1"),
        ("a.json", "{"),
        ("tokens.csv", "one,two\n"),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n"),
        ("good.yaml", "a: 1\n"),
    ] {
        desk.write(&format!("platform/secrets/staging/common/{name}"), text);
    }
    let said = desk.run(&["secrets", "upload"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.out.contains("uploaded  common/good.yaml"), "{said:?}");
    for name in ["a.yaml", "a.json", "tokens.csv", "ca.pem"] {
        assert!(said.err.contains(&format!("common/{name} is not uploaded: line")), "{name}: {}", said.err);
    }
    let keys: Vec<String> = cloud.backend().list_all("").await.unwrap().into_iter().map(|o| o.key).collect();
    assert_eq!(keys, ["common/good.yaml"]);
}

#[tokio::test]
async fn what_is_not_encrypted_with_our_key_is_marked() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let put = |key: &'static str| {
        cloud.s3.put_object().bucket(&cloud.bucket).key(key).body("x".as_bytes().to_vec().into())
    };
    let other = Cloud::new().await.key;
    let kms = aws_sdk_s3::types::ServerSideEncryption::AwsKms;
    put("compute/other").server_side_encryption(kms).ssekms_key_id(other).send().await.unwrap();
    let aes = aws_sdk_s3::types::ServerSideEncryption::Aes256;
    put("compute/aes").server_side_encryption(aes).send().await.unwrap();
    cloud.put("compute/ours", "x").await;
    let all = rows(&desk).await;
    let mark = |key: &str| all[key]["encryption"]["encryption"].clone();
    assert_eq!((mark("compute/other"), mark("compute/aes")), ("other-key".into(), "not-kms".into()));
    assert_eq!(mark("compute/ours"), "ours");
    assert_eq!(desk.run(&["secrets", "fetch"]).await.code, 0);
    let said = desk.run(&["secrets", "status"]).await;
    assert!(said.code == 1 && said.out.contains("other key") && said.out.contains("no KMS"), "{said:?}");
}

#[tokio::test]
async fn a_fetch_that_is_killed_leaves_only_whole_files_and_the_next_one_ends_it() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let text = |n: usize| format!("{n}\n").repeat(20_000);
    let keys: Vec<String> = (0..120).map(|n| format!("compute/{n:03}/file")).collect();
    for (n, key) in keys.iter().enumerate() {
        cloud.put(key, text(n)).await;
    }
    for at in [1, 25, 70] {
        let mut command = desk.command(&["secrets", "fetch"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait(|| files(&desk.copy()).len() >= at || child.try_wait().unwrap().is_some()).await;
        child.kill().unwrap();
        child.wait().unwrap();
        for (path, content) in files(&desk.copy()) {
            if path.contains("/.hostwright-") {
                continue;
            }
            let n = keys.iter().position(|key| *key == path).unwrap_or_else(|| panic!("{path} is no key"));
            assert!(content == text(n).into_bytes(), "{path} is not whole");
        }
    }
    let said = desk.run(&["secrets", "fetch"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(files(&desk.copy()).keys().cloned().collect::<Vec<_>>(), keys);
    assert_eq!(desk.run(&["secrets", "status"]).await.code, 0);
}
