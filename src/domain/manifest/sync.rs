//! What the agent on a node does with a bucket: which of its objects are to be files, what is remembered of them, and what follows from
//! both and from what is on disk.

mod listing;
mod memory;
mod plan;
mod scope;

pub use listing::{LISTING_LIMIT, Listing, ListingError};
pub use memory::{Memory, MemoryError, Taken};
pub use plan::{Doing, Here, Left, LeftReason, Removal, SyncPlan, Transfer, Why};
pub use scope::{Prefix, PrefixError, Scope};
