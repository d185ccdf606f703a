//! Passes a child's output through, line by line and byte for byte, while somebody watches the lines.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A line longer than this is passed on in pieces; only its first piece is watched.
const LINE_LIMIT: usize = 64 * 1024;

/// Which of the child's outputs a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Copies both outputs to `to` until both have ended. What cannot be written is still watched: a log that nobody takes is no
/// reason to stop a playbook.
pub(super) async fn pass(
    out: &mut (impl AsyncRead + Unpin),
    err: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut watch: impl FnMut(Source, &[u8]),
) {
    let mut lines = (Lines::default(), Lines::default());
    let mut buffers = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let mut open = (true, true);
    while open.0 || open.1 {
        let (source, read) = tokio::select! {
            read = out.read(&mut buffers.0), if open.0 => (Source::Out, read),
            read = err.read(&mut buffers.1), if open.1 => (Source::Err, read),
        };
        let (lines, buffer, open) = match source {
            Source::Out => (&mut lines.0, &buffers.0, &mut open.0),
            Source::Err => (&mut lines.1, &buffers.1, &mut open.1),
        };
        let ready = match read.ok().and_then(|n| buffer.get(..n)).filter(|chunk| !chunk.is_empty()) {
            Some(chunk) => lines.feed(chunk, |line| watch(source, line)),
            None => {
                *open = false;
                lines.end(|line| watch(source, line))
            }
        };
        if !ready.is_empty() && to.write_all(&ready).await.is_ok() {
            to.flush().await.ok();
        }
    }
}

/// Cuts what comes in into whole lines.
#[derive(Default)]
struct Lines {
    held: Vec<u8>,
    /// The start of the current line was passed on already.
    cut: bool,
}

impl Lines {
    fn feed(&mut self, chunk: &[u8], mut watch: impl FnMut(&[u8])) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        let end = match self.held.iter().rposition(|b| *b == b'\n') {
            Some(at) => at + 1,
            None if self.held.len() >= LINE_LIMIT => self.held.len(),
            None => return Vec::new(),
        };
        let rest = self.held.split_off(end);
        let ready = std::mem::replace(&mut self.held, rest);
        for line in ready.split_inclusive(|b| *b == b'\n') {
            let whole = line.strip_suffix(b"\n");
            if !std::mem::replace(&mut self.cut, whole.is_none()) {
                watch(whole.unwrap_or(line));
            }
        }
        ready
    }

    /// The unfinished last line, ended so that the next line stands on its own.
    fn end(&mut self, watch: impl FnMut(&[u8])) -> Vec<u8> {
        if self.held.is_empty() && !self.cut {
            return Vec::new();
        }
        self.feed(b"\n", watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(out: &[u8], err: &[u8]) -> (Vec<u8>, Vec<(Source, Vec<u8>)>) {
        let mut to = Vec::new();
        let mut seen = Vec::new();
        let (mut out, mut err) = (out, err);
        pass(&mut out, &mut err, &mut to, |source, line| seen.push((source, line.to_vec()))).await;
        (to, seen)
    }

    #[tokio::test]
    async fn bytes_stay_as_they_are() {
        let (to, seen) = passed(b"a\xff\n\nb", b"").await;
        assert_eq!(to, b"a\xff\n\nb\n");
        assert_eq!(seen.iter().map(|(_, l)| l.as_slice()).collect::<Vec<_>>(), [&b"a\xff"[..], b"", b"b"]);
    }

    #[tokio::test]
    async fn the_rest_of_an_endless_line_is_not_watched() {
        let mut text = vec![b'x'; 3 * LINE_LIMIT];
        text.extend_from_slice(b"PLAY RECAP\nnext\n");
        let (to, seen) = passed(&text, b"e\n").await;
        assert_eq!(to.len(), text.len() + 2);
        let lines: Vec<_> = seen.iter().filter(|(s, _)| *s == Source::Out).map(|(_, l)| l).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].iter().all(|b| *b == b'x') && lines[1] == b"next");
        assert!(seen.contains(&(Source::Err, b"e".to_vec())));
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_stops_nothing() {
        struct Broken;
        impl AsyncWrite for Broken {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                _: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::task::Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()))
            }
            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(()))
            }
            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(()))
            }
        }
        let mut count = 0;
        pass(&mut &b"a\nb\n"[..], &mut &b""[..], &mut Broken, |_, _| count += 1).await;
        assert_eq!(count, 2);
    }
}
