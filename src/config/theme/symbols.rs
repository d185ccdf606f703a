//! The symbols: each state has one, in Unicode and in ASCII.

use crate::domain::results::ResultStatus;
use crate::domain::secret::FileState;
use crate::domain::{Health, Phase};

/// The set of symbols that the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymbolSet {
    /// Unicode, one column each (where the terminal takes ambiguous ones as narrow).
    #[default]
    Unicode,
    /// ASCII.
    Ascii,
}

impl SymbolSet {
    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }

    /// A phase.
    #[must_use]
    pub fn phase(self, phase: Phase) -> &'static str {
        match phase {
            Phase::Pending => self.pick("◆", "?"),
            Phase::Queued => self.pick("◇", "."),
            Phase::Running => self.pick("●", ">"),
            Phase::Stopping => self.pick("◌", ":"),
            Phase::Stopped => self.pick("■", "#"),
            Phase::Failed => self.pick("✗", "x"),
            Phase::Rejected => self.pick("−", "-"),
            Phase::Ready => self.pick("✓", "="),
        }
    }

    /// How a task ended.
    #[must_use]
    pub fn status(self, status: ResultStatus) -> &'static str {
        match status {
            ResultStatus::Failed => self.pick("✗", "x"),
            ResultStatus::Unreachable => self.pick("⊘", "!"),
            ResultStatus::Rescued => self.pick("↺", "r"),
            ResultStatus::Ignored => self.pick("~", "~"),
            ResultStatus::Changed => self.pick("✎", "*"),
            ResultStatus::Ok => self.pick("✓", "="),
            ResultStatus::Skipped => self.pick("·", "-"),
        }
    }

    /// What changed where of a secret.
    #[must_use]
    pub fn file(self, state: FileState) -> &'static str {
        match state {
            FileState::Same => self.pick("✓", "="),
            FileState::ChangedHere => self.pick("↑", "^"),
            FileState::ChangedThere => self.pick("↓", "v"),
            FileState::Both => self.pick("✗", "x"),
            FileState::Unsure => self.pick("≠", "?"),
            FileState::OnlyHere => self.pick("+", "+"),
            FileState::OnlyThere => self.pick("◇", "."),
            FileState::RemovedHere => self.pick("−", "-"),
            FileState::RemovedThere => self.pick("⊘", "!"),
            FileState::Nowhere => self.pick("·", "~"),
        }
    }

    /// A back end's state.
    #[must_use]
    pub fn health(self, health: &Health) -> &'static str {
        match health {
            Health::Up => self.pick("●", "+"),
            Health::Down { .. } => self.pick("○", "!"),
            Health::Unknown => self.pick("◌", "."),
            Health::Unused => self.pick("·", "-"),
        }
    }

    /// The rule between the parts of the screen.
    #[must_use]
    pub fn rule(self) -> &'static str {
        self.pick("─", "-")
    }

    /// The rule between two panes.
    #[must_use]
    pub fn divider(self) -> &'static str {
        self.pick("│", "|")
    }

    /// What stands before the selected row.
    #[must_use]
    pub fn marker(self) -> &'static str {
        self.pick("▌", ">")
    }

    /// What stands before a marked row.
    #[must_use]
    pub fn mark(self) -> &'static str {
        self.pick("•", "*")
    }

    /// What stands where text was cut.
    #[must_use]
    pub fn ellipsis(self) -> &'static str {
        self.pick("…", "~")
    }

    /// Between the parts of a path of screens.
    #[must_use]
    pub fn path(self) -> &'static str {
        self.pick("›", ">")
    }

    /// There is more before what is shown, and behind it.
    #[must_use]
    pub fn more(self) -> (&'static str, &'static str) {
        (self.pick("‹", "<"), self.pick("›", ">"))
    }

    /// No value.
    #[must_use]
    pub fn nothing(self) -> &'static str {
        self.pick("—", "-")
    }

    /// A column is sorted from small to large, or the other way round.
    #[must_use]
    pub fn sorted(self, descending: bool) -> &'static str {
        if descending { self.pick("↓", "v") } else { self.pick("↑", "^") }
    }

    /// A group of rows that is open or closed.
    #[must_use]
    pub fn fold(self, open: bool) -> &'static str {
        if open { self.pick("▾", "v") } else { self.pick("▸", ">") }
    }

    /// A warning.
    #[must_use]
    pub fn warning(self) -> &'static str {
        self.pick("▲", "!")
    }

    /// Where the text cursor stands.
    #[must_use]
    pub fn caret(self) -> &'static str {
        self.pick("▏", "_")
    }

    /// The pictures of the spinner.
    #[must_use]
    pub fn spinner(self, step: usize) -> &'static str {
        let (unicode, ascii) = (["◐", "◓", "◑", "◒"], ["|", "/", "-", "\\"]);
        let at = step % 4;
        self.pick(unicode.get(at).unwrap_or(&"◐"), ascii.get(at).unwrap_or(&"|"))
    }

    /// Bars from an eighth to the whole of a line's height.
    #[must_use]
    pub fn bar(self, eighths: usize) -> &'static str {
        let unicode = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
        self.pick(unicode.get(eighths.clamp(1, 8) - 1).unwrap_or(&"█"), "=")
    }

    /// A bar that lies: so many thousandths of so many columns, and never nothing.
    #[must_use]
    pub fn span(self, thousandths: u16, columns: usize) -> String {
        let eighths = (usize::from(thousandths) * columns * 8).div_ceil(1000).clamp(1, (columns * 8).max(1));
        match self {
            Self::Ascii => "=".repeat(eighths.div_ceil(8)),
            Self::Unicode => {
                let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
                "█".repeat(eighths / 8) + rest.get(eighths % 8).unwrap_or(&"")
            }
        }
    }

    /// Corners and sides of a frame: top left, top right, bottom left, bottom right, horizontal, vertical.
    #[must_use]
    pub fn frame(self) -> [&'static str; 6] {
        match self {
            Self::Unicode => ["╭", "╮", "╰", "╯", "─", "│"],
            Self::Ascii => ["+", "+", "+", "+", "-", "|"],
        }
    }
}
