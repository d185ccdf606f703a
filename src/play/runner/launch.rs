//! From a pod to what its process is started with: folder, variables, command.
//!
//! Called by `worker.rs` before a container starts, again and again while something is missing.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Volume};
use kube::Client;

use super::env::{self, ConfigError, Variables};
use super::expand::expand;
use super::process::{self, Launch};
use super::sources::{Sources, mounted};
use super::volumes::Mounts;
use super::{Options, pods, volumes};

/// The file in the pod's folder that a termination message is read from.
const TERMINATION_MESSAGE: &str = "termination-message";
/// At most so much of it is taken, as in Kubernetes.
const LONGEST_MESSAGE: usize = 4096;

/// Why a container does not start.
#[derive(Debug)]
pub(super) enum LaunchError {
    /// Something is missing or not supported; it may come.
    Config(ConfigError),
    /// The command cannot be run: the pod has failed.
    Command(String),
}

impl From<ConfigError> for LaunchError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// The pod's own folder: its working folder, its home, and what of it is to vanish with it.
pub(super) fn folder(options: &Options, uid: &str) -> PathBuf {
    options.work.join(uid)
}

/// The file, beside the pod's folder, that notes its process.
pub(super) fn note(options: &Options, uid: &str) -> PathBuf {
    options.work.join(format!("{uid}.pid"))
}

/// The one container of the pod.
///
/// # Errors
/// When it has another number of them.
pub(super) fn container(pod: &Pod) -> Result<&Container, ConfigError> {
    let spec = pod.spec.as_ref();
    let setup = spec.and_then(|s| s.init_containers.as_ref()).map_or(0, Vec::len);
    match spec.map(|s| s.containers.as_slice()) {
        Some([only]) if setup == 0 => Ok(only),
        _ => Err(ConfigError("the playground's Job runner runs pods of one container only".to_owned())),
    }
}

/// Makes the folders of the pod and works out what its process is started with.
pub(super) async fn prepare(
    client: &Client,
    options: &Arc<Options>,
    pod: &Pod,
) -> Result<Launch, LaunchError> {
    let spec = pods::spec(pod);
    let container = container(pod)?.clone();
    let volumes: Vec<Volume> = mounted(&spec, &container).into_iter().cloned().collect();
    let borrowed: Vec<&Volume> = volumes.iter().collect();
    let sources = Sources::read(client, &options.namespace, &container, &borrowed).await?;
    let (options, pod) = (Arc::clone(options), pod.clone());
    let work = move || assemble(&options, &pod, &container, &volumes, &sources);
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| {
        Err(LaunchError::Config(ConfigError(format!("cannot prepare the container: {e}"))))
    })
}

fn assemble(
    options: &Options,
    pod: &Pod,
    container: &Container,
    volumes: &[Volume],
    sources: &Sources,
) -> Result<Launch, LaunchError> {
    let uid = pods::uid(pod);
    let folder = folder(options, uid);
    let logs = options.logs.join(uid);
    for place in [&folder, &logs] {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(place)
            .map_err(|e| ConfigError(format!("cannot make the folder {}: {e}", place.display())))?;
    }
    let mut own = Variables::new();
    let message = folder.join(TERMINATION_MESSAGE).to_string_lossy().into_owned();
    own.insert("TERMINATION_MESSAGE_PATH".to_owned(), message);
    let volumes: Vec<&Volume> = volumes.iter().collect();
    let mounts = volumes::provide(&volumes, pod, container, sources, &folder.join("volumes"), &mut own)?;
    env::add(&mut own, pod, container, sources, &mounts)?;

    let words = words(container, &own, &mounts);
    let mut env = base(&folder);
    env.extend(own);
    env.extend(options.env.iter().cloned());
    let start_in = match container.working_dir.as_deref() {
        Some(dir) if !dir.is_empty() => folder.join(mounts.place(dir)),
        _ => folder,
    };
    if !start_in.is_dir() {
        return Err(ConfigError(format!("there is no folder {} on this machine", start_in.display())).into());
    }
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let (command, args) = words.split_first().map_or(("hostwright", [].as_slice()), |(c, a)| (c.as_str(), a));
    let program = process::find(command, &options.program, path, &start_in)
        .map_err(|problem| LaunchError::Command(format!("cannot start the container: {problem}")))?;
    Ok(Launch {
        program,
        args: args.to_vec(),
        env,
        folder: start_in,
        grace: Duration::from_secs(pods::grace_seconds(pod)),
    })
}

/// Command and arguments, their variables expanded. Without a command the image's own counts, which is ours.
fn words(container: &Container, variables: &Variables, mounts: &Mounts) -> Vec<String> {
    let lookup = |name: &str| variables.get(name).map(String::as_str);
    let command =
        container.command.clone().filter(|c| !c.is_empty()).unwrap_or_else(|| vec!["hostwright".to_owned()]);
    command
        .iter()
        .chain(container.args.iter().flatten())
        .map(|word| mounts.place(&expand(word, lookup)))
        .collect()
}

/// What every process needs.
fn base(folder: &Path) -> Variables {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
    Variables::from([
        ("PATH".to_owned(), path),
        ("HOME".to_owned(), folder.to_string_lossy().into_owned()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
    ])
}

/// What the container left as its termination message, if anything.
pub(super) async fn termination_message(options: &Options, uid: &str) -> Option<String> {
    use tokio::io::AsyncReadExt as _;
    let path = folder(options, uid).join(TERMINATION_MESSAGE);
    // A pipe would keep us waiting.
    if !tokio::fs::symlink_metadata(&path).await.ok()?.is_file() {
        return None;
    }
    let file = tokio::fs::File::open(path).await.ok()?;
    let mut bytes = Vec::new();
    let most = u64::try_from(LONGEST_MESSAGE).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut bytes).await.ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.is_empty()).then_some(text)
}

/// Removes the pod's folder and the note of its process.
pub(super) async fn clear(options: &Options, uid: &str) {
    for result in [
        tokio::fs::remove_dir_all(folder(options, uid)).await,
        tokio::fs::remove_file(note(options, uid)).await,
    ] {
        match result {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(pod = uid, %error, "cannot remove a pod's folder");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::{Value, json};

    use super::super::sources::Kind;
    use super::*;

    struct Place {
        options: Options,
        _folder: tempfile::TempDir,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            namespace: "hw".into(),
            logs: folder.path().join("logs"),
            work: folder.path().join("work"),
            program: "/opt/hostwright".into(),
            leash: Vec::new(),
            env: vec![("GIVEN".into(), "to all".into()), ("OVER".into(), "riding".into())],
            node: "playground".into(),
            backoff: Duration::from_secs(1),
            stop_within: Duration::from_secs(1),
        };
        Place { options, _folder: folder }
    }

    fn launch(place: &Place, container: &Value, volumes: &Value) -> Result<Launch, LaunchError> {
        let mut whole = json!({"name": "c", "env": [{"name": "OVER", "value": "own"}]});
        whole.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u-1", "labels": {"k": "a \"b\""}},
            "spec": {"containers": [whole], "volumes": volumes, "terminationGracePeriodSeconds": 7},
        }))
        .unwrap();
        let spec = pods::spec(&pod);
        let volumes: Vec<Volume> = mounted(&spec, &spec.containers[0]).into_iter().cloned().collect();
        let sources = Sources::known(&[(Kind::Secret, "s", &[("password", b"hunter2")])]);
        assemble(&place.options, &pod, &spec.containers[0], &volumes, &sources)
    }

    #[test]
    fn a_container_starts_in_a_private_folder_with_its_variables_and_arguments() {
        let place = place();
        let container = json!({"command": ["sh", "-c"], "args": ["echo $(OVER) $(GIVEN) $$(OVER)"]});
        let launch = launch(&place, &container, &json!([])).unwrap();
        assert_eq!(
            launch.args,
            ["-c", "echo own $(GIVEN) $(OVER)"],
            "only the container's own variables are expanded"
        );
        assert_eq!(launch.program.file_name().unwrap(), "sh");
        assert_eq!(
            (launch.env["GIVEN"].as_str(), launch.env["OVER"].as_str()),
            ("to all", "riding"),
            "what this machine gives counts more"
        );
        assert_eq!(
            (Path::new(&launch.env["HOME"]), launch.env["LANG"].as_str()),
            (launch.folder.as_path(), "C.UTF-8")
        );
        assert!(Path::new(&launch.env["TERMINATION_MESSAGE_PATH"]).starts_with(&launch.folder));
        assert_eq!(launch.grace, Duration::from_secs(7));
        let mode = std::fs::metadata(&launch.folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn without_a_command_it_is_our_own_program() {
        let place = place();
        for container in [json!({"args": ["provision"]}), json!({"command": ["hostwright", "provision"]})] {
            let launch = launch(&place, &container, &json!([])).unwrap();
            assert_eq!(
                (launch.program.to_str(), launch.args),
                (Some("/opt/hostwright"), vec!["provision".to_owned()])
            );
        }
        let missing = launch(&place, &json!({"command": ["nonesuch"]}), &json!([]));
        assert!(matches!(missing, Err(LaunchError::Command(m)) if m.contains("\"nonesuch\"")));
    }

    #[test]
    fn volumes_are_folders_named_by_variables() {
        let place = place();
        let mounts: Vec<Value> = ["empty", "my-secret", "about"]
            .iter()
            .map(|n| json!({"name": n, "mountPath": format!("/{n}")}))
            .chain([json!({"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})])
            .collect();
        let volumes = json!([
            {"name": "empty", "emptyDir": {}},
            {"name": "my-secret", "secret": {"secretName": "s", "items": [{"key": "password", "path": "a/b"}]}},
            {"name": "about", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "token", "projected": {}}, {"name": "unused", "hostPath": {"path": "/"}},
        ]);
        let container = json!({"volumeMounts": mounts, "command": ["sh", "/empty", "/emptyish", "/my-secret/a/b"], "env": [
            {"name": "HOME", "value": "/empty/"}, {"name": "IN", "value": "x/empty"}]});
        let launch = launch(&place, &container, &volumes).unwrap();
        let folder = |name: &str| PathBuf::from(&launch.env[&format!("HOSTWRIGHT_VOLUME_{name}")]);
        assert_eq!(std::fs::read_dir(folder("EMPTY")).unwrap().count(), 0);
        let secret = folder("MY_SECRET").join("a/b");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "hunter2");
        assert_eq!(std::fs::metadata(secret).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(folder("ABOUT").join("labels")).unwrap(), r#"k="a \"b\"""#);
        assert!(!launch.env.contains_key("HOSTWRIGHT_VOLUME_TOKEN"));
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let words = [text(folder("EMPTY")), "/emptyish".to_owned(), text(folder("MY_SECRET").join("a/b"))];
        assert_eq!(launch.args, words);
        assert_eq!(
            (Path::new(&launch.env["HOME"]), launch.env["IN"].as_str()),
            (&*folder("EMPTY"), "x/empty")
        );
    }

    #[test]
    fn what_cannot_be_given_is_said() {
        let place = place();
        let mount = json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        let items = |path: &str| json!([{"name": "v", "secret": {"secretName": "s", "items": [{"key": "password", "path": path}]}}]);
        for (container, volumes, says) in [
            (mount.clone(), json!([{"name": "v", "hostPath": {"path": "/"}}]), "volume v is of a kind"),
            (
                mount.clone(),
                json!([{"name": "v", "secret": {"secretName": "none"}}]),
                "Secret none not found",
            ),
            (mount.clone(), items("../up"), "no path inside a volume"),
            (mount, items("/etc/x"), "no path inside a volume"),
            (json!({"workingDir": "/nonesuch"}), json!([]), "no folder /nonesuch"),
        ] {
            match launch(&place, &container, &volumes) {
                Err(LaunchError::Config(ConfigError(message))) => {
                    assert!(message.contains(says), "{message}");
                }
                other => panic!("{says}: {other:?}"),
            }
        }
    }
}
