//! Effects on their way: each has an id, the same is not started twice, answers that nobody awaits are dropped.

use super::change::Change;
use super::dialog::{Subject, Verb};
use super::effect::{Effect, EffectId};
use super::msg::Answer;
use super::notice::{Bulk, BulkRow, Entry, InFlight, Level};
use super::screens::Screen;
use super::secrets;
use super::state::State;
use super::texts;
use super::update;
use crate::domain::{Parameters, Problem, ProblemKind};

/// Sends an effect out. Nothing when it would change something in read-only mode, or when the same is in flight.
pub(super) fn start(state: &mut State, effect: Effect) -> Option<EffectId> {
    if effect.changes() && state.environment.read_only {
        let doing = effect.doing();
        state.say(Level::Warning, format!("read-only: {doing} was refused"), "");
        return None;
    }
    if effect.id().is_none() {
        state.outbox.push(effect);
        return None;
    }
    let blank = effect.with_id(EffectId(0));
    if state.in_flight.iter().any(|f| f.effect == blank) {
        return None;
    }
    let id = state.fresh_id();
    state.outbox.push(blank.clone().with_id(id));
    let flight = InFlight { id, effect: blank, since: state.now, progress: String::new(), cancelled: false };
    state.in_flight.push(flight);
    state.touch();
    Some(id)
}

/// Asks to cancel everything that changes something and is in flight. Returns whether there was any.
pub(super) fn cancel_all(state: &mut State) -> bool {
    let mut ids = Vec::new();
    let mut changes = false;
    let ours = |f: &&mut InFlight| (f.effect.changes() || f.effect.is_long()) && !f.cancelled;
    for flight in state.in_flight.iter_mut().filter(ours) {
        flight.cancelled = true;
        changes |= flight.effect.changes();
        ids.push(flight.id);
    }
    if ids.is_empty() {
        return false;
    }
    let after = if changes { "; what was sent already may still happen" } else { "" };
    state.show(Level::Warning, format!("cancelling{after}"));
    state.outbox.extend(ids.into_iter().map(Effect::Cancel));
    true
}

/// Changes what is listed: one effect each; of several the sum is told.
pub(super) fn changes(state: &mut State, changes: Vec<Change>) {
    let mut rows = Vec::new();
    let several = changes.len() > 1;
    for change in changes {
        let doing = change.doing();
        let id = start(state, Effect::Change { id: EffectId(0), change });
        rows.push(BulkRow { name: doing, id, outcome: None });
    }
    if several {
        state.bulk = Some(Bulk { title: "Several rows", rows });
    }
}

/// Does a deed on runs, one effect each; `parameters` are what an approval fixes if not the usual.
pub(super) fn perform(
    state: &mut State,
    verb: Verb,
    subjects: Vec<Subject>,
    parameters: Option<&Parameters>,
) {
    let several = subjects.len() > 1;
    let mut rows = Vec::new();
    for Subject { run, digest } in subjects {
        let (host, uid) = (run.host.to_string(), run.uid.clone());
        let id = EffectId(0);
        let effect = match verb {
            Verb::Approve => Effect::Approve { id, run, digest, parameters: parameters.cloned() },
            Verb::Check => Effect::Check { id, run, digest },
            Verb::Reject => Effect::Reject { id, run, digest },
            Verb::Retry => Effect::Retry { id, run },
            Verb::Stop => Effect::Stop { id, run },
            Verb::Forget => Effect::Forget { id, run },
        };
        state.set_verdict(&uid, None);
        let id = start(state, effect);
        rows.push(BulkRow { name: host, id, outcome: None });
    }
    if several {
        state.bulk = Some(Bulk { title: verb.title(), rows });
    }
}

/// How far an effect is.
pub(super) fn progress(state: &mut State, id: EffectId, text: String) {
    if let Some(flight) = state.in_flight.iter_mut().find(|f| f.id == id) {
        flight.progress = text;
        state.touch();
    }
}

/// The end of an effect.
pub(super) fn answer(state: &mut State, id: EffectId, result: Result<Answer, Problem>) {
    let Some(at) = state.in_flight.iter().position(|f| f.id == id) else { return };
    let flight = state.in_flight.remove(at);
    state.touch();
    state.secrets.transfer.take_if(|(transfer, _)| *transfer == id);
    let uid = flight.effect.run().map(str::to_owned);
    if flight.effect.changes() {
        let outcome = match &result {
            Ok(_) => "done".to_owned(),
            Err(problem) => format!("failed: {problem}"),
        };
        let (who, doing) = (&state.environment.operator, flight.effect.doing());
        state.outbox.push(Effect::WriteLog(format!("{who}: {doing}: {outcome}")));
        if let Some(uid) = &uid {
            state.set_verdict(uid, result.as_ref().err().map(|p| p.text.clone()));
            if result.is_ok() {
                unmark(state, uid);
            }
        }
        if let Effect::Change { change, .. } = &flight.effect {
            changed(state, change, result.is_ok());
        }
    }
    if let (Effect::OpenRun { run, .. }, Some((waited, _))) = (&flight.effect, &state.settling)
        && run.uid == *waited
    {
        update::show_settled(state);
    }
    if let Effect::Secret { deed, .. } = &flight.effect
        && !secrets::answers::answer(state, deed, &result)
    {
        return;
    }
    let text = match result {
        Ok(Answer::Done(text)) => Ok(text),
        // Taken in above.
        Ok(Answer::Secrets(_) | Answer::Versions(_) | Answer::Compared(_)) => return,
        Ok(Answer::Run(details)) => {
            state.store.put_details(*details);
            return;
        }
        Ok(Answer::Text { title, text }) => {
            texts::shown(state, title, text);
            return;
        }
        Ok(Answer::Nodes(nodes)) => {
            texts::nodes(state, &nodes);
            return;
        }
        Ok(Answer::Names(key, names)) => {
            secrets::act::names_came(state, &key, &names);
            return;
        }
        Ok(Answer::Cluster(info)) => {
            texts::cluster(state, &info);
            return;
        }
        Ok(Answer::Result(details)) => {
            state.store.put_result(*details);
            return;
        }
        Err(problem) => {
            // What was thought to be allowed is not, or not any more.
            if problem.kind == ProblemKind::Forbidden {
                state.outbox.push(Effect::AskRights);
            }
            Err(problem)
        }
    };
    if !answer_bulk(state, id, &text) {
        match text {
            Ok(text) if text.is_empty() => {}
            Ok(text) => state.say(Level::Info, text, ""),
            Err(problem) => state.problem(&problem),
        }
    }
}

/// A change of listed rows ended: the marks stay where it failed, and the rows are fetched again.
fn changed(state: &mut State, change: &Change, done: bool) {
    let (topic, keys) = change.rows();
    if done && let Some(list) = state.list_mut(topic) {
        for key in keys {
            list.table.unmark(key);
        }
    }
    if state.screen == Screen::List(topic) {
        state.outbox.push(Effect::Look(topic));
    }
}

fn unmark(state: &mut State, uid: &str) {
    let host = state.store.run(uid).map(|r| r.host.to_string());
    if let Some(host) = host {
        state.hosts.table.unmark(&host);
    }
    state.runs.table.unmark(uid);
}

/// An answer that belongs to a deed on several runs: the sum is said, each line is remembered.
fn answer_bulk(state: &mut State, id: EffectId, text: &Result<String, Problem>) -> bool {
    let Some(bulk) = &mut state.bulk else { return false };
    let Some(row) = bulk.rows.iter_mut().find(|r| r.id == Some(id)) else { return false };
    row.outcome = Some(text.clone().map_err(|p| p.to_string()));
    let host = row.name.clone();
    let (title, done, failed, waiting) = sum(bulk);
    let level = if failed > 0 { Level::Error } else { Level::Info };
    let mut words = format!("{title}: {done} done");
    if failed > 0 {
        words.push_str(&format!(", {failed} failed and still marked"));
    }
    if waiting > 0 {
        words.push_str(&format!(", {waiting} under way"));
    }
    state.show(level, words.clone());
    let entry = |level, text, advice| Entry { at: state.now, level, text, advice };
    let entry = match text {
        Ok(text) => entry(Level::Info, format!("{host}: {text}"), String::new()),
        Err(problem) => entry(Level::Error, format!("{host}: {}", problem.text), problem.advice.clone()),
    };
    if failed > 0 {
        let advice = reasons(state.bulk.as_ref());
        state.last_problem = Some(Entry { at: state.now, level, text: words, advice });
    }
    state.remember(entry);
    true
}

/// The title of a deed on several runs, and how many are done, failed and under way.
fn sum(bulk: &Bulk) -> (&'static str, usize, usize, usize) {
    let done = bulk.rows.iter().filter(|r| matches!(r.outcome, Some(Ok(_)))).count();
    let failed = bulk.rows.iter().filter(|r| matches!(r.outcome, Some(Err(_)))).count();
    (bulk.title, done, failed, bulk.rows.len() - done - failed)
}

fn reasons(bulk: Option<&Bulk>) -> String {
    let rows = bulk.iter().flat_map(|b| &b.rows);
    let failed = rows.filter_map(|r| match &r.outcome {
        Some(Err(reason)) => Some(format!("{}: {reason}", r.name)),
        _ => None,
    });
    failed.collect::<Vec<_>>().join("\n")
}
