//! What the cluster lets the operator do, as far as it was asked: what it denies is grey before it is tried.

use super::document::{Document, LineKind};
use super::effect::Effect;
use super::notice::Level;
use super::state::State;
use crate::config::{Action, Need, Rights};

/// Why the cluster would refuse an action; nothing when it would not, or that is not known.
#[must_use]
pub fn forbidden(state: &State, action: Action) -> Option<String> {
    let mut missing = state.rights.missing(action);
    let (_, right, _) = missing.next()?;
    let more = match missing.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("you may not {right}{more}"))
}

/// Says why an action is not even tried, and asks the cluster whether that is still so.
pub(super) fn refuse(state: &mut State, action: Action, reason: &str) {
    let advice = advice(&state.rights, &[action]);
    state.say(Level::Error, format!("cannot {}: {reason}", action.info().label), advice);
    state.outbox.push(Effect::AskRights);
}

/// What to do about actions that the cluster would refuse.
fn advice(rights: &Rights, actions: &[Action]) -> String {
    let missing = || actions.iter().flat_map(|action| rights.missing(*action));
    let who = rights.who.as_ref().map(|who| format!("The cluster takes you for {who}. ")).unwrap_or_default();
    let once = |words: &mut dyn Iterator<Item = &'static str>| {
        let mut all: Vec<&str> = Vec::new();
        words.for_each(|word| {
            if !all.contains(&word) {
                all.push(word);
            }
        });
        all.join(" and the ")
    };
    let roles = once(&mut missing().map(|(need, ..): (Need, _, _)| need.role()));
    let mut text = format!(
        "{who}Ask for the {roles} Role; hostwright cluster permissions prints the rules that are missing."
    );
    if let Some((_, _, words)) = missing().find(|(.., words)| !words.is_empty()) {
        text.push_str(&format!(" It says: {}", crate::domain::text::plain(words)));
    }
    text
}

/// Which actions of this screen the cluster would refuse, for who asks why. What was said above is not said again.
pub(super) fn explain(state: &State, doc: &mut Document, copy: &mut String) {
    let here: Vec<Action> = state.rights.off().filter(|action| action.in_scope(state.scope())).collect();
    if here.is_empty() {
        return;
    }
    doc.heading("What you may not do here");
    for action in &here {
        let rights: Vec<String> =
            state.rights.missing(*action).map(|(_, right, _)| right.to_string()).collect();
        let (label, rights) = (action.info().label, rights.join(", "));
        copy.push_str(&format!("\nno {label}: {rights}"));
        doc.field(label, rights);
    }
    let advice = advice(&state.rights, &here);
    if !copy.contains(&advice) {
        copy.push_str(&format!("\n{advice}"));
        doc.blank();
        doc.push(LineKind::Muted, advice);
    }
}

/// The cluster said what we may do.
pub(super) fn put(state: &mut State, rights: Rights) {
    let before = std::mem::replace(&mut state.rights, rights);
    let names =
        |actions: Vec<Action>| actions.iter().map(|action| action.info().name).collect::<Vec<_>>().join(", ");
    let was_off: Vec<Action> = before.off().collect();
    let is_off: Vec<Action> = state.rights.off().collect();
    let lost: Vec<Action> = is_off.iter().copied().filter(|action| !was_off.contains(action)).collect();
    let back: Vec<Action> =
        was_off.iter().copied().filter(|action| state.rights.may(*action) == Some(true)).collect();
    if !lost.is_empty() {
        state.note(Level::Warning, format!("the cluster does not let you do this: {}", names(lost)));
    }
    if !back.is_empty() {
        state.say(Level::Info, format!("the cluster lets you do this now: {}", names(back)), "");
    }
    if was_off != is_off {
        state.touch();
    }
    let who = state.rights.who.clone().filter(|who| before.who.as_ref().is_some_and(|before| before != who));
    if let Some(who) = who.filter(|_| !state.environment.playground) {
        state.say(Level::Warning, format!("the cluster takes you for {who} now"), "");
        state.environment.operator = who;
    }
}
