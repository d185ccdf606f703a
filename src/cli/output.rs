//! Printing: tables for people, JSON and YAML for programs.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::domain::text::plain;

/// How a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns for people
    Table,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Prints a line on standard output.
///
/// # Errors
/// When standard output is closed.
pub fn say(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

/// Prints an error on standard error; if that is closed too there is nobody to tell.
pub fn fail(text: &str) {
    let lines: Vec<String> = text.lines().map(plain).collect();
    writeln!(io::stderr(), "hostwright: {}", lines.join("\n")).ok();
}

impl Output {
    /// Prints a value: as JSON or YAML whole, as a table through `table`.
    pub(super) fn print<T: Serialize>(self, value: &T, table: impl FnOnce(&T) -> Table) -> io::Result<()> {
        let text = match self {
            Self::Table => table(value).shortened(io::stdout().is_terminal()).to_string(),
            Self::Json => format!("{}\n", serde_json::to_string_pretty(value).map_err(io::Error::other)?),
            Self::Yaml => serde_saphyr::to_string(value).map_err(io::Error::other)?,
        };
        io::stdout().write_all(text.as_bytes())
    }
}

/// Rows under a header, in columns as wide as they need. What others wrote is made safe to print.
#[derive(Debug)]
pub(super) struct Table {
    header: bool,
    rows: Vec<Vec<String>>,
}

/// The widest cell on a terminal, in columns.
const WIDEST: usize = 48;

fn cut(cell: &str) -> String {
    if cell.width() <= WIDEST {
        return cell.to_owned();
    }
    let half = (WIDEST - 1) / 2;
    let head: String = cell.chars().take(half).collect();
    let tail: Vec<char> = cell.chars().rev().take(half).collect();
    head + "…" + &tail.into_iter().rev().collect::<String>()
}

impl Table {
    pub(super) fn new(header: &[&str]) -> Self {
        Self { header: true, rows: vec![header.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// A list of names and values, without a header.
    pub(super) fn pairs() -> Self {
        Self { header: false, rows: Vec::new() }
    }

    /// For a terminal: cells that would spoil the table are cut in the middle, since their ends tell them apart.
    fn shortened(mut self, terminal: bool) -> Self {
        if terminal && self.header {
            self.rows.iter_mut().flatten().for_each(|cell| *cell = cut(cell));
        }
        self
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|c| plain(&c.replace('\n', " "))).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.push_str(&" ".repeat(width + 2 - cell.width().min(*width)));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
