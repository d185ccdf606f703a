//! The outside: one module per system, none imports another.

pub mod ansible;
pub mod git;
