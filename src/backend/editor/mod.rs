//! The operator's editor on a plain text that nobody else may see, and that is gone afterwards.
//!
//! The text lies in a folder of its own (0700), in memory where the system has a place for that. Whoever drops a [`Sheet`] wipes it;
//! what a killed process left is found by its lock, which goes with the process, and wiped by [`sweep`].

mod run;
mod sheet;

pub use run::{Ended, Signals, run};
pub use sheet::{Places, SHEET_LIMIT, Sheet, sweep};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why a text cannot be edited. None of them says what is in it.
#[derive(Debug, thiserror::Error)]
pub enum EditorError {
    /// The variable cannot be read as a command.
    #[error(
        "cannot read ${variable} as a command: a quote is not closed; set it to the editor and its arguments"
    )]
    Command {
        /// `VISUAL` or `EDITOR`.
        variable: &'static str,
    },
    /// No private folder.
    #[error("cannot make a private folder for the text, in {tried}: {error}")]
    NoPlace {
        /// Where it was tried.
        tried: String,
        /// Why not in the last of them.
        error: std::io::Error,
    },
    /// The text could not be written or read back.
    #[error("cannot {doing} the text to be edited: {error}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// It grew too large.
    #[error("the edited text is larger than {SHEET_LIMIT} bytes: it was not taken")]
    TooLarge,
    /// The editor did not start.
    #[error("cannot run the editor {program}: {error}; set $VISUAL or $EDITOR")]
    Start {
        /// Which.
        program: String,
        /// Why.
        error: std::io::Error,
    },
}

/// The operator's editor: a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editor {
    argv: Vec<OsString>,
}

impl Editor {
    /// `$VISUAL`, else `$EDITOR`, else `vi`, split as a shell splits it.
    ///
    /// # Errors
    /// When that cannot be split.
    pub fn from_environment() -> Result<Self, EditorError> {
        let value = |name| std::env::var(name).ok();
        Self::of(value("VISUAL").as_deref(), value("EDITOR").as_deref())
    }

    /// The same from the values of the two variables.
    ///
    /// # Errors
    /// When the one that counts cannot be split.
    pub fn of(visual: Option<&str>, editor: Option<&str>) -> Result<Self, EditorError> {
        let given = |value: Option<&str>| value.filter(|value| !value.trim().is_empty()).map(str::to_owned);
        let (variable, text) = match (given(visual), given(editor)) {
            (Some(visual), _) => ("VISUAL", visual),
            (None, Some(editor)) => ("EDITOR", editor),
            (None, None) => ("EDITOR", "vi".to_owned()),
        };
        let words = shell_words::split(&text).map_err(|_| EditorError::Command { variable })?;
        let mut argv: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        argv.extend(quiet(argv.first()));
        Ok(Self { argv })
    }

    /// The program's name, for people.
    #[must_use]
    pub fn program(&self) -> String {
        let program = self.argv.first().map(|program| program.to_string_lossy().into_owned());
        crate::domain::secret::shown(&program.unwrap_or_default())
    }

    /// What opens a sheet: for who runs programs on the terminal in a way of its own. Run it with [`Sheet::variables`].
    #[must_use]
    pub fn command(&self, sheet: &Sheet) -> Vec<OsString> {
        let mut argv = self.argv.clone();
        argv.push(sheet.path().as_os_str().to_owned());
        argv
    }
}

/// Vim, under whatever name, keeps swap files, undo files and what was yanked (`viminfo`, `shada`) elsewhere, in plain text: not of this
/// one.
fn quiet(program: Option<&OsString>) -> Vec<OsString> {
    let is_vim = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ["vim", "nvim", "gvim"].iter().any(|vim| name == *vim || name.starts_with(&format!("{vim}.")))
    };
    let Some(program) = program.map(Path::new) else { return Vec::new() };
    if !is_vim(program) && !found(program).is_some_and(|path| is_vim(&path)) {
        return Vec::new();
    }
    let words =
        ["-n", "-i", "NONE", "-c", "silent! set nobackup nowritebackup", "-c", "silent! setlocal noundofile"];
    words.map(OsString::from).to_vec()
}

/// The file that a program's name leads to, through all links.
fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.canonicalize().ok();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|dir| dir.join(program).canonicalize().ok())
}

#[cfg(test)]
mod tests;
