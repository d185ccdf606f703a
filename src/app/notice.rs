//! What is said to the operator, and what is on its way.

use jiff::Timestamp;

use super::effect::{Effect, EffectId};

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something was done.
    Info,
    /// Something is to be known.
    Warning,
    /// Something went wrong.
    Error,
}

/// One line of what happened in this console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// How much it matters.
    pub level: Level,
    /// What happened, in full.
    pub text: String,
    /// What to do about it; may be empty.
    pub advice: String,
}

/// What is said on the line above the footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// The words.
    pub text: String,
    /// When it goes by itself.
    pub until: Timestamp,
}

/// An effect whose answer is awaited.
#[derive(Debug, Clone, PartialEq)]
pub struct InFlight {
    /// Its id.
    pub id: EffectId,
    /// What it is, with id 0.
    pub effect: Effect,
    /// Since when.
    pub since: Timestamp,
    /// How far it is.
    pub progress: String,
    /// The operator wants it cancelled.
    pub cancelled: bool,
}

/// A deed on several rows, with the outcome of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    /// What is done, as a title.
    pub title: &'static str,
    /// Each row: its name, its effect, and how it ended.
    pub rows: Vec<BulkRow>,
}

/// One row of a [`Bulk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkRow {
    /// What it is called.
    pub name: String,
    /// The effect.
    pub id: Option<EffectId>,
    /// How it ended: the words, or why it did not.
    pub outcome: Option<Result<String, String>>,
}
