//! What a frame showed: what the keys that follow refer to.

use jiff::Timestamp;

/// Which part of something longer a pane showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaneSeen {
    /// The first row or line.
    pub top: usize,
    /// How many fit.
    pub page: usize,
}

/// What the last frame showed: what keys refer to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// When the text on screen changes by itself (ages, notices that end, a pause that is over): send
    /// [`Msg::Wake`](super::Msg::Wake) then.
    pub wake: Option<Timestamp>,
    /// What stood under the cursor: the UID of a run, or the key of a row. Actions take this one.
    pub subject: Option<String>,
    /// The table of hosts or runs.
    pub list: PaneSeen,
    /// The tree of tasks.
    pub tasks: PaneSeen,
    /// The result.
    pub result: PaneSeen,
    /// The log.
    pub log: PaneSeen,
    /// The text in the dialog.
    pub dialog: PaneSeen,
}

impl Seen {
    /// The text on screen changes at this time too.
    pub fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |other| other.min(at)));
    }
}
