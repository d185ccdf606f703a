//! A table of rows that stay where they are while data streams in: cursor, window, sort, filter and marks.
//!
//! The cursor stands on an object, not on a row number. The order changes on sort, filter and entering the screen; rows that are new
//! join the end of their group. Sorting and filtering happen in [`Table::arrange`], at most once a frame.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::edit::LineEdit;
use super::filter::{Filter, Record, Scratch};

/// What a row is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortKey {
    /// A number, also a time.
    Number(i64),
    /// A text.
    Text(String),
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
    fn sort_key(&self, row: &Self::Row, column: usize) -> SortKey;
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
    present: HashSet<Arc<str>>,
    cursor: Option<Arc<str>>,
    /// Where the cursor's row is, or was when it went.
    at: usize,
    /// The first row in the window of the last frame.
    top: usize,
    /// The column that the rows are sorted by.
    pub column: usize,
    /// From large to small.
    pub descending: bool,
    /// The filter that counts.
    pub filter: Filter,
    /// The filter that is being typed.
    pub input: Option<LineEdit>,
    /// What was filtered before it was typed.
    before: String,
    marks: BTreeSet<Arc<str>>,
    total: usize,
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
        self.total.saturating_sub(self.rows.len())
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
    pub fn seen(&mut self, top: usize) {
        self.top = top;
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

    /// Brings the rows up to date. `touched` are the keys that may have changed since the last time; `settled` says that the first
    /// list is complete: until then, and until the operator moves, everything is sorted.
    pub fn arrange<'t>(
        &mut self,
        source: &impl Source,
        touched: impl ExactSizeIterator<Item = &'t Arc<str>>,
        settled: bool,
        now: Timestamp,
        scratch: &mut Scratch,
    ) {
        self.ahead = false;
        let minute = now.as_second().div_euclid(60);
        let aged = self.filter.ages() && minute != self.minute;
        self.minute = minute;
        let changed = touched.len() > 0;
        if self.resort || aged || (changed && !self.loaded && !self.moved) {
            self.sort_all(source, now, scratch);
        } else if touched.len() > 0 {
            self.merge(source, touched, now, scratch);
        }
        if !changed && !self.resort && !aged {
            return;
        }
        self.resort = false;
        self.total = source.count();
        let gone: Vec<_> = self.marks.iter().filter(|k| source.row(k).is_none()).cloned().collect();
        for key in gone {
            self.marks.remove(&key);
        }
        self.find_cursor();
        self.loaded |= settled;
    }

    fn sort_all(&mut self, source: &impl Source, now: Timestamp, scratch: &mut Scratch) {
        let mut sorted: Vec<(u8, SortKey, &Arc<str>)> = source
            .rows()
            .filter(|(_, run)| self.filter.is_empty() || self.filter.matches(*run, now, scratch))
            .map(|(key, run)| (source.group(run, self.column), source.sort_key(run, self.column), key))
            .collect();
        sorted.sort_unstable_by(|a, b| {
            let by_key = a.1.cmp(&b.1);
            let by_key = if self.descending { by_key.reverse() } else { by_key };
            match a.0.cmp(&b.0) {
                Ordering::Equal => by_key.then_with(|| a.2.cmp(b.2)),
                other => other,
            }
        });
        self.rows = sorted.into_iter().map(|(group, _, key)| Row { key: key.clone(), group }).collect();
        self.present = self.rows.iter().map(|r| r.key.clone()).collect();
    }

    fn merge<'t>(
        &mut self,
        source: &impl Source,
        touched: impl Iterator<Item = &'t Arc<str>>,
        now: Timestamp,
        scratch: &mut Scratch,
    ) {
        let mut fresh = Vec::new();
        let mut left = false;
        for key in touched {
            let run = source.row(key);
            let wanted = run.is_some_and(|r| self.filter.is_empty() || self.filter.matches(r, now, scratch));
            let present = self.present.contains(key);
            if present && !wanted {
                self.present.remove(key);
                left = true;
            } else if let (false, true, Some(run)) = (present, wanted, run) {
                let key = key.clone();
                let order = source.sort_key(run, self.column);
                fresh.push((source.group(run, self.column), order, Row { key, group: 0 }));
            }
        }
        if left {
            let present = &self.present;
            self.rows.retain(|r| present.contains(&r.key));
        }
        fresh.sort_unstable_by(|a, b| (a.0, &a.1, &a.2.key).cmp(&(b.0, &b.1, &b.2.key)));
        for (group, _, row) in fresh {
            let at = self.rows.partition_point(|r| r.group <= group);
            self.present.insert(row.key.clone());
            self.rows.insert(at, Row { group, ..row });
        }
    }

    /// The cursor stays on its object; when that went, on the row that took its place.
    fn find_cursor(&mut self) {
        let here = |key: &Arc<str>| self.rows.get(self.at).is_some_and(|r| r.key == *key);
        let first_look = !self.moved && !self.loaded;
        match &self.cursor {
            Some(key) if here(key) && !first_look => {}
            Some(key) if self.present.contains(key) && !first_look => {
                self.at = self.rows.iter().position(|r| r.key == *key).unwrap_or(0);
            }
            _ => {
                self.at = if first_look { 0 } else { self.at.min(self.rows.len().saturating_sub(1)) };
                self.cursor = self.rows.get(self.at).map(|r| r.key.clone());
            }
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
mod tests {
    use super::*;
    use crate::app::sample;
    use crate::app::store::Store;
    use crate::domain::{Phase, Run};

    struct Hosts<'a>(&'a Store);

    impl Source for Hosts<'_> {
        type Row = Run;
        fn count(&self) -> usize {
            self.0.host_count()
        }
        fn rows(&self) -> impl Iterator<Item = (&Arc<str>, &Run)> {
            self.0.heads()
        }
        fn row(&self, key: &str) -> Option<&Run> {
            self.0.head(key)
        }
        fn sort_key(&self, run: &Run, _: usize) -> SortKey {
            SortKey::Text(run.host.as_str().to_owned())
        }
        fn group(&self, run: &Run, _: usize) -> u8 {
            run.phase as u8
        }
    }

    fn arrange(table: &mut Table, store: &mut Store) {
        let touched = store.take_touched().hosts;
        let settled = store.ever_listed();
        let mut scratch = Scratch::default();
        table.arrange(&Hosts(store), touched.iter(), settled, sample::now(), &mut scratch);
    }

    fn names(table: &Table) -> Vec<&str> {
        table.rows().iter().map(|r| r.key.split('.').next().unwrap()).collect()
    }

    fn filled() -> (Table, Store) {
        let mut store = Store::default();
        store.reset();
        store.batch(vec![
            sample::run("b.org", Phase::Pending),
            sample::run("d.org", Phase::Ready),
            sample::run("a.org", Phase::Ready),
        ]);
        store.listed(sample::now());
        let mut table = Table::new(0);
        arrange(&mut table, &mut store);
        (table, store)
    }

    #[test]
    fn new_rows_join_the_end_of_their_group_and_nothing_else_moves() {
        let (mut table, mut store) = filled();
        assert_eq!(names(&table), ["b", "a", "d"]);
        table.go(Move::Last);
        store.batch(vec![sample::run("c.org", Phase::Ready), sample::run("a2.org", Phase::Pending)]);
        arrange(&mut table, &mut store);
        assert_eq!(names(&table), ["b", "a2", "a", "d", "c"]);
        assert_eq!((table.cursor(), table.position()), (Some("d.org"), 3));
        store.batch(vec![sample::run("b.org", Phase::Running)]);
        arrange(&mut table, &mut store);
        assert_eq!(names(&table), ["b", "a2", "a", "d", "c"], "a row keeps its place when its phase changes");
        table.rearrange();
        arrange(&mut table, &mut store);
        assert_eq!(names(&table), ["a2", "b", "a", "c", "d"]);
    }

    #[test]
    fn a_filter_hides_counts_and_can_be_taken_back() {
        let (mut table, mut store) = filled();
        table.go(Move::Last);
        table.start_filter();
        table.set_filter("phase:pending");
        arrange(&mut table, &mut store);
        assert_eq!((names(&table), table.hidden()), (vec!["b"], 2));
        assert_eq!(table.cursor(), Some("b.org"));
        table.end_filter(false);
        arrange(&mut table, &mut store);
        assert_eq!((names(&table).len(), table.hidden()), (3, 0));
    }

    #[test]
    fn the_cursor_takes_the_row_that_took_its_objects_place() {
        let (mut table, mut store) = filled();
        table.go(Move::By(1));
        store.remove(vec![sample::uid("a.org", 1)]);
        arrange(&mut table, &mut store);
        assert_eq!((table.cursor(), table.position()), (Some("d.org"), 1));
    }

    #[test]
    fn marks_can_be_inverted_and_go_with_their_rows() {
        let (mut table, mut store) = filled();
        table.toggle_mark();
        assert!(table.is_marked("b.org") && table.cursor() == Some("a.org"));
        table.invert_marks();
        assert_eq!(table.marks().len(), 2);
        store.remove(vec![sample::uid("a.org", 1)]);
        arrange(&mut table, &mut store);
        assert_eq!(table.marks().len(), 1);
    }

    #[test]
    fn the_window_moves_by_half_a_page_past_the_edge() {
        assert_eq!(window(0, 9, 10, 100), 0);
        assert_eq!(window(0, 10, 10, 100), 6);
        assert_eq!(window(6, 5, 10, 100), 0);
        assert_eq!(window(50, 49, 10, 100), 44);
        assert_eq!(window(95, 99, 10, 100), 90);
        assert_eq!(window(0, 0, 10, 3), 0);
        assert_eq!(window(5, 7, 0, 10), 7);
    }
}
