//! The secrets as a tree: folders with what is in them rolled up, files in order, and which of them are folded away.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::key::Area;
use super::row::SecretRow;
use super::state::FileState;

/// Up to so many files all folders are open at first.
const ALL_OPEN: usize = 40;

/// What the tree can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By name.
    #[default]
    Name,
    /// What somebody has to decide or look at first.
    State,
    /// The largest first.
    Size,
    /// The youngest first.
    Age,
    /// What expires first.
    Expiry,
}

impl Order {
    /// All of them, as the key goes through them.
    pub const ALL: [Self; 5] = [Self::Name, Self::State, Self::Size, Self::Age, Self::Expiry];
    /// The names of their columns, in that order.
    pub const COLUMNS: [&str; 5] = ["name", "state", "size", "age", "expires"];
}

/// How urgent a state is: the first comes first.
fn urgency(state: FileState) -> u8 {
    match state {
        FileState::Both => 0,
        FileState::Unsure => 1,
        FileState::ChangedThere => 2,
        FileState::RemovedThere => 3,
        FileState::ChangedHere => 4,
        FileState::RemovedHere => 5,
        FileState::OnlyHere => 6,
        FileState::OnlyThere => 7,
        FileState::Same => 8,
        FileState::Nowhere => 9,
    }
}

/// What is in a folder, rolled up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rollup {
    /// How many files.
    pub files: usize,
    /// Their sizes together, in bytes.
    pub size: u64,
    /// When the youngest of them was written.
    pub modified: Option<Timestamp>,
    /// When the first certificate among them expires.
    pub expires: Option<Timestamp>,
    /// How many of them somebody has to look at, not for their state alone.
    pub wrong: usize,
    /// How many are in each state.
    pub states: BTreeMap<FileState, usize>,
}

impl Rollup {
    fn add(&mut self, row: &SecretRow) {
        self.files += 1;
        self.size = self.size.saturating_add(row.size);
        self.modified = self.modified.max(row.modified);
        self.expires = match (self.expires, row.expires) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.wrong += usize::from(row.problem.is_some() || row.encryption.is_wrong());
        *self.states.entry(row.state).or_default() += 1;
    }

    /// The most urgent state in it.
    #[must_use]
    pub fn worst(&self) -> FileState {
        self.by_urgency().next().map_or(FileState::Nowhere, |(state, _)| state)
    }

    /// The states in it with their counts, the most urgent first.
    pub fn by_urgency(&self) -> impl Iterator<Item = (FileState, usize)> {
        let mut states: Vec<(FileState, usize)> = self.states.iter().map(|(s, n)| (*s, *n)).collect();
        states.sort_by_key(|(state, _)| urgency(*state));
        states.into_iter()
    }
}

/// A row of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRow {
    /// What the cursor stands on: [`folder_id`] or [`file_id`].
    pub id: String,
    /// How deep it is.
    pub depth: u16,
    /// What it is.
    pub kind: NodeKind,
}

/// What a row of the tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A folder.
    Folder {
        /// Its last part, without the slash.
        name: String,
        /// What is in it is shown.
        open: bool,
        /// What is in it.
        rollup: Rollup,
    },
    /// A file: the row of this number.
    File(usize),
}

/// What stands for a folder: `path` ends with a slash.
#[must_use]
pub fn folder_id(path: &str) -> String {
    format!("d:{path}")
}

/// What stands for a file.
#[must_use]
pub fn file_id(key: &str) -> String {
    format!("f:{key}")
}

/// The folder that an id stands for, if it is one's.
#[must_use]
pub fn folder_of(id: &str) -> Option<&str> {
    id.strip_prefix("d:")
}

/// The key of the file that an id stands for, if it is one's.
#[must_use]
pub fn key_of(id: &str) -> Option<&str> {
    id.strip_prefix("f:")
}

/// The folder that something is in, by its id; none: it is at the top.
#[must_use]
pub fn parent(id: &str) -> Option<String> {
    let path = folder_of(id).or(key_of(id))?;
    let path = path.strip_suffix('/').unwrap_or(path);
    path.rfind('/').map(|at| folder_id(path.get(..=at).unwrap_or_default()))
}

/// How the tree is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    /// Its order.
    pub order: Order,
    /// The other way round.
    pub descending: bool,
    /// All folders are open: something is searched for.
    pub all_open: bool,
}

/// A folder while the tree is built.
#[derive(Default)]
struct Folder {
    rollup: Rollup,
    folders: BTreeMap<String, Folder>,
    files: Vec<usize>,
}

/// The rows of the tree: those of `rows` (by their number) that `shows` lets through, with the folders that they are in.
///
/// `folds` is what was opened and closed by hand, and how each folder was when it was first seen, so that nothing closes by itself.
/// `places` are the places that rows had: what has one keeps it, what is new joins the end of its folder. Empty, all are sorted.
#[must_use]
pub fn tree(
    rows: &[SecretRow],
    shows: impl Fn(usize) -> bool,
    look: Look,
    folds: &mut HashMap<String, bool>,
    places: &HashMap<String, usize>,
) -> Vec<TreeRow> {
    let mut root = Folder::default();
    let mut shown = 0;
    for (at, row) in rows.iter().enumerate().filter(|(at, _)| shows(*at)) {
        shown += 1;
        let mut folder = &mut root;
        let mut rest = row.key.as_str();
        // What ends with a slash is a row in the folder above: it would be a folder of no name in itself.
        while let Some((part, after)) = rest.split_once('/').filter(|(_, after)| !after.is_empty()) {
            folder = folder.folders.entry(part.to_owned()).or_default();
            folder.rollup.add(row);
            rest = after;
        }
        folder.files.push(at);
    }
    let mut walk = Walk { rows, look, few: shown <= ALL_OPEN, folds, places, out: Vec::new() };
    walk.folder(&root, "", 0);
    walk.out
}

/// Going through the folders.
struct Walk<'a> {
    rows: &'a [SecretRow],
    look: Look,
    /// There are so few files that all folders are open at first.
    few: bool,
    folds: &'a mut HashMap<String, bool>,
    places: &'a HashMap<String, usize>,
    out: Vec<TreeRow>,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Folder, path: &str, depth: u16) {
        for (name, inner) in self.sorted_folders(folder, path) {
            let path = format!("{path}{name}/");
            let id = folder_id(&path);
            let open = *self.folds.entry(id.clone()).or_insert(self.few) || self.look.all_open;
            let kind = NodeKind::Folder { name: name.clone(), open, rollup: inner.rollup.clone() };
            self.out.push(TreeRow { id, depth, kind });
            if open {
                self.folder(inner, &path, depth.saturating_add(1));
            }
        }
        for at in self.sorted_files(folder) {
            if let Some(row) = self.rows.get(at) {
                self.out.push(TreeRow { id: file_id(&row.key), depth, kind: NodeKind::File(at) });
            }
        }
    }

    fn sorted_folders<'f>(&self, folder: &'f Folder, path: &str) -> Vec<(&'f String, &'f Folder)> {
        let mut folders: Vec<(&String, &Folder)> = folder.folders.iter().collect();
        let area = |name: &str| if path.is_empty() { Area::of(&format!("{name}/")) } else { Area::Other };
        let place = |name: &str| self.place(&folder_id(&format!("{path}{name}/")));
        folders.sort_by(|(a, one), (b, other)| {
            let by_column = || match self.look.order {
                // The parts of the bucket have an order of their own.
                Order::Name => area(a).cmp(&area(b)).then_with(|| a.cmp(b)),
                Order::State => urgency(one.rollup.worst()).cmp(&urgency(other.rollup.worst())),
                Order::Size => other.rollup.size.cmp(&one.rollup.size),
                Order::Age => other.rollup.modified.cmp(&one.rollup.modified),
                Order::Expiry => later(one.rollup.expires).cmp(&later(other.rollup.expires)),
            };
            place(a).cmp(&place(b)).then_with(|| self.turned(by_column())).then_with(|| a.cmp(b))
        });
        folders
    }

    fn sorted_files(&self, folder: &Folder) -> Vec<usize> {
        let mut files: Vec<(usize, &SecretRow)> =
            folder.files.iter().filter_map(|at| Some((*at, self.rows.get(*at)?))).collect();
        files.sort_by(|(_, one), (_, other)| {
            let by_column = || match self.look.order {
                Order::Name => one.key.cmp(&other.key),
                Order::State => {
                    (!one.needs_eyes(), urgency(one.state)).cmp(&(!other.needs_eyes(), urgency(other.state)))
                }
                Order::Size => other.size.cmp(&one.size),
                Order::Age => other.modified.cmp(&one.modified),
                Order::Expiry => later(one.expires).cmp(&later(other.expires)),
            };
            let place = |row: &SecretRow| self.place(&file_id(&row.key));
            let by_place = place(one).cmp(&place(other));
            by_place.then_with(|| self.turned(by_column())).then_with(|| one.key.cmp(&other.key))
        });
        files.into_iter().map(|(at, _)| at).collect()
    }

    fn place(&self, id: &str) -> usize {
        if self.places.is_empty() { 0 } else { self.places.get(id).copied().unwrap_or(usize::MAX) }
    }

    fn turned(&self, order: Ordering) -> Ordering {
        if self.look.descending { order.reverse() } else { order }
    }
}

/// What never expires comes last.
fn later(expires: Option<Timestamp>) -> Timestamp {
    expires.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
