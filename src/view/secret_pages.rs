//! The pages of one secret: its versions, and what differs.

use ratatui::layout::Rect;

use super::layout::Layout;
use super::pen::{Pen, columns, rows};
use super::table::{self, Column, RowView, Shape};
use super::text::{cut_end, width};
use super::words::{age, spinner};
use super::{doc, empty};
use crate::app::secrets::SecretDeed;
use crate::app::{Effect, Hit, Seen, State, describe};
use crate::config::Role;
use crate::domain::secret::{FileState, SecretVersion};
use crate::domain::text;

const VERSIONS: [Column; 5] = [
    Column { name: "written", min: 20, max: 24, leaves: 0, right: false },
    Column { name: "age", min: 4, max: 4, leaves: 1, right: true },
    Column { name: "size", min: 8, max: 8, leaves: 2, right: true },
    Column { name: "who has it", min: 18, max: 24, leaves: 0, right: false },
    Column { name: "version", min: 16, max: 64, leaves: 3, right: false },
];

/// Draws the versions of a secret.
pub(crate) fn versions(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    let Some(page) = &state.secrets.versions else { return };
    let area = columns(layout.body, 0, layout.body.width.saturating_sub(1));
    above(pen, layout.summary, state, "Newest first; what is restored becomes the newest.", seen);
    let body = table::split(area).1;
    let rows = usize::from(body.height);
    let top = page.table.window(rows);
    (seen.list.top, seen.list.page) = (top, rows);
    seen.regions.push(table::region(body, Hit::Rows(top)));
    seen.subject = page.table.cursor().map(str::to_owned);
    if page.table.rows().is_empty() {
        let waits = match (page.is_read(), page.table.total()) {
            (false, _) => "reading the versions",
            (true, 0) => "The bucket keeps no version of it.",
            (true, _) => "No version passes the filter.",
        };
        return empty::page(pen, area, state, page.problem.as_ref(), waits);
    }
    let shown = page.table.rows().get(top..(top + rows).min(page.table.rows().len())).unwrap_or_default();
    let found: Vec<(&SecretVersion, String)> = shown
        .iter()
        .filter_map(|row| page.version(&row.key))
        .map(|version| (version, written(version, state)))
        .collect();
    let lines: Vec<(RowView<'_>, &SecretVersion)> = found
        .iter()
        .map(|(version, name)| {
            let (symbol, role) = symbol_of(pen, version);
            let selected = page.table.cursor() == Some(version.id.as_str());
            (RowView { symbol, role, name, indent: 0, selected, marked: false }, *version)
        })
        .collect();
    let shape = Shape { columns: &VERSIONS, tiny: &[], name: "written", sorted: "" };
    table::draw(
        pen,
        area,
        &shape,
        &page.table,
        &lines,
        |_, version, column, seen| cell(version, column, state, seen),
        seen,
    );
}

fn symbol_of(pen: &Pen<'_>, version: &SecretVersion) -> (&'static str, Role) {
    match (version.newest, version.is_removal()) {
        (_, true) => (pen.symbols().file(FileState::RemovedHere), Role::Warning),
        (true, false) => (pen.symbols().file(FileState::Same), Role::Ok),
        (false, false) => (" ", Role::Text),
    }
}

fn written(version: &SecretVersion, state: &State) -> String {
    let moment = |at| describe::moment(at, state.now, &state.environment);
    version.modified.map_or_else(|| "not known".to_owned(), moment)
}

fn cell(version: &SecretVersion, column: &str, state: &State, seen: &mut Seen) -> (String, Role) {
    match column {
        "age" => (version.modified.map_or(String::new(), |at| age(at, state.now, seen)), Role::Muted),
        "size" => match version.size {
            Some(size) => (text::bytes(size), Role::Text),
            None => ("removed".to_owned(), Role::Warning),
        },
        "who has it" => (version.held_by().to_owned(), Role::Text),
        _ => (version.id.clone(), Role::Muted),
    }
}

/// Draws what differs in a secret.
pub(crate) fn differences(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    let Some(page) = &state.secrets.differences else { return };
    let values = if page.values { "Values are shown." } else { "" };
    above(pen, layout.summary, state, values, seen);
    let area = columns(layout.body, 1, layout.body.width.saturating_sub(2));
    let Some(document) = page.doc.as_ref().filter(|_| page.problem.is_none()) else {
        return empty::page(pen, area, state, page.problem.as_ref(), "reading what differs");
    };
    let found = Some(&page.needle).filter(|needle| !needle.is_empty()).map(|needle| (needle, page.hit));
    seen.result = doc::draw(pen, area, document, page.top, found);
}

/// The line above: what is to be known, what is searched for, and the spinner of a read that is under way.
fn above(pen: &mut Pen<'_>, area: Rect, state: &State, words: &str, seen: &mut Seen) {
    let role = if words.starts_with("Values") { Role::Warning } else { Role::Muted };
    let room = usize::from(area.width.saturating_sub(4));
    pen.put(area, 3, 0, &cut_end(words, room, pen.symbols().ellipsis()), role);
    let reads = |effect: &Effect| {
        matches!(effect, Effect::Secret { deed: SecretDeed::History(_) | SecretDeed::Compare { .. }, .. })
    };
    let right = columns(area, 0, area.width.saturating_sub(1));
    if let Some(flight) = state.in_flight.iter().find(|flight| reads(&flight.effect))
        && let Some(picture) = spinner(pen, flight.since, state.now, seen)
    {
        pen.put_right(rows(right, 0, 1), 0, &format!("{picture} reading"), Role::Running);
        return;
    }
    let needle =
        state.secrets.differences.as_ref().map(|page| &page.needle).filter(|needle| !needle.is_empty());
    if let Some(needle) = needle {
        let text = format!("/{}", super::text::harmless(needle.text()));
        if width(&text) + width(words) + 8 < usize::from(area.width) {
            pen.put_right(right, 0, &text, Role::Key);
        }
    }
}
