//! Bytes of a terminal to keys: a pure state machine.
//!
//! [`super::input`] feeds it what it read and tells it when time has passed. It exists because letters are actions here: what
//! a terminal sends that is no key (late answers to queries, mouse reports, strings) is swallowed, and a sequence is put
//! together again wherever a slow line cut it. It reads no clock and knows nothing of what keys mean.

mod sequence;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::app::Mouse;
use crate::config::{Code, Key};

/// How long a lone ESC may turn out to be the start of a sequence before it counts as the key.
const ESCAPE: Duration = Duration::from_millis(50);
/// How long an introducer without anything behind it may be the start of a sequence before it counts as a letter with Alt.
const INTRODUCER: Duration = Duration::from_secs(1);
/// How long the rest of a sequence may take: a lost packet comes again within seconds. A key that is swallowed when it never
/// comes does less harm than letters that nobody typed.
const REST: Duration = Duration::from_secs(5);
/// How long a paste may stand still before what has come is delivered.
const PASTE: Duration = Duration::from_secs(5);
/// The longest parameters of a sequence that are looked at.
const MAX_PARAMETERS: usize = 64;
/// The longest paste; the rest is dropped.
const MAX_PASTE: usize = 1024 * 1024;

/// What came from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A key.
    Key(Key),
    /// A bracketed paste, line ends as `\n`.
    Paste(String),
    /// The terminal's window got (`true`) or lost the focus.
    Focus(bool),
    /// The mouse, in cells from 0.
    Mouse(Mouse, u16, u16),
    /// The terminal's background, as it answered: red, green, blue.
    Background(u8, u8, u8),
}

/// Where in a sequence the decoder stands.
#[derive(Debug)]
enum State {
    /// Between keys.
    Ground,
    /// In a character of several bytes.
    Utf8 { bytes: Vec<u8>, need: usize, alt: bool },
    /// After ESC.
    Escape,
    /// ESC, or ESC and this introducer, was delivered as a key because nothing followed in time; the rest may still come.
    Late { intro: Option<u8> },
    /// After ESC `[`. `late`: after [`State::Late`], so it may as well be a typed `[`.
    Csi { parameters: Vec<u8>, late: bool },
    /// After ESC `O`.
    Ss3 { modifier: u8, late: bool },
    /// In an OSC, DCS, APC, PM or SOS string; `intro` is the character after ESC, `body` the beginning of the string.
    Text { intro: u8, body: Vec<u8>, escape: bool, late: bool },
    /// In the three bytes of an old mouse report.
    Mouse { left: u8 },
    /// In a bracketed paste. `stalled`: its end did not come, and what there was is delivered.
    Paste { text: Vec<u8>, stalled: bool },
}

/// The decoder.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    /// What the terminal's settings say that Backspace sends.
    erase: u8,
}

impl Decoder {
    /// A decoder for a terminal whose Backspace sends `erase` (DEL is always taken as Backspace too).
    pub(crate) fn new(erase: u8) -> Self {
        Self { state: State::Ground, erase }
    }

    /// How long to wait for more before [`Self::expire`] is to be called; none: for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match &self.state {
            State::Ground => None,
            State::Paste { stalled: true, text } if text.is_empty() => None,
            State::Escape => Some(ESCAPE),
            State::Csi { late, parameters } if parameters.is_empty() => Some(introducer(*late)),
            State::Ss3 { late, modifier: 0 } => Some(introducer(*late)),
            State::Text { intro: ..0x80, late, body, .. } if body.is_empty() => Some(introducer(*late)),
            State::Paste { .. } => Some(PASTE),
            _ => Some(REST),
        }
    }

    /// Nothing came for [`Self::patience`]: what is begun is a key, or is given up.
    pub(crate) fn expire(&mut self, out: &mut Vec<Input>) {
        let next = match std::mem::replace(&mut self.state, State::Ground) {
            State::Escape => {
                key(out, Key::plain(Code::Esc));
                State::Late { intro: None }
            }
            State::Csi { parameters, late } if parameters.is_empty() => alone(out, b'[', late),
            State::Ss3 { modifier: 0, late } => alone(out, b'O', late),
            State::Text { intro: intro @ ..0x80, body, late, .. } if body.is_empty() => {
                alone(out, intro, late)
            }
            State::Paste { text, .. } => {
                paste(out, &text);
                State::Paste { text: Vec::new(), stalled: true }
            }
            _ => State::Ground,
        };
        self.state = next;
    }

    /// Takes what one read gave.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Input>) {
        if let State::Paste { stalled: true, text } = &self.state {
            // The paste's end was lost. One key at a time is somebody typing; more at a time is still the paste.
            let typed =
                bytes.len() == 1 || (bytes.first() == Some(&0x1b) && !bytes.starts_with(b"\x1b[201~"));
            if typed {
                paste(out, text);
                self.state = State::Ground;
            }
        }
        if let State::Late { intro: Some(intro) } = self.state {
            // Nobody types two keys in one read into the rest of a sequence.
            let goes_on = bytes.len() > 1 && bytes.first().is_some_and(|byte| sequence::begins(intro, *byte));
            self.state = State::Ground;
            if goes_on {
                self.introduce(intro, true);
            }
        }
        for byte in bytes {
            self.byte(*byte, out);
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<Input>) {
        match std::mem::replace(&mut self.state, State::Ground) {
            State::Ground => self.ground(byte, false, out),
            State::Utf8 { bytes, need, alt } => self.utf8(bytes, need, alt, byte, out),
            State::Escape => self.escape(byte, out),
            State::Late { .. } => self.late(byte, out),
            State::Csi { parameters, late } => self.csi(parameters, late, byte, out),
            State::Ss3 { modifier, late } => self.ss3(modifier, late, byte, out),
            State::Text { intro, body, escape, late } => self.text(intro, body, escape, late, byte, out),
            State::Mouse { left } => {
                self.state = if left > 1 { State::Mouse { left: left - 1 } } else { State::Ground };
            }
            State::Paste { text, stalled } => self.paste(text, stalled, byte, out),
        }
    }

    /// A byte that begins something.
    fn ground(&mut self, byte: u8, alt: bool, out: &mut Vec<Input>) {
        let code = match byte {
            0x1b => {
                self.state = State::Escape;
                return;
            }
            0x7f => Code::Backspace,
            b if b == self.erase && b < 0x20 => Code::Backspace,
            b'\r' => Code::Enter,
            b'\t' => Code::Tab,
            0x00..=0x1f => {
                let letter = match byte {
                    0 => ' ',
                    1..=26 => char::from(byte - 1 + b'a'),
                    _ => char::from(byte + 0x40),
                };
                key(out, Key { code: Code::Char(letter), ctrl: true, alt, shift: false });
                return;
            }
            0x20..=0x7e => Code::Char(char::from(byte)),
            0x80..=0x9f => return self.control(byte),
            0xa0..=0xc1 | 0xf5..=0xff => return,
            _ => {
                let need = if byte < 0xe0 { 2 } else { 3 + usize::from(byte >= 0xf0) };
                self.state = State::Utf8 { bytes: vec![byte], need, alt };
                return;
            }
        };
        key(out, with_alt(Key::plain(code), alt));
    }

    /// A one-byte control of the upper set: the same as ESC and a letter.
    fn control(&mut self, byte: u8) {
        self.state = match byte {
            0x9b => State::Csi { parameters: Vec::new(), late: false },
            0x8f => State::Ss3 { modifier: 0, late: false },
            0x90 | 0x98 | 0x9d..=0x9f => {
                State::Text { intro: byte, body: Vec::new(), escape: false, late: false }
            }
            _ => State::Ground,
        };
    }

    fn utf8(&mut self, mut bytes: Vec<u8>, need: usize, alt: bool, byte: u8, out: &mut Vec<Input>) {
        if !(0x80..0xc0).contains(&byte) {
            return self.ground(byte, false, out);
        }
        bytes.push(byte);
        if bytes.len() < need {
            self.state = State::Utf8 { bytes, need, alt };
            return;
        }
        let Some(letter) = std::str::from_utf8(&bytes).ok().and_then(|text| text.chars().next()) else {
            return;
        };
        match u32::from(letter) {
            control @ 0x80..=0x9f => self.control(u8::try_from(control).unwrap_or(0x80)),
            _ => key(out, with_alt(Key::plain(Code::Char(letter)), alt)),
        }
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<Input>) {
        match byte {
            0x1b => {
                key(out, Key::plain(Code::Esc));
                self.state = State::Escape;
            }
            b'[' | b'O' | b']' | b'P' | b'X' | b'^' | b'_' => self.introduce(byte, false),
            _ => self.ground(byte, true, out),
        }
    }

    /// The first byte after an ESC that was taken for the key. It goes on a sequence only if what follows looks like one.
    fn late(&mut self, byte: u8, out: &mut Vec<Input>) {
        match byte {
            b'[' | b'O' | b']' | b'P' | b'_' => self.introduce(byte, true),
            _ => self.ground(byte, false, out),
        }
    }

    fn introduce(&mut self, byte: u8, late: bool) {
        self.state = match byte {
            b'[' => State::Csi { parameters: Vec::new(), late },
            b'O' => State::Ss3 { modifier: 0, late },
            intro => State::Text { intro, body: Vec::new(), escape: false, late },
        };
    }

    fn csi(&mut self, mut parameters: Vec<u8>, late: bool, byte: u8, out: &mut Vec<Input>) {
        let first = parameters.is_empty();
        if late && first && !sequence::begins(b'[', byte) {
            alone(out, b'[', late);
            return self.ground(byte, false, out);
        }
        match byte {
            // The Linux console's F1 to F5 are ESC [ [ and a letter.
            b'[' if first => self.keep(parameters, byte),
            _ if parameters == b"[" => {
                if let b'A'..=b'E' = byte {
                    key(out, Key::plain(Code::F(byte - b'A' + 1)));
                }
            }
            // In rxvt a `$` ends a sequence; elsewhere it stands before the end of an answer.
            b'$' if parameters.first().is_some_and(u8::is_ascii_digit) && !parameters.contains(&b';') => {
                self.finish(&parameters, byte, out);
            }
            0x20..=0x3f => {
                parameters.truncate(MAX_PARAMETERS);
                self.keep(parameters, byte);
            }
            0x40..=0x7e => self.finish(&parameters, byte, out),
            _ => self.ground(byte, false, out),
        }
    }

    fn keep(&mut self, mut parameters: Vec<u8>, byte: u8) {
        parameters.push(byte);
        self.state = State::Csi { parameters, late: false };
    }

    /// A whole CSI sequence.
    fn finish(&mut self, parameters: &[u8], last: u8, out: &mut Vec<Input>) {
        match (parameters, last) {
            (b"200", b'~') => self.state = State::Paste { text: Vec::new(), stalled: false },
            (b"", b'M') => self.state = State::Mouse { left: 3 },
            (b"", b'I') => out.push(Input::Focus(true)),
            (b"", b'O') => out.push(Input::Focus(false)),
            ([b'<', report @ ..], b'M') => out.extend(sequence::mouse(report)),
            _ => {
                if let Some(pressed) = sequence::csi(parameters, last) {
                    key(out, pressed);
                }
            }
        }
    }

    fn ss3(&mut self, modifier: u8, late: bool, byte: u8, out: &mut Vec<Input>) {
        match byte {
            b'1'..=b'9' if modifier == 0 && !late => {
                self.state = State::Ss3 { modifier: byte - b'0', late };
            }
            _ => match sequence::ss3(modifier, byte) {
                Some(pressed) if !late || sequence::begins(b'O', byte) => key(out, pressed),
                _ if late => {
                    alone(out, b'O', late);
                    self.ground(byte, false, out);
                }
                _ if byte < 0x20 => self.ground(byte, false, out),
                _ => {}
            },
        }
    }

    fn text(
        &mut self,
        intro: u8,
        mut body: Vec<u8>,
        escape: bool,
        late: bool,
        byte: u8,
        out: &mut Vec<Input>,
    ) {
        // Who speaks with one-byte controls has begun a string for certain.
        let empty = body.is_empty() && intro < 0x80;
        if empty && byte != 0x1b && !sequence::begins(intro, byte) {
            alone(out, intro, late);
            return self.ground(byte, false, out);
        }
        match byte {
            b'\\' if escape => out.extend(sequence::answer(intro, &body)),
            // Another sequence begins before this one has ended.
            _ if escape => self.escape(byte, out),
            0x07 if matches!(intro, b']' | 0x9d) => out.extend(sequence::answer(intro, &body)),
            // Only for who speaks with one-byte controls: in UTF-8 this is a part of a character.
            0x9c if intro >= 0x80 => out.extend(sequence::answer(intro, &body)),
            0x1b => {
                // What follows is no letter that was typed, even where the string is empty.
                if body.is_empty() {
                    body.push(0);
                }
                self.state = State::Text { intro, body, escape: true, late: false };
            }
            // Nobody is locked out of the keyboard by half an answer: a control character is a key.
            0x00..=0x06 | 0x0e..=0x1a => self.ground(byte, false, out),
            _ => {
                if body.len() < MAX_PARAMETERS {
                    body.push(byte);
                }
                self.state = State::Text { intro, body, escape: false, late: false };
            }
        }
    }

    fn paste(&mut self, mut text: Vec<u8>, stalled: bool, byte: u8, out: &mut Vec<Input>) {
        const END: &[u8] = b"\x1b[201~";
        // Past the limit only as many bytes are kept as are needed to see the end.
        if text.len() >= MAX_PASTE + END.len() {
            text.remove(MAX_PASTE);
        }
        text.push(byte);
        if text.ends_with(END) {
            text.truncate(text.len() - END.len());
            paste(out, &text);
        } else {
            self.state = State::Paste { text, stalled };
        }
    }
}

fn key(out: &mut Vec<Input>, pressed: Key) {
    out.push(Input::Key(pressed));
}

fn with_alt(key: Key, alt: bool) -> Key {
    Key { alt: key.alt || alt, ..key }
}

/// How long an introducer waits: one that comes late may well be typed.
fn introducer(late: bool) -> Duration {
    if late { ESCAPE } else { INTRODUCER }
}

/// An introducer that nothing followed: the letter itself, with Alt unless its ESC was delivered before.
fn alone(out: &mut Vec<Input>, intro: u8, late: bool) -> State {
    key(out, with_alt(Key::plain(Code::Char(char::from(intro))), !late));
    if late { State::Ground } else { State::Late { intro: Some(intro) } }
}

fn paste(out: &mut Vec<Input>, text: &[u8]) {
    let text = text.get(..MAX_PASTE).unwrap_or(text);
    if !text.is_empty() {
        out.push(Input::Paste(String::from_utf8_lossy(text).replace("\r\n", "\n").replace('\r', "\n")));
    }
}
