//! A search in a log: a bounded part of it a frame, what is found is kept, and lines that come later are looked through too.

use std::collections::VecDeque;

use super::{LogBuffer, LogRow};
use crate::domain::text::Needle;

/// So many bytes are looked through before the next frame.
const BUDGET: usize = 1024 * 1024;
/// What a line costs beside its bytes.
const LINE: usize = 64;

/// A search in one log.
#[derive(Debug, Default)]
pub struct LogSearch {
    needle: Needle,
    /// The rows that hold it, oldest first.
    hits: VecDeque<u64>,
    /// The next row to look at.
    next: u64,
    /// A jump that waits for a hit: from this row on, and whether backwards.
    wanted: Option<(Option<u64>, bool)>,
    done: bool,
}

/// Where a jump goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jump {
    /// To this row.
    To(u64),
    /// Nowhere yet: more has to be looked through.
    Later,
    /// Nowhere: there is no match.
    Nowhere,
}

impl LogSearch {
    /// Another needle: everything is looked through anew.
    pub fn set(&mut self, needle: &str) {
        *self = Self { needle: Needle::new(needle), ..Self::default() };
    }

    /// What is searched.
    #[must_use]
    pub fn needle(&self) -> &Needle {
        &self.needle
    }

    /// How many rows hold it, as far as is known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.hits.len()
    }

    /// Which of them a row is, from 1.
    #[must_use]
    pub fn place(&self, row: u64) -> Option<usize> {
        self.hits.binary_search(&row).ok().map(|at| at + 1)
    }

    /// Everything that is there has been looked through.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Looks through the next part. Returns where a jump that waited goes now.
    pub fn advance(&mut self, log: &LogBuffer) -> Option<Jump> {
        if self.needle.is_empty() {
            return None;
        }
        while self.hits.front().is_some_and(|row| *row < log.first()) {
            self.hits.pop_front();
        }
        self.next = self.next.max(log.first());
        let mut budget = BUDGET;
        self.done = true;
        for (number, row) in log.rows(self.next).take_while(|(n, _)| *n < log.end()) {
            let LogRow::Line(line) = row else { continue };
            let cost = line.state.len() + LINE;
            if budget < cost && budget < BUDGET {
                self.done = false;
                break;
            }
            budget = budget.saturating_sub(cost);
            if self.needle.is_in(line.state) {
                self.hits.push_back(number);
            }
            self.next = number + 1;
        }
        let (from, backwards) = self.wanted?;
        match self.jump(from, backwards) {
            Jump::Later => None,
            found => Some(found),
        }
    }

    /// The next match after (or before) a row; round the end once. Where that is not known yet the jump is remembered.
    pub fn jump(&mut self, from: Option<u64>, backwards: bool) -> Jump {
        let after = from.map_or(0, |from| self.hits.partition_point(|row| *row <= from));
        let before = from.map_or(self.hits.len(), |from| self.hits.partition_point(|row| *row < from));
        // Forwards the first match behind the row is certain as soon as it is known; backwards only the whole is.
        let (near, far) = if backwards {
            (
                before.checked_sub(1).filter(|_| self.done || from.is_some_and(|f| f <= self.next)),
                self.hits.len().checked_sub(1),
            )
        } else {
            (Some(after).filter(|at| *at < self.hits.len()), Some(0))
        };
        let found = near.or(far.filter(|_| self.done)).and_then(|at| self.hits.get(at));
        self.wanted = None;
        match found {
            Some(row) => Jump::To(*row),
            None if self.done => Jump::Nowhere,
            None => {
                self.wanted = Some((from, backwards));
                Jump::Later
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::msg::{LogEvent, LogLine};

    fn lines(texts: &[&[u8]]) -> LogEvent {
        LogEvent::Lines(texts.iter().map(|t| LogLine { at: None, bytes: (*t).into() }).collect())
    }

    fn search(log: &LogBuffer, needle: &str) -> LogSearch {
        let mut search = LogSearch::default();
        search.set(needle);
        search.advance(log);
        search
    }

    #[test]
    fn a_search_goes_round_and_finds_text_behind_a_bad_byte() {
        let mut log = LogBuffer::default();
        log.apply(lines(&[b"one", b"\xffTwo", b"three", b"\x1b[31mt\x1b[0mwo", b"10% two\rdone"]));
        let mut two = search(&log, "two");
        assert_eq!((two.count(), two.place(3), two.place(2)), (2, Some(2), None));
        for (from, backwards, row) in
            [(None, false, 1), (Some(1), false, 3), (Some(3), false, 1), (Some(1), true, 3), (None, true, 3)]
        {
            assert_eq!(two.jump(from, backwards), Jump::To(row), "{from:?} {backwards}");
        }
        assert_eq!(search(&log, "four").jump(None, false), Jump::Nowhere);
        log.apply(lines(&[b"TWO more"]));
        two.advance(&log);
        assert_eq!(two.jump(Some(3), false), Jump::To(5), "what comes later is found too");
    }

    #[test]
    fn a_large_log_is_looked_through_in_parts_and_the_jump_comes_when_it_can() {
        let mut log = LogBuffer::default();
        let text = vec![b'x'; 1_000];
        log.apply(lines(&vec![text.as_slice(); 5_000]));
        log.apply(lines(&[b"here it is"]));
        let mut found = search(&log, "here it is");
        assert!(!found.is_done() && found.jump(None, false) == Jump::Later);
        let mut parts = 1;
        let jump = loop {
            parts += 1;
            if let Some(jump) = found.advance(&log) {
                break jump;
            }
            assert!(parts < 20);
        };
        assert_eq!((jump, parts > 3), (Jump::To(5_000), true));
    }
}
