//! How an operator looks at a run's log: where, which lines, in what form. The lines themselves are the store's.

use std::collections::VecDeque;

use crate::app::log::{Jump, LogBuffer, LogRow, LogSearch};
use crate::app::table::Move;

/// How many columns the log scrolls to the side.
const SIDE_STEP: usize = 16;
/// How far it can be scrolled to the side.
const SIDE_END: usize = 8_192;

/// What stands before each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Times {
    /// Nothing.
    #[default]
    Off,
    /// The time of day.
    Clock,
    /// The time since the attempt's first line.
    Since,
}

impl Times {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Off => Self::Clock,
            Self::Clock => Self::Since,
            Self::Since => Self::Off,
        }
    }
}

/// Which lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Only {
    /// All.
    #[default]
    All,
    /// Those of one section.
    Section(u32),
    /// Those that speak of one host.
    Host(u16),
}

/// The view of the log.
#[derive(Debug)]
pub struct LogView {
    /// Its end is followed.
    follow: bool,
    /// The row under the cursor, where the end is not followed.
    cursor: u64,
    /// The first row of the window, as the last frame had it.
    pub top: u64,
    /// How far it is scrolled to the right.
    pub left: usize,
    /// Long lines are broken, not cut.
    pub wrap: bool,
    /// What stands before each line.
    pub times: Times,
    only: Only,
    /// The rows that are shown, where not all are.
    kept: VecDeque<u64>,
    /// The next row to look at.
    looked: u64,
    /// The log's end when it was last followed.
    left_at: u64,
    /// The search.
    pub search: LogSearch,
}

impl Default for LogView {
    fn default() -> Self {
        Self {
            follow: true,
            cursor: 0,
            top: 0,
            left: 0,
            wrap: false,
            times: Times::Off,
            only: Only::All,
            kept: VecDeque::new(),
            looked: 0,
            left_at: 0,
            search: LogSearch::default(),
        }
    }
}

impl LogView {
    /// Brings what is shown up to date, and the search a part further. Returns where a search that went on has come.
    pub fn arrange(&mut self, log: &LogBuffer) -> Option<Jump> {
        if self.follow {
            self.left_at = log.end();
        }
        if self.only != Only::All {
            while self.kept.front().is_some_and(|row| *row < log.first()) {
                self.kept.pop_front();
            }
            for (number, row) in log.rows(self.looked) {
                if let LogRow::Line(line) = row
                    && match self.only {
                        Only::All => true,
                        Only::Section(section) => line.section == section,
                        Only::Host(host) => line.host == host,
                    }
                {
                    self.kept.push_back(number);
                }
            }
            self.looked = log.end();
        }
        self.search.advance(log)
    }

    /// Which lines are shown.
    #[must_use]
    pub fn only(&self) -> Only {
        self.only
    }

    /// Shows these lines only.
    pub fn show_only(&mut self, only: Only) {
        (self.only, self.looked) = (only, 0);
        self.kept.clear();
    }

    /// How many rows are shown.
    #[must_use]
    pub fn len(&self, log: &LogBuffer) -> usize {
        match self.only {
            Only::All => usize::try_from(log.end() - log.first()).unwrap_or(usize::MAX),
            _ => self.kept.len(),
        }
    }

    /// True when none is.
    #[must_use]
    pub fn is_empty(&self, log: &LogBuffer) -> bool {
        self.len(log) == 0
    }

    /// The number of the row at a place among those that are shown.
    #[must_use]
    pub fn row(&self, log: &LogBuffer, place: usize) -> Option<u64> {
        match self.only {
            Only::All => Some(log.first() + place as u64).filter(|row| *row < log.end()),
            _ => self.kept.get(place).copied(),
        }
    }

    /// The place of a row among those that are shown; of the next one where it is not.
    #[must_use]
    pub fn place(&self, log: &LogBuffer, row: u64) -> usize {
        let place = match self.only {
            Only::All => usize::try_from(row.saturating_sub(log.first())).unwrap_or(usize::MAX),
            _ => self.kept.partition_point(|kept| *kept < row),
        };
        place.min(self.len(log).saturating_sub(1))
    }

    /// Whether a row is among those that are shown.
    #[must_use]
    pub fn shows(&self, log: &LogBuffer, row: u64) -> bool {
        self.row(log, self.place(log, row)) == Some(row)
    }

    /// The place of the row under the cursor.
    #[must_use]
    pub fn cursor(&self, log: &LogBuffer) -> usize {
        if self.follow { self.len(log).saturating_sub(1) } else { self.place(log, self.cursor) }
    }

    /// The row under the cursor.
    #[must_use]
    pub fn cursor_row(&self, log: &LogBuffer) -> Option<u64> {
        self.row(log, self.cursor(log))
    }

    /// The end is followed.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// How many rows came since the end was last followed.
    #[must_use]
    pub fn behind(&self, log: &LogBuffer) -> u64 {
        match self.only {
            Only::All => log.end().saturating_sub(self.left_at.max(log.first())),
            _ => (self.kept.len() - self.kept.partition_point(|row| *row < self.left_at)) as u64,
        }
    }

    /// Follows the end, or stands still where it is.
    pub fn set_follow(&mut self, log: &LogBuffer, follow: bool) {
        if self.follow && !follow {
            (self.cursor, self.left_at) = (self.cursor_row(log).unwrap_or(0), log.end());
        }
        self.follow = follow;
    }

    /// The cursor goes to a row, and the end is not followed.
    pub fn stand(&mut self, log: &LogBuffer, row: u64) {
        self.set_follow(log, false);
        self.cursor = row;
    }

    /// Moves the cursor. Looking back ends the following; going down from the last row takes it up again.
    pub fn go(&mut self, log: &LogBuffer, to: Move) {
        let (at, last) = (self.cursor(log), self.len(log).saturating_sub(1));
        let place = match to {
            Move::By(rows) if rows > 0 && at == last => return self.set_follow(log, true),
            Move::By(rows) => at.saturating_add_signed(rows).min(last),
            Move::First => 0,
            Move::Last => return self.set_follow(log, true),
        };
        if let Some(row) = self.row(log, place) {
            self.stand(log, row);
        }
    }

    /// Scrolls to the side.
    pub fn side(&mut self, right: bool) {
        let (less, more) = (self.left.saturating_sub(SIDE_STEP), self.left.saturating_add(SIDE_STEP));
        self.left = if right { more.min(SIDE_END) } else { less };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{LogEvent, LogLine};

    fn more(log: &mut LogBuffer, view: &mut LogView, texts: &[&str]) {
        let line = |t: &&str| LogLine { at: None, bytes: t.as_bytes().into() };
        log.apply(LogEvent::Lines(texts.iter().map(line).collect()));
        view.arrange(log);
    }

    #[test]
    fn a_paused_log_stays_and_says_how_much_came() {
        let (mut log, mut view) = (LogBuffer::default(), LogView::default());
        more(&mut log, &mut view, &["a", "b", "c"]);
        assert_eq!((view.cursor(&log), view.behind(&log)), (2, 0));
        view.set_follow(&log, false);
        more(&mut log, &mut view, &["d", "e"]);
        assert_eq!((view.cursor(&log), view.behind(&log)), (2, 2));
        view.go(&log, Move::By(-1));
        view.go(&log, Move::By(9));
        assert_eq!((view.cursor(&log), view.follows()), (4, false));
        view.go(&log, Move::By(1));
        more(&mut log, &mut view, &["f"]);
        assert_eq!((view.cursor(&log), view.follows(), view.behind(&log)), (5, true, 0));
    }

    #[test]
    fn only_the_lines_of_a_section_or_a_host_are_shown() {
        let (mut log, mut view) = (LogBuffer::default(), LogView::default());
        view.show_only(Only::Host(2));
        more(&mut log, &mut view, &["TASK [x] *", "ok: [a]", "ok: [b]", "  more", "TASK [y] *", "ok: [a]"]);
        let rows = |view: &LogView, log: &LogBuffer| {
            (0..view.len(log)).filter_map(|at| view.row(log, at)).collect::<Vec<_>>()
        };
        assert_eq!(rows(&view, &log), [2, 3]);
        more(&mut log, &mut view, &["ok: [b]"]);
        assert_eq!(rows(&view, &log), [2, 3, 6]);
        view.show_only(Only::Section(2));
        view.arrange(&log);
        assert_eq!(rows(&view, &log), [4, 5, 6]);
        view.stand(&log, 5);
        assert_eq!((view.cursor(&log), view.cursor_row(&log)), (1, Some(5)));
        view.show_only(Only::All);
        assert_eq!((view.len(&log), view.cursor_row(&log)), (7, Some(5)), "the cursor stays on its line");
    }

    #[test]
    fn rows_that_are_dropped_leave_every_list() {
        let (mut log, mut view) = (LogBuffer::default(), LogView::default());
        more(&mut log, &mut view, &["TASK [x] *", "here", "TASK [y] *"]);
        view.show_only(Only::Section(1));
        view.stand(&log, 1);
        view.search.set("here");
        view.arrange(&log);
        assert_eq!((view.len(&log), view.search.count()), (2, 1));
        let many = vec!["x"; crate::app::log::LINE_LIMIT];
        more(&mut log, &mut view, &many);
        assert_eq!((view.len(&log), view.search.count(), view.cursor_row(&log)), (0, 0, None));
    }
}
