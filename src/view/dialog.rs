//! Dialogs: a frame in the middle of the screen, never outside it.

use ratatui::layout::Rect;

use super::doc;
use super::pen::{Pen, rows};
use super::text::{Piece, cut_end, width, wrap};
use crate::app::dialog::{Confirm, Dialog, Palette, PaletteRow, Subject, TextDialog, TextKind, palette_rows};
use crate::app::table::window;
use crate::app::{PaneSeen, Seen, State, permit};
use crate::config::Role;

/// Draws what stands in front.
pub(crate) fn draw(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    match state.dialogs.last() {
        None => {}
        Some(Dialog::Confirm(confirm)) => draw_confirm(pen, area, state, confirm),
        Some(Dialog::Form(form)) => super::form::draw(pen, area, form),
        Some(Dialog::Text(text)) => {
            text.doc.changes.inspect(|at| seen.wake_at(*at));
            seen.dialog = draw_text(pen, area, state, text);
        }
        Some(Dialog::Palette(palette)) => seen.dialog = draw_palette(pen, area, state, palette),
    }
}

/// An empty frame of at most this size in the middle of an area, a title in its upper side. Returns what is inside.
pub(super) fn frame(pen: &mut Pen<'_>, area: Rect, wide: u16, high: u16, title: &str, role: Role) -> Rect {
    let (wide, high) = (wide.min(area.width), high.min(area.height));
    let (x, y) = (area.x + (area.width - wide) / 2, area.y + (area.height - high) * 2 / 5);
    let outer = Rect::new(x, y, wide, high);
    pen.clear(outer);
    if wide < 8 || high < 4 {
        // No room for a frame: the words alone.
        pen.put(outer, 0, 0, title, role);
        return rows(outer, 1, high);
    }
    let [top_left, top_right, bottom_left, bottom_right, across, down] = pen.symbols().frame();
    let line = across.repeat(usize::from(wide - 2));
    pen.put(outer, 0, 0, &format!("{top_left}{line}{top_right}"), Role::Border);
    pen.put(outer, 0, high - 1, &format!("{bottom_left}{line}{bottom_right}"), Role::Border);
    for y in 1..high - 1 {
        pen.put(outer, 0, y, down, Role::Border);
        pen.put(outer, wide - 1, y, down, Role::Border);
    }
    let title = cut_end(&super::text::harmless(title), usize::from(wide - 6), pen.symbols().ellipsis());
    pen.put(outer, 2, 0, &format!(" {title} "), role);
    Rect::new(x + 3, y + 1, wide - 6, high - 2)
}

fn draw_confirm(pen: &mut Pen<'_>, area: Rect, state: &State, confirm: &Confirm) {
    let wide = area.width.saturating_sub(4).clamp(1, 76).max(area.width.min(20));
    let inner = usize::from(wide.saturating_sub(6).max(1));
    let lines = confirm_lines(pen, state, confirm, inner, false);
    let buttons = button_pieces(pen, confirm);
    let button_rows = button_rows(&buttons, inner);
    let below = u16::try_from(button_rows.len()).unwrap_or(1);
    let high = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(below + 5);
    let role = if confirm.warnings.is_empty() { Role::Strong } else { Role::Warning };
    let inside = frame(pen, area, wide, high, &confirm.title, role);
    // The answers are always seen; what is unusual comes first where the text has to give way.
    let room = inside.height.saturating_sub(below);
    let lines =
        if lines.len() > usize::from(room) { confirm_lines(pen, state, confirm, inner, true) } else { lines };
    let spare = room.saturating_sub(u16::try_from(lines.len()).unwrap_or(u16::MAX));
    let text = rows(inside, u16::from(spare >= 2), room);
    for (y, line) in (0..room).zip(&lines) {
        pen.put_pieces(rows(text, y, 1), 0, 0, line);
    }
    let first = room - u16::from(spare >= 3).min(room);
    for (y, row) in (first..).zip(button_rows) {
        let wide: usize = row.iter().map(|b| b.iter().map(|p| width(&p.text)).sum::<usize>() + 2).sum();
        let mut x = inside.width.saturating_sub(u16::try_from(wide.saturating_sub(2)).unwrap_or(u16::MAX));
        for button in row {
            x += pen.put_pieces(rows(inside, y, 1), x, 0, &button) + 2;
        }
    }
}

/// The lines of a question; `tight`: what is unusual and what must be typed first, without empty lines.
fn confirm_lines(
    pen: &Pen<'_>,
    state: &State,
    confirm: &Confirm,
    columns: usize,
    tight: bool,
) -> Vec<Vec<Piece>> {
    let piece = |text: &str, role: Role| Piece {
        text: super::text::harmless(text).into_owned(),
        style: pen.style(role),
    };
    let labels = confirm.fields.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
    let field = |(label, text): &(String, String)| {
        let lead = if labels == 0 { String::new() } else { format!("{label:<labels$}   ") };
        let room = columns.saturating_sub(width(&lead));
        let text = cut_end(&super::text::harmless(text), room, pen.symbols().ellipsis());
        vec![piece(&lead, Role::Muted), piece(&text, Role::Text)]
    };
    let fields: Vec<Vec<Piece>> = confirm.fields.iter().map(field).collect();
    let said = |texts: &mut dyn Iterator<Item = String>, role: Role| {
        texts.flat_map(|text| wrap(&[piece(&text, role)], columns)).collect::<Vec<_>>()
    };
    let notes = said(&mut confirm.notes.iter().cloned(), Role::Text);
    let changed = |s: &&Subject| state.store.run(&s.run.uid).is_none_or(|run| run.digest != s.digest);
    let outdated = confirm.subjects.iter().filter(changed);
    let outdated = outdated.map(|s| format!("{} changed while you look: cancel and look again.", s.run.host));
    let sign = pen.symbols().warning();
    let mut warnings = confirm.warnings.iter().cloned().chain(outdated).map(|text| format!("{sign} {text}"));
    let warnings = said(&mut warnings, Role::Warning);
    let typed = confirm.typed.as_ref().map_or_else(Vec::new, |typed| {
        let mut lines = wrap(&[piece(&format!("Type {} to go on:", typed.expected), Role::Text)], columns);
        let (before, after) = typed.input.halves();
        let role = if typed.matches() { Role::Ok } else { Role::Input };
        let caret = piece(pen.symbols().caret(), Role::Marker);
        lines.push(vec![piece("> ", Role::Muted), piece(before, role), caret, piece(after, role)]);
        lines
    });
    if tight {
        return [typed, warnings, notes, fields].concat();
    }
    let parts = [fields, notes, warnings, typed].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(&Vec::new())
}

fn button_pieces(pen: &Pen<'_>, confirm: &Confirm) -> Vec<Vec<Piece>> {
    let piece = |text: String, role: Role| Piece { text, style: pen.style(role) };
    let typed = confirm.typed.is_some();
    let mut out = Vec::new();
    for (at, button) in confirm.buttons.iter().enumerate() {
        let key = if typed { String::new() } else { format!("{} ", button.key) };
        out.push(if at == confirm.focus {
            vec![piece(format!("[ {key}{} ]", button.label), Role::ButtonFocus)]
        } else {
            vec![
                piece("[ ".to_owned(), Role::Muted),
                piece(key, Role::Key),
                piece(button.label.clone(), Role::Button),
                piece(" ]".to_owned(), Role::Muted),
            ]
        });
    }
    out
}

/// The answers in one row, or in as few as they fit into.
fn button_rows(buttons: &[Vec<Piece>], columns: usize) -> Vec<Vec<Vec<Piece>>> {
    let mut rows: Vec<Vec<Vec<Piece>>> = Vec::new();
    let mut left = 0;
    for button in buttons {
        let wide: usize = button.iter().map(|p| width(&p.text)).sum();
        match rows.last_mut() {
            Some(row) if left >= wide + 2 => {
                row.push(button.clone());
                left -= wide + 2;
            }
            _ => {
                rows.push(vec![button.clone()]);
                left = columns.saturating_sub(wide);
            }
        }
    }
    rows
}

fn draw_text(pen: &mut Pen<'_>, area: Rect, state: &State, text: &TextDialog) -> PaneSeen {
    let wide = area.width.saturating_sub(4).clamp(1, 96).max(area.width.min(20));
    let most = area.height.saturating_sub(if area.height > 16 { 4 } else { 0 });
    let lines = u16::try_from(text.doc.lines.len()).unwrap_or(u16::MAX);
    let wrapped = if matches!(text.kind, TextKind::Why | TextKind::Messages | TextKind::Item) {
        lines.saturating_mul(2)
    } else {
        lines
    };
    let inside = frame(pen, area, wide, wrapped.saturating_add(4).min(most), &text.title, Role::Strong);
    let body = rows(
        inside,
        u16::from(inside.height > 4),
        inside.height.saturating_sub(if inside.height > 4 { 2 } else { 0 }),
    );
    let seen = doc::draw(pen, body, &text.doc, text.top, None);
    if inside.height > 4 {
        let copy = if text.copy.is_empty() { "" } else { "y copy   " };
        let more = text.doc.lines.len() > seen.page;
        let scroll = if more {
            format!("{}/{}   ", (seen.top + seen.page).min(text.doc.lines.len()), text.doc.lines.len())
        } else {
            String::new()
        };
        let esc = state.keymap.key_text(state.scope(), crate::config::Action::Back);
        pen.put_right(
            rows(inside, inside.height - 1, 1),
            0,
            &format!("{scroll}{copy}{esc} close"),
            Role::Muted,
        );
    }
    seen
}

fn draw_palette(pen: &mut Pen<'_>, area: Rect, state: &State, palette: &Palette) -> PaneSeen {
    let wide = area.width.saturating_sub(4).clamp(1, 96).max(area.width.min(20));
    let most = area.height.saturating_sub(if area.height > 16 { 6 } else { 0 });
    let inside = frame(pen, area, wide, most, "All actions", Role::Strong);
    let (before, after) = palette.input.halves();
    let line = rows(inside, 0, 1);
    let mut x = pen.put(line, 0, 0, ": ", Role::Key);
    x += pen.put(line, x, 0, before, Role::Input);
    x += pen.put(line, x, 0, pen.symbols().caret(), Role::Marker);
    pen.put(line, x, 0, after, Role::Input);
    let list = rows(inside, if inside.height > 6 { 2 } else { 1 }, inside.height);
    let page = usize::from(list.height);
    let found = palette_rows(state, palette);
    let top = window(palette.at.saturating_sub(page / 2), palette.at, page, found.len());
    if found.is_empty() {
        pen.put(list, 2, 0, "no action is called that", Role::Muted);
    }
    for (y, at) in (0..list.height).zip(top..) {
        let Some(row) = found.get(at) else { break };
        let line = rows(list, y, 1);
        let (refusal, key) = match row {
            PaletteRow::Action(action) => {
                (permit::unavailable(state, *action), state.keymap.key_text(state.scope(), *action))
            }
            PaletteRow::Environment(_) => (None, String::new()),
        };
        let selected = at == palette.at;
        if selected {
            pen.put(line, 0, 0, pen.symbols().marker(), Role::Marker);
        }
        let role = match (selected, refusal.is_some()) {
            (true, _) => Role::Selection,
            (false, true) => Role::Disabled,
            (false, false) => Role::Text,
        };
        pen.put(
            line,
            2,
            0,
            &cut_end(&super::text::harmless(&row.name()), 17, pen.symbols().ellipsis()),
            role,
        );
        let dim = if refusal.is_some() { Role::Disabled } else { Role::Key };
        pen.put(line, 20, 0, &cut_end(&key, 9, ""), dim);
        let room = usize::from(list.width.saturating_sub(31));
        let words = refusal.unwrap_or_else(|| row.description());
        pen.put(line, 31, 0, &cut_end(&words, room, pen.symbols().ellipsis()), Role::Muted);
    }
    PaneSeen { top, page }
}
