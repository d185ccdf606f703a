//! The image: what its Containerfile builds on and installs, and that it fits the manifests that run it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support;

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(at(path)).unwrap()
}

/// The Containerfile's instructions with their arguments, comments left out and lines joined.
fn instructions() -> Vec<(String, String)> {
    let text = read("Containerfile");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let words = joined.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    words
        .map(|(word, rest)| (word.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect()
}

fn all<'a>(instructions: &'a [(String, String)], word: &str) -> Vec<&'a str> {
    instructions.iter().filter(|(is, _)| is == word).map(|(_, rest)| rest.as_str()).collect()
}

/// A version's parts.
fn version(text: &str) -> Vec<u64> {
    text.split('.').map(|part| part.parse().unwrap_or_else(|_| panic!("{text}"))).collect()
}

/// The packages of a file of pins, each with version and hashes.
fn pins(path: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut pins = BTreeMap::new();
    let mut last = String::new();
    for line in read(path).lines().filter(|line| !line.trim_start().starts_with('#')) {
        let line = line.trim().trim_end_matches('\\').trim();
        if let Some(hash) = line.strip_prefix("--hash=") {
            let (_, hashes): &mut (String, BTreeSet<String>) = pins.get_mut(&last).unwrap();
            hashes.insert(hash.to_owned());
        } else {
            let (name, version) = line.split_once("==").unwrap_or_else(|| panic!("{path}: {line}"));
            name.clone_into(&mut last);
            pins.insert(last.clone(), (version.to_owned(), BTreeSet::new()));
        }
    }
    assert!(pins.len() > 30 && pins.values().all(|(_, hashes)| !hashes.is_empty()), "{path}");
    pins
}

/// All objects that are shipped with pods in them.
fn shipped() -> Vec<Value> {
    let files = [
        "assets/job.yaml",
        "assets/deploy/server.yaml",
        "assets/deploy/ara/server.yaml",
        "assets/deploy/ara/prune.yaml",
    ];
    files.iter().flat_map(|file| serde_saphyr::from_multiple::<Value>(&read(file)).unwrap()).collect()
}

/// The pods in a value: whatever has containers.
fn pods(value: &Value) -> Vec<&Value> {
    if value.get("containers").is_some() {
        return vec![value];
    }
    let object = value.as_object().into_iter().flat_map(|map| map.values());
    object.chain(value.as_array().into_iter().flatten()).flat_map(pods).collect()
}

#[test]
fn it_is_built_on_images_that_do_not_change_under_their_name() {
    let instructions = instructions();
    let mut stages = BTreeSet::new();
    let mut bases = 0;
    for from in all(&instructions, "FROM") {
        let mut words = from.split(' ');
        let image = words.next().unwrap();
        if !stages.contains(image) {
            bases += 1;
            assert!(
                image.starts_with("docker.io/library/"),
                "{image}: a full name, that no registry can take over"
            );
            let tag = image
                .rsplit('/')
                .next()
                .unwrap()
                .split_once(':')
                .unwrap_or_else(|| panic!("{image}: no tag"))
                .1;
            let number = tag.split_once('-').unwrap_or_else(|| panic!("{image}: for which Debian?")).0;
            assert_eq!(version(number).len(), 3, "{image}: its tag moves");
            assert!(
                tag.ends_with("-bookworm"),
                "{image}: one Debian for all stages, or the program may not start"
            );
        }
        if let (Some("AS"), Some(name)) = (words.next(), words.next()) {
            stages.insert(name);
        }
    }
    assert_eq!(bases, 3);
    let of = |name: &str| {
        let prefix = format!("docker.io/library/{name}:");
        let tags: BTreeSet<&str> = all(&instructions, "FROM")
            .into_iter()
            .filter_map(|from| from.split(' ').next()?.strip_prefix(&prefix)?.split('-').next())
            .collect();
        assert_eq!(tags.len(), 1, "{name}: {tags:?}");
        version(tags.first().unwrap())
    };
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert!(of("rust") >= version(manifest["package"]["rust-version"].as_str().unwrap()));
    // What the pins hold for.
    assert!((vec![3, 11]..vec![3, 14]).contains(&of("python")));
    assert!(!read("Containerfile").contains("latest"));
    for copy in all(&instructions, "COPY") {
        if let Some(stage) = copy.strip_prefix("--from=") {
            assert!(stages.contains(stage.split(' ').next().unwrap()), "{copy}");
        } else {
            assert!(at(copy.split(' ').next().unwrap()).exists(), "{copy}");
        }
    }
    assert!(all(&instructions, "ADD").is_empty(), "nothing is fetched by a URL");
}

#[test]
fn it_installs_the_pins_and_nothing_else() {
    let instructions = instructions();
    let installs: Vec<&str> =
        all(&instructions, "RUN").into_iter().filter(|run| run.contains("pip")).collect();
    assert_eq!(installs.len(), 1, "{installs:?}");
    assert_eq!(installs[0].matches("install").count(), 1);
    for flag in ["--require-hashes", "--no-deps", "--only-binary :all:", "-r /requirements.txt"] {
        assert!(installs[0].contains(flag), "{flag}");
    }
    assert!(installs[0].ends_with("-r /requirements.txt"));
    let copies = all(&instructions, "COPY");
    assert!(copies.contains(&"assets/image/requirements.txt /requirements.txt"), "{copies:?}");
    assert!(all(&instructions, "RUN").iter().any(|run| run.starts_with("cargo build --locked --release")));

    let (image, play) = (pins("assets/image/requirements.txt"), pins("assets/play/requirements.txt"));
    for (name, pin) in &image {
        assert!(play.get(name).is_none_or(|other| other == pin), "{name} is another than the playground's");
    }
    let more: Vec<&String> = image.keys().filter(|name| !play.contains_key(*name)).collect();
    assert_eq!(more, ["psycopg2-binary"]);
    for name in ["ansible-core", "ara", "django", "waitress"] {
        assert!(image.contains_key(name), "{name}");
    }
    // The playground's AWS server has no place there.
    for name in ["moto", "boto3", "flask"] {
        assert!(!image.contains_key(name), "{name}");
    }
}

#[test]
fn its_user_is_the_manifests() {
    let instructions = instructions();
    let users = all(&instructions, "USER");
    assert_eq!(users.len(), 1);
    let last = instructions.iter().rposition(|(word, _)| word == "FROM").unwrap();
    assert!(instructions[last..].iter().any(|(word, _)| word == "USER"), "the last stage has the user");
    let (user, group) = users[0].split_once(':').unwrap();
    // By number: the cluster can't tell whether a name is root's.
    let (user, group): (u64, u64) = (user.parse().unwrap(), group.parse().unwrap());
    assert!(user > 0 && group > 0);
    let shipped = shipped();
    let pods: Vec<&Value> = shipped.iter().flat_map(pods).collect();
    assert_eq!(pods.len(), 4);
    for pod in &pods {
        let context = &pod["securityContext"];
        assert_eq!(
            (context["runAsUser"].as_u64(), context["runAsGroup"].as_u64()),
            (Some(user), Some(group))
        );
        assert!(context["fsGroup"].as_u64().is_none_or(|id| id == group));
    }
    // SSH wants to know the name of whom it runs as.
    // Its home is what the runs' pods may write, whose root is read-only.
    let job = &pods[0]["containers"][0];
    let home = job["env"].as_array().unwrap().iter().find(|variable| variable["name"] == "HOME").unwrap();
    let home = home["value"].as_str().unwrap();
    assert!(job["volumeMounts"].as_array().unwrap().iter().any(|mount| mount["mountPath"] == home));
    let made = format!("useradd --uid {user} --gid {group} --home-dir {home} ");
    assert!(all(&instructions, "RUN").iter().any(|run| run.contains(&made)));
}

#[tokio::test]
async fn it_has_every_program_that_is_called_in_it() {
    let instructions = instructions();
    let programs = support::image::programs().await;
    let installed = all(&instructions, "RUN").join(" ");
    for package in ["git", "openssh-client", "ca-certificates"] {
        assert!(installed.contains(package), "{package}");
    }
    let copies = all(&instructions, "COPY").join("\n");
    assert!(copies.contains("/src/target/release/hostwright /usr/local/bin/hostwright"));
    assert!(copies.contains("--from=python /opt/ansible /opt/ansible"));
    let path = all(&instructions, "ENV").join(" ");
    assert!(path.starts_with("PATH=/opt/ansible/bin:/usr/local/bin:"), "{path}");
    let mut called = BTreeSet::from(["ansible-playbook".to_owned(), "python3".to_owned()]);
    let shipped = shipped();
    for pod in shipped.iter().flat_map(pods) {
        for kind in ["containers", "initContainers"] {
            for container in pod.get(kind).and_then(Value::as_array).into_iter().flatten() {
                called.insert(container["command"][0].as_str().unwrap().to_owned());
            }
        }
    }
    assert!(called.remove("hostwright"));
    assert!(called.len() > 4, "{called:?}");
    for program in called {
        assert!(programs.join(&program).exists(), "{program} is not in the image");
    }
}

#[test]
fn nothing_of_this_machine_gets_into_it() {
    let ignored = read(".containerignore");
    let ignored: BTreeSet<&str> = ignored.lines().collect();
    for name in [".git", "target", "**/*.key", "**/*.tfvars"] {
        assert!(ignored.contains(name), "{name}");
    }
    // Docker reads another file.
    assert_eq!(read(".dockerignore"), read(".containerignore"));
}
