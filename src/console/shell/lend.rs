//! Lending the terminal: to a shell on a host, to the operator's editor.

use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Timestamp;

use super::Shell;
use crate::app::secrets::Back;
use crate::app::{self, Answer, Effect, EffectId, Level, Msg};
use crate::console::child;
use crate::console::edit::{Next, Opened};
use crate::console::effects::Lend;
use crate::console::terminal::Terminal;
use crate::domain::Problem;
use crate::ops;

impl Shell {
    /// Does what is ready to be done with the terminal.
    pub(super) async fn lend(&mut self, lend: Lend, terminal: &mut Terminal) {
        match lend {
            Lend::Shell(shell) => self.run_shell(&shell, terminal).await,
            Lend::Edit(opened) => self.run_editor(opened, terminal).await,
            Lend::Back(opened, why) => self.ask_again(opened, why, terminal),
        }
    }

    /// Runs a program on the terminal until it has ended. News are taken in meanwhile, and shown afterwards. None: a signal ends the
    /// console.
    async fn run_child(
        &mut self,
        argv: &[OsString],
        variables: &[(&'static str, PathBuf)],
        terminal: &mut Terminal,
    ) -> Option<Result<std::process::ExitStatus, std::io::Error>> {
        terminal.leave();
        let ended = child::run(
            argv,
            variables,
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
        match ended {
            Ok(status) => Some(Ok(status)),
            Err(child::Ended::Failed(error)) => Some(Err(error)),
            Err(child::Ended::Console(error)) => {
                self.end = Some(Err(error));
                None
            }
        }
    }

    /// Gives the terminal to a shell on a host until that has ended.
    async fn run_shell(&mut self, shell: &ops::shell::Shell, terminal: &mut Terminal) {
        let argv: Vec<OsString> = shell.argv.iter().map(OsString::from).collect();
        let Some(ended) = self.run_child(&argv, &[], terminal).await else { return };
        let ended = match ended {
            Ok(status) if status.success() => None,
            // A shell ends with what its last command ended with: that is no mistake of ours, but who looks for one sees it.
            Ok(status) => Some((Level::Info, format!("the shell ended: {status}"))),
            Err(error) => {
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

    /// Gives the terminal to the editor, and does what is to be done with the text then. A signal that ends the console drops the
    /// text, which wipes it.
    pub(super) async fn run_editor(&mut self, opened: Box<Opened>, terminal: &mut Terminal) {
        let (argv, variables) = opened.command();
        let Some(ended) = self.run_child(&argv, &variables, terminal).await else { return };
        self.retake(terminal);
        match ended {
            Ok(status) if status.success() => match opened.next() {
                Next::Answer(result) => self.answer(opened.id, result, terminal),
                Next::Ask(why) => self.ask_again(opened, why, terminal),
                Next::Save(text) => self.effects.save(*opened, text),
            },
            Ok(status) => {
                self.answer(opened.id, Err(opened.ended(&format!("ended with {status}"))), terminal);
            }
            Err(error) => {
                self.answer(opened.id, Err(opened.ended(&format!("could not be run ({error})"))), terminal);
            }
        }
    }

    fn answer(&mut self, id: EffectId, result: Result<Answer, Problem>, terminal: &Terminal) {
        self.update(Msg::Answer { id, result }, terminal);
    }

    /// Keeps the text while the operator is asked what becomes of it.
    fn ask_again(&mut self, opened: Box<Opened>, why: Back, terminal: &Terminal) {
        let (id, key) = (opened.id, opened.key().to_owned());
        self.update(Msg::EditedBack { id, key, why }, terminal);
        self.held = Some(opened);
    }

    /// Shows what differs in the text that is kept, with its values.
    pub(super) fn show_edited(&mut self, id: EffectId, terminal: &Terminal) {
        let Some(opened) = self.held.take_if(|opened| opened.id == id) else { return };
        match opened.shown() {
            Ok(why) => self.ask_again(opened, why, terminal),
            Err(problem) => self.answer(id, Err(problem), terminal),
        }
    }

    /// Wipes the text when nobody is asked about it any more.
    pub(super) fn forget_edited(&mut self, terminal: &Terminal) {
        let state = &self.state;
        if let Some(opened) = self.held.take_if(|opened| !state.asks_again(opened.id)) {
            let (id, answer) = (opened.id, opened.thrown_away());
            drop(opened);
            self.answer(id, Ok(answer), terminal);
        }
    }
}
