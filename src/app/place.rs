//! Where the console is, in a form that outlives it: the screen, the open run, each table's filter and sort. Read back when it starts
//! again: at once, but for the run, which must be listed first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::items::Topic;
use super::notice::Level;
use super::open;
use super::screens::run::{Pane, RunScreen};
use super::screens::{Screen, hosts, runs};
use super::state::State;
use super::table::Table;
use crate::config::Action;
use crate::domain::secret::tree::Order;

/// A UID has 36 characters; what is much longer is none.
const UID_LIMIT: usize = 64;
/// A Job's name has at most 63 characters.
const NAME_LIMIT: usize = 63;

/// Where the console is. Screens, tables and columns go by their names, so that another version understands them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The screen; inside a run the table that it was opened from.
    pub screen: String,
    /// The tables, by the names of their screens.
    pub tables: BTreeMap<String, TablePlace>,
    /// The run that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunPlace>,
}

/// An open run, and how it is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunPlace {
    /// The Job's UID: names come back.
    pub uid: String,
    /// The Job's name: what is told when it is gone.
    pub name: String,
    /// The pane with the focus.
    pub pane: String,
    /// The pane has the whole screen.
    pub zoom: bool,
}

impl RunPlace {
    /// Whether this can have been written by a console.
    fn is_sound(&self) -> bool {
        let of =
            |text: &str, limit, odd: fn(&u8) -> bool| text.len() <= limit && !text.as_bytes().iter().any(odd);
        !self.uid.is_empty()
            && of(&self.uid, UID_LIMIT, |b| !b.is_ascii_graphic())
            && of(&self.name, NAME_LIMIT, |b| !matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
    }
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
    /// All columns have their full width.
    pub wide: bool,
}

impl Screen {
    /// The screens that have a tab, in that order.
    pub fn tabs() -> impl Iterator<Item = Self> {
        use Topic::{Activity, Queue, Targets, Tokens};
        let list = Self::List;
        [Self::Hosts, Self::Runs, list(Targets), Self::Secrets, list(Tokens), list(Queue), list(Activity)]
            .into_iter()
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
            Self::Secrets => &Order::COLUMNS,
            Self::Run | Self::Versions | Self::Differences => &[],
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
            run: self.run.as_ref().map(|run| self.run_place(run)).or_else(|| self.coming_back.clone()),
        }
    }

    fn run_place(&self, run: &RunScreen) -> RunPlace {
        let name = self.store.run(&run.uid).map(|found| found.name.clone());
        RunPlace {
            uid: run.uid.clone(),
            name: name.unwrap_or_default(),
            pane: run.focus.name().to_owned(),
            zoom: run.zoom,
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
        self.coming_back = place.run.clone().filter(RunPlace::is_sound);
        self.touch();
    }
}

/// Runs were listed: the one that was open when the console ended is opened again, unless it is gone.
pub(super) fn come_back(state: &mut State) {
    let Some(back) = state.coming_back.take() else { return };
    let Some(run) = state.store.run(&back.uid) else {
        if state.store.is_listing() || !state.store.ever_listed() {
            state.coming_back = Some(back);
        } else {
            let name = if back.name.is_empty() { "the run" } else { &back.name };
            state.say(Level::Warning, format!("{name} was open here before; it is gone"), "");
        }
        return;
    };
    let host = run.host.to_string();
    // The way back leads to its row.
    let key = if state.screen == Screen::Hosts { &host } else { &back.uid };
    if let Some(table) = state.table_mut() {
        table.stand_on(key);
    }
    open::open_run(state, &back.uid);
    if let Some(run) = &mut state.run {
        run.focus = Pane::named(&back.pane).unwrap_or(run.focus);
        run.zoom = back.zoom;
    }
}

/// The operator does something before the run of the last time is there: they are not taken away from it.
pub(super) fn go_on(state: &mut State, action: Action) {
    use Action as A;
    let only_looks = matches!(
        action,
        A::Help
            | A::Why
            | A::Messages
            | A::Palette
            | A::Interrupt
            | A::Redraw
            | A::Suspend
            | A::Quit
            | A::Utc
    );
    if !only_looks {
        state.coming_back = None;
    }
}

fn table_place(screen: Screen, table: &Table) -> TablePlace {
    let column = screen.columns().get(table.column).copied().unwrap_or_default();
    TablePlace {
        filter: table.filter.text().to_owned(),
        column: column.to_owned(),
        descending: table.descending,
        wide: table.wide,
    }
}

fn restore_table(screen: Screen, table: &mut Table, saved: &TablePlace) {
    // Nobody can have typed these.
    if !saved.filter.contains(char::is_control) {
        table.set_filter(&saved.filter);
    }
    table.wide = saved.wide;
    if let Some(column) = screen.columns().iter().position(|column| *column == saved.column) {
        (table.column, table.descending) = (column, saved.descending);
        table.rearrange();
    }
}

/// Starts on this screen with this filter; a filter alone is for the first screen.
pub(super) fn start(state: &mut State, screen: Option<Screen>, filter: Option<&str>) {
    if screen.is_some() || filter.is_some() {
        state.coming_back = None;
    }
    if let Some(screen) = screen.or(filter.map(|_| Screen::default())) {
        open::go(state, screen);
    }
    if let (Some(text), Some(table)) = (filter, state.table_mut()) {
        table.set_filter(text);
        state.touch();
    }
}
