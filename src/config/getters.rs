//! The kinds of settings that a [`Reader`] takes: texts, lists, paths, secrets, variables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::convert::{as_taken, built_in, is_empty, mask_variables, to_json};
use super::place::{LayerKind, Mistake, MistakeKind, Place};
use super::reader::Reader;
use super::settings::Secret;
use super::tree::{Entry, Node, Value};
use super::values::{self, Source, Wrong};

impl Reader<'_> {
    /// A setting that must be given; `what` says what it is when it is not.
    pub(super) fn required<T>(
        &mut self,
        key: &str,
        what: &str,
        parse: impl Fn(&Node) -> Result<T, Wrong>,
    ) -> Option<T> {
        match self.take(key) {
            Some(entry) => self.check(key, &entry.node, parse),
            None => {
                self.missing(key, what);
                None
            }
        }
    }

    /// A setting that `config.toml` gives.
    pub(super) fn given<T>(&mut self, key: &str, parse: impl Fn(&Node) -> Result<T, Wrong>) -> Option<T> {
        self.required(key, "config.toml has no default for it", parse)
    }

    /// A setting that has a default.
    pub(super) fn default<T>(
        &mut self,
        key: &str,
        default: impl Into<toml::Value>,
        parse: impl Fn(&Node) -> Result<T, Wrong>,
    ) -> Option<T> {
        let default = default.into();
        match self.take(key) {
            Some(entry) => self.check(key, &entry.node, parse),
            None => {
                let node = built_in(&default);
                self.show(key, default, None);
                parse(&node).ok()
            }
        }
    }

    /// A setting that may be absent. An empty text takes away what a lower layer gave.
    pub(super) fn optional<T>(&mut self, key: &str, parse: impl Fn(&Node) -> Result<T, Wrong>) -> Option<T> {
        let entry = self.take(key)?;
        if is_empty(&entry.node) {
            return None;
        }
        self.check(key, &entry.node, parse)
    }

    /// A list that has a default, or is given by `config.toml`.
    pub(super) fn list<T>(
        &mut self,
        key: &str,
        default: Option<&[&str]>,
        parse: impl Fn(&Node) -> Result<T, Wrong>,
    ) -> Vec<T> {
        let default = default.map(|items| {
            toml::Value::Array(items.iter().map(|item| toml::Value::String((*item).to_owned())).collect())
        });
        let node = match self.take(key) {
            Some(entry) => {
                self.show(key, entry.node.value.to_toml(), Some(entry.node.place.clone()));
                entry.node
            }
            None => {
                let default = default.unwrap_or_else(|| toml::Value::Array(Vec::new()));
                self.show(key, default.clone(), None);
                built_in(&default)
            }
        };
        let Value::List(items) = &node.value else {
            let wrong = Wrong::kind("a list", &node).advise("write one such as [\"a\", \"b\"]");
            self.wrong(key, &node, wrong);
            return Vec::new();
        };
        let mut out = Vec::new();
        for item in items {
            match parse(item) {
                Ok(value) => out.push(value),
                Err(wrong) => self.wrong(key, item, wrong),
            }
        }
        out
    }

    /// A path: `~/` is the home folder, a relative one starts from the folder of the file that names it.
    pub(super) fn path(&mut self, key: &str) -> Option<PathBuf> {
        let entry = self.take(key)?;
        if is_empty(&entry.node) {
            return None;
        }
        self.resolved(key, &entry.node).map(PathBuf::from)
    }

    /// A program: a name that is searched for, or a path.
    pub(super) fn program(&mut self, key: &str) -> Option<String> {
        let entry = self.take(key)?;
        match values::text(&entry.node) {
            Ok(text) if text.contains('/') => self.resolved(key, &entry.node),
            _ => self.check(key, &entry.node, values::text),
        }
    }

    /// A git URL or a path.
    pub(super) fn source(&mut self, key: &str, what: &str) -> Option<String> {
        let Some(entry) = self.take(key) else {
            self.missing(key, what);
            return None;
        };
        let read = values::text(&entry.node).and_then(|text| Ok((values::source(&text)?, text)));
        match read {
            Ok((Source::Path, _)) => self.resolved(key, &entry.node),
            Ok((Source::Url, text)) => {
                if let Some(masked) = values::mask_url(&text) {
                    self.plain_secret(key, &entry.node);
                    self.show(key, toml::Value::String(masked), Some(entry.node.place));
                } else {
                    self.show(key, toml::Value::String(text.clone()), Some(entry.node.place));
                }
                Some(text)
            }
            Err(wrong) => {
                self.wrong_secret(key, &entry.node, wrong);
                None
            }
        }
    }

    /// A secret: in plain under `key`, or in a file that `key_file` names. `check` may refuse what it holds; `shown` is
    /// what may be shown of it, none when there is nothing secret in it.
    pub(super) fn secret(
        &mut self,
        key: &str,
        check: impl Fn(&str) -> Result<(), Wrong>,
        shown: impl Fn(&str) -> Option<String>,
    ) -> Option<Secret> {
        let file_key = format!("{key}_file");
        let plain = self.take(key).filter(|entry| !is_empty(&entry.node));
        let file = self.take(&file_key).filter(|entry| !is_empty(&entry.node));
        match (plain, file) {
            (Some(_), Some(file)) => {
                let text = format!("{} and {file_key} are both given", self.dotted(key));
                self.mistake(Mistake::new(&file.key, MistakeKind::Conflict, text).advise("keep one"));
                None
            }
            (Some(entry), None) => {
                let text = match values::any_text(&entry.node) {
                    Ok(text) => text.to_owned(),
                    Err(wrong) => {
                        self.wrong_secret(key, &entry.node, wrong);
                        return None;
                    }
                };
                if let Err(wrong) = check(&text) {
                    self.wrong_secret(key, &entry.node, wrong);
                    return None;
                }
                let masked = shown(&text);
                if masked.is_some() {
                    self.plain_secret(key, &entry.node);
                }
                let visible = masked.unwrap_or_else(|| text.clone());
                self.show(key, toml::Value::String(visible), Some(entry.node.place));
                Some(Secret::new(text))
            }
            (None, Some(entry)) => self.secret_file(&file_key, &entry.node, check),
            (None, None) => None,
        }
    }

    fn secret_file(
        &mut self,
        key: &str,
        node: &Node,
        check: impl Fn(&str) -> Result<(), Wrong>,
    ) -> Option<Secret> {
        let path = self.resolved(key, node)?;
        // Only paths are quoted, never what the file holds.
        let read = (self.world.read_secret)(Path::new(&path));
        let read = read.map_err(|error| Wrong::new(format!("names {path}, which {error}")));
        let about =
            |wrong: Wrong| Wrong { text: format!("names {path}, whose content {}", wrong.text), ..wrong };
        match read.and_then(|text| check(&text).map(|()| text).map_err(about)) {
            Ok(text) => Some(Secret::new(text)),
            Err(wrong) => {
                self.wrong(key, node, wrong);
                None
            }
        }
    }

    /// Any table of values: Ansible's variables.
    pub(super) fn variables(&mut self, key: &str) -> BTreeMap<String, serde_json::Value> {
        let Some(entry) = self.take(key) else { return BTreeMap::new() };
        let Value::Table(table) = entry.node.value else {
            self.wrong(key, &entry.node, Wrong::kind("a table", &entry.node));
            return BTreeMap::new();
        };
        let mut out = BTreeMap::new();
        for (name, entry) in table {
            let path = format!("{key}.{name}");
            let legal = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !legal {
                let text = format!("{} is not a name that Ansible takes for a variable", self.dotted(&path));
                let mistake = Mistake::new(&entry.key, MistakeKind::Value, text);
                self.mistake(mistake.advise("letters, digits and \"_\", not starting with a digit"));
            }
            match to_json(&entry.node) {
                Ok(value) => out.insert(name.clone(), value),
                Err((node, wrong)) => {
                    self.wrong(&path, node, wrong);
                    None
                }
            };
            let value = mask_variables(&name, entry.node.value.to_toml());
            let mut table = self.path.clone();
            table.push(key.to_owned());
            self.show_in(table, &name, value, Some(entry.node.place));
        }
        out
    }

    /// Lists of texts under names that only others know: the operator's keys.
    pub(super) fn lists(&mut self) -> BTreeMap<String, Vec<String>> {
        let names: Vec<String> = self.table.keys().cloned().collect();
        names
            .into_iter()
            .map(|name| {
                let list = self.list(&name, None, values::text);
                (name, list)
            })
            .collect()
    }

    /// Either a word, or a table with more.
    pub(super) fn word_or_table<T: Copy, U>(
        &mut self,
        key: &str,
        default: &str,
        words: &[(&str, T)],
        read: impl FnOnce(&mut Reader<'_>) -> U,
    ) -> Result<Option<T>, U> {
        if matches!(self.table.get(key), Some(Entry { node: Node { value: Value::Table(_), .. }, .. })) {
            return Err(self.section(key, read));
        }
        Ok(self.default(key, default, |node| values::word(node, words)))
    }

    fn check<T>(&mut self, key: &str, node: &Node, parse: impl Fn(&Node) -> Result<T, Wrong>) -> Option<T> {
        match parse(node) {
            Ok(value) => {
                let shown = as_taken(node, |node| parse(node).is_ok());
                self.show(key, shown, Some(node.place.clone()));
                Some(value)
            }
            Err(wrong) => {
                self.wrong(key, node, wrong);
                None
            }
        }
    }

    fn resolved(&mut self, key: &str, node: &Node) -> Option<String> {
        let resolved = values::text(node).and_then(|text| self.resolve(&text, &node.place));
        match resolved {
            Ok(path) => {
                self.show(key, toml::Value::String(path.clone()), Some(node.place.clone()));
                Some(path)
            }
            Err(wrong) => {
                self.wrong(key, node, wrong);
                None
            }
        }
    }

    fn resolve(&self, text: &str, place: &Place) -> Result<String, Wrong> {
        let path = match (text.strip_prefix('~'), &place.layer.kind) {
            (Some(rest), _) if rest.is_empty() || rest.starts_with('/') => {
                let home =
                    self.world.home.ok_or_else(|| Wrong::new("starts with \"~\", but HOME is not set"))?;
                home.join(rest.trim_start_matches('/'))
            }
            (_, LayerKind::File { base, .. }) => base.join(text),
            _ => self.world.working.map_or_else(|| PathBuf::from(text), |working| working.join(text)),
        };
        // Only a home or working folder whose name is not UTF-8 gets here.
        path.into_os_string()
            .into_string()
            .map_err(|_| Wrong::new("lies in a folder whose name is not UTF-8"))
    }
}
