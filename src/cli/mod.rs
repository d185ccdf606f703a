//! The commands: parse, call ops, print.

pub mod config;
