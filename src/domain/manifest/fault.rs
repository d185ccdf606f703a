//! What is wrong with a file of the folder of manifests.

use std::fmt;

use serde::Serialize;

use crate::domain::secret::RelativePath;
use crate::domain::text::plain;

/// Something that keeps the manifests from being rendered. It never repeats one of the environment's values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// The file that is to be mended.
    pub path: RelativePath,
    /// The line in it, from 1; none: the whole file.
    pub line: Option<usize>,
    /// The character in that line, from 1, where that is known.
    pub column: Option<usize>,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Fault {
    /// Something about a whole file.
    #[must_use]
    pub fn whole(path: &RelativePath, text: impl Into<String>) -> Self {
        Self { path: path.clone(), line: None, column: None, text: text.into() }
    }

    pub(super) fn line(path: &RelativePath, line: usize, text: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::whole(path, text) }
    }

    /// Something at an offset in bytes of the file's text.
    pub(super) fn at(path: &RelativePath, source: &str, offset: usize, text: impl Into<String>) -> Self {
        let mut end = offset.min(source.len());
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        let before = source.get(..end).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line: Some(line), column: Some(column), ..Self::whole(path, text) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", plain(&self.text))
    }
}
