//! A limit on runs at a time: which of the approved runs that wait have a place now.

use super::{Kind, Run};

/// The runs that may start now, who waits longest first: as many as there are free places, all of them without a limit (0). Checks
/// and retries take places like all runs. While approvals are held, only checks start.
#[must_use]
pub fn next<'r>(runs: impl IntoIterator<Item = &'r Run>, limit: usize, held: bool) -> Vec<&'r Run> {
    let mut taken = 0;
    let mut waiting = Vec::new();
    for run in runs {
        taken += usize::from(run.has_place());
        if let Some(wait) =
            run.waits.as_ref().filter(|_| !(run.is_over() || held && run.kind == Kind::Provision))
        {
            waiting.push((wait.since, run.created, &run.name, run));
        }
    }
    waiting.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
    let free = if limit == 0 { waiting.len() } else { limit.saturating_sub(taken) };
    waiting.into_iter().take(free).map(|(.., run)| run).collect()
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::domain::{Phase, RawAnnouncement, Wait};

    fn run(name: &str, phase: Phase) -> Run {
        let raw = RawAnnouncement { hostname: format!("{name}.org"), ..RawAnnouncement::default() };
        let annotations = [
            (crate::domain::record::HOST, format!("{name}.org")),
            (crate::domain::record::ANNOUNCEMENT, raw.check().unwrap().to_json()),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value)).into();
        let labels = std::collections::BTreeMap::new();
        let record = crate::domain::record::JobRecord {
            uid: name,
            name,
            resource_version: "1",
            created: Timestamp::UNIX_EPOCH,
            labels: &labels,
            annotations: &annotations,
            finalizers: &[],
            state: crate::domain::JobState::default(),
            reason: String::new(),
            started: None,
            finished: None,
            deleting: false,
            failed_pods: 0,
        };
        Run { phase, ..record.read().unwrap().run }
    }

    fn waiting(name: &str, second: i64) -> Run {
        let since = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(second);
        Run { waits: Some(Wait { since, of: 2 }), ..run(name, Phase::Queued) }
    }

    fn names(runs: &[Run], limit: usize, held: bool) -> Vec<&str> {
        next(runs, limit, held).into_iter().map(|run| run.name.as_str()).collect()
    }

    #[test]
    fn who_waits_longest_comes_first_and_only_into_free_places() {
        let mut runs = vec![waiting("c", 3), waiting("a", 1), waiting("d", 3), waiting("b", 2)];
        assert_eq!(names(&runs, 2, false), ["a", "b"]);
        assert_eq!(names(&runs, 3, false), ["a", "b", "c"]);
        assert_eq!(names(&runs, 0, false), ["a", "b", "c", "d"], "without a limit nobody waits");
        runs.push(run("x", Phase::Running));
        assert_eq!(names(&runs, 2, false), ["a"]);
        runs.extend([run("y", Phase::Queued), run("z", Phase::Stopping)]);
        assert_eq!(names(&runs, 2, false), [""; 0], "more than may go on");
        assert_eq!(names(&runs, 4, false), ["a"]);
    }

    #[test]
    fn what_is_over_or_pending_takes_no_place() {
        let mut runs: Vec<Run> =
            [Phase::Pending, Phase::Ready, Phase::Failed, Phase::Stopped, Phase::Rejected]
                .map(|p| run("x", p))
                .into();
        runs.push(Run { deleting: true, ..run("y", Phase::Running) });
        runs.extend([Run { deleting: true, ..waiting("gone", 0) }, waiting("a", 1), waiting("b", 2)]);
        assert_eq!(names(&runs, 1, false), ["a"]);
    }

    #[test]
    fn while_approvals_are_held_only_checks_start() {
        let check = Run { kind: Kind::Check, ..waiting("check", 9) };
        assert_eq!(names(&[waiting("a", 1), check], 5, true), ["check"]);
    }
}
