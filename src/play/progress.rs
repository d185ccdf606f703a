//! What a long preparation of the playground is doing, for whoever shows it.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::FileExt as _;

/// One piece of news of a preparation. Each replaces the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The step, in a few words: `Python environment`.
    pub step: &'static str,
    /// What it is at: `django 5.2.19`.
    pub detail: String,
    /// How much of the step is done, from 0 to 1, where that can be told.
    pub fraction: Option<f32>,
}

/// Where progress is told. It is called from within a preparation and must return at once.
pub type Report<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// The last line of what another process writes into a file, without moving the place where it writes.
pub(super) fn last_line(file: &File) -> Option<String> {
    let end = file.metadata().ok()?.len();
    let start = end.saturating_sub(4096);
    let mut tail = vec![0; usize::try_from(end - start).ok()?];
    let read = file.read_at(&mut tail, start).ok()?;
    tail.truncate(read);
    let text = String::from_utf8_lossy(&tail);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// One line on standard error that says how far the preparation is; each replaces the one before on a terminal.
#[expect(clippy::needless_pass_by_value, reason = "a report is given away")]
pub fn show(progress: Progress) {
    let percent = progress.fraction.map(|f| format!(" {:.0} %", f * 100.0)).unwrap_or_default();
    let detail: String = crate::domain::text::plain(&progress.detail).chars().take(60).collect();
    let line = format!("{}{percent}: {detail}", progress.step);
    let mut err = std::io::stderr();
    let terminal = err.is_terminal();
    let written = if terminal { write!(err, "\r\u{1b}[K{line}") } else { writeln!(err, "{line}") };
    // Without anybody to read it there is no progress to show.
    written.and_then(|()| err.flush()).ok();
}

/// Takes that line away.
pub fn clear() {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        write!(err, "\r\u{1b}[K").and_then(|()| err.flush()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_says_something() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(last_line(&file), None);
        file.write_all("x".repeat(5000).as_bytes()).unwrap();
        file.write_all(b"\n  the end \n\n").unwrap();
        assert_eq!(last_line(&file).as_deref(), Some("the end"));
    }
}
