//! What an earlier start of a service left: a playground that was killed leaves its services to their leashes, which takes seconds.
//! A second node must not open the same data meanwhile, nor find its port taken.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::Instant;

use super::ServiceError;
use crate::play::leash::{parent_of, process_ended};

/// How long a killed process may take to vanish.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// A process that writes to the service's log: its leash, the program, or what that started.
struct Holder {
    process: OwnedFd,
    pid: i32,
}

/// Waits until nothing of an earlier start writes to `log` any more; asks it to end, and ends it when it has not within `grace`.
///
/// Who has the log as its output is the service and nobody else, whatever process ids have been given anew meanwhile.
pub(super) async fn settle(service: &'static str, log: &Path, grace: Duration) -> Result<(), ServiceError> {
    let mut left = holders(log);
    if left.is_empty() {
        return Ok(());
    }
    tracing::info!(service, processes = left.len(), "an earlier one still runs: waiting for its end");
    // The leash ends all below it in order; without a leash the program is at the top itself.
    for top in left.iter().filter(|holder| {
        let parent = parent_of(holder.pid);
        !left.iter().any(|other| Some(other.pid) == parent)
    }) {
        pidfd_send_signal(&top.process, Signal::TERM).ok();
    }
    if all_gone(log, &mut left, grace).await {
        return Ok(());
    }
    for holder in &left {
        pidfd_send_signal(&holder.process, Signal::KILL).ok();
    }
    if all_gone(log, &mut left, KILLED_WITHIN).await {
        return Ok(());
    }
    let pids: Vec<_> = left.iter().map(|holder| holder.pid.to_string()).collect();
    Err(ServiceError::NotUp {
        service,
        why: format!(
            "an earlier one does not end (process {}): its data is in use still; end it and try again",
            pids.join(", ")
        ),
    })
}

/// Waits for the end of those that are left, and of those that they started meanwhile.
async fn all_gone(log: &Path, left: &mut Vec<Holder>, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while let Some(holder) = left.pop() {
        if tokio::time::timeout_at(deadline, process_ended(holder.process)).await.is_err() {
            *left = holders(log);
            return left.is_empty();
        }
        if left.is_empty() {
            *left = holders(log);
        }
    }
    true
}

/// The processes whose output goes to this file, under whatever name it has now. Only our own can be looked at.
fn holders(log: &Path) -> Vec<Holder> {
    let Ok(log) = std::fs::metadata(log) else { return Vec::new() };
    let writes = |pid: i32| {
        ["1", "2"].iter().any(|fd| {
            std::fs::metadata(format!("/proc/{pid}/fd/{fd}"))
                .is_ok_and(|file| (file.dev(), file.ino()) == (log.dev(), log.ino()))
        })
    };
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let me = std::process::id().cast_signed();
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != me && writes(*pid))
        .filter_map(|pid| {
            let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
            // Looked at again: now the number is known to be that process's.
            writes(pid).then_some(Holder { process, pid })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, log: &Path) -> tokio::process::Child {
        let out = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", script]).stdout(out).kill_on_drop(true).spawn().unwrap()
    }

    #[tokio::test]
    async fn what_an_earlier_start_left_is_asked_to_end_and_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("x.log");
        settle("x", &log, Duration::from_secs(60)).await.unwrap();
        let mut child =
            start("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 600 & wait; done", &log);
        while !std::fs::read_to_string(&log).unwrap().contains("up") {
            tokio::task::yield_now().await;
        }
        // Its `sleep` hears nothing of the signal and is killed in the end.
        settle("x", &log, Duration::from_millis(500)).await.unwrap();
        assert!(child.wait().await.unwrap().success());
        assert!(std::fs::read_to_string(&log).unwrap().contains("bye"));
        assert!(holders(&log).is_empty());
    }

    #[tokio::test]
    async fn what_hears_nothing_is_killed_and_nobody_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let (log, other) = (folder.path().join("x.log"), folder.path().join("y.log"));
        let mut child = start("trap '' TERM; echo up; while :; do sleep 600; done", &log);
        let mut bystander = start("exec sleep 600", &other);
        while !std::fs::read_to_string(&log).unwrap().contains("up") {
            tokio::task::yield_now().await;
        }
        settle("x", &log, Duration::from_millis(100)).await.unwrap();
        assert!(!child.wait().await.unwrap().success());
        assert!(bystander.try_wait().unwrap().is_none());
    }
}
