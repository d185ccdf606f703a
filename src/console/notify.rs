//! Telling an operator who looks elsewhere that something happened.

use super::caps::Multiplexer;
use crate::domain::text::plain;

/// The longest text of a notification, in characters.
const LONGEST: usize = 200;

/// The bytes that ring the bell and ask the terminal for a desktop notification (OSC 9); none when neither is wanted.
pub(crate) fn sequence(text: &str, bell: bool, notify: bool, inside: Multiplexer) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if notify {
        let text: String = plain(text).chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        bytes = inside.wrap(&format!("\x1b]9;{text}\x07"));
    }
    if bell {
        bytes.push(b'\x07');
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_unasked_and_nothing_of_others_gets_through() {
        assert_eq!(sequence("web-1 is ready", false, false, Multiplexer::None), None);
        assert_eq!(sequence("x", true, false, Multiplexer::Tmux), Some(b"\x07".to_vec()));
        assert_eq!(
            sequence("web-1 is ready", false, true, Multiplexer::None),
            Some(b"\x1b]9;web-1 is ready\x07".to_vec())
        );
        let hostile = sequence("a\x1b]52;c;aGk=\x07b", false, true, Multiplexer::None).unwrap();
        assert_eq!(hostile.iter().filter(|b| **b == 0x1b).count(), 1);
        assert!(
            sequence("x", true, true, Multiplexer::Tmux)
                .unwrap()
                .starts_with(b"\x1bPtmux;\x1b\x1b]9;x\x07\x1b\\\x07")
        );
    }
}
