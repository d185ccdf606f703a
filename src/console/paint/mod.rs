//! Cells to bytes: what changed since the last frame, as the fewest bytes that any terminal of the last thirty years understands.
//!
//! Why not the ready-made back end: it asks the terminal questions (position, size) beside our own reader, sends the sixteen
//! colours in a form that terminals with sixteen colours don't know, drops reverse and bold under `NO_COLOR`, and sends three times
//! the bytes. Here colours are what the theme says, and without colours none is sent, whatever the cells hold.

mod line;
mod look;
mod row;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io::Write as _;

use ratatui::Terminal;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use ratatui::{Frame, TerminalOptions, Viewport};

use line::Line;

/// The screen: draws frames and gives the bytes that turn the terminal's last frame into the newest.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: Terminal<Cursor>,
    /// What the terminal shows.
    shown: Buffer,
    /// Where the terminal's cursor is known to be shown; the inner nothing: it is hidden. The outer: it is not known.
    cursor: Option<Option<Position>>,
    colours: bool,
    /// The terminal shows something else than our last frame.
    stale: bool,
    /// Nothing was drawn yet.
    blank: bool,
}

/// Synchronized output: the terminal shows a frame when it is whole. Unknown to a terminal it does nothing.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

impl Screen {
    /// A screen of which nothing is drawn yet. Without `colours` no colour is ever sent.
    pub(crate) fn new(size: Size, colours: bool) -> Self {
        let area = Rect::from((Position::ORIGIN, size));
        let options = TerminalOptions { viewport: Viewport::Fixed(area) };
        let made: Result<_, Infallible> = Terminal::with_options(Cursor { size, wanted: None }, options);
        let Ok(terminal) = made;
        Self { terminal, shown: Buffer::empty(area), cursor: None, colours, stale: true, blank: true }
    }

    /// The size that frames are drawn in.
    pub(crate) fn size(&self) -> Size {
        self.terminal.backend().size
    }

    /// Forgets what the terminal shows and takes the terminal's size: the next frame is painted whole.
    pub(crate) fn renew(&mut self, size: Size) {
        // On the way to the first frame this is asked for thrice, and a screen is a megabyte.
        if !self.blank || size != self.size() {
            *self = Self::new(size, self.colours);
        }
    }

    /// Draws a frame. Gives the bytes that show it: none when nothing changed.
    pub(crate) fn draw<T: Default>(&mut self, draw: impl FnOnce(&mut Frame<'_>) -> T) -> (T, Vec<u8>) {
        self.blank = false;
        let mut result = T::default();
        let drawn: Result<_, Infallible> = self.terminal.draw(|frame| result = draw(frame));
        let Ok(frame) = drawn;
        let mut line = Line::new(self.colours);
        line.frame(&self.shown, frame.buffer);
        self.shown.content.clone_from(&frame.buffer.content);
        let mut changes = line.finish();
        self.place_cursor(&mut changes);
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

    /// Shows the cursor where the frame wants it, or hides it. What was written has moved it.
    fn place_cursor(&mut self, changes: &mut Vec<u8>) {
        let wanted = self.terminal.backend().wanted;
        let hidden = self.cursor.is_none_or(|cursor| cursor.is_none());
        match wanted {
            None if self.cursor != Some(None) => changes.extend_from_slice(b"\x1b[?25l"),
            Some(at) if hidden || !changes.is_empty() || self.cursor != Some(wanted) => {
                if hidden {
                    changes.extend_from_slice(b"\x1b[?25h");
                }
                // Writing to memory does not fail.
                let _ = write!(changes, "\x1b[{};{}H", u32::from(at.y) + 1, u32::from(at.x) + 1);
            }
            _ => {}
        }
        self.cursor = Some(wanted);
    }
}

/// A back end that only notes where a frame wants the cursor, and never asks anything.
#[derive(Debug)]
struct Cursor {
    size: Size,
    wanted: Option<Position>,
}

impl Backend for Cursor {
    type Error = Infallible;

    fn draw<'a, I>(&mut self, _: I) -> Result<(), Infallible>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        Ok(())
    }

    fn hide_cursor(&mut self) -> Result<(), Infallible> {
        self.wanted = None;
        Ok(())
    }

    fn show_cursor(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
        Ok(self.wanted.unwrap_or(Position::ORIGIN))
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Infallible> {
        self.wanted = Some(position.into());
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> Result<(), Infallible> {
        Ok(())
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
