//! The loop: messages in, effects out, frames when something changed.
//!
//! It never waits on anything but its channels, reads the clock for everybody, and draws the newest state when the terminal has
//! taken the frame before: at most 60 times a second, not at all while nothing changes.

mod lend;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::caps::Capabilities;
use super::decode::Input;
use super::edit::Opened;
use super::effects::{Effects, Lend};
use super::memory::Memory;
use super::panics::Guard;
use super::signals::{Signal, Signals};
use super::terminal::{Event, Terminal};
use super::{ConsoleError, Options, PanicIn, Start, job, looks, reload};
use crate::app::{self, Effect, Level, Msg, Seen, State};
use crate::config::{Config, Mistakes, Settings, Sources, Theme, Variables};
use crate::view;

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_micros(16_667);
/// How long a burst of messages is taken in before a frame is drawn between.
const BURST: Duration = Duration::from_millis(8);
/// How long the first frame may take to get out before the rest begins all the same.
const FIRST_FRAME: Duration = Duration::from_millis(100);
/// How many messages of the background may wait; who has more waits too.
const MESSAGES: usize = 256;

/// The loop and all that it owns.
pub(crate) struct Shell {
    state: State,
    seen: Seen,
    settings: Settings,
    config: Config,
    /// The theme as this terminal shows it.
    theme: Theme,
    capabilities: Capabilities,
    effects: Effects,
    messages: mpsc::Receiver<Msg>,
    /// The configuration, each time that its files change.
    reloads: mpsc::Receiver<Result<Box<Config>, Mistakes>>,
    sources: Sources,
    /// What is ready to get the terminal.
    lends: mpsc::Receiver<Lend>,
    /// A text that was edited and not uploaded, while the operator is asked.
    held: Option<Box<Opened>>,
    /// A text that is to be opened again, as soon as the message at hand is done.
    reopen: Option<Box<Opened>>,
    /// What belonged to environments that were left and is not done yet.
    left: JoinSet<Vec<String>>,
    signals: Signals,
    shutdown: CancellationToken,
    /// Where to start, until that is done.
    start: Start,
    memory: Memory,
    panic: Option<PanicIn>,
    /// The earliest time of the next frame.
    next_frame: Instant,
    /// Draw although the state has not changed: the screen was lost.
    force: bool,
    /// The terminal was asked for its background.
    asked: bool,
    /// Stop the process, as soon as the message at hand is done.
    suspend: bool,
    end: Option<Result<(), ConsoleError>>,
}

/// What the loop woke up for.
enum Woken {
    Terminal(Event),
    Message(Msg),
    Reload(Result<Box<Config>, Mistakes>),
    Lend(Lend),
    Signal(Signal),
    Panics(Vec<String>),
    Shutdown,
    /// It is time: for a frame, or for [`Msg::Wake`].
    Time,
}

impl Shell {
    pub(crate) fn new(
        options: Options,
        capabilities: Capabilities,
        signals: Signals,
        shutdown: CancellationToken,
    ) -> Self {
        let Options { config, settings, sources, start, panic } = options;
        let mut state = super::state(&settings, config.looks.keymap.clone());
        for warning in &config.warnings {
            state.note(Level::Warning, warning.clone());
        }
        let memory = remember(&mut state);
        let (send, messages) = mpsc::channel(MESSAGES);
        let (lend, lends) = mpsc::channel(1);
        // Until the files are watched.
        let (_, reloads) = mpsc::channel(1);
        let theme = looks::theme(&config, &settings, &capabilities);
        Self {
            state,
            seen: Seen::default(),
            effects: Effects::new(
                Arc::new(settings.clone()),
                Arc::new(config.clone()),
                capabilities.inside,
                send,
                lend,
            ),
            theme,
            settings,
            config,
            capabilities,
            messages,
            reloads,
            sources,
            lends,
            held: None,
            reopen: None,
            left: JoinSet::new(),
            signals,
            shutdown,
            start,
            memory,
            panic,
            next_frame: Instant::now(),
            force: true,
            asked: false,
            suspend: false,
            end: None,
        }
    }

    /// Runs until the end. Gives back the effects, some of which may still be under way.
    pub(crate) async fn run(
        mut self,
        terminal: &mut Terminal,
        panics: &Guard,
    ) -> (Result<(), ConsoleError>, Option<Effects>) {
        let Start { screen, filter } = std::mem::take(&mut self.start);
        let start = Msg::Start { screen, filter };
        let first = app::update(&mut self.state, &self.seen, Timestamp::now(), start);
        self.resized(terminal);
        self.draw(terminal);
        self.first_frame_out(terminal).await;
        self.effects.connect();
        for effect in first {
            self.perform(effect, terminal);
        }
        let (send, reloads) = mpsc::channel(1);
        self.reloads = reloads;
        let watching = reload::watch(self.sources.clone(), self.config.watched.clone(), send);
        let _watching = AbortOnDropHandle::new(tokio::spawn(watching));
        if let Some(place) = self.panic.take() {
            self.crash(place);
        }
        loop {
            if let Some(end) = self.end.take() {
                self.memory.note(self.state.place());
                self.memory.finish().await;
                return (end, Some(self.effects.with_left(self.left)));
            }
            let woken = self.wait(terminal, panics).await;
            match woken {
                Woken::Lend(lend) => self.lend(lend, terminal).await,
                woken => {
                    self.take(woken, terminal);
                    self.take_burst(terminal);
                }
            }
            if let Some(opened) = self.reopen.take() {
                self.run_editor(opened, terminal).await;
            }
            if self.suspend {
                self.suspend = false;
                self.stop(terminal).await;
            }
            self.draw_if_due(terminal);
            self.memory.write_if_due();
        }
    }

    /// Connecting keeps all processors busy for a moment, so the first frame goes out before it, unless nobody reads it.
    async fn first_frame_out(&mut self, terminal: &mut Terminal) {
        if let Ok(event) = tokio::time::timeout(FIRST_FRAME, terminal.frame_out()).await {
            self.take(Woken::Terminal(event), terminal);
        }
    }

    async fn wait(&mut self, terminal: &mut Terminal, panics: &Guard) -> Woken {
        let frame = self.wants_frame(terminal).then_some(self.next_frame);
        let wake = self.seen.wake.map(|at| {
            let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            (Instant::now() + left).max(self.next_frame)
        });
        let time = frame.into_iter().chain(wake).chain(self.memory.due()).min();
        tokio::select! {
            biased;
            signal = self.signals.next() => Woken::Signal(signal),
            () = self.shutdown.cancelled() => Woken::Shutdown,
            event = terminal.next() => Woken::Terminal(event),
            texts = panics.next() => Woken::Panics(texts),
            () = until(time) => Woken::Time,
            Some(message) = self.messages.recv() => Woken::Message(message),
            Some(read) = self.reloads.recv() => Woken::Reload(read),
            Some(lend) = self.lends.recv() => Woken::Lend(lend),
        }
    }

    fn take(&mut self, woken: Woken, terminal: &mut Terminal) {
        match woken {
            Woken::Terminal(Event::Input(input)) => self.input(input, terminal),
            Woken::Terminal(Event::Drained) => {}
            Woken::Terminal(Event::Closed) => self.end = Some(Err(ConsoleError::Closed)),
            Woken::Message(message) => self.update(message, terminal),
            Woken::Reload(read) => self.reload(read, terminal),
            // Taken before: the terminal goes to somebody else meanwhile.
            Woken::Lend(_) => {}
            Woken::Signal(signal) => self.signal(signal, terminal),
            Woken::Panics(texts) => {
                for text in texts {
                    self.update(Msg::Crashed(text), terminal);
                }
            }
            Woken::Shutdown => self.end = Some(Ok(())),
            Woken::Time => {
                if self.seen.wake.is_some_and(|at| at <= Timestamp::now()) {
                    self.seen.wake = None;
                    self.update(Msg::Wake, terminal);
                }
            }
        }
    }

    /// What has come meanwhile belongs into the same frame; keys go first.
    fn take_burst(&mut self, terminal: &mut Terminal) {
        let begun = Instant::now();
        while self.end.is_none() && !self.suspend && self.reopen.is_none() && begun.elapsed() < BURST {
            if let Some(input) = terminal.try_input() {
                self.input(input, terminal);
            } else if let Ok(message) = self.messages.try_recv() {
                self.update(message, terminal);
            } else {
                return;
            }
        }
    }

    fn input(&mut self, input: Input, terminal: &mut Terminal) {
        let message = match input {
            Input::Key(key) => Msg::Key(key),
            Input::Paste(text) => Msg::Paste(text),
            Input::Focus(focus) => Msg::Focus(focus),
            // Reports that nobody asked for are left over from another program.
            Input::Mouse(..) if !self.settings.console.mouse => return,
            Input::Mouse(what, x, y) => Msg::Mouse(what, x, y),
            Input::Background(red, green, blue) => {
                self.capabilities.light = Some(looks::is_light(red, green, blue));
                self.dress();
                return;
            }
        };
        self.update(message, terminal);
    }

    fn signal(&mut self, signal: Signal, terminal: &mut Terminal) {
        match signal {
            Signal::Resized => {
                if terminal.resized() {
                    self.resized(terminal);
                }
            }
            Signal::Stop => self.suspend = true,
            // Somebody stopped us in a way that cannot be caught; who knows what the terminal shows now.
            Signal::Continued => {
                if terminal.foreground() {
                    self.retake(terminal);
                } else {
                    self.suspend = true;
                }
            }
            Signal::End(..) | Signal::HangUp => self.end = signal.error().map(Err),
        }
    }

    fn resized(&mut self, terminal: &Terminal) {
        let (width, height) = terminal.size();
        self.force = true;
        self.update(Msg::Resize { width, height }, terminal);
    }

    fn update(&mut self, message: Msg, terminal: &Terminal) {
        for effect in app::update(&mut self.state, &self.seen, Timestamp::now(), message) {
            self.perform(effect, terminal);
        }
        self.forget_edited(terminal);
    }

    fn perform(&mut self, effect: Effect, terminal: &Terminal) {
        match effect {
            Effect::Quit => self.end = Some(Ok(())),
            Effect::Suspend => self.suspend = true,
            Effect::Redraw => self.force = true,
            Effect::EditAgain(id) => self.reopen = self.held.take_if(|opened| opened.id == id),
            Effect::EditShow(id) => self.show_edited(id, terminal),
            Effect::Switch(name) => self.switch(&name, terminal),
            effect => self.effects.start(effect),
        }
    }

    fn wants_frame(&self, terminal: &Terminal) -> bool {
        (self.force || self.state.needs_frame() || self.effects.speaks()) && terminal.ready()
    }

    fn draw_if_due(&mut self, terminal: &mut Terminal) {
        if self.end.is_none() && self.wants_frame(terminal) && Instant::now() >= self.next_frame {
            self.draw(terminal);
        }
    }

    fn draw(&mut self, terminal: &mut Terminal) {
        self.next_frame = Instant::now() + FRAME;
        if std::mem::take(&mut self.force) {
            terminal.repaint();
        }
        for bytes in self.effects.words() {
            terminal.say(&bytes);
        }
        if !self.asked && self.capabilities.asks && self.config.looks.themes.depend_on_background() {
            self.asked = true;
            terminal.say(looks::ASK_BACKGROUND);
        }
        app::prepare(&mut self.state, Timestamp::now());
        let (state, theme) = (&self.state, &self.theme);
        self.seen = terminal.draw(|frame| view::draw(frame, state, theme));
        self.memory.note(self.state.place());
    }

    /// Gives the terminal back, stops the whole job as Ctrl-Z does elsewhere, and takes the terminal again afterwards.
    async fn stop(&mut self, terminal: &mut Terminal) {
        terminal.leave();
        self.end = job::halt(&mut self.signals, || terminal.foreground()).await.err().map(Err);
        if self.end.is_none() {
            self.retake(terminal);
        }
    }

    fn retake(&mut self, terminal: &mut Terminal) {
        match terminal.retake() {
            Ok(()) => self.resized(terminal),
            Err(error) => self.end = Some(Err(error)),
        }
    }

    /// For tests: a panic where the test wants it.
    #[expect(clippy::panic, reason = "tests of what a panic leaves behind need one")]
    fn crash(&self, place: PanicIn) {
        match place {
            PanicIn::Loop => panic!("a test asked for this panic"),
            PanicIn::Task => drop(tokio::spawn(async { panic!("a test asked for this panic") })),
        }
    }
}

/// Goes back to where the console was in this environment.
fn remember(state: &mut State) -> Memory {
    let (mut memory, place) = Memory::open(&Variables::of_process(), &state.environment.name);
    if let Some(place) = place {
        state.restore(&place);
    }
    memory.start(state.place());
    memory
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
