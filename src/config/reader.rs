//! A cursor over the merged tree: it takes keys one by one, collects every mistake, remembers which keys it was asked for
//! (whatever is left is unknown), and notes each setting as it counts in the end, with its origin and without secrets.
//!
//! A value that is wrong reads as absent. What was read must not be used once there are mistakes.

use std::collections::BTreeMap;
use std::path::Path;

use super::place::{Mistake, MistakeKind, Place, nearest};
use super::tree::{Entry, Node, Table, Value};
use super::values::Wrong;

/// What reading needs of the outside, given by the loader.
pub(super) struct World<'a> {
    /// The operator's home folder, for `~/`.
    pub(super) home: Option<&'a Path>,
    /// The working folder, which relative paths in variables start from.
    pub(super) working: Option<&'a Path>,
    /// Reads a file that holds a secret, trimmed.
    pub(super) read_secret: &'a dyn Fn(&Path) -> Result<String, String>,
}

/// A setting as it counts, for `config show`; secrets are masked already.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) table: Vec<String>,
    pub(super) key: String,
    pub(super) value: toml::Value,
    /// None: the default.
    pub(super) place: Option<Place>,
}

/// What came of reading.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) mistakes: Vec<Mistake>,
    pub(super) shown: Vec<Shown>,
    /// The path of every key that was asked for.
    pub(super) known: Vec<Vec<String>>,
    pub(super) warnings: Vec<String>,
    /// Secrets in plain: where, and which setting.
    pub(super) plain: Vec<(Place, String)>,
}

/// The cursor over one table.
pub(super) struct Reader<'a> {
    pub(super) path: Vec<String>,
    /// What is left of the table: what nobody asked for yet.
    pub(super) table: Table,
    /// Where the table was opened, or the nearest one around it.
    place: Option<Place>,
    /// A table that is not there is read as well, so that its keys are known; but it makes no mistakes.
    present: bool,
    asked: Vec<String>,
    pub(super) world: &'a World<'a>,
    findings: &'a mut Findings,
}

impl<'a> Reader<'a> {
    /// Reads a whole tree; `place` is that of the one file that it is all of.
    pub(super) fn root<T>(
        tree: Table,
        place: Option<Place>,
        world: &'a World<'a>,
        findings: &'a mut Findings,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let path = Vec::new();
        let mut reader =
            Reader { path, table: tree, place, present: true, asked: Vec::new(), world, findings };
        let value = read(&mut reader);
        reader.finish();
        value
    }

    /// The table's own name: the last part of its path.
    pub(super) fn name(&self) -> String {
        self.path.last().cloned().unwrap_or_default()
    }

    /// How many mistakes there are so far.
    pub(super) fn mistakes(&self) -> usize {
        self.findings.mistakes.len()
    }

    /// A table; absent, it reads as an empty one.
    pub(super) fn section<T>(&mut self, key: &str, read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let present = self.present;
        self.open(key, present, read).1
    }

    /// A table that may be absent.
    pub(super) fn optional_section<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Option<T> {
        let (there, value) = self.open(key, false, read);
        there.then_some(value)
    }

    /// Every table in this one, by the name that the operator gave it; `legal` says what is wrong with a name.
    pub(super) fn each<T>(
        &mut self,
        legal: impl Fn(&str) -> Option<Wrong>,
        mut read: impl FnMut(&mut Reader<'_>) -> T,
    ) -> BTreeMap<String, T> {
        let mut out = BTreeMap::new();
        for name in self.table.keys().cloned().collect::<Vec<_>>() {
            if let (Some(wrong), Some(entry)) = (legal(&name), self.table.get(&name)) {
                let text = format!("{} {}", self.dotted(&name), wrong.text);
                let mistake = Mistake::new(&entry.key, MistakeKind::Value, text).advise(wrong.advice);
                self.mistake(mistake);
            }
            let (there, value) = self.open(&name, false, &mut read);
            if there {
                out.insert(name, value);
            }
        }
        out
    }

    /// Reports a mistake at this table.
    pub(super) fn complain(&mut self, kind: MistakeKind, text: &str, advice: &str) {
        if !self.present {
            return;
        }
        let text = format!("{} {text}", self.path.join("."));
        let mistake = match &self.place {
            Some(place) => Mistake::new(place, kind, text),
            None => Mistake::nowhere(kind, text),
        };
        self.mistake(mistake.advise(advice));
    }

    /// Warns of something at a place.
    pub(super) fn warn_at(&mut self, place: &Place, text: &str) {
        self.findings.warnings.push(format!("{place}: {text}"));
    }

    /// Whether a key of this table was written, as far as it was asked for.
    pub(super) fn was_given(&self, key: &str) -> bool {
        let of = |shown: &Shown| match shown.table.as_slice() {
            [] => shown.key == key,
            [table, ..] => table == key,
        };
        self.findings.shown.iter().any(|shown| shown.place.is_some() && of(shown))
    }

    /// Warns of something about a setting.
    pub(super) fn warn(&mut self, key: &str, text: &str) {
        if self.present {
            let warning = format!("{} {text}", self.dotted(key));
            self.findings.warnings.push(warning);
        }
    }

    fn open<T>(
        &mut self,
        key: &str,
        present_if_absent: bool,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> (bool, T) {
        self.asked.push(key.to_owned());
        let (there, present, table, place) = match self.table.remove(key) {
            None => (false, present_if_absent, Table::new(), self.place.clone()),
            Some(Entry { key: place, node: Node { value: Value::Table(table), .. } }) => {
                (true, self.present, table, Some(place))
            }
            Some(Entry { node, .. }) => {
                self.wrong(key, &node, Wrong::kind("a table", &node));
                (false, false, Table::new(), None)
            }
        };
        let mut path = self.path.clone();
        path.push(key.to_owned());
        let (world, findings) = (self.world, &mut *self.findings);
        let mut reader = Reader { path, table, place, present, asked: Vec::new(), world, findings };
        let value = read(&mut reader);
        reader.finish();
        (there, value)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Entry> {
        self.asked.push(key.to_owned());
        let mut path = self.path.clone();
        path.push(key.to_owned());
        self.findings.known.push(path);
        self.table.remove(key)
    }

    pub(super) fn dotted(&self, key: &str) -> String {
        self.path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".")
    }

    pub(super) fn show(&mut self, key: &str, value: toml::Value, place: Option<Place>) {
        self.show_in(self.path.clone(), key, value, place);
    }

    pub(super) fn show_in(
        &mut self,
        table: Vec<String>,
        key: &str,
        value: toml::Value,
        place: Option<Place>,
    ) {
        if self.present {
            self.findings.shown.push(Shown { table, key: key.to_owned(), value, place });
        }
    }

    pub(super) fn plain_secret(&mut self, key: &str, node: &Node) {
        let what = self.dotted(key);
        self.findings.plain.push((node.place.clone(), what));
    }

    pub(super) fn missing(&mut self, key: &str, what: &str) {
        if !self.present {
            return;
        }
        let text = format!("{} is missing: {what}", self.dotted(key));
        let mistake = match &self.place {
            Some(place) => Mistake::new(place, MistakeKind::Missing, text),
            None => Mistake::nowhere(MistakeKind::Missing, text),
        };
        self.mistake(mistake);
    }

    pub(super) fn wrong(&mut self, key: &str, node: &Node, wrong: Wrong) {
        let quoted = match &node.value {
            Value::Table(_) | Value::List(_) => String::new(),
            // What looks like a URL with a user is not quoted, whatever key it stands under.
            Value::Text(text) if text.contains("://") && text.contains('@') => String::new(),
            Value::Text(text) if text.trim().is_empty() => String::new(),
            Value::Text(text) => format!(" = {:?}", shortened(text)),
            value => format!(" = {}", value.to_toml()),
        };
        let text = format!("{}{quoted} {}", self.dotted(key), wrong.text);
        self.mistake(Mistake::new(&node.place, MistakeKind::Value, text).advise(wrong.advice));
    }

    /// The same without the value.
    pub(super) fn wrong_secret(&mut self, key: &str, node: &Node, wrong: Wrong) {
        let text = format!("{} {}", self.dotted(key), wrong.text);
        self.mistake(Mistake::new(&node.place, MistakeKind::Value, text).advise(wrong.advice));
    }

    pub(super) fn mistake(&mut self, mistake: Mistake) {
        self.findings.mistakes.push(mistake);
    }

    /// What nobody asked for is unknown.
    fn finish(mut self) {
        for (key, entry) in std::mem::take(&mut self.table) {
            let advice = self.advice(&key, &entry.key);
            self.say_unknown(&key, &entry, advice);
        }
    }

    /// Takes a key that there cannot be.
    pub(super) fn unknown(&mut self, key: &str, advice: &str) {
        if let Some(entry) = self.table.remove(key) {
            self.say_unknown(key, &entry, advice.to_owned());
        }
    }

    fn say_unknown(&mut self, key: &str, entry: &Entry, advice: String) {
        let what = if matches!(entry.node.value, Value::Table(_)) { "table" } else { "key" };
        let place = if self.path.is_empty() {
            "at the top".to_owned()
        } else {
            format!("in [{}]", self.path.join("."))
        };
        let text = format!("unknown {what} {key:?} {place}");
        self.mistake(Mistake::new(&entry.key, MistakeKind::UnknownKey, text).advise(advice));
    }

    fn advice(&self, key: &str, place: &Place) -> String {
        let near = nearest(key, self.asked.iter().map(String::as_str)).map(str::to_owned);
        // A right key in the wrong table: say where it belongs, seen from here.
        let elsewhere = || {
            let tails = self.findings.known.iter().filter_map(|path| path.strip_prefix(self.path.as_slice()));
            tails.filter(|tail| tail.last().is_some_and(|last| last == key)).map(|tail| tail.join(".")).next()
        };
        match near.or_else(elsewhere) {
            Some(near) if place.is_variable() => {
                let mut path = self.path.clone();
                path.extend(near.split('.').map(str::to_owned));
                let rest = place.layer.name.split("__").skip(self.path.len() + 1).map(str::to_owned);
                path.extend(rest);
                format!("did you mean {}?", variable_name(&path))
            }
            Some(near) => format!("did you mean {near:?}?"),
            None => {
                let mut keys: Vec<&str> = self.asked.iter().map(String::as_str).collect();
                keys.sort_unstable();
                keys.dedup();
                if keys.is_empty() { String::new() } else { format!("it may have {}", keys.join(", ")) }
            }
        }
    }
}

/// The variable that means this path.
pub(super) fn variable_name(path: &[String]) -> String {
    format!("HOSTWRIGHT_{}", path.join("__").to_uppercase().replace('-', "_"))
}

fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST - 1).chain(['…']).collect()
}
