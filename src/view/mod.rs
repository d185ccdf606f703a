//! Drawing: a function of the state. One file per screen, shared pieces beside them.
//!
//! `console` calls [`draw`] when a frame is due; nothing here changes the state or keeps anything between frames. What the next keys refer
//! to (window, rows, the object under the cursor, when the text changes by itself) is returned as [`Seen`].

mod banner;
mod dialog;
mod doc;
mod empty;
mod footer;
mod form;
mod header;
mod hosts;
mod layout;
mod list;
mod log;
mod pen;
mod run;
mod runs;
mod secret_pages;
mod secrets;
mod table;
mod text;
mod words;

#[cfg(test)]
mod tests;

use ratatui::Frame;

use crate::app::{Screen, Seen, State};
use crate::config::Theme;
use layout::Layout;
use pen::Pen;

/// Draws the whole screen and says what is on it. Call [`crate::app::prepare`] before.
pub fn draw(frame: &mut Frame<'_>, state: &State, theme: &Theme) -> Seen {
    let area = frame.area();
    let mut seen = Seen::default();
    if area.is_empty() {
        return seen;
    }
    let mut pen = Pen { buffer: frame.buffer_mut(), theme };
    let layout = Layout::new(area, footer::wants_details(state), banner::wanted(state));
    header::draw(&mut pen, &layout, state, &mut seen);
    banner::draw(&mut pen, layout.banner, state, &mut seen);
    match state.screen {
        Screen::Hosts => hosts::draw(&mut pen, &layout, state, &mut seen),
        Screen::Runs => runs::draw(&mut pen, &layout, state, &mut seen),
        Screen::Run => run::draw(&mut pen, &layout, state, &mut seen),
        Screen::Secrets => secrets::draw(&mut pen, &layout, state, &mut seen),
        Screen::Versions => secret_pages::versions(&mut pen, &layout, state, &mut seen),
        Screen::Differences => secret_pages::differences(&mut pen, &layout, state, &mut seen),
        Screen::List(topic) => list::draw(&mut pen, &layout, state, topic, &mut seen),
    }
    footer::draw(&mut pen, &layout, state, &mut seen);
    dialog::draw(&mut pen, area, state, &mut seen);
    if let Some(at) = state.rest {
        seen.wake_at(at);
    }
    if let Some((_, at)) = &state.settling {
        seen.wake_at(*at);
    }
    seen
}
