//! The mind of the console: pure state and the messages that change it.
