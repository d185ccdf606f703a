//! The console in a pseudo-terminal, seen from outside: what it writes and when, what it takes of memory and processor.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::process;

/// The end of a frame, as the console marks it.
const FRAME: &[u8] = b"\x1b[?2026l";
/// How long anything may take before the measuring fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Everything that was written: the bytes, and when the pieces came.
#[derive(Default)]
pub(crate) struct Tape {
    pub(crate) bytes: Vec<u8>,
    /// The end of each piece in the bytes, and when it was read.
    pieces: Vec<(usize, Instant)>,
    closed: bool,
}

impl Tape {
    /// Where these bytes are first found from there on: the place behind them.
    pub(crate) fn find(&self, from: usize, wanted: &[u8]) -> Option<usize> {
        let rest = self.bytes.get(from..)?;
        Some(from + rest.windows(wanted.len()).position(|bytes| bytes == wanted)? + wanted.len())
    }

    /// When the frame was complete that holds this place.
    pub(crate) fn frame_at(&self, place: usize) -> Option<Instant> {
        let end = self.find(place, FRAME)?;
        let piece = self.pieces.partition_point(|(until, _)| *until < end);
        self.pieces.get(piece).map(|(_, at)| *at)
    }
}

pub(crate) struct Console {
    pub(crate) begun: Instant,
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    tape: Arc<(Mutex<Tape>, Condvar)>,
    /// The screen, and how much of the tape is on it.
    screen: (vt100::Parser, usize),
    _master: Box<dyn MasterPty + Send>,
}

impl Console {
    /// Starts it at 160x50 with this configuration file; what it keeps goes into the file's folder.
    pub(crate) fn start(program: &Path, config: &Path) -> Self {
        let size = PtySize { rows: 50, cols: 160, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keyboard = pair.master.take_writer().unwrap();
        let mut command = CommandBuilder::new(program);
        command.arg("--config");
        command.arg(config);
        for name in ["NO_COLOR", "TMUX", "HOSTWRIGHT_ENV", "HOSTWRIGHT_CONFIG", "LC_ALL", "KUBECONFIG"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
            command.env(name, config.parent().unwrap());
        }
        let begun = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let tape = Arc::new((Mutex::new(Tape::default()), Condvar::new()));
        let shared = Arc::clone(&tape);
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            loop {
                let read = reader.read(&mut buffer).unwrap_or(0);
                let now = Instant::now();
                let mut tape = shared.0.lock().unwrap();
                tape.bytes.extend_from_slice(&buffer[..read]);
                let end = tape.bytes.len();
                tape.pieces.push((end, now));
                tape.closed = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        let screen = (vt100::Parser::new(cells(50), cells(160), 0), 0);
        Self { begun, child, keyboard, tape, screen, _master: pair.master }
    }

    pub(crate) fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much was written so far.
    pub(crate) fn written(&self) -> usize {
        self.tape().bytes.len()
    }

    /// Waits for the end of a frame that began after this place: its time, and the place behind it.
    pub(crate) fn frame_after(&mut self, place: usize) -> (Instant, usize) {
        self.wait("a frame", |tape| {
            let end = tape.find(place, FRAME)?;
            Some((tape.frame_at(place)?, end))
        })
    }

    fn wait<T>(&self, what: &str, mut wanted: impl FnMut(&Tape) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut tape = self.tape();
        loop {
            if let Some(found) = wanted(&tape) {
                return found;
            }
            assert!(!tape.closed, "the console ended while we waited for {what}");
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            tape = self.tape.1.wait_timeout(tape, Duration::from_millis(100)).unwrap().0;
        }
    }

    /// The screen as text.
    pub(crate) fn screen(&mut self) -> String {
        let (parser, shown) = &mut self.screen;
        let tape = self.tape.0.lock().unwrap();
        parser.process(&tape.bytes[*shown..]);
        *shown = tape.bytes.len();
        parser.screen().contents()
    }

    /// Waits until this is on the screen.
    pub(crate) fn wait_for(&mut self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = self.written();
            let screen = self.screen();
            if screen.contains(wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain for {wanted:?}:\n{screen}");
            let tape = self.tape();
            if tape.bytes.len() == before {
                drop(self.tape.1.wait_timeout(tape, Duration::from_millis(100)).unwrap());
            }
        }
    }

    /// Waits until nothing was written for so long.
    pub(crate) fn quiet(&self, long: Duration) {
        let mut before = self.written();
        loop {
            std::thread::sleep(long);
            let now = self.written();
            if now == before {
                return;
            }
            before = now;
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// See [`process::resident`].
    pub(crate) fn resident(&self) -> (f64, f64) {
        process::resident(self.pid())
    }

    /// See [`process::processor`].
    pub(crate) fn processor(&self) -> Duration {
        process::processor(self.pid())
    }

    fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn cells(n: u16) -> std::num::NonZeroU16 {
    std::num::NonZeroU16::new(n).unwrap()
}
