//! Pod logs: the files that the Job runner writes, served as the kubelet would.
//!
//! A container's log is `<log folder>/<pod uid>/<container>.log`, each line `<RFC 3339 time> <text>`. Whoever writes it must have
//! written the last line before the pod is marked finished: a followed log ends with what is in the file then. Bytes go through
//! as they are. Only the file and the pod's phase are read here; nothing is written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::kinds::Kind;
use super::meta::{items, text};
use super::params::Params;
use super::reads;
use super::status::{Answer, Failure};
use super::store::{Key, Store};

/// How often a followed file is looked at.
const POLL: Duration = Duration::from_millis(50);
/// How much is read at a time.
const BLOCK: usize = 64 * 1024;
/// A line longer than this goes out in pieces.
const LONGEST_LINE: usize = 1024 * 1024;

/// What a request for a log asks for.
#[derive(Debug, Default)]
struct Wanted {
    follow: bool,
    tail: Option<u64>,
    limit: Option<u64>,
    cutter: Cutter,
}

impl Wanted {
    fn read(params: &Params) -> Answer<Self> {
        let since = match (params.get("sinceTime"), params.number::<i64>("sinceSeconds")?) {
            (Some(_), Some(_)) => {
                return Err(Failure::bad_request(
                    "at most one of `sinceTime` or `sinceSeconds` may be specified",
                ));
            }
            (Some(time), None) => {
                let wrong = |_| Failure::bad_request(format!("the time \"{time}\" cannot be read"));
                Some(time.parse::<Timestamp>().map_err(wrong)?)
            }
            (None, Some(seconds)) if seconds < 1 => {
                return Err(Failure::bad_request("sinceSeconds: must be greater than 0"));
            }
            (None, Some(seconds)) => Timestamp::now().checked_sub(SignedDuration::from_secs(seconds)).ok(),
            (None, None) => None,
        };
        let limit = params.number("limitBytes")?;
        if limit == Some(0) {
            return Err(Failure::bad_request("limitBytes: must be greater than 0"));
        }
        Ok(Self {
            follow: params.flag("follow")?,
            tail: params.number("tailLines")?,
            limit,
            cutter: Cutter { since, timestamps: params.flag("timestamps")?, ..Cutter::default() },
        })
    }
}

/// Starts to serve a pod's log.
///
/// # Errors
/// 404 without the pod; 400 for a container that it has not, that has not started, or of which only the last run is known.
pub(super) async fn serve(
    store: &Arc<Store>,
    folder: &Path,
    key: &Key,
    params: &Params,
    shutdown: CancellationToken,
) -> Answer<Body> {
    let wanted = Wanted::read(params)?;
    let stored = reads::get(store, Kind::Pod.resource(), key)?;
    let pod = stored.value();
    let container = container(&pod, &key.name, params.get("container"))?;
    if params.flag("previous")? {
        let name = &key.name;
        let message = format!("previous terminated container \"{container}\" in pod \"{name}\" not found");
        return Err(Failure::bad_request(message));
    }
    // Both parts are ours: a UID that we made and a container's name that passed as a DNS label.
    let path = folder.join(&stored.uid).join(format!("{container}.log"));
    let pending = matches!(text(&pod, "/status/phase"), None | Some("Pending"));
    let mut source = Source { path, file: None };
    let there =
        source.open(wanted.tail).await.map_err(|e| Failure::internal(format!("cannot read the log: {e}")))?;
    if !there && pending {
        let message = format!(
            "container \"{container}\" in pod \"{}\" is waiting to start: ContainerCreating",
            key.name
        );
        return Err(Failure::bad_request(message));
    }
    let follower = Follower {
        store: Arc::clone(store),
        key: key.clone(),
        uid: stored.uid.clone(),
        source,
        wanted,
        finished: false,
        over: false,
        shutdown,
    };
    Ok(Body::from_stream(futures_util::stream::unfold(follower, |mut follower| async move {
        let piece = follower.next().await.transpose()?;
        Some((piece, follower))
    })))
}

/// The container that is meant.
fn container(pod: &Value, name: &str, asked: Option<&str>) -> Answer<String> {
    let names = |kind: &str| items(pod, kind).iter().filter_map(|c| text(c, "/name")).collect::<Vec<_>>();
    let main = names("/spec/containers");
    match asked {
        Some(asked) if main.contains(&asked) || names("/spec/initContainers").contains(&asked) => {
            Ok(asked.to_owned())
        }
        Some(asked) => Err(Failure::bad_request(format!("container {asked} is not valid for pod {name}"))),
        None => match main.as_slice() {
            [one] => Ok((*one).to_owned()),
            many => Err(Failure::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                many.join(" ")
            ))),
        },
    }
}

/// The file, which may not be there yet.
struct Source {
    path: PathBuf,
    file: Option<File>,
}

impl Source {
    /// Opens the file at its last lines; false when there is none.
    async fn open(&mut self, tail: Option<u64>) -> io::Result<bool> {
        let mut file = match File::open(&self.path).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if let Some(lines) = tail {
            let at = last_lines(&mut file, lines).await?;
            file.seek(io::SeekFrom::Start(at)).await?;
        }
        self.file = Some(file);
        Ok(true)
    }

    /// What follows in the file, nothing at its end.
    async fn read(&mut self) -> io::Result<Vec<u8>> {
        // Whoever comes before the first line wants all lines.
        if self.file.is_none() && !self.open(None).await? {
            return Ok(Vec::new());
        }
        let Some(file) = self.file.as_mut() else { return Ok(Vec::new()) };
        let mut block = Vec::with_capacity(BLOCK);
        file.read_buf(&mut block).await?;
        Ok(block)
    }
}

/// Where the last lines of a file begin.
async fn last_lines(file: &mut File, lines: u64) -> io::Result<u64> {
    let end = file.metadata().await?.len();
    let mut start = end;
    let mut left = lines;
    let mut block = vec![0u8; BLOCK];
    while start > 0 {
        let size = usize::try_from(start).unwrap_or(BLOCK).min(BLOCK);
        let from = start.saturating_sub(u64::try_from(size).unwrap_or(0));
        let part = block.get_mut(..size).unwrap_or_default();
        file.seek(io::SeekFrom::Start(from)).await?;
        file.read_exact(part).await?;
        for (at, _) in part.iter().enumerate().rev().filter(|(_, b)| **b == b'\n') {
            let after = from.saturating_add(u64::try_from(at).unwrap_or(0)).saturating_add(1);
            // The newline that ends the file ends the last line and begins none.
            if after == end {
                continue;
            }
            if left <= 1 {
                return Ok(if lines == 0 { end } else { after });
            }
            left = left.saturating_sub(1);
        }
        start = from;
    }
    Ok(if lines == 0 { end } else { 0 })
}

struct Follower {
    store: Arc<Store>,
    key: Key,
    uid: String,
    source: Source,
    wanted: Wanted,
    /// Whether the pod was finished before the last read.
    finished: bool,
    over: bool,
    shutdown: CancellationToken,
}

impl Follower {
    /// The next piece of the log, `None` at its end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.over {
            let block = self.source.read().await?;
            let out = if !block.is_empty() {
                self.wanted.cutter.feed(&block)
            } else if !self.wanted.follow || self.finished {
                self.over = true;
                self.wanted.cutter.finish()
            } else if self.pod_is_finished() {
                // What was written between the read and this look is still to be read.
                self.finished = true;
                continue;
            } else {
                tokio::select! {
                    () = sleep(POLL) => {}
                    () = self.shutdown.cancelled() => self.over = true,
                }
                continue;
            };
            let out = self.limit(out);
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
        }
        Ok(None)
    }

    fn pod_is_finished(&self) -> bool {
        self.store.with(|inner| {
            inner.get(&self.key).is_none_or(|pod| {
                pod.uid != self.uid || matches!(pod.field("status.phase"), "Succeeded" | "Failed")
            })
        })
    }

    fn limit(&mut self, mut out: Vec<u8>) -> Vec<u8> {
        if let Some(left) = self.wanted.limit.as_mut() {
            let most = usize::try_from(*left).unwrap_or(usize::MAX);
            out.truncate(most);
            *left = left.saturating_sub(u64::try_from(out.len()).unwrap_or(u64::MAX));
            self.over = self.over || *left == 0;
        }
        out
    }
}

/// Cuts a stream of bytes into lines, drops those that are too old and takes the times off.
#[derive(Debug, Default)]
struct Cutter {
    since: Option<Timestamp>,
    timestamps: bool,
    /// A line that has no end yet.
    held: Vec<u8>,
    /// Whether what comes next continues a line that went out in part, and whether that line is shown.
    within: Option<bool>,
}

impl Cutter {
    /// Takes more bytes and gives what is whole.
    fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.held.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.flush(&mut out);
                self.within = None;
            } else if self.held.len() > LONGEST_LINE {
                self.flush(&mut out);
            }
        }
        out
    }

    /// Gives the line that never ended.
    fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.flush(&mut out);
        out
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.held);
        if let Some(shown) = self.within {
            if shown {
                out.extend_from_slice(&line);
            }
            return;
        }
        let (time, rest) = split_time(&line);
        let shown = self.since.is_none_or(|since| time.is_none_or(|time| time >= since));
        if shown {
            out.extend_from_slice(if self.timestamps { &line } else { rest });
        }
        self.within = Some(shown);
    }
}

/// The time in front of a line, and the line without it. What does not begin with a time is whole.
fn split_time(line: &[u8]) -> (Option<Timestamp>, &[u8]) {
    let end = line.iter().take(64).position(|b| *b == b' ');
    let parts = end.and_then(|at| line.split_at_checked(at));
    let time = parts.and_then(|(head, _)| std::str::from_utf8(head).ok()?.parse::<Timestamp>().ok());
    match (time, parts) {
        (Some(time), Some((_, rest))) => (Some(time), rest.get(1..).unwrap_or_default()),
        _ => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] =
        b"2026-12-01T10:00:00.000000001Z one\n2026-12-01T10:00:01Z \n2026-12-01T10:00:02Z \xff\xfe two\n";

    fn cut(mut cutter: Cutter, text: &[u8], step: usize) -> Vec<u8> {
        let mut out: Vec<u8> = text.chunks(step).flat_map(|c| cutter.feed(c)).collect();
        out.extend(cutter.finish());
        out
    }

    #[test]
    fn bytes_are_passed_as_they_are_wherever_the_stream_is_split() {
        for step in 1..LOG.len() {
            assert_eq!(cut(Cutter::default(), LOG, step), b"one\n\n\xff\xfe two\n");
            assert_eq!(cut(Cutter { timestamps: true, ..Cutter::default() }, LOG, step), LOG);
        }
    }

    #[test]
    fn old_lines_are_dropped_and_an_unfinished_one_waits() {
        let since = Some("2026-12-01T10:00:01Z".parse().unwrap());
        assert_eq!(cut(Cutter { since, ..Cutter::default() }, LOG, 7), b"\n\xff\xfe two\n");
        let mut cutter = Cutter::default();
        assert_eq!(cutter.feed(b"2026-12-01T10:00:00Z par"), b"");
        assert_eq!(cutter.feed(b"tial\n2026"), b"partial\n");
        assert_eq!(cutter.finish(), b"2026");
    }

    #[test]
    fn a_line_without_end_is_not_kept_for_ever() {
        let mut cutter = Cutter::default();
        let mut out = cutter.feed(b"2026-12-01T10:00:00Z ");
        let block = vec![b'x'; BLOCK];
        for _ in 0..64 {
            out.extend(cutter.feed(&block));
            assert!(cutter.held.len() <= LONGEST_LINE + BLOCK);
        }
        out.extend(cutter.feed(b"\n2026-12-01T10:00:00Z y\n"));
        assert_eq!(out.len(), 64 * BLOCK + 1 + 2);
    }

    #[tokio::test]
    async fn the_last_lines_are_found_from_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let long = "x".repeat(BLOCK);
        std::fs::write(&path, format!("a\n{long}\nb\nc\n")).unwrap();
        let mut file = File::open(&path).await.unwrap();
        let len = std::fs::metadata(&path).unwrap().len();
        for (lines, expected) in [(0, len), (1, len - 2), (2, len - 4), (3, 2), (4, 0), (99, 0)] {
            assert_eq!(last_lines(&mut file, lines).await.unwrap(), expected, "{lines}");
        }
    }
}
