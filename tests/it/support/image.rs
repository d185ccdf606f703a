//! The Python environment of the image (`assets/image/requirements.txt`), made as the Containerfile makes it, on first use under
//! `target/`: half a minute and the network.

use std::fs::File;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio::sync::OnceCell;

/// The folder of its programs.
pub(crate) async fn programs() -> &'static Path {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    MADE.get_or_init(|| async {
        // Its interpreter is one that the pins hold for.
        make(&super::python().await.python).await
    })
    .await
}

async fn make(python: &Path) -> PathBuf {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/image/requirements.txt");
    let digest = HEXLOWER.encode(&Sha256::digest(std::fs::read(&requirements).unwrap()));
    let home = super::kept().join(format!("image-{}", digest.get(..12).unwrap()));
    let whole = home.join("whole");
    // The system frees it when this process ends, in whatever way: what is not whole then is made anew.
    let lock = File::create(super::kept().join("image.lock")).unwrap();
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await.unwrap().unwrap();
    // The interpreter that it was made with may be gone.
    if !(whole.exists() && home.join("bin/python").exists()) {
        std::fs::remove_dir_all(&home).ok();
        run(Command::new(python).args(["-m", "venv"]).arg(&home)).await;
        let pip = "-m pip install --no-input --disable-pip-version-check --no-color --progress-bar off \
                   --require-hashes --no-deps --only-binary :all: -r";
        let pip = pip.split_whitespace();
        run(Command::new(home.join("bin/python")).args(pip).arg(&requirements)).await;
        File::create(whole).unwrap();
    }
    drop(lock);
    home.join("bin")
}

async fn run(command: &mut Command) {
    let output =
        command.kill_on_drop(true).output().await.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "making the image's Python environment failed: {command:?}: {said}");
}
