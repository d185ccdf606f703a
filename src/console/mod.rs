//! The shell of the terminal UI: terminal, event loop, effects, watches.
//!
//! `main` calls [`run`] in the one runtime. The loop owns the [`State`] and waits for nothing but its
//! bounded channels: keys from `input`, messages from `effects` and `watch`, signals, and the time. The mind is
//! [`crate::app`], the face is [`crate::view`]; neither knows of this module, and this one decides nothing that they could.

mod caps;
mod child;
mod clipboard;
mod decode;
mod deeds;
mod edit;
mod effects;
mod error;
#[cfg(test)]
mod hostile;
mod input;
mod job;
mod looks;
mod memory;
mod notify;
mod outside;
mod paint;
mod panics;
mod reload;
mod rights;
mod secrets;
mod shell;
mod signals;
mod start;
mod terminal;
mod topics;
mod tty;
mod watch;
mod writer;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio_util::sync::CancellationToken;

use crate::app::{EnvironmentInfo, State};
use crate::config::{Config, Keymap, Settings, Sources};

pub use error::ConsoleError;
pub use start::Start;

use caps::Capabilities;
use shell::Shell;
use signals::Signals;
use terminal::Terminal;
use tty::Tty;

/// What the console is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The whole configuration: the looks, what else is doubtful in it, the other environments.
    pub config: Config,
    /// The settings; an environment without a name means that nothing is configured, and no back end is spoken to.
    pub settings: Settings,
    /// Where the configuration came from, to read it again.
    pub sources: Sources,
    /// Where to start.
    pub start: Start,
    /// For tests: where to panic once the first frame is drawn.
    pub panic: Option<PanicIn>,
}

/// Where a test wants a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanicIn {
    /// In the console's own task, which ends it.
    Loop,
    /// In a background task, which is shown.
    Task,
}

/// Opens the console and returns when it ends: by the operator's wish, or when `shutdown` is cancelled.
///
/// Whatever happens, when this returns the terminal is as it was before, so the error can be printed.
///
/// # Errors
/// When there is no terminal for it, a signal or a closed line ended it, or its own task panicked. See
/// [`ConsoleError::exit_code`].
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), ConsoleError> {
    let failed = |doing| move |source| ConsoleError::Terminal { doing, source };
    let no_terminal = |reason| ConsoleError::NoTerminal { reason };
    let tty = Tty::open().map_err(failed("open the terminal"))?;
    let tty = tty.ok_or_else(|| no_terminal("its input or output is none"))?;
    let capabilities = Capabilities::read(|name| std::env::var(name).ok()).map_err(no_terminal)?;
    let signals = Signals::new().map_err(failed("listen for signals"))?;

    let panics = panics::Guard::install();
    let colours = capabilities.depth != crate::config::ColourDepth::None;
    let mut terminal = Terminal::enter(tty, colours, options.settings.console.mouse)?;
    let shell = Shell::new(options, capabilities, signals, shutdown);
    let ended = Box::pin(AssertUnwindSafe(shell.run(&mut terminal, &panics)).catch_unwind()).await;
    terminal.leave();
    let (result, effects) = ended.unwrap_or_else(|_| {
        let message = panics.take().pop().unwrap_or_else(|| "no message".to_owned());
        (Err(ConsoleError::Crashed { message }), None)
    });
    // A change that is under way is not broken off: its answer comes soon, and nobody has to wait for it on a screen.
    let unknown = match effects {
        Some(effects) => effects.finish().await,
        None => Vec::new(),
    };
    if result.is_ok() && !unknown.is_empty() {
        return Err(ConsoleError::Unanswered { changes: unknown.join(", ") });
    }
    result
}

/// The console as it starts on these settings.
fn state(settings: &Settings, keymap: Keymap) -> State {
    let kubernetes = &settings.environment.kubernetes;
    let words = [kubernetes.context.as_deref(), kubernetes.namespace.as_deref()];
    let cluster = words.into_iter().flatten().collect::<Vec<_>>().join("/");
    // Until the cluster has said whom it takes us for.
    let operator = std::env::var("USER").unwrap_or_default();
    let environment = EnvironmentInfo::new(settings, operator, cluster, TimeZone::system());
    State::new(environment, keymap, Timestamp::now())
}
