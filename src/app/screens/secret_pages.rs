//! What is looked at of one secret: its versions, and what differs between contents of it.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::app::document::{Document, END};
use crate::app::edit::LineEdit;
use crate::app::filter::{Field, Record, Scratch};
use crate::app::secrets::Sides;
use crate::app::table::{SortKey, Source, Table};
use crate::domain::Problem;
use crate::domain::secret::SecretVersion;
use crate::domain::text::Needle;

/// The versions of one secret.
#[derive(Debug)]
pub struct Versions {
    /// The exact key.
    pub key: String,
    /// The versions, by id.
    pub table: Table,
    /// The versions, newest first; none: they are not read yet.
    list: Option<Vec<(Arc<str>, SecretVersion)>>,
    /// Why they cannot be read.
    pub problem: Option<Problem>,
    touched: bool,
}

impl Versions {
    /// Those of a secret, to be read.
    #[must_use]
    pub fn new(key: String) -> Self {
        Self { key, table: Table::new(0), list: None, problem: None, touched: false }
    }

    /// They were read.
    pub fn put(&mut self, list: Vec<SecretVersion>) {
        let list = list.into_iter().map(|version| (Arc::from(version.id.as_str()), version)).collect();
        (self.list, self.problem, self.touched) = (Some(list), None, true);
    }

    /// Whether they are read.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.list.is_some()
    }

    /// One of them.
    #[must_use]
    pub fn version(&self, id: &str) -> Option<&SecretVersion> {
        self.list.iter().flatten().find(|(other, _)| **other == *id).map(|(_, version)| version)
    }

    /// The one under the cursor.
    #[must_use]
    pub fn current(&self) -> Option<&SecretVersion> {
        self.version(self.table.cursor()?)
    }

    /// Sorts and filters what changed.
    pub(in crate::app) fn arrange(&mut self, now: Timestamp, scratch: &mut Scratch) {
        let rows = Rows(self.list.as_deref().unwrap_or_default());
        let mut touched: HashSet<Arc<str>> = HashSet::new();
        if std::mem::take(&mut self.touched) {
            touched.extend(rows.0.iter().map(|(id, _)| id.clone()));
            // The newest may be another one, and stands first.
            self.table.rearrange();
        }
        self.table.arrange(&rows, touched.iter(), self.list.is_some(), now, scratch);
    }
}

struct Rows<'a>(&'a [(Arc<str>, SecretVersion)]);

impl Source for Rows<'_> {
    type Row = SecretVersion;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn rows(&self) -> impl Iterator<Item = (&Arc<str>, &SecretVersion)> {
        self.0.iter().map(|(id, version)| (id, version))
    }

    fn row(&self, key: &str) -> Option<&SecretVersion> {
        self.0.iter().find(|(id, _)| **id == *key).map(|(_, version)| version)
    }

    fn sort_key<'r>(&self, row: &'r SecretVersion, _: usize) -> SortKey<'r> {
        SortKey::Number(row.modified.map_or(0, |at| -at.as_millisecond()))
    }

    fn group(&self, row: &SecretVersion, _: usize) -> u8 {
        u8::from(!row.newest)
    }
}

impl Record for SecretVersion {
    fn name(&self) -> &str {
        &self.id
    }

    fn has(&self, _: Field, _: &str) -> bool {
        false
    }

    fn began(&self) -> Option<Timestamp> {
        self.modified
    }
}

/// What differs between contents of one secret.
#[derive(Debug)]
pub struct Differences {
    /// The exact key.
    pub key: String,
    /// Which contents.
    pub sides: Sides,
    /// The operator asked for the values.
    pub values: bool,
    /// What differs, to be read; none: it is not known yet.
    pub doc: Option<Document>,
    /// Why that cannot be told.
    pub problem: Option<Problem>,
    /// The first line in the window.
    pub top: usize,
    /// What is being searched for, while it is typed.
    pub input: Option<LineEdit>,
    /// What is searched for.
    pub needle: Needle,
    /// The line that was found last.
    pub hit: Option<usize>,
}

impl Differences {
    /// Those of a secret, to be read; values are hidden.
    #[must_use]
    pub fn new(key: String, sides: Sides) -> Self {
        Self {
            key,
            sides,
            values: false,
            doc: None,
            problem: None,
            top: 0,
            input: None,
            needle: Needle::default(),
            hit: None,
        }
    }

    /// Goes to the next match, round the end. Returns whether there is one.
    pub fn next_match(&mut self, backwards: bool) -> bool {
        let doc = self.doc.as_ref().filter(|_| !self.needle.is_empty());
        let hit = doc.and_then(|doc| doc.search(&self.needle, self.hit, backwards));
        if let Some(line) = hit {
            (self.hit, self.top) = (hit, line.saturating_sub(2));
        }
        hit.is_some()
    }

    /// Takes over what the last frame showed.
    pub fn seen(&mut self, top: usize) {
        if self.top == END {
            self.top = top;
        }
    }
}
