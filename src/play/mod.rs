//! The playground: everything on this machine, nothing to lose.

pub mod leash;
pub mod packages;
pub mod policy;
pub mod progress;
pub mod python;
pub mod services;
