//! Inside one run: its stages, its tasks, one result, its log.

use std::collections::HashMap;

use super::logview::LogView;
use super::tasks::{self, Look, Order, RowKind, TaskRow, Tree};
use crate::app::document::{self, Document};
use crate::app::edit::LineEdit;
use crate::app::log::Jump;
use crate::app::store::Store;
use crate::app::table::{Move, window};
use crate::domain::Run;
use crate::domain::results::TaskResult;
use crate::domain::text::Needle;

/// The panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    /// The tree of tasks.
    #[default]
    Tasks,
    /// The result under the cursor, or the run's own page.
    Result,
    /// The pod's log.
    Log,
}

impl Pane {
    /// The next in the order of the key.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Tasks => Self::Result,
            Self::Result => Self::Log,
            Self::Log => Self::Tasks,
        }
    }

    /// Its name in what is kept.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Result => "result",
            Self::Log => "log",
        }
    }

    /// The pane of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tasks, Self::Result, Self::Log].into_iter().find(|pane| pane.name() == name)
    }
}

/// What the right pane shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    /// The run's own page.
    #[default]
    Overview,
    /// The result of this id.
    Result(u64),
}

/// A search in a text.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// What is being typed.
    pub input: Option<LineEdit>,
    /// What is searched.
    pub needle: Needle,
    /// The line in the result that was found last.
    pub result_hit: Option<usize>,
    /// Which of how many matches among the tasks was found last, from 1.
    pub task_hit: Option<(usize, usize)>,
    /// Nothing was found.
    pub missed: bool,
}

/// The screen.
#[derive(Debug)]
pub struct RunScreen {
    /// The run.
    pub uid: String,
    /// The pane with the focus.
    pub focus: Pane,
    /// The pane has the whole screen.
    pub zoom: bool,
    /// The order that the operator chose.
    chosen: Option<Order>,
    /// A failure is recorded and the run is over: the failed tasks come first unless another order was chosen.
    lost: bool,
    /// The tasks as a list, those that took longest first.
    pub slowest: bool,
    tree: Tree,
    folds: HashMap<String, bool>,
    cursor: Option<String>,
    at: usize,
    top: usize,
    moved: bool,
    stamp: Option<(u64, Look, usize)>,
    fold_changes: usize,
    /// What the right pane shows, once the cursor rested.
    pub shown: Shown,
    /// The run's own page is asked for, whatever is under the cursor.
    page: bool,
    doc: Document,
    doc_of: Option<(Shown, bool)>,
    /// The first line of the result in its window; [`document::END`]: its end.
    pub result_top: usize,
    /// How the log is looked at.
    pub log: LogView,
    /// The search.
    pub search: Search,
}

impl RunScreen {
    /// The screen of a run.
    #[must_use]
    pub fn new(uid: String) -> Self {
        Self {
            uid,
            focus: Pane::Tasks,
            zoom: false,
            chosen: None,
            lost: false,
            slowest: false,
            tree: Tree::default(),
            folds: HashMap::new(),
            cursor: None,
            at: 0,
            top: 0,
            moved: false,
            stamp: None,
            fold_changes: 0,
            shown: Shown::Overview,
            page: false,
            doc: Document::default(),
            doc_of: None,
            result_top: 0,
            log: LogView::default(),
            search: Search::default(),
        }
    }

    /// The rows of the tree.
    #[must_use]
    pub fn rows(&self) -> &[TaskRow] {
        &self.tree.rows
    }

    /// The tree of tasks.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// How the tasks are looked at.
    #[must_use]
    pub fn look(&self) -> Look {
        let usual = if self.lost { Order::FailedFirst } else { Order::Ran };
        Look { order: self.chosen.unwrap_or(usual), slowest: self.slowest }
    }

    /// The operator wants the tasks in the next order.
    pub fn next_order(&mut self) {
        self.chosen = Some(self.look().order.next());
    }

    /// The number of the row under the cursor.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The row under the cursor.
    #[must_use]
    pub fn row(&self) -> Option<&TaskRow> {
        self.tree.rows.get(self.at)
    }

    /// What the row under the cursor leads to.
    #[must_use]
    pub fn under_cursor(&self) -> Shown {
        match self.row().map(|r| &r.kind) {
            Some(RowKind::Task { id, .. }) if !self.page => Shown::Result(*id),
            _ => Shown::Overview,
        }
    }

    /// The run's own page is what is read.
    #[must_use]
    pub fn on_page(&self) -> bool {
        self.page && self.focus == Pane::Result
    }

    /// Goes to the run's own page, or back to the tasks.
    pub fn turn_page(&mut self, to_it: bool) {
        (self.page, self.zoom) = (to_it, self.zoom && to_it);
        self.focus = if to_it { Pane::Result } else { Pane::Tasks };
        self.show();
    }

    /// The right pane shows what it should.
    pub fn show(&mut self) {
        let shown = self.under_cursor();
        if self.shown != shown {
            (self.shown, self.result_top, self.search.result_hit) = (shown, 0, None);
        }
    }

    /// The first row of a window of `page` rows.
    #[must_use]
    pub fn window(&self, page: usize) -> usize {
        window(self.top, self.at, page, self.tree.rows.len())
    }

    /// Takes over what the last frame showed.
    pub fn seen(&mut self, top: usize) {
        self.top = top;
    }

    /// The text of the right pane.
    #[must_use]
    pub fn doc(&self) -> &Document {
        &self.doc
    }

    /// Moves the cursor in the tree.
    pub fn go(&mut self, to: Move) {
        (self.moved, self.page) = (true, false);
        let last = self.tree.rows.len().saturating_sub(1);
        self.at = match to {
            Move::By(rows) => self.at.saturating_add_signed(rows).min(last),
            Move::First => 0,
            Move::Last => last,
        };
        self.cursor = self.tree.rows.get(self.at).map(|r| r.key.clone());
    }

    /// Opens or closes the group under the cursor (or the one around it). Returns whether there was one.
    pub fn fold(&mut self, open: Option<bool>) -> bool {
        let mut at = self.at;
        if open == Some(false)
            && !matches!(self.row().map(|r| &r.kind), Some(RowKind::Group { open: true, .. }))
        {
            let depth = self.row().map_or(0, |r| r.depth);
            let around = (0..self.at).rev().find(|n| self.tree.rows.get(*n).is_some_and(|r| r.depth < depth));
            let Some(around) = around else { return false };
            at = around;
        }
        let Some(TaskRow { key, kind: RowKind::Group { open: was, .. }, .. }) = self.tree.rows.get(at) else {
            return false;
        };
        self.folds.insert(key.clone(), open.unwrap_or(!was));
        (self.cursor, self.at) = (Some(key.clone()), at);
        (self.moved, self.page, self.fold_changes) = (true, false, self.fold_changes + 1);
        true
    }

    /// Brings tree and text up to date; cheap when nothing changed. `overview` is the run's own page.
    pub fn arrange(&mut self, store: &Store, overview: impl FnOnce() -> Document) {
        self.arrange_tasks(store);
        self.arrange_log(store);
        match self.shown {
            Shown::Overview => {
                self.doc = overview();
                self.doc_of = Some((self.shown, true));
            }
            Shown::Result(id) => {
                let details = store.result(id);
                let stamp = Some((self.shown, details.is_some()));
                if self.doc_of != stamp {
                    self.doc = details.map(document::of_result).unwrap_or_default();
                    self.doc_of = stamp;
                }
            }
        }
    }

    fn arrange_log(&mut self, store: &Store) {
        let Some(log) = store.log(&self.uid) else { return };
        match self.log.arrange(log) {
            Some(Jump::To(row)) => self.log.stand(log, row),
            Some(Jump::Nowhere) => self.search.missed = true,
            Some(Jump::Later) | None => {}
        }
    }

    /// The cursor goes to a task, whatever is folded or left out now.
    pub fn reveal(&mut self, task: &TaskResult) {
        if !self.look().order.shows(task) {
            self.chosen = Some(Order::Ran);
        }
        for key in tasks::path(task) {
            self.folds.insert(key, true);
        }
        (self.cursor, self.moved, self.page) = (Some(tasks::key(task.id)), true, false);
        self.fold_changes += 1;
    }

    /// The operator chose where the cursor stands.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.moved
    }

    /// Brings the tree up to date.
    pub fn arrange_tasks(&mut self, store: &Store) {
        let Some(entry) = store.results(&self.uid) else { return };
        let Some(results) = entry.results.as_deref() else { return };
        self.lost = store.run(&self.uid).is_some_and(Run::is_over)
            && results.results.iter().any(|t| tasks::is_failure(t.status));
        let look = self.look();
        let stamp = Some((entry.revision, look, self.fold_changes));
        if self.stamp == stamp {
            return;
        }
        self.stamp = stamp;
        self.tree = tasks::tree(results, look, !entry.complete, &mut self.folds);
        let find = |key: &String| self.tree.rows.iter().position(|r| r.key == *key);
        let at = match self.cursor.as_ref().filter(|_| self.moved).and_then(find) {
            Some(at) => at,
            None if self.moved => self.at.min(self.tree.rows.len().saturating_sub(1)),
            None => first_look(&self.tree.rows, entry.complete),
        };
        self.at = at;
        self.cursor = self.tree.rows.get(at).map(|r| r.key.clone());
    }
}

/// Where the cursor stands until the operator moves it: on what failed, else on what runs.
fn first_look(rows: &[TaskRow], complete: bool) -> usize {
    let failed = |r: &TaskRow| matches!(r.kind, RowKind::Task { .. }) && tasks::is_failure(r.status);
    let end = if complete { 0 } else { rows.len().saturating_sub(1) };
    rows.iter().position(failed).unwrap_or(end)
}
