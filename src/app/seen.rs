//! What a frame showed: what the keys that follow refer to.

use jiff::Timestamp;

use crate::config::Action;

/// Which part of something longer a pane showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaneSeen {
    /// The first row or line.
    pub top: usize,
    /// How many fit.
    pub page: usize,
}

/// What the mouse did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mouse {
    /// The left button was pressed.
    Click,
    /// The wheel was turned away from the operator.
    Up,
    /// The wheel was turned towards the operator.
    Down,
}

/// What a click means somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    /// This action.
    Action(Action),
    /// The row of the table: the first line is the row of this number.
    Rows(usize),
    /// The same in the tree of tasks.
    Tasks(usize),
}

/// A part of the screen that can be clicked, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first column.
    pub x: u16,
    /// The first row.
    pub y: u16,
    /// How many columns.
    pub width: u16,
    /// How many rows.
    pub height: u16,
    /// What a click means.
    pub hit: Hit,
}

impl Region {
    /// Whether a cell is in it.
    #[must_use]
    pub fn holds(&self, x: u16, y: u16) -> bool {
        (self.x..self.x.saturating_add(self.width)).contains(&x)
            && (self.y..self.y.saturating_add(self.height)).contains(&y)
    }
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
    /// How many columns its wide form can be moved over at most, where it is shown.
    pub left_most: Option<u16>,
    /// The tree of tasks.
    pub tasks: PaneSeen,
    /// The result.
    pub result: PaneSeen,
    /// The log.
    pub log: PaneSeen,
    /// The text in the dialog.
    pub dialog: PaneSeen,
    /// What can be clicked.
    pub regions: Vec<Region>,
}

impl Seen {
    /// The text on screen changes at this time too.
    pub fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |other| other.min(at)));
    }
}
