//! The pages of one secret: its versions, and what differs.

use super::{SecretDeed, Sides, doc};
use crate::app::act;
use crate::app::effect::{Effect, EffectId};
use crate::app::flight;
use crate::app::input;
use crate::app::notice::Level;
use crate::app::open;
use crate::app::screens::Screen;
use crate::app::screens::secret_pages::{Differences, Versions};
use crate::app::seen::Seen;
use crate::app::state::State;
use crate::app::table::Move;
use crate::config::Action;
use crate::domain::Problem;
use crate::domain::secret::{Compared, SecretVersion};
use crate::domain::text::Needle;

/// The versions of a secret.
pub(in crate::app) fn versions(state: &mut State, key: &str) {
    state.secrets.versions = Some(Versions::new(key.to_owned()));
    open::go(state, Screen::Versions);
    read(state, SecretDeed::History(key.to_owned()));
}

/// What differs in a secret.
pub(in crate::app) fn differences(state: &mut State, key: &str, sides: Sides) {
    state.secrets.differences = Some(Differences::new(key.to_owned(), sides));
    open::go(state, Screen::Differences);
    compare(state);
}

fn read(state: &mut State, deed: SecretDeed) {
    flight::start(state, Effect::Secret { id: EffectId(0), deed });
}

fn compare(state: &mut State) {
    let Some(page) = &state.secrets.differences else { return };
    let (key, sides, values) = (page.key.clone(), page.sides.clone(), page.values);
    read(state, SecretDeed::Compare { key, sides, values });
}

/// Reads the page again.
pub(in crate::app) fn refresh(state: &mut State) {
    match (state.screen, &state.secrets.versions) {
        (Screen::Versions, Some(page)) => {
            let key = page.key.clone();
            read(state, SecretDeed::History(key));
        }
        _ => compare(state),
    }
}

/// Shows the values, or hides them again: what is not to be seen is not kept either.
pub(in crate::app) fn show_values(state: &mut State) {
    let Some(page) = &mut state.secrets.differences else { return };
    page.values = !page.values;
    page.doc = None;
    compare(state);
}

/// The versions came, or did not.
pub(in crate::app) fn versions_came(
    state: &mut State,
    key: &str,
    result: Result<Vec<SecretVersion>, Problem>,
) {
    let Some(page) = state.secrets.versions.as_mut().filter(|page| page.key == key) else { return };
    match result {
        Ok(list) => page.put(list),
        Err(problem) => page.problem = Some(problem),
    }
    state.touch();
}

/// What differs came, or did not. An answer to what is not asked any more is dropped.
pub(in crate::app) fn differences_came(
    state: &mut State,
    (key, sides, values): (&str, &Sides, bool),
    result: Result<&Compared, Problem>,
) {
    let key_text = state.keymap.key_text(Screen::Differences.scope(), Action::ShowValues);
    let asked = |page: &&mut Differences| page.key == key && page.sides == *sides && page.values == values;
    let Some(page) = state.secrets.differences.as_mut().filter(asked) else { return };
    match result {
        Ok(compared) => {
            page.doc = Some(doc::of_compared(compared, values, &key_text));
            page.problem = None;
        }
        Err(problem) => page.problem = Some(problem),
    }
    state.touch();
}

/// A needle was typed: goes to its first match.
pub(in crate::app) fn search(state: &mut State, text: &str) {
    let Some(page) = &mut state.secrets.differences else { return };
    (page.needle, page.hit) = (Needle::new(text), None);
    next(state, false);
}

/// Goes to the next match.
pub(in crate::app) fn next(state: &mut State, backwards: bool) {
    let Some(page) = &mut state.secrets.differences else { return };
    if !page.next_match(backwards) && !page.needle.is_empty() {
        let text = format!("{} is not there", page.needle.text());
        state.show(Level::Warning, text);
    }
}

/// Copies what differs, as it is shown.
pub(in crate::app) fn copy(state: &mut State) {
    let page = state.secrets.differences.as_ref();
    let lines = page
        .and_then(|page| page.doc.as_ref())
        .map(|doc| doc.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n"));
    act::copy_text(state, lines);
}

/// Moves through what differs.
pub(in crate::app) fn go(state: &mut State, seen: &Seen, action: Action) {
    let Some(page) = &mut state.secrets.differences else { return };
    let last = page.doc.as_ref().map_or(0, |doc| doc.lines.len().saturating_sub(1));
    if let Some(to) = input::movement(action, seen.result.page) {
        page.top = match to {
            Move::By(lines) => page.top.saturating_add_signed(lines).min(last),
            Move::First => 0,
            Move::Last => crate::app::document::END,
        };
    }
}
