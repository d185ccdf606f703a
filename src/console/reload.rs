//! Theme and keys that change without a restart: the configuration's files are looked at once a second and read again when one of
//! them is another one.
//!
//! Looking costs a `stat` a file; it works through symbolic links, on network file systems, and for files that come or go.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::config::{self, Config, Mistakes, Sources};

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// What a file is told by: device, number, size, and when it changed. None: there is none that can be seen.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Sends the configuration anew, or its mistakes, each time that one of its files has changed. Ends when nobody listens.
pub(crate) async fn watch(
    sources: Sources,
    mut watched: Vec<PathBuf>,
    tell: mpsc::Sender<Result<Box<Config>, Mistakes>>,
) {
    let mut known = stamps(&watched);
    loop {
        tokio::time::sleep(PERIOD).await;
        let now = stamps(&watched);
        if now == known {
            continue;
        }
        known = now;
        let sources = sources.clone();
        // Files of a network that hangs hold up this task only.
        let Ok(read) = tokio::task::spawn_blocking(move || config::load(&sources)).await else { return };
        if let Ok(config) = &read {
            watched.clone_from(&config.watched);
            // The theme may be another file now, which has been read just before.
            known = stamps(&watched);
        }
        if tell.send(read.map(Box::new)).await.is_err() {
            return;
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let m = std::fs::metadata(Path::new(file)).ok()?;
        Some((m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}
