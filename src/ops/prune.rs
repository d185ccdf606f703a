//! Old runs: each host keeps its newest, and some before them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::OpError;
use crate::backend::kube::{About, Kube, KubeErrorKind};
use crate::config::Permit;
use crate::domain::activity::Deed;
use crate::domain::{HostName, Kind, Run};

/// Deletes a run and tells why; one that is gone already is no error. What the server does: operators may not.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn delete(kube: &Kube, permit: &Permit, run: &Run, note: &str) -> Result<(), OpError> {
    match kube.delete_run(permit, run).await {
        Ok(()) => {
            Box::pin(kube.report(permit, &About::from(run), Deed::Prune, note, "server")).await;
            Ok(())
        }
        Err(error) if error.kind == KubeErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How many runs of each kind a host keeps, at least one.
    pub number: usize,
    /// How long the others are kept after their end; zero: as long as their number allows.
    pub time: Duration,
}

/// The runs that may be deleted at `now`: a host's newest of each kind stays for ever, the others as long as both limits allow. A run
/// that goes on, or whose mark waits, is never among them.
#[must_use]
pub fn surplus<'a>(runs: impl IntoIterator<Item = &'a Run>, keep: Keep, now: Timestamp) -> Vec<&'a Run> {
    let too_old = |run: &Run| {
        let since = u64::try_from(now.duration_since(ended(run)).as_secs()).unwrap_or(0);
        !keep.time.is_zero() && since > keep.time.as_secs()
    };
    let mut by_host: BTreeMap<(&HostName, Kind), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        by_host.entry((&run.host, run.kind)).or_default().push(run);
    }
    let mut surplus = Vec::new();
    for runs in by_host.values_mut() {
        runs.sort_by_key(|r| std::cmp::Reverse(r.number));
        let waiting =
            |r: &Run| [&r.retry, &r.check, &r.forget].into_iter().flatten().any(crate::domain::Mark::waits);
        let number = keep.number.max(1);
        let beyond = runs.iter().enumerate().skip(1).filter(|(place, run)| *place >= number || too_old(run));
        let beyond = beyond.map(|(_, run)| *run);
        surplus.extend(beyond.filter(|r| r.is_over() && !r.deleting && !waiting(r)));
    }
    surplus
}

/// When a run ended, as nearly as it says: one that never began ended with its decision.
fn ended(run: &Run) -> Timestamp {
    let decided = run.decision.as_ref().map(|decision| decision.at);
    run.finished.or(decided).unwrap_or(run.created)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::{Mark, Phase};

    pub(in crate::ops) fn run(host: &str, kind: Kind, number: u32, phase: Phase) -> Run {
        Run {
            uid: format!("{host} {} {number}", kind.as_str()),
            name: format!("{}-{host}-{number}", kind.as_str()),
            resource_version: "1".to_owned(),
            host: host.parse().unwrap(),
            kind,
            number,
            phase,
            reason: String::new(),
            created: Timestamp::UNIX_EPOCH,
            seen: Timestamp::UNIX_EPOCH,
            started: None,
            finished: None,
            digest: String::new(),
            boot: None,
            address: None,
            branch: None,
            groups: vec![],
            key: None,
            decision: None,
            waits: None,
            delivered: None,
            outcome: None,
            last_attempt: None,
            stop: None,
            retry: None,
            check: None,
            forget: None,
            playbooks: vec![],
            answers: None,
            queue: false,
            deleting: false,
            failed_pods: 0,
        }
    }

    fn of_number(runs: &[Run], number: usize) -> Vec<&Run> {
        surplus(runs, Keep { number, time: Duration::ZERO }, Timestamp::MAX)
    }

    fn numbers(runs: &[Run], keep: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = of_number(runs, keep).into_iter().map(|run| run.number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn each_host_keeps_its_newest_of_each_kind() {
        let mut runs = Vec::new();
        for number in [3, 1, 12, 2] {
            runs.push(run("a.org", Kind::Provision, number, Phase::Ready));
            runs.push(run("b.org", Kind::Provision, number, Phase::Failed));
        }
        runs.push(run("a.org", Kind::Check, 1, Phase::Ready));
        runs.push(run("c.org", Kind::Provision, 1, Phase::Rejected));
        let mut names: Vec<&str> = of_number(&runs, 2).into_iter().map(|run| run.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["provision-a.org-1", "provision-a.org-2", "provision-b.org-1", "provision-b.org-2"]
        );
        assert_eq!(of_number(&runs, 4), Vec::<&Run>::new());
    }

    #[test]
    fn what_ended_long_ago_goes_before_there_are_too_many() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let of = |number, phase, finished: Option<i64>| Run {
            finished: finished.map(at),
            created: at(1_000),
            ..run("a.org", Kind::Provision, number, phase)
        };
        let runs = [
            of(5, Phase::Ready, Some(1_100)),
            of(4, Phase::Ready, Some(99_000)),
            of(3, Phase::Failed, Some(1_100)),
            of(2, Phase::Running, None),
            of(1, Phase::Rejected, None),
        ];
        let keep = Keep { number: 5, time: Duration::from_secs(3_600) };
        let gone = surplus(&runs, keep, at(100_000)).into_iter().map(|run| run.number).collect::<Vec<_>>();
        assert_eq!(gone, [3, 1], "the newest stays however old it is");
    }

    #[test]
    fn the_newest_stays_whatever_the_settings_say() {
        let runs = [1, 2].map(|number| run("a.org", Kind::Provision, number, Phase::Ready));
        assert_eq!(numbers(&runs, 0), [1]);
    }

    #[test]
    fn what_goes_on_or_is_still_to_be_answered_stays() {
        let mark = |answered: Option<&str>| {
            let answered = answered.map(str::to_owned);
            Some(Mark { by: "ann".to_owned(), at: Timestamp::UNIX_EPOCH, digest: String::new(), answered })
        };
        let of = |number, phase| run("a.org", Kind::Provision, number, phase);
        let runs = [
            of(9, Phase::Ready),
            Run { retry: mark(None), ..of(8, Phase::Failed) },
            Run { check: mark(None), ..of(7, Phase::Rejected) },
            Run { retry: mark(Some("x")), ..of(6, Phase::Failed) },
            of(5, Phase::Running),
            of(4, Phase::Pending),
            of(3, Phase::Stopping),
            Run { deleting: true, ..of(2, Phase::Ready) },
            of(1, Phase::Stopped),
        ];
        assert_eq!(numbers(&runs, 1), [1, 6]);
    }
}
