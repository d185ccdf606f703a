//! Secrets in words: all that is known of one, of a folder, of the bucket, and what differs.

use jiff::Timestamp;

use crate::app::document::{Document, LineKind};
use crate::app::environment::EnvironmentInfo;
use crate::app::{describe, time};
use crate::domain::secret::tree::Rollup;
use crate::domain::secret::{
    BucketFacts, Compared, Difference, Encryption, Facts, FileState, Format, LineMark, SecretRow, Setting,
    ThreeWay, shown,
};
use crate::domain::text;

/// A certificate that expires within so many seconds is worth a word: 30 days.
pub const SOON: i64 = 30 * 24 * 3600;

/// What a state means, in one sentence.
#[must_use]
pub fn meaning(state: FileState) -> &'static str {
    match state {
        FileState::Same => "File and object are as they were when they were the same.",
        FileState::ChangedHere => "Your file was changed; the object was not.",
        FileState::ChangedThere => "Somebody changed the object; your file was not changed.",
        FileState::Both => "Both were changed, or one was changed and the other removed: you decide.",
        FileState::Unsure => "Both are there, and nobody compared them: look at what differs.",
        FileState::OnlyHere => "There is your file, and the bucket never had it.",
        FileState::OnlyThere => "There is the object, and you never fetched it.",
        FileState::RemovedHere => "Your file was removed; the object is as it was.",
        FileState::RemovedThere => "The object was removed; your file is as it was.",
        FileState::Nowhere => "Neither is there any more.",
    }
}

/// A secret, to be read.
pub fn of_row(
    doc: &mut Document,
    row: &SecretRow,
    outcome: Option<&Result<String, String>>,
    environment: &EnvironmentInfo,
    now: Timestamp,
) {
    if let Some(problem) = &row.problem {
        doc.push(LineKind::Warning, format!("It is left out: {problem}."));
        doc.blank();
    }
    match outcome {
        Some(Err(problem)) => doc.push(LineKind::Problem, problem.as_str()),
        Some(Ok(done)) => doc.push(LineKind::Muted, done.as_str()),
        None => {}
    }
    doc.field("state", row.state.words());
    let kind = if row.state.is_conflict() { LineKind::Warning } else { LineKind::Muted };
    doc.push(kind, meaning(row.state));
    doc.blank();
    doc.field("key", shown(&row.key));
    doc.field("size", text::bytes(row.size));
    if let Some(at) = row.modified {
        let age = time::short(time::seconds_between(at, now));
        doc.field("written", format!("{}, {age} ago", describe::moment(at, now, environment)));
        doc.changes_at(time::changes_at(at, now));
    }
    encryption(doc, &row.encryption);
    doc.field("versions", row.versions.map_or("not known".to_owned(), |count| count.to_string()));
    expiry(doc, row.expires, environment, now);
    doc.field("format", format_words(Format::of(&row.key)));
    if !row.area().may_leave_for_nodes() {
        doc.field("nodes", "never sent to any");
    }
}

fn format_words(format: Format) -> &'static str {
    match format {
        Format::Tokens => "tokens (CSV), checked before it is uploaded",
        Format::Policy => "ABAC policy, checked before it is uploaded",
        Format::Yaml => "YAML, checked before it is uploaded",
        Format::Json | Format::JsonLines => "JSON, checked before it is uploaded",
        Format::Pem => "PEM, checked before it is uploaded",
        Format::Pairs => "name = value lines",
        Format::Other => "not known by its name: not checked",
    }
}

fn encryption(doc: &mut Document, encryption: &Encryption) {
    match encryption {
        Encryption::Nothing => {}
        Encryption::NotRead => doc.field("encryption", "not read yet"),
        Encryption::Ours => doc.field("encryption", "KMS, the environment's key"),
        Encryption::OtherKey(key) => {
            doc.field("encryption", format!("KMS, another key: {key}"));
            doc.push(LineKind::Warning, "Its next upload writes it under the environment's key.");
        }
        Encryption::NotKms(by) => {
            doc.field("encryption", by.as_deref().map_or("none", |_| "the store's own, not KMS"));
            doc.push(LineKind::Warning, "Its next upload writes it under the environment's key.");
        }
    }
}

fn expiry(doc: &mut Document, expires: Option<Timestamp>, environment: &EnvironmentInfo, now: Timestamp) {
    let Some(at) = expires else { return };
    let left = time::seconds_between(now, at);
    let moment = describe::moment(at, now, environment);
    if left == 0 {
        doc.push(LineKind::Problem, format!("A certificate in it expired {moment}."));
    } else {
        let kind = if left < SOON { LineKind::Warning } else { LineKind::Text };
        let text = format!("{moment}, in {}", time::short(left));
        if kind == LineKind::Warning {
            doc.push(kind, format!("A certificate in it expires {text}."));
        } else {
            doc.field("expires", text);
        }
    }
}

/// A folder, to be read.
pub fn of_folder(
    doc: &mut Document,
    path: &str,
    rollup: &Rollup,
    environment: &EnvironmentInfo,
    now: Timestamp,
) {
    doc.field("folder", shown(path));
    doc.field("files", format!("{}, {}", rollup.files, text::bytes(rollup.size)));
    for (state, count) in rollup.by_urgency() {
        doc.field(state.words(), count.to_string());
    }
    if rollup.wrong > 0 {
        doc.push(
            LineKind::Warning,
            format!("{} of them are left out, or not encrypted as they must be.", rollup.wrong),
        );
    }
    expiry(doc, rollup.expires, environment, now);
}

/// The bucket, to be read.
pub fn of_bucket(doc: &mut Document, facts: &BucketFacts) {
    doc.heading("bucket");
    doc.field("bucket", facts.bucket.as_str());
    for (name, setting) in facts.settings() {
        match setting {
            Setting::Good(text) => doc.field(name, text.as_str()),
            Setting::Bad(text) => {
                doc.field(name, "not as it must be");
                doc.push(LineKind::Warning, text.as_str());
            }
            Setting::Unknown(why) => doc.field(name, format!("not known: {why}")),
        }
    }
    doc.field("local copy", facts.folder.as_str());
}

/// What differs, to be read. `keys` are those that show values, fetch, upload and edit.
#[must_use]
pub fn of_compared(compared: &Compared, values: bool, key: &str) -> Document {
    let mut doc = Document::default();
    match compared {
        Compared::Two { from, to, difference } => {
            doc.push(LineKind::Muted, format!("- {from}"));
            doc.push(LineKind::Muted, format!("+ {to}"));
            hidden(&mut doc, values, key);
            doc.blank();
            of_difference(&mut doc, difference);
        }
        Compared::Three(three) => of_three(&mut doc, three, values, key),
    }
    doc
}

fn hidden(doc: &mut Document, values: bool, key: &str) {
    if !values {
        doc.push(LineKind::Muted, format!("Values are hidden: {key} shows them."));
    }
}

fn of_three(doc: &mut Document, three: &ThreeWay, values: bool, key: &str) {
    match three {
        ThreeWay::Alike => {
            doc.push(LineKind::Text, "Both made the same of it: nothing is to be decided.");
        }
        ThreeWay::Changed { mine, theirs, same_lines } => {
            match same_lines {
                Some(true) => doc.push(LineKind::Warning, "Both changed the same lines."),
                Some(false) => doc.push(LineKind::Text, "The two changed different lines."),
                None => doc.push(LineKind::Warning, "Whether both changed the same lines cannot be told."),
            }
            hidden(doc, values, key);
            doc.heading("what you changed");
            of_difference(doc, mine);
            doc.heading("what changed in the bucket");
            of_difference(doc, theirs);
        }
        ThreeWay::Apart { between } => {
            doc.push(LineKind::Warning, "What both began with is not known.");
            doc.push(LineKind::Muted, "- in the bucket");
            doc.push(LineKind::Muted, "+ here");
            hidden(doc, values, key);
            doc.blank();
            of_difference(doc, between);
        }
    }
}

fn of_difference(doc: &mut Document, difference: &Difference) {
    match difference {
        Difference::Nothing => doc.push(LineKind::Muted, "Nothing differs."),
        Difference::Facts { old, new } => {
            doc.push(LineKind::Muted, "No text, or too large to compare line by line.");
            let facts = |facts: &Option<Facts>| match facts {
                Some(facts) => format!("{}, sha256 {}", text::bytes(facts.size), facts.sha256),
                None => "not there".to_owned(),
            };
            doc.push(LineKind::Removed, format!("- {}", facts(old)));
            doc.push(LineKind::Added, format!("+ {}", facts(new)));
        }
        Difference::Text { lines } => {
            for line in lines {
                let kind = match line.mark {
                    LineMark::Part => LineKind::Hunk,
                    LineMark::Same => LineKind::Text,
                    LineMark::Removed => LineKind::Removed,
                    LineMark::Added => LineKind::Added,
                    LineMark::Note => LineKind::Muted,
                };
                doc.push(kind, format!("{}{}", line.mark.sign(), line.text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample::{environment, now, secret};
    use crate::domain::secret::{Values, diff, three_way};

    fn texts(doc: &Document) -> String {
        doc.lines.iter().map(|line| format!("{} {}\n", line.label, line.text)).collect()
    }

    #[test]
    fn values_are_only_there_when_they_were_asked_for() {
        for (values, shown) in [(Values::Hidden, false), (Values::Shown, true)] {
            let difference = diff(Some(b"password: one\n"), Some(b"password: two\n"), Format::Yaml, values);
            let two = Compared::Two { from: "in the bucket".into(), to: "here".into(), difference };
            let three =
                three_way(Some(b"p: one\n"), Some(b"p: two\n"), Some(b"p: six\n"), Format::Yaml, values);
            for compared in [two, Compared::Three(three)] {
                let said = texts(&of_compared(&compared, shown, "v"));
                assert_eq!(said.contains("two"), shown, "{said}");
                assert_eq!(said.contains("v shows them"), !shown, "{said}");
            }
        }
    }

    #[test]
    fn what_is_not_as_it_must_be_is_said() {
        let mut row = secret("locked/ca.crt", FileState::Both);
        row.encryption = Encryption::OtherKey("alias/old".into());
        row.expires = Some(now() + jiff::SignedDuration::from_hours(48));
        let mut doc = Document::default();
        of_row(&mut doc, &row, Some(&Err("somebody changed it".into())), &environment(), now());
        let said = texts(&doc);
        for part in
            ["somebody changed it", "another key: alias/old", "never sent", "expires", "in 2d", "you decide"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        row.expires = Some(now());
        let mut doc = Document::default();
        of_row(&mut doc, &row, None, &environment(), now());
        assert!(texts(&doc).contains("expired"));
    }
}
