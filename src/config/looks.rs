//! How the console looks and what its keys mean: the theme and the key map that the settings name.
//!
//! The loader calls [`read`] with the other settings, so that their mistakes are told together, each with its place.

use std::io;
use std::path::PathBuf;

use super::keys::{Keymap, KeymapError};
use super::place::{Layer, LayerKind, Mistake, MistakeKind, Place, Position, nearest};
use super::reader::Shown;
use super::settings::ConsoleSettings;
use super::theme::{AUTO, BUILT_IN, Theme};

/// The theme, or the two that the terminal's background decides between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Themes {
    /// The one that was named.
    One(Box<Theme>),
    /// `auto`.
    Auto {
        /// For a dark background, and as long as nothing is known.
        dark: Box<Theme>,
        /// For a light one.
        light: Box<Theme>,
    },
}

impl Default for Themes {
    fn default() -> Self {
        Self::Auto { dark: Box::default(), light: Box::new(Theme::built_in("light").unwrap_or_default()) }
    }
}

impl Themes {
    /// The theme for a terminal whose background is light, dark, or not known (yet).
    #[must_use]
    pub fn pick(&self, light_background: Option<bool>) -> &Theme {
        match self {
            Self::One(theme) => theme,
            Self::Auto { light, .. } if light_background == Some(true) => light,
            Self::Auto { dark, .. } => dark,
        }
    }

    /// The terminal is to be asked for its background.
    #[must_use]
    pub fn depend_on_background(&self) -> bool {
        matches!(self, Self::Auto { .. })
    }
}

/// The theme and the key map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looks {
    /// The theme or themes.
    pub themes: Themes,
    /// What keys mean.
    pub keymap: Keymap,
}

/// A theme file as the loader read it: its path, and its text if it is there.
pub(super) type ThemeFile = (Option<PathBuf>, io::Result<Option<String>>);

/// Reads theme and key map. `shown` knows where each setting was written; `rank` is that of the layer of the theme's file.
pub(super) fn read(
    console: &ConsoleSettings,
    shown: &[Shown],
    rank: usize,
    theme_file: impl FnOnce(&str) -> ThemeFile,
) -> (Looks, Vec<Mistake>) {
    let mut mistakes = Vec::new();
    let place = |table: &[&str], key: Option<&str>| {
        let here = |s: &&Shown| s.table == table && key.is_none_or(|key| s.key == key);
        shown.iter().find(here).and_then(|s| s.place.clone())
    };
    let themes = match themes(&console.theme, rank, theme_file) {
        Ok(themes) => themes,
        Err(Wrong::Name(text, advice)) => {
            let text = format!("console.theme = {:?} {text}", console.theme);
            mistakes.push(mistake(place(&["console"], Some("theme")), text).advise(advice));
            Themes::default()
        }
        Err(Wrong::File(found)) => {
            mistakes.extend(found);
            Themes::default()
        }
    };
    let keymap = Keymap::new(&console.keys).unwrap_or_else(|errors| {
        for KeymapError { path, text } in errors {
            let mut parts = path.iter().map(String::as_str);
            let (scope, action) = (parts.next().unwrap_or_default(), parts.next());
            let place = place(&["console", "keys", scope], action);
            mistakes.push(mistake(place, format!("console.keys.{}: {text}", path.join("."))));
        }
        Keymap::default()
    });
    (Looks { themes, keymap }, mistakes)
}

/// What is wrong with a theme: its name, or what is in its file.
enum Wrong {
    Name(String, String),
    File(Vec<Mistake>),
}

fn themes(name: &str, rank: usize, theme_file: impl FnOnce(&str) -> ThemeFile) -> Result<Themes, Wrong> {
    // An empty name is a mistake that was told already.
    if name == AUTO || name.is_empty() {
        return Ok(Themes::default());
    }
    // A file of one's own is laid over a built-in theme of the same name.
    let (path, text) = theme_file(name);
    let shown = path.map_or_else(|| format!("themes/{name}.toml"), |path| path.display().to_string());
    match text {
        Ok(Some(text)) => {
            let layer = Layer::new(rank, &shown, LayerKind::Flag);
            let at = |line, column| Place { layer: layer.clone(), position: Some(Position { line, column }) };
            let theme = Theme::parse(name, &text).map_err(|errors| {
                let mistakes = errors.into_iter();
                Wrong::File(mistakes.map(|e| mistake(Some(at(e.line, e.column)), e.text)).collect())
            })?;
            Ok(Themes::One(Box::new(theme)))
        }
        Ok(None) => match Theme::built_in(name) {
            Some(theme) => Ok(Themes::One(Box::new(theme))),
            None => {
                let known = || BUILT_IN.iter().map(|(known, _)| *known).chain([AUTO]);
                let near = nearest(name, known()).map(|near| format!("did you mean {near:?}?"));
                let all = || format!("one of {}, or a file {shown}", known().collect::<Vec<_>>().join(", "));
                Err(Wrong::Name("is no theme".to_owned(), near.unwrap_or_else(all)))
            }
        },
        Err(error) => {
            Err(Wrong::Name(format!("names {shown}, which cannot be read: {error}"), String::new()))
        }
    }
}

fn mistake(place: Option<Place>, text: String) -> Mistake {
    match place {
        Some(place) => Mistake::new(&place, MistakeKind::Value, text),
        None => Mistake::nowhere(MistakeKind::Value, text),
    }
}
