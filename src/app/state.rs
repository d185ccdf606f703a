//! The one value that the console is.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

use super::dialog::{Dialog, Intent};
use super::effect::{Effect, EffectId};
use super::environment::EnvironmentInfo;
use super::filter::Scratch;
use super::items::Topic;
use super::notice::{Bulk, Entry, InFlight, Level, Notice};
use super::place::RunPlace;
use super::screens::Screen;
use super::screens::hosts::HostsScreen;
use super::screens::list::ListScreen;
use super::screens::run::RunScreen;
use super::screens::runs::RunsScreen;
use super::screens::secrets::SecretsScreen;
use super::store::Store;
use super::table::Table;
use crate::config::{Key, Keymap, Rights, Scope};
use crate::domain::{BackEnd, Health, Problem, Run};

/// How many lines of what happened are kept.
const ACTIVITY_KEPT: usize = 500;
/// How many problems of single runs are kept.
const VERDICTS_KEPT: usize = 2_000;
/// How long a notice stays, in seconds.
const NOTICE_SECONDS: i64 = 6;
const PROBLEM_SECONDS: i64 = 30;
/// How many notices stand above the newest.
const STACKED: usize = 3;
/// From this width on the details stand beside the table.
pub const WIDE: u16 = 140;

/// Everything that the console shows and remembers.
#[derive(Debug)]
pub struct State {
    /// Where we are.
    pub environment: EnvironmentInfo,
    /// What keys mean.
    pub keymap: Keymap,
    /// What the cluster lets us do, as far as it has said.
    pub rights: Rights,
    /// When the newest message came.
    pub now: Timestamp,
    /// The terminal's columns and rows.
    pub size: (u16, u16),
    /// What came from outside.
    pub store: Store,
    /// Which screen is shown.
    pub screen: Screen,
    /// The screens to go back to.
    pub stack: Vec<Screen>,
    /// The table of hosts.
    pub hosts: HostsScreen,
    /// The table of runs.
    pub runs: RunsScreen,
    /// The screens of the topics.
    pub lists: [ListScreen; Topic::ALL.len()],
    /// The screen of the secrets, and the pages of one of them.
    pub secrets: SecretsScreen,
    /// The run that is open.
    pub run: Option<RunScreen>,
    /// The run that was open when the console ended, until it is listed.
    pub coming_back: Option<RunPlace>,
    /// What stands before the screen; the last is in front.
    pub dialogs: Vec<Dialog>,
    /// What is said above the footer.
    pub notice: Option<Notice>,
    /// What was said before and is still to be read, oldest first.
    pub older: VecDeque<Notice>,
    /// The last problem, in full.
    pub last_problem: Option<Entry>,
    /// What happened, oldest first.
    pub activity: VecDeque<Entry>,
    /// The effects whose answers are awaited.
    pub in_flight: Vec<InFlight>,
    /// The deed on several runs that was asked for last.
    pub bulk: Option<Bulk>,
    /// The keys of a chord so far.
    pub chord: Vec<Key>,
    /// When the cursor will have rested.
    pub rest: Option<Timestamp>,
    /// The UID of the run that the cursor rested on: its details are shown.
    pub settled: Option<String>,
    /// The UID of the run that the cursor rests on now, and until when its details are waited for: what is shown beside the table
    /// changes once, not twice.
    pub settling: Option<(String, Timestamp)>,
    /// Why the last deed on a run failed, by UID.
    verdicts: HashMap<String, String>,
    pub(super) scratch: Scratch,
    pub(super) outbox: Vec<Effect>,
    next_id: u64,
    redraw: bool,
}

impl State {
    /// The console as it starts: nothing is known yet, the first frame can be drawn.
    #[must_use]
    pub fn new(environment: EnvironmentInfo, keymap: Keymap, now: Timestamp) -> Self {
        let mut store = Store::default();
        // Nobody asks the bucket before its screen is shown.
        for (back_end, used) in
            [(BackEnd::Queue, environment.amqp), (BackEnd::Ara, environment.ara), (BackEnd::Bucket, false)]
        {
            if !used {
                store.set_health(back_end, Health::Unused);
            }
        }
        Self {
            environment,
            keymap,
            rights: Rights::default(),
            now,
            size: (80, 24),
            store,
            screen: Screen::Hosts,
            stack: Vec::new(),
            hosts: HostsScreen::default(),
            runs: RunsScreen::default(),
            lists: Topic::ALL.map(ListScreen::new),
            secrets: SecretsScreen::default(),
            run: None,
            coming_back: None,
            dialogs: Vec::new(),
            notice: None,
            older: VecDeque::new(),
            last_problem: None,
            activity: VecDeque::new(),
            in_flight: Vec::new(),
            bulk: None,
            chord: Vec::new(),
            rest: None,
            settled: None,
            settling: None,
            verdicts: HashMap::new(),
            scratch: Scratch::default(),
            outbox: Vec::new(),
            next_id: 1,
            redraw: true,
        }
    }

    /// True when something that is on screen may have changed since [`prepare`](super::prepare).
    #[must_use]
    pub fn needs_frame(&self) -> bool {
        self.redraw
    }

    pub(super) fn touch(&mut self) {
        self.redraw = true;
    }

    pub(super) fn clear_redraw(&mut self) {
        self.redraw = false;
    }

    pub(super) fn fresh_id(&mut self) -> EffectId {
        let id = EffectId(self.next_id);
        self.next_id += 1;
        id
    }

    /// The scope that keys count in.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.screen.scope()
    }

    /// The screen of a topic.
    #[must_use]
    pub fn list(&self, topic: Topic) -> Option<&ListScreen> {
        self.lists.iter().find(|list| list.topic == topic)
    }

    pub(super) fn list_mut(&mut self, topic: Topic) -> Option<&mut ListScreen> {
        self.lists.iter_mut().find(|list| list.topic == topic)
    }

    /// The screen of the topic that is shown, if one is.
    #[must_use]
    pub fn shown_list(&self) -> Option<&ListScreen> {
        match self.screen {
            Screen::List(topic) => self.list(topic),
            _ => None,
        }
    }

    /// The table of the screen, where it has one.
    #[must_use]
    pub fn table(&self) -> Option<&Table> {
        self.table_of(self.screen)
    }

    /// The table of a screen, where it has one.
    pub(super) fn table_of(&self, screen: Screen) -> Option<&Table> {
        match screen {
            Screen::Hosts => Some(&self.hosts.table),
            Screen::Runs => Some(&self.runs.table),
            Screen::List(topic) => self.list(topic).map(|list| &list.table),
            Screen::Secrets => Some(&self.secrets.table),
            Screen::Versions => self.secrets.versions.as_ref().map(|page| &page.table),
            Screen::Run | Screen::Differences => None,
        }
    }

    pub(super) fn table_mut(&mut self) -> Option<&mut Table> {
        self.table_of_mut(self.screen)
    }

    pub(super) fn table_of_mut(&mut self, screen: Screen) -> Option<&mut Table> {
        match screen {
            Screen::Hosts => Some(&mut self.hosts.table),
            Screen::Runs => Some(&mut self.runs.table),
            Screen::List(topic) => self.list_mut(topic).map(|list| &mut list.table),
            Screen::Secrets => Some(&mut self.secrets.table),
            Screen::Versions => self.secrets.versions.as_mut().map(|page| &mut page.table),
            Screen::Run | Screen::Differences => None,
        }
    }

    /// The run behind a row of the screen.
    #[must_use]
    pub fn run_of_row(&self, key: &str) -> Option<&Run> {
        match self.screen {
            Screen::Hosts => self.store.head(key),
            Screen::Runs | Screen::Run => self.store.run(key),
            Screen::List(_) | Screen::Secrets | Screen::Versions | Screen::Differences => None,
        }
    }

    /// The run under the cursor.
    #[must_use]
    pub fn current(&self) -> Option<&Run> {
        match (self.screen, &self.run) {
            (Screen::Run, Some(run)) => self.store.run(&run.uid),
            _ => self.run_of_row(self.table()?.cursor()?),
        }
    }

    /// True when the details of a host or a secret stand beside the table.
    #[must_use]
    pub fn details_beside(&self) -> bool {
        let shown = match self.screen {
            Screen::Hosts => self.hosts.details && !self.hosts.table.wide,
            Screen::Secrets => !self.secrets.table.wide,
            _ => false,
        };
        shown && self.size.0 >= WIDE
    }

    /// Whether the operator is asked if the text that this effect had edited is opened again.
    #[must_use]
    pub fn asks_again(&self, id: EffectId) -> bool {
        let asks = |dialog: &Dialog| match dialog {
            Dialog::Confirm(c) => c.buttons.iter().any(|b| b.intent == Some(Intent::EditAgain(id))),
            _ => false,
        };
        self.dialogs.iter().any(asks)
    }

    /// What is in flight for a run, if it changes anything.
    #[must_use]
    pub fn flight_of(&self, uid: &str) -> Option<&InFlight> {
        self.in_flight.iter().find(|f| f.effect.changes() && f.effect.run() == Some(uid))
    }

    /// Why the last deed on a run failed.
    #[must_use]
    pub fn verdict(&self, uid: &str) -> Option<&str> {
        self.verdicts.get(uid).map(String::as_str)
    }

    pub(super) fn set_verdict(&mut self, uid: &str, text: Option<String>) {
        match text {
            None => {
                self.verdicts.remove(uid);
            }
            Some(text) => {
                if self.verdicts.len() >= VERDICTS_KEPT {
                    self.verdicts.clear();
                }
                self.verdicts.insert(uid.to_owned(), text);
            }
        }
    }

    /// Says something above the footer and remembers it.
    pub(super) fn say(&mut self, level: Level, text: impl Into<String>, advice: impl Into<String>) {
        let entry = Entry { at: self.now, level, text: text.into(), advice: advice.into() };
        self.show(level, entry.text.clone());
        if level == Level::Error {
            self.last_problem = Some(entry.clone());
        }
        self.remember(entry);
    }

    /// Keeps something for the list of messages only.
    pub fn note(&mut self, level: Level, text: String) {
        self.remember(Entry { at: self.now, level, text, advice: String::new() });
    }

    /// Says something above the footer only.
    pub(super) fn show(&mut self, level: Level, text: impl Into<String>) {
        let seconds = if level == Level::Info { NOTICE_SECONDS } else { PROBLEM_SECONDS };
        let until = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(self.now);
        let notice = Notice { level, text: text.into(), until };
        // The same said again replaces itself; what is another thing is pushed up.
        if let Some(before) = self.notice.replace(notice)
            && before.until > self.now
            && self.notice.as_ref().is_some_and(|n| n.text != before.text)
        {
            if self.older.len() >= STACKED {
                self.older.pop_front();
            }
            self.older.push_back(before);
        }
        self.touch();
    }

    /// Takes away what was said long enough ago.
    pub(super) fn expire_notices(&mut self) {
        let now = self.now;
        let before = (self.older.len(), self.notice.is_some());
        self.older.retain(|notice| notice.until > now);
        self.notice.take_if(|notice| notice.until <= now);
        if before != (self.older.len(), self.notice.is_some()) {
            self.touch();
        }
    }

    /// Takes away everything that is said.
    pub(super) fn clear_notices(&mut self) {
        self.notice = None;
        self.older.clear();
    }

    /// Keeps a line of what happened.
    pub(super) fn remember(&mut self, entry: Entry) {
        if self.activity.len() >= ACTIVITY_KEPT {
            self.activity.pop_front();
        }
        self.activity.push_back(entry);
        self.touch();
    }

    /// A problem: to the notice line and to what happened.
    pub(super) fn problem(&mut self, problem: &Problem) {
        self.say(Level::Error, problem.text.clone(), problem.advice.clone());
    }
}
