//! What differs between two contents of a secret.

use serde::Serialize;
use similar::{ChangeTag, DiffOp, TextDiff};

use super::format::Format;
use super::index::Checksum;
use super::mask::{Values, lines, masked};
use crate::domain::kube_auth::utf8;
use crate::domain::text;

/// How large the two contents may be together that are compared line by line, in bytes.
pub const DIFF_LIMIT: usize = 2 * 1024 * 1024;
/// How many lines around a change are shown.
const CONTEXT: usize = 3;

/// What a line of a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineMark {
    /// Begins a part: `@@ -1,3 +1,4 @@`.
    Part,
    /// In both.
    Same,
    /// In the old one only.
    Removed,
    /// In the new one only.
    Added,
    /// A word about the line before: it has no end.
    Note,
}

impl LineMark {
    /// The character in front of the line, as in a unified diff.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Part => "",
            Self::Same => " ",
            Self::Removed => "-",
            Self::Added => "+",
            Self::Note => "\\ ",
        }
    }
}

/// A line of a difference, safe for a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// What it is.
    pub mark: LineMark,
    /// Its number in the old one, from 1.
    pub old: Option<usize>,
    /// Its number in the new one, from 1.
    pub new: Option<usize>,
    /// Its text, without the sign.
    pub text: String,
}

/// What may be said of a content that is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Size in bytes.
    pub size: u64,
    /// What it is.
    pub sha256: Checksum,
}

impl Facts {
    /// Those of a content.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, sha256: Checksum::of(bytes) }
    }
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Difference {
    /// Nothing.
    Nothing,
    /// Lines.
    Text {
        /// They, with some around them.
        lines: Vec<DiffLine>,
    },
    /// One is no text, or they are too large: none is one that is not there.
    Facts {
        /// The old one.
        old: Option<Facts>,
        /// The new one.
        new: Option<Facts>,
    },
}

/// Compares two contents; one that is not there is as an empty one.
#[must_use]
pub fn diff(old: Option<&[u8]>, new: Option<&[u8]>, format: Format, values: Values) -> Difference {
    if old == new {
        return Difference::Nothing;
    }
    match both_texts(old, new) {
        Some((old, new)) => Difference::Text { lines: of_texts(old, new, format, values) },
        None => Difference::Facts { old: old.map(Facts::of), new: new.map(Facts::of) },
    }
}

/// Both as text, if they are and are not too large.
pub(super) fn both_texts<'a>(old: Option<&'a [u8]>, new: Option<&'a [u8]>) -> Option<(&'a str, &'a str)> {
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    if old.len() + new.len() > DIFF_LIMIT {
        return None;
    }
    // The byte order mark stays: a change of it is one.
    let text = |bytes: &'a [u8]| utf8(bytes).ok().and_then(|_| std::str::from_utf8(bytes).ok());
    Some((text(old)?, text(new)?))
}

/// Which lines of the old one are changed, and into what.
pub(super) fn changes(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let all = TextDiff::from_slices(old, new);
    all.ops().iter().filter(|op| !matches!(op, DiffOp::Equal { .. })).copied().collect()
}

fn of_texts(old: &str, new: &str, format: Format, values: Values) -> Vec<DiffLine> {
    let (old_lines, new_lines) = (lines(old), lines(new));
    let shown = |text: &str, lines: &[&str]| match values {
        Values::Hidden => masked(text, format),
        Values::Shown => lines.iter().map(|line| shown_line(line)).collect(),
    };
    let (old_shown, new_shown) = (shown(old, &old_lines), shown(new, &new_lines));
    let compared = TextDiff::from_slices(&old_lines, &new_lines);
    let mut out = Vec::new();
    for part in compared.unified_diff().context_radius(CONTEXT).iter_hunks() {
        out.push(DiffLine { mark: LineMark::Part, old: None, new: None, text: part.header().to_string() });
        for change in part.iter_changes() {
            let (mark, text) = match change.tag() {
                ChangeTag::Equal => (LineMark::Same, at(&new_shown, change.new_index())),
                ChangeTag::Delete => (LineMark::Removed, at(&old_shown, change.old_index())),
                ChangeTag::Insert => (LineMark::Added, at(&new_shown, change.new_index())),
            };
            let number = |index: Option<usize>| index.map(|index| index + 1);
            let (old, new) = (number(change.old_index()), number(change.new_index()));
            out.push(DiffLine { mark, old, new, text });
            if !change.value().ends_with('\n') {
                let text = "no end of line".to_owned();
                out.push(DiffLine { mark: LineMark::Note, old: None, new: None, text });
            }
        }
    }
    out
}

fn at(lines: &[String], index: Option<usize>) -> String {
    index.and_then(|index| lines.get(index)).map(|line| text::plain(line)).unwrap_or_default()
}

/// A line with a visible carriage return: it may be all that differs.
fn shown_line(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let kept = line.trim_end_matches('\r');
    kept.to_owned() + &"\u{240d}".repeat(line.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(old: &[u8], new: &[u8], format: Format, values: Values) -> Vec<String> {
        match diff(Some(old), Some(new), format, values) {
            Difference::Text { lines } => {
                lines.iter().map(|l| format!("{}{}", l.mark.sign(), l.text)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_as_in_a_unified_diff_and_hidden_until_asked_for() {
        let (old, new) = (b"user: a\npassword: one\nx: y\n", b"user: a\npassword: two\nx: y");
        assert_eq!(
            lines_of(old, new, Format::Yaml, Values::Shown),
            [
                "@@ -1,3 +1,3 @@",
                " user: a",
                "-password: one",
                "-x: y",
                "+password: two",
                "+x: y",
                "\\ no end of line"
            ]
        );
        let hidden = lines_of(old, new, Format::Yaml, Values::default());
        assert_eq!(hidden[2..5], ["-password: ********", "-x: ********", "+password: ********"]);
        assert_eq!(lines_of(old, new, Format::Other, Values::Hidden)[1], " ********");
    }

    #[test]
    fn nothing_of_a_line_reaches_the_terminal_as_more_than_text() {
        let lines = lines_of(b"a\r\nb\x1b[2J\n", b"a\nb\xe2\x80\xae\n", Format::Other, Values::Shown);
        assert_eq!(lines, ["@@ -1,2 +1,2 @@", "-a\u{240d}", "-b\u{241b}[2J", "+a", "+b\u{fffd}"]);
    }

    #[test]
    fn what_is_no_text_or_too_large_is_only_measured() {
        let large = vec![b'x'; DIFF_LIMIT];
        for (old, new) in [(b"a\0".as_slice(), b"b".as_slice()), (b"\xff", b"a"), (&large, b"a")] {
            let facts = Difference::Facts { old: Some(Facts::of(old)), new: Some(Facts::of(new)) };
            assert_eq!(diff(Some(old), Some(new), Format::Yaml, Values::Shown), facts);
        }
        assert_eq!(diff(Some(b"a\0"), Some(b"a\0"), Format::Other, Values::Shown), Difference::Nothing);
        let gone = diff(Some(b"a\0"), None, Format::Other, Values::Shown);
        assert_eq!(gone, Difference::Facts { old: Some(Facts::of(b"a\0")), new: None });
        let Difference::Text { lines } = diff(None, Some(b"a\nb\n"), Format::Other, Values::Shown) else {
            panic!("no text");
        };
        assert_eq!(lines.iter().filter(|line| line.mark == LineMark::Added).count(), 2);
        let last = lines.last().unwrap();
        assert_eq!((last.old, last.new), (None, Some(2)));
        // An empty file and none are not the same, and there is no line to show for it.
        let Difference::Text { lines } = diff(None, Some(b""), Format::Other, Values::Shown) else {
            panic!("no text");
        };
        assert!(lines.is_empty());
    }
}
