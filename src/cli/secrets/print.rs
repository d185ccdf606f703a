//! What the commands on secrets print.

use jiff::Timestamp;
use serde_json::json;

use crate::cli::output::Table;
use crate::cli::{Failure, Output, fail, say};
use crate::domain::kube_auth::Names;
use crate::domain::record::stamp;
use crate::domain::secret::{
    Compared, DiffLine, Difference, Facts, FileState, SecretListing, SecretRow, SecretVersion, Setting,
    ThreeWay, shown,
};
use crate::domain::text::bytes;
use crate::ops::secrets::Moved;

pub(super) fn list(listing: &SecretListing, output: Output) -> Result<(), Failure> {
    output.print(listing, |listing| {
        let mut table = Table::new(&["KEY", "STATE", "SIZE", "WRITTEN", "ENCRYPTION", "VERSIONS", "EXPIRES"]);
        for row in &listing.rows {
            table.row(cells(row));
        }
        table
    })?;
    warn(listing);
    Ok(())
}

fn cells(row: &SecretRow) -> [String; 7] {
    let at = |at: Option<Timestamp>| at.map(stamp).unwrap_or_default();
    let state =
        row.problem.as_ref().map_or_else(|| row.state.words().to_owned(), |why| format!("left out: {why}"));
    [
        shown(&row.key),
        state,
        bytes(row.size),
        at(row.modified),
        row.encryption.word().to_owned(),
        row.versions.map(|count| count.to_string()).unwrap_or_default(),
        at(row.expires),
    ]
}

/// What ought to be otherwise with the bucket.
fn warn(listing: &SecretListing) {
    for (_, setting) in listing.facts.settings() {
        if let Setting::Bad(text) | Setting::Unknown(text) = setting {
            fail(&format!("warning: bucket {}: {text}", listing.facts.bucket));
        }
    }
}

/// Only what is not as it should be; the exit code says whether there is something.
pub(super) fn status(listing: &SecretListing, output: Output) -> Result<(), Failure> {
    let differs = |row: &&SecretRow| row.state != FileState::Same || row.needs_eyes();
    let rows: Vec<&SecretRow> = listing.rows.iter().filter(differs).collect();
    output.print(&rows, |rows| {
        let mut table = Table::pairs();
        for row in rows {
            let wrong = if row.encryption.is_wrong() { row.encryption.word() } else { "" };
            let [key, state, ..] = cells(row);
            table.row([key, state, wrong.to_owned()]);
        }
        table
    })?;
    if output == Output::Table {
        say(&format!("{} of {} secrets differ", rows.len(), listing.rows.len()))?;
    }
    warn(listing);
    if rows.is_empty() { Ok(()) } else { Err(Failure::said(1)) }
}

pub(super) fn moved(moved: &Moved, output: Output) -> Result<(), Failure> {
    let done: Vec<_> =
        moved.outcomes.iter().filter_map(|(key, outcome)| Some((key, outcome.as_ref().ok()?))).collect();
    let failed =
        moved.outcomes.iter().filter_map(|(key, outcome)| Some((key, outcome.as_ref().err()?.to_string())));
    let value = json!({
        "done": done.iter().map(|(key, outcome)| json!({"key": key, "outcome": outcome.words()})).collect::<Vec<_>>(),
        "failed": failed.map(|(key, error)| json!({"key": key, "error": error})).collect::<Vec<_>>(),
        "skipped": moved.skipped.iter().map(|(key, reason)| json!({"key": key, "reason": reason})).collect::<Vec<_>>(),
        "cancelled": moved.cancelled,
    });
    let same = done.iter().filter(|(_, outcome)| outcome.words() == "the same").count();
    output.print(&value, |_| {
        let mut table = Table::pairs();
        for (key, outcome) in done.iter().filter(|(_, outcome)| outcome.words() != "the same") {
            table.row([outcome.words().to_owned(), shown(key)]);
        }
        table
    })?;
    if output == Output::Table && same > 0 {
        say(&format!("{same} the same"))?;
    }
    Ok(())
}

pub(super) fn history(versions: &[SecretVersion], output: Output) -> Result<(), Failure> {
    output.print(&versions, |versions| {
        let mut table = Table::new(&["VERSION", "WRITTEN", "SIZE", "HELD BY"]);
        for version in *versions {
            let size = version.size.map_or_else(|| "removed".to_owned(), bytes);
            let at = version.modified.map(stamp).unwrap_or_default();
            table.row([version.id.clone(), at, size, version.held_by().to_owned()]);
        }
        table
    })?;
    Ok(())
}

pub(super) fn names(names: &Names, output: Output) -> Result<(), Failure> {
    output.print(names, |names| {
        let mut table = Table::pairs();
        names.users.iter().for_each(|user| table.row(["user".to_owned(), user.clone()]));
        names.groups.iter().for_each(|group| table.row(["group".to_owned(), group.clone()]));
        table
    })?;
    Ok(())
}

pub(super) fn compared(compared: &Compared, output: Output) -> Result<(), Failure> {
    if output != Output::Table {
        return Ok(output.print(compared, |_| Table::pairs())?);
    }
    for line in lines(compared) {
        say(&line)?;
    }
    Ok(())
}

/// A comparison, line by line.
pub(super) fn lines(compared: &Compared) -> Vec<String> {
    match compared {
        Compared::Two { from, to, difference } => of_difference(from, to, difference),
        Compared::Three(ThreeWay::Alike) => {
            vec!["both made the same of it: nothing is to be decided".to_owned()]
        }
        Compared::Three(ThreeWay::Apart { between }) => of_difference("the bucket", "here", between),
        Compared::Three(ThreeWay::Changed { mine, theirs, same_lines }) => {
            let mut all = of_difference("what it was", "here", mine);
            all.push(String::new());
            all.extend(of_difference("what it was", "the bucket", theirs));
            match same_lines {
                Some(true) => all.push("both touch the same lines".to_owned()),
                Some(false) => all.push("they touch different lines".to_owned()),
                None => {}
            }
            all
        }
    }
}

fn of_difference(from: &str, to: &str, difference: &Difference) -> Vec<String> {
    let head = [format!("--- {from}"), format!("+++ {to}")];
    match difference {
        Difference::Nothing => vec![format!("{from} and {to} are the same")],
        Difference::Text { lines } => head.into_iter().chain(lines.iter().map(line)).collect(),
        Difference::Facts { old, new } => {
            let fact = |sign: &str, facts: &Option<Facts>| {
                let words = facts.map_or_else(
                    || "not there".to_owned(),
                    |facts| format!("{}, SHA-256 {}", bytes(facts.size), facts.sha256),
                );
                format!("{sign}{words}")
            };
            head.into_iter().chain([fact("-", old), fact("+", new)]).collect()
        }
    }
}

fn line(line: &DiffLine) -> String {
    format!("{}{}", line.mark.sign(), crate::domain::text::plain(&line.text))
}
