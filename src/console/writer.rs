//! Who writes to the terminal: a thread of its own that holds at most one frame.
//!
//! A line that does not drain delays the next frame, and nothing else: the loop goes on, and the end is bounded in time. The
//! loop draws no new frame before this one is out, so what is shown next is always the newest state.

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::sync::mpsc as blocking;
use std::time::Duration;

use tokio::sync::mpsc;

use super::tty::{self, Tty, Written};

/// The thread's handle.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Frames to write; room for one.
    frames: blocking::SyncSender<Vec<u8>>,
    /// How each ended.
    done: mpsc::Receiver<io::Result<()>>,
    /// Says, when the thread has ended, whether it had to cut a frame.
    ended: blocking::Receiver<bool>,
    /// Closed, it calls off what is being written.
    call_off: PipeWriter,
    busy: bool,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(tty: &Tty) -> io::Result<Self> {
        let output = tty.output()?;
        let (called_off, call_off) = io::pipe()?;
        let (frames, work) = blocking::sync_channel::<Vec<u8>>(1);
        // One frame is under way at a time, so one answer is.
        let (report, done) = mpsc::channel(1);
        let (end, ended) = blocking::sync_channel(1);
        std::thread::Builder::new().name("terminal-output".into()).spawn(move || {
            let mut cut = false;
            while let Ok(frame) = work.recv() {
                let result = match tty::write(&output, &frame, Some(called_off.as_fd()), None) {
                    Written::All => Ok(()),
                    Written::Cut => {
                        cut = true;
                        break;
                    }
                    Written::Failed(error) => Err(error),
                };
                if report.blocking_send(result).is_err() {
                    break;
                }
            }
            // Nobody listens when the console had no time to wait for it.
            let _ = end.send(cut);
        })?;
        Ok(Self { frames, done, ended, call_off, busy: false })
    }

    /// Whether a frame is under way: no other may be sent.
    pub(crate) fn busy(&self) -> bool {
        self.busy
    }

    /// Writes a frame, in the background.
    pub(crate) fn send(&mut self, frame: Vec<u8>) {
        debug_assert!(!self.busy, "the loop draws only when the last frame is out");
        if !frame.is_empty() {
            self.busy = self.frames.try_send(frame).is_ok();
        }
    }

    /// Waits until the frame that is under way is out; for ever when there is none.
    pub(crate) async fn drained(&mut self) -> io::Result<()> {
        if !self.busy {
            std::future::pending::<()>().await;
        }
        let result = self.done.recv().await;
        self.busy = false;
        result.unwrap_or_else(|| Err(io::Error::other("the writer of the terminal has ended")))
    }

    /// Ends the thread: what is under way is written if that takes no longer than this. True when a frame was cut.
    ///
    /// It blocks, for at most a little longer than that: call it when the console has nothing else to do.
    pub(crate) fn finish(self, limit: Duration) -> bool {
        let Self { frames, done, ended, call_off, .. } = self;
        drop(frames);
        drop(done);
        if let Ok(cut) = ended.recv_timeout(limit) {
            return cut;
        }
        drop(call_off);
        // A descriptor that blocks all the same keeps its thread until the process ends; we don't wait for that.
        ended.recv_timeout(Duration::from_millis(50)).unwrap_or(true)
    }
}
