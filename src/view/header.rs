//! Where we are and whether all is well: environment, back ends, screens, counts by phase.

use ratatui::layout::Rect;

use super::layout::Layout;
use super::pen::{Pen, columns};
use super::text::{cut_end, width};
use super::words::{health_role, phase_role, until};
use crate::app::{BACK_ENDS, Hit, Screen, Seen, State, Topic, describe};
use crate::config::{Action, Role};
use crate::domain::{Health, Phase};

/// Phases that are counted even when nobody is in them, so that the others keep their place.
const ALWAYS: [Phase; 5] = [Phase::Pending, Phase::Queued, Phase::Running, Phase::Failed, Phase::Ready];
/// What the counts take in words.
const WORDS: usize = 68;
/// What they take in symbols.
const SYMBOLS: u16 = 31;
/// What the back ends take in symbols.
const BRIEF: u16 = 12;
const SOMETIMES: [Phase; 3] = [Phase::Stopping, Phase::Stopped, Phase::Rejected];

/// Draws header, tabs and the rule below them.
pub(crate) fn draw(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    environment(pen, layout.header, state, seen);
    tabs(pen, layout.tabs, state, seen);
    pen.rule(layout.rule, 0);
}

fn environment(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let mut x = 1;
    if area.width >= 60 {
        x += pen.put(area, x, 0, "hostwright", Role::Brand) + 2;
    }
    let environment = &state.environment;
    let (name, role) = match environment.name.as_str() {
        "" => (" no environment ".to_owned(), Role::Warning),
        name if environment.guarded => (format!(" {name} "), Role::EnvGuarded),
        name if environment.playground => (format!(" {name} "), Role::EnvPlayground),
        name => (format!(" {name} "), Role::Env),
    };
    x += pen.put(area, x, 0, &name, role);
    if environment.read_only {
        x += pen.put(area, x + 1, 0, "read-only", Role::Warning) + 1;
    }
    if environment.name.is_empty() {
        return;
    }
    // A table has the counts in a line of its own. Where all is well they have room here; what is not well goes before them.
    let room = area.width.saturating_sub(x + 2);
    let trouble = BACK_ENDS.into_iter().any(|b| matches!(state.store.health(b), Health::Down { .. }));
    let beside = state.screen == Screen::Run && room >= SYMBOLS + if trouble { 80 } else { BRIEF };
    let room = if beside { room - SYMBOLS } else { room };
    back_ends(pen, columns(area, x + 2, room), state, seen);
    if beside {
        counts(pen, columns(area, area.width - SYMBOLS, SYMBOLS), state, usize::MAX / 2);
    }
}

fn back_ends(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let narrow = area.width < 44;
    let used = |health: &Health| !matches!(health, Health::Unused);
    let trouble = |health: &Health| matches!(health, Health::Down { .. });
    let all: Vec<_> =
        BACK_ENDS.into_iter().map(|b| (b, state.store.health(b))).filter(|(_, h)| used(h)).collect();
    let troubled = all.iter().filter(|(_, h)| trouble(h)).count();
    let said = |h: &Health| !narrow || trouble(h);
    let gap = if narrow { 1 } else { 3 };
    let fixed: usize = all.iter().map(|(b, h)| 2 + gap + if said(h) { width(b.word()) } else { 0 }).sum();
    // Those in trouble share the room that the others leave.
    let share = usize::from(area.width).saturating_sub(fixed + troubled) / troubled.max(1);
    let mut x = 1;
    for (back_end, health) in all {
        let role = health_role(health);
        x += pen.put(area, x, 0, pen.symbols().health(health), role) + 1;
        if said(health) {
            let role = if trouble(health) { role } else { Role::Muted };
            x += pen.put(area, x, 0, back_end.word(), role);
        }
        if let Health::Down { problem, .. } = health {
            let next = problem.retry_at.map(|at| until(at, state.now, seen));
            let text = reason(&problem.text, next.as_deref(), share, pen.symbols().ellipsis());
            x += 1 + pen.put(area, x + 1, 0, &text, Role::Down);
        }
        x += u16::try_from(gap).unwrap_or(1);
    }
}

/// Why a back end is down and when it is tried again, in so many columns.
fn reason(text: &str, next: Option<&str>, room: usize, ellipsis: &str) -> String {
    let text = super::text::harmless(text);
    let Some(next) = next else { return cut_end(&text, room, ellipsis) };
    let (long, short) = (format!(", next try {next}"), format!(", {next}"));
    let fits = |tail: &str, least: usize| room.checked_sub(width(tail)).filter(|left| *left >= least);
    match (fits(&long, width(&text).min(24)), fits(&short, 12)) {
        (Some(left), _) => format!("{}{long}", cut_end(&text, left, ellipsis)),
        (None, Some(left)) => format!("{}{short}", cut_end(&text, left, ellipsis)),
        (None, None) => cut_end(next, room, ellipsis),
    }
}

/// The screens with their keys: names where there is room, else that of this one.
const TABS: [(Screen, &str, Action); 7] = [
    (Screen::Hosts, "Hosts", Action::GoHosts),
    (Screen::Runs, "Runs", Action::GoRuns),
    (Screen::List(Topic::Targets), "Targets", Action::GoTargets),
    (Screen::Secrets, "Secrets", Action::GoSecrets),
    (Screen::List(Topic::Tokens), "Tokens", Action::GoTokens),
    (Screen::List(Topic::Queue), "Queue", Action::GoQueue),
    (Screen::List(Topic::Activity), "Activity", Action::GoActivity),
];

fn tabs(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    if matches!(state.screen, Screen::Run | Screen::Versions | Screen::Differences) {
        return inside(pen, area, state);
    }
    let key = |action| state.keymap.key_text(state.scope(), action);
    let room =
        |gap: usize| -> usize { TABS.iter().map(|(_, n, a)| width(&key(*a)) + 1 + width(n) + gap).sum() };
    let fits = (1..=3).rev().find(|gap| room(*gap) < usize::from(area.width));
    let mut x = 1;
    for (screen, name, action) in TABS {
        let (here, from) = (screen == state.screen, x);
        x += pen.put(area, x, 0, &key(action), if here { Role::Tab } else { Role::Key }) + 1;
        if here || fits.is_some() {
            x += pen.put(area, x, 0, name, if here { Role::Tab } else { Role::Muted });
            x += u16::try_from(fits.unwrap_or(1)).unwrap_or(1);
        }
        seen.regions.push(super::table::region(columns(area, from, x - from), Hit::Action(action)));
    }
}

/// Inside a run or a secret: the table that it was opened from, and which it is.
fn inside(pen: &mut Pen<'_>, area: Rect, state: &State) {
    let tab = |from: &Screen| TABS.iter().find(|(screen, ..)| screen == from);
    let from = state.stack.iter().rev().find_map(tab);
    let mut x = 1;
    if let Some((_, name, action)) = from {
        x += pen.put(area, x, 0, &state.keymap.key_text(state.scope(), *action), Role::Key) + 1;
        x += pen.put(area, x, 0, name, Role::Tab) + 2;
    }
    let secrets = &state.secrets;
    let secret = |key: &str, what: &str| format!("{}, {what}", crate::domain::secret::shown(key));
    let title = match state.screen {
        Screen::Versions => secrets.versions.as_ref().map(|page| secret(&page.key, "its versions")),
        Screen::Differences => secrets.differences.as_ref().map(|page| secret(&page.key, "what differs")),
        _ => state.current().map(describe::title),
    };
    let Some(title) = title else { return };
    x += pen.put(area, x, 0, pen.symbols().path(), Role::Muted) + 1;
    let title = cut_end(&title, usize::from(area.width.saturating_sub(x)), pen.symbols().ellipsis());
    pen.put(area, x, 0, &title, Role::Strong);
}

/// How many hosts are in each phase, in symbols where words leave no room for so many columns beside. Returns the column after the
/// last.
pub(crate) fn counts(pen: &mut Pen<'_>, area: Rect, state: &State, beside: usize) -> u16 {
    if state.environment.name.is_empty() || (!state.store.ever_listed() && state.store.host_count() == 0) {
        return 1;
    }
    let words = usize::from(area.width) >= WORDS + beside.saturating_sub(2);
    let digits = if words { 4 } else { 3 };
    let mut x = if words { 0 } else { 1 };
    let rare = SOMETIMES.into_iter().filter(|p| state.store.in_phase(*p) > 0);
    for phase in ALWAYS.into_iter().chain(rare) {
        let count = state.store.in_phase(phase);
        let role = if count > 0 { phase_role(phase) } else { Role::Muted };
        if words {
            let text = format!("{count:>digits$} {}", phase.as_str());
            x += pen.put(area, x, 0, &text, role) + 2;
        } else {
            let text = format!("{} {count:<digits$}", pen.symbols().phase(phase));
            x += pen.put(area, x, 0, &text, role) + 1;
        }
    }
    x
}
