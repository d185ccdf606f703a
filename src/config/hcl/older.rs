//! HCL 1 wrote maps without an equals sign, quoted keys and all: `zones { "a" = 1 }`. HCL 2, which the parser reads, takes that
//! for a block, whose keys may not be quoted. So the sign is put in where it is missing, and places are counted back.

/// A text with every map's equals sign.
pub(super) struct Newer {
    pub(super) text: String,
    /// Where, in the original, a sign was put in front; ascending.
    signs: Vec<usize>,
    /// A text, heredoc, map or list that nothing closes: where it begins in the original. The parser does not say.
    pub(super) unclosed: Option<usize>,
}

const SIGN: &str = "= ";

impl Newer {
    /// Where in the original an offset in the new text is.
    pub(super) fn in_original(&self, offset: usize) -> usize {
        let before = |(number, sign): (usize, &usize)| sign + (number + 1) * SIGN.len() <= offset;
        let count = self.signs.iter().enumerate().take_while(|(n, s)| before((*n, s))).count();
        // On the sign itself: where it would stand.
        let inside = self.signs.get(count).filter(|sign| *sign + count * SIGN.len() <= offset);
        inside.copied().unwrap_or(offset - count * SIGN.len())
    }
}

/// Puts the missing signs in.
pub(super) fn renew(text: &str) -> Newer {
    let (signs, unclosed) = missing_signs(text);
    let mut out = String::with_capacity(text.len() + signs.len() * SIGN.len());
    let mut from = 0;
    for sign in &signs {
        out.push_str(text.get(from..*sign).unwrap_or_default());
        out.push_str(SIGN);
        from = *sign;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Newer { text: out, signs, unclosed }
}

/// How far a `{` is from being a map without a sign.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// A key may stand here.
    Start,
    /// One key stood here, and nothing else.
    Key,
    /// Something else.
    Value,
}

fn missing_signs(text: &str) -> (Vec<usize>, Option<usize>) {
    let mut signs = Vec::new();
    let mut unclosed = None;
    let mut open = Vec::new();
    let mut before = Before::Start;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (length, next) = token(rest);
        match rest.chars().next() {
            Some('{' | '[' | '(') => open.push(at),
            Some('}' | ']' | ')') => drop(open.pop()),
            _ => {}
        }
        match next {
            Token::Space => {}
            Token::Break | Token::Close => before = Before::Start,
            Token::Open => {
                if before == Before::Key {
                    signs.push(at);
                }
                before = Before::Start;
            }
            Token::Word => before = if before == Before::Start { Before::Key } else { Before::Value },
            Token::Other => before = Before::Value,
            Token::Unclosed => {
                unclosed = unclosed.or(Some(at));
                before = Before::Value;
            }
        }
        at += length;
    }
    (signs, unclosed.or(open.pop()))
}

enum Token {
    /// Blanks and comments.
    Space,
    /// The end of a line, or a comma.
    Break,
    /// `{`
    Open,
    /// `}`
    Close,
    /// A name or a text.
    Word,
    Other,
    /// A text or heredoc without its end.
    Unclosed,
}

/// The length and kind of what a text starts with.
fn token(text: &str) -> (usize, Token) {
    let Some(first) = text.chars().next() else { return (0, Token::Space) };
    let line = || text.find('\n').unwrap_or(text.len());
    let wide = first.len_utf8();
    match first {
        '\n' | ',' => (1, Token::Break),
        '{' => (1, Token::Open),
        '}' => (1, Token::Close),
        '"' => string(text).map_or((line(), Token::Unclosed), |length| (length, Token::Word)),
        '#' => (line(), Token::Space),
        '/' if text.starts_with("//") => (line(), Token::Space),
        '/' if text.starts_with("/*") => (text.find("*/").map_or(text.len(), |end| end + 2), Token::Space),
        '<' if text.starts_with("<<") => {
            heredoc(text).map_or((text.len(), Token::Unclosed), |length| (length, Token::Other))
        }
        _ if first.is_whitespace() => (wide, Token::Space),
        _ if in_name(first) => (text.find(|c| !in_name(c)).unwrap_or(text.len()), Token::Word),
        _ => (wide, Token::Other),
    }
}

fn in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// The length of a text with its quotes. What stands in `${…}` inside it is skipped with its own quotes and braces.
fn string(text: &str) -> Option<usize> {
    // Each open `${`: how many braces are open inside it; none: in the text itself.
    let mut open: Vec<usize> = Vec::new();
    let mut quoted = vec![true];
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        let inside = quoted.last().copied().unwrap_or(false);
        match c {
            '\\' if inside => drop(characters.next()),
            '"' if inside => {
                quoted.pop();
                if quoted.is_empty() {
                    return Some(at + 1);
                }
            }
            '"' => quoted.push(true),
            '\n' if quoted.len() == 1 => return None,
            '$' | '%' if inside => {
                let escaped = characters.next_if(|(_, next)| *next == c).is_some();
                if characters.next_if(|(_, next)| *next == '{').is_some() && !escaped {
                    open.push(1);
                    quoted.push(false);
                }
            }
            '{' if !inside => open.iter_mut().last().into_iter().for_each(|depth| *depth += 1),
            '}' if !inside => {
                let depth = open.last_mut().map_or(0, |depth| {
                    *depth -= 1;
                    *depth
                });
                if depth == 0 {
                    open.pop();
                    quoted.pop();
                }
            }
            _ => {}
        }
    }
    None
}

/// The length of `<<NAME` to the line that ends it, without its line break.
fn heredoc(text: &str) -> Option<usize> {
    let head = text.trim_start_matches('<').trim_start_matches('-');
    let name = head.split(|c: char| !in_name(c)).next().unwrap_or_default();
    if name.is_empty() {
        return Some(2);
    }
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let end = line.trim_end_matches(['\n', '\r']);
        if number > 0 && end.trim() == name {
            return Some(at + end.len());
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn signs_go_only_where_they_are_missing() {
        for same in [
            "a = { b = 1 }",
            "a = [{ b = 1 }, {}]",
            "a = \"x {\" # y {\n/* z { */ // {\n",
            "a = <<EOF\nx {\n EOF2\n EOF\nb = {}",
            "a = \"${f({ x = \"}\" })} {\"\nb = 1",
            "n \"label\" {\n}",
            "a = \"$${ \\\" {\"",
        ] {
            assert_eq!(renew(same).text, same);
        }
        assert_eq!(renew("a {\n b{ \"c\" { d = 1 } }\n}").text, "a = {\n b= { \"c\" = { d = 1 } }\n}");
        assert_eq!(renew("a = {\n b {}, \"c\" {}\n}").text, "a = {\n b = {}, \"c\" = {}\n}");
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_every_place_counted_back(text in "[a-z{}\"$%\\\\<E\n#/*= ,é-]{0,80}") {
            let newer = renew(&text);
            let mut last = 0;
            for (at, c) in newer.text.char_indices() {
                let original = newer.in_original(at);
                prop_assert!(original >= last && original <= text.len());
                last = original;
                let inserted = !text.get(original..).is_some_and(|rest| rest.starts_with(c));
                prop_assert!(!inserted || "= ".contains(c), "{at} {c:?} {original}");
            }
            prop_assert_eq!(newer.text.len(), text.len() + newer.signs.len() * SIGN.len());
        }
    }
}
