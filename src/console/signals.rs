//! The signals that the console takes.

use std::io;

use futures_util::FutureExt;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::ConsoleError;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The terminal has another size.
    Resized,
    /// Stop, as Ctrl-Z does it where the terminal makes signals.
    Stop,
    /// We were stopped, and go on.
    Continued,
    /// End: SIGTERM, SIGQUIT, or SIGINT. Ctrl-C is a key here, so SIGINT comes from elsewhere, and who sends it means it.
    End(&'static str, u8),
    /// The line is gone.
    HangUp,
}

impl Signal {
    /// The error with which the console ends for it, if it does.
    pub(crate) fn error(self) -> Option<ConsoleError> {
        match self {
            Self::End(name, number) => Some(ConsoleError::Signal { name, number }),
            Self::HangUp => Some(ConsoleError::Closed),
            Self::Resized | Self::Stop | Self::Continued => None,
        }
    }
}

/// All of them, caught from now on.
#[derive(Debug)]
pub(crate) struct Signals {
    resized: Stream,
    stop: Stream,
    continued: Stream,
    interrupt: Stream,
    terminate: Stream,
    quit: Stream,
    hang_up: Stream,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            continued: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            _ = self.hang_up.recv() => Signal::HangUp,
            _ = self.terminate.recv() => Signal::End("SIGTERM", 15),
            _ = self.quit.recv() => Signal::End("SIGQUIT", 3),
            _ = self.interrupt.recv() => Signal::End("SIGINT", 2),
            _ = self.stop.recv() => Signal::Stop,
            _ = self.continued.recv() => Signal::Continued,
            _ = self.resized.recv() => Signal::Resized,
        }
    }

    /// Forgets stops that came and were not looked at: they were meant for a program that had the terminal.
    pub(crate) fn forget_stops(&mut self) {
        while self.stop.recv().now_or_never().is_some() {}
    }

    /// Waits until we go on after a stop. Signals that end the console end this too.
    pub(crate) async fn continued(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::Resized | Signal::Stop => {}
                other => return other,
            }
        }
    }
}
