//! Texts to read: wrapped and coloured by what each line is.

use ratatui::layout::Rect;

use super::pen::{Pen, rows};
use super::text::{Piece, cut_end, foreign, harmless, highlight, width, wrap};
use super::words::phase_role;
use crate::app::PaneSeen;
use crate::app::document::{Bar, Document, Line, LineKind};
use crate::config::Role;
use crate::domain::text::Needle;

/// Labels share a column that is at most so wide.
const LABEL: usize = 20;
/// What the label of a bar may ask for.
const SHORT_LABEL: usize = 12;

/// Draws a document from its line `top` on ([`crate::app::document::END`]: so that its end is seen). `found` is what is searched for,
/// and the line that was found last. Returns what is seen of it.
pub(crate) fn draw(
    pen: &mut Pen<'_>,
    area: Rect,
    doc: &Document,
    top: usize,
    found: Option<(&Needle, Option<usize>)>,
) -> PaneSeen {
    let page = usize::from(area.height);
    if area.is_empty() || doc.lines.is_empty() {
        return PaneSeen { top: 0, page };
    }
    let labels = label_width(doc, usize::from(area.width));
    let columns = usize::from(area.width);
    let lines = |pen: &Pen<'_>, at: usize| {
        doc.lines.get(at).map(|line| cells(pen, line, labels, columns, found, at)).unwrap_or_default()
    };
    let last = last_top(pen, doc, page, &lines);
    let top = top.min(last);
    let mut y = 0;
    let mut at = top;
    while y < area.height && at < doc.lines.len() {
        for line in lines(pen, at) {
            pen.put_pieces(rows(area, y, 1), 0, 0, &line);
            y += 1;
        }
        at += 1;
    }
    PaneSeen { top, page }
}

/// The last line that may stand at the top: from there on everything just fits.
fn last_top(
    pen: &Pen<'_>,
    doc: &Document,
    page: usize,
    lines: &dyn Fn(&Pen<'_>, usize) -> Vec<Vec<Piece>>,
) -> usize {
    let mut used = 0;
    for at in (0..doc.lines.len()).rev() {
        used += lines(pen, at).len();
        if used > page {
            return (at + 1).min(doc.lines.len() - 1);
        }
    }
    0
}

fn label_width(doc: &Document, columns: usize) -> usize {
    let wide = |line: &Line| match line.kind {
        // What others called their plays must not push everything aside.
        LineKind::Bar(_) => width(&line.label).min(SHORT_LABEL),
        _ => width(&line.label),
    };
    let widest = doc.lines.iter().map(wide).filter(|w| *w <= LABEL).max().unwrap_or(0);
    widest.min(columns / 3)
}

/// A span of time: label, bar, symbol and text, in one line.
fn bar(
    pen: &Pen<'_>,
    line: &Line,
    bar: Bar,
    labels: usize,
    columns: usize,
    found: Option<(&Needle, Option<usize>)>,
) -> Vec<Piece> {
    let symbols = pen.symbols();
    let piece = |text: String, role: Role| Piece { text, style: pen.style(role) };
    let pad = |text: &str, columns: usize| " ".repeat(columns.saturating_sub(width(text)));
    let label = harmless(&line.label);
    let label =
        if bar.here { format!("{}{}", symbols.marker(), label.trim_start()) } else { label.into_owned() };
    let label = cut_end(&label, labels, symbols.ellipsis());
    let wide = (columns.saturating_sub(labels + 2) / 4).clamp(4, 24);
    let span = if bar.part > 0 { symbols.span(bar.part, wide) } else { String::new() };
    let (symbol, role) = match bar.phase {
        Some(phase) => (symbols.phase(phase), phase_role(phase)),
        None => (" ", Role::Muted),
    };
    let room = columns.saturating_sub(labels + wide + 5);
    let text = cut_end(&harmless(&line.text), room, symbols.ellipsis());
    let mut text = vec![piece(text, if bar.here { Role::Strong } else { Role::Text })];
    if let Some((needle, _)) = found.filter(|(needle, _)| line.has(needle)) {
        text = highlight(text, needle, pen.style(Role::Match));
    }
    let mut out = vec![
        piece(format!("{label}{}  ", pad(&label, labels)), if bar.here { Role::Strong } else { Role::Muted }),
        piece(format!("{span}{} ", pad(&span, wide)), role),
        piece(format!("{symbol} "), role),
    ];
    out.extend(text);
    out
}

fn cells(
    pen: &Pen<'_>,
    line: &Line,
    labels: usize,
    columns: usize,
    found: Option<(&Needle, Option<usize>)>,
    at: usize,
) -> Vec<Vec<Piece>> {
    if let LineKind::Bar(span) = line.kind {
        return vec![bar(pen, line, span, labels, columns, found)];
    }
    let role = match line.kind {
        LineKind::Text | LineKind::Foreign | LineKind::Key | LineKind::Bar(_) => Role::Text,
        LineKind::Heading => Role::Heading,
        LineKind::Title => Role::Strong,
        LineKind::Muted => Role::Muted,
        LineKind::Problem => Role::Error,
        LineKind::Warning => Role::Warning,
        LineKind::Added => Role::Added,
        LineKind::Removed => Role::Removed,
        LineKind::Hunk => Role::Hunk,
        LineKind::KeyOff => Role::Disabled,
    };
    let style = pen.style(role);
    let text = match line.kind {
        LineKind::Heading => line.text.to_uppercase(),
        LineKind::Warning => format!("{} {}", pen.symbols().warning(), line.text),
        _ => line.text.clone(),
    };
    let mut pieces = foreign(&text, style, pen.theme);
    if let Some((needle, last)) = found.filter(|(needle, _)| line.has(needle)) {
        let mut style = pen.style(Role::Match);
        if last == Some(at) {
            style = style.add_modifier(ratatui::style::Modifier::UNDERLINED);
        }
        pieces = highlight(pieces, needle, style);
    }
    if line.label.is_empty() {
        return wrap(&pieces, columns);
    }
    let label_role = match line.kind {
        LineKind::Key => Role::Key,
        LineKind::KeyOff => Role::Disabled,
        _ => Role::Muted,
    };
    let label: String = foreign(&line.label, style, pen.theme).into_iter().map(|p| p.text).collect();
    let gap = labels.saturating_sub(width(&label)) + 2;
    let indent = labels + 2;
    let first = Piece { text: format!("{label}{}", " ".repeat(gap)), style: pen.style(label_role) };
    let mut out = wrap(&pieces, columns.saturating_sub(indent.max(width(&first.text))));
    for (at, line) in out.iter_mut().enumerate() {
        let lead =
            if at == 0 { first.clone() } else { Piece { text: " ".repeat(indent), style: first.style } };
        line.insert(0, lead);
    }
    out
}
