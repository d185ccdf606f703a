//! Letters that come in a text in the order in which they were typed, with anything between them.
//!
//! Whether they do is asked of every row at every key, where they do only of the rows that are shown. Rows are not ranked by how well
//! they match: they stay in the order that the operator chose. So the first question needs no score, only one pass over the text.

use std::fmt;

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// What fuzzy matching works in: made once, used for every row.
pub struct Scratch {
    matcher: Matcher,
    characters: Vec<char>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { matcher: Matcher::new(Config::DEFAULT), characters: Vec::new() }
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scratch")
    }
}

/// The letters, in any case.
#[derive(Debug, Clone)]
pub(super) struct Fuzzy {
    /// Which also knows that an `a` stands for an `ä`, and which places are the best.
    atom: Box<Atom>,
    /// The letters in lower case, when all of them are ASCII.
    ascii: Option<Box<[u8]>>,
}

impl Fuzzy {
    /// The letters of a word.
    pub(super) fn new(word: &str) -> Self {
        let atom = Atom::new(word, CaseMatching::Ignore, Normalization::Smart, AtomKind::Fuzzy, false);
        let ascii = match atom.needle_text() {
            Utf32Str::Ascii(letters) => Some(letters.to_ascii_lowercase().into()),
            Utf32Str::Unicode(_) => None,
        };
        Self { atom: Box::new(atom), ascii }
    }

    /// Whether the text has them in this order.
    pub(super) fn are_in(&self, text: &str, scratch: &mut Scratch) -> bool {
        match &self.ascii {
            Some(letters) if text.is_ascii() => {
                let mut rest = text.bytes();
                letters.iter().all(|letter| rest.any(|byte| byte.to_ascii_lowercase() == *letter))
            }
            _ => {
                let text = Utf32Str::new(text, &mut scratch.characters);
                self.atom.score(text, &mut scratch.matcher).is_some()
            }
        }
    }

    /// Adds the places of the characters in the text that stand for them, where it has them all.
    pub(super) fn places(&self, text: &str, scratch: &mut Scratch, found: &mut Vec<u32>) {
        let text = Utf32Str::new(text, &mut scratch.characters);
        self.atom.indices(text, &mut scratch.matcher, found);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The one pass says of every text what the matcher says that shows the places, or rows would be hidden or shown without a reason.
        #[test]
        fn one_pass_finds_what_the_matcher_finds(text in "[a-eA-E0-2.äÄé\\-\r\n ]{0,24}", word in "[a-eA-E0-2.äé\\-]{1,5}") {
            let (fuzzy, mut scratch) = (Fuzzy::new(&word), Scratch::default());
            let found = {
                let text = Utf32Str::new(&text, &mut scratch.characters);
                fuzzy.atom.score(text, &mut scratch.matcher).is_some()
            };
            prop_assert_eq!(fuzzy.are_in(&text, &mut scratch), found);
            let mut places = Vec::new();
            fuzzy.places(&text, &mut scratch, &mut places);
            prop_assert_eq!(!places.is_empty(), found);
        }
    }
}
