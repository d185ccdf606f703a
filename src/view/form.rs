//! Forms: one line a field, what is wrong below it.

use ratatui::layout::Rect;

use super::dialog::frame;
use super::pen::{Pen, rows};
use super::text::{Piece, cut_end, harmless, width, wrap};
use crate::app::form::{Form, FormField};
use crate::config::Role;

/// Draws a form in front of the screen.
pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, form: &Form) {
    let wide = area.width.saturating_sub(4).clamp(1, 84).max(area.width.min(20));
    let inner = usize::from(wide.saturating_sub(6).max(1));
    let (lines, focus) = lines(pen, form, inner);
    let high = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(6);
    let role = if form.warnings.is_empty() { Role::Strong } else { Role::Warning };
    let inside = frame(pen, area, wide, high, &form.title, role);
    let room = inside.height.saturating_sub(1);
    let spare = room.saturating_sub(u16::try_from(lines.len()).unwrap_or(u16::MAX));
    let text = rows(inside, u16::from(spare >= 2), room);
    // Where not all fields have room, the one with the focus is seen.
    let skip =
        (focus + 2).saturating_sub(usize::from(room)).min(lines.len().saturating_sub(usize::from(room)));
    for (y, line) in (0..room).zip(lines.iter().skip(skip)) {
        pen.put_pieces(rows(text, y, 1), 0, 0, line);
    }
    answers(pen, rows(inside, inside.height.saturating_sub(1), 1), form);
}

/// All lines, and the number of the one with the focus.
fn lines(pen: &Pen<'_>, form: &Form, columns: usize) -> (Vec<Vec<Piece>>, usize) {
    let sign = pen.symbols().warning();
    let mut out: Vec<Vec<Piece>> = Vec::new();
    for warning in &form.warnings {
        out.extend(wrap(&[piece(pen, &format!("{sign} {warning}"), Role::Warning)], columns));
    }
    if !out.is_empty() {
        out.push(Vec::new());
    }
    let labels = form.fields.iter().map(|f| width(f.name)).max().unwrap_or(0);
    let mut focus = out.len();
    for (at, field) in form.fields.iter().enumerate() {
        if at == form.focus {
            focus = out.len();
        }
        out.push(field_line(pen, field, labels, at == form.focus, columns));
        if let Some(problem) = &field.problem {
            let text = format!("{:labels$}   {sign} {problem}", "");
            out.extend(wrap(&[piece(pen, &text, Role::Error)], columns));
        }
    }
    if form.focus >= form.fields.len() {
        focus = out.len();
    }
    (out, focus)
}

fn field_line(pen: &Pen<'_>, field: &FormField, labels: usize, focused: bool, columns: usize) -> Vec<Piece> {
    let role = if focused { Role::Strong } else { Role::Muted };
    let mut line = vec![piece(pen, &format!("{:<labels$}   ", field.name), role)];
    let room = columns.saturating_sub(labels + 4);
    let (before, after) = field.input.halves();
    if !focused {
        let text = if field.input.text().is_empty() {
            (field.hint, Role::Disabled)
        } else {
            (field.input.text(), Role::Text)
        };
        line.push(piece(pen, &cut_end(&harmless(text.0), room, pen.symbols().ellipsis()), text.1));
        return line;
    }
    // What stands before the cursor is cut at its beginning: the cursor is always seen.
    let mut shown = before;
    while width(shown) > room {
        shown = shown.char_indices().nth(1).map_or("", |(at, _)| shown.split_at(at).1);
    }
    line.push(piece(pen, shown, Role::Input));
    line.push(piece(pen, pen.symbols().caret(), Role::Marker));
    if before.is_empty() && after.is_empty() {
        line.push(piece(
            pen,
            &cut_end(field.hint, room.saturating_sub(1), pen.symbols().ellipsis()),
            Role::Disabled,
        ));
    } else {
        line.push(piece(pen, &cut_end(&harmless(after), room.saturating_sub(width(shown)), ""), Role::Input));
        if let Some(rest) = field.input.completion(&field.known) {
            let rest = format!("{rest}  (right)");
            let room = room.saturating_sub(width(shown) + 1);
            line.push(piece(pen, &cut_end(&harmless(&rest), room, pen.symbols().ellipsis()), Role::Disabled));
        }
    }
    line
}

fn answers(pen: &mut Pen<'_>, area: Rect, form: &Form) {
    let button = |label: &str, at: usize| {
        let focused = form.focus == at;
        (format!("[ {label} ]"), if focused { Role::ButtonFocus } else { Role::Button })
    };
    let both = [button(form.label, form.fields.len()), button("cancel", form.fields.len() + 1)];
    let wide: usize = both.iter().map(|(text, _)| width(text) + 2).sum();
    let mut x = area.width.saturating_sub(u16::try_from(wide.saturating_sub(2)).unwrap_or(u16::MAX));
    for (text, role) in both {
        x += pen.put(area, x, 0, &text, role) + 2;
    }
}

fn piece(pen: &Pen<'_>, text: &str, role: Role) -> Piece {
    Piece { text: harmless(text).into_owned(), style: pen.style(role) }
}
