//! What changes under the running console: the environment, the configuration, who has the terminal.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::{MESSAGES, Shell, remember};
use crate::app::{self, Effect, Level, Msg, Seen};
use crate::config::{Config, Mistakes};
use crate::console::effects::Effects;
use crate::console::terminal::Terminal;
use crate::console::{child, looks};
use crate::ops;

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
        let (open_shell, shells) = mpsc::channel(1);
        let effects = Effects::new(Arc::new(settings.clone()), self.capabilities.inside, send, open_shell);
        self.left.spawn(std::mem::replace(&mut self.effects, effects).finish());
        (self.messages, self.shells) = (messages, shells);
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

    /// Gives the terminal to a shell on a host until that has ended. News are taken in meanwhile, and shown afterwards.
    pub(super) async fn run_shell(&mut self, shell: &ops::shell::Shell, terminal: &mut Terminal) {
        terminal.leave();
        let ended = child::run(
            &shell.argv,
            &mut self.signals,
            async |message| {
                self.state.now = Timestamp::now();
                for effect in app::update(&mut self.state, &self.seen, Timestamp::now(), message) {
                    if !matches!(effect, Effect::Quit | Effect::Suspend | Effect::Redraw | Effect::Switch(_))
                    {
                        self.effects.start(effect);
                    }
                }
            },
            &mut self.messages,
            || terminal.foreground(),
        )
        .await;
        let ended = match ended {
            Ok(status) if status.success() => None,
            // A shell ends with what its last command ended with: that is no mistake of ours, but who looks for one sees it.
            Ok(status) => Some((Level::Info, format!("the shell ended: {status}"))),
            Err(child::Ended::Console(error)) => {
                self.end = Some(Err(error));
                return;
            }
            Err(child::Ended::Failed(error)) => {
                let program = shell.argv.first().map(String::as_str).unwrap_or_default();
                Some((Level::Error, format!("cannot run {program}: {error}")))
            }
        };
        self.retake(terminal);
        if let Some((level, text)) = ended {
            let advice = "The environment's `shell` in config.toml says how a shell is opened.".to_owned();
            let advice = if level == Level::Error { advice } else { String::new() };
            self.update(Msg::Note { level, text, advice }, terminal);
        }
    }
}
