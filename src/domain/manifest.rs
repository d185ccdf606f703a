//! Manifests: templates and the environment's values become files; what of them is in the bucket; what the agents on the nodes do with
//! that, and what they say of themselves.

mod compare;
mod fault;
mod overview;
mod pace;
mod render;
mod role;
mod status;
mod sync;
mod values;

pub use compare::{Compared, Rendered, State, Stored, compare, unified};
pub use fault::Fault;
pub use overview::{FileState, NodeState, NodeView, View, overview};
pub use pace::Pace;
pub use render::{ManifestFile, Sources, render};
pub use role::{Role, TEMPLATE};
pub use status::{
    NodeFile, NodeName, NodeNameError, NodeProblem, NodeStatus, STATUS_LIMIT, STATUS_PREFIX, StatusError,
};
pub use sync::{
    Doing, Here, LISTING_LIMIT, Left, LeftReason, Listing, ListingError, Memory, MemoryError, Prefix,
    PrefixError, Removal, Scope, SyncPlan, Taken, Transfer, Why,
};
pub use values::values;
