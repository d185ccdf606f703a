//! Reading theme files: every mistake with its place.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Colour, ColourDepth, Entry, Role, Theme, ThemeError};
use crate::config::place::nearest;

/// The 16 colours' names in theme files, in the terminal's order.
const ANSI: [&str; 16] = [
    "black",
    "red",
    "green",
    "yellow",
    "blue",
    "magenta",
    "cyan",
    "white",
    "bright-black",
    "bright-red",
    "bright-green",
    "bright-yellow",
    "bright-blue",
    "bright-magenta",
    "bright-cyan",
    "bright-white",
];

/// Reads a theme; all mistakes, in the order of the file.
pub(super) fn theme(name: &str, source: &str) -> Result<Theme, Vec<ThemeError>> {
    let mut reader = Reader { source, errors: Vec::new() };
    let theme = reader.theme(name);
    if reader.errors.is_empty() {
        return Ok(theme);
    }
    reader.errors.sort_by_key(|e| (e.line, e.column));
    Err(reader.errors)
}

struct Reader<'a> {
    source: &'a str,
    errors: Vec<ThemeError>,
}

impl Reader<'_> {
    fn error(&mut self, at: usize, text: impl fmt::Display) {
        let before = self.source.get(..at).unwrap_or(self.source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        self.errors.push(ThemeError { line, column, text: text.to_string() });
    }

    fn theme(&mut self, name: &str) -> Theme {
        let mut theme = Theme::bare(name);
        let (document, errors) = DeTable::parse_recoverable(self.source);
        for error in errors {
            self.error(error.span().map_or(0, |s| s.start), error.message());
        }
        let mut roles = None;
        let mut background = false;
        for (key, value) in document.get_ref() {
            let at = value.span().start;
            match key.get_ref().as_ref() {
                "dark" => match value.get_ref().as_bool() {
                    Some(dark) => theme.dark = dark,
                    None => self.error(at, "dark must be true or false"),
                },
                "background" => match value.get_ref().as_str().and_then(parse_rgb) {
                    Some(rgb) => (theme.background, background) = (rgb, true),
                    None => self.error(at, "background must be a colour such as \"#101418\""),
                },
                "colours" => match value.get_ref().as_integer().map(|number| number.as_str()) {
                    Some("16") => theme.most = ColourDepth::Ansi,
                    Some("256") => theme.most = ColourDepth::Indexed,
                    _ => self.error(at, "colours must be 16 or 256; without it a theme uses all"),
                },
                "roles" => roles = value.get_ref().as_table(),
                other => self.error(key.span().start, format_args!("unknown setting {other}")),
            }
        }
        if !background {
            self.error(0, "background is missing: contrast is checked against it");
        }
        match roles {
            Some(table) => self.roles(table, &mut theme),
            None => self.error(0, "the table [roles] is missing"),
        }
        theme
    }

    fn roles(&mut self, table: &DeTable<'_>, theme: &mut Theme) {
        let mut missing: Vec<Role> = Role::ALL.to_vec();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let Some(role) = Role::ALL.iter().copied().find(|r| r.as_str() == name) else {
                let near = nearest(name, Role::ALL.iter().map(|r| r.as_str()));
                let near = near.map(|near| format!(": did you mean {near}?")).unwrap_or_default();
                self.error(key.span().start, format_args!("unknown role {name}{near}"));
                continue;
            };
            missing.retain(|r| *r != role);
            if let (Some(entry), Some(slot)) = (self.entry(value), theme.entries.get_mut(role as usize)) {
                *slot = entry;
            }
        }
        for role in missing {
            self.error(0, format_args!("role {} is missing", role.as_str()));
        }
    }

    fn entry(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Entry> {
        let Some(table) = value.get_ref().as_table() else {
            self.error(
                value.span().start,
                "a role is a table such as { fg = \"#c0c8d0\", ansi = \"white\" }",
            );
            return None;
        };
        let mut entry = Entry::default();
        let (mut ansi, mut ansi_bg) = (None, None);
        for (key, value) in table {
            let at = value.span().start;
            let flag = match key.get_ref().as_ref() {
                "fg" => {
                    entry.fg = self.colour(value);
                    continue;
                }
                "bg" => {
                    entry.bg = self.colour(value);
                    continue;
                }
                "ansi" => {
                    ansi = self.ansi(value);
                    continue;
                }
                "ansi_bg" => {
                    ansi_bg = self.ansi(value);
                    continue;
                }
                "bold" => &mut entry.bold,
                "italic" => &mut entry.italic,
                "underline" => &mut entry.underline,
                "reverse" => &mut entry.reverse,
                other => {
                    self.error(key.span().start, format_args!("a role has no {other}"));
                    continue;
                }
            };
            match value.get_ref().as_bool() {
                Some(set) => *flag = set,
                None => self.error(at, "must be true or false"),
            }
        }
        for (colour, ansi, name) in [(&mut entry.fg, ansi, "ansi"), (&mut entry.bg, ansi_bg, "ansi_bg")] {
            match (colour, ansi) {
                (Some(colour), Some(ansi)) => colour.ansi = ansi,
                (Some(_), None) => {
                    self.error(
                        value.span().start,
                        format_args!("{name} is missing: the colour where there are only 16"),
                    );
                }
                (None, _) => {}
            }
        }
        Some(entry)
    }

    fn colour(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Colour> {
        let rgb = value.get_ref().as_str().and_then(parse_rgb);
        if rgb.is_none() {
            self.error(value.span().start, "a colour is written as \"#rrggbb\"");
        }
        rgb.map(|rgb| Colour { rgb, ansi: None })
    }

    fn ansi(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Option<u8>> {
        let name = value.get_ref().as_str().unwrap_or("");
        if name == "default" {
            return Some(None);
        }
        let found = (0u8..).zip(ANSI).find(|(_, known)| *known == name).map(|(n, _)| Some(n));
        if found.is_none() {
            self.error(value.span().start, format_args!("must be default or one of {}", ANSI.join(", ")));
        }
        found
    }
}

fn parse_rgb(text: &str) -> Option<(u8, u8, u8)> {
    let digits =
        text.strip_prefix('#').filter(|d| d.len() == 6 && d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    let [_, r, g, b] = number.to_be_bytes();
    Some((r, g, b))
}
