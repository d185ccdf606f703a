//! The terminal as a device: its settings, its size, and writing to it without ever waiting longer than one wants to.
//!
//! The operator's shell, our children and we share one open file of the terminal: were it made non-blocking, it would be for
//! all of them, also after us. So the output side is opened a second time, under the terminal's own name, and only that is
//! non-blocking.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ratatui::layout::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{self, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};

/// The largest screen that is drawn: what lies beyond stays empty.
const LARGEST: Size = Size { width: 1000, height: 500 };
/// What a terminal is taken for that does not say how large it is (a serial line, say).
const USUAL: Size = Size { width: 80, height: 24 };

/// The terminal that we were started on.
#[derive(Debug)]
pub(crate) struct Tty {
    output: File,
    /// The settings as we found them.
    found: Termios,
}

/// How a write ended.
#[derive(Debug)]
pub(crate) enum Written {
    /// All of it.
    All,
    /// Not all of it: it was called off, or the time was up.
    Cut,
    /// The terminal is gone, or broken.
    Failed(io::Error),
}

impl Tty {
    /// The terminal at standard input and output; none: they are not both one.
    pub(crate) fn open() -> io::Result<Option<Self>> {
        let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
        if !termios::isatty(stdin) || !termios::isatty(stdout) {
            return Ok(None);
        }
        let found = termios::tcgetattr(stdin)?;
        Ok(Some(Self { output: reopen(stdout)?, found }))
    }

    /// Its size in cells, bounded.
    pub(crate) fn size(&self) -> Size {
        match termios::tcgetwinsize(&self.output) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size::new(size.ws_col.min(LARGEST.width), size.ws_row.min(LARGEST.height))
            }
            _ => USUAL,
        }
    }

    /// What Backspace sends on it.
    pub(crate) fn erase(&self) -> u8 {
        self.found.special_codes[SpecialCodeIndex::VERASE]
    }

    /// Whether our job is the one in the foreground: only that may touch the settings.
    pub(crate) fn foreground(&self) -> bool {
        termios::tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == getpgrp())
    }

    /// Every key as it is pressed, nothing echoed, nothing made into a signal.
    pub(crate) fn raw(&self) -> io::Result<()> {
        let mut raw = self.found.clone();
        raw.make_raw();
        set(&raw)
    }

    /// The settings as we found them.
    pub(crate) fn restore(&self) -> io::Result<()> {
        set(&self.found)
    }

    /// Finds the settings anew: a shell that had the terminal in between may have changed them.
    pub(crate) fn look(&mut self) {
        if let Ok(found) = termios::tcgetattr(rustix::stdio::stdin()) {
            self.found = found;
        }
    }

    /// Drops what was written and not read yet.
    pub(crate) fn discard_output(&self) {
        // What cannot be dropped stays: then the last words wait behind it, for their bounded time.
        let _ = termios::tcflush(&self.output, QueueSelector::OFlush);
    }

    /// Another handle on the output side.
    pub(crate) fn output(&self) -> io::Result<File> {
        self.output.try_clone()
    }

    /// Writes, for at most this long.
    pub(crate) fn write_within(&self, bytes: &[u8], limit: Duration) -> Written {
        write(&self.output, bytes, None, Some(Instant::now() + limit))
    }
}

fn set(settings: &Termios) -> io::Result<()> {
    // Not "when the output has drained": on a line that nobody reads that is never.
    loop {
        match termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, settings) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Opens the terminal behind a descriptor once more.
fn reopen(fd: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let by_name =
        termios::ttyname(fd, Vec::new()).and_then(|name| rustix::fs::open(name, flags, Mode::empty()));
    // After `su` the device is not ours to open by name, and in a container it may have none; the controlling terminal works.
    let opened = by_name.or_else(|_| rustix::fs::open("/dev/tty", flags, Mode::empty()));
    match opened {
        Ok(fd) => Ok(File::from(fd)),
        // What is left is the shared one, which may block: the writer's thread bears that.
        Err(_) => Ok(File::from(fd.try_clone_to_owned()?)),
    }
}

/// Writes all of it, unless `call_off` is closed or the deadline passes.
pub(crate) fn write(
    output: &File,
    mut bytes: &[u8],
    call_off: Option<BorrowedFd<'_>>,
    deadline: Option<Instant>,
) -> Written {
    // As much as a pseudo-terminal surely takes once it takes anything; a blocking descriptor then doesn't block.
    const PIECE: usize = 1024;
    while !bytes.is_empty() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match ready(output.as_fd(), call_off, left) {
            Ok(true) => {}
            Ok(false) => return Written::Cut,
            Err(error) => return Written::Failed(error),
        }
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        match rustix::io::write(output, piece) {
            Ok(0) => return Written::Failed(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Written::Failed(error.into()),
        }
    }
    Written::All
}

/// Waits until it can be written to; false when it was called off or the time is up.
fn ready(
    output: BorrowedFd<'_>,
    call_off: Option<BorrowedFd<'_>>,
    left: Option<Duration>,
) -> io::Result<bool> {
    let limit = left.map(timespec);
    let mut fds = vec![PollFd::from_borrowed_fd(output, PollFlags::OUT)];
    fds.extend(call_off.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    match poll(&mut fds, limit.as_ref()) {
        Ok(0) => Ok(false),
        Ok(_) => Ok(fds.get(1).is_none_or(|fd| fd.revents().is_empty())),
        // Somebody looks again: the deadline is absolute.
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A time span as the system takes it.
pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}
