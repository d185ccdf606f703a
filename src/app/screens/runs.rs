//! The table of runs: those that are under way first, then the newest.

use std::sync::Arc;

use crate::app::store::Store;
use crate::app::table::{SortKey, Source, Table};
use crate::domain::Run;

/// The columns that the table can be sorted by, in the order of the key.
pub const COLUMNS: [&str; 4] = ["started", "host", "phase", "duration"];

/// The screen.
#[derive(Debug)]
pub struct RunsScreen {
    /// The rows, by UID.
    pub table: Table,
}

impl Default for RunsScreen {
    fn default() -> Self {
        Self { table: Table::new(0) }
    }
}

/// The runs as rows.
pub struct Runs<'a>(pub &'a Store);

impl Source for Runs<'_> {
    type Row = Run;

    fn count(&self) -> usize {
        self.0.run_count()
    }

    fn rows(&self) -> impl Iterator<Item = (&Arc<str>, &Run)> {
        self.0.runs()
    }

    fn row(&self, key: &str) -> Option<&Run> {
        self.0.run(key)
    }

    fn sort_key<'r>(&self, run: &'r Run, column: usize) -> SortKey<'r> {
        match COLUMNS.get(column) {
            Some(&"host") => SortKey::Counted(run.host.as_str(), run.number.into()),
            Some(&"duration") => {
                let span = run.started.zip(run.finished).map(|(from, to)| to.duration_since(from).as_secs());
                SortKey::Number(-span.unwrap_or(-1))
            }
            _ => SortKey::Number(-run.started.unwrap_or(run.created).as_second()),
        }
    }

    fn group(&self, run: &Run, column: usize) -> u8 {
        match COLUMNS.get(column) {
            Some(&"started") => u8::from(run.is_over()),
            Some(&"phase") => run.phase as u8,
            _ => 0,
        }
    }
}
