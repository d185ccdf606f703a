//! Where the console is, in a form that outlives it: the screen, and each table's filter and sort. Read back when it starts again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::items::Topic;
use super::open;
use super::screens::{Screen, hosts, runs};
use super::state::State;
use super::table::Table;

/// Where the console is. Screens, tables and columns go by their names, so that another version understands them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The screen; inside a run the table that it was opened from.
    pub screen: String,
    /// The tables, by the names of their screens.
    pub tables: BTreeMap<String, TablePlace>,
}

/// What one table shows, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TablePlace {
    /// The filter, as it was typed.
    pub filter: String,
    /// The column that it is sorted by.
    pub column: String,
    /// From large to small.
    pub descending: bool,
}

impl Screen {
    /// The screens that have a tab, in that order.
    pub fn tabs() -> impl Iterator<Item = Self> {
        [Self::Hosts, Self::Runs].into_iter().chain(Topic::ALL.map(Self::List))
    }

    /// Its name, that of its scope in `config.toml`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.scope().as_str()
    }

    /// The screen whose tab has this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::tabs().find(|screen| screen.name() == name)
    }

    /// The columns that its table can be sorted by.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Hosts => &hosts::COLUMNS,
            Self::Runs => &runs::COLUMNS,
            Self::List(topic) => topic.columns(),
            Self::Run => &[],
        }
    }
}

impl State {
    /// Where the console is.
    #[must_use]
    pub fn place(&self) -> Place {
        let tab = |screen: &Screen| Screen::named(screen.name()).is_some();
        let shown = std::iter::once(&self.screen).chain(self.stack.iter().rev()).find(|screen| tab(screen));
        let of =
            |screen: Screen| Some((screen.name().to_owned(), table_place(screen, self.table_of(screen)?)));
        Place {
            screen: shown.copied().unwrap_or_default().name().to_owned(),
            tables: Screen::tabs().filter_map(of).collect(),
        }
    }

    /// Goes back to where another console was. What is not understood stays as it is.
    pub fn restore(&mut self, place: &Place) {
        for screen in Screen::tabs() {
            let saved = place.tables.get(screen.name());
            if let (Some(saved), Some(table)) = (saved, self.table_of_mut(screen)) {
                restore_table(screen, table, saved);
            }
        }
        if let Some(screen) = Screen::named(&place.screen) {
            open::go(self, screen);
        }
        self.touch();
    }
}

fn table_place(screen: Screen, table: &Table) -> TablePlace {
    let column = screen.columns().get(table.column).copied().unwrap_or_default();
    TablePlace {
        filter: table.filter.text().to_owned(),
        column: column.to_owned(),
        descending: table.descending,
    }
}

fn restore_table(screen: Screen, table: &mut Table, saved: &TablePlace) {
    // Nobody can have typed these.
    if !saved.filter.contains(char::is_control) {
        table.set_filter(&saved.filter);
    }
    if let Some(column) = screen.columns().iter().position(|column| *column == saved.column) {
        (table.column, table.descending) = (column, saved.descending);
        table.rearrange();
    }
}

/// Starts on this screen with this filter; a filter alone is for the first screen.
pub(super) fn start(state: &mut State, screen: Option<Screen>, filter: Option<&str>) {
    if let Some(screen) = screen.or(filter.map(|_| Screen::default())) {
        open::go(state, screen);
    }
    if let (Some(text), Some(table)) = (filter, state.table_mut()) {
        table.set_filter(text);
        state.touch();
    }
}
