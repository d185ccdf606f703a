//! Nouns and pure rules. Nothing here does I/O, reads a clock or knows a back end.

pub mod activity;
mod announcement;
pub mod approvals;
pub mod aws;
pub mod bucket;
pub mod cluster;
mod decision;
pub mod environment;
mod host;
mod key;
pub mod kube_auth;
pub mod manifest;
mod message;
mod outcome;
pub mod places;
pub mod platform;
mod pod;
mod problem;
pub mod queue;
pub mod record;
pub mod results;
pub mod rights;
mod run;
pub mod secret;
pub mod target;
pub mod text;
mod token;

pub use announcement::{ANNOUNCEMENT_LIMIT, Announcement, FieldError, RawAnnouncement};
pub use decision::{Decision, Mark, Parameters, Stop, Verdict, Wait};
pub use host::{HostName, HostNameError, is_here};
pub use key::{KeyError, SshKey};
pub use message::{Message, MessageError};
pub use outcome::{Counts, ExitCode, Outcome, parse_recap};
pub use pod::{LogLine, Pod};
pub use problem::{BackEnd, Health, Problem, ProblemKind};
pub use record::RecordError;
pub use run::{JobState, Kind, Phase, Run, RunDetails, newest_by_host, run_name, run_prefix};
pub use token::{
    BootstrapToken, NODE_GROUP, TOKEN_PREFIX, TOKEN_TYPE, Token, TokenError, TokenState, is_token_group,
    run_token_id,
};
