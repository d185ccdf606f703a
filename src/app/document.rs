//! Texts to read: lines with a meaning, which `view` wraps and colours.

use jiff::Timestamp;
use similar::TextDiff;

use crate::domain::Phase;
use crate::domain::results::{FileDiff, ResultDetails};
use crate::domain::text::Needle;

/// The most lines of one part of a result that are shown; `y` copies all.
const PART_LIMIT: usize = 2_000;
/// A longer line is broken into several: within one line nothing scrolls.
const LINE_LIMIT: usize = 1_000;
/// The most bytes of a text that are compared line by line.
const DIFF_LIMIT: usize = 512 * 1024;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// Text of our own.
    Text,
    /// A heading, one or two words of our own.
    Heading,
    /// What the lines that follow are about, as it is called.
    Title,
    /// Text that steps back.
    Muted,
    /// What went wrong.
    Problem,
    /// What is unusual.
    Warning,
    /// A line that a diff adds.
    Added,
    /// A line that a diff removes.
    Removed,
    /// Where a diff's hunk stands.
    Hunk,
    /// Text that others wrote: may ask for colours, is made harmless when it is drawn.
    Foreign,
    /// A key and what it does.
    Key,
    /// The same, but it cannot be done now.
    KeyOff,
    /// A span of time: a bar stands before the text. Such a line is cut, not wrapped.
    Bar(Bar),
}

/// A span of time beside others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bar {
    /// Its part of the longest, in thousandths; 0: there is none to be seen.
    pub part: u16,
    /// What it ended or goes on with; none: nothing is to be said of it.
    pub phase: Option<Phase>,
    /// It is the one that all is about.
    pub here: bool,
}

impl Bar {
    /// The bar of so many milliseconds where the longest has so many.
    #[must_use]
    pub fn of(milliseconds: u64, longest: u64) -> Self {
        let part = milliseconds.saturating_mul(1000).div_ceil(longest.max(1));
        Self { part: u16::try_from(part).unwrap_or(1000).clamp(1, 1000), ..Self::default() }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub kind: LineKind,
    /// What stands before the text, in a column of its own; may be empty.
    pub label: String,
    /// The text.
    pub text: String,
}

impl Line {
    /// Whether its text holds what is searched for.
    #[must_use]
    pub fn has(&self, needle: &Needle) -> bool {
        needle.is_in(self.text.as_bytes()) || needle.is_in(self.label.as_bytes())
    }
}

/// A text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Its lines.
    pub lines: Vec<Line>,
    /// When it next reads differently by itself: it tells how long ago something was.
    pub changes: Option<Timestamp>,
}

/// The place in a document that asks for its end.
pub const END: usize = usize::MAX;

impl Document {
    /// A line of this kind.
    pub fn push(&mut self, kind: LineKind, text: impl Into<String>) {
        self.lines.push(Line { kind, label: String::new(), text: text.into() });
    }

    /// A line with a label.
    pub fn field(&mut self, label: impl Into<String>, text: impl Into<String>) {
        self.lines.push(Line { kind: LineKind::Text, label: label.into(), text: text.into() });
    }

    /// A span of time with its bar.
    pub fn bar(&mut self, label: impl Into<String>, bar: Bar, text: impl Into<String>) {
        self.lines.push(Line { kind: LineKind::Bar(bar), label: label.into(), text: text.into() });
    }

    /// It reads differently from this time on.
    pub fn changes_at(&mut self, at: Timestamp) {
        self.changes = Some(self.changes.map_or(at, |other| other.min(at)));
    }

    /// A key and what it does.
    pub fn key(&mut self, key: impl Into<String>, text: impl Into<String>, possible: bool) {
        let kind = if possible { LineKind::Key } else { LineKind::KeyOff };
        self.lines.push(Line { kind, label: key.into(), text: text.into() });
    }

    /// A heading with an empty line before it.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blank();
        self.push(LineKind::Heading, text);
    }

    /// An empty line, unless there is one already or nothing stands before it.
    pub fn blank(&mut self) {
        if self.lines.last().is_some_and(|l| !l.text.is_empty() || !l.label.is_empty()) {
            self.push(LineKind::Text, "");
        }
    }

    /// Text of others, line by line.
    pub fn foreign(&mut self, text: &str) {
        let mut lines = text.lines().flat_map(parts);
        for line in lines.by_ref().take(PART_LIMIT) {
            self.push(LineKind::Foreign, line);
        }
        let more = lines.count();
        if more > 0 {
            self.push(LineKind::Muted, format!("{more} more lines; copying takes all of them"));
        }
    }

    /// The number of the first line of this kind.
    #[must_use]
    pub fn find_kind(&self, kind: LineKind) -> Option<usize> {
        self.lines.iter().position(|l| l.kind == kind)
    }

    /// The number of the next line after (or before) `from` that contains `needle`, in any case; round the end once.
    #[must_use]
    pub fn search(&self, needle: &Needle, from: Option<usize>, backwards: bool) -> Option<usize> {
        let end = self.lines.len();
        let hit = |n: &usize| self.lines.get(*n).is_some_and(|line| line.has(needle));
        if backwards {
            let from = from.unwrap_or(end).min(end);
            (0..from).rev().chain((from..end).rev()).find(hit)
        } else {
            let from = from.map_or(0, |f| f + 1).min(end);
            (from..end).chain(0..from).find(hit)
        }
    }
}

/// A line in parts that are not too long.
fn parts(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let whole = rest.take()?;
        let end = (0..=LINE_LIMIT.min(whole.len())).rev().find(|at| whole.is_char_boundary(*at))?;
        let (part, more) = whole.split_at_checked(end)?;
        rest = Some(more).filter(|more| !more.is_empty());
        Some(part)
    })
}

/// A result, to be read: the reason first.
#[must_use]
pub fn of_result(details: &ResultDetails) -> Document {
    let mut doc = Document::default();
    if details.censored {
        doc.push(LineKind::Muted, "The task asked for its result not to be recorded (no_log).");
    }
    if !details.message.is_empty() {
        doc.foreign(&details.message);
        doc.blank();
    }
    if let Some(rc) = details.rc {
        doc.field("rc", rc.to_string());
    }
    if let Some(command) = command(&details.content) {
        doc.field("cmd", command);
    }
    for diff in &details.diffs {
        of_diff(diff, &mut doc);
    }
    for (name, text) in
        [("stderr", &details.stderr), ("stdout", &details.stdout), ("exception", &details.exception)]
    {
        if !text.is_empty() && *text != details.message {
            doc.heading(name);
            doc.foreign(text);
        }
    }
    let arguments = details.content.get("invocation").and_then(|i| i.get("module_args"));
    if let Some(arguments) = arguments.and_then(serde_json::Value::as_object) {
        let given: Vec<_> = arguments.iter().filter(|(_, value)| !value.is_null()).collect();
        if !given.is_empty() {
            doc.heading("arguments");
            for (name, value) in given {
                doc.field(name.as_str(), scalar(value));
            }
        }
    }
    if !details.result.place.is_empty() {
        doc.blank();
        doc.push(LineKind::Muted, details.result.place.as_str());
    }
    doc
}

/// All of a result that a person reads, exactly as it was recorded.
#[must_use]
pub fn result_text(details: &ResultDetails) -> String {
    let parts = [&details.message, &details.stdout, &details.stderr, &details.exception];
    let mut out: Vec<&str> = Vec::new();
    for part in parts {
        if !part.is_empty() && !out.contains(&part.as_str()) {
            out.push(part);
        }
    }
    if out.is_empty() {
        return serde_json::to_string_pretty(&details.content).unwrap_or_default();
    }
    out.join("\n")
}

fn command(content: &serde_json::Value) -> Option<String> {
    match content.get("cmd")? {
        serde_json::Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(serde_json::Value::as_str).collect();
            Some(words.join(" ")).filter(|c| !c.is_empty())
        }
        serde_json::Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn scalar(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn of_diff(diff: &FileDiff, doc: &mut Document) {
    let name = if diff.after_header.is_empty() { &diff.before_header } else { &diff.after_header };
    doc.heading("diff");
    if !name.is_empty() {
        doc.push(LineKind::Title, name.as_str());
    }
    if !diff.prepared.is_empty() {
        for line in diff.prepared.lines().take(PART_LIMIT) {
            let kind = match line.as_bytes().first() {
                Some(b'+') => LineKind::Added,
                Some(b'-') => LineKind::Removed,
                Some(b'@') => LineKind::Hunk,
                _ => LineKind::Foreign,
            };
            doc.push(kind, line);
        }
        return;
    }
    if diff.before == diff.after {
        doc.push(LineKind::Muted, "no difference in the text");
        return;
    }
    if diff.before.len() + diff.after.len() > DIFF_LIMIT {
        doc.push(LineKind::Muted, "too large to compare here; copying takes all of it");
        return;
    }
    unified(diff, doc);
}

fn unified(diff: &FileDiff, doc: &mut Document) {
    let text = TextDiff::from_lines(diff.before.as_str(), diff.after.as_str());
    let mut room = PART_LIMIT;
    for hunk in text.unified_diff().context_radius(3).iter_hunks() {
        doc.push(LineKind::Hunk, hunk.header().to_string());
        for change in hunk.iter_changes() {
            let Some(left) = room.checked_sub(1) else {
                doc.push(LineKind::Muted, "more follows; copying takes all of it");
                return;
            };
            room = left;
            let (kind, sign) = match change.tag() {
                similar::ChangeTag::Insert => (LineKind::Added, '+'),
                similar::ChangeTag::Delete => (LineKind::Removed, '-'),
                similar::ChangeTag::Equal => (LineKind::Foreign, ' '),
            };
            doc.push(kind, format!("{sign}{}", change.value().trim_end_matches(['\n', '\r'])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample;

    fn kinds(doc: &Document) -> Vec<(LineKind, &str)> {
        doc.lines.iter().map(|l| (l.kind, l.text.as_str())).collect()
    }

    #[test]
    fn the_reason_comes_first_and_a_text_is_not_said_twice() {
        let mut details = sample::result_details(7);
        details.message = "cannot import 'tank'".into();
        details.stderr = "cannot import 'tank'".into();
        details.rc = Some(1);
        let doc = of_result(&details);
        assert_eq!(doc.lines[0].text, "cannot import 'tank'");
        assert!(!kinds(&doc).contains(&(LineKind::Heading, "stderr")));
        assert_eq!(result_text(&details), "cannot import 'tank'");
    }

    #[test]
    fn before_and_after_make_a_unified_diff() {
        let mut details = sample::result_details(7);
        details.diffs = vec![FileDiff {
            before_header: "/etc/motd".into(),
            after_header: "/etc/motd".into(),
            before: "a\nb\nc\n".into(),
            after: "a\nB\nc\n".into(),
            prepared: String::new(),
        }];
        let doc = of_result(&details);
        let lines = kinds(&doc);
        assert!(lines.contains(&(LineKind::Title, "/etc/motd")), "{lines:?}");
        assert!(lines.contains(&(LineKind::Hunk, "@@ -1,3 +1,3 @@")));
        assert!(lines.contains(&(LineKind::Removed, "-b")) && lines.contains(&(LineKind::Added, "+B")));
        assert!(lines.contains(&(LineKind::Foreign, " a")));
    }

    #[test]
    fn a_prepared_diff_is_coloured_as_it_is() {
        let mut details = sample::result_details(7);
        let prepared = "@@ -1 +1 @@\n-old\n+new\n".to_owned();
        let empty = String::new;
        details.diffs = vec![FileDiff {
            before_header: empty(),
            after_header: empty(),
            before: empty(),
            after: empty(),
            prepared,
        }];
        let doc = of_result(&details);
        assert!(doc.find_kind(LineKind::Added).is_some() && doc.find_kind(LineKind::Removed).is_some());
    }

    #[test]
    fn a_long_line_is_broken_and_nothing_of_it_is_lost() {
        let mut doc = Document::default();
        let long = "漢".repeat(1_000);
        doc.foreign(&format!("short\n{long}\n\nend"));
        assert!(doc.lines.iter().all(|l| l.text.len() <= LINE_LIMIT));
        let texts: Vec<&str> = doc.lines.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(texts.first(), Some(&"short"));
        assert_eq!(texts[1..texts.len() - 2].concat(), long);
        assert_eq!(texts[texts.len() - 2..], ["", "end"]);
    }

    #[test]
    fn long_output_is_cut_and_says_so() {
        let mut doc = Document::default();
        doc.foreign(&"x\n".repeat(PART_LIMIT + 5));
        assert_eq!(doc.lines.len(), PART_LIMIT + 1);
        assert!(doc.lines.last().unwrap().text.starts_with("5 more lines"));
    }
}
