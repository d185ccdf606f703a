//! The bytes of a frame: what the terminal's cursor does, and what it leaves behind.

use std::io::Write as _;

use ratatui::buffer::{Buffer, Cell};

use super::look::{Look, symbol};
use super::row::Row;

/// What erasing the rest of a row takes.
const ERASE: &[u8] = b"\x1b[K";

/// Where the terminal's cursor is known to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Somewhere.
    Lost,
    /// In this row, column unknown.
    Row(usize),
    /// In this column of this row.
    Cell(usize, usize),
}

/// Turns one frame into another.
#[derive(Debug)]
pub(super) struct Line {
    bytes: Vec<u8>,
    /// What the terminal would write in now.
    pen: Look,
    at: At,
    colours: bool,
}

impl Line {
    pub(super) fn new(colours: bool) -> Self {
        Self { bytes: Vec::new(), pen: Look::PLAIN, at: At::Lost, colours }
    }

    /// Writes all that differs. Both have the same size.
    pub(super) fn frame(&mut self, before: &Buffer, after: &Buffer) {
        let width = usize::from(after.area.width).max(1);
        let mut row = Row::default();
        for (y, (old, new)) in before.content.chunks(width).zip(after.content.chunks(width)).enumerate() {
            if row.compare(old, new, self.colours) {
                self.row(y, new, &row);
            }
        }
    }

    /// What was written; the terminal writes plainly again.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.style(Look::PLAIN);
        self.bytes
    }

    fn row(&mut self, y: usize, cells: &[Cell], row: &Row) {
        let blank = |cell: &Cell| cell.symbol() == " " && Look::of(cell, self.colours).is_erased();
        let text =
            cells.iter().rposition(|cell| !blank(cell)).map_or(0, |last| last + row.width(last).max(1));
        for (x, cell) in cells.iter().enumerate() {
            if !row.needs(x) || row.width(x) == 0 {
                continue;
            }
            if x >= text && row.rest(x) > ERASE.len() {
                self.reach(x, y, cells);
                // Erasing uses the colour behind the text on some terminals, and the terminal's own on others: here they are the same.
                if !self.pen.is_erased() {
                    self.style(Look::PLAIN.on_blank(self.pen));
                }
                self.bytes.extend_from_slice(ERASE);
                return;
            }
            self.reach(x, y, cells);
            self.put(x, y, cell, cells.len() - x);
        }
    }

    /// Writes one character where the cursor stands.
    fn put(&mut self, x: usize, y: usize, cell: &Cell, room: usize) {
        let (symbol, width) = symbol(cell, room);
        let look = Look::of(cell, self.colours);
        self.style(if symbol == " " { look.on_blank(self.pen) } else { look });
        let characters = symbol.chars().count();
        if characters > 1 && width > 1 {
            // Terminals differ in how many columns they take for what is composed: none is to keep what was in the last of them.
            self.bytes.extend(std::iter::repeat_n(b' ', width));
            self.at = if room > width { At::Cell(x + width, y) } else { At::Lost };
            self.go(x, y);
        }
        self.bytes.extend_from_slice(symbol.as_bytes());
        // Only plain letters have one width everywhere, and none is sure to stay in its row that could reach the end of it.
        self.at = match symbol.len() {
            1 if room > 1 => At::Cell(x + 1, y),
            1 => At::Lost,
            _ if 2 * characters < room => At::Row(y),
            _ => At::Lost,
        };
    }

    /// Moves the cursor to where something is to be written, over what is there already: by writing it again when that is shorter.
    fn reach(&mut self, x: usize, y: usize, cells: &[Cell]) {
        if let At::Cell(from, row) = self.at
            && row == y
            && from < x
            && let Some(gap) = cells.get(from..x)
        {
            let move_takes = if gap.len() == 1 { 3 } else { 4 };
            let as_it_is = |cell: &Cell| {
                let look = Look::of(cell, self.colours);
                let seen = if cell.symbol() == " " { look.on_blank(self.pen) } else { look };
                cell.symbol().len() == 1 && seen == self.pen
            };
            if gap.len() < move_takes && gap.iter().all(as_it_is) {
                for (at, cell) in gap.iter().enumerate() {
                    self.put(from + at, y, cell, cells.len() - from - at);
                }
                return;
            }
        }
        self.go(x, y);
    }

    /// Moves the cursor, with what every terminal since the first knows.
    fn go(&mut self, x: usize, y: usize) {
        let mut shortest = Vec::new();
        let _ = match (x, y) {
            (0, 0) => write!(shortest, "\x1b[H"),
            (0, _) => write!(shortest, "\x1b[{}H", y + 1),
            _ => write!(shortest, "\x1b[{};{}H", y + 1, x + 1),
        };
        let (column, row) = match self.at {
            At::Cell(column, row) => (Some(column), Some(row)),
            At::Row(row) => (None, Some(row)),
            At::Lost => (None, None),
        };
        if let Some(down) = row.and_then(|row| y.checked_sub(row)) {
            let mut relative = Vec::new();
            step(&mut relative, down, 'B');
            sideways(&mut relative, column, x);
            if relative.len() < shortest.len() {
                shortest = relative;
            }
        }
        self.bytes.extend_from_slice(&shortest);
        self.at = At::Cell(x, y);
    }

    fn style(&mut self, look: Look) {
        look.sgr(self.pen, self.colours, &mut self.bytes);
        self.pen = look;
    }
}

/// Moves within a row.
fn sideways(bytes: &mut Vec<u8>, from: Option<usize>, to: usize) {
    let mut shortest = b"\r".to_vec();
    step(&mut shortest, to, 'C');
    if let Some(from) = from {
        let mut direct = Vec::new();
        let direction = if to < from { 'D' } else { 'C' };
        step(&mut direct, from.abs_diff(to), direction);
        if direct.len() < shortest.len() {
            shortest = direct;
        }
    }
    bytes.extend_from_slice(&shortest);
}

fn step(bytes: &mut Vec<u8>, by: usize, direction: char) {
    let _ = match by {
        0 => Ok(()),
        1 => write!(bytes, "\x1b[{direction}"),
        _ => write!(bytes, "\x1b[{by}{direction}"),
    };
}
