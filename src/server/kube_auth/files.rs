//! Files that are followed while they are replaced, in whatever way: renamed over, behind a swapped symbolic link (as the kubelet
//! does it with a Secret's volume), deleted and made anew, or written again in place.
//!
//! The files are looked at, not watched: notifications belong to an inode, and each of these ways but the last leaves the inode
//! behind. A look is one `stat` a file. What has changed is read once it has rested for a moment, since a file that is written in
//! place is half a file meanwhile, and may be a good one.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;

const LOOK: Duration = Duration::from_millis(150);
/// How long a file must have rested.
const REST: Duration = Duration::from_millis(400);
/// The same for one whose last line does not end: half a line is often a whole one with a shorter last word.
const LONG_REST: Duration = Duration::from_millis(1200);
const LARGEST: u64 = 16 << 20;

/// What a file was found to say.
#[derive(Debug)]
pub(super) struct Parsed<T> {
    pub(super) value: T,
    pub(super) entries: usize,
    pub(super) warnings: Vec<String>,
}

/// What is known of a file, or of several that belong together.
#[derive(Debug)]
pub(super) struct Followed<T> {
    /// The last good content; none before the first.
    pub(super) good: Option<Arc<T>>,
    /// When it was taken.
    pub(super) since: Option<Timestamp>,
    pub(super) entries: usize,
    pub(super) warnings: Vec<String>,
    /// Why what is there now cannot be used.
    pub(super) problem: Option<String>,
}

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self { good: None, since: None, entries: 0, warnings: Vec::new(), problem: None }
    }
}

/// How files are followed.
pub(super) struct Follow {
    pub(super) shutdown: CancellationToken,
    pub(super) metrics: Arc<Metrics>,
}

impl Follow {
    /// Reads the files once they rest, or gives up on that after a while, then follows them.
    pub(super) async fn start<T: Send + Sync + 'static>(
        &self,
        what: &'static str,
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<Parsed<T>, String> + Send + Sync + 'static,
    ) -> (watch::Receiver<Followed<T>>, JoinHandle<()>) {
        let (tell, known) = watch::channel(Followed::default());
        let mut follower = Follower {
            what,
            paths,
            parse,
            tell,
            metrics: Arc::clone(&self.metrics),
            handled: None,
            seen: Vec::new(),
            changed: Instant::now(),
        };
        let begun = Instant::now();
        while follower.handled.is_none() && begun.elapsed() < LONG_REST + REST {
            follower.look().await;
            tokio::time::sleep(LOOK / 5).await;
        }
        let shutdown = self.shutdown.clone();
        let task = tokio::spawn(async move {
            while shutdown.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
                follower.look().await;
            }
        });
        (known, task)
    }
}

/// What tells two states of a file apart: device, inode, size, modification and change in nanoseconds. None: it is not there.
type Print = Option<(u64, u64, u64, i128, i128)>;

struct Follower<T, P> {
    what: &'static str,
    paths: Vec<PathBuf>,
    parse: P,
    tell: watch::Sender<Followed<T>>,
    metrics: Arc<Metrics>,
    /// The state that was last taken or refused.
    handled: Option<Vec<Print>>,
    /// The state at the last look, and since when it is that.
    seen: Vec<Print>,
    changed: Instant,
}

impl<T, P: Fn(&[Vec<u8>]) -> Result<Parsed<T>, String>> Follower<T, P> {
    async fn look(&mut self) {
        let now = prints(&self.paths).await;
        if self.handled.as_ref() == Some(&now) {
            self.seen = now;
            return;
        }
        if self.seen != now {
            // What was not touched for long rests already: so the first look need not wait.
            let rested = self.handled.is_none().then(|| age(&now)).flatten().unwrap_or_default();
            self.changed = Instant::now().checked_sub(rested).unwrap_or_else(Instant::now);
            self.seen.clone_from(&now);
        }
        if self.changed.elapsed() < REST {
            return;
        }
        let read = read(&self.paths).await;
        let unfinished =
            read.as_ref().is_ok_and(|all| all.iter().any(|one| one.last().is_some_and(|b| *b != b'\n')));
        if unfinished && self.changed.elapsed() < LONG_REST {
            return;
        }
        if prints(&self.paths).await != now {
            return;
        }
        self.handled = Some(now);
        let parsed = read.and_then(|contents| (self.parse)(&contents));
        self.take(parsed);
    }

    fn take(&self, parsed: Result<Parsed<T>, String>) {
        let (what, files) = (self.what, named(&self.paths));
        self.metrics.reload(what, parsed.as_ref().map(|parsed| parsed.entries).ok());
        match parsed {
            Ok(Parsed { value, entries, warnings }) => {
                tracing::info!(what, files, entries, "loaded");
                for warning in &warnings {
                    tracing::warn!(what, files, "{warning}");
                }
                let good = Some(Arc::new(value));
                self.tell.send_replace(Followed {
                    good,
                    since: Some(Timestamp::now()),
                    entries,
                    warnings,
                    problem: None,
                });
            }
            Err(problem) => {
                let kept = if self.tell.borrow().good.is_some() {
                    "the last good one is kept"
                } else {
                    "there is none yet"
                };
                tracing::error!(what, files, "cannot be used: {problem}; {kept}");
                self.tell.send_modify(|followed| followed.problem = Some(format!("{files}: {problem}")));
            }
        }
    }
}

fn named(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

async fn prints(paths: &[PathBuf]) -> Vec<Print> {
    let mut prints = Vec::with_capacity(paths.len());
    for path in paths {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        prints.push(tokio::fs::metadata(path).await.ok().map(|m| {
            (m.dev(), m.ino(), m.size(), nanos(m.mtime(), m.mtime_nsec()), nanos(m.ctime(), m.ctime_nsec()))
        }));
    }
    prints
}

/// How long ago the newest of them was written.
fn age(prints: &[Print]) -> Option<Duration> {
    let newest = prints.iter().flatten().map(|(_, _, _, written, changed)| *written.max(changed)).max()?;
    let newest = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(newest).ok()?);
    SystemTime::now().duration_since(newest).ok()
}

async fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        let content = contents(path).await.map_err(|error| match paths {
            [_] => error,
            _ => format!("{}: {error}", path.display()),
        })?;
        all.push(content);
    }
    Ok(all)
}

async fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let file = tokio::fs::File::open(path).await.map_err(|error| error.to_string())?;
    if !file.metadata().await.is_ok_and(|metadata| metadata.is_file()) {
        return Err("is no file".to_owned());
    }
    let mut content = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut content).await.map_err(|error| error.to_string())?;
    if content.len() as u64 > LARGEST {
        return Err(format!("is larger than {} MiB", LARGEST >> 20));
    }
    Ok(content)
}
