//! What Ansible's output is divided into: headings, and the hosts that lines speak of.

use std::collections::VecDeque;

/// The most hosts that are told apart.
const HOSTS: usize = 256;
/// The word before a host's name is no longer than this: `unreachable`.
const WORD: usize = 12;

/// A part of the log under a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The number of the heading's row.
    pub row: u64,
    /// Which attempt wrote it, from 1.
    pub attempt: u32,
    /// When the heading was written, in nanoseconds since 1970.
    pub at: Option<i64>,
    /// What it is the heading of.
    pub heading: Heading,
}

/// A heading of Ansible's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heading {
    /// A task or a handler, by its name with its role: `zfs : import pool`.
    Task(Box<str>),
    /// A play.
    Play,
    /// The counts at the end.
    Recap,
}

/// The heading that a line is, if it is one.
pub(super) fn heading(line: &[u8]) -> Option<Heading> {
    let line = uncoloured(line);
    let body = |prefix: &[u8]| line.strip_prefix(prefix).map(name);
    if line.starts_with(b"PLAY RECAP *") {
        return Some(Heading::Recap);
    }
    if line.starts_with(b"PLAY [") || line.starts_with(b"PLAY *") {
        return Some(Heading::Play);
    }
    let task = body(b"TASK [").or_else(|| body(b"RUNNING HANDLER [")).or_else(|| body(b"CLEANUP TASK ["))?;
    Some(Heading::Task(task.into()))
}

/// What stands between the brackets: up to the stars, for names have brackets too.
fn name(rest: &[u8]) -> String {
    let end = rest.windows(3).rposition(|w| w == b"] *").or_else(|| rest.iter().rposition(|b| *b == b']'));
    String::from_utf8_lossy(rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest)).into_owned()
}

/// The line without the colour that it begins with.
fn uncoloured(line: &[u8]) -> &[u8] {
    let Some(body) = line.strip_prefix(b"\x1b[") else { return line };
    let end = body.iter().take(16).position(|b| !(b.is_ascii_digit() || *b == b';'));
    match end.and_then(|end| body.split_at_checked(end)) {
        Some((_, tail)) => tail.strip_prefix(b"m").unwrap_or(line),
        None => line,
    }
}

/// The host of a result's line: `changed: [web-1 -> localhost] => …` speaks of `web-1`.
pub(super) fn host(line: &[u8]) -> Option<&str> {
    let line = uncoloured(line);
    let word = line.iter().take(WORD).position(|b| !b.is_ascii_lowercase()).filter(|n| *n > 0)?;
    let rest = line.get(word..)?.strip_prefix(b": [")?;
    let end = rest.iter().take(256).position(|b| *b == b']' || *b == b' ')?;
    std::str::from_utf8(rest.get(..end)?).ok().filter(|name| !name.is_empty())
}

/// True for the first line of a diff, which Ansible prints before the line that names the host.
pub(super) fn begins_diff(line: &[u8]) -> bool {
    uncoloured(line).starts_with(b"--- ")
}

/// The sections of what is kept, and all hosts.
#[derive(Debug, Default)]
pub(super) struct Sections {
    kept: VecDeque<Section>,
    /// How many were dropped: the number of the first that is kept, less one.
    gone: u32,
    hosts: Vec<Box<str>>,
}

impl Sections {
    /// The number of the newest; 0: none.
    pub(super) fn newest(&self) -> u32 {
        self.gone + u32::try_from(self.kept.len()).unwrap_or(0)
    }

    pub(super) fn push(&mut self, section: Section) -> u32 {
        self.kept.push_back(section);
        self.newest()
    }

    /// Forgets those of which no line is kept.
    pub(super) fn trim(&mut self, first: u64) {
        while self.kept.get(1).is_some_and(|next| next.row <= first) {
            self.kept.pop_front();
            self.gone += 1;
        }
    }

    /// One by its number.
    pub(super) fn get(&self, number: u32) -> Option<&Section> {
        self.kept.get(usize::try_from(number.checked_sub(self.gone + 1)?).ok()?)
    }

    /// All with their numbers.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = (u32, &Section)> {
        let first = self.gone + 1;
        self.kept.iter().enumerate().map(move |(at, s)| (first + u32::try_from(at).unwrap_or(0), s))
    }

    /// The number of a host; 0 where there are too many.
    pub(super) fn host(&mut self, name: &str) -> u16 {
        let at = self.hosts.iter().position(|known| **known == *name).or_else(|| {
            (self.hosts.len() < HOSTS).then(|| self.hosts.push(name.into()))?;
            Some(self.hosts.len() - 1)
        });
        at.and_then(|at| u16::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// The hosts, in the order in which they appeared: the first has number 1.
    pub(super) fn hosts(&self) -> &[Box<str>] {
        &self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_read_whatever_their_names_hold() {
        let task = |line: &str| match heading(line.as_bytes()) {
            Some(Heading::Task(name)) => name.into_string(),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(task("TASK [zfs : import pool] *****"), "zfs : import pool");
        assert_eq!(task("TASK [a [b] c] *"), "a [b] c");
        assert_eq!(task("RUNNING HANDLER [web : restart] ***"), "web : restart");
        assert_eq!(task("\u{1b}[1;35mTASK [x] ***\u{1b}[0m"), "x");
        assert_eq!(task("TASK [no stars]"), "no stars");
        assert_eq!(heading(b"PLAY [all] ***"), Some(Heading::Play));
        assert_eq!(heading(b"PLAY RECAP ***"), Some(Heading::Recap));
        for line in ["ok: [TASK [x] ***]", " TASK [x] ***", "", "TASK", "\u{1b}[2JTASK [x] *"] {
            assert_eq!(heading(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_host_of_a_line_is_the_one_that_was_worked_on() {
        let of = |line: &str| host(line.as_bytes()).map(str::to_owned);
        let web = Some("web-1".to_owned());
        for line in [
            "ok: [web-1]",
            "\u{1b}[0;33mchanged: [web-1] => {\"changed\": true}\u{1b}[0m",
            "fatal: [web-1]: FAILED! => {}",
            "failed: [web-1] (item=x) => {}",
            "changed: [web-1 -> localhost]",
        ] {
            assert_eq!(of(line), web, "{line}");
        }
        for line in
            ["TASK [web-1] ***", "web-1 : ok=1", "ok: web-1", "ok: []", ": [x]", "averyverylongword: [x]"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn sections_keep_their_numbers_when_older_ones_go() {
        let mut sections = Sections::default();
        for row in [0, 10, 20] {
            sections.push(Section { row, attempt: 1, at: None, heading: Heading::Play });
        }
        sections.trim(15);
        assert_eq!(sections.get(1), None);
        assert_eq!(sections.get(2).map(|s| s.row), Some(10), "its lines are still there");
        assert_eq!(sections.all().map(|(n, s)| (n, s.row)).collect::<Vec<_>>(), [(2, 10), (3, 20)]);
        assert_eq!((sections.host("a"), sections.host("b"), sections.host("a")), (1, 2, 1));
    }
}
