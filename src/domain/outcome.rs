//! How a run ended: exit codes, Ansible's recap, and the outcome that is written on the Job.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::text::strip_sgr;

/// Exit codes of `hostwright provision`. The Job's pod failure policy fails the run at once on 10 to 13, which no retry can
/// mend; the others count against the back-off limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ExitCode {
    /// The host is ready.
    Ready = 0,
    /// A task failed on the host.
    FailedTask = 10,
    /// The message or the decision cannot be read, or is not this run's.
    UnreadableMessage = 11,
    /// The policy has no such branch or playbook, or Ansible cannot read it.
    NoPolicy = 12,
    /// The settings or the pod's programs are wrong, or its account lacks a permission.
    Misconfigured = 13,
    /// The host could not be reached.
    UnreachableHost = 14,
    /// No message arrived in time.
    NoMessage = 15,
    /// The policy's repository could not be reached.
    PolicyUnreachable = 16,
    /// A back end (Kubernetes, the queue) failed.
    BackEnd = 17,
    /// Told to stop; the message went back to the queue.
    Interrupted = 18,
    /// Something that should not happen.
    Internal = 19,
    /// The playbook went well, and the host did not join the cluster in time.
    NotJoined = 20,
}

impl ExitCode {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::Ready,
        Self::FailedTask,
        Self::UnreadableMessage,
        Self::NoPolicy,
        Self::Misconfigured,
        Self::UnreachableHost,
        Self::NoMessage,
        Self::PolicyUnreachable,
        Self::BackEnd,
        Self::Interrupted,
        Self::Internal,
        Self::NotJoined,
    ];

    /// The number that the process exits with.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit code of a finished pod, if it is one of ours.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|known| i32::from(known.code()) == code)
    }

    /// True when running the same again may end differently, without anybody changing anything.
    #[must_use]
    pub fn retry_may_mend(self) -> bool {
        self.code() >= 14
    }

    /// A few words for screens and messages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::FailedTask => "a task failed",
            Self::UnreadableMessage => "the message cannot be read",
            Self::NoPolicy => "no such policy",
            Self::Misconfigured => "wrong settings",
            Self::UnreachableHost => "host unreachable",
            Self::NoMessage => "no message arrived",
            Self::PolicyUnreachable => "policy repository unreachable",
            Self::BackEnd => "a back end failed",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal error",
            Self::NotJoined => "not joined",
        }
    }
}

/// Ansible's recap of one host, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Tasks that ended well; Ansible counts changed and ignored ones here too.
    pub ok: u32,
    /// Tasks that changed something.
    pub changed: u32,
    /// Tasks for which the host could not be reached.
    pub unreachable: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Tasks that were skipped.
    pub skipped: u32,
    /// Failures that a rescue block took care of.
    pub rescued: u32,
    /// Failures that the policy ignores.
    pub ignored: u32,
}

/// As Ansible's recap has them.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ok, changed, unreachable, failed, skipped, rescued, ignored } = self;
        write!(f, "ok={ok} changed={changed} unreachable={unreachable} failed={failed}")?;
        write!(f, " skipped={skipped} rescued={rescued} ignored={ignored}")
    }
}

impl Counts {
    /// Adds another host's counts.
    pub fn add(&mut self, other: Self) {
        self.ok += other.ok;
        self.changed += other.changed;
        self.unreachable += other.unreachable;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.rescued += other.rescued;
        self.ignored += other.ignored;
    }
}

/// How a run ended, as `provision` writes it on the Job before it acknowledges the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The exit code.
    pub exit: ExitCode,
    /// When.
    pub at: Timestamp,
    /// One line for people.
    pub text: String,
    /// Ansible's recap, when it got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

/// Reads one line of Ansible's `PLAY RECAP`: the host and its counts. Colours are ignored; unknown counters too.
#[must_use]
pub fn parse_recap(line: &str) -> Option<(String, Counts)> {
    let line = strip_sgr(line);
    let (host, rest) = line.split_once(" : ").or_else(|| line.split_once(": "))?;
    let mut counts = Counts::default();
    let mut seen = 0;
    for pair in rest.split_whitespace() {
        let (name, number) = pair.split_once('=')?;
        let number = number.parse().ok()?;
        let slot = match name {
            "ok" => &mut counts.ok,
            "changed" => &mut counts.changed,
            "unreachable" => &mut counts.unreachable,
            "failed" => &mut counts.failed,
            "skipped" => &mut counts.skipped,
            "rescued" => &mut counts.rescued,
            "ignored" => &mut counts.ignored,
            _ => continue,
        };
        *slot = number;
        seen += 1;
    }
    let host = host.trim();
    (seen >= 4 && !host.is_empty() && !host.contains(char::is_whitespace)).then(|| (host.to_owned(), counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recap_line_is_read_with_and_without_colours() {
        let plain = "web-1.example.org : ok=9    changed=3    unreachable=0    failed=1    skipped=2    rescued=0    ignored=1   ";
        let (host, counts) = parse_recap(plain).unwrap();
        assert_eq!(host, "web-1.example.org");
        assert_eq!(
            (counts.ok, counts.changed, counts.failed, counts.skipped, counts.ignored),
            (9, 3, 1, 2, 1)
        );
        let coloured = "\u{1b}[0;31mweb-1\u{1b}[0m                      : \u{1b}[0;32mok=9   \u{1b}[0m \u{1b}[0;33mchanged=3   \u{1b}[0m unreachable=0    \u{1b}[0;31mfailed=1   \u{1b}[0m skipped=2    rescued=0    ignored=1   ";
        assert_eq!(parse_recap(coloured).unwrap().0, "web-1");
    }

    #[test]
    fn other_lines_are_not_taken_for_one() {
        for line in
            ["PLAY RECAP *****", "ok: [web-1]", "fatal: [web]: FAILED! => changed=false", "msg: ok=1", ""]
        {
            assert_eq!(parse_recap(line), None, "{line:?}");
        }
    }

    #[test]
    fn what_no_retry_can_mend_is_10_to_13() {
        for code in ExitCode::ALL.into_iter().filter(|c| *c != ExitCode::Ready) {
            assert_eq!(code.retry_may_mend(), !(10..=13).contains(&code.code()), "{code:?}");
            assert_eq!(ExitCode::from_code(i32::from(code.code())), Some(code));
        }
    }
}
