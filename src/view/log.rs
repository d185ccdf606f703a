//! A pod's log: the rows of the window only, colours kept, everything else made harmless.

use jiff::Timestamp;
use ratatui::layout::Rect;

use super::pen::{Pen, columns, rows};
use super::text::{Piece, chop, cut_end, highlight, width, window_of};
use super::words::spinner;
use crate::app::log::{Heading, Line, LogBuffer, LogRow};
use crate::app::screens::logview::{LogView, Only, Times};
use crate::app::screens::run::{Pane, RunScreen};
use crate::app::table::window;
use crate::app::{Effect, PaneSeen, Seen, State};
use crate::config::Role;
use crate::domain::{Phase, Run};

/// Draws heading and log.
pub(crate) fn draw(
    pen: &mut Pen<'_>,
    area: Rect,
    state: &State,
    screen: &RunScreen,
    run: &Run,
    seen: &mut Seen,
) {
    if area.height == 0 {
        return;
    }
    let log = state.store.log(&screen.uid);
    heading(pen, rows(area, 0, 1), state, screen, log, seen);
    let body = rows(area, 1, area.height);
    let page = usize::from(body.height);
    let (Some(log), view) = (log.filter(|l| !screen.log.is_empty(l)), &screen.log) else {
        let (text, role) = nothing(run, log, screen.log.only());
        let text = cut_end(&text, usize::from(body.width.saturating_sub(2)), pen.symbols().ellipsis());
        pen.put(body, 1, 0, &text, role);
        seen.log = PaneSeen { top: 0, page };
        return;
    };
    if !view.search.is_done() && !view.search.needle().is_empty() {
        // The next part of the log is looked through before the next frame.
        seen.wake_at(state.now);
    }
    let sheet = Sheet::new(body, state, screen, log);
    let (top, skip) = sheet.top(pen, page);
    let row = view.row(log, top).unwrap_or(log.first());
    seen.log = PaneSeen { top: usize::try_from(row).unwrap_or(usize::MAX), page };
    sheet.draw(pen, body, top, skip);
}

fn heading(
    pen: &mut Pen<'_>,
    area: Rect,
    state: &State,
    screen: &RunScreen,
    log: Option<&LogBuffer>,
    seen: &mut Seen,
) {
    let focused = screen.focus == Pane::Log;
    let x = 1 + pen.put(area, 1, 0, "LOG", if focused { Role::Tab } else { Role::Heading }) + 2;
    let inner = columns(area, 0, area.width.saturating_sub(1));
    let room = usize::from(area.width.saturating_sub(x + 1));
    let ellipsis = pen.symbols().ellipsis();
    if let Some(text) = saving(pen, state, screen, seen) {
        pen.put_right(inner, 0, &cut_end(&text, room, ellipsis), Role::Running);
        return;
    }
    let Some(log) = log else { return };
    if let Some(problem) = &log.problem {
        pen.put(area, x, 0, &cut_end(&problem.text, room, ellipsis), Role::Error);
        return;
    }
    let said: Vec<(String, Role)> = said(&screen.log, log, screen.search.missed);
    let wide: usize = said.iter().map(|(text, _)| width(text) + 2).sum::<usize>().saturating_sub(2);
    // What stands last counts most: the beginning is cut.
    let mut at = i32::from(inner.width) - i32::try_from(wide).unwrap_or(i32::MAX);
    for (text, role) in said {
        let taken = i32::try_from(width(&text)).unwrap_or(i32::MAX);
        if let Ok(column) = u16::try_from(at)
            && column >= x
        {
            pen.put(inner, column, 0, &text, role);
        }
        at = at.saturating_add(taken + 2);
    }
}

/// How far the saving of the log has come.
fn saving(pen: &Pen<'_>, state: &State, screen: &RunScreen, seen: &mut Seen) -> Option<String> {
    let saves = |e: &Effect| matches!(e, Effect::SaveLog { run, .. } if run.uid == screen.uid);
    let flight = state.in_flight.iter().find(|f| saves(&f.effect))?;
    let picture = spinner(pen, flight.since, state.now, seen)?;
    let key = state.keymap.key_text(state.scope(), crate::config::Action::Interrupt);
    let how = if flight.cancelled { "cancelling".to_owned() } else { format!("{key} cancels") };
    Some(format!("{picture} saving {}  {how}", flight.progress))
}

/// What is said of the log beside its heading, what counts most last.
fn said(view: &LogView, log: &LogBuffer, missed: bool) -> Vec<(String, Role)> {
    let mut said = Vec::new();
    if log.dropped() > 0 {
        let noun = if log.dropped() == 1 { "line" } else { "lines" };
        said.push((format!("{} older {noun} dropped", log.dropped()), Role::Muted));
    }
    let needle = view.search.needle();
    if !needle.is_empty() {
        let count = view.search.count();
        let more = if view.search.is_done() { "" } else { "+" };
        let place = view.cursor_row(log).and_then(|row| view.search.place(row));
        let found = match place {
            _ if count == 0 && missed => "nowhere".to_owned(),
            Some(place) => format!("{place} of {count}{more}"),
            None => format!("{count}{more}"),
        };
        said.push((format!("/{} {found}", super::text::harmless(needle.text())), Role::Key));
    }
    match view.only() {
        Only::All => {}
        Only::Host(host) => {
            let name = usize::from(host).checked_sub(1).and_then(|at| log.hosts().get(at));
            let name = name.map_or_else(String::new, |name| super::text::harmless(name).into_owned());
            said.push((format!("only {name}"), Role::Key));
        }
        Only::Section(number) => {
            let name = match log.section(number).map(|s| &s.heading) {
                Some(Heading::Task(name)) => super::text::harmless(name).into_owned(),
                _ => "one part".to_owned(),
            };
            said.push((format!("only {name}"), Role::Key));
        }
    }
    said.push(match (view.follows(), log.ended, view.behind(log)) {
        (_, true, _) => ("ended".to_owned(), Role::Muted),
        (true, ..) => ("following".to_owned(), Role::Muted),
        (false, _, 0) => ("paused".to_owned(), Role::Warning),
        (false, _, new) => (format!("paused, {new} new"), Role::Warning),
    });
    said
}

fn nothing(run: &Run, log: Option<&LogBuffer>, only: Only) -> (String, Role) {
    if log.is_some_and(|l| !l.is_empty()) && only != Only::All {
        return ("no line of it is kept any more".to_owned(), Role::Muted);
    }
    if let Some(reason) = log.and_then(|l| l.waiting.as_ref()) {
        return (reason.clone(), Role::Muted);
    }
    if log.is_some_and(|l| l.ended) {
        return ("the pod wrote nothing".to_owned(), Role::Muted);
    }
    let text = match run.phase {
        Phase::Pending => "no pod: the host waits for a decision",
        Phase::Rejected => "no pod: the host was rejected",
        Phase::Queued => "no pod yet",
        _ => "waiting for the log",
    };
    (text.to_owned(), Role::Muted)
}

/// The log as it is laid out in an area.
struct Sheet<'a> {
    state: &'a State,
    log: &'a LogBuffer,
    view: &'a LogView,
    /// How many columns the times take.
    times: usize,
    /// How many columns are left for the text.
    columns: usize,
    /// No row takes more lines than this.
    page: usize,
    /// The pane has the focus.
    focused: bool,
}

impl<'a> Sheet<'a> {
    fn new(body: Rect, state: &'a State, screen: &'a RunScreen, log: &'a LogBuffer) -> Self {
        let times = match screen.log.times {
            Times::Off => 0,
            Times::Clock => width("13:12:07 "),
            Times::Since => width("+1:02:03 "),
        };
        // Where there is no room for both the text counts.
        let room = usize::from(body.width.saturating_sub(1));
        let times = if times + 10 > room { 0 } else { times };
        Self {
            state,
            log,
            view: &screen.log,
            times,
            columns: room - times,
            page: usize::from(body.height),
            focused: screen.focus == Pane::Log,
        }
    }

    /// The place of the first row of the window, and how many of its lines are above it.
    fn top(&self, pen: &Pen<'_>, page: usize) -> (usize, usize) {
        let (len, cursor) = (self.view.len(self.log), self.view.cursor(self.log));
        let old = self.view.place(self.log, self.view.top);
        if self.view.follows() {
            return self.ending(pen, len.saturating_sub(1), page);
        }
        if !self.view.wrap {
            return (window(old, cursor, page, len), 0);
        }
        if old <= cursor
            && (old..=cursor).map(|at| self.height(pen, at)).scan(0, add_up).all(|sum| sum <= page)
        {
            return (old, 0);
        }
        let (top, _) = self.ending(pen, cursor, page.div_ceil(2));
        (top.min(cursor), 0)
    }

    /// Where the window begins whose last line is that of this row.
    fn ending(&self, pen: &Pen<'_>, last: usize, page: usize) -> (usize, usize) {
        let mut used = 0;
        for at in (0..=last).rev() {
            used += self.height(pen, at);
            if used >= page {
                return (at, used - page);
            }
        }
        (0, 0)
    }

    fn height(&self, pen: &Pen<'_>, place: usize) -> usize {
        if !self.view.wrap {
            return 1;
        }
        match self.view.row(self.log, place).and_then(|row| self.log.row(row)) {
            // What fits by its bytes fits by its columns, but for tabs and what is made visible.
            Some(LogRow::Line(line)) if line.state.len() * 8 <= self.columns => 1,
            Some(LogRow::Line(line)) => self.lines(pen, &line).len(),
            _ => 1,
        }
    }

    /// The lines that a row takes.
    fn lines(&self, pen: &Pen<'_>, line: &Line<'_>) -> Vec<Vec<Piece>> {
        let base = pen.style(Role::Text);
        let needle = self.view.search.needle();
        let found = !needle.is_empty() && needle.is_in(line.state.get(..FOUND_IN).unwrap_or(line.state));
        let marked = |pieces| if found { highlight(pieces, needle, pen.style(Role::Match)) } else { pieces };
        if self.view.wrap {
            let most = self.columns.saturating_mul(self.page.max(1));
            let (pieces, more) = window_of(line.state, 0, most, base, pen.theme);
            let mut lines = chop(&marked(pieces), self.columns, self.page.max(1));
            if more && let Some(last) = lines.last_mut() {
                last.push(Piece { text: pen.symbols().ellipsis().to_owned(), style: pen.style(Role::Muted) });
            }
            return lines;
        }
        let (left, columns) = (self.view.left, self.columns);
        if !found {
            let (mut pieces, more) = window_of(line.state, left, columns, base, pen.theme);
            if more {
                pieces = self.cut(pen, line, left, base);
            }
            return vec![pieces];
        }
        // A match may begin before the window, or end behind it.
        let reach = left + columns + needle.text().len();
        let (pieces, _) = window_of(line.state, 0, reach, base, pen.theme);
        vec![self.shown(pen, marked(pieces), left)]
    }

    /// A line that does not fit: its last column says so.
    fn cut(&self, pen: &Pen<'_>, line: &Line<'_>, left: usize, base: ratatui::style::Style) -> Vec<Piece> {
        let ellipsis = pen.symbols().ellipsis();
        let room = self.columns.saturating_sub(width(ellipsis));
        let (mut pieces, _) = window_of(line.state, left, room, base, pen.theme);
        let used: usize = pieces.iter().map(|p| width(&p.text)).sum();
        pieces.push(Piece { text: " ".repeat(room.saturating_sub(used)), style: base });
        pieces.push(Piece { text: ellipsis.to_owned(), style: pen.style(Role::Muted) });
        pieces
    }

    /// What of pieces stands in the window.
    fn shown(&self, pen: &Pen<'_>, pieces: Vec<Piece>, left: usize) -> Vec<Piece> {
        let ellipsis = pen.symbols().ellipsis();
        let all: usize = pieces.iter().map(|p| width(&p.text)).sum();
        let more = all > left + self.columns;
        let last = left + if more { self.columns.saturating_sub(width(ellipsis)) } else { self.columns };
        let mut column = 0;
        let mut out: Vec<Piece> = Vec::new();
        for piece in pieces {
            let mut text = String::new();
            for cell in unicode_segmentation::UnicodeSegmentation::graphemes(piece.text.as_str(), true) {
                let (from, to) = (column, column + width(cell));
                column = to;
                if to > left && to <= last {
                    text.push_str(if from < left { " " } else { cell });
                }
            }
            out.push(Piece { text, style: piece.style });
        }
        if more {
            out.push(Piece { text: ellipsis.to_owned(), style: pen.style(Role::Muted) });
        }
        out
    }

    fn draw(&self, pen: &mut Pen<'_>, body: Rect, top: usize, skip: usize) {
        let cursor = self.view.cursor(self.log);
        let (mut y, mut skip, mut place) = (0, skip, top);
        while y < body.height {
            let Some(row) = self.view.row(self.log, place).and_then(|row| self.log.row(row)) else { break };
            let begin = y;
            match row {
                LogRow::Attempt(attempt) => {
                    let rule = pen.symbols().rule().repeat(3);
                    let text = format!("{rule} attempt {attempt} {rule}");
                    pen.put(rows(body, y, 1), 1, 0, &text, Role::Heading);
                    y += 1;
                }
                LogRow::Line(line) => {
                    let at = u16::try_from(self.times).unwrap_or(0) + 1;
                    if self.times > 0 && skip == 0 {
                        pen.put(rows(body, y, 1), 1, 0, &self.time(&line), Role::Muted);
                    }
                    for pieces in self.lines(pen, &line).into_iter().skip(skip) {
                        pen.put_pieces(rows(body, y, 1), at, 0, &pieces);
                        y = y.saturating_add(1);
                    }
                }
            }
            if place == cursor {
                let role = if self.focused { Role::Marker } else { Role::Muted };
                // A log that is not looked at has no cursor.
                if self.focused || !self.view.follows() {
                    let marker = pen.symbols().marker();
                    pen.put(rows(body, begin, 1), 0, 0, marker, role);
                }
            }
            (skip, place) = (0, place + 1);
        }
    }

    fn time(&self, line: &Line<'_>) -> String {
        let Some(at) = line.at else { return String::new() };
        if self.view.times == Times::Clock {
            let zone = self.state.environment.zone.clone();
            return at.to_zoned(zone).strftime("%H:%M:%S").to_string();
        }
        since(self.start(line).unwrap_or(at), at)
    }

    /// When the attempt began that a line belongs to: as far as is known, the newest or the first.
    fn start(&self, line: &Line<'_>) -> Option<Timestamp> {
        let (first, newest) = self.log.milestones();
        newest.first.filter(|from| line.at.is_some_and(|at| at >= *from)).or(first.first)
    }
}

/// What of a line is searched when it is drawn: what can be on screen.
const FOUND_IN: usize = 16 * 1024;

fn add_up(sum: &mut usize, height: usize) -> Option<usize> {
    *sum += height;
    Some(*sum)
}

/// `+1:02`, `+1:02:03`.
fn since(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs().max(0);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("+{hours}:{minutes:02}:{seconds:02}") } else { format!("+{minutes}:{seconds:02}") }
}
