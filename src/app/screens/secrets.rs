//! The secrets: the bucket and its local copy as a tree, with what was done on each and how far a transfer is.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::secret_pages::{Differences, Versions};
use crate::app::effect::EffectId;
use crate::app::filter::{Field, Record, Scratch, contains};
use crate::app::secrets::{SecretRef, Transfer};
use crate::app::table::Table;
use crate::domain::Problem;
use crate::domain::secret::tree::{self, Look, NodeKind, Order, Rollup, TreeRow, file_id, folder_of, key_of};
use crate::domain::secret::{BucketFacts, Encryption, FileState, Format, SecretListing, SecretRow};

/// What is under the cursor.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// A folder: its path, and what is in it.
    Folder(&'a str, &'a Rollup),
    /// A file.
    File(&'a SecretRow),
}

/// What came of the last deed on a secret.
#[derive(Debug)]
struct Told {
    outcome: Result<String, String>,
    /// The secret as it was listed then: of another one it says nothing any more. None until it is listed.
    of: Option<(FileState, Option<String>)>,
}

/// The screen.
#[derive(Debug, Default)]
pub struct SecretsScreen {
    /// The rows of the tree, by what they stand for; marks are on files.
    pub table: Table,
    /// The bucket.
    pub facts: Option<BucketFacts>,
    /// Why what is shown is not all there is.
    pub incomplete: Option<String>,
    /// When it was listed last.
    pub fetched: Option<Timestamp>,
    /// Why what is shown is not the newest.
    pub problem: Option<Problem>,
    /// The transfer that is under way.
    pub transfer: Option<(EffectId, Transfer)>,
    /// The row that the cursor rested on: its details are shown.
    pub settled: Option<String>,
    /// The versions of one secret, while they are looked at.
    pub versions: Option<Versions>,
    /// What differs in one secret, while that is looked at.
    pub differences: Option<Differences>,
    rows: Vec<SecretRow>,
    by_key: HashMap<String, usize>,
    /// Which rows the filter lets through.
    passing: Vec<bool>,
    tree: Vec<TreeRow>,
    by_id: HashMap<String, usize>,
    folds: HashMap<String, bool>,
    outcomes: HashMap<String, Told>,
    touched: bool,
}

impl SecretsScreen {
    /// Takes over what was listed.
    pub fn put(&mut self, listing: SecretListing, now: Timestamp) {
        (self.fetched, self.problem) = (Some(now), None);
        (self.facts, self.incomplete) = (Some(listing.facts), listing.incomplete);
        self.by_key = (0..).zip(&listing.rows).map(|(at, row)| (row.key.clone(), at)).collect();
        self.rows = listing.rows;
        let (rows, by_key) = (&self.rows, &self.by_key);
        self.outcomes.retain(|key, told| {
            let Some(row) = by_key.get(key).and_then(|at| rows.get(*at)) else { return false };
            let now = (row.state, row.etag.clone());
            *told.of.get_or_insert_with(|| now.clone()) == now
        });
        self.touched = true;
    }

    /// All rows, in no order.
    #[must_use]
    pub fn rows(&self) -> &[SecretRow] {
        &self.rows
    }

    /// One row.
    #[must_use]
    pub fn row(&self, key: &str) -> Option<&SecretRow> {
        self.rows.get(*self.by_key.get(key)?)
    }

    /// A row of the tree.
    #[must_use]
    pub fn tree_row(&self, id: &str) -> Option<&TreeRow> {
        self.tree.get(*self.by_id.get(id)?)
    }

    /// What an id stands for.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<Node<'_>> {
        let row = self.tree_row(id)?;
        Some(match &row.kind {
            NodeKind::Folder { rollup, .. } => Node::Folder(folder_of(&row.id).unwrap_or_default(), rollup),
            NodeKind::File(at) => Node::File(self.rows.get(*at)?),
        })
    }

    /// What is under the cursor.
    #[must_use]
    pub fn current(&self) -> Option<Node<'_>> {
        self.node(self.table.cursor()?)
    }

    /// Since when the rows are old: they could not be listed again.
    #[must_use]
    pub fn stale_since(&self) -> Option<Timestamp> {
        self.problem.as_ref().and(self.fetched)
    }

    /// What came of the last deed on a secret.
    #[must_use]
    pub fn outcome(&self, key: &str) -> Option<&Result<String, String>> {
        self.outcomes.get(key).map(|told| &told.outcome)
    }

    /// Keeps what came of a deed on a secret.
    pub fn set_outcome(&mut self, key: &str, outcome: Option<Result<String, String>>) {
        match outcome {
            Some(outcome) => self.outcomes.insert(key.to_owned(), Told { outcome, of: None }),
            None => self.outcomes.remove(key),
        };
    }

    /// What stands for a secret as it is seen now.
    #[must_use]
    pub fn reference(row: &SecretRow) -> SecretRef {
        SecretRef { key: row.key.clone(), etag: row.etag.clone() }
    }

    /// The files in a folder that the filter lets through, in no order.
    pub fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a SecretRow> {
        self.passing_rows().filter(move |row| row.key.starts_with(path))
    }

    /// The files that the filter lets through, folded away or not.
    pub fn passing_rows(&self) -> impl Iterator<Item = &SecretRow> {
        self.rows.iter().zip(&self.passing).filter(|(_, passes)| **passes).map(|(row, _)| row)
    }

    /// The files that an action is for: the marked ones, else the one under the cursor, or all of the folder.
    #[must_use]
    pub fn chosen(&self, id: Option<&str>) -> Vec<&SecretRow> {
        if !self.table.marks().is_empty() {
            return self.table.marks().iter().filter_map(|id| self.row(key_of(id)?)).collect();
        }
        match id.and_then(|id| self.node(id)) {
            Some(Node::File(row)) => vec![row],
            Some(Node::Folder(path, _)) => self.below(path).collect(),
            None => Vec::new(),
        }
    }

    /// Marks or unmarks the file under the cursor, or all of the folder, and goes to the next row.
    pub fn toggle_mark(&mut self) {
        let Some(id) = self.table.cursor().map(str::to_owned) else { return };
        match folder_of(&id) {
            None => self.table.toggle_mark(),
            Some(path) => {
                let ids: Vec<Arc<str>> = self.below(path).map(|row| file_id(&row.key).into()).collect();
                let on = ids.iter().any(|id| !self.table.is_marked(id));
                self.table.mark_all(ids, on);
            }
        }
    }

    /// Marks the files that are not marked, and the other way round; folded away or not.
    pub fn invert_marks(&mut self) {
        let ids: Vec<Arc<str>> = self.passing_rows().map(|row| file_id(&row.key).into()).collect();
        let (off, on): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| self.table.is_marked(id));
        self.table.clear_marks();
        self.table.mark_all(off, false);
        self.table.mark_all(on, true);
    }

    /// Whether a row of the tree is marked: of a folder, all files in it that are shown.
    #[must_use]
    pub fn is_marked(&self, row: &TreeRow) -> bool {
        match (&row.kind, folder_of(&row.id)) {
            (NodeKind::Folder { rollup, .. }, Some(path)) => {
                self.table.marked_below(&file_id(path)) >= rollup.files
            }
            _ => self.table.is_marked(&row.id),
        }
    }

    /// Opens or closes the folder under the cursor; none: the other way round. What cannot be closed leads to its folder. Returns
    /// whether there was a folder to go by.
    pub fn fold(&mut self, open: Option<bool>) -> bool {
        let Some(row) = self.table.cursor().and_then(|id| self.tree_row(id)) else { return false };
        let (id, is_open) = match &row.kind {
            NodeKind::Folder { open, .. } => (row.id.clone(), Some(*open)),
            NodeKind::File(_) => (row.id.clone(), None),
        };
        match (is_open, open) {
            // Closing what is closed, or a file: up to the folder around it.
            (None | Some(false), Some(false)) => {
                let Some(above) = tree::parent(&id) else { return false };
                self.table.select(&above);
            }
            (None, _) => return false,
            (Some(before), wanted) => {
                self.folds.insert(id, wanted.unwrap_or(!before));
                self.touched = true;
            }
        }
        true
    }

    /// Sorts, filters and folds what changed.
    pub(in crate::app) fn arrange(&mut self, now: Timestamp, scratch: &mut Scratch) {
        let (due, anew) = self.table.due(now);
        if !due && !std::mem::take(&mut self.touched) {
            return;
        }
        self.touched = false;
        let filter = &self.table.filter;
        let all = filter.is_empty();
        self.passing = self.rows.iter().map(|row| all || filter.matches(row, now, scratch)).collect();
        let order = Order::ALL.get(self.table.column).copied().unwrap_or_default();
        let look = Look { order, descending: self.table.descending, all_open: !all };
        let places = if anew { HashMap::new() } else { std::mem::take(&mut self.by_id) };
        let passing = &self.passing;
        let shows = |at: usize| passing.get(at).copied().unwrap_or(false);
        self.tree = tree::tree(&self.rows, shows, look, &mut self.folds, &places);
        self.by_id = (0..).zip(&self.tree).map(|(at, row)| (row.id.clone(), at)).collect();
        let ids: Vec<Arc<str>> = self.tree.iter().map(|row| row.id.as_str().into()).collect();
        let hidden = self.passing.iter().filter(|passes| !**passes).count();
        let by_key = &self.by_key;
        let known = |id: &str| key_of(id).is_some_and(|key| by_key.contains_key(key));
        self.table.lay(ids, (self.rows.len(), hidden), known, self.fetched.is_some());
    }
}

impl Record for SecretRow {
    fn name(&self) -> &str {
        &self.key
    }

    fn says(&self, word: &str) -> bool {
        contains(&self.key, word) || self.state.words().contains(word)
    }

    fn has(&self, field: Field, value: &str) -> bool {
        match field {
            Field::State => {
                let words = self.state.words();
                words.contains(value) || words.replace(' ', "-").contains(value)
            }
            Field::Area => self.area().word().starts_with(value),
            Field::Key => {
                let named = matches!(&self.encryption, Encryption::OtherKey(key) if contains(key, value));
                named || contains(self.encryption.word(), value)
            }
            Field::Kind => format!("{:?}", Format::of(&self.key)).to_lowercase().starts_with(value),
            _ => false,
        }
    }

    fn began(&self) -> Option<Timestamp> {
        self.modified
    }
}
