//! The terminal while the console has it: entered once, given back exactly once, whatever happens.
//!
//! Entering takes the keyboard raw, the alternate screen, bracketed pastes, and hides the cursor. Giving back undoes all of it and is
//! bounded in time: a line that nobody reads does not keep the program from ending. The mouse is taken where the settings say so.

use std::time::Duration;

use ratatui::Frame;

use super::ConsoleError;
use super::decode::Input;
use super::input::Reader;
use super::paint::Screen;
use super::tty::{Tty, Written};
use super::writer::Writer;

const ENTER: &[u8] = b"\x1b[?1049h\x1b[?2004h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[0m\x1b[?2004l\x1b[?1049l\x1b[?25h";
/// Wheel and buttons, in the form that has no end of columns.
const MOUSE: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const NO_MOUSE: &[u8] = b"\x1b[?1006l\x1b[?1000l";
/// Ends a sequence that was cut in the middle.
const ABORT: &[u8] = b"\x18\x1b\\";

/// How long the last frame may take to get out at the end.
const LAST_FRAME: Duration = Duration::from_millis(300);
/// How long the sequences that give the terminal back may take.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: Tty,
    screen: Screen,
    held: Option<Held>,
    /// What goes out before the next frame.
    lead: Vec<u8>,
    /// The mouse is taken too.
    mouse: bool,
}

/// What we have only while the terminal is ours.
#[derive(Debug)]
struct Held {
    writer: Writer,
    reader: Reader,
    /// The sequences that enter have been sent, so those that leave must be.
    entered: bool,
}

impl Terminal {
    /// Takes the terminal.
    pub(crate) fn enter(tty: Tty, colours: bool, mouse: bool) -> Result<Self, ConsoleError> {
        let screen = Screen::new(tty.size(), colours);
        let mut terminal = Self { tty, screen, held: None, lead: Vec::new(), mouse };
        terminal.take()?;
        Ok(terminal)
    }

    fn take(&mut self) -> Result<(), ConsoleError> {
        let failed = |doing| move |source| ConsoleError::Terminal { doing, source };
        let reader = Reader::start(self.tty.erase()).map_err(failed("read the keyboard"))?;
        let writer = match Writer::start(&self.tty) {
            Ok(writer) => writer,
            Err(error) => {
                reader.stop();
                return Err(failed("write to the terminal")(error));
            }
        };
        self.held = Some(Held { writer, reader, entered: false });
        self.lead = ENTER.to_vec();
        if self.mouse {
            self.lead.extend_from_slice(MOUSE);
        }
        self.tty.raw().map_err(failed("change the terminal's settings"))?;
        self.screen.renew(self.tty.size());
        Ok(())
    }

    /// Gives the terminal back, if we have it. What the operator's shell had set is set again.
    pub(crate) fn leave(&mut self) {
        let Some(Held { writer, reader, entered }) = self.held.take() else { return };
        reader.stop();
        let cut = writer.finish(LAST_FRAME);
        if entered {
            let mut bytes = Vec::new();
            if cut {
                // Nobody reads: what is still on the way is dropped, so that the last words get through if somebody does later.
                self.tty.discard_output();
                bytes.extend_from_slice(ABORT);
            }
            if self.mouse {
                bytes.extend_from_slice(NO_MOUSE);
            }
            bytes.extend_from_slice(LEAVE);
            match self.tty.write_within(&bytes, LAST_WORDS) {
                Written::All => {}
                Written::Cut => {
                    tracing::warn!("the terminal takes nothing: it could not be told that the console ended");
                }
                Written::Failed(error) => tracing::warn!(%error, "the terminal is gone"),
            }
        }
        if let Err(error) = self.tty.restore() {
            tracing::warn!(%error, "the terminal's settings could not be restored");
        }
    }

    /// Takes the terminal again after somebody else had it: its settings and size are looked at anew.
    pub(crate) fn retake(&mut self) -> Result<(), ConsoleError> {
        self.leave();
        self.tty.look();
        self.take()
    }

    /// Whether our job may touch the terminal.
    pub(crate) fn foreground(&self) -> bool {
        self.tty.foreground()
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (u16, u16) {
        let size = self.screen.size();
        (size.width, size.height)
    }

    /// Looks at the size. When it has changed, the next frame is painted whole.
    pub(crate) fn resized(&mut self) -> bool {
        let size = self.tty.size();
        let changed = size != self.screen.size();
        if changed {
            self.screen.renew(size);
        }
        changed
    }

    /// Paints the next frame whole.
    pub(crate) fn repaint(&mut self) {
        self.screen.renew(self.tty.size());
    }

    /// Sends this to the terminal before the next frame.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.lead.extend_from_slice(bytes);
    }

    /// Whether a frame can be drawn now.
    pub(crate) fn ready(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.writer.busy())
    }

    /// Draws a frame and sends what changed.
    pub(crate) fn draw<T: Default>(&mut self, draw: impl FnOnce(&mut Frame<'_>) -> T) -> T {
        let (result, frame) = self.screen.draw(draw);
        if let Some(held) = &mut self.held {
            let mut bytes = std::mem::take(&mut self.lead);
            bytes.extend_from_slice(&frame);
            held.entered |= !bytes.is_empty();
            held.writer.send(bytes);
        }
        result
    }

    /// A key that has come already.
    pub(crate) fn try_input(&mut self) -> Option<Input> {
        self.held.as_mut().and_then(|held| held.reader.try_next())
    }

    /// Waits until the frame that is under way is out, and leaves the keys alone meanwhile; for ever when there is none.
    pub(crate) async fn frame_out(&mut self) -> Event {
        match &mut self.held {
            Some(held) => out(&mut held.writer).await,
            None => std::future::pending().await,
        }
    }

    /// What the terminal does next.
    pub(crate) async fn next(&mut self) -> Event {
        let Some(Held { writer, reader, .. }) = &mut self.held else {
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            event = out(writer) => event,
            input = reader.next() => input.map_or(Event::Closed, Event::Input),
        }
    }
}

async fn out(writer: &mut Writer) -> Event {
    match writer.drained().await {
        Ok(()) => Event::Drained,
        Err(error) => {
            tracing::warn!(%error, "writing to the terminal failed");
            Event::Closed
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

/// What the terminal did.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key, a paste, the focus.
    Input(Input),
    /// The last frame is out.
    Drained,
    /// It is gone.
    Closed,
}
