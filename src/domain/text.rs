//! Text that others wrote, made safe to show.

/// The text without SGR colour sequences (`ESC [ … m`).
#[must_use]
pub fn strip_sgr(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'));
        match end.and_then(|at| after.split_at_checked(at)) {
            Some((_, tail)) if tail.starts_with('m') => rest = tail.strip_prefix('m').unwrap_or(tail),
            _ => {
                out.push_str("\u{1b}[");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Where the text begins that a line's carriage returns leave standing: `10%\r20%\r` leaves `20%`. Those at its end do not count.
#[must_use]
pub fn last_state(line: &[u8]) -> usize {
    let end = line.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |last| last + 1);
    line.get(..end).and_then(|text| text.iter().rposition(|b| *b == b'\r')).map_or(0, |at| at + 1)
}

/// What is searched for, in any case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needle {
    text: String,
    lower: String,
}

impl Needle {
    /// Searches for this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), lower: text.to_lowercase() }
    }

    /// The text as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True when nothing is searched for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lower.is_empty()
    }

    /// Whether a line holds it, as the line is shown: colours and bytes that are no text do not come between.
    #[must_use]
    pub fn is_in(&self, line: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        if line.contains(&0x1b) || line.contains(&b'\t') || !self.lower.is_ascii() {
            return !self.places(&plain(&String::from_utf8_lossy(line))).is_empty();
        }
        let wanted = self.lower.as_bytes();
        line.windows(wanted.len()).any(|window| window.eq_ignore_ascii_case(wanted))
    }

    /// Where a text holds it, in bytes.
    #[must_use]
    pub fn places(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        if self.is_empty() {
            return Vec::new();
        }
        if text.is_ascii() {
            let found = text.to_ascii_lowercase();
            return found.match_indices(&self.lower).map(|(at, found)| at..at + found.len()).collect();
        }
        // A letter may be longer or shorter in the other case: which one each byte came from.
        let (mut lower, mut from) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
        for (at, c) in text.char_indices() {
            lower.extend(c.to_lowercase());
            from.resize(lower.len(), at..at + c.len_utf8());
        }
        let place = |(at, found): (usize, &str)| {
            let (first, last) = (from.get(at)?, from.get(at + found.len().saturating_sub(1))?);
            Some(first.start..last.end)
        };
        lower.match_indices(&self.lower).filter_map(place).collect()
    }
}

/// An error and its causes on one harmless line, each said once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = plain(&error.to_string());
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        cause = error.source();
    }
    texts.join(": ")
}

/// One line of a log, as [`plain`] makes it, in the last state that its carriage returns left it in: `10%\r20%` is `20%`.
#[must_use]
pub fn plain_log(text: &str) -> String {
    plain(text.get(last_state(text.as_bytes())..).unwrap_or(text))
}

/// One line that a terminal takes for nothing but text: tabs expanded to stops of 8, every other control, invisible or
/// direction-changing character as a visible symbol. Nothing is left out: what somebody approves must not hide a part of it.
#[must_use]
pub fn plain(text: &str) -> String {
    let text = strip_sgr(text);
    let line = text.trim_end_matches(['\n', '\r']);
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    for c in line.chars() {
        if c == '\t' {
            let fill = 8 - column % 8;
            out.extend(std::iter::repeat_n(' ', fill));
            column += fill;
            continue;
        }
        out.push(visible(c));
        column += 1;
    }
    out
}

/// A character as itself when it is harmless, else as a symbol for it.
#[must_use]
pub fn visible(c: char) -> char {
    match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('?'),
        0x7f => '\u{2421}',
        0x80..=0x9f
        | 0xad
        | 0x61c
        | 0x180e
        | 0x200b
        | 0x200e..=0x200f
        | 0x2028..=0x202e
        | 0x2060..=0x206f
        | 0xfeff
        | 0xfff9..=0xfffb => '\u{fffd}',
        0xe0000..=0xe007f => '\u{fffd}',
        _ => c,
    }
}

/// A span of time as short as people say it: `12s`, `9m`, `3h`, `3d`.
#[must_use]
pub fn short_span(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3_600 => format!("{}m", s / 60),
        s @ 3_600..86_400 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// A number of bytes as people say it: `512 B`, `9.1 kB`, `3.0 MB`, `1.2 GB`, in steps of a thousand.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mut unit = 1;
    for name in ["B", "kB", "MB", "GB", "TB"] {
        let next = unit * 1000;
        if bytes < next || name == "TB" {
            let tenth = if unit == 1 { String::new() } else { format!(".{}", bytes % unit / (unit / 10)) };
            return format!("{}{tenth} {name}", bytes / unit);
        }
        unit = next;
    }
    String::new()
}

/// A duration: `0.8s`, `38s`, `1m 42s`, `2h 05m`.
#[must_use]
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..10 => format!("{}.{}s", seconds, milliseconds % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_said_in_at_most_eight_columns() {
        let said = [0, 999, 1_000, 9_149, 3_000_000, 1_250_000_000, 7_000_000_000_000].map(bytes);
        assert_eq!(said, ["0 B", "999 B", "1.0 kB", "9.1 kB", "3.0 MB", "1.2 GB", "7.0 TB"]);
        assert_eq!(bytes(u64::MAX), "18446744.0 TB");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_passes() {
        for hostile in [
            "\u{1b}[2J",
            "\u{1b}]0;x\u{7}",
            "\u{1b}]52;c;aGk=\u{7}",
            "\u{1b}[?1049l",
            "\u{9b}31m",
            "\u{1b}Pq",
            "\u{1b}[38;5",
            "a\u{202e}b",
            "a\0b",
            "\u{b}\u{c}",
        ] {
            let shown = plain(hostile);
            assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{hostile:?} -> {shown:?}");
        }
    }

    #[test]
    fn markup_and_plain_text_stay_as_they_are() {
        for text in ["[red]x[-]", "{ofUfac]>t[898dfs", "漢字", "👩‍❤️‍👨"] {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn a_needle_is_found_in_any_case_and_its_places_are_those_of_the_text() {
        let places = |needle: &str, text: &str| {
            let found = Needle::new(needle).places(text);
            found.into_iter().map(|place| text.get(place).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(places("ok", "OK, ok: oK"), ["OK", "ok", "oK"]);
        assert_eq!(places("ß", "Straße"), ["ß"]);
        assert_eq!(places("i", "İi 漢"), ["İ", "i"]);
        assert_eq!(places("字x", "漢字X漢"), ["字X"]);
        assert_eq!(places("", "x"), [""; 0]);
        let is_in = |needle: &str, line: &[u8]| Needle::new(needle).is_in(line);
        assert!(
            is_in("red", b"\x1b[31mr\x1b[0med")
                && is_in("WORLD", b"\xff world")
                && is_in("ü", b"\xff \xc3\x9c")
        );
        assert!(!is_in("31m", b"\x1b[31mred") && !is_in("x", b"") && !is_in("", b"x"));
    }

    #[test]
    fn spans_are_short() {
        let spans: Vec<_> = [-5, 0, 59, 60, 3_599, 3_600, 86_400].into_iter().map(short_span).collect();
        assert_eq!(spans, ["0s", "0s", "59s", "1m", "59m", "1h", "1d"]);
        let durations: Vec<_> = [812, 38_000, 102_000, 7_500_000].into_iter().map(duration).collect();
        assert_eq!(durations, ["0.8s", "38s", "1m 42s", "2h 05m"]);
    }

    #[test]
    fn tabs_carriage_returns_and_colours() {
        assert_eq!(plain("a\tb"), "a       b");
        assert_eq!(plain_log("10%\r20%\rdone\r\n"), "done");
        assert_eq!(
            (plain_log("10%\r20%\r"), plain_log("\r\r"), plain_log("")),
            ("20%".into(), String::new(), String::new())
        );
        assert_eq!(plain("admin_key\rnote\r\n"), "admin_key\u{240d}note");
        assert_eq!(plain("\u{1b}[0;31mred\u{1b}[0m"), "red");
    }
}
