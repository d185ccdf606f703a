//! The platform: brought up step by step, each of which makes only what is missing.

mod access;
mod batch;
mod bring_up;
mod certificates;
mod keys;

pub use bring_up::{Bringing, Report};
pub use certificates::{Ending, Trouble};
