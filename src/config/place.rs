//! Where a setting was written, and what is wrong with it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::domain::text::plain;

/// One source of settings; a higher rank is laid over a lower one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// 0 is the embedded default.
    pub(super) rank: usize,
    /// How messages name it: a file as the operator wrote it, `HOSTWRIGHT_X`, `--flag`.
    pub(super) name: String,
    /// What it is.
    pub(super) kind: LayerKind,
}

/// What a layer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LayerKind {
    /// The default, embedded at build time or built into the reader.
    BuiltIn,
    /// A file.
    File {
        /// The folder that relative paths in it start from.
        base: PathBuf,
        /// Others than its owner can read it.
        exposed: bool,
    },
    /// A `HOSTWRIGHT_…` variable.
    Variable,
    /// Something on the command line.
    Flag,
}

/// Where something was written: a layer and, in a file, line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub(super) layer: Arc<Layer>,
    pub(super) position: Option<Position>,
}

/// A line and a column, both from 1; a column is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Layer {
    pub(super) fn new(rank: usize, name: impl Into<String>, kind: LayerKind) -> Arc<Self> {
        Arc::new(Self { rank, name: name.into(), kind })
    }
}

impl Place {
    /// A place in a layer that has no lines.
    pub(super) fn whole(layer: &Arc<Layer>) -> Self {
        Self { layer: Arc::clone(layer), position: None }
    }

    /// A place in a text, by its offset in bytes.
    pub(super) fn at(layer: &Arc<Layer>, text: &str, offset: usize) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = text.get(..offset).unwrap_or_default();
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { layer: Arc::clone(layer), position: Some(Position { line, column }) }
    }

    pub(super) fn is_variable(&self) -> bool {
        self.layer.kind == LayerKind::Variable
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.layer.name))?;
        match self.position {
            Some(Position { line, column }) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MistakeKind {
    /// A file cannot be read.
    Unreadable,
    /// It is not TOML.
    Syntax,
    /// It is not TOML where a table begins: to which table the lines behind it belong cannot be said.
    Header,
    /// There is no such setting.
    UnknownKey,
    /// The value is of the wrong type, or not one that the setting takes.
    Value,
    /// Something necessary is not there.
    Missing,
    /// Two settings contradict each other.
    Conflict,
    /// An environment is needed and there is none.
    NoEnvironment,
    /// An environment is needed, there are several, and none was chosen.
    WhichEnvironment,
    /// The chosen environment does not exist.
    UnknownEnvironment,
}

/// One mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where; none when nothing was written at all.
    pub place: Option<Place>,
    /// What kind.
    pub kind: MistakeKind,
    /// What is wrong. Never holds a secret.
    pub text: String,
    /// The nearest right one, or what to do; may be empty.
    pub advice: String,
}

impl Mistake {
    pub(super) fn new(place: &Place, kind: MistakeKind, text: impl Into<String>) -> Self {
        Self { place: Some(place.clone()), kind, text: text.into(), advice: String::new() }
    }

    pub(super) fn nowhere(kind: MistakeKind, text: impl Into<String>) -> Self {
        Self { place: None, kind, text: text.into(), advice: String::new() }
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    fn line(&self) -> Option<(usize, usize)> {
        let place = self.place.as_ref()?;
        Some((place.layer.rank, place.position?.line))
    }

    fn is_syntax(&self) -> bool {
        matches!(self.kind, MistakeKind::Syntax | MistakeKind::Header)
    }

    /// By layer, then by name (all variables are one layer), then by line.
    fn order(&self) -> Option<(usize, String, Option<Position>)> {
        self.place.as_ref().map(|place| (place.layer.rank, place.layer.name.clone(), place.position))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&plain(&self.text))?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, "; {}", plain(&self.advice)) }
    }
}

/// All mistakes of a configuration, in the order of the layers and their lines: one a line. The caller exits with 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Sorts them, and drops those that only follow from a syntax error: on its line, behind it if it is where a table begins,
    /// or something missing.
    pub(super) fn new(mut all: Vec<Mistake>) -> Self {
        all.sort_by_cached_key(Mistake::order);
        let broken: BTreeSet<_> = all.iter().filter(|m| m.is_syntax()).filter_map(Mistake::line).collect();
        let headers: Vec<_> =
            all.iter().filter(|m| m.kind == MistakeKind::Header).filter_map(Mistake::line).collect();
        if !broken.is_empty() {
            let mut seen = BTreeSet::new();
            all.retain(|m| match (m.kind, m.line()) {
                (MistakeKind::Missing, _) => false,
                (_, None) => true,
                // A stray character makes several errors on one line; the first tells.
                (_, Some(line)) if m.is_syntax() => seen.insert(line),
                (_, Some(line)) => {
                    let behind = |(rank, at): &(usize, usize)| *rank == line.0 && *at < line.1;
                    !broken.contains(&line) && !headers.iter().any(behind)
                }
            });
        }
        Self(all)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }

    /// True when the only trouble is that no environment is configured: the console explains itself then.
    #[must_use]
    pub fn no_environment(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|m| m.kind == MistakeKind::NoEnvironment)
    }
}

impl From<Mistake> for Mistakes {
    fn from(mistake: Mistake) -> Self {
        Self(vec![mistake])
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// The candidate that a word was most likely meant to be, if any is near.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |text: &str| text.to_lowercase().replace('-', "_");
    let word = fold(word);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| {
            let longest = word.chars().count().max(candidate.chars().count());
            *distance <= (longest / 3).max(1) && *distance < longest
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `"a", "b" or "c"`.
pub(super) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>, join: &str) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("{word:?}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {join} {last}", rest.join(", ")),
        _ => words.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let layer = Layer::new(1, "x.toml", LayerKind::BuiltIn);
        let text = "a = 1\nä = \"é\" # here\n";
        let place = |offset| Place::at(&layer, text, offset).to_string();
        assert_eq!(place(0), "x.toml:1:1");
        assert_eq!(place(text.find('#').unwrap()), "x.toml:2:9");
        assert_eq!(place(7), "x.toml:2:1", "an offset inside a character is the character's");
        assert_eq!(place(999), "x.toml:3:1");
    }

    #[test]
    fn the_nearest_is_near() {
        let keys = ["namespace", "context", "kubeconfig", "ca", "url"];
        assert_eq!(nearest("namespce", keys), Some("namespace"));
        assert_eq!(nearest("Kube-Config", keys), Some("kubeconfig"));
        assert_eq!(nearest("os", keys), None);
        assert_eq!(nearest("password", keys), None);
        assert_eq!(nearest("", keys), None);
    }

    #[test]
    fn what_follows_from_a_syntax_error_is_left_out() {
        let layer = Layer::new(1, "x", LayerKind::BuiltIn);
        let at = |line, column, kind| {
            let place = Place { layer: Arc::clone(&layer), position: Some(Position { line, column }) };
            Mistake::new(&place, kind, format!("{kind:?}"))
        };
        let all = Mistakes::new(vec![
            at(9, 1, MistakeKind::UnknownKey),
            at(3, 9, MistakeKind::Syntax),
            at(3, 1, MistakeKind::Value),
            at(3, 5, MistakeKind::Syntax),
            at(1, 1, MistakeKind::Missing),
            at(10, 1, MistakeKind::Header),
            at(11, 1, MistakeKind::UnknownKey),
        ]);
        assert_eq!(all.to_string(), "x:3:5: Syntax\nx:9:1: UnknownKey\nx:10:1: Header");
    }
}
