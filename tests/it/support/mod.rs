//! What the tests share: API servers, the Python environment, one RabbitMQ and one ARA for the whole test process, temporary folders.
//!
//! Each is started by the first test that asks for it and ends with the test process, however that ends: all are on a leash.
#![allow(dead_code)]

pub(crate) mod apiserver;
pub(crate) mod certificates;
pub(crate) mod envtest;
mod front;
pub(crate) mod image;
pub(crate) mod manager;
pub(crate) mod postgres;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hostwright::play::packages::Install;
use hostwright::play::python::{self, Python};
use hostwright::play::services::ara::{self, Ara};
use hostwright::play::services::moto::{self, Moto};
use hostwright::play::services::rabbitmq::{self, RabbitMq};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

/// The program under test.
pub(crate) fn exe() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hostwright"))
}

/// A folder under `target/` that is kept from one test run to the next: for what takes long to make.
pub(crate) fn kept() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("hostwright-test");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A folder that is removed when the test is done with it.
pub(crate) fn temp() -> TempDir {
    tempfile::Builder::new().prefix("hostwright-test-").tempdir().unwrap()
}

/// A folder for something that lasts as long as the test process. Nobody is left to remove it then, so the next test process does.
fn lasting_folder(name: &str) -> PathBuf {
    let process = |file: &str| file.strip_prefix(name)?.strip_prefix('-')?.parse::<u32>().ok();
    for entry in std::fs::read_dir(kept()).unwrap().flatten() {
        let dead = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        if entry.file_name().to_str().and_then(process).is_some_and(dead) {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
    let folder = kept().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a file that only its owner may read.
pub(crate) fn private_file(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Runs what outlives a single test: each test has a runtime of its own, which ends with it.
fn lasting<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    });
    let task = runtime.spawn(work);
    async { task.await.unwrap() }
}

/// The Python environment, made on first use under `target/`, which takes half a minute and the network.
pub(crate) async fn python() -> &'static Python {
    static PYTHON: OnceCell<Python> = OnceCell::const_new();
    PYTHON
        .get_or_init(|| {
            lasting(async {
                // Packages are `tests/run`'s to install, after it said so.
                let said = python::ensure(&kept(), exe(), Install::Never, &|_| {}).await;
                said.unwrap_or_else(|error| panic!("{error}"))
            })
        })
        .await
}

/// The test process's RabbitMQ. A test that stops it starts one of its own with [`own_rabbitmq`].
pub(crate) async fn rabbitmq() -> &'static RabbitMq {
    static RABBITMQ: OnceCell<RabbitMq> = OnceCell::const_new();
    RABBITMQ
        .get_or_init(|| {
            lasting(async {
                let started = rabbitmq::start(&lasting_folder("rabbitmq"), exe()).await;
                started.unwrap_or_else(|error| panic!("{error}"))
            })
        })
        .await
}

/// A RabbitMQ of the caller's own, with its folder; it ends when dropped. It takes five seconds.
pub(crate) async fn own_rabbitmq() -> (RabbitMq, TempDir) {
    let folder = temp();
    let rabbitmq = rabbitmq::start(folder.path(), exe()).await.unwrap_or_else(|error| panic!("{error}"));
    (rabbitmq, folder)
}

/// The test process's ARA server. Tests tell their playbooks apart by label.
pub(crate) async fn ara() -> &'static Ara {
    static ARA: OnceCell<Ara> = OnceCell::const_new();
    ARA.get_or_init(|| async {
        let python = python().await;
        lasting(async move {
            let started = ara::start(&lasting_folder("ara"), python, exe()).await;
            started.unwrap_or_else(|error| panic!("{error}"))
        })
        .await
    })
    .await
}

/// The test process's AWS server. Tests tell their things apart by the bucket's name.
pub(crate) async fn moto() -> &'static Moto {
    static MOTO: OnceCell<Moto> = OnceCell::const_new();
    MOTO.get_or_init(|| async {
        let python = python().await;
        lasting(async move {
            let started = moto::start(&lasting_folder("moto"), python, exe()).await;
            started.unwrap_or_else(|error| panic!("{error}"))
        })
        .await
    })
    .await
}
