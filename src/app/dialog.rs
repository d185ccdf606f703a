//! What stands before the screen and has keys of its own: questions, texts, the palette.

use super::change::Change;
use super::document::Document;
use super::edit::LineEdit;
use super::effect::{EffectId, RunRef};
use super::filter::{Filter, Scratch};
use super::form::Form;
use super::secrets::SecretDeed;
use super::state::State;
use crate::config::{ACTIONS, Action, Scope};
use crate::domain::approvals::Hold;

/// A deed that runs are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Approve.
    Approve,
    /// Check first.
    Check,
    /// Reject.
    Reject,
    /// Run again.
    Retry,
    /// Stop.
    Stop,
    /// Forget the host.
    Forget,
}

impl Verb {
    /// The action that leads to it.
    #[must_use]
    pub fn action(self) -> Action {
        match self {
            Self::Approve => Action::Approve,
            Self::Check => Action::Check,
            Self::Reject => Action::Reject,
            Self::Retry => Action::Retry,
            Self::Stop => Action::Stop,
            Self::Forget => Action::Forget,
        }
    }

    /// The word at the start of a title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Approve => "Approve",
            Self::Check => "Check",
            Self::Reject => "Reject",
            Self::Retry => "Retry",
            Self::Stop => "Stop",
            Self::Forget => "Forget",
        }
    }
}

/// A run as it was when the operator looked at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The run.
    pub run: RunRef,
    /// The digest of its announcement then.
    pub digest: String,
}

/// What is done when a question is answered with yes: the action as a value. The dialog does not know what it confirms.
#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// A deed on runs.
    Do(Verb, Vec<Subject>),
    /// Change what is applied before it is approved.
    Edit,
    /// Change what is listed.
    Changes(Vec<Change>),
    /// Do something with secrets.
    Secrets(SecretDeed),
    /// Open the text that this effect had edited again.
    EditAgain(EffectId),
    /// Show what differs in the text that this effect had edited, with its values.
    EditShow(EffectId),
    /// Release approvals from this hold.
    Release(Hold),
    /// Leave this environment for the one of this name.
    Switch(String),
    /// Leave the console.
    Quit,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Button {
    /// Its words.
    pub label: String,
    /// The key that gives it at once.
    pub key: char,
    /// What it does; nothing: cancel.
    pub intent: Option<Intent>,
}

/// A word that must be typed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The word.
    pub expected: String,
    /// What was typed so far.
    pub input: LineEdit,
}

impl Typed {
    /// True when the word is there.
    #[must_use]
    pub fn matches(&self) -> bool {
        self.input.text().trim() == self.expected
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Confirm {
    /// What is asked.
    pub title: String,
    /// What will be applied.
    pub fields: Vec<(String, String)>,
    /// What is to be known.
    pub notes: Vec<String>,
    /// What is unusual.
    pub warnings: Vec<String>,
    /// The answers; the last is the safe one.
    pub buttons: Vec<Button>,
    /// Which has the focus.
    pub focus: usize,
    /// The word to type first.
    pub typed: Option<Typed>,
    /// The runs it is about, as they were.
    pub subjects: Vec<Subject>,
}

impl Confirm {
    /// A question with a way out, which has the focus.
    #[must_use]
    pub fn new(title: String, mut buttons: Vec<Button>, cancel: &str) -> Self {
        buttons.push(Button { label: cancel.to_owned(), key: 'n', intent: None });
        let focus = buttons.len() - 1;
        let (fields, notes, warnings, subjects) = Default::default();
        Self { title, fields, notes, warnings, buttons, focus, typed: None, subjects }
    }
}

/// Which text is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextKind {
    /// The keys.
    Help,
    /// What happened.
    Messages,
    /// Why.
    Why,
    /// One row of a topic.
    Item,
    /// The details of the run with this UID, where there is no room beside the table.
    Details(String),
}

/// A text to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextDialog {
    /// Which.
    pub kind: TextKind,
    /// Its title.
    pub title: String,
    /// The text.
    pub doc: Document,
    /// The first line in the window.
    pub top: usize,
    /// What is copied.
    pub copy: String,
}

/// All actions, to be found by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Palette {
    /// What was typed.
    pub input: LineEdit,
    /// The row under the cursor.
    pub at: usize,
}

/// What stands before the screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Dialog {
    /// A question.
    Confirm(Box<Confirm>),
    /// What is to be done, field by field.
    Form(Box<Form>),
    /// A text.
    Text(TextDialog),
    /// All actions.
    Palette(Palette),
}

/// A row of the palette.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaletteRow {
    /// An action, done as by its key.
    Action(Action),
    /// Another environment.
    Environment(String),
}

impl PaletteRow {
    /// What it is found by.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Action(action) => action.info().name.to_owned(),
            Self::Environment(name) => format!("env {name}"),
        }
    }

    /// What it does.
    #[must_use]
    pub fn description(&self) -> String {
        match self {
            Self::Action(action) => action.info().description.to_owned(),
            Self::Environment(name) => format!("Leave this environment for {name}"),
        }
    }

    /// How far it is from where the operator is: of this screen, of every screen, of another screen.
    fn distance(&self, scope: Scope) -> u8 {
        match self {
            Self::Environment(_) => 1,
            Self::Action(action) if action.info().scopes.contains(&scope) => 0,
            Self::Action(action) if action.in_scope(scope) => 1,
            Self::Action(_) => 2,
        }
    }
}

/// The palette's rows: all actions and environments that match, those that count here first, those of other screens last.
#[must_use]
pub fn palette_rows(state: &State, palette: &Palette) -> Vec<PaletteRow> {
    let filter = Filter::parse(palette.input.text());
    let mut scratch = Scratch::default();
    let scope = state.scope();
    let typed = palette.input.text().trim().to_lowercase();
    let actions = ACTIONS.iter().map(|row| row.action).filter(|a| *a != Action::Palette);
    let environments = state.environment.others.iter().cloned().map(PaletteRow::Environment);
    let mut rows: Vec<_> = actions
        .map(PaletteRow::Action)
        .chain(environments)
        .filter(|row| {
            filter.matches_text(&row.name(), &mut scratch)
                || row.description().to_lowercase().contains(&typed)
        })
        .collect();
    // The very name before all, then one that starts with what was typed.
    rows.sort_by_key(|row| {
        let name = row.name();
        (name != typed, !name.starts_with(&typed), row.distance(scope))
    });
    rows
}
