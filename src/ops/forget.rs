//! Forgetting a host: an operator leaves a mark on its newest run, and the server deletes all its runs. Operators may not delete
//! Jobs themselves.

use jiff::Timestamp;

use super::activity::failed;
use super::{OpError, prune, until_unchanged};
use crate::backend::kube::Kube;
use crate::config::Permit;
use crate::domain::activity::Deed;
use crate::domain::{HostName, Kind, Mark, Phase, Run, record};

const DEED: &str = "forget";

/// Asks for all runs of a host to be deleted; returns the marked one.
///
/// # Errors
/// When there is no such host, one of its runs goes on or is asked for, somebody asked before, or the API server refuses.
pub async fn forget(kube: &Kube, permit: &Permit, host: &HostName, by: &str) -> Result<Run, OpError> {
    let marked = until_unchanged(&format!("forget {host}"), || async {
        let runs: Vec<Run> = kube.runs(Some(host)).await?.into_iter().filter(|run| !run.deleting).collect();
        let newest = newest(&runs).ok_or_else(|| OpError::NotFound(format!("host {host}")))?;
        allowed(&runs)?;
        let mark = Mark { by: by.to_owned(), at: Timestamp::now(), digest: String::new(), answered: None };
        Ok(kube.mark_run(permit, newest, record::FORGET, &mark).await?.run)
    })
    .await
    .inspect_err(|error| failed(kube, Deed::Forget, &format!("host {host}"), by, error))?;
    let note = format!("{by} wants {host} forgotten");
    kube.tell(permit, &marked, Deed::Forget.reason(), &note, by, Timestamp::now()).await;
    Ok(marked)
}

/// The run that stands for the host: its newest that provisions it, else its newest.
fn newest(runs: &[Run]) -> Option<&Run> {
    runs.iter().max_by_key(|run| (run.kind == Kind::Provision, run.number))
}

/// Whether nothing goes on with these runs of one host, and nothing was asked for.
fn allowed(runs: &[Run]) -> Result<(), OpError> {
    for run in runs {
        if let Some(first) = in_the_way(run) {
            let (host, name, phase) = (run.host.clone(), run.name.clone(), run.phase);
            return Err(OpError::Busy { deed: DEED, host, run: name, phase, first });
        }
        let marks = [("retry", &run.retry), ("check", &run.check), (DEED, &run.forget)];
        for (deed, mark) in marks {
            if let Some(Mark { by, at, answered: None, .. }) = mark {
                return Err(OpError::Asked { deed, run: run.name.clone(), by: by.clone(), at: *at });
            }
        }
    }
    Ok(())
}

/// What has to happen to a run before its host can be forgotten.
fn in_the_way(run: &Run) -> Option<&'static str> {
    match run.phase {
        _ if run.is_over() => None,
        Phase::Pending => Some("reject it first"),
        Phase::Queued | Phase::Running => Some("stop it first, or wait for its end"),
        _ => Some("wait for its end"),
    }
}

/// Whether the server has still to forget the host of this run.
#[must_use]
pub fn asked(run: &Run) -> bool {
    !run.deleting && run.forget.as_ref().is_some_and(Mark::waits)
}

/// Deletes the runs of a host that was marked; what the server does on every change. The marked run goes last, so that one
/// who is killed on the way begins again. While a run that was there at the time of the mark goes on nothing is deleted.
///
/// # Errors
/// When the API server does not answer or refuses; the mark stays, and the next pass tries again.
pub async fn carry_out(kube: &Kube, permit: &Permit, marked: &Run) -> Result<(), OpError> {
    let runs = kube.runs(Some(&marked.host)).await?;
    let Some(mark) =
        runs.iter().find(|run| run.uid == marked.uid && asked(run)).and_then(|r| r.forget.as_ref())
    else {
        return Ok(());
    };
    let note = format!("{} is forgotten, as {} asked", marked.host, mark.by);
    for run in forgotten(marked, &runs).unwrap_or_default() {
        prune::delete(kube, permit, run, &note).await?;
    }
    Ok(())
}

/// The runs that go with the marked one, itself last; none while one of them goes on. What the host has called for since the mark
/// stays: it is a new host's.
fn forgotten<'a>(marked: &Run, runs: &'a [Run]) -> Option<Vec<&'a Run>> {
    let since =
        runs.iter().filter(|r| r.kind == Kind::Provision && !before(marked, r)).map(|r| r.created).min();
    let old = |run: &&Run| match (run.kind, marked.kind) {
        (Kind::Check, Kind::Provision) => since.is_none_or(|since| run.created < since),
        _ => before(marked, run),
    };
    let mut old: Vec<&Run> = runs.iter().filter(old).filter(|run| !run.deleting).collect();
    old.sort_by_key(|run| run.uid == marked.uid);
    old.iter().all(|run| run.is_over()).then_some(old)
}

/// Whether a run is the marked one or came before it.
fn before(marked: &Run, run: &Run) -> bool {
    run.kind == marked.kind && run.number <= marked.number
}

#[cfg(test)]
mod tests {
    use super::super::prune::tests::run;
    use super::*;

    const HOST: &str = "a.org";

    fn at(second: i64, run: Run) -> Run {
        Run { created: Timestamp::from_second(second).unwrap(), ..run }
    }

    fn names(marked: &Run, runs: &[Run]) -> Option<Vec<String>> {
        Some(forgotten(marked, runs)?.into_iter().map(|run| run.name.clone()).collect())
    }

    #[test]
    fn the_marked_run_goes_last_and_what_came_after_it_stays() {
        let marked = at(20, run(HOST, Kind::Provision, 2, Phase::Failed));
        let mut runs = vec![
            marked.clone(),
            at(10, run(HOST, Kind::Provision, 1, Phase::Ready)),
            at(15, run(HOST, Kind::Check, 1, Phase::Ready)),
            Run { deleting: true, ..at(5, run(HOST, Kind::Check, 0, Phase::Ready)) },
        ];
        let all = ["provision-a.org-1", "check-a.org-1", "provision-a.org-2"];
        assert_eq!(names(&marked, &runs).unwrap(), all);
        runs.push(at(30, run(HOST, Kind::Provision, 3, Phase::Pending)));
        runs.push(at(31, run(HOST, Kind::Check, 2, Phase::Running)));
        assert_eq!(names(&marked, &runs).unwrap(), all, "those are a new host's");
        runs.push(at(16, run(HOST, Kind::Check, 3, Phase::Running)));
        assert_eq!(names(&marked, &runs), None, "an old one goes on");
    }

    #[test]
    fn what_goes_on_or_is_asked_for_is_in_the_way() {
        let said = |run: Run| allowed(&[run]).map_err(|error| error.to_string());
        for phase in [Phase::Ready, Phase::Failed, Phase::Stopped, Phase::Rejected] {
            assert_eq!(said(run(HOST, Kind::Provision, 1, phase)), Ok(()));
        }
        for (phase, what) in [
            (Phase::Pending, "reject it first"),
            (Phase::Queued, "stop it first"),
            (Phase::Running, "stop it first"),
            (Phase::Stopping, "wait for its end"),
        ] {
            let error = said(run(HOST, Kind::Provision, 1, phase)).unwrap_err();
            assert!(error.contains(what) && error.contains("provision-a.org-1"), "{error}");
        }
        let waits =
            Mark { by: "ann".into(), at: Timestamp::UNIX_EPOCH, digest: String::new(), answered: None };
        let over = || run(HOST, Kind::Provision, 1, Phase::Failed);
        for run in [
            Run { retry: Some(waits.clone()), ..over() },
            Run { check: Some(waits.clone()), ..over() },
            Run { forget: Some(waits), ..over() },
        ] {
            assert!(said(run).unwrap_err().contains("ann asked for that"));
        }
    }
}
