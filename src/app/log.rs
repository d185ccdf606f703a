//! A pod's log: its newest lines, bounded in number and bytes, and how an operator looks at it.

use std::collections::VecDeque;

use super::msg::{LogEvent, LogLine};
use crate::domain::Problem;

/// The most lines that are kept of one log.
pub const LINE_LIMIT: usize = 50_000;
/// The most bytes that are kept of one log.
pub const BYTE_LIMIT: usize = 8 * 1024 * 1024;
/// What a line costs beside its bytes.
const LINE_COST: usize = 48;

/// One row of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogRow {
    /// A line of the pod.
    Line(LogLine),
    /// Here another pod begins.
    Attempt(u32),
}

/// The newest lines of one log.
#[derive(Debug, Default)]
pub struct LogBuffer {
    rows: VecDeque<LogRow>,
    bytes: usize,
    dropped: u64,
    /// Why there are no lines yet.
    pub waiting: Option<String>,
    /// Why the log cannot be read.
    pub problem: Option<Problem>,
    /// The pod ended.
    pub ended: bool,
}

impl LogBuffer {
    /// Takes news in.
    pub fn apply(&mut self, event: LogEvent) {
        match event {
            LogEvent::Lines(lines) => {
                (self.waiting, self.problem, self.ended) = (None, None, false);
                for line in lines {
                    self.bytes += line.bytes.len() + LINE_COST;
                    self.rows.push_back(LogRow::Line(line));
                }
                self.trim();
            }
            LogEvent::Waiting(reason) => self.waiting = Some(reason),
            LogEvent::Attempt(attempt) => {
                (self.ended, self.problem) = (false, None);
                if attempt > 1 || !self.rows.is_empty() {
                    self.bytes += LINE_COST;
                    self.rows.push_back(LogRow::Attempt(attempt));
                }
            }
            LogEvent::Ended => (self.ended, self.waiting) = (true, None),
            LogEvent::Problem(problem) => self.problem = Some(problem),
        }
    }

    fn trim(&mut self) {
        while self.rows.len() > LINE_LIMIT || self.bytes > BYTE_LIMIT {
            let Some(row) = self.rows.pop_front() else { return };
            self.dropped += 1;
            let bytes = if let LogRow::Line(line) = &row { line.bytes.len() } else { 0 };
            self.bytes = self.bytes.saturating_sub(bytes + LINE_COST);
        }
    }

    /// How many rows at the beginning were dropped: also the number of the first row that is kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The number of the row after the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.dropped + self.rows.len() as u64
    }

    /// True when there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row of that number, counted from the log's beginning.
    #[must_use]
    pub fn row(&self, number: u64) -> Option<&LogRow> {
        let at = usize::try_from(number.checked_sub(self.dropped)?).ok()?;
        self.rows.get(at)
    }

    /// All lines that are kept, exactly as they came, one a line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(self.bytes);
        for row in &self.rows {
            if let LogRow::Line(line) = row {
                out.push_str(&String::from_utf8_lossy(&line.bytes));
                out.push('\n');
            }
        }
        out
    }

    /// The number of the next row after (or before) `from` that contains `needle`, in any case; round the end once.
    #[must_use]
    pub fn search(&self, needle: &str, from: Option<u64>, backwards: bool) -> Option<u64> {
        let needle = needle.to_lowercase();
        let (first, end) = (self.dropped, self.end());
        let hit = |number: &u64| match self.row(*number) {
            Some(LogRow::Line(line)) => String::from_utf8_lossy(&line.bytes).to_lowercase().contains(&needle),
            _ => false,
        };
        if needle.is_empty() || first == end {
            return None;
        }
        if backwards {
            let from = from.unwrap_or(end).clamp(first, end);
            (first..from).rev().chain((from..end).rev()).find(hit)
        } else {
            let from = from.map_or(first, |f| f + 1).clamp(first, end);
            (from..end).chain(first..from).find(hit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&[u8]]) -> LogEvent {
        LogEvent::Lines(texts.iter().map(|t| LogLine { at: None, bytes: (*t).into() }).collect())
    }

    #[test]
    fn it_is_bounded_and_knows_what_it_dropped() {
        let mut log = LogBuffer::default();
        for _ in 0..6 {
            log.apply(lines(&vec![b"x".as_slice(); 10_000]));
        }
        assert_eq!((log.dropped(), log.end()), (10_000, 60_000));
        assert!(log.row(9_999).is_none() && log.row(10_000).is_some() && log.row(60_000).is_none());
        let mut log = LogBuffer::default();
        for _ in 0..20 {
            log.apply(lines(&[&vec![b'x'; 1024 * 1024]]));
        }
        assert!(log.bytes <= BYTE_LIMIT && log.dropped() >= 12);
    }

    #[test]
    fn a_search_goes_round_and_finds_text_behind_a_bad_byte() {
        let mut log = LogBuffer::default();
        log.apply(lines(&[b"one", b"\xffTwo", b"three", b"two"]));
        assert_eq!(log.search("two", None, false), Some(1));
        assert_eq!(log.search("two", Some(1), false), Some(3));
        assert_eq!(log.search("two", Some(3), false), Some(1));
        assert_eq!(log.search("two", Some(1), true), Some(3));
        assert_eq!((log.search("four", None, false), log.search("", None, false)), (None, None));
    }

    #[test]
    fn what_is_copied_is_what_came() {
        let mut log = LogBuffer::default();
        log.apply(lines(&[b"\x1b[31mred\x1b[0m", b"a\tb"]));
        log.apply(LogEvent::Attempt(2));
        log.apply(lines(&[b"again"]));
        assert_eq!(log.text(), "\u{1b}[31mred\u{1b}[0m\na\tb\nagain\n");
    }
}
