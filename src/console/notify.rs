//! Telling an operator who looks elsewhere that something happened.

use crate::domain::text::plain;

/// The longest text of a notification, in characters.
const LONGEST: usize = 200;

/// The bytes that ring the bell and ask the terminal for a desktop notification (OSC 9); none when neither is wanted.
///
/// tmux keeps OSC 9 to itself: wrapped it goes through where `allow-passthrough` is on, and nowhere else.
pub(crate) fn sequence(text: &str, bell: bool, notify: bool, tmux: bool) -> Option<Vec<u8>> {
    let mut bytes = String::new();
    if notify {
        let text: String = plain(text).chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        bytes = match tmux {
            true => format!("\x1bPtmux;\x1b\x1b]9;{text}\x07\x1b\\"),
            false => format!("\x1b]9;{text}\x07"),
        };
    }
    if bell {
        bytes.push('\x07');
    }
    (!bytes.is_empty()).then(|| bytes.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_unasked_and_nothing_of_others_gets_through() {
        assert_eq!(sequence("web-1 is ready", false, false, false), None);
        assert_eq!(sequence("x", true, false, true), Some(b"\x07".to_vec()));
        assert_eq!(
            sequence("web-1 is ready", false, true, false),
            Some(b"\x1b]9;web-1 is ready\x07".to_vec())
        );
        let hostile = sequence("a\x1b]52;c;aGk=\x07b", false, true, false).unwrap();
        assert_eq!(hostile.iter().filter(|b| **b == 0x1b).count(), 1);
        assert!(
            sequence("x", true, true, true).unwrap().starts_with(b"\x1bPtmux;\x1b\x1b]9;x\x07\x1b\\\x07")
        );
    }
}
