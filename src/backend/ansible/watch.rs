//! What the output of `ansible-playbook` tells: its recap, the task that failed, the last lines.
//!
//! Only standard output counts for the first two. Ansible wraps warnings on standard error, and a host's text in one could pass
//! for a recap.

use std::collections::VecDeque;

use crate::domain::text::plain;
use crate::domain::{Counts, parse_recap};

/// How many of the last lines are kept for an error message.
const TAIL_LINES: usize = 12;
/// The most characters that are kept of one of them.
const TAIL_WIDTH: usize = 300;

/// Reads the output line by line.
#[derive(Debug, Default)]
pub(super) struct Watch {
    in_recap: bool,
    recap: Option<Counts>,
    task: String,
    /// Tasks that failed and that nothing is known to have taken care of, the last one last.
    failed: Option<String>,
    before: Option<String>,
    tail: VecDeque<String>,
}

impl Watch {
    /// One line of standard output, without its end.
    pub(super) fn line(&mut self, raw: &[u8]) {
        let text = String::from_utf8_lossy(raw);
        let line = plain(&text);
        if line.starts_with("PLAY RECAP ") {
            self.in_recap = true;
            self.recap = Some(Counts::default());
        } else if self.in_recap {
            match parse_recap(&line) {
                Some((_, counts)) => {
                    if let Some(sum) = &mut self.recap {
                        sum.add(counts);
                    }
                }
                None => self.in_recap = false,
            }
        } else if let Some(name) = header(&line) {
            name.clone_into(&mut self.task);
        } else if line.starts_with("fatal: [") || line.starts_with("failed: [") {
            self.before = self.failed.replace(self.task.clone());
        } else if line == "...ignoring" {
            self.failed = self.before.take();
        }
        self.keep(line);
    }

    /// One line of standard error, without its end.
    pub(super) fn error_line(&mut self, raw: &[u8]) {
        self.keep(plain(&String::from_utf8_lossy(raw)));
    }

    /// The recap's sum, if there was one.
    pub(super) fn recap(&self) -> Option<Counts> {
        self.recap
    }

    /// The name of the last task that failed without being ignored.
    pub(super) fn failed_task(self) -> (Option<String>, Vec<String>) {
        (self.failed.filter(|task| !task.is_empty()), self.tail.into())
    }

    fn keep(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(if line.chars().count() > TAIL_WIDTH {
            line.chars().take(TAIL_WIDTH).chain(['…']).collect()
        } else {
            line
        });
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

    fn watched(lines: &[&str]) -> Watch {
        let mut watch = Watch::default();
        lines.iter().for_each(|line| watch.line(line.as_bytes()));
        watch
    }

    #[test]
    fn recaps_are_summed_and_only_behind_their_heading() {
        let watch = watched(&[
            "web-1 : ok=90 changed=0 unreachable=0 failed=9 skipped=0",
            "PLAY RECAP ******",
            "\u{1b}[0;33mweb-1\u{1b}[0m : \u{1b}[0;32mok=2   \u{1b}[0m changed=1 unreachable=0 failed=0 skipped=0 rescued=0 ignored=0",
            "localhost : ok=1 changed=0 unreachable=0 failed=0 skipped=3 rescued=0 ignored=0",
            "",
            "web-1 : ok=90 changed=0 unreachable=0 failed=9 skipped=0",
        ]);
        let counts = watch.recap().unwrap();
        assert_eq!((counts.ok, counts.changed, counts.failed, counts.skipped), (3, 1, 0, 3));
        assert_eq!(watched(&["skipping: no hosts matched"]).recap(), None);
    }

    #[test]
    fn the_failed_task_is_the_one_that_nobody_ignored() {
        let watch = watched(&[
            "TASK [base : install [x]] ******",
            "fatal: [web-1]: FAILED! => {}",
            "TASK [optional] ****",
            "\u{1b}[0;31mfatal: [web-1]: FAILED! => {}\u{1b}[0m",
            "\u{1b}[0;36m...ignoring\u{1b}[0m",
        ]);
        assert_eq!(watch.failed_task().0.as_deref(), Some("base : install [x]"));
    }

    #[test]
    fn the_last_lines_are_kept_short_and_harmless() {
        let mut watch = Watch::default();
        for n in 0..40 {
            watch.error_line(format!("line {n} \u{1b}]0;x\u{7}{}", "y".repeat(400)).as_bytes());
        }
        let (_, tail) = watch.failed_task();
        assert_eq!(tail.len(), TAIL_LINES);
        assert!(tail.iter().all(|l| l.chars().count() <= TAIL_WIDTH + 1 && !l.contains('\u{1b}')));
        assert!(tail.last().unwrap().starts_with("line 39"));
    }
}
