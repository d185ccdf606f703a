//! What can be done: notices on the rule, one line of details, the keys that count on this row.

use ratatui::layout::Rect;

use super::hosts::details_line;
use super::layout::Layout;
use super::pen::{Pen, columns};
use super::text::{cut_end, width};
use super::words::spinner;
use crate::app::screens::run::Pane;
use crate::app::table::Table;
use crate::app::{Effect, Level, Screen, Seen, State, Topic, approvals, permit, secrets, time};
use crate::config::{Action, Role};

/// So many keys are shown; help has the others.
const KEYS: usize = 6;

/// True when a line of details is wanted: where they do not stand beside the table.
pub(crate) fn wants_details(state: &State) -> bool {
    matches!(state.screen, Screen::Hosts | Screen::Runs | Screen::Secrets) && !state.details_beside()
}

/// Draws notice, details and keys.
pub(crate) fn draw(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    stacked(pen, layout.body, state, seen);
    notice(pen, layout.notice, state, seen);
    details(pen, layout.details, state);
    if let Some((word, line)) = prompt(state) {
        draw_prompt(pen, layout.footer, state, word, line);
    } else {
        keys(pen, layout.footer, state);
    }
}

/// What was said before and is still to be read: at the end of the body, the newest below.
fn stacked(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    // Where there is little room the rows matter more.
    if area.height < 8 || area.width < 60 {
        return;
    }
    let count = u16::try_from(state.older.len()).unwrap_or(0).min(area.height);
    for (y, notice) in (area.height - count..).zip(&state.older) {
        seen.wake_at(notice.until);
        let (symbol, role) = voice(pen, notice.level);
        let room = usize::from(area.width * 2 / 3);
        let text = cut_end(&super::text::harmless(&notice.text), room, pen.symbols().ellipsis());
        let line = format!("  {symbol} {text} ");
        pen.put_right(super::pen::rows(area, y, 1), 0, &line, role);
    }
}

/// The symbol and the role of a notice.
fn voice(pen: &Pen<'_>, level: Level) -> (&'static str, Role) {
    match level {
        Level::Info => (pen.symbols().phase(crate::domain::Phase::Ready), Role::Info),
        Level::Warning => (pen.symbols().warning(), Role::Warning),
        Level::Error => (pen.symbols().phase(crate::domain::Phase::Failed), Role::Error),
    }
}

fn notice(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    pen.rule(area, 0);
    let right = under_way(pen, area, state, seen);
    let Some(notice) = &state.notice else { return };
    seen.wake_at(notice.until);
    let (symbol, role) = voice(pen, notice.level);
    let key = state.keymap.key_text(state.scope(), Action::Why);
    let hint = if notice.level == Level::Error { format!("  {key} why?") } else { String::new() };
    let room = usize::from(right.saturating_sub(2)).saturating_sub(width(&hint) + 4);
    let text = cut_end(&super::text::harmless(&notice.text), room, pen.symbols().ellipsis());
    let x = pen.put(area, 1, 0, &format!(" {symbol} {text}"), role) + 1;
    let x = x + pen.put(area, x, 0, &hint, Role::Key);
    pen.put(area, x, 0, " ", Role::Text);
}

/// What is under way, at the right of the rule. Returns the column where it begins.
fn under_way(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) -> u16 {
    let told = |effect: &Effect| {
        effect.changes() || matches!(effect, Effect::Secret { deed, .. } if deed.transfers())
    };
    let changing: Vec<_> = state.in_flight.iter().filter(|f| told(&f.effect)).collect();
    let Some(first) = changing.first() else { return area.width };
    let Some(picture) = spinner(pen, first.since, state.now, seen) else { return area.width };
    let words = match changing.as_slice() {
        [one] if one.progress.is_empty() => one.effect.doing(),
        [one] => format!("{}: {}", one.effect.doing(), one.progress),
        several => format!("{} under way", several.len()),
    };
    let waited = time::short(time::seconds_between(first.since, state.now));
    let key = state.keymap.key_text(state.scope(), Action::Interrupt);
    let cancel = if first.cancelled { "cancelling".to_owned() } else { format!("{key} cancels") };
    let room = usize::from(area.width / 2);
    let text = cut_end(&format!(" {picture} {words} {waited:>3}  {cancel} "), room, pen.symbols().ellipsis());
    let inner = columns(area, 0, area.width.saturating_sub(1));
    pen.put_right(inner, 0, &text, Role::Running)
}

fn details(pen: &mut Pen<'_>, area: Rect, state: &State) {
    if area.height == 0 {
        return;
    }
    if state.screen == Screen::Secrets {
        return super::secrets::details_line(pen, area, state);
    }
    let Some(run) = state.settled.as_ref().and_then(|uid| state.store.run(uid)) else { return };
    let x = 1 + pen.put(area, 1, 0, run.host.as_str(), Role::Strong);
    let line = super::text::harmless(&details_line(run, state)).into_owned();
    let room = usize::from(area.width.saturating_sub(x + 4));
    pen.put(area, x + 3, 0, &cut_end(&line, room, pen.symbols().ellipsis()), Role::Muted);
}

/// What is being typed on the screen itself: the word for it and the text before and after the cursor.
fn prompt(state: &State) -> Option<(&'static str, (&str, &str))> {
    if !state.dialogs.is_empty() {
        return None;
    }
    match &state.run {
        Some(run) if state.screen == Screen::Run => {
            run.search.input.as_ref().map(|line| ("search", line.halves()))
        }
        _ if state.screen == Screen::Differences => {
            let page = state.secrets.differences.as_ref()?;
            page.input.as_ref().map(|line| ("search", line.halves()))
        }
        _ => state.table()?.input.as_ref().map(|line| ("filter", line.halves())),
    }
}

fn draw_prompt(pen: &mut Pen<'_>, area: Rect, state: &State, word: &str, (before, after): (&str, &str)) {
    let mut x = 1 + pen.put(area, 1, 0, word, Role::Key) + 1;
    x += pen.put(area, x, 0, before, Role::Input);
    x += pen.put(area, x, 0, pen.symbols().caret(), Role::Marker);
    x += pen.put(area, x, 0, after, Role::Input);
    let filter = state.table().map(|t| &t.filter);
    let (hint, role) = match filter.and_then(|f| f.problem()) {
        Some(problem) => (problem.to_owned(), Role::Error),
        None => match state.table() {
            Some(table) if table.input.is_some() => (
                format!(
                    "{} of {}   enter keep   esc undo",
                    table.total().saturating_sub(table.hidden()),
                    table.total()
                ),
                Role::Muted,
            ),
            _ => ("enter search   esc undo".to_owned(), Role::Muted),
        },
    };
    if usize::from(area.width) > usize::from(x) + width(&hint) + 4 {
        let inner = columns(area, 0, area.width - 1);
        pen.put_right(inner, 0, &hint, role);
    }
}

fn keys(pen: &mut Pen<'_>, area: Rect, state: &State) {
    let scope = state.scope();
    let help = format!("{} help", state.keymap.key_text(scope, Action::Help));
    let room = area.width.saturating_sub(u16::try_from(width(&help)).unwrap_or(0) + 4);
    let mut x = 1;
    if !state.chord.is_empty() {
        let typed: Vec<String> = state.chord.iter().map(ToString::to_string).collect();
        x += pen.put(area, x, 0, &format!("{} …", typed.join(" ")), Role::Key) + 3;
    }
    let mut shown = 0;
    for action in candidates(state).iter().copied() {
        let Some(on) = counts_here(state, action) else { continue };
        let key = state.keymap.key_text(scope, action);
        let label = label(state, action);
        let wide = u16::try_from(width(&key) + 1 + width(label)).unwrap_or(u16::MAX);
        if shown == KEYS || key.is_empty() || x.saturating_add(wide) > room {
            continue;
        }
        let (key_role, text_role) =
            if on { (Role::Key, Role::Text) } else { (Role::Disabled, Role::Disabled) };
        x += pen.put(area, x, 0, &key, key_role) + 1;
        x += pen.put(area, x, 0, label, text_role) + 3;
        shown += 1;
    }
    if area.width > 10 {
        let key = state.keymap.key_text(scope, Action::Help);
        x += pen.put(area, x, 0, &key, Role::Key) + 1;
        pen.put(area, x, 0, "help", Role::Text);
    }
}

/// Whether an action counts on this row: nothing when it does not, false when it is only switched off.
fn counts_here(state: &State, action: Action) -> Option<bool> {
    let mut on = permit::off(state, action).is_none();
    if let Some(verb) = permit::verb(action) {
        on &= approvals::held(state, verb, state.current()).is_none();
        let marked = state.table().is_some_and(|t| !t.marks().is_empty());
        let fits = match state.current() {
            _ if marked => true,
            Some(run) => permit::row_refusal(state, verb, run).is_none(),
            None => false,
        };
        return fits.then_some(on);
    }
    // What loses what somebody changed can be done, and is not what comes first.
    if state.screen == Screen::Secrets && secrets::permit::loses_here(state, action) {
        return None;
    }
    // On a table there must be something to take back.
    if action == Action::Back
        && state.table().is_some_and(|t: &Table| t.marks().is_empty() && t.filter.text().is_empty())
    {
        return None;
    }
    match permit::unavailable(state, action) {
        None => Some(true),
        Some(_) if !on => Some(false),
        Some(_) => None,
    }
}

fn label(state: &State, action: Action) -> &'static str {
    match action {
        Action::Back if !matches!(state.screen, Screen::Run | Screen::Differences) => {
            let marked = state.table().is_some_and(|t| !t.marks().is_empty());
            if marked { "unmark all" } else { "all rows" }
        }
        Action::Filter if matches!(state.screen, Screen::Run | Screen::Differences) => "search",
        Action::ShowValues if state.secrets.differences.as_ref().is_some_and(|page| page.values) => {
            "hide values"
        }
        Action::ShowValues => "show values",
        Action::Open if state.screen == Screen::Versions => "what differs",
        Action::Open if state.screen == Screen::Run => match state.run.as_ref().map(|r| r.focus) {
            Some(Pane::Tasks) => "open",
            Some(Pane::Log) => "its task",
            _ => "zoom",
        },
        _ => action.info().label,
    }
}

/// The actions that may be worth a place, the most important first.
fn candidates(state: &State) -> &'static [Action] {
    use Action as A;
    let table = state.table();
    match state.screen {
        Screen::Hosts | Screen::Runs if table.is_some_and(|t: &Table| !t.marks().is_empty()) => {
            &[A::Approve, A::Reject, A::Retry, A::Check, A::Back, A::Invert]
        }
        Screen::Hosts | Screen::Runs if table.is_some_and(|t: &Table| !t.filter.text().is_empty()) => {
            &[A::Approve, A::Retry, A::Check, A::Reject, A::Stop, A::Open, A::Back, A::Mark]
        }
        Screen::Hosts => &[
            A::Approve,
            A::Check,
            A::Reject,
            A::Retry,
            A::Stop,
            A::Open,
            A::Mark,
            A::Boot,
            A::Filter,
            A::Sort,
            A::Palette,
        ],
        Screen::Runs => &[
            A::Approve,
            A::Check,
            A::Reject,
            A::Retry,
            A::Stop,
            A::Open,
            A::Mark,
            A::Filter,
            A::Sort,
            A::Palette,
        ],
        Screen::Secrets => &[
            A::FetchSecrets,
            A::UploadSecrets,
            A::CompareSecret,
            A::EditSecret,
            A::SecretVersions,
            A::Open,
            A::RemoveSecrets,
            A::GiveCode,
            A::Mark,
            A::Refresh,
            A::Back,
        ],
        Screen::Versions => &[A::RestoreVersion, A::Open, A::Copy, A::Refresh],
        Screen::Differences => &[
            A::ShowValues,
            A::FetchSecrets,
            A::UploadSecrets,
            A::EditSecret,
            A::Filter,
            A::NextMatch,
            A::Copy,
            A::Back,
        ],
        Screen::List(topic) => match topic {
            Topic::Targets => &[
                A::AddTarget,
                A::LabelTargets,
                A::RemoveTargets,
                A::Open,
                A::Mark,
                A::Filter,
                A::Copy,
                A::Back,
            ],
            Topic::Tokens => &[
                A::MintToken,
                A::JoinCommand,
                A::RevokeTokens,
                A::Cluster,
                A::Open,
                A::Mark,
                A::Copy,
                A::Back,
            ],
            Topic::Queue => {
                &[A::Requeue, A::DropLetters, A::Open, A::Mark, A::Refresh, A::Filter, A::Copy, A::Back]
            }
            Topic::Activity => &[A::Open, A::Copy, A::Filter, A::Sort, A::Back],
        },
        Screen::Run => match state.run.as_ref().map(|r| r.focus) {
            Some(Pane::Log) => &[
                A::Filter,
                A::NextMatch,
                A::Follow,
                A::Open,
                A::OnlyTask,
                A::SaveLog,
                A::Stop,
                A::Copy,
                A::Back,
            ],
            Some(Pane::Result) => &[
                A::Approve,
                A::Reject,
                A::Filter,
                A::NextMatch,
                A::Diff,
                A::Open,
                A::Copy,
                A::NextPane,
                A::Back,
            ],
            _ => &[
                A::Approve,
                A::Check,
                A::Reject,
                A::Retry,
                A::Stop,
                A::Open,
                A::Failed,
                A::Log,
                A::Overview,
                A::Copy,
                A::Back,
            ],
        },
    }
}
