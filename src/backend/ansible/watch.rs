//! What the output of `ansible-playbook` tells: its recap, the task that failed, the last lines.
//!
//! Only standard output counts for the first two. Ansible wraps warnings on standard error, and a host's text in one could pass
//! for a recap.

use std::collections::VecDeque;

use super::Finished;
use crate::domain::text::{plain, plain_log};
use crate::domain::{Counts, parse_recap};

/// How many of the last lines are kept for an error message.
const TAIL_LINES: usize = 12;
/// The most characters that are kept of one of them.
const TAIL_WIDTH: usize = 300;

/// A host's trouble, as Ansible reports it on one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trouble {
    /// The task, with its role; empty when it has no name.
    pub task: String,
    /// What the module or the connection said; may be empty.
    pub message: String,
}

/// Reads the output line by line.
#[derive(Debug, Default)]
pub(super) struct Watch {
    in_recap: bool,
    recap: Option<Counts>,
    hosts: Vec<String>,
    task: String,
    /// What went wrong last and was not ignored, and what had gone wrong before that.
    trouble: Option<Trouble>,
    before: Option<Trouble>,
    tail: VecDeque<String>,
}

impl Watch {
    /// One line of standard output, without its end.
    pub(super) fn line(&mut self, raw: &[u8]) {
        let line = plain_log(&String::from_utf8_lossy(raw));
        if line.starts_with("PLAY RECAP ") {
            // The last one counts: a host's own words may look like one, but they come before it.
            self.in_recap = true;
            self.recap = None;
            self.hosts.clear();
        } else if self.in_recap {
            match parse_recap(&line) {
                Some((host, counts)) => {
                    self.recap.get_or_insert_default().add(counts);
                    self.hosts.push(host);
                }
                None => self.in_recap = false,
            }
        } else if let Some(name) = header(&line) {
            name.clone_into(&mut self.task);
        } else if line.starts_with("fatal: [") || line.starts_with("failed: [") {
            let trouble = Trouble { task: self.task.clone(), message: message(&line) };
            self.before = self.trouble.replace(trouble);
        } else if line == "...ignoring" {
            self.trouble = self.before.take();
        }
        self.keep(line);
    }

    /// One line of standard error, without its end.
    pub(super) fn error_line(&mut self, raw: &[u8]) {
        self.keep(plain_log(&String::from_utf8_lossy(raw)));
    }

    /// What was seen, once the output has ended.
    pub(super) fn finish(self, code: Option<i32>, told_to_stop: bool) -> Finished {
        Finished {
            code,
            counts: self.recap,
            hosts: self.hosts,
            trouble: self.trouble,
            tail: self.tail.into(),
            interrupted: told_to_stop && code != Some(0),
        }
    }

    fn keep(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(shorten(line));
    }
}

/// What the module said: the `msg` of the JSON behind the arrow.
fn message(line: &str) -> String {
    let json = line.split_once("=> ").map(|(_, json)| json).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let text = value.get("msg").and_then(serde_json::Value::as_str).unwrap_or_default();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    shorten(plain(first))
}

fn shorten(line: String) -> String {
    if line.chars().count() > TAIL_WIDTH {
        line.chars().take(TAIL_WIDTH).chain(['…']).collect()
    } else {
        line
    }
}

/// The name in `TASK [role : name] ***` or `RUNNING HANDLER [name] ***`.
fn header(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("TASK [").or_else(|| line.strip_prefix("RUNNING HANDLER ["))?;
    rest.rsplit_once(']').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(lines: &[&str]) -> Finished {
        let mut watch = Watch::default();
        lines.iter().for_each(|line| watch.line(line.as_bytes()));
        watch.finish(Some(0), false)
    }

    #[test]
    fn recaps_are_summed_and_only_the_last_one_counts() {
        let seen = watched(&[
            "PLAY RECAP ******",
            "web-1 : ok=90 changed=0 unreachable=0 failed=0 skipped=0",
            "",
            "PLAY RECAP ******",
            "\u{1b}[0;33mweb-1\u{1b}[0m : \u{1b}[0;32mok=2   \u{1b}[0m changed=1 unreachable=0 failed=0 skipped=0 rescued=0 ignored=0",
            "localhost : ok=1 changed=0 unreachable=0 failed=0 skipped=3 rescued=0 ignored=0",
            "",
            "web-1 : ok=90 changed=0 unreachable=0 failed=9 skipped=0",
        ]);
        let counts = seen.counts.unwrap();
        assert_eq!((counts.ok, counts.changed, counts.failed, counts.skipped), (3, 1, 0, 3));
        assert_eq!(seen.hosts, ["web-1", "localhost"]);
        let nobody = watched(&["skipping: no hosts matched", "", "PLAY RECAP *****", ""]);
        assert_eq!((nobody.counts, nobody.hosts), (None, vec![]));
    }

    #[test]
    fn the_trouble_is_the_last_that_nobody_ignored() {
        let seen = watched(&[
            "TASK [base : install [x]] ******",
            r#"fatal: [web-1]: FAILED! => {"changed": false, "msg": "\n no such package\nmore", "rc": 1}"#,
            "TASK [optional] ****",
            "\u{1b}[0;31mfatal: [web-1]: FAILED! => {}\u{1b}[0m",
            "\u{1b}[0;36m...ignoring\u{1b}[0m",
        ]);
        let expected = Trouble { task: "base : install [x]".into(), message: "no such package".into() };
        assert_eq!(seen.trouble, Some(expected));
    }

    #[test]
    fn the_last_lines_are_kept_short_and_harmless() {
        let mut watch = Watch::default();
        for n in 0..40 {
            watch.error_line(format!("line {n} \u{1b}]0;x\u{7}{}", "y".repeat(400)).as_bytes());
        }
        let tail = watch.finish(None, true).tail;
        assert_eq!(tail.len(), TAIL_LINES);
        assert!(tail.iter().all(|l| l.chars().count() <= TAIL_WIDTH + 1 && !l.contains('\u{1b}')));
        assert!(tail.last().unwrap().starts_with("line 39"));
    }
}
