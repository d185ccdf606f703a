//! The shell of the terminal UI: terminal, event loop, effects, watches.

mod decode;
