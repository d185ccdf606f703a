//! A screen that lists one topic: the rows as they were fetched last, and how that went.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::app::items::{Item, Topic};
use crate::app::table::{SortKey, Source, Table};
use crate::domain::Problem;

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fresh {
    /// The rows.
    pub items: Vec<Item>,
    /// What is to be known of all of them, in a few words.
    pub note: String,
    /// The note is a warning.
    pub warning: bool,
    /// What happened before is not among the rows.
    pub since: Option<Timestamp>,
}

/// The screen.
#[derive(Debug)]
pub struct ListScreen {
    /// What it lists.
    pub topic: Topic,
    /// The rows, by key.
    pub table: Table,
    items: HashMap<Arc<str>, Item>,
    touched: HashSet<Arc<str>>,
    /// What is to be known of all of them, and whether that is a warning.
    pub note: (String, bool),
    /// What happened before is not among the rows.
    pub since: Option<Timestamp>,
    /// When it was fetched last.
    pub fetched: Option<Timestamp>,
    /// Why what is shown is not the newest.
    pub problem: Option<Problem>,
}

impl ListScreen {
    /// An empty one.
    #[must_use]
    pub fn new(topic: Topic) -> Self {
        Self {
            topic,
            table: Table::new(0),
            items: HashMap::new(),
            touched: HashSet::new(),
            note: Default::default(),
            since: None,
            fetched: None,
            problem: None,
        }
    }

    /// Takes over what was fetched. What is not in it any more goes.
    pub fn put(&mut self, fresh: Fresh, now: Timestamp) {
        (self.fetched, self.problem) = (Some(now), None);
        (self.note, self.since) = ((fresh.note, fresh.warning), fresh.since);
        let mut items: HashMap<Arc<str>, Item> = HashMap::with_capacity(fresh.items.len());
        for item in fresh.items {
            let key = item.key();
            if self.items.get(&key) != Some(&item) {
                self.touched.insert(key.clone());
            }
            items.insert(key, item);
        }
        self.touched.extend(self.items.keys().filter(|key| !items.contains_key(*key)).cloned());
        self.items = items;
        if self.table.total() == 0 && self.touched.is_empty() {
            self.table.rearrange();
        }
    }

    /// It could not be fetched; what is known stays.
    pub fn fail(&mut self, problem: Problem) {
        self.problem = Some(problem);
    }

    /// One row.
    #[must_use]
    pub fn item(&self, key: &str) -> Option<&Item> {
        self.items.get(key)
    }

    /// The row under the cursor.
    #[must_use]
    pub fn current(&self) -> Option<&Item> {
        self.item(self.table.cursor()?)
    }

    /// Since when the rows are old: they could not be fetched again.
    #[must_use]
    pub fn stale_since(&self) -> Option<Timestamp> {
        self.problem.as_ref().and(self.fetched)
    }

    /// The keys of the rows that changed since the last call.
    pub(in crate::app) fn take_touched(&mut self) -> HashSet<Arc<str>> {
        std::mem::take(&mut self.touched)
    }

    /// Where the table's rows come from.
    pub(in crate::app) fn source(&self) -> Items<'_> {
        Items { topic: self.topic, items: &self.items }
    }

    /// Sorts and filters what changed.
    pub(in crate::app) fn arrange(&mut self, now: Timestamp, scratch: &mut crate::app::filter::Scratch) {
        let touched = self.take_touched();
        let mut table = std::mem::take(&mut self.table);
        table.arrange(&self.source(), touched.iter(), self.fetched.is_some(), now, scratch);
        self.table = table;
    }
}

/// The rows.
pub(in crate::app) struct Items<'a> {
    topic: Topic,
    items: &'a HashMap<Arc<str>, Item>,
}

impl Source for Items<'_> {
    type Row = Item;

    fn count(&self) -> usize {
        self.items.len()
    }

    fn rows(&self) -> impl Iterator<Item = (&Arc<str>, &Item)> {
        self.items.iter()
    }

    fn row(&self, key: &str) -> Option<&Item> {
        self.items.get(key)
    }

    fn sort_key<'r>(&self, item: &'r Item, column: usize) -> SortKey<'r> {
        item.sort_key(self.topic.columns().get(column).copied().unwrap_or_default())
    }

    fn group(&self, item: &Item, _: usize) -> u8 {
        item.group()
    }
}
