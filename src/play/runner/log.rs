//! A container's log: what it writes on its two streams, line by line into one file, each line led by its time.
//!
//! Called by `worker.rs` with the pipes of a process. The reader of the file (the API's pod log) may follow it while it grows: only
//! whole lines are written. It must never make the process wait: when the file cannot be written, the rest is read and dropped.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

/// How much is read at once.
const CHUNK: usize = 16 * 1024;
/// The longest line that is kept whole; a longer one is cut, so that a program without line ends costs no more memory than this.
const LONGEST_LINE: usize = 1024 * 1024;
/// How much of the end of the log may become a termination message, as in Kubernetes.
const TAIL: usize = 2048;

/// Where the log of a container is.
pub(super) fn path(logs: &Path, pod_uid: &str, container: &str) -> PathBuf {
    logs.join(pod_uid).join(format!("{container}.log"))
}

/// Copies both streams into the file until both have ended, or `enough` is cancelled; returns the end of what was read.
pub(super) async fn copy(
    path: PathBuf,
    mut stdout: impl AsyncRead + Unpin,
    mut stderr: impl AsyncRead + Unpin,
    enough: CancellationToken,
) -> Vec<u8> {
    let mut sink = Sink::open(path).await;
    let (mut out, mut err) = (Lines::default(), Lines::default());
    let (mut out_chunk, mut err_chunk) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut out_open, mut err_open) = (true, true);
    while out_open || err_open {
        tokio::select! {
            read = stdout.read(&mut out_chunk), if out_open => {
                out_open = sink.take(read, &out_chunk, &mut out).await;
            }
            read = stderr.read(&mut err_chunk), if err_open => {
                err_open = sink.take(read, &err_chunk, &mut err).await;
            }
            () = enough.cancelled() => break,
        }
    }
    let mut rest = Vec::new();
    for lines in [&mut out, &mut err] {
        lines.finish(Timestamp::now(), &mut rest);
    }
    sink.write(&rest).await;
    sink.tail
}

/// The file, and the end of what went into it.
struct Sink {
    path: PathBuf,
    file: Option<File>,
    tail: Vec<u8>,
}

impl Sink {
    async fn open(path: PathBuf) -> Self {
        let opened = File::options().create(true).append(true).mode(0o600).open(&path).await;
        let mut sink = Self { path, file: None, tail: Vec::new() };
        match opened {
            Ok(file) => sink.file = Some(file),
            Err(e) => sink.give_up(&e),
        }
        sink
    }

    /// Takes what one read gave; whether the stream is still open.
    async fn take(&mut self, read: std::io::Result<usize>, chunk: &[u8], lines: &mut Lines) -> bool {
        let chunk = match read {
            Ok(0) | Err(_) => return false,
            Ok(length) => chunk.get(..length).unwrap_or_default(),
        };
        self.tail.extend_from_slice(chunk);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
        let mut text = Vec::with_capacity(chunk.len() + 64);
        lines.push(chunk, Timestamp::now(), &mut text);
        self.write(&text).await;
        true
    }

    async fn write(&mut self, text: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if text.is_empty() {
            return;
        }
        let written = match file.write_all(text).await {
            Ok(()) => file.flush().await,
            Err(e) => Err(e),
        };
        if let Err(e) = written {
            self.give_up(&e);
        }
    }

    fn give_up(&mut self, error: &std::io::Error) {
        tracing::warn!(file = %self.path.display(), %error, "cannot write a container's log: the rest of it is lost");
        self.file = None;
    }
}

/// The end of what a log holds, at most as much as Kubernetes takes for a termination message: 80 lines, 2048 bytes.
pub(super) fn last_lines(tail: &[u8]) -> String {
    let cut = tail.get(tail.len().saturating_sub(TAIL)..).unwrap_or(tail);
    let text = String::from_utf8_lossy(cut);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(80)..).unwrap_or_default().join("\n")
}

/// One stream, cut into lines.
#[derive(Default)]
struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Adds `chunk`; writes the lines that are whole now.
    fn push(&mut self, chunk: &[u8], now: Timestamp, out: &mut Vec<u8>) {
        for piece in chunk.split_inclusive(|b| *b == b'\n') {
            self.pending.extend_from_slice(piece);
            if self.pending.ends_with(b"\n") {
                self.emit(now, out);
            } else if self.pending.len() >= LONGEST_LINE {
                self.pending.push(b'\n');
                self.emit(now, out);
            }
        }
    }

    /// Writes what is left without a line end.
    fn finish(&mut self, now: Timestamp, out: &mut Vec<u8>) {
        if !self.pending.is_empty() {
            self.pending.push(b'\n');
            self.emit(now, out);
        }
    }

    fn emit(&mut self, now: Timestamp, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{now:.9} ").as_bytes());
        out.append(&mut self.pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-12-01T10:00:00.000000007Z".parse().unwrap()
    }

    #[test]
    fn lines_are_whole_and_led_by_their_time() {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        lines.push(b"one\ntw", at(), &mut out);
        assert_eq!(out, b"2026-12-01T10:00:00.000000007Z one\n");
        lines.push(b"o\n\n", at(), &mut out);
        lines.push(b"\xff\xfe bytes\r\nrest", at(), &mut out);
        lines.finish(at(), &mut out);
        lines.finish(at(), &mut out);
        let time: &[u8] = b"2026-12-01T10:00:00.000000007Z ";
        let expected: Vec<u8> = [b"one\n".as_slice(), b"two\n", b"\n", b"\xff\xfe bytes\r\n", b"rest\n"]
            .iter()
            .flat_map(|l| [time, *l].concat())
            .collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for _ in 0..LONGEST_LINE / CHUNK {
            lines.push(&[b'x'; CHUNK], at(), &mut out);
        }
        assert_eq!(out.len(), 31 + LONGEST_LINE + 1);
        lines.push(b"y\n", at(), &mut out);
        assert!(out.ends_with(b"Z y\n"));
    }

    #[test]
    fn the_last_lines_are_few_and_short() {
        let many: String = (0..200).map(|n| format!("{n}\n")).collect();
        let last = last_lines(many.as_bytes());
        assert_eq!(
            (last.lines().next(), last.lines().next_back(), last.lines().count()),
            (Some("120"), Some("199"), 80)
        );
        assert_eq!(last_lines(&[b'x'; 5000]).len(), TAIL);
        assert_eq!(last_lines(b""), "");
    }

    #[tokio::test]
    async fn both_streams_reach_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.log");
        let tail = copy(path.clone(), b"a\nb".as_slice(), b"c\n".as_slice(), CancellationToken::new()).await;
        let text = std::fs::read_to_string(path).unwrap();
        let mut said: Vec<&str> = text.lines().map(|l| l.split_once(' ').unwrap().1).collect();
        said.sort_unstable();
        assert_eq!(said, ["a", "b", "c"]);
        assert_eq!(tail.len(), 5);
    }
}
