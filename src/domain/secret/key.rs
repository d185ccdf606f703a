//! Keys: which part of the bucket they are of, and how they are shown.

use std::fmt::Write as _;

use serde::Serialize;

use crate::domain::text;

/// A part of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// `common/`: for every node.
    Common,
    /// `compute/`: for the nodes that carry the load.
    Compute,
    /// `secure/`: for the nodes of the control plane.
    Secure,
    /// `locked/`: never sent to a node.
    Locked,
    /// `manifests/`: Kubernetes services.
    Manifests,
    /// `addons/`: Kubernetes services that are added.
    Addons,
    /// Anything else.
    Other,
}

impl Area {
    /// All of them, as they are listed.
    pub const ALL: [Self; 7] =
        [Self::Common, Self::Compute, Self::Secure, Self::Locked, Self::Manifests, Self::Addons, Self::Other];

    /// The part that a key is of. Keys are compared byte by byte: `Locked/x` is not in `locked/`.
    #[must_use]
    pub fn of(key: &str) -> Self {
        match key.split_once('/').map(|(first, _)| first) {
            Some("common") => Self::Common,
            Some("compute") => Self::Compute,
            Some("secure") => Self::Secure,
            Some("locked") => Self::Locked,
            Some("manifests") => Self::Manifests,
            Some("addons") => Self::Addons,
            _ => Self::Other,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Compute => "compute",
            Self::Secure => "secure",
            Self::Locked => "locked",
            Self::Manifests => "manifests",
            Self::Addons => "addons",
            Self::Other => "other",
        }
    }

    /// Whether what is in it may go to a node at all.
    #[must_use]
    pub fn may_leave_for_nodes(self) -> bool {
        self != Self::Locked
    }
}

/// A key for a terminal: one line, exact, and no two keys alike. What cannot be seen, what turns the direction of text, spaces at an
/// end, and the marks that make an `ü` of `u` and `¨` (it looks like the `ü` that is one character) are written as `\u{…}`; a
/// backslash is written twice.
#[must_use]
pub fn shown(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let inner = key.trim_matches(' ');
    let lead = key.len() - key.trim_start_matches(' ').len();
    for (at, c) in key.char_indices() {
        let at_an_end = c == ' ' && (at < lead || at >= lead + inner.len());
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if at_an_end || unseen(c) => {
                // Writing to a string does not fail.
                write!(out, "\\u{{{:x}}}", u32::from(c)).ok();
            }
            _ => out.push(c),
        }
    }
    out
}

/// Whether a character shows nothing, or looks like something else.
fn unseen(c: char) -> bool {
    let blank = c != ' ' && c.is_whitespace();
    let hidden = matches!(
        u32::from(c),
        // Combining marks; fillers of Hangul; joiners; variation selectors.
        0x300..=0x36f | 0x115f..=0x1160 | 0x200c..=0x200d | 0x3164 | 0xffa0 | 0xfe00..=0xfe0f | 0xe0100..=0xe01ef
    );
    blank || hidden || text::visible(c) != c
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_part_is_the_first_folder_byte_by_byte() {
        let cases = [
            ("common/a", Area::Common),
            ("compute/a/b", Area::Compute),
            ("secure/", Area::Secure),
            ("locked//x", Area::Locked),
            ("manifests/x.yaml", Area::Manifests),
            ("addons/x", Area::Addons),
            ("locked", Area::Other),
            ("Locked/x", Area::Other),
            ("/locked/x", Area::Other),
            ("lockedx/y", Area::Other),
            ("", Area::Other),
        ];
        for (key, area) in cases {
            assert_eq!(Area::of(key), area, "{key:?}");
            assert_eq!(Area::of(key).may_leave_for_nodes(), area != Area::Locked);
        }
        assert_eq!(Area::ALL.map(|area| Area::of(&format!("{}/x", area.word()))), Area::ALL);
    }

    #[test]
    fn a_key_is_shown_exactly_on_one_line() {
        let cases = [
            ("a/b-1_c.yaml", "a/b-1_c.yaml"),
            ("sp ace", "sp ace"),
            (" a ", "\\u{20}a\\u{20}"),
            ("  ", "\\u{20}\\u{20}"),
            ("%41", "%41"),
            ("{b}", "{b}"),
            ("p+lus?#", "p+lus?#"),
            ("\u{fc}", "\u{fc}"),
            ("u\u{308}", "u\\u{308}"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("a\\nb", "a\\\\nb"),
            ("\u{1b}[31m", "\\u{1b}[31m"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{a0}b\u{200b}", "a\\u{a0}b\\u{200b}"),
            ("漢字", "漢字"),
        ];
        for (key, text) in cases {
            assert_eq!(shown(key), text);
        }
    }

    /// What was shown, read back.
    fn read_back(text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('\\') {
            out.push_str(before);
            let (kind, left) = after.split_at(1);
            let (c, left) = match kind {
                "u" => {
                    let (code, left) = left.strip_prefix('{').unwrap().split_once('}').unwrap();
                    (char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap(), left)
                }
                "n" => ('\n', left),
                "t" => ('\t', left),
                "r" => ('\r', left),
                _ => ('\\', left),
            };
            out.push(c);
            rest = left;
        }
        out + rest
    }

    proptest! {
        #[test]
        fn what_is_shown_says_which_key_it_is(key in any::<String>()) {
            let text = shown(&key);
            prop_assert!(!text.chars().any(unseen), "{text:?}");
            prop_assert_eq!(text.trim(), text.as_str());
            prop_assert_eq!(read_back(&text), key);
        }
    }
}
