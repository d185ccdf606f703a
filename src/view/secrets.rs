//! The secrets: the tree with its states, the bucket's settings above it, the details of a row beside it.

use std::ops::Range;

use ratatui::layout::Rect;

use super::layout::Layout;
use super::pen::{Pen, columns, rows};
use super::table::{self, Column, RowView, Shape};
use super::text::{cut_end, width};
use super::words::{age, file_role, spinner, until};
use super::{doc, empty};
use crate::app::screens::secrets::Node;
use crate::app::secrets::doc::SOON;
use crate::app::secrets::{Transfer, about};
use crate::app::{Effect, Hit, Seen, State, WIDE, time};
use crate::config::Role;
use crate::domain::Health;
use crate::domain::secret::tree::{NodeKind, Order, Rollup, TreeRow, key_of};
use crate::domain::secret::{FileState, SecretRow, Setting, shown};
use crate::domain::text;

/// How wide the details are, with the divider.
const DETAILS: u16 = 52;
/// How many columns a level of the tree is set in.
const STEP: u16 = 2;

const fn column(name: &'static str, min: u16, max: u16, leaves: u8, right: bool) -> Column {
    Column { name, min, max, leaves, right }
}

const TREE: [Column; 8] = [
    column("name", 26, 48, 0, false),
    column("state", 15, 24, 0, false),
    column("size", 8, 8, 3, true),
    column("age", 4, 4, 2, true),
    column("key", 9, 9, 5, false),
    column("vers", 4, 4, 6, true),
    column("expires", 8, 8, 7, true),
    // What came of the last deed, or why it is left out.
    column("last", 16, 60, 8, false),
];

/// Where even these have no room, name and state share what there is.
const TINY: [Column; 2] = [column("name", 8, 60, 0, false), column("state", 12, 14, 1, false)];

/// Draws the screen.
pub(crate) fn draw(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    let screen = &state.secrets;
    summary(pen, layout.summary, state, seen);
    let beside = state.details_beside() && layout.body.width >= WIDE;
    let wide = if beside { layout.body.width - DETAILS } else { layout.body.width };
    let mut area = columns(layout.body, 0, wide.saturating_sub(1));
    if let Some((_, transfer)) = &screen.transfer
        && area.height > 4
    {
        area.height -= 1;
        draw_transfer(pen, rows(layout.body, area.height, 1), transfer);
    }
    let range = window(table::split(area).1, state, seen);
    if screen.table.rows().is_empty() {
        empty::secrets(pen, area, state, seen);
    } else {
        tree(pen, area, state, range, seen);
    }
    if beside {
        details(pen, columns(layout.body, wide, DETAILS), state, seen);
    }
}

fn window(area: Rect, state: &State, seen: &mut Seen) -> Range<usize> {
    let table = &state.secrets.table;
    let page = usize::from(area.height);
    let top = table.window(page);
    (seen.list.top, seen.list.page) = (top, page);
    seen.regions.push(table::region(area, Hit::Rows(top)));
    seen.subject = table.cursor().map(str::to_owned);
    top..(top + page).min(table.rows().len())
}

fn tree(pen: &mut Pen<'_>, area: Rect, state: &State, range: Range<usize>, seen: &mut Seen) {
    let screen = &state.secrets;
    let shown = screen.table.rows().get(range).unwrap_or_default();
    let nodes: Vec<(&TreeRow, Node<'_>, String)> = shown
        .iter()
        .filter_map(|row| Some((screen.tree_row(&row.key)?, screen.node(&row.key)?)))
        .map(|(row, node)| (row, node, name_of(pen, row, &node)))
        .collect();
    let lines: Vec<(RowView<'_>, Node<'_>)> = nodes
        .iter()
        .map(|(row, node, name)| {
            let (symbol, role) = state_of(pen, node);
            let selected = screen.table.cursor() == Some(row.id.as_str());
            let (indent, marked) = (row.depth.saturating_mul(STEP), screen.is_marked(row));
            (RowView { symbol, role, name, indent, selected, marked }, *node)
        })
        .collect();
    let sorted = Order::COLUMNS.get(screen.table.column).copied().unwrap_or_default();
    let shape = Shape { columns: &TREE, tiny: &TINY, name: "name", sorted };
    table::draw(
        pen,
        area,
        &shape,
        &screen.table,
        &lines,
        |pen, node, column, seen| match node {
            Node::Folder(_, rollup) => folder_cell(rollup, column, state, seen),
            Node::File(row) => file_cell(pen, row, column, state, seen),
        },
        seen,
    );
}

fn name_of(pen: &Pen<'_>, row: &TreeRow, node: &Node<'_>) -> String {
    match (&row.kind, node) {
        (NodeKind::Folder { name, open, .. }, _) => {
            format!("{} {}/", pen.symbols().fold(*open), shown(name))
        }
        (_, Node::File(file)) => {
            let key = file.key.strip_suffix('/').unwrap_or(&file.key);
            let from = key.rfind('/').map_or(0, |at| at + 1);
            format!("  {}", shown(file.key.get(from..).unwrap_or_default()))
        }
        (NodeKind::File(_), Node::Folder(..)) => String::new(),
    }
}

/// A row's symbol and its colour.
fn state_of(pen: &Pen<'_>, node: &Node<'_>) -> (&'static str, Role) {
    match node {
        Node::File(row) if row.problem.is_some() => (pen.symbols().warning(), Role::Warning),
        Node::File(row) => (pen.symbols().file(row.state), file_role(row.state)),
        Node::Folder(_, rollup) => (pen.symbols().file(rollup.worst()), file_role(rollup.worst())),
    }
}

fn folder_cell(rollup: &Rollup, column: &str, state: &State, seen: &mut Seen) -> (String, Role) {
    match column {
        "state" => rolled(rollup),
        "size" => (text::bytes(rollup.size), Role::Muted),
        "age" => (rollup.modified.map_or(String::new(), |at| age(at, state.now, seen)), Role::Muted),
        "key" if rollup.wrong > 0 => (format!("{} wrong", rollup.wrong), Role::Warning),
        "expires" => expiry(rollup.expires, state, seen),
        "last" => (files(rollup), Role::Muted),
        _ => (String::new(), Role::Text),
    }
}

fn files(rollup: &Rollup) -> String {
    format!("{} {}", rollup.files, if rollup.files == 1 { "file" } else { "files" })
}

/// The states in a folder: those that are worth a word, else that all are the same.
fn rolled(rollup: &Rollup) -> (String, Role) {
    let telling = rollup.by_urgency().filter(|(state, _)| *state != FileState::Same);
    let words: Vec<String> = telling.map(|(state, count)| format!("{count} {}", state.words())).collect();
    if words.is_empty() {
        return (FileState::Same.words().to_owned(), Role::Muted);
    }
    (words.join(", "), file_role(rollup.worst()))
}

fn file_cell(pen: &Pen<'_>, row: &SecretRow, column: &str, state: &State, seen: &mut Seen) -> (String, Role) {
    match column {
        "state" if row.problem.is_some() => ("left out".to_owned(), Role::Warning),
        "state" => (row.state.words().to_owned(), file_role(row.state)),
        "size" => (text::bytes(row.size), Role::Text),
        "age" => (row.modified.map_or(String::new(), |at| age(at, state.now, seen)), Role::Muted),
        "key" => {
            let role = if row.encryption.is_wrong() { Role::Warning } else { Role::Muted };
            (row.encryption.word().to_owned(), role)
        }
        "vers" => (row.versions.map_or(String::new(), |count| count.to_string()), Role::Muted),
        "expires" => expiry(row.expires, state, seen),
        _ => last(pen, row, state, seen),
    }
}

/// What is being done, what came of it, or why nothing is.
fn last(pen: &Pen<'_>, row: &SecretRow, state: &State, seen: &mut Seen) -> (String, Role) {
    let flights = state.in_flight.iter();
    let mut flights =
        flights.filter(|f| matches!(&f.effect, Effect::Secret { deed, .. } if deed.is_on(&row.key)));
    if let Some(flight) = flights.next() {
        let word = flight.effect.doing().split(' ').next().unwrap_or_default().to_owned();
        return match spinner(pen, flight.since, state.now, seen) {
            Some(picture) => (format!("{picture} {word}"), Role::Running),
            None => (String::new(), Role::Text),
        };
    }
    match (state.secrets.outcome(&row.key), &row.problem) {
        (Some(Err(problem)), _) => (problem.clone(), Role::Error),
        (_, Some(problem)) => (problem.clone(), Role::Warning),
        (Some(Ok(done)), None) => (done.clone(), Role::Muted),
        (None, None) => (String::new(), Role::Muted),
    }
}

fn expiry(at: Option<jiff::Timestamp>, state: &State, seen: &mut Seen) -> (String, Role) {
    let Some(at) = at else { return (String::new(), Role::Muted) };
    let left = time::seconds_between(state.now, at);
    match left {
        0 => ("expired".to_owned(), Role::Error),
        _ => (until(at, state.now, seen), if left < SOON { Role::Warning } else { Role::Muted }),
    }
}

/// The line above: the bucket and its settings, when it was listed, what is filtered.
fn summary(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let screen = &state.secrets;
    let said = table::filtered(pen, &screen.table, screen.stale_since(), state, seen);
    let total: usize = said.iter().map(|(text, _)| width(text) + 3).sum();
    let room = area.width.saturating_sub(u16::try_from(total).unwrap_or(u16::MAX));
    let left = columns(area, 0, room);
    let mut x = 3;
    for (text, role) in bucket(pen, state, seen) {
        // What does not fit whole leaves, from the right.
        if usize::from(left.width) < usize::from(x) + width(&text) {
            break;
        }
        x += pen.put(left, x, 0, &text, role) + 2;
    }
    let mut x = room + 2;
    for (text, role) in said {
        x += pen.put(area, x, 0, &text, role) + 3;
    }
}

/// What is to be known of the bucket, what matters most first.
fn bucket(pen: &Pen<'_>, state: &State, seen: &mut Seen) -> Vec<(String, Role)> {
    let screen = &state.secrets;
    let Some(facts) = &screen.facts else { return Vec::new() };
    let mut said = vec![(super::text::harmless(&facts.bucket).into_owned(), Role::Strong)];
    if screen.incomplete.is_some() {
        said.push((format!("{} not everything is listed", pen.symbols().warning()), Role::Warning));
    }
    let words = [("private", "public"), ("versions", "no versions"), ("KMS", "no KMS by default")];
    let mut settings: Vec<(u8, String, Role)> = Vec::new();
    for ((_, setting), (good, bad)) in facts.settings().into_iter().zip(words) {
        settings.push(match setting {
            Setting::Bad(_) => (0, format!("{} {bad}", pen.symbols().warning()), Role::Warning),
            Setting::Good(_) => (1, format!("{} {good}", pen.symbols().file(FileState::Same)), Role::Muted),
            Setting::Unknown(_) => {
                (2, format!("{} {good}", pen.symbols().health(&Health::Unknown)), Role::Unknown)
            }
        });
    }
    settings.sort_by_key(|(rank, ..)| *rank);
    said.extend(settings.into_iter().map(|(_, text, role)| (text, role)));
    if let (Some(at), None) = (screen.fetched, &screen.problem) {
        said.push((format!("listed {} ago", age(at, state.now, seen)), Role::Muted));
    }
    said
}

/// How far a transfer is: a bar, and words where there is room.
fn draw_transfer(pen: &mut Pen<'_>, area: Rect, transfer: &Transfer) {
    let words = transfer.words();
    let wide = (usize::from(area.width) / 3).clamp(4, 40);
    let bar = if transfer.part() > 0 { pen.symbols().span(transfer.part(), wide) } else { String::new() };
    pen.put(area, 3, 0, &bar, Role::Running);
    let x = u16::try_from(wide).unwrap_or(0) + 5;
    let words = cut_end(&words, usize::from(area.width.saturating_sub(x)), pen.symbols().ellipsis());
    pen.put(area, x, 0, &words, Role::Text);
}

fn details(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let divider = pen.symbols().divider();
    for y in 0..area.height {
        pen.put(area, 0, y, divider, Role::Rule);
    }
    let inner = columns(area, 2, area.width.saturating_sub(3));
    let Some((title, document)) = state.secrets.settled.as_deref().and_then(|id| about(state, id)) else {
        return;
    };
    let title = cut_end(&title, usize::from(inner.width), pen.symbols().ellipsis());
    pen.put(inner, 0, 0, &title, Role::Strong);
    doc::draw(pen, rows(inner, 2, inner.height), &document, 0, None);
    document.changes.inspect(|at| seen.wake_at(*at));
}

/// One line of details, where they have no room beside the tree: the whole key, what the columns left out, what is wrong.
pub(crate) fn details_line(pen: &mut Pen<'_>, area: Rect, state: &State) {
    let screen = &state.secrets;
    let Some(id) = screen.settled.as_deref() else { return };
    let (name, parts) = match screen.node(id) {
        Some(Node::File(row)) => (shown(&row.key), of_file(row, screen.outcome(&row.key))),
        Some(Node::Folder(path, rollup)) => (shown(path), vec![files(rollup)]),
        None => return,
    };
    let room = usize::from(area.width.saturating_sub(1));
    let name = super::text::cut_middle(&name, room * 2 / 3, pen.symbols().ellipsis());
    let x = 1 + pen.put(area, 1, 0, &name, Role::Strong);
    let line = super::text::harmless(&parts.join("   ")).into_owned();
    let left = usize::from(area.width.saturating_sub(x + 4));
    let wrong = matches!(key_of(id).and_then(|key| screen.outcome(key)), Some(Err(_)));
    let role = if wrong { Role::Error } else { Role::Muted };
    pen.put(area, x + 3, 0, &cut_end(&line, left, pen.symbols().ellipsis()), role);
}

fn of_file(row: &SecretRow, outcome: Option<&Result<String, String>>) -> Vec<String> {
    if let Some(Err(problem)) = outcome {
        return vec![problem.clone()];
    }
    if let Some(problem) = &row.problem {
        return vec![problem.clone()];
    }
    let mut parts = Vec::new();
    if let Some(Ok(done)) = outcome {
        parts.push(done.clone());
    }
    if !row.encryption.word().is_empty() {
        parts.push(format!("key {}", row.encryption.word()));
    }
    if let Some(count) = row.versions {
        parts.push(format!("{count} version{}", if count == 1 { "" } else { "s" }));
    }
    parts
}
