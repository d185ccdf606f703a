//! Whether a secret is what its name says, before it is uploaded.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::IgnoredAny;

use super::format::Format;
use super::pem;
use crate::domain::kube_auth::{LineNote, Policies, parse_tokens, utf8};

/// How large a file may be that is looked into, in bytes.
pub const CHECK_LIMIT: usize = 8 * 1024 * 1024;

/// How many mistakes of one file are named.
const MOST: usize = 100;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// What keeps it from being uploaded. None of them quotes the file.
    pub problems: Vec<LineNote>,
    /// What is probably not meant so.
    pub warnings: Vec<LineNote>,
    /// When the first of its certificates expires.
    pub expires: Option<Timestamp>,
}

impl Checked {
    /// Whether it may be uploaded.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn wrong(&mut self, note: LineNote) {
        if self.problems.len() < MOST {
            self.problems.push(note);
        }
    }

    pub(super) fn doubtful(&mut self, note: LineNote) {
        if self.warnings.len() < MOST {
            self.warnings.push(note);
        }
    }
}

/// Looks whether a content is what its key's name says. What has no known name is good.
#[must_use]
pub fn check(key: &str, bytes: &[u8]) -> Checked {
    let mut checked = Checked::default();
    let format = Format::of(key);
    if format != Format::Other && bytes.len() > CHECK_LIMIT {
        checked
            .doubtful(LineNote::new(1, format!("larger than {CHECK_LIMIT} bytes: it was not looked into")));
        return checked;
    }
    let read = match format {
        Format::Tokens => warned(&mut checked, parse_tokens(bytes).map(|read| read.warnings)),
        Format::Policy => warned(&mut checked, Policies::parse(bytes).map(|read| read.warnings)),
        Format::Yaml => utf8(bytes).and_then(yaml),
        Format::Json => utf8(bytes).and_then(json),
        Format::JsonLines => utf8(bytes).and_then(json_lines),
        Format::Pairs => utf8(bytes).map(|_| ()),
        Format::Pem => {
            pem::look(key, bytes, &mut checked);
            Ok(())
        }
        Format::Other => Ok(()),
    };
    if let Err(note) = read {
        checked.wrong(note);
    }
    checked
}

fn warned(checked: &mut Checked, read: Result<Vec<LineNote>, LineNote>) -> Result<(), LineNote> {
    read.map(|warnings| warnings.into_iter().for_each(|warning| checked.doubtful(warning)))
}

/// Whether a text is YAML, whatever its tags.
///
/// # Errors
/// The line, and in words of our own what is wrong: the parser's would quote it.
pub(super) fn yaml(text: &str) -> Result<(), LineNote> {
    use serde_saphyr::Error;
    let options = serde_saphyr::options! { with_snippet: false };
    let read = serde_saphyr::from_str_multiple_with_options::<IgnoredAny, Sink>(text, options);
    read.map(|_| ()).map_err(|error| {
        let place = error.location();
        let line = place.and_then(|place| usize::try_from(place.line()).ok()).unwrap_or(1).max(1);
        let column = place.map_or(1, |place| place.column());
        let what = match error.without_snippet() {
            Error::DuplicateMappingKey { .. } => format!("has a key a second time, at column {column}"),
            Error::UnknownAnchor { .. } => format!("names an anchor that is not there, at column {column}"),
            Error::Eof { .. } => "ends before it is complete".to_owned(),
            Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. } => {
                "has too many parts, or aliases that make too many".to_owned()
            }
            _ => format!("is no YAML at column {column}"),
        };
        LineNote::new(line, what)
    })
}

/// Takes documents and keeps none.
#[derive(Default)]
struct Sink;

impl Extend<IgnoredAny> for Sink {
    fn extend<I: IntoIterator<Item = IgnoredAny>>(&mut self, documents: I) {
        documents.into_iter().for_each(drop);
    }
}

/// Whether a text is JSON.
///
/// # Errors
/// The line and the column.
pub(super) fn json(text: &str) -> Result<(), LineNote> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(_) if text.trim().is_empty() => Err(LineNote::new(1, "is empty, which is no JSON")),
        Err(error) => {
            let what = if error.is_eof() { "ends before it is complete" } else { "is no JSON" };
            Err(LineNote::new(error.line().max(1), format!("{what} at column {}", error.column())))
        }
    }
}

fn json_lines(text: &str) -> Result<(), LineNote> {
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        json(line).map_err(|note| LineNote { line: number + 1, ..note })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_says_the_line_and_never_the_content() {
        let cases: [(&str, &str, usize, &str); 17] = [
            ("tokens.csv", "a,b,1\nS3,x\n", 2, "has 2 of them"),
            ("tokens.csv", "", 1, "empty"),
            ("policy.jsonl", "{\"user\":\"a\"}\n{S3\n", 2, "no JSON"),
            ("a.yaml", "a: 1\nb: [S3\n", 2, ""),
            ("a.yaml", "a: 1\nb: S3: S3\n", 2, "no YAML"),
            ("a.yaml", "a: S3\nb: 2\na: 3\n", 3, "second time"),
            ("a.yaml", "x: 1\n---\na: S3\n\ta: 2\n", 3, "no YAML"),
            ("a.yml", "a: *S3\n", 1, "anchor"),
            ("a.yml", "a: \"S3\n", 1, ""),
            ("a.json", "{\n \"S3\": 1,\n}", 3, "no JSON at column 1"),
            ("a.json", "{\"S3\":", 1, "ends before"),
            ("a.json", " \n", 1, "is empty"),
            ("a.json", "1 S3", 1, "no JSON"),
            ("a.jsonl", "1\n\n{S3\n", 3, "no JSON"),
            ("a.env", "a=1\nS3\0", 2, "NUL"),
            ("a.yaml", "a: 1\0S3", 1, "NUL"),
            ("a.crt", "S3\n", 1, "holds no"),
        ];
        for (key, text, line, says) in cases {
            let checked = check(key, text.as_bytes());
            let [problem] = checked.problems.as_slice() else { panic!("{key} {text:?}: {checked:?}") };
            assert!(problem.text.contains(says) && !problem.text.contains("S3"), "{key} {text:?}: {problem}");
            assert_eq!(problem.line, line, "{key} {text:?}: {problem}");
        }
        assert_eq!(check("a.json", b"\"\xff\"").problems[0].text, "is not UTF-8: save the file as UTF-8");
    }

    #[test]
    fn what_is_good_or_not_known_passes() {
        let cases = [
            ("tokens.csv", "t,alice,1,\"a,b\"\n"),
            ("abac.json", "{\"user\":\"a\",\"readonly\":true}\n"),
            ("a.yaml", ""),
            ("a.yaml", "a: 1\n---\nb: !vault |\n  x\n---\n- &x 1\n- *x\n- ~: null\n- 1: one\n"),
            ("a.json", "\u{feff}{\"a\": [1, null]}\n"),
            ("a.jsonl", "{}\n1\n"),
            ("a.env", "A=b\n"),
            ("a.bin", "\0\u{1}"),
            ("a.yaml.j2", "{{ x"),
        ];
        for (key, text) in cases {
            assert_eq!(check(key, text.as_bytes()), Checked::default(), "{key} {text:?}");
        }
        let warned = check("tokens.csv", b",nobody,none\n");
        assert!(warned.is_good() && warned.warnings.len() == 1);
    }

    #[test]
    fn what_is_made_to_be_costly_costs_little() {
        let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in ('b'..='j').zip('a'..) {
            let items = vec![format!("*{before}"); 9].join(", ");
            bomb.push_str(&format!("{name}: &{name} [{items}]\n"));
        }
        assert!(!check("a.yaml", bomb.as_bytes()).is_good());
        let deep = "[".repeat(200_000);
        assert!(!check("a.yaml", deep.as_bytes()).is_good());
        assert!(!check("a.json", deep.as_bytes()).is_good());
        let large = vec![b'['; CHECK_LIMIT + 1];
        assert_eq!(check("a.json", &large).warnings.len(), 1);
    }
}
