//! How a table's rows come to stand where they stand: sorted and filtered as a whole when that is asked for, else only what changed.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Row, SortKey, Source, Table};
use crate::app::filter::Scratch;

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
