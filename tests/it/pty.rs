//! Drives a program in a pseudo-terminal, as a person at a terminal would: sees its screen, presses keys, resizes the window, hangs up.
//!
//! ```ignore
//! let mut pty = Pty::start(Pty::hostwright(["play"]), (120, 40));
//! pty.wait_for("pending");
//! pty.keys("a");
//! pty.wait_for("Approve").keys("y");
//! assert_eq!(pty.keys("q").wait_exit(), 0);
//! ```
//!
//! Nothing sleeps: everything waits for the thing itself, and fails with the screen after a while.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use portable_pty::CommandBuilder;
use portable_pty::{ExitStatus, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before a test fails: long, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Written by us when the program has ended; a title, so that no screen shows it.
const END: &[u8] = b"\x1b]2;the end of the recording\x07";

/// A program in a pseudo-terminal.
pub(crate) struct Pty {
    master: Option<Box<dyn MasterPty + Send>>,
    keyboard: Option<Box<dyn Write + Send>>,
    /// Our own handle on the program's side: keeps the terminal and its settings when the program has ended.
    slave: Option<File>,
    tty: PathBuf,
    pid: Pid,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    /// The reader is to stop before it reads again.
    deaf: bool,
    reading: bool,
    exit: Option<ExitStatus>,
}

impl State {
    /// The screen, unless it is being drawn: half a frame has one screen's rows and another's footer.
    fn frame(&self) -> Option<&vt100::Screen> {
        let last = |mark: &[u8]| self.bytes.windows(mark.len()).rposition(|bytes| bytes == mark);
        let drawing = last(b"\x1b[?2026h") > last(b"\x1b[?2026l") && self.exit.is_none() && self.reading;
        (!drawing).then(|| self.parser.screen())
    }
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN)
}

fn pty_size((cols, rows): (u16, u16)) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

impl Pty {
    /// A command in an environment that is the same on every machine.
    pub(crate) fn command(program: impl AsRef<OsStr>) -> CommandBuilder {
        let mut command = CommandBuilder::new(program);
        for name in
            ["NO_COLOR", "COLORTERM", "TMUX", "STY", "LC_ALL", "LC_CTYPE", "COLUMNS", "LINES", "KUBECONFIG"]
        {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.env("USER", "olga");
        command
    }

    /// This crate's binary.
    pub(crate) fn hostwright<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> CommandBuilder {
        let mut command = Self::command(env!("CARGO_BIN_EXE_hostwright"));
        command.args(arguments);
        command
    }

    /// Starts a command in a terminal of so many columns and rows.
    pub(crate) fn start(command: CommandBuilder, size: (u16, u16)) -> Self {
        let pty = Self::start_unread(command, size);
        pty.read();
        pty
    }

    /// The same, but nobody reads what the program writes until [`Pty::read`].
    pub(crate) fn start_unread(command: CommandBuilder, size: (u16, u16)) -> Self {
        let pair = native_pty_system().openpty(pty_size(size)).unwrap();
        let tty = pair.master.tty_name().unwrap();
        let slave = File::options().read(true).write(true).open(&tty).unwrap();
        let mut child = pair.slave.spawn_command(command).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.process_id().unwrap()).unwrap()).unwrap();
        let state = State {
            parser: vt100::Parser::new(cells(size.1), cells(size.0), 0),
            bytes: Vec::new(),
            deaf: false,
            reading: false,
            exit: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let waiter = Arc::clone(&shared);
        std::thread::spawn(move || {
            let status = child.wait().unwrap();
            waiter.state.lock().unwrap().exit = Some(status);
            waiter.changed.notify_all();
        });
        let keyboard = pair.master.take_writer().unwrap();
        Self { master: Some(pair.master), keyboard: Some(keyboard), slave: Some(slave), tty, pid, shared }
    }

    /// Begins to read what the program writes.
    pub(crate) fn read(&self) {
        let mut reader = self.master.as_ref().unwrap().try_clone_reader().unwrap();
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock().unwrap();
        (state.reading, state.deaf) = (true, false);
        drop(state);
        std::thread::spawn(move || {
            let mut buffer = [0; 16384];
            loop {
                let n = reader.read(&mut buffer).unwrap_or(0);
                let mut state = shared.state.lock().unwrap();
                state.bytes.extend_from_slice(&buffer[..n]);
                state.parser.process(&buffer[..n]);
                if n == 0 || state.deaf {
                    drop(reader);
                    state.reading = false;
                    shared.changed.notify_all();
                    return;
                }
                shared.changed.notify_all();
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the condition holds; fails with `what` and the screen.
    fn wait<T>(&self, what: &str, mut condition: impl FnMut(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state();
        loop {
            if let Some(value) = condition(&state) {
                return value;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let exit =
                    state.exit.as_ref().map_or(String::new(), |exit| format!(" (the program ended: {exit})"));
                let screen = text(state.parser.screen());
                drop(state);
                panic!("waited in vain for {what}{exit}; the screen:\n{screen}");
            }
            state = self.shared.changed.wait_timeout(state, left.min(Duration::from_millis(200))).unwrap().0;
        }
    }

    /// Waits until the text is on the screen.
    pub(crate) fn wait_for(&mut self, wanted: &str) -> &mut Self {
        self.wait(&format!("{wanted:?}"), |state| text(state.frame()?).contains(wanted).then_some(()));
        self
    }

    /// Waits until the text is not on the screen.
    pub(crate) fn wait_gone(&mut self, unwanted: &str) -> &mut Self {
        let gone = |state: &State| (!text(state.frame()?).contains(unwanted)).then_some(());
        self.wait(&format!("{unwanted:?} to go"), gone);
        self
    }

    /// Waits until a condition on the screen holds.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&vt100::Screen) -> bool,
    ) -> &mut Self {
        self.wait(what, |state| condition(state.frame()?).then_some(()));
        self
    }

    /// Waits until the recorded bytes from `from` on hold these.
    pub(crate) fn wait_bytes(&mut self, from: usize, wanted: &[u8]) -> &mut Self {
        let found =
            |state: &State| state.bytes[from..].windows(wanted.len()).any(|w| w == wanted).then_some(());
        self.wait(&format!("the bytes {}", wanted.escape_ascii()), found);
        self
    }

    /// Whether the recorded bytes from `from` on come to hold these within this time.
    pub(crate) fn comes(&self, from: usize, wanted: &[u8], within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.state();
        loop {
            if state.bytes[from..].windows(wanted.len()).any(|w| w == wanted) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.exit.is_some() {
                return false;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Presses keys, written with spaces between: `a`, `C-c`, `M-x`, `<enter>`, `<esc>`, `<tab>`, `<space>`, `<up>`, `<f5>` …
    pub(crate) fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.split_whitespace() {
            let bytes = key_bytes(key);
            self.write(&bytes);
        }
        self
    }

    /// Types bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> &mut Self {
        let keyboard = self.keyboard.as_mut().unwrap();
        keyboard.write_all(bytes).unwrap();
        keyboard.flush().unwrap();
        self
    }

    /// The screen as text, lines without their trailing spaces.
    pub(crate) fn screen(&self) -> String {
        self.shown(text)
    }

    /// The screen once it is drawn, or as it is when that does not come: a program may be stopped in the middle.
    fn shown(&self, look: impl Fn(&vt100::Screen) -> String) -> String {
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut state = self.state();
        loop {
            let late = Instant::now() >= deadline;
            match state.frame() {
                Some(screen) => return look(screen),
                None if late => return look(state.parser.screen()),
                None => {
                    state = self.shared.changed.wait_timeout(state, Duration::from_millis(100)).unwrap().0;
                }
            }
        }
    }

    /// Everything that the program wrote so far.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// How much the program wrote so far: a place for [`Pty::wait_bytes`].
    pub(crate) fn mark(&self) -> usize {
        self.state().bytes.len()
    }

    /// The screen after each frame that was written from there on; the size must not have changed meanwhile.
    pub(crate) fn frames(&self, from: usize) -> Vec<String> {
        const END: &[u8] = b"\x1b[?2026l";
        let state = self.state();
        let (rows, cols) = state.parser.screen().size();
        let mut parser = vt100::Parser::new(rows, cols, 0);
        let mut frames = Vec::new();
        let mut begin = 0;
        for end in 0..=state.bytes.len() {
            if state.bytes[..end].ends_with(END) {
                parser.process(&state.bytes[begin..end]);
                begin = end;
                if end > from {
                    frames.push(text(parser.screen()));
                }
            }
        }
        frames
    }

    /// Makes the window another size; the program gets SIGWINCH.
    pub(crate) fn resize(&mut self, size: (u16, u16)) -> &mut Self {
        self.state().parser.screen_mut().set_size(cells(size.1), cells(size.0));
        self.master.as_ref().unwrap().resize(pty_size(size)).unwrap();
        self
    }

    /// Fills what the terminal takes from the program while nobody reads: its next write has to wait.
    pub(crate) fn fill(&mut self) -> &mut Self {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let full = rustix::fs::open(&self.tty, flags, rustix::fs::Mode::empty()).unwrap();
        // The system moves what it took to where more of it fits, a moment later: full is what stays full.
        let mut full_for = 0;
        while full_for < 5 {
            full_for += 1;
            for piece in [1024, 64, 1] {
                while rustix::io::write(&full, &vec![b'.'; piece]).is_ok() {
                    full_for = 0;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self
    }

    /// Sends a signal to the program that was started.
    pub(crate) fn signal(&mut self, signal: Signal) -> &mut Self {
        kill_process(self.pid, signal).unwrap();
        self
    }

    /// The program's process id.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The terminal's settings, as `stty -a` would show them.
    pub(crate) fn settings(&self) -> String {
        let found = rustix::termios::tcgetattr(self.slave.as_ref().unwrap()).unwrap();
        format!(
            "{:?} {:?} {:?} {:?}",
            found.input_modes, found.output_modes, found.control_modes, found.local_modes
        )
    }

    /// Waits until the terminal's settings are these.
    pub(crate) fn wait_settings(&mut self, wanted: &str) -> &mut Self {
        self.wait("the terminal's settings", |_| (self.settings() == wanted).then_some(()));
        self
    }

    /// Waits until the program has ended and all that it wrote is read. Its exit code; 128 and more for a signal that killed it.
    pub(crate) fn wait_exit(&mut self) -> u32 {
        let code = self.wait("the program's end", |state| state.exit.as_ref().map(ExitStatus::exit_code));
        if let Some(slave) =
            self.slave.as_mut().filter(|_| self.shared.state.lock().is_ok_and(|state| state.reading))
        {
            // What comes out behind the program's last words was put in behind them.
            slave.write_all(END).unwrap();
            self.wait("the program's last words", |state| state.bytes.ends_with(END).then_some(()));
            let mut state = self.state();
            let end = state.bytes.len() - END.len();
            state.bytes.truncate(end);
        }
        code
    }

    /// Whether the program still runs.
    pub(crate) fn alive(&self) -> bool {
        self.state().exit.is_none()
    }

    /// Reads no more until [`Pty::read`]. `stir` makes the program write something, so that our reader wakes and goes.
    pub(crate) fn ignore(&mut self, stir: impl FnOnce(&mut Self)) {
        self.state().deaf = true;
        stir(self);
        self.wait("the reader's end", |state| (!state.reading).then_some(()));
    }

    /// Closes the line: the program loses its terminal. `stir` makes it write something, so that our reader wakes and goes.
    pub(crate) fn hang_up(&mut self, stir: impl FnOnce(&mut Self)) {
        self.ignore(stir);
        self.keyboard = None;
        self.slave = None;
        self.master = None;
    }

    /// Which private modes (`CSI ? n h` and `l`) the program left set, and those that it set and unset unequally often.
    pub(crate) fn modes_left(&self) -> Vec<String> {
        modes_left(&self.bytes())
    }

    /// The screen as a picture.
    pub(crate) fn snapshot_svg(&self) -> String {
        self.shown(svg)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if self.alive() {
            // It ended meanwhile: fine.
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

fn text(screen: &vt100::Screen) -> String {
    let (_, cols) = screen.size();
    let lines: Vec<String> = screen.rows(0, cols.get()).map(|row| row.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn key_bytes(key: &str) -> Vec<u8> {
    let named = match key {
        "<enter>" => "\r",
        "<esc>" => "\x1b",
        "<tab>" => "\t",
        "<backtab>" => "\x1b[Z",
        "<space>" => " ",
        "<backspace>" => "\x7f",
        "<delete>" => "\x1b[3~",
        "<up>" => "\x1b[A",
        "<down>" => "\x1b[B",
        "<right>" => "\x1b[C",
        "<left>" => "\x1b[D",
        "<home>" => "\x1b[H",
        "<end>" => "\x1b[F",
        "<pageup>" => "\x1b[5~",
        "<pagedown>" => "\x1b[6~",
        "<f1>" => "\x1bOP",
        "<f5>" => "\x1b[15~",
        _ => match key.split_once('-') {
            Some(("C", letter)) if letter.len() == 1 => return vec![letter.as_bytes()[0] & 0x1f],
            Some(("M", letter)) if !letter.is_empty() => return [b"\x1b", letter.as_bytes()].concat(),
            _ => key,
        },
    };
    named.as_bytes().to_vec()
}

/// See [`Pty::modes_left`].
pub(crate) fn modes_left(bytes: &[u8]) -> Vec<String> {
    let mut set: std::collections::BTreeMap<String, (i32, bool)> = std::collections::BTreeMap::new();
    let text = String::from_utf8_lossy(bytes);
    for (at, _) in text.match_indices("\x1b[?") {
        let rest = &text[at + 3..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(rest.len());
        for mode in rest[..end].split(';') {
            let entry = set.entry(mode.to_owned()).or_default();
            match rest[end..].chars().next() {
                Some('h') => *entry = (entry.0 + 1, true),
                Some('l') => *entry = (entry.0 - 1, false),
                _ => {}
            }
        }
    }
    // The cursor is shown to begin with, and hiding it twice does no harm; frames end what they begin, and the end makes sure.
    let wrong = |(mode, (balance, on)): (String, (i32, bool))| match mode.as_str() {
        "25" => (!on).then(|| "the cursor is hidden".to_owned()),
        "2026" => on.then(|| "a frame is open".to_owned()),
        _ => (on || balance != 0).then(|| format!("mode {mode}: on {on}, balance {balance}")),
    };
    set.into_iter().filter_map(wrong).collect()
}

const PALETTE: [&str; 16] = [
    "#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#bac2de", "#585b70",
    "#f37799", "#89d88b", "#ebd391", "#74a8fc", "#f2aede", "#6bd7ca", "#ffffff",
];
const TEXT: &str = "#cdd6f4";
const BEHIND: &str = "#1e1e2e";

fn colour(colour: vt100::Color, own: &str) -> String {
    match colour {
        vt100::Color::Default => own.to_owned(),
        vt100::Color::Idx(n @ 0..=15) => PALETTE[usize::from(n)].to_owned(),
        vt100::Color::Idx(n @ 16..=231) => {
            let step = |v: u8| if v == 0 { 0 } else { 55 + 40 * v };
            let n = n - 16;
            format!("#{:02x}{:02x}{:02x}", step(n / 36), step(n / 6 % 6), step(n % 6))
        }
        vt100::Color::Idx(n) => format!("#{0:02x}{0:02x}{0:02x}", 8 + 10 * (n - 232)),
        vt100::Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
    }
}

/// Draws a screen: every run of equal cells is one text, stretched to its cells, so that any monospace font fits.
fn svg(screen: &vt100::Screen) -> String {
    const WIDE: f32 = 8.4;
    const HIGH: f32 = 18.0;
    let (rows, cols) = screen.size();
    let (width, height) = (f32::from(cols.get()) * WIDE + 24.0, f32::from(rows.get()) * HIGH + 24.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-size=\"14\" \
         font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BEHIND}\"/>\n"
    );
    for row in 0..rows.get() {
        let mut col = 0;
        while col < cols.get() {
            let Some(first) = screen.cell(row, col) else { break };
            let look = |cell: &vt100::Cell| {
                let (mut fg, mut bg) = (colour(cell.fgcolor(), TEXT), colour(cell.bgcolor(), BEHIND));
                if cell.inverse() {
                    std::mem::swap(&mut fg, &mut bg);
                }
                (fg, bg, cell.bold(), cell.italic(), cell.underline(), cell.dim())
            };
            let style = look(first);
            let begin = col;
            let mut run = String::new();
            while let Some(cell) = screen.cell(row, col).filter(|cell| look(cell) == style) {
                if !cell.is_wide_continuation() {
                    run.push_str(if cell.has_contents() { cell.contents() } else { " " });
                }
                col += 1;
            }
            draw_run(
                &mut out,
                &run,
                &style,
                (f32::from(begin), f32::from(col), f32::from(row)),
                (WIDE, HIGH),
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

type Look = (String, String, bool, bool, bool, bool);

fn draw_run(
    out: &mut String,
    run: &str,
    look: &Look,
    (begin, end, row): (f32, f32, f32),
    (wide, high): (f32, f32),
) {
    let (fg, bg, bold, italic, underline, dim) = look;
    let (x, y, width) = (12.0 + begin * wide, 12.0 + row * high, (end - begin) * wide);
    if bg != BEHIND {
        writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{high}\" fill=\"{bg}\"/>"
        )
        .unwrap();
    }
    if run.trim().is_empty() {
        return;
    }
    let mut style = String::new();
    for (on, text) in [
        (*bold, " font-weight=\"bold\""),
        (*italic, " font-style=\"italic\""),
        (*underline, " text-decoration=\"underline\""),
        (*dim, " opacity=\"0.6\""),
    ] {
        if on {
            style.push_str(text);
        }
    }
    let escaped = run.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{fg}\" textLength=\"{width:.1}\" xml:space=\"preserve\"{style}>{escaped}</text>",
        y + 13.5
    )
    .unwrap();
}
