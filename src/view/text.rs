//! Text as it stands in cells: measured, cut and wrapped by display width, colours of others read, everything else made harmless.

use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::config::{Paint, Theme};
use crate::domain::text::{plain, visible};

/// No line takes more bytes than this into a frame.
const LINE_LIMIT: usize = 16 * 1024;

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text itself when a terminal takes it for nothing but text, else made so.
pub(crate) fn harmless(text: &str) -> std::borrow::Cow<'_, str> {
    if text.chars().all(|c| visible(c) == c) { text.into() } else { plain(text).into() }
}

/// The text in at most so many columns; what is cut is replaced at the end.
pub(crate) fn cut_end(text: &str, columns: usize, ellipsis: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(width(ellipsis));
    let mut out = head(text, room).to_owned();
    if columns >= width(ellipsis) {
        out.push_str(ellipsis);
    }
    out
}

/// The text in at most so many columns; what is cut is replaced in the middle, where names that belong together differ least.
pub(crate) fn cut_middle(text: &str, columns: usize, ellipsis: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(width(ellipsis));
    if room < 4 {
        return cut_end(text, columns, ellipsis);
    }
    let first = head(text, room.div_ceil(2));
    let last = tail(text, room - width(first));
    format!("{first}{ellipsis}{last}")
}

fn head(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let mut end = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += width(grapheme);
        if used > columns {
            break;
        }
        end = at + grapheme.len();
    }
    text.get(..end).unwrap_or_default()
}

fn tail(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let mut start = text.len();
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        used += width(grapheme);
        if used > columns {
            break;
        }
        start = at;
    }
    text.get(start..).unwrap_or_default()
}

/// A piece of a line in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The text.
    pub(crate) text: String,
    /// Its style.
    pub(crate) style: Style,
}

/// A line that others wrote: its colours as styles over `base`, tabs as spaces, the last state of what was overwritten, everything
/// else that a terminal would obey as a symbol.
pub(crate) fn foreign(text: &str, base: Style, theme: &Theme) -> Vec<Piece> {
    let end = (0..=LINE_LIMIT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let text = text.get(..end).unwrap_or(text);
    let text = text.trim_end_matches(['\r', '\n']);
    let text = text.rsplit('\r').next().unwrap_or(text);
    let mut pieces = Vec::new();
    let mut current = Piece { text: String::new(), style: base };
    let mut column = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((codes, tail)) = sgr(rest) {
            let style = apply(current.style, base, codes, theme);
            if style != current.style {
                let done = std::mem::replace(&mut current, Piece { text: String::new(), style });
                pieces.extend(Some(done).filter(|p| !p.text.is_empty()));
            }
            rest = tail;
            continue;
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        if c == '\t' {
            let fill = 8 - column % 8;
            current.text.extend(std::iter::repeat_n(' ', fill));
            column += fill;
        } else {
            current.text.push(visible(c));
            column += 1;
        }
    }
    pieces.extend(Some(current).filter(|p| !p.text.is_empty()));
    pieces
}

/// The codes of a colour sequence at the start of a text, and what follows it.
fn sgr(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix("\u{1b}[")?;
    let end = body.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    let (codes, tail) = body.split_at_checked(end)?;
    tail.strip_prefix('m').map(|tail| (codes, tail))
}

fn apply(mut style: Style, base: Style, codes: &str, theme: &Theme) -> Style {
    let mut numbers = codes.split([';', ':']).map(|n| n.parse::<u16>().unwrap_or(0));
    while let Some(code) = numbers.next() {
        let small = |n: u16| u8::try_from(n).ok();
        match code {
            0 => style = base,
            1 => style = style.add_modifier(Modifier::BOLD),
            3 => style = style.add_modifier(Modifier::ITALIC),
            4 => style = style.add_modifier(Modifier::UNDERLINED),
            7 => style = style.add_modifier(Modifier::REVERSED),
            22 => style = style.remove_modifier(Modifier::BOLD),
            23 => style = style.remove_modifier(Modifier::ITALIC),
            24 => style = style.remove_modifier(Modifier::UNDERLINED),
            27 => style = style.remove_modifier(Modifier::REVERSED),
            30..=37 => style.fg = paint(small(code - 30).map(Paint::Ansi), theme).or(base.fg),
            90..=97 => style.fg = paint(small(code - 82).map(Paint::Ansi), theme).or(base.fg),
            40..=47 => style.bg = paint(small(code - 40).map(Paint::Ansi), theme).or(base.bg),
            100..=107 => style.bg = paint(small(code - 92).map(Paint::Ansi), theme).or(base.bg),
            39 => style.fg = base.fg,
            49 => style.bg = base.bg,
            38 => style.fg = paint(extended(&mut numbers), theme).or(base.fg),
            48 => style.bg = paint(extended(&mut numbers), theme).or(base.bg),
            _ => {}
        }
    }
    style
}

fn extended(numbers: &mut impl Iterator<Item = u16>) -> Option<Paint> {
    let mut byte = || numbers.next().and_then(|n| u8::try_from(n).ok());
    match byte()? {
        5 => byte().map(Paint::Indexed),
        2 => Some(Paint::Rgb(byte()?, byte()?, byte()?)),
        _ => None,
    }
}

fn paint(paint: Option<Paint>, theme: &Theme) -> Option<ratatui::style::Color> {
    theme.foreign(paint?).map(super::pen::colour)
}

/// A line broken into lines of at most so many columns, between words where that is possible.
pub(crate) fn wrap(pieces: &[Piece], columns: usize) -> Vec<Vec<Piece>> {
    let columns = columns.max(1);
    let mut lines: Vec<Vec<Piece>> = vec![Vec::new()];
    let mut used = 0;
    for piece in pieces {
        for word in piece.text.split_word_bounds() {
            let wide = width(word);
            if used + wide > columns && used > 0 && (wide <= columns || word.trim().is_empty()) {
                lines.push(Vec::new());
                used = 0;
                if word.trim().is_empty() {
                    continue;
                }
            }
            used = push_word(&mut lines, word, piece.style, used, columns);
        }
    }
    lines
}

fn push_word(
    lines: &mut Vec<Vec<Piece>>,
    word: &str,
    style: Style,
    mut used: usize,
    columns: usize,
) -> usize {
    for grapheme in word.graphemes(true) {
        let wide = width(grapheme);
        if used + wide > columns && used > 0 {
            lines.push(Vec::new());
            used = 0;
        }
        used += wide;
        let Some(line) = lines.last_mut() else { continue };
        match line.last_mut() {
            Some(last) if last.style == style => last.text.push_str(grapheme),
            _ => line.push(Piece { text: grapheme.to_owned(), style }),
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Color;

    fn shown(text: &str) -> String {
        foreign(text, Style::default(), &Theme::default()).iter().map(|p| p.text.as_str()).collect()
    }

    #[test]
    fn names_are_cut_in_the_middle_by_width() {
        assert_eq!(cut_middle("web-9.lan.example.org", 12, "…"), "web-9.…e.org");
        assert_eq!(cut_middle("short", 12, "…"), "short");
        assert_eq!(cut_end("漢字漢字", 5, "…"), "漢字…");
        for columns in 0..30 {
            for text in ["web-9.lan.example.org", "漢字漢字漢字漢字", "👩‍❤️‍👨 e\u{301}\u{301} x"]
            {
                assert!(width(&cut_middle(text, columns, "…")) <= columns);
                assert!(width(&cut_end(text, columns, "…")) <= columns);
            }
        }
    }

    #[test]
    fn colours_are_kept_and_nothing_else_is_obeyed() {
        let pieces = foreign("\u{1b}[0;31mred\u{1b}[0m plain", Style::default(), &Theme::default());
        assert_eq!(pieces[0].style.fg, Some(Color::Red));
        assert_eq!((pieces[0].text.as_str(), pieces[1].text.as_str()), ("red", " plain"));
        for hostile in [
            "\u{1b}[2J",
            "\u{1b}]0;x\u{7}",
            "\u{1b}]52;c;aGk=\u{7}",
            "\u{9b}31m",
            "\u{1b}Pq",
            "\u{1b}[38;5",
            "a\u{202e}b",
        ] {
            let text = shown(hostile);
            assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{hostile:?} -> {text:?}");
        }
        assert_eq!(shown("[red]x[-] {ofUfac]>t[898dfs"), "[red]x[-] {ofUfac]>t[898dfs");
        assert_eq!((shown("a\tb").as_str(), shown("10%\r20%\rdone").as_str()), ("a       b", "done"));
    }

    #[test]
    fn lines_are_wrapped_between_words_and_long_words_anywhere() {
        let lines = |text: &str, columns| {
            let piece = Piece { text: text.to_owned(), style: Style::default() };
            let line = |l: Vec<Piece>| l.iter().map(|p| p.text.as_str()).collect::<String>();
            wrap(&[piece], columns).into_iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(lines("one two three", 8), ["one two ", "three"]);
        assert_eq!(lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(lines("", 4), [""]);
        for columns in 1..12 {
            for line in lines("漢字 a👩‍❤️‍👨b  long-word-here", columns) {
                assert!(width(&line) <= columns.max(2), "{line:?} in {columns}");
            }
        }
    }
}
