//! Panics while the console lives: nothing is printed over the screen, everything is shown on it.
//!
//! The hook that Rust calls at a panic prints, and printing on the alternate screen is garbage that is lost with it. While a
//! [`Guard`] lives, a panic is logged and its text kept instead: the loop shows it, or, when it was the loop that panicked, the
//! text is printed once the terminal is as it was.

use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The most panics that are kept: whoever panics in a loop does not fill the memory.
const KEPT: usize = 32;

#[derive(Debug, Default)]
struct Kept {
    texts: Mutex<Vec<String>>,
    more: Notify,
}

/// Our hook, for as long as this lives.
pub(crate) struct Guard {
    kept: Arc<Kept>,
    before: Option<Hook>,
}

impl Guard {
    /// Takes the place of the hook that is there.
    pub(crate) fn install() -> Self {
        let kept = Arc::new(Kept::default());
        let before = panic::take_hook();
        let keep = Arc::clone(&kept);
        panic::set_hook(Box::new(move |info| {
            let text = describe(info);
            tracing::error!(target: "hostwright::panic", "{text}");
            let mut texts = keep.texts.lock().unwrap_or_else(PoisonError::into_inner);
            if texts.len() < KEPT {
                texts.push(text);
            }
            drop(texts);
            keep.more.notify_one();
        }));
        Self { kept, before: Some(before) }
    }

    /// Waits for a panic; gives those that there were, in their order.
    pub(crate) async fn next(&self) -> Vec<String> {
        loop {
            let texts = self.take();
            if !texts.is_empty() {
                return texts;
            }
            self.kept.more.notified().await;
        }
    }

    /// The panics since the last look.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.kept.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // While a thread panics the hook can't be changed; the console is never dropped by one: it catches its own.
        if !std::thread::panicking()
            && let Some(before) = self.before.take()
        {
            panic::set_hook(before);
        }
    }
}

/// Message and place, in one line.
fn describe(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a message");
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    match info.location() {
        Some(place) => format!("{text} ({}:{}, thread {thread})", place.file(), place.line()),
        None => format!("{text} (thread {thread})"),
    }
}
