//! Whether an action can be done now, and if not, why: the one place that footer, palette, help and handlers ask.

use super::dialog::Verb;
use super::screens::Screen;
use super::state::State;
use super::{act_list, approvals, rights, secrets};
use crate::config::{Action, Scope};
use crate::domain::{Kind, Phase, Run};

/// The deed that an action is, if it is one on runs.
#[must_use]
pub fn verb(action: Action) -> Option<Verb> {
    match action {
        Action::Approve => Some(Verb::Approve),
        Action::Check => Some(Verb::Check),
        Action::Reject => Some(Verb::Reject),
        Action::Retry => Some(Verb::Retry),
        Action::Stop => Some(Verb::Stop),
        Action::Forget => Some(Verb::Forget),
        _ => None,
    }
}

/// The run that a deed is done on when the operator points at this one: what is decided of a check is its host's own run.
#[must_use]
pub fn addressed<'s>(state: &'s State, verb: Verb, run: &'s Run) -> &'s Run {
    let decides = matches!(verb, Verb::Approve | Verb::Reject);
    let head = state.store.head(run.host.as_str());
    head.filter(|h| decides && run.kind == Kind::Check && h.kind == Kind::Provision).unwrap_or(run)
}

/// Why a deed cannot be done on a run now; nothing when it can.
#[must_use]
pub fn refusal(state: &State, verb: Verb, run: &Run) -> Option<String> {
    off(state, verb.action())
        .or_else(|| approvals::held(state, verb, Some(run)))
        .or_else(|| row_refusal(state, verb, run))
}

/// Why an action is switched off whatever the row is: nothing may be changed, or the cluster would refuse it.
#[must_use]
pub fn off(state: &State, action: Action) -> Option<String> {
    read_only(state, action).or_else(|| rights::forbidden(state, action))
}

/// Why a run is not one for this deed now, whether anything may be changed or not.
#[must_use]
pub fn row_refusal(state: &State, verb: Verb, run: &Run) -> Option<String> {
    let run = addressed(state, verb, run);
    if let Some(flight) = state.flight_of(&run.uid) {
        return Some(format!("{} is under way", flight.effect.doing()));
    }
    let (host, phase) = (&run.host, run.phase);
    if run.deleting {
        return Some(format!("{} is being deleted", run.name));
    }
    let waits = |mark: &Option<crate::domain::Mark>| mark.as_ref().is_some_and(|m| m.answered.is_none());
    if waits(&run.forget) {
        return Some(format!("{host} is being forgotten"));
    }
    match verb {
        // What waits for its place has not started.
        Verb::Reject if run.waits.is_some() => None,
        Verb::Approve | Verb::Reject if phase != Phase::Pending => {
            let by = run.decision.as_ref().map(|d| format!(" ({} by {})", d.verdict.as_str(), d.by));
            Some(format!(
                "{host} is {phase}{}: only a pending host can be decided on",
                by.unwrap_or_default()
            ))
        }
        Verb::Check if run.kind == Kind::Check => Some("this run is a check already".to_owned()),
        Verb::Check if waits(&run.check) => Some(format!("a check of {host} was asked for already")),
        Verb::Check if !run.is_over() && phase != Phase::Pending => {
            Some(format!("{host} is {phase}: check it before or after"))
        }
        Verb::Retry if waits(&run.retry) => Some(format!("another run of {host} was asked for already")),
        Verb::Retry if phase == Phase::Pending => Some(format!("{host} is pending: approve it")),
        Verb::Retry if !run.is_over() => {
            Some(format!("{host} is {phase}: it can be run again when that is over"))
        }
        Verb::Forget if phase == Phase::Pending => Some(format!("{host} is pending: reject it first")),
        Verb::Forget if !run.is_over() => {
            Some(format!("{host} is {phase}: stop it first, or wait for its end"))
        }
        Verb::Forget if waits(&run.retry) => Some(format!("another run of {host} was asked for")),
        Verb::Forget if waits(&run.check) => Some(format!("a check of {host} was asked for")),
        Verb::Stop if !matches!(phase, Phase::Queued | Phase::Running) => {
            Some(format!("{host} is {phase}: only what is queued or running can be stopped"))
        }
        _ => None,
    }
}

/// Why nothing may be changed, for an action that would.
#[must_use]
pub fn read_only(state: &State, action: Action) -> Option<String> {
    let changes = action.info().changes && state.environment.read_only;
    changes.then(|| {
        format!(
            "read-only: {action} is off (start without --read-only, or take read_only out of the environment)"
        )
    })
}

/// Where an action is done, when that is not where the operator is.
#[must_use]
pub fn elsewhere(state: &State, action: Action) -> Option<String> {
    if action.in_scope(state.scope()) {
        return None;
    }
    let places: Vec<&str> = action.info().scopes.iter().map(|scope| scope.title()).collect();
    Some(match places.as_slice() {
        [inside] if action.info().scopes.contains(&Scope::Run) => {
            format!("{}: open a host or a run first", inside.to_lowercase())
        }
        places => format!("not here, but in {}", places.join(", ")),
    })
}

/// Why an action cannot be done on the screen as it is now; nothing when it can.
#[must_use]
pub fn unavailable(state: &State, action: Action) -> Option<String> {
    if let Some(elsewhere) = elsewhere(state, action) {
        return Some(elsewhere);
    }
    if let Some(off) = off(state, action) {
        return Some(off);
    }
    if let Some(reason) = secrets::permit::unavailable(state, action) {
        return Some(reason);
    }
    if let Some(verb) = verb(action) {
        let marked = state.table().is_some_and(|t| !t.marks().is_empty());
        return match state.current() {
            run if approvals::held(state, verb, run).is_some() => approvals::held(state, verb, run),
            _ if marked => None,
            Some(run) => refusal(state, verb, run),
            None => Some("there is no row under the cursor".to_owned()),
        };
    }
    match action {
        Action::Boot if !state.environment.playground => {
            Some("only the playground has machines to boot".to_owned())
        }
        Action::HoldApprovals | Action::ReleaseApprovals => approvals::refusal(state, action),
        Action::Open | Action::Details | Action::Overview | Action::Mark | Action::Copy
            if state.table().is_some_and(|table| table.cursor().is_none()) =>
        {
            Some("there is no row under the cursor".to_owned())
        }
        Action::Filter | Action::Sort | Action::Reverse if state.table().is_some_and(|t| t.total() == 0) => {
            Some("there are no rows".to_owned())
        }
        Action::LabelTargets
        | Action::RemoveTargets
        | Action::RevokeTokens
        | Action::JoinCommand
        | Action::Requeue
        | Action::DropLetters
            if state.shown_list().is_some_and(|list| {
                list.table.marks().is_empty()
                    && !list.current().is_some_and(|item| act_list::takes(action, item))
            }) =>
        {
            Some("this cannot be done on the row under the cursor".to_owned())
        }
        Action::Failed | Action::Slowest
            if state.run.as_ref().is_none_or(|r| r.rows().is_empty() && r.tree().hidden == 0) =>
        {
            Some("no task is recorded yet".to_owned())
        }
        Action::NextMatch | Action::PreviousMatch
            if state.screen == Screen::Run
                && state.run.as_ref().is_none_or(|r| r.search.needle.is_empty()) =>
        {
            Some("nothing is searched for".to_owned())
        }
        _ => None,
    }
}
