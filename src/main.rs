//! Reads the command line, installs error and log handling, starts the one runtime and calls a command.

fn main() {}
