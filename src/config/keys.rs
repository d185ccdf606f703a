//! Keys as data: what a key is called, and which action it means where.
//!
//! `console` translates the terminal's events into [`Key`]s; `app` asks the [`Keymap`] what they mean.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use super::actions::{ACTIONS, Action, Scope};
use super::place;

/// A key without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// A character; an upper-case letter is its own character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Insert.
    Insert,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// A function key.
    F(u8),
}

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Which.
    pub code: Code,
    /// With Control.
    pub ctrl: bool,
    /// With Alt (or Escape before it).
    pub alt: bool,
    /// With Shift; never set for characters, which are upper-case then.
    pub shift: bool,
}

impl Key {
    /// The key without modifiers.
    #[must_use]
    pub const fn plain(code: Code) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    /// The key as it is compared: a shifted character is the upper-case one, one with Control the lower-case one.
    #[must_use]
    pub fn new(code: Code, ctrl: bool, alt: bool, shift: bool) -> Self {
        match code {
            Code::Char(c) if ctrl => {
                Self { code: Code::Char(c.to_ascii_lowercase()), ctrl, alt, shift: false }
            }
            Code::Char(c) if shift && c.is_lowercase() => {
                let mut upper = c.to_uppercase();
                let c = upper.next().filter(|_| upper.next().is_none()).unwrap_or(c);
                Self { code: Code::Char(c), ctrl, alt, shift: false }
            }
            Code::Char(_) => Self { code, ctrl, alt, shift: false },
            _ => Self { code, ctrl, alt, shift },
        }
    }

    /// The character that the key types into a text, if it does.
    #[must_use]
    pub fn text(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }
}

const NAMED: [(&str, Code); 20] = [
    ("space", Code::Char(' ')),
    ("enter", Code::Enter),
    ("return", Code::Enter),
    ("esc", Code::Esc),
    ("escape", Code::Esc),
    ("tab", Code::Tab),
    ("backspace", Code::Backspace),
    ("delete", Code::Delete),
    ("del", Code::Delete),
    ("insert", Code::Insert),
    ("up", Code::Up),
    ("down", Code::Down),
    ("left", Code::Left),
    ("right", Code::Right),
    ("home", Code::Home),
    ("end", Code::End),
    ("pageup", Code::PageUp),
    ("pgup", Code::PageUp),
    ("pagedown", Code::PageDown),
    ("pgdn", Code::PageDown),
];

/// A text that names no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no key: write a character, a name such as enter, space or f5, with ctrl-, alt- or shift- before it"
)]
pub struct KeyNameError(pub String);

impl FromStr for Key {
    type Err = KeyNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || KeyNameError(text.to_owned());
        let (mut ctrl, mut alt, mut shift) = (false, false, false);
        let mut rest = text;
        loop {
            let (flag, tail) = match rest.split_once('-') {
                Some(("ctrl" | "c" | "C", tail)) if !tail.is_empty() => (&mut ctrl, tail),
                Some(("alt" | "a" | "A", tail)) if !tail.is_empty() => (&mut alt, tail),
                Some(("shift" | "s" | "S", tail)) if !tail.is_empty() => (&mut shift, tail),
                _ => break,
            };
            if std::mem::replace(flag, true) {
                return Err(error());
            }
            rest = tail;
        }
        let mut characters = rest.chars();
        let code = match (characters.next(), characters.next()) {
            (Some(c), None) if !c.is_control() && c != ' ' => Code::Char(c),
            _ => named(rest).ok_or_else(error)?,
        };
        Ok(Self::new(code, ctrl, alt, shift))
    }
}

fn named(name: &str) -> Option<Code> {
    let name = name.to_ascii_lowercase();
    if let Some(code) = NAMED.iter().find(|(known, _)| *known == name).map(|(_, code)| *code) {
        return Some(code);
    }
    let number: u8 = name.strip_prefix('f')?.parse().ok()?;
    (1..=24).contains(&number).then_some(Code::F(number))
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (set, name) in [(self.ctrl, "ctrl-"), (self.alt, "alt-"), (self.shift, "shift-")] {
            if set {
                f.write_str(name)?;
            }
        }
        match self.code {
            Code::Char(' ') => f.write_str("space"),
            Code::Char(c) => write!(f, "{c}"),
            Code::F(number) => write!(f, "f{number}"),
            code => f.write_str(NAMED.iter().find(|(_, c)| *c == code).map_or("?", |(name, _)| name)),
        }
    }
}

/// One to three keys, pressed one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chord(Vec<Key>);

impl Chord {
    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.0
    }
}

impl FromStr for Chord {
    type Err = KeyNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let keys = text.split_whitespace().map(str::parse).collect::<Result<Vec<Key>, _>>()?;
        if keys.is_empty() || keys.len() > 3 { Err(KeyNameError(text.to_owned())) } else { Ok(Self(keys)) }
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, key) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            fmt::Display::fmt(key, f)?;
        }
        Ok(())
    }
}

/// A mistake in `[console.keys]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {text}", path.join("."))]
pub struct KeymapError {
    /// Where it stands below `console.keys`: scope, and action.
    pub path: Vec<String>,
    /// What is wrong, with the nearest right name.
    pub text: String,
}

/// What keys mean so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// This action.
    Action(Action),
    /// The start of a chord.
    Prefix,
    /// Nothing.
    Nothing,
}

/// Which keys mean which action where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keymap {
    bindings: HashMap<Scope, BTreeMap<Chord, Action>>,
}

/// Keys laid over the default ones: scope to action to keys.
type Overrides = BTreeMap<String, BTreeMap<String, Vec<String>>>;

impl Default for Keymap {
    fn default() -> Self {
        Self::build(&BTreeMap::new(), &mut Vec::new())
    }
}

impl Keymap {
    /// The table's keys with the operator's laid over them: an action named there has those keys and no others.
    ///
    /// # Errors
    /// All mistakes: unknown scopes and actions with the nearest name, unreadable keys, keys that mean two actions, and keys
    /// that are also the start of a chord.
    pub fn new(overrides: &Overrides) -> Result<Self, Vec<KeymapError>> {
        let mut errors = Vec::new();
        let chosen = read_overrides(overrides, &mut errors);
        let map = Self::build(&chosen, &mut errors);
        if errors.is_empty() { Ok(map) } else { Err(errors) }
    }

    fn build(chosen: &BTreeMap<(Scope, Action), Vec<Chord>>, errors: &mut Vec<KeymapError>) -> Self {
        let mut bindings = HashMap::new();
        for scope in Scope::ALL {
            let mut map: BTreeMap<Chord, Action> = BTreeMap::new();
            for row in ACTIONS.iter().filter(|row| row.action.in_scope(scope)) {
                for chord in chords(chosen, scope, row.action) {
                    if let Some(other) = clash(&map, &chord, row.action) {
                        errors.push(conflict(chosen, scope, row.action, other, &chord));
                    } else {
                        map.insert(chord, row.action);
                    }
                }
            }
            bindings.insert(scope, map);
        }
        errors.dedup();
        Self { bindings }
    }

    /// What these keys mean in this scope.
    #[must_use]
    pub fn find(&self, scope: Scope, keys: &[Key]) -> Found {
        let Some(map) = self.bindings.get(&scope) else { return Found::Nothing };
        for (chord, action) in map {
            if let Some(rest) = chord.0.strip_prefix(keys) {
                return if rest.is_empty() { Found::Action(*action) } else { Found::Prefix };
            }
        }
        Found::Nothing
    }

    /// The keys of an action in a scope, the first of the table first.
    #[must_use]
    pub fn keys(&self, scope: Scope, action: Action) -> Vec<&Chord> {
        let map = self.bindings.get(&scope);
        let mut keys: Vec<&Chord> =
            map.into_iter().flatten().filter(|(_, a)| **a == action).map(|(chord, _)| chord).collect();
        let place = |chord: &Chord| {
            let text = chord.to_string();
            action.info().keys.iter().position(|k| *k == text).unwrap_or(usize::MAX)
        };
        keys.sort_by_key(|chord| place(chord));
        keys
    }

    /// The first key of an action in a scope, as it is written; empty when it has none.
    #[must_use]
    pub fn key_text(&self, scope: Scope, action: Action) -> String {
        self.keys(scope, action).first().map(ToString::to_string).unwrap_or_default()
    }
}

fn read_overrides(
    overrides: &Overrides,
    errors: &mut Vec<KeymapError>,
) -> BTreeMap<(Scope, Action), Vec<Chord>> {
    let mut chosen = BTreeMap::new();
    for (scope_name, actions) in overrides {
        let Some(scope) = Scope::parse(scope_name) else {
            let known = Scope::ALL.iter().map(|s| s.as_str());
            let text = format!("there is no such screen{}", nearest(scope_name, known));
            errors.push(KeymapError { path: vec![scope_name.clone()], text });
            continue;
        };
        for (name, keys) in actions {
            let path = vec![scope_name.clone(), name.clone()];
            let action = Action::parse(name).filter(|a| scope == Scope::Global || a.in_scope(scope));
            let Some(action) = action else {
                let known = ACTIONS.iter().filter(|r| scope == Scope::Global || r.action.in_scope(scope));
                let text = format!("there is no such action here{}", nearest(name, known.map(|r| r.name)));
                errors.push(KeymapError { path, text });
                continue;
            };
            let mut list = Vec::new();
            for key in keys {
                match key.parse::<Chord>() {
                    Ok(chord) => list.push(chord),
                    Err(error) => errors.push(KeymapError { path: path.clone(), text: error.to_string() }),
                }
            }
            chosen.insert((scope, action), list);
        }
    }
    chosen
}

/// The keys of an action in a scope: the scope's own, else the global ones, else the table's.
fn chords(chosen: &BTreeMap<(Scope, Action), Vec<Chord>>, scope: Scope, action: Action) -> Vec<Chord> {
    if let Some(keys) = chosen.get(&(scope, action)).or_else(|| chosen.get(&(Scope::Global, action))) {
        return keys.clone();
    }
    action.info().keys.iter().filter_map(|key| key.parse().ok()).collect()
}

/// The chord that means another action and is the same, the start or a continuation of this one.
fn clash(map: &BTreeMap<Chord, Action>, chord: &Chord, action: Action) -> Option<(Chord, Action)> {
    map.iter()
        .find(|(other, meaning)| {
            **meaning != action && (other.0.starts_with(&chord.0) || chord.0.starts_with(&other.0))
                || other.0 != chord.0 && (other.0.starts_with(&chord.0) || chord.0.starts_with(&other.0))
        })
        .map(|(other, meaning)| (other.clone(), *meaning))
}

fn conflict(
    chosen: &BTreeMap<(Scope, Action), Vec<Chord>>,
    scope: Scope,
    action: Action,
    (other, meaning): (Chord, Action),
    chord: &Chord,
) -> KeymapError {
    // The place of a mistake is where the operator wrote something, whichever of the two came first.
    let written = |a: Action| {
        [scope, Scope::Global].into_iter().find(|s| chosen.contains_key(&(*s, a))).map(|s| (s, a))
    };
    let (at, named) = written(action).or_else(|| written(meaning)).unwrap_or((scope, action));
    let path = vec![at.as_str().to_owned(), named.info().name.to_owned()];
    let text = if other == *chord {
        format!("{chord} means both {action} and {meaning}")
    } else {
        format!(
            "{chord} ({action}) and {other} ({meaning}) start alike, so the longer one could not be pressed"
        )
    };
    KeymapError { path, text }
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    place::nearest(name, known).map(|near| format!(": did you mean {near}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(scope: &str, action: &str, keys: &[&str]) -> Overrides {
        let keys = keys.iter().map(|k| (*k).to_owned()).collect();
        BTreeMap::from([(scope.to_owned(), BTreeMap::from([(action.to_owned(), keys)]))])
    }

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    #[test]
    fn keys_are_written_as_they_are_read() {
        for text in
            ["a", "G", "-", "ctrl-c", "alt-x", "space", "f1", "f12", "shift-tab", "esc", "ctrl--", "?", "é"]
        {
            assert_eq!(key(text).to_string(), text);
        }
        assert_eq!(key("C-c"), key("ctrl-c"));
        assert_eq!(key("shift-g"), key("G"));
        assert_eq!(key("PageDown"), key("pgdn"));
        for wrong in ["", " ", "ab", "f0", "f25", "ctrl-", "ctrl-ctrl-a", "hyper-x"] {
            assert!(wrong.parse::<Key>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_table_has_no_conflicts() {
        assert_eq!(Keymap::new(&BTreeMap::new()).unwrap(), Keymap::default());
        for row in ACTIONS {
            for key in row.keys {
                assert!(key.parse::<Chord>().is_ok(), "{key}");
            }
        }
    }

    #[test]
    fn keys_are_replaced_per_screen_and_everywhere() {
        let map = Keymap::new(&overrides("hosts", "approve", &["A", "space a"])).unwrap_err();
        assert!(map[0].text.contains("start alike"), "{map:?}");
        let map = Keymap::new(&overrides("hosts", "approve", &["A", "z a"])).unwrap();
        assert_eq!(map.find(Scope::Hosts, &[key("A")]), Found::Action(Action::Approve));
        assert_eq!(map.find(Scope::Hosts, &[key("a")]), Found::Nothing);
        assert_eq!(map.find(Scope::Hosts, &[key("z")]), Found::Prefix);
        assert_eq!(map.find(Scope::Hosts, &[key("z"), key("a")]), Found::Action(Action::Approve));
        assert_eq!(map.find(Scope::Runs, &[key("a")]), Found::Action(Action::Approve));
        let map = Keymap::new(&overrides("global", "approve", &["A"])).unwrap();
        assert_eq!(map.find(Scope::Runs, &[key("A")]), Found::Action(Action::Approve));
    }

    #[test]
    fn mistakes_are_said_with_their_place() {
        let text =
            |o: Overrides| Keymap::new(&o).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            text(overrides("host", "approve", &["A"])),
            ["host: there is no such screen: did you mean hosts?"]
        );
        assert_eq!(
            text(overrides("hosts", "aprove", &["A"])),
            ["hosts.aprove: there is no such action here: did you mean approve?"]
        );
        assert_eq!(
            text(overrides("hosts", "approve", &["x"])),
            ["hosts.approve: x means both reject and approve"]
        );
        assert_eq!(text(overrides("hosts", "zoom", &["A"])).len(), 1);
        assert!(text(overrides("hosts", "approve", &["hyper-a"]))[0].contains("is no key"));
        assert!(text(overrides("hosts", "top", &["g g", "g"]))[0].contains("start alike"));
    }
}
