//! The command `manifests` through the real binary, with folders of real files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::cloud::{Cloud, Desk};
use crate::environments::STAGING;
use crate::support;

/// A working folder with a configuration, the variables of `staging`, and a folder of manifests.
struct Home(TempDir);

struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(support::temp());
        std::fs::write(home.path("config.toml"), "[environments.staging]\npolicy.source = \"/nowhere\"\n")
            .unwrap();
        home.write("environments/staging.tfvars", STAGING);
        std::fs::create_dir_all(home.path("platform/manifests")).unwrap();
        files.iter().for_each(|(path, text)| home.write(&format!("platform/manifests/{path}"), text));
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).unwrap()
    }

    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Said {
        let mut command = Command::new(support::exe());
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.0.path()).env("HOSTWRIGHT_CONFIG", self.path("config.toml"));
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("USER", "olga").env("LANG", "C.UTF-8");
        let Output { status, stdout, stderr } = command.envs(variables.iter().copied()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
    }

    fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, &[])
    }

    fn render(&self, args: &[&str]) -> Said {
        self.run(&[&["manifests", "render"], args].concat())
    }
}

const GOOD: [(&str, &str); 5] = [
    ("_head.j2", "# {{ environment }} in {{ aws_region }}\n"),
    ("web/app.yaml.j2", "{% include '_head.j2' %}\napi: https://{{ platform.kubeapi }}\n"),
    ("web/plain.yaml", "a: 1\n"),
    ("web/data.json.j2", "{\"zone\": {{ public_zone_name|tojson }}}\n"),
    ("notes.txt", "{{ no template }}\n"),
];

#[test]
fn what_is_rendered_is_printed_or_written_and_is_always_the_same() {
    let home = Home::new(&GOOD);
    let said = home.render(&["web/app.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    assert!(
        said.out.starts_with("# staging in ")
            && said.out.contains("\napi: https://kube-staging.eu.example.org\n"),
        "{}",
        said.out
    );

    let all = home.render(&["-o", "json"]);
    let files: Value = serde_json::from_str(&all.out).unwrap();
    let paths: Vec<&str> =
        files.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["notes.txt", "web/app.yaml", "web/data.json", "web/plain.yaml"]);
    assert_eq!(
        (&files[1]["from"], &files[0]["text"]),
        (&"web/app.yaml.j2".into(), &"{{ no template }}\n".into())
    );
    assert_eq!(home.render(&["-o", "json"]).out, all.out);

    // A stream that kubectl takes: what is neither YAML nor JSON is named, and left out.
    let stream = home.render(&[]);
    assert_eq!(stream.code, 0, "{}", stream.err);
    assert!(stream.err.contains("notes.txt is neither"), "{}", stream.err);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&stream.out).unwrap();
    assert_eq!(documents.len(), 3, "{}", stream.out);

    let said = home.render(&["--to", "out"]);
    assert_eq!((said.code, said.out.lines().last()), (0, Some("4 written, 0 as they were")), "{}", said.err);
    assert_eq!(home.read("out/web/plain.yaml"), "a: 1\n");
    assert_eq!(home.read("out/web/app.yaml"), home.render(&["web/app.yaml.j2"]).out);
    home.write("out/web/plain.yaml", "mine");
    home.write("out/old.yaml", "x: 1");
    let said = home.render(&["--to", "out", "web/"]);
    assert_eq!(said.out, "wrote web/plain.yaml\n1 written, 2 as they were\n");
    assert!(said.err.contains("notes.txt, old.yaml"), "{}", said.err);
    assert_eq!(home.read("out/old.yaml"), "x: 1", "what was not rendered stays");
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places_and_nothing_is_written() {
    let home = Home::new(&GOOD);
    home.write("platform/manifests/a.yaml.j2", "x: {{ lost }}\ny: {{ secure_nodes.gone }}\n");
    home.write("platform/manifests/b.yaml.j2", "\n{% if %}\n");
    home.write("platform/manifests/c.yaml.j2", "a: 1\nb: {{ environment }}: {{ aws_region }}\n");
    home.write("platform/manifests/d.json", "{\"a\": 1,}\n");
    home.write("platform/manifests/e.txt.j2", "{% include '../../environments/staging.tfvars' %}");
    let said = home.render(&["--to", "out"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    let starts = [
        "hostwright: a.yaml.j2:1:7: `lost` has no value in this environment",
        "a.yaml.j2:2:7: `secure_nodes.gone` has no value",
        "b.yaml.j2:2:",
        "c.yaml.j2:2: line 2 of c.yaml, which it becomes, is no YAML",
        "d.json:1: is no JSON",
        "e.txt.j2:1:4: includes a file that is not in the folder",
    ];
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{}", said.err);
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(!said.err.contains("hunter2"), "{}", said.err);
    assert!(!home.path("out").exists());
    // The good ones can be rendered by themselves.
    assert_eq!(home.render(&["web"]).code, 0);
}

#[test]
fn no_link_is_followed_and_what_an_editor_leaves_is_no_manifest() {
    let home = Home::new(&GOOD);
    let manifests = home.path("platform/manifests");
    let link = |from: &Path, to: &str| std::os::unix::fs::symlink(from, manifests.join(to)).unwrap();
    home.write("platform/manifests/.git/config", "{{");
    home.write("platform/manifests/web/.app.yaml.swp", "{{");
    home.write("platform/manifests/web/app.yaml.j2~", "{{");
    link(Path::new("olga@host.1234"), "web/.#app.yaml");
    assert_eq!(home.render(&[]).code, 0);

    link(&home.path("environments/staging.tfvars"), "web/secret.yaml");
    link(&home.path("environments"), "web/folder");
    let said = home.render(&[]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert_eq!(said.err.matches("is a symbolic link, which is not followed").count(), 2, "{}", said.err);
}

#[test]
fn names_folders_and_rights_that_are_wrong_are_told_apart() {
    let home = Home::new(&GOOD);
    let said = home.render(&["web", "nothing.yaml", "_head.j2"]);
    assert_eq!(said.code, 3, "what is for others to include is no manifest");
    assert!(said.err.contains("no manifest nothing.yaml") && said.err.contains("_head.j2"), "{}", said.err);
    assert_eq!(home.run(&["--read-only", "manifests", "render", "--to", "out"]).code, 4);
    assert!(!home.path("out").exists(), "read-only made a folder");
    let said = home.render(&["--to", "platform/manifests/out"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(!home.path("platform/manifests/out").exists());
    let said = home.run_with(&["manifests", "render"], &[("HOSTWRIGHT_PLATFORM__MANIFESTS", "elsewhere")]);
    assert_eq!(said.code, 3);
    assert!(said.err.contains("set platform.manifests"), "{}", said.err);
    assert_eq!(home.run(&["-e", "nowhere", "manifests", "render"]).code, 3);
}

#[test]
fn the_sample_is_right_for_any_environment() {
    let home = Home::new(&[]);
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/manifests");
    let variables = [("HOSTWRIGHT_PLATFORM__MANIFESTS", assets.to_str().unwrap())];
    let said = home.run_with(&["manifests", "render"], &variables);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let documents: Vec<Value> = serde_saphyr::from_multiple(&said.out).unwrap();
    let kinds: Vec<&str> = documents.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Service", "EndpointSlice", "Namespace", "ConfigMap", "Pod"]);
    assert_eq!(documents[3]["metadata"]["labels"]["platform.example.org/environment"], "staging");
    let addresses = documents[1]["endpoints"].as_array().unwrap();
    assert!(!addresses.is_empty() && addresses.iter().all(|one| one["zone"].is_string()), "{}", said.out);
}

/// The states that `manifests diff` tells, by path.
async fn states(desk: &Desk, args: &[&str]) -> Vec<(String, String)> {
    let all = desk.json(&[&["manifests", "diff"], args].concat()).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.as_array().unwrap().iter().map(|one| (text(&one["path"]), text(&one["state"]))).collect()
}

#[tokio::test]
async fn only_what_differs_is_pushed_and_nobody_s_change_is_overwritten() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    desk.write("platform/manifests/a.yaml.j2", "a: {{ environment }}\n");
    desk.write("platform/manifests/web/b.yaml", "b: 1\n");
    desk.write("platform/manifests/web/c.txt", "same");
    cloud.put("manifests/web/b.yaml", "b: 2\n").await;
    cloud.put("manifests/web/c.txt", "same").await;
    cloud.put("manifests/old.yaml", "old: 1\n").await;
    let said = desk.run(&["manifests", "diff"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out.contains("--- bucket/web/b.yaml\n+++ rendered/web/b.yaml\n@@ -1 +1 @@\n-b: 2\n+b: 1\n"),
        "{said:?}"
    );
    assert!(
        said.out.contains("--- /dev/null\n+++ rendered/a.yaml\n") && !said.out.contains("c.txt"),
        "{said:?}"
    );
    assert!(said.err.contains("old.yaml is only in the bucket"), "{said:?}");
    let state = |path: &str, state: &str| (path.to_owned(), state.to_owned());
    assert_eq!(states(&desk, &["web"]).await, [state("web/b.yaml", "changed")]);

    assert_eq!(desk.run(&["--read-only", "manifests", "push"]).await.code, 4);
    let said = desk.run(&["manifests", "push"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("pushed a.yaml (only here)\npushed web/b.yaml (changed)\n2 pushed to"),
        "{said:?}"
    );
    assert!(said.out.contains(", 1 as they were"), "{said:?}");
    assert_eq!(cloud.text("manifests/a.yaml").await, "a: staging\n");
    let head = cloud.s3.head_object().bucket(&cloud.bucket).key("manifests/a.yaml").send().await.unwrap();
    assert_eq!(head.ssekms_key_id.as_deref(), Some(cloud.key.as_str()));
    assert_eq!(cloud.text("manifests/old.yaml").await, "old: 1\n");
    assert_eq!(states(&desk, &[]).await, [state("old.yaml", "only-there")]);
    let said = desk.run(&["manifests", "push"]).await;
    assert!(said.code == 0 && said.out.starts_with("0 pushed"), "{said:?}");
    assert_eq!(desk.run(&["manifests", "diff", "web"]).await.code, 0);

    // Mistakes keep all of it from being pushed.
    desk.write("platform/manifests/web/b.yaml", "b: 3\n");
    desk.write("platform/manifests/d.yaml.j2", "{{ lost }}");
    let said = desk.run(&["manifests", "push"]).await;
    assert!(said.code == 2 && said.err.contains("d.yaml.j2:1:4: `lost`"), "{said:?}");
    assert_eq!(cloud.text("manifests/web/b.yaml").await, "b: 1\n");
}

#[tokio::test]
async fn somebody_who_is_quicker_is_not_overwritten() {
    use hostwright::domain::manifest::State;
    use hostwright::ops::environment::named;
    use hostwright::ops::manifests::{self, ManifestBucket};
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    desk.write("platform/manifests/a.yaml", "mine: 1\n");
    desk.write("platform/manifests/b.yaml", "mine: 1\n");
    cloud.put("manifests/a.yaml", "first: 1\n").await;
    let sources = hostwright::config::Sources {
        file: Some(desk.path().join("config.toml")),
        environment: Some("staging".to_owned()),
        ..hostwright::config::Sources::default()
    };
    let mut config =
        hostwright::config::load_with(&sources, &hostwright::config::Variables::default()).unwrap();
    config.platform.environments = desk.path().join("environments");
    let named = named(&config, None).unwrap();
    let file = hostwright::ops::environment::variables(&config, &named).unwrap();
    let files = manifests::render(&desk.path().join("platform/manifests"), &file, &[]).unwrap();
    let bucket = ManifestBucket::new(cloud.backend(), "staging", config.permit());
    let compared = bucket.compare(&files, &[]).await.unwrap();
    cloud.put("manifests/a.yaml", "theirs: 1\n").await;
    cloud.put("manifests/b.yaml", "theirs: 1\n").await;
    let pushed = bucket.push(compared, &files, "user/olga").await.unwrap();
    let states: Vec<State> = pushed.iter().map(|one| one.state).collect();
    assert_eq!(states, [State::Changed, State::OnlyHere]);
    for one in pushed {
        assert_eq!(hostwright::cli::Failure::from(one.outcome.unwrap_err()).code, 4);
        assert_eq!(cloud.text(&format!("manifests/{}", one.path.as_str())).await, "theirs: 1\n");
    }
}

#[tokio::test]
async fn the_state_of_each_node_and_of_each_of_its_files_is_told() {
    let cloud = Cloud::new().await;
    let desk = Desk::new(&cloud);
    let none = desk.run(&["manifests", "status"]).await;
    assert!(none.code == 0 && none.err.contains("no node has said anything yet"), "{none:?}");
    cloud.put("manifests/a.yaml", "a: 1\n").await;
    cloud.put("manifests/b.yaml", "b: 1\n").await;
    for node in ["node-1", "node-2"] {
        let said = desk.run(&["sync", "manifests", "--once", "--node", node, "--to", node]).await;
        assert_eq!(said.code, 0, "{said:?}");
    }
    let said = desk.run(&["manifests", "status"]).await;
    assert_eq!((said.code, said.out.lines().count()), (0, 3), "{said:?}");
    assert!(said.out.lines().nth(1).unwrap().starts_with("node-1  current"), "{said:?}");

    cloud.put("manifests/a.yaml", "a: 2\n").await;
    cloud.put("manifests/c.yaml", "c: 1\n").await;
    cloud.s3.delete_object().bucket(&cloud.bucket).key("manifests/b.yaml").send().await.unwrap();
    assert_eq!(
        desk.run(&["sync", "manifests", "--once", "--node", "node-2", "--to", "node-2"]).await.code,
        0
    );
    cloud.put("status/sync/odd.json", "{}").await;
    cloud.put("status/sync/not a node.json", "{}").await;
    let all = desk.json(&["manifests", "status"]).await;
    let of = |node: &Value| {
        (node["node"].as_str().unwrap().to_owned(), node["state"].as_str().unwrap().to_owned())
    };
    let told: Vec<_> = all.as_array().unwrap().iter().map(of).collect();
    let expected = [("odd", "unreadable"), ("node-1", "behind"), ("node-2", "current")];
    assert_eq!(told, expected.map(|(node, state)| (node.to_owned(), state.to_owned())));
    let files: Vec<&str> =
        all[1]["files"].as_array().unwrap().iter().map(|file| file["state"].as_str().unwrap()).collect();
    assert_eq!(files, ["behind", "extra", "missing"]);
    let said = desk.run(&["manifests", "status", "node-1"]).await;
    assert_eq!((said.code, said.out.lines().count()), (1, 4), "{said:?}");
    assert_eq!(desk.run(&["manifests", "status", "node-9"]).await.code, 3);
}
