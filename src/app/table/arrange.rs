//! How a table's rows come to stand where they stand: sorted and filtered as a whole when that is asked for, else only what changed.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Row, SortKey, Source, Table};
use crate::app::filter::Scratch;

/// A row that passed the filter, to be put in order.
struct Found<'r> {
    group: u8,
    sort: SortKey<'r>,
    key: &'r Arc<str>,
}

impl Found<'_> {
    /// What decides of nearly all pairs, in one number: the group, and how the sort key begins.
    fn rank(&self, descending: bool) -> u128 {
        let start = self.sort.start();
        u128::from(self.group) << 64 | u128::from(if descending { !start } else { start })
    }

    /// What decides where the ranks are the same: all of the sort key, then the name.
    fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let by_key = self.sort.cmp(&other.sort);
        let by_key = if descending { by_key.reverse() } else { by_key };
        by_key.then_with(|| self.key.cmp(other.key))
    }
}

impl SortKey<'_> {
    /// How it begins: a key that comes before another never begins with a larger number than that.
    fn start(&self) -> u64 {
        // The first bit is the kind, in the order of the enum: numbers before texts.
        const TEXT: u64 = 1 << 63;
        match self {
            Self::Number(number) => (number.cast_unsigned() ^ TEXT) >> 1,
            Self::Text(text) => TEXT | first_bytes(text) >> 1,
            Self::Counted(text, _) => TEXT | first_bytes(text) >> 1,
        }
    }
}

/// The first eight bytes, which sort as the text does; a shorter text is filled up with what comes before every other byte.
fn first_bytes(text: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    u64::from_be_bytes(bytes)
}

impl Table {
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

    /// Whether rows that are put in order elsewhere are to be laid anew, and whether all of them lose their places by that. Call it
    /// once a frame.
    pub fn due(&mut self, now: Timestamp) -> (bool, bool) {
        self.ahead = false;
        let minute = now.as_second().div_euclid(60);
        let aged = self.filter.ages() && minute != self.minute;
        self.minute = minute;
        (self.resort || aged, self.resort || (!self.loaded && !self.moved))
    }

    /// Takes over rows that were put in order elsewhere: those of a tree, which stand for `total` things of which the filter hides
    /// `hidden`. `known` says which keys there still are, shown or not.
    pub fn lay(
        &mut self,
        keys: Vec<Arc<str>>,
        (total, hidden): (usize, usize),
        known: impl Fn(&str) -> bool,
        settled: bool,
    ) {
        self.rows = keys.into_iter().map(|key| Row { key, group: 0 }).collect();
        self.present = None;
        (self.total, self.hidden, self.resort) = (total, Some(hidden), false);
        self.marks.retain(|key| known(key));
        self.find_cursor();
        self.loaded |= settled;
    }

    fn sort_all(&mut self, source: &impl Source, now: Timestamp, scratch: &mut Scratch) {
        let found: Vec<Found<'_>> = source
            .rows()
            .filter(|(_, row)| self.filter.is_empty() || self.filter.matches(*row, now, scratch))
            .map(|(key, row)| Found {
                group: source.group(row, self.column),
                sort: source.sort_key(row, self.column),
                key,
            })
            .collect();
        let descending = self.descending;
        let mut order: Vec<(u128, &Found<'_>)> = found.iter().map(|f| (f.rank(descending), f)).collect();
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.compare(b.1, descending)));
        self.rows = order.iter().map(|(_, f)| Row { key: f.key.clone(), group: f.group }).collect();
        self.present = None;
    }

    fn merge<'t>(
        &mut self,
        source: &impl Source,
        touched: impl Iterator<Item = &'t Arc<str>>,
        now: Timestamp,
        scratch: &mut Scratch,
    ) {
        let rows = &self.rows;
        let present = self.present.get_or_insert_with(|| rows.iter().map(|r| r.key.clone()).collect());
        let mut fresh = Vec::new();
        let mut left = false;
        for key in touched {
            let run = source.row(key);
            let wanted = run.is_some_and(|r| self.filter.is_empty() || self.filter.matches(r, now, scratch));
            let known = present.contains(key);
            if known && !wanted {
                present.remove(key);
                left = true;
            } else if let (false, true, Some(run)) = (known, wanted, run) {
                let key = key.clone();
                let order = source.sort_key(run, self.column);
                fresh.push((source.group(run, self.column), order, Row { key, group: 0 }));
            }
        }
        if left {
            self.rows.retain(|r| present.contains(&r.key));
        }
        fresh.sort_unstable_by(|a, b| (a.0, &a.1, &a.2.key).cmp(&(b.0, &b.1, &b.2.key)));
        for (group, _, row) in fresh {
            let at = self.rows.partition_point(|r| r.group <= group);
            present.insert(row.key.clone());
            self.rows.insert(at, Row { group, ..row });
        }
    }

    /// The cursor stays on its object; when that went, on the row that took its place.
    fn find_cursor(&mut self) {
        let here = |key: &Arc<str>| self.rows.get(self.at).is_some_and(|r| r.key == *key);
        let first_look = !self.moved && !self.loaded;
        let cursor = self.cursor.as_ref().filter(|_| !first_look);
        if cursor.is_some_and(here) {
            return;
        }
        let place = cursor.and_then(|key| self.rows.iter().position(|r| r.key == *key));
        self.at = match place {
            Some(at) => at,
            None if first_look => 0,
            None => self.at.min(self.rows.len().saturating_sub(1)),
        };
        if place.is_none() {
            self.cursor = self.rows.get(self.at).map(|r| r.key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Strategy<Value = SortKey<'static>> {
        prop_oneof![
            any::<i64>().prop_map(SortKey::Number),
            (-2_i64..2).prop_map(SortKey::Number),
            "[ab\0é]{0,10}".prop_map(|text| SortKey::Text(text.into())),
        ]
    }

    proptest! {
        /// Else the order would depend on how keys are compared.
        #[test]
        fn a_key_begins_in_the_order_of_the_keys(a in keys(), b in keys()) {
            let (first, second) = if a <= b { (a, b) } else { (b, a) };
            prop_assert!(first.start() <= second.start(), "{first:?} {second:?}");
        }

        #[test]
        fn ranks_change_nothing_in_the_order(
            rows in prop::collection::vec((0_u8..3, keys(), "[ab]{1,3}"), 0..20), descending: bool,
        ) {
            let names: Vec<Arc<str>> = rows.iter().map(|(_, _, name)| name.as_str().into()).collect();
            let found: Vec<Found<'_>> = rows
                .iter()
                .zip(&names)
                .map(|((group, sort, _), key)| Found { group: *group, sort: sort.clone(), key })
                .collect();
            let plain = |a: &&Found<'_>, b: &&Found<'_>| {
                a.group.cmp(&b.group).then_with(|| a.compare(b, descending))
            };
            let ranked = |a: &&Found<'_>, b: &&Found<'_>| {
                a.rank(descending).cmp(&b.rank(descending)).then_with(|| a.compare(b, descending))
            };
            for (a, b) in found.iter().flat_map(|a| found.iter().map(move |b| (a, b))) {
                prop_assert_eq!(ranked(&a, &b), plain(&a, &b));
            }
        }
    }
}
