//! What changes under the running console: the environment, the configuration, who has the terminal.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{MESSAGES, Shell, remember};
use crate::app::{Level, Msg, Seen};
use crate::config::{Config, Mistakes};
use crate::console::effects::Effects;
use crate::console::looks;
use crate::console::terminal::Terminal;

impl Shell {
    /// Leaves this environment for another: what belongs to this one is closed, what it changes is finished behind the scenes.
    pub(super) fn switch(&mut self, name: &str, terminal: &Terminal) {
        let settings = match self.config.settings(Some(name)) {
            Ok(settings) => settings,
            Err(mistakes) => {
                let advice = "`hostwright config check` shows all of them.".to_owned();
                let text = format!("cannot switch to {name}: {mistakes}");
                return self.update(Msg::Note { level: Level::Error, text, advice }, terminal);
            }
        };
        let (send, messages) = mpsc::channel(MESSAGES);
        // A shell that is being made ready for a host of the old environment finds nobody any more.
        let (lend, lends) = mpsc::channel(1);
        let effects = Effects::new(
            Arc::new(settings.clone()),
            Arc::new(self.config.clone()),
            self.capabilities.inside,
            send,
            lend,
        );
        self.left.spawn(std::mem::replace(&mut self.effects, effects).finish());
        (self.messages, self.lends) = (messages, lends);
        // Ids begin anew there: nothing of here is answered there.
        (self.held, self.reopen) = (None, None);
        self.memory.note(self.state.place());
        self.state = crate::console::state(&settings, self.config.looks.keymap.clone());
        let memory = std::mem::replace(&mut self.memory, remember(&mut self.state));
        self.left.spawn(async {
            memory.finish().await;
            Vec::new()
        });
        self.seen = Seen::default();
        self.settings = settings;
        self.resized(terminal);
        self.effects.connect();
    }

    /// The configuration's files have changed: theme and keys count at once; with a mistake in them the old ones stay.
    pub(super) fn reload(&mut self, read: Result<Box<Config>, Mistakes>, terminal: &Terminal) {
        let note = |level, text: String, advice: &str| Msg::Note { level, text, advice: advice.to_owned() };
        let config = match read {
            Ok(config) => *config,
            Err(mistakes) => {
                let text = format!("the configuration has a mistake, the old one stays: {mistakes}");
                return self.update(note(Level::Error, text, "Mend it and save it again."), terminal);
            }
        };
        self.update(Msg::Keys(Box::new(config.looks.keymap.clone())), terminal);
        // Compared with what counted at the start, however often the files change.
        let restart = config.differs_in_more_than_looks(&self.config);
        self.config.looks = config.looks;
        self.dress();
        let news = if restart {
            note(
                Level::Warning,
                "theme and keys are the new ones; the rest counts after a restart".to_owned(),
                "",
            )
        } else {
            note(Level::Info, "theme and keys are the new ones".to_owned(), "")
        };
        self.update(news, terminal);
    }

    /// Puts the theme on that fits what is known of the terminal.
    pub(super) fn dress(&mut self) {
        let theme = looks::theme(&self.config, &self.settings, &self.capabilities);
        if theme != self.theme {
            (self.theme, self.force) = (theme, true);
        }
    }
}
