//! A table with all of its columns at full width. Where they have no room the first stays and the others are moved over.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{GAP, GUTTER, Placed, RowView, Shape, cell, headings, name, state_of};
use crate::app::Seen;
use crate::app::table::Table;
use crate::config::Role;
use crate::view::pen::{Pen, rows};
use crate::view::text::{harmless, width};

/// No column takes more than this: a reason may be a whole page.
const MOST: u16 = 400;

/// Where the columns stand, and which part of them is seen.
struct Frame {
    placed: Vec<Placed>,
    /// What the first column takes, which stays.
    fixed: u16,
    /// What all of them take.
    whole: u16,
    /// How far the others are moved over.
    left: u16,
    /// How much there is to be seen.
    room: u16,
}

impl Frame {
    /// Whether anything of a column is seen.
    fn shows(&self, at: &Placed) -> bool {
        let (from, to) = (self.fixed + self.left, self.room + self.left);
        at.x < self.fixed || (at.x < to && at.x + at.width > from)
    }
}

/// Draws headings and rows.
pub(super) fn draw<T: Copy>(
    pen: &mut Pen<'_>,
    (heading, body): (Rect, Rect),
    shape: &Shape,
    table: &Table,
    lines: &[(RowView<'_>, T)],
    text_of: impl Fn(&Pen<'_>, T, &'static str, &mut Seen) -> (String, Role),
    seen: &mut Seen,
) {
    let widths = widths(pen, shape, lines, &text_of);
    let frame = frame(shape, &widths, body.width, table.left);
    seen.left_most = Some(frame.whole.saturating_sub(frame.room));
    moved(pen, heading, &frame, |pen, line| {
        headings(pen, line, &frame.placed, shape.sorted, table.descending);
    });
    let mut scratch = None;
    for (y, (view, row)) in (0..).zip(lines) {
        moved(pen, rows(body, y, 1), &frame, |pen, line| {
            for at in frame.placed.iter().filter(|at| frame.shows(at)) {
                if at.column.name == shape.name {
                    name(pen, line, at, view, table, &mut scratch);
                } else {
                    let (text, role) = text_of(pen, *row, at.column.name, seen);
                    cell(pen, line, at, &text, role);
                }
            }
            state_of(pen, line, view);
        });
    }
    more(pen, heading, &frame);
}

/// What each column takes: what the rows that are shown have in it, and never less than it needs elsewhere.
fn widths<T: Copy>(
    pen: &Pen<'_>,
    shape: &Shape,
    lines: &[(RowView<'_>, T)],
    text_of: &impl Fn(&Pen<'_>, T, &'static str, &mut Seen) -> (String, Role),
) -> Vec<u16> {
    // What is measured is not seen: no frame is due when it changes.
    let mut unseen = Seen::default();
    let mut of = |column: &super::Column| {
        let texts = lines.iter().map(|(view, row)| {
            if column.name == shape.name {
                width(&harmless(view.name)) + usize::from(view.indent)
            } else {
                width(&harmless(&text_of(pen, *row, column.name, &mut unseen).0))
            }
        });
        let widest = texts.max().unwrap_or(0);
        u16::try_from(widest).unwrap_or(MOST).clamp(column.min, MOST)
    };
    shape.columns.iter().map(&mut of).collect()
}

fn frame(shape: &Shape, widths: &[u16], room: u16, left: u16) -> Frame {
    let whole = GUTTER + widths.iter().sum::<u16>() + GAP * (widths.len() as u16).saturating_sub(1);
    let mut placed = Vec::new();
    let mut x = GUTTER;
    for (at, (column, width)) in shape.columns.iter().zip(widths).enumerate() {
        // The first may not take all the room from the others.
        let half = (room / 2).saturating_sub(GUTTER);
        let width = if at == 0 && whole > room { (*width).min(half) } else { *width };
        placed.push(Placed { column: *column, x, width });
        x += width + GAP;
    }
    let fixed = placed.first().map_or(0, |first| first.x + first.width + GAP).min(room);
    let whole = x.saturating_sub(GAP);
    Frame { placed, fixed, whole, left: left.min(whole.saturating_sub(room)), room }
}

/// Draws a line as if there were room for all of it, and shows the part that is looked at.
fn moved(pen: &mut Pen<'_>, line: Rect, frame: &Frame, draw: impl FnOnce(&mut Pen<'_>, Rect)) {
    if line.is_empty() {
        return;
    }
    let whole = Rect::new(0, 0, frame.whole, 1);
    let mut buffer = Buffer::empty(whole);
    draw(&mut Pen { buffer: &mut buffer, theme: pen.theme }, whole);
    for x in 0..frame.room.min(frame.whole) {
        let from = if x < frame.fixed { x } else { x + frame.left };
        let (Some(cell), Some(to)) = (buffer.cell((from, 0)), pen.buffer.cell_mut((line.x + x, line.y)))
        else {
            continue;
        };
        to.clone_from(cell);
        // Of a wide character at the edge there is but one half.
        let end = x + 1 == frame.room || x + 1 == frame.fixed;
        if end && width(cell.symbol()) > 1 {
            to.set_symbol(" ");
        }
    }
}

/// Says at which sides there is more.
fn more(pen: &mut Pen<'_>, heading: Rect, frame: &Frame) {
    let (before, behind) = pen.symbols().more();
    if frame.left > 0 {
        pen.put(heading, frame.fixed.saturating_sub(GAP), 0, before, Role::Key);
    }
    if frame.left < frame.whole.saturating_sub(frame.room) {
        pen.put(heading, heading.width.saturating_sub(1), 0, behind, Role::Key);
    }
}
