//! Text as it stands in cells: measured, cut and wrapped by display width, colours of others read, everything else made harmless.

use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::config::{Paint, Theme};
use crate::domain::text::{Needle, last_state, plain, visible};

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
    window(text, 0, usize::MAX, base, theme).0
}

/// The same of bytes, of which those that are no text are shown as such: what stands in so many columns after the first `skip`.
/// Returns whether there is more behind. However long the line is, no more of it is read than that.
pub(crate) fn window_of(
    bytes: &[u8],
    skip: usize,
    columns: usize,
    base: Style,
    theme: &Theme,
) -> (Vec<Piece>, bool) {
    let long = bytes.len() > LINE_LIMIT;
    let text = String::from_utf8_lossy(bytes.get(..LINE_LIMIT).unwrap_or(bytes));
    let (pieces, more) = window(&text, skip, columns, base, theme);
    (pieces, more || long)
}

fn window(text: &str, skip: usize, columns: usize, base: Style, theme: &Theme) -> (Vec<Piece>, bool) {
    let text = text.get(last_state(text.as_bytes())..).unwrap_or(text);
    let end = (0..=LINE_LIMIT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let text = text.get(..end).unwrap_or(text).trim_end_matches(['\r', '\n']);
    let last = skip.saturating_add(columns);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut column = 0;
    let mut more = false;
    each_cell(text, base, theme, |cell, wide, style| {
        let (from, to) = (column, column + wide);
        column = to;
        if to <= skip {
            return true;
        }
        if to > last {
            more = true;
            return false;
        }
        // Half of a wide character cannot be shown.
        let cell = if from < skip { " " } else { cell };
        match pieces.last_mut() {
            Some(piece) if piece.style == style => piece.text.push_str(cell),
            _ => pieces.push(Piece { text: cell.to_owned(), style }),
        }
        true
    });
    (pieces, more)
}

/// Goes through a line cell by cell (a cell is what takes columns of its own) until `put` has enough.
fn each_cell(text: &str, base: Style, theme: &Theme, mut put: impl FnMut(&str, usize, Style) -> bool) {
    let (mut style, mut column, mut rest) = (base, 0, text);
    while let Some(first) = rest.bytes().next() {
        if let Some((codes, tail)) = sgr(rest) {
            style = apply(style, base, codes, theme);
            rest = tail;
            continue;
        }
        if first == b'\t' {
            let fill = 8 - column % 8;
            column += fill;
            rest = rest.get(1..).unwrap_or_default();
            if !(0..fill).all(|_| put(" ", 1, style)) {
                return;
            }
            continue;
        }
        // A letter that nothing joins.
        let plain = (0x20..0x7f).contains(&first) && rest.as_bytes().get(1).is_none_or(u8::is_ascii);
        let cell = if plain { rest.get(..1) } else { rest.graphemes(true).next() }.unwrap_or(rest);
        rest = rest.get(cell.len()..).unwrap_or_default();
        if plain {
            column += 1;
            if !put(cell, 1, style) {
                return;
            }
            continue;
        }
        let wide = width(cell);
        if wide > 0 && cell.chars().all(|c| visible(c) == c) {
            column += wide;
            if !put(cell, wide, style) {
                return;
            }
            continue;
        }
        // What has no column of its own gets one: it is there, so it is seen.
        for c in cell.chars().map(visible) {
            let shown = if width(c.encode_utf8(&mut [0; 4])) == 0 { '\u{fffd}' } else { c };
            let mut buffer = [0; 4];
            let shown = shown.encode_utf8(&mut buffer);
            let wide = width(shown);
            column += wide;
            if !put(shown, wide, style) {
                return;
            }
        }
    }
}

/// The pieces with every match of a search in a style of its own.
pub(crate) fn highlight(pieces: Vec<Piece>, needle: &Needle, style: Style) -> Vec<Piece> {
    let text: String = pieces.iter().map(|p| p.text.as_str()).collect();
    let places = needle.places(&text);
    if places.is_empty() {
        return pieces;
    }
    let mut out: Vec<Piece> = Vec::new();
    let mut at = 0;
    for piece in pieces {
        let end = at + piece.text.len();
        let mut from = at;
        for place in places.iter().filter(|p| p.start < end && p.end > at) {
            let (start, stop) = (place.start.max(at), place.end.min(end));
            for (range, style) in [(from..start, piece.style), (start..stop, style)] {
                if let Some(text) = piece.text.get(range.start - at..range.end - at).filter(|t| !t.is_empty())
                {
                    out.push(Piece { text: text.to_owned(), style });
                }
            }
            from = stop;
        }
        if let Some(text) = piece.text.get(from - at..).filter(|t| !t.is_empty()) {
            out.push(Piece { text: text.to_owned(), style: piece.style });
        }
        at = end;
    }
    out
}

/// The pieces in lines of exactly so many columns, as a terminal breaks them: at most so many lines.
pub(crate) fn chop(pieces: &[Piece], columns: usize, most: usize) -> Vec<Vec<Piece>> {
    let columns = columns.max(1);
    let mut lines: Vec<Vec<Piece>> = vec![Vec::new()];
    let mut used = 0;
    for piece in pieces {
        for cell in piece.text.graphemes(true) {
            let wide = width(cell);
            if used + wide > columns && used > 0 {
                if lines.len() >= most {
                    return lines;
                }
                lines.push(Vec::new());
                used = 0;
            }
            used += wide;
            add(&mut lines, cell, piece.style);
        }
    }
    lines
}

fn add(lines: &mut [Vec<Piece>], cell: &str, style: Style) {
    let Some(line) = lines.last_mut() else { return };
    match line.last_mut() {
        Some(last) if last.style == style => last.text.push_str(cell),
        _ => line.push(Piece { text: cell.to_owned(), style }),
    }
}

/// The codes of a colour sequence at the start of a text, and what follows it.
fn sgr(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix("\u{1b}[")?;
    let end = body.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    let (codes, tail) = body.split_at_checked(end)?;
    tail.strip_prefix('m').map(|tail| (codes, tail))
}

fn apply(mut style: Style, base: Style, codes: &str, theme: &Theme) -> Style {
    let mut codes = codes.split(';');
    while let Some(code) = codes.next() {
        // Colons bind: 38:2::255:0:0 is one colour, 4:3 one way to underline.
        if code == "4:0" {
            style = style.remove_modifier(Modifier::UNDERLINED);
        } else if let Some((code, parts)) = code.split_once(':') {
            let mut numbers: Vec<u16> = parts.split(':').map(number).collect();
            // The colour space, which may be left empty, stands before red, green and blue.
            if numbers.first() == Some(&2) && numbers.len() > 4 {
                numbers.remove(1);
            }
            style = set(style, base, number(code), &mut numbers.into_iter(), theme);
        } else {
            style = set(style, base, number(code), &mut codes.by_ref().map(number), theme);
        }
    }
    style
}

fn number(text: &str) -> u16 {
    text.parse().unwrap_or(0)
}

/// One code; `more` has the numbers that may belong to it.
fn set(
    mut style: Style,
    base: Style,
    code: u16,
    more: &mut dyn Iterator<Item = u16>,
    theme: &Theme,
) -> Style {
    let ansi = |n: u16| paint(u8::try_from(n).ok().map(Paint::Ansi), theme);
    match code {
        0 => return base,
        1 => style = style.add_modifier(Modifier::BOLD),
        3 => style = style.add_modifier(Modifier::ITALIC),
        4 => style = style.add_modifier(Modifier::UNDERLINED),
        7 => style = style.add_modifier(Modifier::REVERSED),
        22 => style = style.remove_modifier(Modifier::BOLD),
        23 => style = style.remove_modifier(Modifier::ITALIC),
        24 => style = style.remove_modifier(Modifier::UNDERLINED),
        27 => style = style.remove_modifier(Modifier::REVERSED),
        30..=37 => style.fg = ansi(code - 30).or(base.fg),
        90..=97 => style.fg = ansi(code - 82).or(base.fg),
        40..=47 => style.bg = ansi(code - 40).or(base.bg),
        100..=107 => style.bg = ansi(code - 92).or(base.bg),
        39 => style.fg = base.fg,
        49 => style.bg = base.bg,
        38 => style.fg = paint(extended(more), theme).or(base.fg),
        48 => style.bg = paint(extended(more), theme).or(base.bg),
        _ => {}
    }
    style
}

fn extended(numbers: &mut dyn Iterator<Item = u16>) -> Option<Paint> {
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
        add(lines, grapheme, style);
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
