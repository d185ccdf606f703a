//! The playground: everything on this machine, nothing to lose.

pub mod api;
pub mod leash;
pub mod packages;
pub mod progress;
pub mod python;
pub mod runner;
pub mod services;
