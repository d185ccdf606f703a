//! The screens that list one topic: targets, tokens, the queue, the activity.

use std::ops::Range;

use ratatui::layout::Rect;

use super::empty;
use super::layout::Layout;
use super::pen::{Pen, columns};
use super::table::{self, Column, RowView, Shape};
use super::text::{cut_end, width};
use super::words::{age, phase_role, until};
use crate::app::filter::Record as _;
use crate::app::screens::list::ListScreen;
use crate::app::table::Row;
use crate::app::{Hit, Item, Seen, State, Topic, describe};
use crate::config::Role;
use crate::domain::activity::Ending;
use crate::domain::queue::{QueueState, RunQueue};
use crate::domain::{Phase, Token, TokenState};

const fn column(name: &'static str, min: u16, max: u16, leaves: u8) -> Column {
    Column { name, min, max, leaves, right: false }
}

const TARGETS: &[Column] = &[
    column("target", 26, 48, 0),
    column("host", 20, 40, 3),
    column("run", 18, 57, 4),
    column("labels", 20, 80, 2),
];

const TOKENS: &[Column] = &[
    column("token", 10, 14, 0),
    Column { name: "expires", min: 9, max: 9, leaves: 1, right: true },
    // Nearly all tokens have the same.
    column("usages", 22, 24, 4),
    column("what for", 16, 40, 3),
    // And what is wrong with one that is malformed.
    column("groups", 20, 80, 2),
];

const QUEUE: &[Column] = &[
    column("queue", 28, 64, 0),
    column("host", 20, 40, 5),
    column("phase", 9, 9, 3),
    Column { name: "messages", min: 8, max: 8, leaves: 1, right: true },
    Column { name: "pods", min: 4, max: 4, leaves: 4, right: true },
    column("what", 20, 80, 2),
];

const ACTIVITY: &[Column] = &[
    Column { name: "when", min: 5, max: 5, leaves: 2, right: true },
    column("who", 12, 24, 3),
    column("action", 14, 16, 1),
    column("on", 24, 64, 0),
    column("what", 10, 80, 4),
];

fn table_of(topic: Topic) -> &'static [Column] {
    match topic {
        Topic::Targets => TARGETS,
        Topic::Tokens => TOKENS,
        Topic::Queue => QUEUE,
        Topic::Activity => ACTIVITY,
    }
}

/// The column that rows are found by.
fn name_of(topic: Topic) -> &'static str {
    match topic {
        Topic::Targets => "target",
        Topic::Tokens => "token",
        Topic::Queue => "queue",
        Topic::Activity => "on",
    }
}

/// Draws the screen.
pub(crate) fn draw(pen: &mut Pen<'_>, layout: &Layout, state: &State, topic: Topic, seen: &mut Seen) {
    let Some(list) = state.list(topic) else { return };
    summary(pen, layout.summary, state, list, seen);
    let area = columns(layout.body, 0, layout.body.width.saturating_sub(1));
    let range = window(table::split(area).1, list, seen);
    if list.table.rows().is_empty() {
        empty::list(pen, area, state, list, seen);
        return;
    }
    let sorted = topic.columns().get(list.table.column).copied().unwrap_or_default();
    let shape = Shape { columns: table_of(topic), tiny: &[], name: name_of(topic), sorted };
    let lines = lines(pen, list, range);
    table::draw(
        pen,
        area,
        &shape,
        &list.table,
        &lines,
        |_, item, column, seen| cell_of(item, column, state, seen),
        seen,
    );
}

fn lines<'a>(pen: &Pen<'_>, list: &'a ListScreen, range: Range<usize>) -> Vec<(RowView<'a>, &'a Item)> {
    let line = |row: &'a Row| {
        let item = list.item(&row.key)?;
        let (selected, marked) = (list.table.cursor() == Some(&row.key), list.table.is_marked(&row.key));
        let (symbol, role) = state_of(pen, item);
        Some((RowView { symbol, role, name: item.name(), indent: 0, selected, marked }, item))
    };
    list.table.rows().get(range).unwrap_or_default().iter().filter_map(line).collect()
}

/// A row's symbol and its colour.
fn state_of(pen: &Pen<'_>, item: &Item) -> (&'static str, Role) {
    match item {
        Item::Target(target) if target.unknown.is_some() => (pen.symbols().warning(), Role::Warning),
        Item::Activity(activity) if activity.outcome == Ending::Failed => {
            (pen.symbols().phase(Phase::Failed), Role::Failed)
        }
        Item::Letter(_) => (pen.symbols().phase(Phase::Failed), Role::Failed),
        Item::Queue(queue) => (pen.symbols().phase(queue.phase), phase_role(queue.phase)),
        Item::Token(token) if !token.malformed.is_empty() => (pen.symbols().warning(), Role::Warning),
        _ => (" ", Role::Text),
    }
}

fn cell_of(item: &Item, column: &str, state: &State, seen: &mut Seen) -> (String, Role) {
    match (item, column) {
        (Item::Target(t), "host") => (t.host.clone().unwrap_or_default(), Role::Text),
        (Item::Target(t), "run") => {
            (t.run.clone().unwrap_or_default(), if t.guessed { Role::Muted } else { Role::Text })
        }
        (Item::Target(t), _) => match &t.unknown {
            Some(unknown) => (unknown.reason.to_owned(), Role::Warning),
            None => (item.labels().join(" "), Role::Muted),
        },
        (Item::Token(t), _) => token_cell(t, column, state, seen),
        (Item::Queue(q), _) => queue_cell(q, column),
        (Item::Letter(l), "host") => (l.host.clone().unwrap_or_default(), Role::Text),
        (Item::Letter(_), "phase") => ("dead".to_owned(), Role::Failed),
        (Item::Letter(l), "what") => (l.reason.clone(), Role::Error),
        (Item::Letter(_), _) => (String::new(), Role::Text),
        (Item::Activity(a), "when") => (age(a.at, state.now, seen), Role::Muted),
        (Item::Activity(a), "who") => (a.who.clone(), Role::Text),
        (Item::Activity(a), "action") => (a.action.clone(), Role::Text),
        (Item::Activity(a), _) => {
            (a.text.clone(), if a.outcome == Ending::Failed { Role::Error } else { Role::Muted })
        }
    }
}

fn token_cell(token: &Token, column: &str, state: &State, seen: &mut Seen) -> (String, Role) {
    match column {
        "expires" => match (token.state(state.now), token.expires) {
            (TokenState::Malformed, _) => ("malformed".to_owned(), Role::Warning),
            (TokenState::Expired, _) => ("expired".to_owned(), Role::Muted),
            (TokenState::Valid(_), Some(at)) => (until(at, state.now, seen), Role::Text),
            _ => ("never".to_owned(), Role::Warning),
        },
        "usages" => (token.usages.join(", "), Role::Muted),
        "groups" if token.malformed.is_empty() => (token.groups.join(" "), Role::Muted),
        "groups" => (token.malformed.join("; "), Role::Warning),
        _ => (token.description.clone(), Role::Text),
    }
}

fn queue_cell(queue: &RunQueue, column: &str) -> (String, Role) {
    let number = |of: fn(QueueState) -> u32| queue.state.map_or(String::new(), |state| of(state).to_string());
    match column {
        "host" => (queue.host.to_string(), Role::Text),
        "phase" => (queue.phase.as_str().to_owned(), phase_role(queue.phase)),
        "messages" => (number(|state| state.messages), Role::Text),
        "pods" => (number(|state| state.consumers), Role::Muted),
        _ => match (queue.state, queue.delivered) {
            (None, _) => ("no queue".to_owned(), Role::Muted),
            (_, None) => ("to be delivered".to_owned(), Role::Muted),
            (Some(state), _) if state.messages == 0 => {
                ("a pod has the message, or is done".to_owned(), Role::Muted)
            }
            _ => ("waits for its pod".to_owned(), Role::Queued),
        },
    }
}

/// The line above: what is to be known of all rows, what is filtered, how old they are.
fn summary(pen: &mut Pen<'_>, area: Rect, state: &State, list: &ListScreen, seen: &mut Seen) {
    let (note, warning) = &list.note;
    let role = if *warning { Role::Warning } else { Role::Muted };
    let said = table::filtered(pen, &list.table, list.stale_since(), state, seen);
    let total: usize = said.iter().map(|(text, _)| width(text) + 3).sum();
    let room = usize::from(area.width).saturating_sub(total + 4);
    let since =
        list.since.map(|at| format!("since {}: ", describe::moment(at, state.now, &state.environment)));
    let note = format!("{}{note}", since.unwrap_or_default());
    let note = cut_end(&super::text::harmless(&note), room, pen.symbols().ellipsis());
    pen.put(area, 3, 0, &note, role);
    let mut x = area.width.saturating_sub(u16::try_from(total).unwrap_or(u16::MAX)) + 2;
    for (text, role) in said {
        x += pen.put(area, x, 0, &text, role) + 3;
    }
}

fn window(area: Rect, list: &ListScreen, seen: &mut Seen) -> Range<usize> {
    let page = usize::from(area.height);
    let top = list.table.window(page);
    (seen.list.top, seen.list.page) = (top, page);
    seen.regions.push(table::region(area, Hit::Rows(top)));
    seen.subject = list.table.cursor().map(str::to_owned);
    top..(top + page).min(list.table.rows().len())
}
