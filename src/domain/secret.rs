//! The secrets bucket and its copy in a folder: which key is which file, what changed where, what two people changed, and whether a
//! file is what its name says. Nothing about a secret repeats what is in it, unless it was asked for.

mod check;
mod diff;
mod format;
mod index;
mod key;
mod mask;
mod path;
mod pem;
mod row;
mod state;
mod three_way;
pub mod tree;

pub use check::{CHECK_LIMIT, Checked, check};
pub use diff::{DIFF_LIMIT, DiffLine, Difference, Facts, LineMark, diff};
pub use format::Format;
pub use index::{Checksum, INDEX_LIMIT, Index, IndexError, Known};
pub use key::{Area, shown};
pub use mask::{MASK, Values};
pub use path::{KEY_LIMIT, Listed, OWN, PART_LIMIT, Plan, RelativePath, Skip, SkipReason, plan, relative};
pub use row::{BucketFacts, Compared, Encryption, SecretListing, SecretRow, SecretVersion, Setting};
pub use state::{FileState, LocalFact, RemoteFact, compare};
pub use three_way::{ThreeWay, three_way};
