//! The mind of the console: pure state and the messages that change it.
//!
//! The shell (`console`) owns the one [`State`] and does, for ever: wait for a message, [`update`], carry out the effects; and when
//! [`State::needs_frame`] and a frame is due: [`prepare`], `view::draw`, keep the [`Seen`] that it returned for the next `update`.
//! When [`Seen::wake`] comes it sends [`Msg::Wake`]. Nothing here does I/O, waits or reads a clock.

mod act;
mod act_list;
mod act_log;
mod act_run;
mod act_search;
mod answers;
pub mod approvals;
mod change;
mod command;
pub mod describe;
pub mod dialog;
pub mod document;
pub mod edit;
mod effect;
mod environment;
mod fetch;
pub mod filter;
mod flight;
pub mod form;
mod history;
mod input;
pub mod items;
pub mod life;
pub mod log;
mod msg;
mod nodes;
mod notice;
mod open;
pub mod permit;
mod place;
pub mod rights;
#[cfg(test)]
pub(crate) mod sample;
pub mod screens;
pub mod secrets;
mod seen;
mod state;
pub mod store;
pub mod table;
#[cfg(test)]
pub(crate) mod tests;
mod texts;
pub mod time;
mod update;

pub use change::Change;
pub use effect::{Effect, EffectId, RunRef};
pub use environment::EnvironmentInfo;
pub use fetch::Fetch;
pub use items::{Item, Topic};
pub use msg::{Answer, LogEvent, LogLine, Msg, RunsMsg};
pub use notice::{Bulk, BulkRow, Entry, InFlight, Level, Notice};
pub use place::{Place, RunPlace, TablePlace};
pub use screens::Screen;
pub use screens::list::Fresh;
pub use seen::{Hit, Mouse, PaneSeen, Region, Seen};
pub use state::{State, WIDE};
pub use update::{BACK_ENDS, prepare, update};
