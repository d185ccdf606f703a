//! Who reads the keyboard: a thread of its own that can be stopped, so that a child can own the terminal.
//!
//! It reads bytes, lets [`super::decode`] make keys of them, and hands them to the loop. It waits in `poll` and reads only
//! what is there: once stopped it takes nothing more, not even the first letter that was meant for somebody else.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::decode::{Decoder, Input};
use super::tty::timespec;

/// How many keys may wait for the loop; the rest waits in the terminal.
const WAITING: usize = 256;

/// The thread's handle.
#[derive(Debug)]
pub(crate) struct Reader {
    inputs: mpsc::Receiver<Input>,
    stop: PipeWriter,
    thread: JoinHandle<()>,
}

impl Reader {
    /// Starts the thread. `erase` is what Backspace sends.
    pub(crate) fn start(erase: u8) -> io::Result<Self> {
        let (send, inputs) = mpsc::channel(WAITING);
        let (stopped, stop) = io::pipe()?;
        let thread = std::thread::Builder::new()
            .name("terminal-input".into())
            .spawn(move || read(Decoder::new(erase), &stopped, &send))?;
        Ok(Self { inputs, stop, thread })
    }

    /// The next key; none when the terminal is gone.
    pub(crate) async fn next(&mut self) -> Option<Input> {
        self.inputs.recv().await
    }

    /// A key that has come already.
    pub(crate) fn try_next(&mut self) -> Option<Input> {
        self.inputs.try_recv().ok()
    }

    /// Stops reading, now: when this returns, the next byte belongs to whoever reads it.
    pub(crate) fn stop(self) {
        let Self { inputs, stop, thread } = self;
        // In this order: a thread that waits for room is let go first, one that waits for bytes then.
        drop(inputs);
        drop(stop);
        // Its panic has been reported by the hook, and there is nothing to return.
        let _ = thread.join();
    }
}

fn read(mut decoder: Decoder, stopped: &PipeReader, send: &mpsc::Sender<Input>) {
    let stdin = rustix::stdio::stdin();
    let mut buffer = [0; 4096];
    let mut inputs = Vec::new();
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        let patience = decoder.patience().map(timespec);
        match poll(&mut fds, patience.as_ref()) {
            Ok(0) => decoder.expire(&mut inputs),
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !fds[1].revents().is_empty() => return,
            Ok(_) => match rustix::io::read(stdin, &mut buffer) {
                // The other end has hung up, or the terminal is not ours any more.
                Ok(0) => return,
                Ok(n) => decoder.feed(buffer.get(..n).unwrap_or_default(), &mut inputs),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            },
        }
        for input in inputs.drain(..) {
            if send.blocking_send(input).is_err() {
                return;
            }
        }
    }
}
