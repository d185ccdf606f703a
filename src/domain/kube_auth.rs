//! Who may do what in a cluster whose API server asks [`crate::server::kube_auth`]: the token file and the ABAC policy.
//!
//! Both mean what they mean to Kubernetes' own `--token-auth-file` and `--authorization-policy-file`; where they are read more
//! strictly, the function that reads them says so. No message about them repeats what is in them.

mod abac;
mod csv;
mod grant;
mod tokens;

pub use abac::{Policies, Policy, Question, Target};
pub use grant::{GrantError, Names, NewRule, NewToken, with_rule, with_token};
pub use tokens::{Identity, TokenEntry, parse_tokens};

use serde::Serialize;

/// Something about a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct LineNote {
    /// The line, from 1.
    pub line: usize,
    /// What, and what to do; never the line's content.
    pub text: String,
}

impl LineNote {
    pub(super) fn new(line: usize, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

/// What a file says, and what is doubtful in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// What it says.
    pub value: T,
    /// What is probably not meant so.
    pub warnings: Vec<LineNote>,
}

/// The text of a file.
///
/// # Errors
/// When it is none, holds a NUL (what a machine that lost its power leaves of a file), or holds nothing: a file that is just being
/// written looks like that.
fn text(bytes: &[u8]) -> Result<&str, LineNote> {
    let text = utf8(bytes)?;
    if text.trim().is_empty() {
        return Err(LineNote::new(1, "the file is empty: it is taken for one that is just being written"));
    }
    Ok(text)
}

/// The text of a file, which may be empty; without a byte order mark.
///
/// # Errors
/// When it is none, or holds a NUL.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, LineNote> {
    let line_of = |at: usize| bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(LineNote::new(line_of(at), "holds a NUL: this is no text"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        LineNote::new(line_of(error.valid_up_to()), "is not UTF-8: save the file as UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}
