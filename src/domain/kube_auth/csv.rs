//! Comma-separated values as Go's `encoding/csv` reads them, which is what the API server uses (RFC 4180, strict about quotes).
//!
//! The crates for it forgive a stray quote and go on with another value; here that would be another token or another group.

use super::LineNote;

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Where it begins, from 1.
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// The records of a text. Empty lines are skipped; the number of fields may differ.
///
/// # Errors
/// A quote where none may be, or one that is not closed.
pub(super) fn records(text: &str) -> Result<Vec<Record>, LineNote> {
    let text = text.replace("\r\n", "\n");
    let mut records = Vec::new();
    let mut rest = text.as_str();
    let mut line = 1;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('\n') {
            rest = after;
            line += 1;
            continue;
        }
        let mut record = Record { line, fields: Vec::new() };
        loop {
            let (field, after) = field(rest, &mut line)?;
            record.fields.push(field);
            rest = after;
            if let Some(after) = rest.strip_prefix(',') {
                rest = after;
                continue;
            }
            break;
        }
        if let Some(after) = rest.strip_prefix('\n') {
            rest = after;
            line += 1;
        }
        records.push(record);
    }
    Ok(records)
}

/// One field, and what follows it: a comma, the end of the line, or nothing.
fn field<'a>(text: &'a str, line: &mut usize) -> Result<(String, &'a str), LineNote> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let (field, rest) = text.split_at(end);
        if field.contains('"') {
            return Err(LineNote::new(
                *line,
                "a quote (\") inside a field that does not begin with one: quote the whole field",
            ));
        }
        return Ok((field.to_owned(), rest));
    };
    let opened = *line;
    let mut field = String::new();
    let mut rest = quoted;
    while let Some((part, after)) = rest.split_once('"') {
        field.push_str(part);
        *line += part.matches('\n').count();
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
        } else if after.is_empty() || after.starts_with([',', '\n']) {
            return Ok((field, after));
        } else {
            return Err(LineNote::new(
                *line,
                "more text behind a closing quote (\"): write a quote inside a field twice",
            ));
        }
    }
    Err(LineNote::new(opened, "a quote (\") is opened and not closed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(usize, Vec<String>)> {
        records(text).unwrap().into_iter().map(|record| (record.line, record.fields)).collect()
    }

    fn own(fields: &[&str]) -> Vec<String> {
        fields.iter().map(|field| (*field).to_owned()).collect()
    }

    #[test]
    fn records_and_the_lines_that_they_begin_on() {
        let text = "a,b,c\r\n\n \nd,\"e,\"\"f\"\"\ng\",\n\"\",x";
        let expected = [
            (1, own(&["a", "b", "c"])),
            (3, own(&[" "])),
            (4, own(&["d", "e,\"f\"\ng", ""])),
            (6, own(&["", "x"])),
        ];
        assert_eq!(fields(text), expected);
        assert!(fields("").is_empty());
        assert_eq!(fields("a,"), [(1, own(&["a", ""]))]);
    }

    #[test]
    fn stray_quotes_are_refused_with_their_line() {
        let cases = [
            ("a,b\nc\"d,e", 2, "inside a field"),
            ("a,b\nx, \"d\"", 2, "inside a field"),
            ("\"a\"b,c", 1, "behind a closing"),
            ("\"a\nb\" ,c", 2, "behind a closing"),
            ("a,b\nc,\"d\ne\nf", 2, "not closed"),
            ("\"", 1, "not closed"),
        ];
        for (text, line, says) in cases {
            let error = records(text).unwrap_err();
            assert!(error.line == line && error.text.contains(says), "{text:?}: {error}");
        }
    }
}
