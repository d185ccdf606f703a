//! The shell of the terminal UI: terminal, event loop, effects, watches.

mod caps;
mod decode;
mod error;
mod input;
mod paint;
mod panics;
mod signals;
mod tty;
mod writer;

pub use error::ConsoleError;
