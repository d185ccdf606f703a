//! The parts that tables share: columns that leave by importance or all stand at full width, headings, rows, filter and counts.

mod wide;

use ratatui::layout::Rect;

use super::header;
use super::pen::{Pen, rows};
use super::text::{Piece, cut_end, cut_middle, width};
use super::words::{age, phase_role};
use crate::app::filter::Scratch;
use crate::app::table::Table;
use crate::app::{Hit, Region, Seen, State};
use crate::config::Role;
use crate::domain::Run;

/// The columns before the first: marker, symbol, mark.
const GUTTER: u16 = 3;
/// Between two columns.
const GAP: u16 = 2;
/// Narrower than this there is hardly any room.
const TINY: u16 = 40;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its heading; also the name that it is sorted by.
    pub(crate) name: &'static str,
    /// The least that it needs.
    pub(crate) min: u16,
    /// The most that serves it.
    pub(crate) max: u16,
    /// Columns with higher numbers leave first when there is no room; 0 stays.
    pub(crate) leaves: u8,
    /// Its text stands at its right edge.
    pub(crate) right: bool,
}

/// A column with its place.
#[derive(Debug, Clone, Copy)]
struct Placed {
    /// The column.
    column: Column,
    /// Where it begins.
    x: u16,
    /// How wide it is.
    width: u16,
}

/// Which columns there are in so much room, and where: a function of the width alone, so that no content moves them.
fn place(all: &[Column], room: u16) -> Vec<Placed> {
    let mut kept: Vec<Column> = all.to_vec();
    let needed = |columns: &[Column]| -> u16 {
        GUTTER + columns.iter().map(|c| c.min).sum::<u16>() + GAP * (columns.len() as u16).saturating_sub(1)
    };
    while kept.len() > 1 && needed(&kept) > room {
        // Something is shown in any room.
        let Some(last) = kept.iter().map(|c| c.leaves).max().filter(|last| *last > 0) else { break };
        kept.retain(|c| c.leaves != last);
    }
    let mut spare = room.saturating_sub(needed(&kept));
    let mut widths: Vec<u16> = kept.iter().map(|c| c.min).collect();
    // What is left goes round, a column at a time, until all have what serves them.
    while spare > 0 {
        let mut given = false;
        for (width, column) in widths.iter_mut().zip(&kept) {
            if spare > 0 && *width < column.max {
                *width += 1;
                spare -= 1;
                given = true;
            }
        }
        if !given {
            break;
        }
    }
    let mut x = GUTTER;
    let mut out = Vec::new();
    for (column, width) in kept.into_iter().zip(widths) {
        out.push(Placed { column, x, width: width.min(room.saturating_sub(x)) });
        x += width + GAP;
    }
    out
}

/// The headings; the sorted column has an arrow.
fn headings(pen: &mut Pen<'_>, area: Rect, placed: &[Placed], sorted: &str, descending: bool) {
    for Placed { column, x, width: wide } in placed {
        let arrow = if column.name == sorted { pen.symbols().sorted(descending) } else { "" };
        let text = format!("{}{arrow}", column.name.to_uppercase());
        let text = cut_end(&text, usize::from(*wide), "");
        let at =
            if column.right { x + wide - u16::try_from(width(&text)).unwrap_or(0).min(*wide) } else { *x };
        pen.put(area, at, 0, &text, Role::Heading);
    }
}

/// A cell's text in its column.
fn cell(pen: &mut Pen<'_>, line: Rect, placed: &Placed, text: &str, role: Role) {
    let text = cut_end(&super::text::harmless(text), usize::from(placed.width), pen.symbols().ellipsis());
    let wide = u16::try_from(width(&text)).unwrap_or(0);
    let x = if placed.column.right { placed.x + placed.width.saturating_sub(wide) } else { placed.x };
    pen.put(line, x, 0, &text, role);
}

/// What one row is.
pub(crate) struct RowView<'a> {
    /// The symbol of its state.
    pub(crate) symbol: &'static str,
    /// The symbol's colour.
    pub(crate) role: Role,
    /// Its name.
    pub(crate) name: &'a str,
    /// How many columns its name is set in: in a tree.
    pub(crate) indent: u16,
    /// It is under the cursor.
    pub(crate) selected: bool,
    /// It is marked.
    pub(crate) marked: bool,
}

/// What a screen's table is made of.
pub(crate) struct Shape {
    /// Its columns.
    pub(crate) columns: &'static [Column],
    /// Those that it has where there is hardly any room; without any the same.
    pub(crate) tiny: &'static [Column],
    /// The column that rows are found by: it carries the cursor.
    pub(crate) name: &'static str,
    /// The column that the rows are sorted by.
    pub(crate) sorted: &'static str,
}

/// Draws headings and rows. `text_of` says what stands in a column of a row.
pub(crate) fn draw<T: Copy>(
    pen: &mut Pen<'_>,
    area: Rect,
    shape: &Shape,
    table: &Table,
    lines: &[(RowView<'_>, T)],
    text_of: impl Fn(&Pen<'_>, T, &'static str, &mut Seen) -> (String, Role),
    seen: &mut Seen,
) {
    let (heading, body) = split(area);
    if lines.is_empty() {
        return;
    }
    if table.wide {
        return wide::draw(pen, (heading, body), shape, table, lines, text_of, seen);
    }
    let tiny = area.width < TINY && !shape.tiny.is_empty();
    let placed = place(if tiny { shape.tiny } else { shape.columns }, area.width);
    headings(pen, heading, &placed, shape.sorted, table.descending);
    let mut scratch = None;
    for (y, (view, row)) in (0..).zip(lines) {
        let line = rows(body, y, 1);
        for at in &placed {
            if at.column.name == shape.name {
                name(pen, line, at, view, table, &mut scratch);
            } else {
                let (text, role) = text_of(pen, *row, at.column.name, seen);
                cell(pen, line, at, &text, role);
            }
        }
        state_of(pen, line, view);
    }
}

/// Marker, symbol and mark, before the first column.
fn state_of(pen: &mut Pen<'_>, line: Rect, row: &RowView<'_>) {
    let symbols = pen.symbols();
    if row.selected {
        pen.put(line, 0, 0, symbols.marker(), Role::Marker);
    }
    pen.put(line, 1, 0, row.symbol, row.role);
    if row.marked {
        pen.put(line, 2, 0, symbols.mark(), Role::Mark);
    }
}

/// A row's name. `scratch` is made when a filter first needs it.
fn name(
    pen: &mut Pen<'_>,
    line: Rect,
    placed: &Placed,
    row: &RowView<'_>,
    table: &Table,
    scratch: &mut Option<Scratch>,
) {
    let indent = row.indent.min(placed.width / 2);
    let x = placed.x + indent;
    let shown = cut_middle(row.name, usize::from(placed.width - indent), pen.symbols().ellipsis());
    let role = match (row.selected, row.marked) {
        (true, _) => Role::Selection,
        (false, true) => Role::Mark,
        (false, false) => Role::Text,
    };
    let style = pen.style(role);
    let matched = if table.filter.is_empty() || row.selected {
        Vec::new()
    } else {
        table.filter.matched(&shown, scratch.get_or_insert_default())
    };
    if matched.is_empty() {
        pen.put_styled(line, x, 0, &shown, style);
        return;
    }
    let highlight = pen.style(Role::Match);
    let pieces: Vec<Piece> = (0u32..)
        .zip(shown.chars())
        .map(|(at, c)| Piece {
            text: c.to_string(),
            style: if matched.contains(&at) { highlight } else { style },
        })
        .collect();
    pen.put_pieces(line, x, 0, &pieces);
}

/// What is to be known of a table's rows: how old they are, how many are marked, what is filtered and how much that hides.
pub(crate) fn filtered(
    pen: &Pen<'_>,
    table: &Table,
    stale: Option<jiff::Timestamp>,
    state: &State,
    seen: &mut Seen,
) -> Vec<(String, Role)> {
    let mut said: Vec<(String, Role)> = Vec::new();
    if let Some(since) = stale {
        said.push((format!("as of {} ago", age(since, state.now, seen)), Role::Warning));
    }
    if table.wide {
        said.push(("wide".to_owned(), Role::Key));
    }
    if !table.marks().is_empty() {
        said.push((format!("{} marked", table.marks().len()), Role::Mark));
    }
    let filter = table.filter.text();
    if !filter.is_empty() && table.input.is_none() {
        let ellipsis = pen.symbols().ellipsis();
        said.push((format!("filter {}", cut_end(filter, 24, ellipsis)), Role::Key));
    }
    if table.hidden() > 0 {
        said.push((format!("{} hidden", table.hidden()), Role::Warning));
    }
    said
}

/// The line above the table: counts, and what is filtered and how much it hides.
pub(crate) fn summary(pen: &mut Pen<'_>, area: Rect, state: &State, table: &Table, seen: &mut Seen) {
    let mut said = filtered(pen, table, state.store.stale_since(), state, seen);
    let total: usize = said.iter().map(|(t, _)| width(t) + 3).sum();
    let end = header::counts(pen, area, state, total);
    let room = area.width.saturating_sub(end + 2);
    let mut x = area.width.saturating_sub(u16::try_from(total).unwrap_or(u16::MAX)).max(end + 2) + 2;
    if usize::from(room) + 3 < total {
        // What is hidden matters most where there is little room.
        said.drain(..said.len().saturating_sub(1));
        let wide = said.first().map_or(0, |(t, _)| width(t) + 1);
        x = area.width.saturating_sub(u16::try_from(wide).unwrap_or(0)).max(end);
    }
    for (text, role) in said {
        x += pen.put(area, x, 0, &text, role) + 3;
    }
}

/// The window of a table in an area with so many rows: which rows are drawn. Also notes what keys refer to.
pub(crate) fn window(area: Rect, state: &State, table: &Table, seen: &mut Seen) -> std::ops::Range<usize> {
    let page = usize::from(area.height);
    let top = table.window(page);
    seen.list.top = top;
    seen.list.page = page;
    seen.regions.push(region(area, Hit::Rows(top)));
    seen.subject = table.cursor().and_then(|key| state.run_of_row(key)).map(|r| r.uid.clone());
    top..(top + page).min(table.rows().len())
}

/// A part of the screen that can be clicked.
pub(crate) fn region(area: Rect, hit: Hit) -> Region {
    Region { x: area.x, y: area.y, width: area.width, height: area.height, hit }
}

/// The rows of a table of runs that are in its window.
pub(crate) fn runs<'a>(
    pen: &Pen<'_>,
    table: &'a Table,
    range: std::ops::Range<usize>,
    run_of: impl Fn(&str) -> Option<&'a Run>,
) -> Vec<(RowView<'a>, &'a Run)> {
    let rows = table.rows().get(range).unwrap_or_default();
    let line = |row: &'a crate::app::table::Row| {
        let run = run_of(&row.key)?;
        let (selected, marked) = (table.cursor() == Some(&row.key), table.is_marked(&row.key));
        let (symbol, role) = (pen.symbols().phase(run.phase), phase_role(run.phase));
        Some((RowView { symbol, role, name: run.host.as_str(), indent: 0, selected, marked }, run))
    };
    rows.iter().filter_map(line).collect()
}

/// Headings and rows of an area.
pub(crate) fn split(area: Rect) -> (Rect, Rect) {
    let heading = u16::from(area.height >= 4);
    (rows(area, 0, heading), rows(area, heading, area.height))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn column(name: &'static str, min: u16, max: u16, leaves: u8) -> Column {
        Column { name, min, max, leaves, right: false }
    }

    #[test]
    fn columns_leave_by_importance_and_share_what_is_left() {
        let all = [column("a", 10, 20, 0), column("b", 10, 10, 2), column("c", 5, 30, 1)];
        let names = |room| place(&all, room).iter().map(|p| p.column.name).collect::<String>();
        assert_eq!(
            (names(40), names(31), names(20), names(5)),
            ("abc".into(), "ac".into(), "ac".into(), "a".into())
        );
        for room in 0..120 {
            let placed = place(&all, room);
            assert!(placed.iter().all(|p| p.x + p.width <= room.max(GUTTER)), "{room}");
            assert!(placed.windows(2).all(|w| w[0].x + w[0].width + GAP <= w[1].x + 1));
        }
    }
}
