//! Inside one run: stages, tasks and log at the left, the result at the right; one after the other where there is no room.

use ratatui::layout::Rect;

use super::layout::Layout;
use super::pen::{Pen, columns, rows};
use super::runs::{duration, run_counts};
use super::text::{Piece, cut_end, cut_middle, width};
use super::words::{age, phase_role, spinner, status_role};
use super::{doc, log};
use crate::app::life::{self, Sign};
use crate::app::screens::run::{Pane, RunScreen, Shown};
use crate::app::screens::stages::{Stage, longest, stages};
use crate::app::screens::tasks::{self, Order, RowKind, TaskRow};
use crate::app::{Effect, Hit, Seen, State, describe, time};
use crate::config::Role;
use crate::domain::results::Playbook;
use crate::domain::{BackEnd, Health, Phase, Run};

/// From this width on the result stands beside the tasks.
const SPLIT: u16 = 100;
/// Narrower than this there is no room for a task's host and its state in words.
const NARROW: u16 = 60;

/// Draws the screen.
pub(crate) fn draw(pen: &mut Pen<'_>, layout: &Layout, state: &State, seen: &mut Seen) {
    let Some(screen) = &state.run else { return };
    let Some(run) = state.store.run(&screen.uid) else {
        pen.put(layout.body, 1, 0, "This run is gone: somebody deleted it.", Role::Warning);
        return;
    };
    seen.subject = Some(run.uid.clone());
    status(pen, layout.tabs, state, run, seen);
    summary(pen, layout.summary, state, run, seen);
    let body = layout.body;
    if screen.zoom {
        pane(pen, body, screen.focus, state, screen, run, seen);
    } else if body.width >= SPLIT {
        let left = (body.width * 9 / 20).clamp(46, 84);
        let divider = columns(body, left, 1);
        for y in 0..body.height {
            pen.put(divider, 0, y, pen.symbols().divider(), Role::Rule);
        }
        left_side(pen, columns(body, 0, left), state, screen, run, seen);
        pane(pen, columns(body, left + 1, body.width), Pane::Result, state, screen, run, seen);
    } else if screen.focus == Pane::Result {
        pane(pen, body, Pane::Result, state, screen, run, seen);
    } else {
        left_side(pen, body, state, screen, run, seen);
    }
}

/// Tasks above, log below; only the one with the focus where there is no room for both.
fn left_side(pen: &mut Pen<'_>, area: Rect, state: &State, screen: &RunScreen, run: &Run, seen: &mut Seen) {
    if area.height < 12 {
        let focus = if screen.focus == Pane::Log { Pane::Log } else { Pane::Tasks };
        pane(pen, area, focus, state, screen, run, seen);
        return;
    }
    let upper = area.height * 3 / 5;
    pane(pen, rows(area, 0, upper - 1), Pane::Tasks, state, screen, run, seen);
    pane(pen, rows(area, upper, area.height), Pane::Log, state, screen, run, seen);
}

fn pane(
    pen: &mut Pen<'_>,
    area: Rect,
    which: Pane,
    state: &State,
    screen: &RunScreen,
    run: &Run,
    seen: &mut Seen,
) {
    match which {
        Pane::Tasks => tasks(pen, area, state, screen, run, seen),
        Pane::Result => result(pen, area, state, screen, run, seen),
        Pane::Log => log::draw(pen, area, state, screen, run, seen),
    }
}

/// Phase and duration, at the right of the path.
fn status(pen: &mut Pen<'_>, area: Rect, state: &State, run: &Run, seen: &mut Seen) {
    let took = duration(run, state, seen);
    let words = match (run.phase, took.is_empty()) {
        (phase, true) => phase.to_string(),
        (Phase::Running, false) => format!("running for {took}"),
        (phase, false) => format!("{phase} after {took}"),
    };
    let text = format!("{} {words}", pen.symbols().phase(run.phase));
    let inner = columns(area, 0, area.width.saturating_sub(1));
    let at = pen.put_right(inner, 0, &text, phase_role(run.phase));
    silence(pen, columns(inner, 0, at.saturating_sub(2)), state, run, seen);
}

/// A run that calls itself running and has shown nothing for long.
fn silence(pen: &mut Pen<'_>, area: Rect, state: &State, run: &Run, seen: &mut Seen) {
    let Some(last) = life::last_sign(&state.store, run) else { return };
    let Some(Sign::Silent(since)) = life::signs(&state.store, run, state.now).first().copied() else {
        let soon = jiff::SignedDuration::from_secs(life::SILENT_AFTER);
        seen.wake_at(last.checked_add(soon).unwrap_or(state.now).max(state.now));
        return;
    };
    let silent = age(since, state.now, seen);
    let text = format!("{} no sign of life for {silent}", pen.symbols().warning());
    // Beside the path of screens, where there is room: else it is what counts.
    let at = area.width.saturating_sub(u16::try_from(width(&text)).unwrap_or(u16::MAX));
    pen.clear(columns(area, at.saturating_sub(2), area.width));
    pen.put_right(area, 0, &text, Role::Warning);
}

/// What ARA does not tell yet, or ever.
fn lag(state: &State, run: &Run) -> Option<String> {
    let results = state.store.results(&run.uid).and_then(|e| e.results.as_ref());
    if results.is_some_and(|r| r.truncated) {
        return Some(format!("only {} results are read, the oldest are left out", results?.results.len()));
    }
    life::signs(&state.store, run, state.now).into_iter().find_map(|sign| match sign {
        Sign::AraLags(seconds) => Some(format!("ARA lags by {}", time::short(seconds))),
        Sign::AraOpen => Some("ARA has it as running: the last results may be missing".to_owned()),
        Sign::Silent(_) => None,
    })
}

/// Stages at the left, counts at the right.
fn summary(pen: &mut Pen<'_>, area: Rect, state: &State, run: &Run, seen: &mut Seen) {
    if area.height == 0 {
        return;
    }
    let counted = counts(state, run);
    let results = state.store.results(&run.uid).and_then(|r| r.results.as_deref());
    let stages = stages(run, results, state.store.milestones(&run.uid), state.now);
    if run.phase == Phase::Pending || stages.iter().any(|s| s.running) {
        seen.wake_at(next_second(state));
    }
    let bars = area.width >= 110;
    let counted = if area.width > 60 { counted } else { Vec::new() };
    let wide: usize = counted.iter().map(|(text, _)| width(text) + 2).sum();
    let counts_at = area.width.saturating_sub(u16::try_from(wide).unwrap_or(u16::MAX));
    let whole = longest(&stages);
    // What is recorded nowhere is no stage once a later one has begun.
    let begun = stages.iter().rposition(|s| s.milliseconds.is_some()).unwrap_or(0);
    let known = stages.iter().enumerate().filter(|(at, s)| *at > begun || s.milliseconds.is_some());
    let stages: Vec<&Stage> = known.map(|(_, stage)| stage).collect();
    let mut shown: Vec<Vec<Piece>> = stages.iter().map(|s| stage_pieces(pen, s, whole, bars)).collect();
    let long = |pieces: &Vec<Piece>| pieces.iter().map(|p| width(&p.text)).sum::<usize>() + 3;
    // The stages that are over leave first.
    let begun = stages.iter().filter(|s| s.milliseconds.is_some()).count().max(1);
    let mut first = 0;
    while first + 1 < begun && shown.iter().skip(first).map(long).sum::<usize>() > usize::from(counts_at) {
        first += 1;
    }
    let room = columns(area, 0, counts_at.saturating_sub(1));
    let mut x = 1;
    for pieces in shown.drain(first..) {
        x += pen.put_pieces(room, x, 0, &pieces) + 3;
    }
    let mut x = counts_at;
    for (text, role) in &counted {
        x += pen.put(area, x, 0, text, *role) + 2;
    }
}

fn next_second(state: &State) -> jiff::Timestamp {
    let next = state.now.as_second() + 1;
    jiff::Timestamp::from_second(next).unwrap_or(state.now)
}

fn stage_pieces(pen: &Pen<'_>, stage: &Stage, whole: u64, bars: bool) -> Vec<Piece> {
    let piece = |text: String, role: Role| Piece { text, style: pen.style(role) };
    let role = match stage.milliseconds {
        None => Role::Disabled,
        Some(_) if stage.failed => Role::Failed,
        Some(_) if stage.running => Role::Running,
        Some(_) => Role::Muted,
    };
    let mut pieces = vec![piece(stage.name.to_owned(), role)];
    let Some(ms) = stage.milliseconds else { return pieces };
    if bars {
        let eighths = usize::try_from(ms.saturating_mul(8).div_ceil(whole.max(1))).unwrap_or(8).clamp(1, 8);
        pieces.push(piece(format!(" {}", pen.symbols().bar(eighths).repeat(eighths.div_ceil(2))), role));
    }
    let took = if stage.running {
        time::length_so_far(i64::try_from(ms / 1000).unwrap_or(0))
    } else {
        time::length(ms)
    };
    pieces.push(piece(format!(" {took}"), if stage.running { Role::Running } else { Role::Text }));
    if stage.failed {
        pieces.push(piece(format!(" {}", pen.symbols().phase(Phase::Failed)), Role::Failed));
    }
    pieces
}

fn counts(state: &State, run: &Run) -> Vec<(String, Role)> {
    let Some(counts) = run_counts(run, state) else { return Vec::new() };
    let all = [
        ("ok", counts.ok, Role::Ok, true),
        ("changed", counts.changed, Role::Changed, true),
        ("unreachable", counts.unreachable, Role::Unreachable, false),
        ("failed", counts.failed, Role::Failed, true),
        ("rescued", counts.rescued, Role::Rescued, false),
        ("ignored", counts.ignored, Role::Ignored, false),
        ("skipped", counts.skipped, Role::Skipped, false),
    ];
    let shown = all.into_iter().filter(|(_, n, _, always)| *always || *n > 0);
    shown
        .map(|(name, n, role, _)| (format!("{name} {n:>2}"), if n > 0 { role } else { Role::Muted }))
        .collect()
}

fn tasks(pen: &mut Pen<'_>, area: Rect, state: &State, screen: &RunScreen, run: &Run, seen: &mut Seen) {
    let head = rows(area, 0, 1);
    let focused = screen.focus == Pane::Tasks;
    pen.put(head, 1, 0, "TASKS", if focused { Role::Tab } else { Role::Heading });
    let entry = state.store.results(&run.uid);
    let right = columns(head, 0, head.width.saturating_sub(1));
    match entry.and_then(|e| e.problem.as_ref()) {
        Some(problem) => {
            let room = usize::from(head.width.saturating_sub(9));
            pen.put_right(right, 0, &cut_end(&problem.text, room, pen.symbols().ellipsis()), Role::Error);
        }
        None => {
            let warning = lag(state, run).map(|text| format!("{} {text}", pen.symbols().warning()));
            let at = pen.put_right(right, 0, &looked_at(screen), Role::Key);
            if let Some(text) = warning {
                let left = columns(right, 8, at.saturating_sub(10));
                let text = cut_end(&text, usize::from(left.width), pen.symbols().ellipsis());
                pen.put_right(left, 0, &text, Role::Warning);
            }
        }
    }
    let list = rows(area, 1, area.height);
    let page = usize::from(list.height);
    let top = screen.window(page);
    (seen.tasks.top, seen.tasks.page) = (top, page);
    seen.regions.push(super::table::region(list, Hit::Tasks(top)));
    if screen.rows().is_empty() {
        no_tasks(pen, list, state, screen, run);
    }
    for (y, at) in (0..list.height).zip(top..) {
        let Some(row) = screen.rows().get(at) else { break };
        draw_task(pen, rows(list, y, 1), row, at == screen.position(), focused, screen.tree().host_width);
    }
}

/// Which tasks are shown and how, unless it is all of them as they ran.
fn looked_at(screen: &RunScreen) -> String {
    let (look, hidden) = (screen.look(), screen.tree().hidden);
    let mut said = Vec::new();
    if look.slowest {
        said.push("slowest first".to_owned());
    }
    if look.order.filters() || look.order != Order::Ran && !look.slowest {
        said.push(look.order.words().to_owned());
    }
    if hidden > 0 {
        said.push(format!("{hidden} hidden"));
    }
    if let Some((place, count)) = screen.search.task_hit {
        let needle = super::text::harmless(screen.search.needle.text());
        said.push(format!("/{needle} {place} of {count}"));
    }
    said.join(", ")
}

fn no_tasks(pen: &mut Pen<'_>, area: Rect, state: &State, screen: &RunScreen, run: &Run) {
    let entry = state.store.results(&run.uid);
    let text = if screen.tree().hidden > 0 {
        if screen.look().order == Order::OnlyChanged { "nothing changed" } else { "nothing failed" }
    } else if matches!(state.store.health(BackEnd::Ara), Health::Unused) {
        "no ARA in this environment: the log has everything"
    } else if matches!(run.phase, Phase::Pending | Phase::Rejected) {
        "nothing has run"
    } else if run.is_over() && entry.is_some_and(|e| e.complete) {
        "nothing was recorded"
    } else if run.is_over() {
        "reading what was recorded"
    } else {
        "waiting for the first task"
    };
    pen.put(area, 3, 0, text, Role::Muted);
}

fn draw_task(pen: &mut Pen<'_>, line: Rect, row: &TaskRow, selected: bool, focused: bool, hosts: usize) {
    let symbols = pen.symbols();
    if selected {
        pen.put(line, 0, 0, symbols.marker(), if focused { Role::Marker } else { Role::Muted });
    }
    let took = time::length(row.duration_ms);
    let (state_text, state_role, name, name_role) = match &row.kind {
        RowKind::Group { label, tasks, open } => {
            let noun = if *tasks == 1 { "task" } else { "tasks" };
            (format!("{tasks} {noun}"), Role::Muted, format!("{} {label}", symbols.fold(*open)), Role::Strong)
        }
        RowKind::Task { name, .. } => {
            (row.status.as_str().to_owned(), status_role(row.status), name.clone(), Role::Text)
        }
    };
    let x = 1 + row.depth * 2;
    pen.put(line, x, 0, symbols.status(row.status), status_role(row.status));
    let right = line.width.saturating_sub(1);
    let time_at = right.saturating_sub(7);
    let mut state_at = time_at.saturating_sub(13);
    let mut name_end = state_at;
    if hosts > 0 && line.width < NARROW {
        // The symbol says how it ended.
        (state_at, name_end) = (time_at, time_at);
    }
    if let RowKind::Task { host: Some(host), .. } = &row.kind {
        // At most a third: the name of the task counts more.
        let wide = u16::try_from(hosts).unwrap_or(u16::MAX).min(line.width / 3);
        name_end = name_end.saturating_sub(wide + 1);
        let host = cut_middle(&super::text::harmless(host), usize::from(wide), symbols.ellipsis());
        pen.put(columns(line, name_end, wide), 0, 0, &host, Role::Muted);
    }
    let room = usize::from(name_end.saturating_sub(x + 3));
    let name = cut_end(&super::text::harmless(&name), room, symbols.ellipsis());
    let role = match (selected, focused) {
        (true, true) => Role::Selection,
        (true, false) => Role::SelectionDim,
        (false, _) => name_role,
    };
    pen.put(line, x + 2, 0, &name, role);
    if state_at < time_at {
        pen.put_right(columns(line, state_at, 12), 0, &state_text, state_role);
    }
    pen.put_right(columns(line, time_at, 7), 0, &took, Role::Muted);
}

fn result(pen: &mut Pen<'_>, area: Rect, state: &State, screen: &RunScreen, run: &Run, seen: &mut Seen) {
    let area = columns(area, 1, area.width.saturating_sub(2));
    let focused = screen.focus == Pane::Result;
    let title_role = if focused { Role::Tab } else { Role::Strong };
    let task = match screen.shown {
        Shown::Result(id) => state
            .store
            .results(&run.uid)
            .and_then(|e| e.results.as_ref())
            .and_then(|r| r.results.iter().find(|t| t.id == id)),
        Shown::Overview => None,
    };
    let mut y = 1;
    if let Some(task) = task {
        let title = tasks::title(task);
        let status = task.status.as_str();
        let room = usize::from(area.width).saturating_sub(width(status) + 2);
        let title = cut_end(&super::text::harmless(&title), room, pen.symbols().ellipsis());
        pen.put(area, 0, 0, &title, title_role);
        pen.put_right(area, 0, status, status_role(task.status));
        let at = task.started.map(|at| format!("{}   ", describe::moment(at, state.now, &state.environment)));
        let several = screen.tree().host_width > 0;
        let host = if several { format!("{}   ", task.host) } else { String::new() };
        let attempt = attempt(state, run, task.playbook);
        let took = time::length(task.duration_ms);
        let line = format!("{host}{}{took}   {}{attempt}", at.unwrap_or_default(), task.action);
        pen.put(area, 0, 1, &line, Role::Muted);
        y = 3;
    } else {
        pen.put(area, 0, 0, "OVERVIEW", if focused { Role::Tab } else { Role::Heading });
    }
    let text = rows(area, y, area.height);
    let found = Some(&screen.search.needle).filter(|n| !n.is_empty()).map(|n| (n, screen.search.result_hit));
    seen.result = doc::draw(pen, text, screen.doc(), screen.result_top, found);
    screen.doc().changes.inspect(|at| seen.wake_at(*at));
    if let Some((needle, last)) = found {
        let hits: Vec<usize> =
            screen.doc().lines.iter().enumerate().filter(|(_, l)| l.has(needle)).map(|(at, _)| at).collect();
        let place = last.and_then(|last| hits.binary_search(&last).ok());
        let place = place.map_or_else(String::new, |at| format!("{} of ", at + 1));
        let text = format!("/{} {place}{}", super::text::harmless(needle.text()), hits.len());
        pen.put_right(rows(area, y.saturating_sub(1), 1), 0, &text, Role::Key);
    }
    fetching(pen, rows(area, 1, 1), state, screen, seen);
}

/// Which attempt it was, where there were several.
fn attempt(state: &State, run: &Run, playbook: u64) -> String {
    let playbooks = state.store.results(&run.uid).and_then(|e| e.results.as_ref()).map(|r| &r.playbooks);
    let of = |list: &Vec<_>| {
        let at = list.iter().position(|p: &Playbook| p.id == playbook)? + 1;
        (list.len() > 1).then(|| format!("   attempt {at} of {}", list.len()))
    };
    playbooks.and_then(of).unwrap_or_default()
}

/// The wait for a result shows itself where the result will be.
fn fetching(pen: &mut Pen<'_>, area: Rect, state: &State, screen: &RunScreen, seen: &mut Seen) {
    let Shown::Result(id) = screen.shown else { return };
    let awaited = |e: &Effect| matches!(e, Effect::FetchResult { result, .. } if *result == id);
    if let Some(flight) = state.in_flight.iter().find(|f| awaited(&f.effect))
        && let Some(picture) = spinner(pen, flight.since, state.now, seen)
    {
        pen.put_right(area, 0, &format!("{picture} fetching"), Role::Running);
    }
}
