//! A pod's log: its newest lines, bounded in number and bytes, and what they belong to.

mod arena;
mod search;
mod sections;

use std::num::NonZeroU32;

use jiff::Timestamp;

use arena::{Arena, Meta};
use sections::Sections;

use super::msg::{LogEvent, LogLine};
use crate::domain::Problem;
use crate::domain::text::last_state;

pub use search::{Jump, LogSearch};
pub use sections::{Heading, Section};

/// The most lines that are kept of one log.
pub const LINE_LIMIT: usize = 50_000;
/// The most bytes that are kept of one log, with what a line costs beside its own.
pub const BYTE_LIMIT: usize = 8 * 1024 * 1024;
/// How our own program begins the line with which it starts to fetch the policy.
const POLICY: &[u8] = b"hostwright: policy ";

/// One row of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogRow<'a> {
    /// A line of the pod.
    Line(Line<'a>),
    /// Here another pod begins.
    Attempt(u32),
}

/// One line of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// All of it, as the pod wrote it.
    pub bytes: &'a [u8],
    /// What its carriage returns left standing: `10%\r20%` shows `20%`.
    pub state: &'a [u8],
    /// When the node took it.
    pub at: Option<Timestamp>,
    /// The number of its section; 0: none.
    pub section: u32,
    /// The number of the host that it speaks of, from 1; 0: none.
    pub host: u16,
}

/// When an attempt came how far, as its log tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Milestones {
    /// Its first line.
    pub first: Option<Timestamp>,
    /// It began to fetch the policy.
    pub policy: Option<Timestamp>,
    /// The first play began.
    pub play: Option<Timestamp>,
}

/// The newest lines of one log.
#[derive(Debug, Default)]
pub struct LogBuffer {
    arena: Arena,
    sections: Sections,
    /// How many lines were dropped; the marks of attempts are no lines.
    lost: u64,
    attempt: u32,
    /// The first attempt's and the newest's.
    milestones: (Milestones, Milestones),
    /// The section and the host of the next line.
    within: (u32, u16),
    /// Where a diff began whose host is not known yet.
    unclaimed: Option<u64>,
    newest: Option<Timestamp>,
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
                for line in &lines {
                    self.line(line);
                }
                self.sections.trim(self.arena.first());
            }
            LogEvent::Waiting(reason) => self.waiting = Some(reason),
            LogEvent::Attempt(attempt) => {
                (self.ended, self.problem, self.within, self.unclaimed) = (false, None, (0, 0), None);
                self.attempt = attempt;
                self.milestones.1 = Milestones::default();
                if attempt > 1 || self.arena.end() > 0 {
                    self.push(&[], Meta { attempt: NonZeroU32::new(attempt), ..Meta::default() });
                }
            }
            LogEvent::Ended => (self.ended, self.waiting) = (true, None),
            LogEvent::Problem(problem) => self.problem = Some(problem),
        }
    }

    fn line(&mut self, line: &LogLine) {
        let row = self.arena.end();
        let at = line.at.and_then(|at| i64::try_from(at.as_nanosecond()).ok());
        self.milestone(line);
        if let Some(heading) = sections::heading(&line.bytes) {
            let attempt = self.attempt.max(1);
            self.within = (self.sections.push(Section { row, attempt, at, heading }), 0);
            self.unclaimed = None;
        } else if let Some(host) = sections::host(&line.bytes) {
            self.within.1 = self.sections.host(host);
            for row in self.unclaimed.take().map(|from| from..row).into_iter().flatten() {
                if let Some(meta) = self.arena.meta_mut(row) {
                    meta.host = self.within.1;
                }
            }
        } else if sections::begins_diff(&line.bytes) && self.unclaimed.is_none() {
            (self.within.1, self.unclaimed) = (0, Some(row));
        }
        let state = u32::try_from(last_state(&line.bytes)).unwrap_or(0);
        let (section, host) = self.within;
        self.push(&line.bytes, Meta { at, state, section, host, attempt: None });
    }

    fn milestone(&mut self, line: &LogLine) {
        let Some(at) = line.at else { return };
        self.newest = Some(at);
        let first_attempt = self.attempt <= 1;
        let now = &mut self.milestones.1;
        now.first.get_or_insert(at);
        if line.bytes.starts_with(POLICY) {
            now.policy.get_or_insert(at);
        }
        if now.play.is_none() && sections::heading(&line.bytes) == Some(Heading::Play) {
            now.play = Some(at);
        }
        if first_attempt {
            self.milestones.0 = *now;
        }
    }

    fn push(&mut self, bytes: &[u8], meta: Meta) {
        self.arena.push(bytes, meta);
        while self.arena.end() - self.arena.first() > LINE_LIMIT as u64 || self.arena.cost() > BYTE_LIMIT {
            match self.arena.pop() {
                Some(line) => self.lost += u64::from(line),
                None => return,
            }
        }
    }

    /// The number of the first row that is kept, counted from the log's beginning.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.arena.first()
    }

    /// The number of the row after the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.arena.end()
    }

    /// How many lines at the beginning were dropped, exactly.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost
    }

    /// True when there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first() == self.end()
    }

    /// The row of that number, counted from the log's beginning.
    #[must_use]
    pub fn row(&self, number: u64) -> Option<LogRow<'_>> {
        self.arena.row(number).map(|(bytes, meta)| read(bytes, meta))
    }

    /// The rows from this number on.
    pub fn rows(&self, from: u64) -> impl Iterator<Item = (u64, LogRow<'_>)> {
        self.arena.from(from.max(self.first())).map(|(number, bytes, meta)| (number, read(bytes, meta)))
    }

    /// The section of that number.
    #[must_use]
    pub fn section(&self, number: u32) -> Option<&Section> {
        self.sections.get(number)
    }

    /// All sections that are kept, with their numbers.
    pub fn sections(&self) -> impl DoubleEndedIterator<Item = (u32, &Section)> {
        self.sections.all()
    }

    /// The hosts that results were printed of: the first has number 1.
    #[must_use]
    pub fn hosts(&self) -> &[Box<str>] {
        self.sections.hosts()
    }

    /// When the newest line was written.
    #[must_use]
    pub fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// How far the first attempt and the newest have come.
    #[must_use]
    pub fn milestones(&self) -> (Milestones, Milestones) {
        self.milestones
    }

    /// All lines that are kept, exactly as they came, one a line.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.arena.cost());
        for (_, bytes, meta) in self.arena.from(self.first()) {
            if meta.attempt.is_none() {
                out.extend_from_slice(bytes);
                out.push(b'\n');
            }
        }
        out
    }
}

fn read(bytes: &[u8], meta: Meta) -> LogRow<'_> {
    if let Some(attempt) = meta.attempt {
        return LogRow::Attempt(attempt.get());
    }
    LogRow::Line(Line {
        bytes,
        state: bytes.get(meta.state as usize..).unwrap_or(bytes),
        at: meta.at.and_then(|ns| Timestamp::from_nanosecond(ns.into()).ok()),
        section: meta.section,
        host: meta.host,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&[u8]]) -> LogEvent {
        LogEvent::Lines(texts.iter().map(|t| LogLine { at: None, bytes: (*t).into() }).collect())
    }

    fn line(log: &LogBuffer, number: u64) -> Line<'_> {
        match log.row(number) {
            Some(LogRow::Line(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_is_bounded_and_knows_what_it_dropped() {
        let mut log = LogBuffer::default();
        for _ in 0..6 {
            log.apply(lines(&vec![b"x".as_slice(); 10_000]));
        }
        assert_eq!((log.dropped(), log.first(), log.end()), (10_000, 10_000, 60_000));
        assert!(log.row(9_999).is_none() && log.row(10_000).is_some() && log.row(60_000).is_none());
        let mut log = LogBuffer::default();
        for _ in 0..20 {
            log.apply(lines(&[&vec![b'x'; 1024 * 1024]]));
        }
        assert!(
            log.arena.held() <= BYTE_LIMIT + 4 * 1024 * 1024 && log.dropped() >= 12,
            "{}",
            log.arena.held()
        );
    }

    #[test]
    fn four_hundred_thousand_lines_take_no_more_memory_than_the_limit_and_none_is_miscounted() {
        let mut log = LogBuffer::default();
        let text = b"ok: [web-1.lan.example.org] => {\"changed\": false, \"msg\": \"all is well here\"}";
        for batch in 0..400 {
            if batch % 100 == 0 {
                log.apply(LogEvent::Attempt(batch / 100 + 1));
            }
            log.apply(lines(&vec![text.as_slice(); 1_000]));
        }
        let kept = log.rows(0).filter(|(_, row)| matches!(row, LogRow::Line(_))).count() as u64;
        assert_eq!(log.dropped() + kept, 400_000, "every line is either kept or counted");
        assert!(log.arena.held() < BYTE_LIMIT + 512 * 1024, "{}", log.arena.held());
    }

    #[test]
    fn what_is_copied_is_what_came() {
        let mut log = LogBuffer::default();
        log.apply(lines(&[b"\x1b[31mred\x1b[0m", b"a\tb", b"\xff 10%\r20%\r"]));
        log.apply(LogEvent::Attempt(2));
        log.apply(lines(&[b"again"]));
        assert_eq!(log.bytes(), b"\x1b[31mred\x1b[0m\na\tb\n\xff 10%\r20%\r\nagain\n");
        assert_eq!(log.row(3), Some(LogRow::Attempt(2)));
        assert_eq!(line(&log, 2).state, b"20%\r");
    }

    #[test]
    fn each_line_knows_its_section_and_its_host() {
        let mut log = LogBuffer::default();
        log.apply(lines(&[
            b"hostwright: run x",
            b"TASK [zfs : import pool] ***",
            b"ok: [a]",
            b"--- before",
            b"+new",
            b"changed: [b] => {",
            b"  more of it",
            b"TASK [next] ***",
        ]));
        let of = |n| (line(&log, n).section, line(&log, n).host);
        let all: Vec<_> = (0..8).map(of).collect();
        assert_eq!(all, [(0, 0), (1, 0), (1, 1), (1, 2), (1, 2), (1, 2), (1, 2), (2, 0)]);
        assert_eq!(log.hosts().len(), 2);
        assert_eq!(log.section(2).map(|s| s.row), Some(7));
    }

    #[test]
    fn the_log_tells_when_the_policy_came_and_the_play_began() {
        let mut log = LogBuffer::default();
        let at = |second: i64, text: &str| LogLine {
            at: Timestamp::from_second(second).ok(),
            bytes: text.as_bytes().into(),
        };
        log.apply(LogEvent::Attempt(1));
        log.apply(LogEvent::Lines(vec![at(1, "hostwright: run x"), at(3, "hostwright: policy p")]));
        log.apply(LogEvent::Attempt(2));
        log.apply(LogEvent::Lines(vec![at(11, "x"), at(12, "hostwright: policy p"), at(15, "PLAY [all] *")]));
        let of = |m: Milestones| [m.first, m.policy, m.play].map(|t| t.map_or(0, Timestamp::as_second));
        let (first, newest) = log.milestones();
        assert_eq!((of(first), of(newest)), ([1, 3, 0], [11, 12, 15]));
        assert_eq!(log.newest().map(Timestamp::as_second), Some(15));
    }
}
