//! Cells to bytes: what changed since the last frame, as the fewest sequences that any terminal of the last thirty years knows.
//!
//! Why not the ready-made back end: it asks the terminal questions (position, size) beside our own reader, sends the sixteen
//! colours in a form that terminals with sixteen colours don't know, and drops reverse and bold under `NO_COLOR`. Here colours
//! are what the theme says, and without colours none is sent, whatever the cells hold.

use std::convert::Infallible;
use std::io::Write as _;

use ratatui::Terminal;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::{Color, Modifier};
use ratatui::{Frame, TerminalOptions, Viewport};

/// The screen: draws frames and gives the bytes that turn the terminal's last frame into the newest.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: Terminal<Paint>,
    colours: bool,
    /// The terminal shows something else than our last frame.
    stale: bool,
}

/// Synchronized output: the terminal shows a frame when it is whole. Unknown to a terminal it does nothing.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

impl Screen {
    /// A screen of which nothing is drawn yet. Without `colours` no colour is ever sent.
    pub(crate) fn new(size: Size, colours: bool) -> Self {
        Self { terminal: blank(size, colours), colours, stale: true }
    }

    /// The size that frames are drawn in.
    pub(crate) fn size(&self) -> Size {
        self.terminal.backend().size
    }

    /// Forgets what the terminal shows and takes the terminal's size: the next frame is painted whole.
    pub(crate) fn renew(&mut self, size: Size) {
        *self = Self::new(size, self.colours);
    }

    /// Draws a frame. Gives the bytes that show it: none when nothing changed.
    pub(crate) fn draw<T: Default>(&mut self, draw: impl FnOnce(&mut Frame<'_>) -> T) -> (T, Vec<u8>) {
        let mut result = T::default();
        let drawn: Result<_, Infallible> = self.terminal.draw(|frame| result = draw(frame));
        let Ok(_) = drawn;
        let changes = std::mem::take(&mut self.terminal.backend_mut().bytes);
        let mut bytes = Vec::new();
        if self.stale || !changes.is_empty() {
            bytes.reserve(changes.len() + 32);
            bytes.extend_from_slice(BEGIN);
            if self.stale {
                bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
            }
            bytes.extend_from_slice(&changes);
            bytes.extend_from_slice(END);
            self.stale = false;
        }
        (result, bytes)
    }
}

fn blank(size: Size, colours: bool) -> Terminal<Paint> {
    let options = TerminalOptions { viewport: Viewport::Fixed(Rect::from((Position::ORIGIN, size))) };
    let backend = Paint { bytes: Vec::new(), size, cursor: None, shown: None, colours };
    let made: Result<_, Infallible> = Terminal::with_options(backend, options);
    let Ok(terminal) = made;
    terminal
}

/// A back end that writes to memory and never asks.
#[derive(Debug)]
struct Paint {
    bytes: Vec<u8>,
    size: Size,
    /// Where the cursor is to stand.
    cursor: Option<Position>,
    /// Whether the cursor is shown; none: not known.
    shown: Option<bool>,
    colours: bool,
}

impl Paint {
    fn move_to(&mut self, x: u16, y: u16) {
        // Writing to memory does not fail.
        let _ = write!(self.bytes, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1);
    }

    fn style(&mut self, cell: &Cell) {
        self.bytes.extend_from_slice(b"\x1b[0");
        const CODES: [(Modifier, &[u8]); 8] = [
            (Modifier::BOLD, b";1"),
            (Modifier::DIM, b";2"),
            (Modifier::ITALIC, b";3"),
            (Modifier::UNDERLINED, b";4"),
            (Modifier::SLOW_BLINK, b";5"),
            (Modifier::REVERSED, b";7"),
            (Modifier::HIDDEN, b";8"),
            (Modifier::CROSSED_OUT, b";9"),
        ];
        for (modifier, code) in CODES {
            if cell.modifier.contains(modifier) {
                self.bytes.extend_from_slice(code);
            }
        }
        if self.colours {
            self.colour(cell.fg, 30);
            self.colour(cell.bg, 40);
        }
        self.bytes.push(b'm');
    }

    /// One colour; `base` is 30 for the text and 40 for what is behind it.
    fn colour(&mut self, colour: Color, base: u8) {
        let code = match colour {
            Color::Reset => return,
            Color::Rgb(r, g, b) => {
                let _ = write!(self.bytes, ";{};2;{r};{g};{b}", base + 8);
                return;
            }
            Color::Indexed(n @ 0..=7) => base + n,
            Color::Indexed(n @ 8..=15) => base + 52 + n,
            Color::Indexed(n) => {
                let _ = write!(self.bytes, ";{};5;{n}", base + 8);
                return;
            }
            Color::Black => base,
            Color::Red => base + 1,
            Color::Green => base + 2,
            Color::Yellow => base + 3,
            Color::Blue => base + 4,
            Color::Magenta => base + 5,
            Color::Cyan => base + 6,
            Color::Gray => base + 7,
            Color::DarkGray => base + 60,
            Color::LightRed => base + 61,
            Color::LightGreen => base + 62,
            Color::LightYellow => base + 63,
            Color::LightBlue => base + 64,
            Color::LightMagenta => base + 65,
            Color::LightCyan => base + 66,
            Color::White => base + 67,
        };
        let _ = write!(self.bytes, ";{code}");
    }
}

impl Backend for Paint {
    type Error = Infallible;

    fn draw<'a, I>(&mut self, content: I) -> Result<(), Infallible>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut last: Option<&Cell> = None;
        // Where the terminal's cursor stands for certain: only plain letters have one width everywhere.
        let mut at: Option<(u16, u16)> = None;
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                self.move_to(x, y);
            }
            let same =
                |other: &Cell| other.modifier == cell.modifier && other.fg == cell.fg && other.bg == cell.bg;
            if !last.is_some_and(same) {
                self.style(cell);
            }
            last = Some(cell);
            let symbol = cell.symbol();
            // Whatever got into a cell, no control character leaves this program inside one.
            let symbol = if symbol.chars().any(char::is_control) { "?" } else { symbol };
            self.bytes.extend_from_slice(symbol.as_bytes());
            at = (symbol.len() == 1 && x + 1 < self.size.width).then_some((x + 1, y));
        }
        if last.is_some() {
            self.bytes.extend_from_slice(b"\x1b[0m");
            // The cursor moved with what was written.
            if self.shown == Some(true) {
                self.cursor = None;
            }
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> Result<(), Infallible> {
        if self.shown != Some(false) {
            self.bytes.extend_from_slice(b"\x1b[?25l");
            self.shown = Some(false);
        }
        Ok(())
    }

    fn show_cursor(&mut self) -> Result<(), Infallible> {
        if self.shown != Some(true) {
            self.bytes.extend_from_slice(b"\x1b[?25h");
            self.shown = Some(true);
            self.cursor = None;
        }
        Ok(())
    }

    fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
        Ok(self.cursor.unwrap_or(Position::ORIGIN))
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Infallible> {
        let position = position.into();
        if self.cursor != Some(position) {
            self.move_to(position.x, position.y);
            self.cursor = Some(position);
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        self.bytes.extend_from_slice(b"\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> Result<(), Infallible> {
        self.clear()
    }

    fn size(&self) -> Result<Size, Infallible> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> Result<WindowSize, Infallible> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::default() })
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;
    use ratatui::text::{Line, Span};

    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn show(screen: &mut Screen, line: &Line<'_>) -> Vec<u8> {
        screen.draw(|frame| frame.render_widget(line, frame.area())).1
    }

    #[test]
    fn nothing_is_written_while_nothing_changes() {
        let mut screen = Screen::new(Size::new(10, 2), true);
        assert!(!show(&mut screen, &Line::from("hello")).is_empty());
        assert_eq!(text(&show(&mut screen, &Line::from("hello"))), "");
        let change = show(&mut screen, &Line::from("hallo"));
        assert_eq!(text(&change), "\x1b[?2026h\x1b[1;2H\x1b[0ma\x1b[0m\x1b[?2026l");
        screen.renew(Size::new(10, 2));
        assert!(text(&show(&mut screen, &Line::from("hallo"))).contains("hallo"));
    }

    #[test]
    fn the_screen_is_what_was_drawn() {
        let mut screen = Screen::new(Size::new(12, 3), true);
        let mut parser = vt100::Parser::new(3.try_into().unwrap(), 12.try_into().unwrap(), 0);
        let lines = ["abc", "漢字 ok", "naïve", "", "x\u{301}y", "🦀 crab"];
        for line in lines {
            parser.process(&show(&mut screen, &Line::from(line)));
            let shown = parser.screen().rows(0, 12).next().unwrap();
            assert_eq!(shown.trim_end(), line.trim_end());
        }
    }

    #[test]
    fn without_colours_reverse_and_bold_remain() {
        let mut screen = Screen::new(Size::new(10, 1), false);
        let line = Line::from(Span::styled("x", Style::new().red().on_blue().bold().reversed()));
        assert!(text(&show(&mut screen, &line)).contains("\x1b[0;1;7mx"));
        let mut screen = Screen::new(Size::new(10, 1), true);
        assert!(text(&show(&mut screen, &line)).contains("\x1b[0;1;7;31;44mx"));
    }

    #[test]
    fn no_control_character_leaves_in_a_cell() {
        let mut screen = Screen::new(Size::new(10, 1), true);
        let bytes = screen
            .draw(|frame| {
                frame.buffer_mut()[(0, 0)].set_symbol("\x1b[2J");
                frame.buffer_mut()[(6, 0)].set_symbol("\u{9b}31m");
            })
            .1;
        let sent = text(&bytes);
        assert_eq!(sent.matches('?').count() - sent.matches("[?").count(), 2, "{}", bytes.escape_ascii());
        assert!(!sent.contains('\u{9b}') && sent.matches("[2J").count() == 1);
    }

    #[test]
    fn the_cursor_is_sent_when_it_moves() {
        let mut screen = Screen::new(Size::new(10, 1), true);
        let mut at = |x: u16, line: &str| {
            let draw = |frame: &mut Frame<'_>| {
                frame.render_widget(line, frame.area());
                frame.set_cursor_position((x, 0));
            };
            text(&screen.draw(draw).1)
        };
        assert!(at(1, "a").contains("\x1b[?25h\x1b[1;2H"));
        assert_eq!(at(1, "a"), "");
        assert!(at(2, "a").contains("\x1b[1;3H"));
        assert!(at(2, "b").ends_with("\x1b[1;3H\x1b[?2026l"));
    }
}
