//! The playground: everything on this machine, nothing to lose.

pub mod api;
pub mod runner;
