//! Drawing: a function of the state.

use ratatui::Frame;

use crate::app::{Seen, State};
use crate::config::Theme;

/// Draws the whole screen and says what is on it. Call [`crate::app::prepare`] before.
pub fn draw(frame: &mut Frame<'_>, state: &State, _theme: &Theme) -> Seen {
    frame.buffer_mut().set_string(0, 0, &state.environment.name, ratatui::style::Style::default());
    Seen::default()
}
