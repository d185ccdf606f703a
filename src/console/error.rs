//! Why the console ended other than by the operator's wish.

use std::io;

/// Why the console did not start, or ended. When one of these is returned the terminal is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// It was not started on a terminal that it can use. Nothing was written to it.
    #[error(
        "the console needs a terminal, and {reason}: use `hostwright hosts list`, `hosts approve HOST` or `runs logs RUN` \
         (all commands: `hostwright --help`)"
    )]
    NoTerminal {
        /// What is missing.
        reason: &'static str,
    },
    /// The terminal refused something.
    #[error("cannot {doing}: {source}: try `reset`, or another terminal")]
    Terminal {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The line to the terminal is gone.
    #[error("the terminal was closed: the console ended; runs go on without it")]
    Closed,
    /// A signal ended it.
    #[error("ended by {name}; runs go on without the console")]
    Signal {
        /// The signal's name.
        name: &'static str,
        /// Its number.
        number: u8,
    },
    /// It was left while changes were under way, and their answers did not come in time.
    #[error(
        "not known whether this was done: {changes}: see `hostwright hosts list`; runs go on without the console"
    )]
    Unanswered {
        /// What was being done.
        changes: String,
    },
    /// The console's own task panicked.
    #[error(
        "the console crashed: {message}: this is a mistake in hostwright: please report it; runs go on without it"
    )]
    Crashed {
        /// The panic's message and place.
        message: String,
    },
}

impl ConsoleError {
    /// The exit code that says it: 2 for a terminal that can't be used, 128 and the signal's number, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoTerminal { .. } => 2,
            Self::Signal { number, .. } => 128 + number,
            Self::Closed => 129,
            Self::Terminal { .. } | Self::Unanswered { .. } | Self::Crashed { .. } => 1,
        }
    }
}
