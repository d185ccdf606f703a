//! What runs inside a Job or on a node.

pub mod provision;
pub mod sync;
