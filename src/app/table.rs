//! A table of rows that stay where they are while data streams in: cursor, window, sort, filter and marks.
//!
//! The cursor stands on an object, not on a row number. The order changes on sort, filter and entering the screen; rows that are new
//! join the end of their group. Sorting and filtering happen in [`Table::arrange`], at most once a frame.

mod arrange;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::edit::LineEdit;
use super::filter::{Filter, Record};

/// So many columns of text one key moves the wide form to the side.
const SIDE_STEP: u16 = 16;

/// What a row is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortKey<'r> {
    /// A number, also a time.
    Number(i64),
    /// A text: the row's own, where it has it.
    Text(Cow<'r, str>),
    /// A text, and a number for those that have the same.
    Counted(&'r str, u64),
}

/// Where a table's rows come from.
pub trait Source {
    /// What a row shows.
    type Row: Record;
    /// How many rows there are without a filter.
    fn count(&self) -> usize;
    /// All keys with what each row shows.
    fn rows(&self) -> impl Iterator<Item = (&Arc<str>, &Self::Row)>;
    /// What one row shows.
    fn row(&self, key: &str) -> Option<&Self::Row>;
    /// What a row is sorted by in this column.
    fn sort_key<'r>(&self, row: &'r Self::Row, column: usize) -> SortKey<'r>;
    /// The group that a row belongs to in this column; rows that are new join its end.
    fn group(&self, row: &Self::Row, column: usize) -> u8;
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The object's key.
    pub key: Arc<str>,
    /// Its group when it took its place.
    group: u8,
}

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    /// The keys of the rows, once somebody has asked.
    present: Option<HashSet<Arc<str>>>,
    cursor: Option<Arc<str>>,
    /// Where the cursor's row is, or was when it went.
    at: usize,
    /// The first row in the window of the last frame.
    top: usize,
    /// The column that the rows are sorted by.
    pub column: usize,
    /// From large to small.
    pub descending: bool,
    /// All columns have their full width.
    pub wide: bool,
    /// So many columns of text the wide form is moved over.
    pub left: u16,
    /// The filter that counts.
    pub filter: Filter,
    /// The filter that is being typed.
    pub input: Option<LineEdit>,
    /// What was filtered before it was typed.
    before: String,
    marks: BTreeSet<Arc<str>>,
    total: usize,
    /// How many rows the filter hides, where that is not all that is not shown.
    hidden: Option<usize>,
    resort: bool,
    /// The operator has moved: from now on nothing jumps.
    moved: bool,
    /// The operator has moved since the last frame: what is under the cursor is what they mean, not what that frame showed there.
    ahead: bool,
    /// The first list is complete and sorted.
    loaded: bool,
    minute: i64,
}

/// A move of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// So many rows down (or up, when negative).
    By(isize),
    /// To the first row.
    First,
    /// To the last row.
    Last,
}

impl Table {
    /// A table that is sorted by this column.
    #[must_use]
    pub fn new(column: usize) -> Self {
        Self { column, resort: true, ..Self::default() }
    }

    /// The rows in order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The key under the cursor.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The number of the cursor's row.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many rows the filter hides.
    #[must_use]
    pub fn hidden(&self) -> usize {
        self.hidden.unwrap_or_else(|| self.total.saturating_sub(self.rows.len()))
    }

    /// How many rows there are without the filter.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The marked keys.
    #[must_use]
    pub fn marks(&self) -> &BTreeSet<Arc<str>> {
        &self.marks
    }

    /// Whether a key is marked.
    #[must_use]
    pub fn is_marked(&self, key: &str) -> bool {
        self.marks.contains(key)
    }

    /// Marks or unmarks the row under the cursor and goes to the next.
    pub fn toggle_mark(&mut self) {
        if let Some(key) = self.cursor.clone() {
            if !self.marks.remove(&key) {
                self.marks.insert(key);
            }
            self.go(Move::By(1));
        }
    }

    /// Marks what is shown and not marked, and the other way round.
    pub fn invert_marks(&mut self) {
        let shown: BTreeSet<Arc<str>> = self.rows.iter().map(|r| r.key.clone()).collect();
        self.marks = shown.difference(&self.marks).cloned().collect();
    }

    /// Marks these keys, or takes their marks off.
    pub fn mark_all(&mut self, keys: impl IntoIterator<Item = Arc<str>>, on: bool) {
        for key in keys {
            if on {
                self.marks.insert(key);
            } else {
                self.marks.remove(&key);
            }
        }
    }

    /// How many marked keys begin so.
    #[must_use]
    pub fn marked_below(&self, start: &str) -> usize {
        let from = self.marks.range::<str, _>((std::ops::Bound::Included(start), std::ops::Bound::Unbounded));
        from.take_while(|key| key.starts_with(start)).count()
    }

    /// Takes all marks off. Returns whether there were any.
    pub fn clear_marks(&mut self) -> bool {
        let any = !self.marks.is_empty();
        self.marks.clear();
        any
    }

    /// Takes one mark off.
    pub fn unmark(&mut self, key: &str) {
        self.marks.remove(key);
    }

    /// Moves the cursor.
    pub fn go(&mut self, to: Move) {
        (self.moved, self.ahead) = (true, true);
        let last = self.rows.len().saturating_sub(1);
        self.at = match to {
            Move::By(rows) => self.at.saturating_add_signed(rows).min(last),
            Move::First => 0,
            Move::Last => last,
        };
        self.cursor = self.rows.get(self.at).map(|r| r.key.clone());
    }

    /// True when the operator has moved since the last frame, by keys that came faster than frames.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.ahead
    }

    /// The cursor belongs on this key, which is there or about to be.
    pub fn stand_on(&mut self, key: &str) {
        self.cursor = Some(key.into());
        (self.moved, self.resort) = (true, true);
    }

    /// Puts the cursor on a key, if it is there.
    pub fn select(&mut self, key: &str) {
        if let Some(at) = self.rows.iter().position(|r| &*r.key == key) {
            self.go(Move::By(0));
            self.at = at;
            self.cursor = self.rows.get(at).map(|r| r.key.clone());
        }
    }

    /// The first row of a window of `page` rows: it moves by half a page when the cursor leaves it.
    #[must_use]
    pub fn window(&self, page: usize) -> usize {
        window(self.top, self.at, page, self.rows.len())
    }

    /// Takes over what the last frame showed.
    pub fn seen(&mut self, top: usize, left_most: Option<u16>) {
        (self.top, self.left) = (top, left_most.map_or(self.left, |most| self.left.min(most)));
    }

    /// All columns at their full width, or those that fit.
    pub fn toggle_wide(&mut self) {
        (self.wide, self.left) = (!self.wide, 0);
    }

    /// Moves the wide form to the side.
    pub fn side(&mut self, right: bool) {
        if self.wide {
            let (less, more) = (self.left.saturating_sub(SIDE_STEP), self.left.saturating_add(SIDE_STEP));
            self.left = if right { more } else { less };
        }
    }

    /// Sorts anew at the next chance: a sort, a filter, a screen that is entered.
    pub fn rearrange(&mut self) {
        self.resort = true;
    }

    /// Sorts by the next column of so many.
    pub fn next_column(&mut self, columns: usize) {
        self.column = (self.column + 1) % columns.max(1);
        self.descending = false;
        self.resort = true;
    }

    /// Turns the order round.
    pub fn reverse(&mut self) {
        self.descending = !self.descending;
        self.resort = true;
    }

    /// Begins to type a filter.
    pub fn start_filter(&mut self) {
        self.before = self.filter.text().to_owned();
        let text = if self.before.is_empty() { String::new() } else { format!("{} ", self.before) };
        self.input = Some(LineEdit::new(&text));
    }

    /// Ends typing: keeps what was typed, or goes back to what was before.
    pub fn end_filter(&mut self, keep: bool) {
        self.input = None;
        if !keep {
            let before = std::mem::take(&mut self.before);
            self.set_filter(&before);
        }
    }

    /// Another filter counts.
    pub fn set_filter(&mut self, text: &str) {
        if self.filter.text() != text.trim() {
            self.filter = Filter::parse(text);
            self.resort = true;
        }
    }
}

/// The first row of a window of `page` rows out of `len` that holds `at`: the old one, or moved by half a page past the edge.
#[must_use]
pub fn window(top: usize, at: usize, page: usize, len: usize) -> usize {
    let last = len.saturating_sub(page);
    if page == 0 {
        return at;
    }
    if at < top {
        at.saturating_sub(page / 2).min(last)
    } else if at >= top.saturating_add(page) {
        (at + 1).saturating_sub(page.div_ceil(2)).min(last)
    } else {
        top.min(last)
    }
}

#[cfg(test)]
mod tests;
