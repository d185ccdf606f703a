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

/// One line of a log, as [`plain`] makes it, in the last state that its carriage returns left it in: `10%\r20%` is `20%`.
#[must_use]
pub fn plain_log(text: &str) -> String {
    let text = text.trim_end_matches(['\n', '\r']);
    plain(text.rsplit('\r').next().unwrap_or(text))
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
        | 0x200b
        | 0x200e..=0x200f
        | 0x2028..=0x202e
        | 0x2060..=0x206f
        | 0xfeff => '\u{fffd}',
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
        assert_eq!(plain("admin_key\rnote\r\n"), "admin_key\u{240d}note");
        assert_eq!(plain("\u{1b}[0;31mred\u{1b}[0m"), "red");
    }
}
