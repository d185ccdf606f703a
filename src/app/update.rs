//! How messages change the state.

use jiff::Timestamp;

use super::{Effect, Msg, Seen, State};

/// Takes one message in and says what is to be done. `seen` is what the last frame showed: keys refer to that.
pub fn update(state: &mut State, _seen: &Seen, now: Timestamp, msg: Msg) -> Vec<Effect> {
    state.now = now;
    match msg {
        Msg::Quit => vec![Effect::Quit],
        _ => {
            state.touch();
            Vec::new()
        }
    }
}

/// Brings what the screens show up to date (sort, filter, ages). Call it right before each draw.
pub fn prepare(state: &mut State, now: Timestamp) {
    state.now = now;
    state.clear_redraw();
}
