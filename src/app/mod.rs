//! The mind of the console: pure state and the messages that change it.
//!
//! The shell (`console`) owns the one [`State`] and does, for ever: wait for a message, [`update`], carry out the effects; and when
//! [`State::needs_frame`] and a frame is due: [`prepare`], `view::draw`, keep the [`Seen`] that it returned for the next `update`.
//! When [`Seen::wake`] comes it sends [`Msg::Wake`]. Nothing here does I/O, waits or reads a clock.

mod effect;
mod msg;
mod state;
mod update;

pub use effect::{Effect, EffectId, RunRef};
pub use msg::{Answer, LogEvent, LogLine, Msg, RunsMsg};
pub use state::{EnvironmentInfo, Seen, State};
pub use update::{prepare, update};
