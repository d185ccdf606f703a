//! What runs inside a Job.

pub mod provision;
