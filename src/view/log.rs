//! A pod's log: the rows of the window only, colours kept, everything else made harmless.

use ratatui::layout::Rect;

use super::pen::{Pen, columns, rows};
use super::text::{Piece, cut_end, foreign, width};
use crate::app::log::{LogBuffer, LogRow};
use crate::app::screens::run::{Pane, RunScreen};
use crate::app::{PaneSeen, Seen, State};
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
    heading(pen, rows(area, 0, 1), screen, log);
    let body = rows(area, 1, area.height);
    let page = usize::from(body.height);
    let Some(log) = log.filter(|l| !l.is_empty()) else {
        let (text, role) = nothing(run, log);
        pen.put(
            body,
            1,
            0,
            &cut_end(&text, usize::from(body.width.saturating_sub(2)), pen.symbols().ellipsis()),
            role,
        );
        seen.log = PaneSeen { top: 0, page };
        return;
    };
    let last = log.end().saturating_sub(page as u64).max(log.dropped());
    let top = if screen.follow { last } else { screen.log_top.clamp(log.dropped(), last) };
    seen.log = PaneSeen { top: usize::try_from(top).unwrap_or(usize::MAX), page };
    for (y, number) in (0..body.height).zip(top..) {
        let Some(row) = log.row(number) else { break };
        let line = rows(columns(body, 1, body.width.saturating_sub(1)), y, 1);
        draw_row(pen, line, row, screen, screen.search.log_hit == Some(number));
    }
}

fn heading(pen: &mut Pen<'_>, area: Rect, screen: &RunScreen, log: Option<&LogBuffer>) {
    let focused = screen.focus == Pane::Log;
    let x = 1 + pen.put(area, 1, 0, "LOG", if focused { Role::Tab } else { Role::Heading }) + 2;
    let mut said = Vec::new();
    if let Some(log) = log {
        if let Some(problem) = &log.problem {
            pen.put(area, x, 0, &problem.text, Role::Error);
            return;
        }
        if log.dropped() > 0 {
            said.push(format!("{} older lines dropped", log.dropped()));
        }
        said.push(
            if log.ended {
                "ended"
            } else if screen.follow {
                "following"
            } else {
                "paused"
            }
            .to_owned(),
        );
    }
    if !screen.search.needle.is_empty() {
        said.push(format!("/{}", screen.search.needle));
    }
    let room = usize::from(area.width.saturating_sub(x + 1));
    let text = cut_end(&said.join("  "), room, pen.symbols().ellipsis());
    pen.put_right(columns(area, 0, area.width.saturating_sub(1)), 0, &text, Role::Muted);
}

fn nothing(run: &Run, log: Option<&LogBuffer>) -> (String, Role) {
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

fn draw_row(pen: &mut Pen<'_>, line: Rect, row: &LogRow, screen: &RunScreen, hit: bool) {
    let pieces = match row {
        LogRow::Attempt(attempt) => {
            let rule = pen.symbols().rule().repeat(3);
            pen.put(line, 0, 0, &format!("{rule} attempt {attempt} {rule}"), Role::Heading);
            return;
        }
        LogRow::Line(text) => {
            let base = pen.style(if hit { Role::Match } else { Role::Text });
            foreign(&String::from_utf8_lossy(&text.bytes), base, pen.theme)
        }
    };
    let pieces = scrolled(pieces, screen.log_left);
    let used = pen.put_pieces(line, 0, 0, &pieces);
    let cut = pieces.iter().map(|p| width(&p.text)).sum::<usize>() > usize::from(line.width);
    if cut && used > 0 {
        pen.put(line, line.width.saturating_sub(1), 0, pen.symbols().ellipsis(), Role::Muted);
    }
}

/// The pieces without their first columns.
fn scrolled(pieces: Vec<Piece>, skip: usize) -> Vec<Piece> {
    if skip == 0 {
        return pieces;
    }
    let mut left = skip;
    let mut out = Vec::new();
    for mut piece in pieces {
        let wide = width(&piece.text);
        if wide <= left {
            left -= wide;
            continue;
        }
        let mut kept = String::new();
        for c in unicode_segmentation::UnicodeSegmentation::graphemes(piece.text.as_str(), true) {
            if left == 0 {
                kept.push_str(c);
            } else {
                left = left.saturating_sub(width(c));
            }
        }
        piece.text = kept;
        out.push(piece);
    }
    out
}
