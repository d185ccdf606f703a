//! A host comes online: its announcement becomes a run, or is noted on the one it has.

use jiff::{SignedDuration, Timestamp};

use super::{OpError, until_unchanged};
use crate::backend::kube::{JobTemplate, Kube, NewRun};
use crate::config::Permit;
use crate::domain::{Announcement, Kind, Phase, Run, RunDetails};

/// How often a decided run is written on only to say that its host called: others' changes conflict with each write.
const SEEN_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// What came of an announcement.
#[derive(Debug, Clone)]
pub struct Announced {
    /// The host's run.
    pub run: Run,
    /// Whether this announcement created it.
    pub created: bool,
}

/// Records an announcement. `queue` says whether the environment has a broker.
///
/// Of many at once for one host, one creates the run and the others find it.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn announce(
    kube: &Kube,
    permit: &Permit,
    template: &JobTemplate,
    announcement: &Announcement,
    queue: bool,
) -> Result<Announced, OpError> {
    let host = &announcement.host;
    until_unchanged(&format!("record the announcement of {host}"), || async {
        let now = Timestamp::now();
        let runs = kube.run_details(Some(host)).await?;
        let newest = runs.into_iter().filter(|d| d.run.kind == Kind::Provision).max_by_key(|d| d.run.number);
        match &newest {
            Some(details) if !details.run.is_over() => note(kube, permit, details, announcement, now).await,
            Some(details) if announcement.boot.is_some() && details.run.boot == announcement.boot => {
                Ok(Announced { run: details.run.clone(), created: false })
            }
            _ => {
                let number = newest.map_or(0, |d| d.run.number) + 1;
                let new = NewRun {
                    kind: Kind::Provision,
                    number,
                    announcement,
                    seen: now,
                    decided: None,
                    waits: None,
                    answers: None,
                    queue,
                };
                let created = kube.create_run(permit, template, &new).await?;
                Ok(Announced { run: created.run, created: true })
            }
        }
    })
    .await
}

/// Notes a further call of a host whose run goes on. While it is pending the announcement is replaced; later only the time, and
/// the boot: a host that its own run reboots has been answered when it calls again.
async fn note(
    kube: &Kube,
    permit: &Permit,
    details: &RunDetails,
    announcement: &Announcement,
    now: Timestamp,
) -> Result<Announced, OpError> {
    let run = &details.run;
    let pending = run.phase == Phase::Pending;
    let rebooted = announcement.boot.is_some() && announcement.boot != run.boot;
    let run = if pending && details.announcement != *announcement {
        kube.replace_announcement(permit, run, announcement, now).await?.run
    } else if pending || rebooted || now.duration_since(run.seen) >= SEEN_EVERY {
        kube.set_seen(permit, run, now, announcement.boot.as_deref()).await?.run
    } else {
        run.clone()
    };
    Ok(Announced { run, created: false })
}
