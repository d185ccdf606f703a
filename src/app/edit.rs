//! A line of text that is being typed.

use unicode_segmentation::UnicodeSegmentation;

use crate::config::{Code, Key};

/// The most that one line takes, in bytes: longer pastes are cut.
const LIMIT: usize = 512;

/// A line of text and where its cursor stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineEdit {
    text: String,
    /// In bytes, always between two graphemes.
    at: usize,
}

/// What a key did to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// The text is another one now.
    Changed,
    /// Only the cursor moved.
    Moved,
    /// The key is none of the line's.
    Ignored,
}

impl LineEdit {
    /// A line with a text, the cursor at its end.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut line = Self::default();
        line.insert(text);
        line
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before and after the cursor.
    #[must_use]
    pub fn halves(&self) -> (&str, &str) {
        self.text.split_at_checked(self.at).unwrap_or((&self.text, ""))
    }

    /// Takes text in, as one line without control characters.
    pub fn insert(&mut self, text: &str) {
        for c in text.chars() {
            let c = if c.is_whitespace() { ' ' } else { c };
            if c.is_control() || self.text.len() + c.len_utf8() > LIMIT {
                continue;
            }
            self.text.insert(self.at, c);
            self.at += c.len_utf8();
        }
        // A combining character may have joined what stood before it.
        let end = self.boundaries().find(|b| *b >= self.at);
        self.at = end.unwrap_or(self.text.len());
    }

    /// Takes a key in.
    pub fn key(&mut self, key: Key) -> Edited {
        if let Some(c) = key.text() {
            self.insert(c.encode_utf8(&mut [0; 4]));
            return Edited::Changed;
        }
        let before = self.previous();
        let after = self.next();
        match (key.code, key.ctrl, key.alt) {
            (Code::Backspace, false, false) | (Code::Char('h'), true, false) => self.remove(before, self.at),
            (Code::Delete, false, false) | (Code::Char('d'), true, false) => self.remove(self.at, after),
            (Code::Char('w'), true, false) | (Code::Backspace, _, _) => {
                self.remove(self.word_start(), self.at)
            }
            (Code::Char('u'), true, false) => self.remove(0, self.at),
            (Code::Char('k'), true, false) => self.remove(self.at, self.text.len()),
            (Code::Left, false, false) | (Code::Char('b'), true, false) => self.go(before),
            (Code::Right, false, false) | (Code::Char('f'), true, false) => self.go(after),
            (Code::Left, _, _) | (Code::Char('b'), false, true) => self.go(self.word_start()),
            (Code::Home, ..) | (Code::Char('a'), true, false) => self.go(0),
            (Code::End, ..) | (Code::Char('e'), true, false) => self.go(self.text.len()),
            _ => Edited::Ignored,
        }
    }

    /// What would complete the word before the cursor, which stands at the end: the rest of the first known name that begins so.
    #[must_use]
    pub fn completion<'k>(&self, known: &'k [String]) -> Option<&'k str> {
        let (before, after) = self.halves();
        let word = before.rsplit(char::is_whitespace).next().filter(|word| !word.is_empty())?;
        if !after.is_empty() {
            return None;
        }
        // What holds a blank would have to be quoted.
        let names = known.iter().filter(|name| !name.contains(char::is_whitespace));
        names.filter_map(|name| name.strip_prefix(word)).find(|rest| !rest.is_empty())
    }

    fn boundaries(&self) -> impl Iterator<Item = usize> {
        self.text.grapheme_indices(true).map(|(at, _)| at).chain([self.text.len()])
    }

    fn previous(&self) -> usize {
        self.boundaries().take_while(|b| *b < self.at).last().unwrap_or(0)
    }

    fn next(&self) -> usize {
        self.boundaries().find(|b| *b > self.at).unwrap_or(self.text.len())
    }

    fn word_start(&self) -> usize {
        let (before, _) = self.halves();
        let trimmed = before.trim_end();
        trimmed.char_indices().rev().find(|(_, c)| c.is_whitespace()).map_or(0, |(at, c)| at + c.len_utf8())
    }

    fn remove(&mut self, from: usize, to: usize) -> Edited {
        if from < to {
            self.text.replace_range(from..to, "");
        }
        self.at = from;
        Edited::Changed
    }

    fn go(&mut self, to: usize) -> Edited {
        self.at = to;
        Edited::Moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> LineEdit {
        let mut line = LineEdit::default();
        for key in keys.split_whitespace() {
            line.key(key.parse().unwrap());
        }
        line
    }

    #[test]
    fn the_word_at_the_end_is_completed() {
        let known = ["ops".to_owned(), "operators x".to_owned(), "ops:all".to_owned()];
        let rest = |keys: &str| typed(keys).completion(&known).map(str::to_owned);
        assert_eq!(rest("d e v space o"), Some("ps".to_owned()));
        assert_eq!(rest("o p s"), Some(":all".to_owned()), "one that is whole already may go on");
        assert_eq!((rest("o left"), rest("x"), rest("o p s space")), (None, None, None));
    }

    #[test]
    fn it_edits_like_a_shell() {
        assert_eq!(typed("a b space c d ctrl-w x").text(), "ab x");
        assert_eq!(typed("a b c left left backspace X").halves(), ("X", "bc"));
        assert_eq!(typed("a b home delete end c").text(), "bc");
        assert_eq!(typed("a b c ctrl-a ctrl-k z").text(), "z");
        assert_eq!(typed("a b c left ctrl-u").text(), "c");
        assert_eq!(typed("backspace left delete right").text(), "");
    }

    #[test]
    fn the_cursor_stays_between_graphemes() {
        let mut line = LineEdit::new("a👩‍❤️‍👨e\u{301}");
        line.key("left".parse().unwrap());
        assert_eq!(line.halves().0, "a👩‍❤️‍👨");
        line.key("backspace".parse().unwrap());
        assert_eq!(line.text(), "ae\u{301}");
    }

    #[test]
    fn pasted_text_is_one_harmless_bounded_line() {
        assert_eq!(LineEdit::new("a\nb\tc\u{1b}[2J").text(), "a b c[2J");
        assert_eq!(LineEdit::new(&"x".repeat(5000)).text().len(), LIMIT);
    }
}
