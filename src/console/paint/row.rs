//! Which columns of a row have to be written.

use ratatui::buffer::Cell;

use super::look::{Look, symbol};

/// One row before and after. Widths are 0 where a column is covered by a wide character before it.
#[derive(Debug, Default)]
pub(super) struct Row {
    before: Vec<usize>,
    after: Vec<usize>,
    needed: Vec<bool>,
}

impl Row {
    /// Compares two rows. True when something is to be written.
    ///
    /// A wide character that loses a column loses all, on every terminal: what is to be seen in its other columns is written anew.
    pub(super) fn compare(&mut self, before: &[Cell], after: &[Cell], colours: bool) -> bool {
        self.needed.clear();
        if before == after {
            return false;
        }
        widths(before, &mut self.before);
        widths(after, &mut self.after);
        self.needed.resize(after.len(), false);
        for (at, (old, new)) in before.iter().zip(after).enumerate() {
            let width = self.width(at);
            if width > 0 {
                let same = self.before.get(at) == Some(&width)
                    && same(old, new, after.len().saturating_sub(at), colours);
                self.need(at, width, !same);
            }
        }
        while self.spread() {}
        self.needed.contains(&true)
    }

    /// How many columns the character takes that begins here; 0 where none begins.
    pub(super) fn width(&self, at: usize) -> usize {
        self.after.get(at).copied().unwrap_or(0)
    }

    /// Whether this column has to be written.
    pub(super) fn needs(&self, at: usize) -> bool {
        self.needed.get(at).copied().unwrap_or(false)
    }

    /// How many columns have to be written from here on.
    pub(super) fn rest(&self, at: usize) -> usize {
        self.needed.iter().skip(at).filter(|needed| **needed).count()
    }

    fn need(&mut self, at: usize, width: usize, needed: bool) {
        for column in self.needed.iter_mut().skip(at).take(width) {
            *column |= needed;
        }
    }

    /// Characters of which a column is written are written whole, also those that were there before. True when that made more.
    fn spread(&mut self) -> bool {
        let mut more = false;
        for widths in [&self.before, &self.after] {
            for (at, width) in widths.iter().enumerate().filter(|(_, width)| **width > 1) {
                let Some(columns) = self.needed.get_mut(at..at + width) else { continue };
                if columns.contains(&true) && columns.contains(&false) {
                    columns.fill(true);
                    more = true;
                }
            }
        }
        more
    }
}

fn widths(cells: &[Cell], widths: &mut Vec<usize>) {
    widths.clear();
    let mut covered = 0;
    for (at, cell) in cells.iter().enumerate() {
        if covered > 0 {
            covered -= 1;
            widths.push(0);
            continue;
        }
        let (_, width) = symbol(cell, cells.len() - at);
        covered = width - 1;
        widths.push(width);
    }
}

/// Whether two cells cannot be told apart on the screen.
fn same(one: &Cell, other: &Cell, room: usize, colours: bool) -> bool {
    let (text, _) = symbol(one, room);
    let (was, is) = (Look::of(one, colours), Look::of(other, colours));
    text == symbol(other, room).0 && (was == is || text == " " && is.on_blank(was) == was)
}
