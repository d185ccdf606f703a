//! Writing into the frame: by role, and never outside the area.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::text::{Piece, harmless, width};
use crate::config::{Paint, Role, SymbolSet, Theme};

/// What all parts of the screen draw with.
pub(crate) struct Pen<'a> {
    /// The frame's cells.
    pub(crate) buffer: &'a mut Buffer,
    /// How roles look.
    pub(crate) theme: &'a Theme,
}

/// A colour in ratatui's words.
pub(crate) fn colour(paint: Paint) -> Color {
    const ANSI: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    match paint {
        Paint::Rgb(r, g, b) => Color::Rgb(r, g, b),
        Paint::Indexed(n) => Color::Indexed(n),
        Paint::Ansi(n) => ANSI.get(usize::from(n)).copied().unwrap_or(Color::Reset),
    }
}

impl Pen<'_> {
    /// The symbols.
    pub(crate) fn symbols(&self) -> SymbolSet {
        self.theme.symbols()
    }

    /// How a role looks, in ratatui's words.
    pub(crate) fn style(&self, role: Role) -> Style {
        let style = self.theme.style(role);
        let mut out = Style { fg: style.fg.map(colour), bg: style.bg.map(colour), ..Style::default() };
        for (set, modifier) in [
            (style.bold, Modifier::BOLD),
            (style.italic, Modifier::ITALIC),
            (style.underline, Modifier::UNDERLINED),
            (style.reverse, Modifier::REVERSED),
        ] {
            if set {
                out = out.add_modifier(modifier);
            }
        }
        out
    }

    /// Writes a text at a place of an area; what does not fit is left out. Returns how many columns it took.
    pub(crate) fn put(&mut self, area: Rect, x: u16, y: u16, text: &str, role: Role) -> u16 {
        let style = self.style(role);
        self.put_styled(area, x, y, text, style)
    }

    /// The same in a style of its own.
    pub(crate) fn put_styled(&mut self, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let area = area.intersection(self.buffer.area);
        if x >= area.width || y >= area.height {
            return 0;
        }
        let room = usize::from(area.width - x);
        let (end, _) = self.buffer.set_stringn(area.x + x, area.y + y, harmless(text), room, style);
        end.saturating_sub(area.x + x)
    }

    /// Writes a text so that it ends at the area's right edge. Returns the column where it begins.
    pub(crate) fn put_right(&mut self, area: Rect, y: u16, text: &str, role: Role) -> u16 {
        let wide = u16::try_from(width(text)).unwrap_or(u16::MAX);
        let x = area.width.saturating_sub(wide);
        self.put(area, x, y, text, role);
        x
    }

    /// Writes pieces one after the other. Returns how many columns they took.
    pub(crate) fn put_pieces(&mut self, area: Rect, x: u16, y: u16, pieces: &[Piece]) -> u16 {
        let mut at = x;
        for piece in pieces {
            at = at.saturating_add(self.put_styled(area, at, y, &piece.text, piece.style));
        }
        at.saturating_sub(x)
    }

    /// A rule over the whole width of an area.
    pub(crate) fn rule(&mut self, area: Rect, y: u16) {
        let line = self.symbols().rule().repeat(usize::from(area.width));
        self.put(area, 0, y, &line, Role::Rule);
    }

    /// Empties an area.
    pub(crate) fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.buffer.area);
        for position in area.positions() {
            if let Some(cell) = self.buffer.cell_mut(position) {
                cell.reset();
            }
        }
    }
}

/// A part of an area: `skip` rows from its top, at most `height` rows.
pub(crate) fn rows(area: Rect, skip: u16, height: u16) -> Rect {
    let skip = skip.min(area.height);
    Rect { y: area.y + skip, height: height.min(area.height - skip), ..area }
}

/// A part of an area: `skip` columns from its left, at most `width` columns.
pub(crate) fn columns(area: Rect, skip: u16, width: u16) -> Rect {
    let skip = skip.min(area.width);
    Rect { x: area.x + skip, width: width.min(area.width - skip), ..area }
}
