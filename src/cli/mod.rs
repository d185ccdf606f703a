//! The commands: parse, call ops, print.
