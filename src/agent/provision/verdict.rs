//! What a call of `ansible-playbook` comes to.
//!
//! Ansible's exit codes are ambiguous (4 is an unreachable host and also a YAML error, 2 a failed task and also wrong usage), so
//! the recap's counts decide, and the exit code only where there is none, or where it disagrees.

use super::End;
use crate::backend::ansible::{Finished, Trouble};
use crate::domain::{Announcement, Counts, ExitCode, Parameters};

/// Ansible's exit code for an error that it did not expect.
const UNEXPECTED: i32 = 250;
/// How many of the last lines an error's text has.
const LINES: usize = 4;

/// How the attempt ended.
pub(super) fn judge(finished: &Finished, announcement: &Announcement, parameters: &Parameters) -> End {
    let host = announcement.host.as_str();
    let (exit, text) = match (finished.counts, finished.code) {
        _ if finished.interrupted => {
            (ExitCode::Interrupted, "told to stop in the middle of the playbook".to_owned())
        }
        (Some(counts), _) if counts.failed > 0 => {
            (ExitCode::FailedTask, with_trouble("task", finished.trouble.as_ref(), counts))
        }
        (Some(counts), _) if counts.unreachable > 0 => {
            let mut text = with_trouble("unreachable at task", finished.trouble.as_ref(), counts);
            if announcement.keys.is_empty() {
                text.push_str(&format!("; {host} announced no SSH keys, so SSH refuses it"));
            }
            (ExitCode::UnreachableHost, text)
        }
        (Some(counts), Some(0)) if finished.hosts.iter().any(|name| name == host) => {
            (ExitCode::Ready, summary(counts))
        }
        (_, Some(0)) => {
            let groups = match parameters.groups.as_slice() {
                [] => "it is in no group".to_owned(),
                groups => format!("it is in {}", groups.join(", ")),
            };
            (ExitCode::NoPolicy, format!("no play of {} applies to {host}: {groups}", parameters.playbook))
        }
        (None, Some(code)) if code != UNEXPECTED => {
            (ExitCode::NoPolicy, format!("Ansible could not read the policy: {}", last_words(finished)))
        }
        (_, Some(code)) => (
            ExitCode::Internal,
            format!("ansible-playbook ended with exit code {code}: {}", last_words(finished)),
        ),
        (_, None) => (
            ExitCode::Internal,
            format!("a signal ended ansible-playbook (out of memory?): {}", last_words(finished)),
        ),
    };
    End { exit, text, counts: finished.counts }
}

fn with_trouble(what: &str, trouble: Option<&Trouble>, counts: Counts) -> String {
    let trouble = trouble.cloned().unwrap_or_default();
    let task = if trouble.task.is_empty() { "without a name" } else { &trouble.task };
    let message = if trouble.message.is_empty() { String::new() } else { format!(": {}", trouble.message) };
    format!("{what} {task}{message} ({})", summary(counts))
}

fn summary(counts: Counts) -> String {
    let Counts { ok, changed, unreachable, failed, skipped, rescued, ignored } = counts;
    let rest = [
        (unreachable, "unreachable"),
        (failed, "failed"),
        (skipped, "skipped"),
        (rescued, "rescued"),
        (ignored, "ignored"),
    ];
    rest.into_iter()
        .filter(|(count, _)| *count > 0)
        .fold(format!("{ok} ok, {changed} changed"), |text, (count, word)| format!("{text}, {count} {word}"))
}

fn last_words(finished: &Finished) -> String {
    let from = finished.tail.len().saturating_sub(LINES);
    let lines = finished.tail.get(from..).unwrap_or_default();
    if lines.is_empty() { "it said nothing".to_owned() } else { lines.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RawAnnouncement;

    fn finished(code: Option<i32>, counts: Option<(u32, u32, u32)>) -> Finished {
        let counts =
            counts.map(|(ok, unreachable, failed)| Counts { ok, unreachable, failed, ..Counts::default() });
        Finished {
            code,
            counts,
            hosts: counts.map(|_| "web-1".to_owned()).into_iter().collect(),
            trouble: Some(Trouble { task: "base : x".into(), message: "no".into() }),
            tail: vec!["one".into(), "two".into()],
            interrupted: false,
        }
    }

    fn judged(finished: &Finished) -> End {
        let raw = RawAnnouncement { hostname: "web-1".into(), ..RawAnnouncement::default() };
        judge(finished, &raw.check().unwrap(), &Parameters::default())
    }

    #[test]
    fn the_counts_decide() {
        for (code, counts, exit) in [
            (Some(0), Some((3, 0, 0)), ExitCode::Ready),
            (Some(2), Some((3, 0, 1)), ExitCode::FailedTask),
            (Some(4), Some((0, 1, 0)), ExitCode::UnreachableHost),
            // `ignore_unreachable`, say: Ansible is content, the host was not reached all the same.
            (Some(0), Some((3, 1, 0)), ExitCode::UnreachableHost),
            (Some(4), None, ExitCode::NoPolicy),
            (Some(0), None, ExitCode::NoPolicy),
            (Some(1), Some((3, 0, 0)), ExitCode::Internal),
            (Some(250), None, ExitCode::Internal),
            (None, None, ExitCode::Internal),
        ] {
            assert_eq!(judged(&finished(code, counts)).exit, exit, "{code:?} {counts:?}");
        }
        let stopped = Finished { interrupted: true, ..finished(None, None) };
        assert_eq!(judged(&stopped).exit, ExitCode::Interrupted);
        let elsewhere = Finished { hosts: vec!["localhost".into()], ..finished(Some(0), Some((1, 0, 0))) };
        assert_eq!(judged(&elsewhere).exit, ExitCode::NoPolicy);
    }

    #[test]
    fn texts_say_what_happened() {
        let text = |code, counts| judged(&finished(code, counts)).text;
        assert_eq!(text(Some(0), Some((3, 0, 0))), "3 ok, 0 changed");
        assert_eq!(text(Some(2), Some((3, 0, 1))), "task base : x: no (3 ok, 0 changed, 1 failed)");
        assert!(text(Some(4), Some((0, 1, 0))).ends_with("web-1 announced no SSH keys, so SSH refuses it"));
        assert_eq!(text(Some(4), None), "Ansible could not read the policy: one two");
        assert!(text(Some(0), None).contains("applies to web-1: it is in no group"));
    }
}
