//! The tables of sequences: which CSI and SS3 sequences are which keys. What is in no table is no key.

use super::Input;
use crate::app::Mouse;
use crate::config::{Code, Key};

/// Whether a byte can stand right behind an introducer: what tells a sequence from a letter that was typed with Alt.
pub(super) fn begins(intro: u8, byte: u8) -> bool {
    match intro {
        b'[' => {
            matches!(byte, b'0'..=b'9' | b';' | b'<'..=b'?' | b'A'..=b'F' | b'H' | b'I' | b'M' | b'O'..=b'S' | b'Z' | b'[')
        }
        b'O' => matches!(byte, b'A'..=b'D' | b'F' | b'H' | b'P'..=b'S'),
        // An answer to a question, or a title (`l`, `L`).
        b']' => byte.is_ascii_digit() || matches!(byte, b'l' | b'L'),
        b'P' => matches!(byte, b'0'..=b'9' | b'!' | b'$' | b'+' | b'>'),
        b'_' => byte == b'G',
        _ => true,
    }
}

/// A report of the mouse (xterm's SGR form): the left button pressed, or the wheel turned. Nothing else is wanted.
pub(super) fn mouse(report: &[u8]) -> Option<Input> {
    let mut numbers = std::str::from_utf8(report).ok()?.split(';').map(|n| n.parse::<u16>().ok());
    let mut number = || numbers.next().flatten();
    let (button, x, y) = (number()?, number()?.checked_sub(1)?, number()?.checked_sub(1)?);
    // Shift, Alt and Control are told by bits that do not matter here.
    let what = match button & !0b1_1100 {
        0 => Mouse::Click,
        64 => Mouse::Up,
        65 => Mouse::Down,
        _ => return None,
    };
    Some(Input::Mouse(what, x, y))
}

/// What a string tells that we asked for: the background, as the answer to OSC 11.
pub(super) fn answer(intro: u8, body: &[u8]) -> Option<Input> {
    let colour = std::str::from_utf8(body).ok().filter(|_| matches!(intro, b']' | 0x9d))?;
    let mut parts = colour.strip_prefix("11;rgb:").or_else(|| colour.strip_prefix("11;rgba:"))?.split('/');
    // One to four hexadecimal digits each, of which the first say most.
    let mut channel = || {
        let digits = parts.next()?;
        let value = u32::from_str_radix(digits, 16).ok().filter(|_| (1..=4).contains(&digits.len()))?;
        u8::try_from(value * 255 / ((1 << (4 * digits.len())) - 1)).ok()
    };
    Some(Input::Background(channel()?, channel()?, channel()?))
}

/// The key of SS3 with an old-style modifier digit (0: none) and its last byte.
pub(super) fn ss3(modifier: u8, last: u8) -> Option<Key> {
    let code = match last {
        b'M' => Code::Enter,
        b'I' => Code::Tab,
        b' ' => Code::Char(' '),
        b'X' => Code::Char('='),
        // The keypad in its application mode: each letter is its character with 0x40 added.
        b'j'..=b'y' => Code::Char(char::from(last - 0x40)),
        // rxvt's arrows with Control.
        b'a'..=b'd' => {
            let code = letter(last.to_ascii_uppercase())?;
            return Some(Key { code, ctrl: true, alt: false, shift: false });
        }
        _ => letter(last)?,
    };
    modified(code, u32::from(modifier))
}

/// The key of a whole CSI sequence.
pub(super) fn csi(parameters: &[u8], last: u8) -> Option<Key> {
    let text = std::str::from_utf8(parameters).ok()?;
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b';' || b == b':') {
        return None;
    }
    let mut fields = text.split(';').map(|field| field.split(':').map(|n| n.parse::<u32>().unwrap_or(0)));
    let mut first = fields.next()?;
    let number = first.next().unwrap_or(0);
    let shifted = first.next().unwrap_or(0);
    let mut second = fields.next().into_iter().flatten();
    let modifiers = second.next().unwrap_or(0);
    let event = second.next().unwrap_or(0);
    let third = fields.next().into_iter().flatten().next();
    // kitty reports releases only to who asked, but says so: they are no keys.
    if event == 3 {
        return None;
    }
    match last {
        b'u' => coded(number, shifted, modifiers, third),
        b'~' if number == 27 => coded(third?, 0, modifiers, None),
        b'~' => modified(numbered(number)?, modifiers),
        // rxvt: Shift, Control, both.
        b'$' => modified(numbered(number)?, 2),
        b'^' => modified(numbered(number)?, 5),
        b'@' => modified(numbered(number)?, 6),
        b'a'..=b'd' if text.is_empty() => modified(letter(last.to_ascii_uppercase())?, 2),
        b'Z' => modified(Code::Tab, modifiers).map(|key| Key { shift: true, ..key }),
        // With two numbers it is the answer to "where is the cursor", not F3.
        b'R' if !text.is_empty() => None,
        _ => modified(letter(last)?, modifiers),
    }
}

fn letter(last: u8) -> Option<Code> {
    Some(match last {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        b'P'..=b'S' => Code::F(last - b'P' + 1),
        _ => return None,
    })
}

fn numbered(number: u32) -> Option<Code> {
    Some(match number {
        1 | 7 => Code::Home,
        2 => Code::Insert,
        3 => Code::Delete,
        4 | 8 => Code::End,
        5 => Code::PageUp,
        6 => Code::PageDown,
        11..=15 => function(number - 10)?,
        17..=21 => function(number - 11)?,
        23..=24 => function(number - 12)?,
        _ => return None,
    })
}

fn function(number: u32) -> Option<Code> {
    u8::try_from(number).ok().map(Code::F)
}

/// A key with xterm's modifier number: one more than the sum of Shift 1, Alt 2, Control 4, and what we don't take part in.
fn modified(code: Code, number: u32) -> Option<Key> {
    let bits = number.saturating_sub(1);
    // Super, Hyper and Meta belong to the desktop; Caps Lock and Num Lock change nothing.
    if bits & 0b11_1000 != 0 {
        return None;
    }
    Some(Key::new(code, bits & 4 != 0, bits & 2 != 0, bits & 1 != 0))
}

/// A key by its code point, as kitty (`CSI u`) and xterm's modifyOtherKeys send it.
fn coded(number: u32, shifted: u32, modifiers: u32, text: Option<u32>) -> Option<Key> {
    let code = match number {
        13 | 57414 => Code::Enter,
        9 => Code::Tab,
        27 => Code::Esc,
        8 | 127 => Code::Backspace,
        57399..=57408 => Code::Char(char::from_digit(number - 57399, 10)?),
        57409 => Code::Char('.'),
        57410 => Code::Char('/'),
        57411 => Code::Char('*'),
        57412 => Code::Char('-'),
        57413 => Code::Char('+'),
        57415 => Code::Char('='),
        57416 => Code::Char(','),
        57417 => Code::Left,
        57418 => Code::Right,
        57419 => Code::Up,
        57420 => Code::Down,
        57421 => Code::PageUp,
        57422 => Code::PageDown,
        57423 => Code::Home,
        57424 => Code::End,
        57425 => Code::Insert,
        57426 => Code::Delete,
        // The rest of the private range: locks, media keys, modifiers by themselves.
        57344..=63743 => return None,
        _ => return character(char::from_u32(number)?, shifted, modifiers, text),
    };
    modified(code, modifiers)
}

fn character(base: char, shifted: u32, modifiers: u32, text: Option<u32>) -> Option<Key> {
    if base.is_control() {
        return None;
    }
    let key = modified(Code::Char(base), modifiers)?;
    if key.ctrl || modifiers.saturating_sub(1) & 1 == 0 {
        return Some(key);
    }
    let typed = text.into_iter().chain([shifted]).find_map(|n| char::from_u32(n).filter(|c| !c.is_control()));
    Some(typed.map_or(key, |typed| Key { code: Code::Char(typed), ..key }))
}
