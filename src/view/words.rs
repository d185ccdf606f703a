//! Roles and short words that several screens use.

use jiff::{SignedDuration, Timestamp};

use super::pen::Pen;
use crate::app::{Seen, time};
use crate::config::Role;
use crate::domain::results::ResultStatus;
use crate::domain::secret::FileState;
use crate::domain::{Health, Phase};

/// A wait shows itself after this time, in milliseconds.
pub(crate) const SHOWN_AFTER_MS: i64 = 300;
/// The spinner's pace, in milliseconds.
const SPINNER_MS: i64 = 250;

/// The role of a phase.
pub(crate) fn phase_role(phase: Phase) -> Role {
    match phase {
        Phase::Pending => Role::Pending,
        Phase::Queued => Role::Queued,
        Phase::Running => Role::Running,
        Phase::Stopping => Role::Stopping,
        Phase::Stopped => Role::Stopped,
        Phase::Failed => Role::Failed,
        Phase::Rejected => Role::Rejected,
        Phase::Ready => Role::Ready,
    }
}

/// The role of a task's state.
pub(crate) fn status_role(status: ResultStatus) -> Role {
    match status {
        ResultStatus::Failed => Role::Failed,
        ResultStatus::Unreachable => Role::Unreachable,
        ResultStatus::Rescued => Role::Rescued,
        ResultStatus::Ignored => Role::Ignored,
        ResultStatus::Changed => Role::Changed,
        ResultStatus::Ok => Role::Ok,
        ResultStatus::Skipped => Role::Skipped,
    }
}

/// The role of what changed where of a secret.
pub(crate) fn file_role(state: FileState) -> Role {
    match state {
        FileState::Both => Role::Failed,
        FileState::Unsure | FileState::RemovedThere | FileState::RemovedHere => Role::Warning,
        FileState::ChangedHere | FileState::OnlyHere => Role::Changed,
        FileState::ChangedThere => Role::Pending,
        FileState::OnlyThere => Role::Text,
        FileState::Same | FileState::Nowhere => Role::Muted,
    }
}

/// The role of a back end's state.
pub(crate) fn health_role(health: &Health) -> Role {
    match health {
        Health::Up => Role::Up,
        Health::Down { .. } => Role::Down,
        Health::Unknown | Health::Unused => Role::Unknown,
    }
}

/// How long ago something was; the frame is due again when that reads differently.
pub(crate) fn age(at: Timestamp, now: Timestamp, seen: &mut Seen) -> String {
    seen.wake_at(time::changes_at(at, now));
    time::short(time::seconds_between(at, now))
}

/// How long it is until something; the frame is due again when that reads differently.
pub(crate) fn until(at: Timestamp, now: Timestamp, seen: &mut Seen) -> String {
    let left = time::seconds_between(now, at);
    if left == 0 {
        return "now".to_owned();
    }
    let tick = if left < 60 { 1 } else { left % 60 + 1 };
    seen.wake_at(now.checked_add(SignedDuration::from_secs(tick)).unwrap_or(now));
    format!("in {}", time::short(left))
}

/// The spinner for something that runs since a while; nothing before it shows itself.
pub(crate) fn spinner(
    pen: &Pen<'_>,
    since: Timestamp,
    now: Timestamp,
    seen: &mut Seen,
) -> Option<&'static str> {
    let waited = i64::try_from(now.duration_since(since).as_millis()).unwrap_or(i64::MAX).max(0);
    let at = |ms: i64| since.checked_add(SignedDuration::from_millis(ms)).unwrap_or(now);
    if waited < SHOWN_AFTER_MS {
        seen.wake_at(at(SHOWN_AFTER_MS));
        return None;
    }
    let step = waited / SPINNER_MS;
    seen.wake_at(at((step + 1) * SPINNER_MS));
    Some(pen.symbols().spinner(usize::try_from(step).unwrap_or(0)))
}
