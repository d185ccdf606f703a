//! The settings as they were written: trees in which every key and value knows its place, laid over one another.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};
use toml::value::Datetime;

use super::place::{Layer, Mistake, MistakeKind, Place};

/// A table: each key with the place where it was written.
pub(super) type Table = BTreeMap<String, Entry>;

/// A key's place and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Place,
    pub(super) node: Node,
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
    /// What a variable holds literally: where a text is wanted, `5` and `true` are texts too.
    pub(super) raw: Option<String>,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    Time(Datetime),
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// What it is, in a sentence.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a number",
            Self::Float(_) => "a fraction",
            Self::Flag(_) => "true or false",
            Self::Time(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// The same without places.
    pub(super) fn to_toml(&self) -> toml::Value {
        match self {
            Self::Text(text) => toml::Value::String(text.clone()),
            Self::Integer(number) => toml::Value::Integer(*number),
            Self::Float(number) => toml::Value::Float(*number),
            Self::Flag(flag) => toml::Value::Boolean(*flag),
            Self::Time(time) => toml::Value::Datetime(*time),
            Self::List(items) => toml::Value::Array(items.iter().map(|n| n.value.to_toml()).collect()),
            Self::Table(table) => {
                toml::Value::Table(table.iter().map(|(k, e)| (k.clone(), e.node.value.to_toml())).collect())
            }
        }
    }
}

/// Reads one text. What can be read is returned with the mistakes, so that all of them are found at once.
pub(super) fn parse(layer: &Arc<Layer>, text: &str) -> (Table, Vec<Mistake>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reading = Reading { layer, text: Some(text), mistakes: Vec::new() };
    for error in errors {
        // Only the description: the error's own display quotes the line, which may hold a secret.
        let offset = error.span().map_or(0, |span| span.start);
        let line = text.get(..offset).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
        let header = line.trim_start().starts_with('[');
        let kind = if header { MistakeKind::Header } else { MistakeKind::Syntax };
        let what = format!("this is not TOML: {}", error.message());
        reading.mistakes.push(Mistake::new(&Place::at(layer, text, offset), kind, what));
    }
    let table = reading.table(document.get_ref());
    (table, reading.mistakes)
}

/// Reads the value of a variable: TOML when it is that, else text.
pub(super) fn parse_variable(layer: &Arc<Layer>, text: &str) -> Node {
    let place = Place::whole(layer);
    let as_text = || Value::Text(text.to_owned());
    let value = match DeValue::parse(text) {
        Ok(value) => {
            let mut reading = Reading { layer, text: None, mistakes: Vec::new() };
            let value = reading.value(value.get_ref(), &place);
            // A number too large for TOML's 64 bits is still a text.
            if reading.mistakes.is_empty() { value } else { as_text() }
        }
        Err(_) => as_text(),
    };
    Node { value, place, raw: Some(text.to_owned()) }
}

struct Reading<'a> {
    layer: &'a Arc<Layer>,
    /// None when places have no lines.
    text: Option<&'a str>,
    mistakes: Vec<Mistake>,
}

impl Reading<'_> {
    fn place(&self, offset: usize) -> Place {
        match self.text {
            Some(text) => Place::at(self.layer, text, offset),
            None => Place::whole(self.layer),
        }
    }

    fn table(&mut self, table: &DeTable<'_>) -> Table {
        let mut out = Table::new();
        for (key, value) in table {
            let place = self.place(value.span().start);
            let value = self.value(value.get_ref(), &place);
            let node = Node { value, place, raw: None };
            let entry = Entry { key: self.place(key.span().start), node };
            out.insert(key.get_ref().clone().into_owned(), entry);
        }
        out
    }

    fn value(&mut self, value: &DeValue<'_>, place: &Place) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.clone().into_owned()),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Value::Integer(number),
                Err(_) => {
                    let text = "this number does not fit in 64 bits";
                    self.mistakes.push(Mistake::new(place, MistakeKind::Syntax, text));
                    Value::Integer(0)
                }
            },
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(time) => Value::Time(*time),
            DeValue::Array(items) => {
                let mut nodes = Vec::new();
                for item in items {
                    let place = self.place(item.span().start);
                    let value = self.value(item.get_ref(), &place);
                    nodes.push(Node { value, place, raw: None });
                }
                Value::List(nodes)
            }
            DeValue::Table(table) => Value::Table(self.table(table)),
        }
    }
}

/// Lays `over` on `base`: tables are merged key by key, everything else is replaced.
pub(super) fn merge(base: &mut Table, over: Table) {
    for (key, entry) in over {
        match base.get_mut(&key) {
            Some(Entry { node: Node { value: Value::Table(below), .. }, .. })
                if matches!(entry.node.value, Value::Table(_)) =>
            {
                if let Value::Table(above) = entry.node.value {
                    merge(below, above);
                }
            }
            _ => {
                base.insert(key, entry);
            }
        }
    }
}

/// The path that a variable's name means: `SERVER__LISTEN` is `server.listen`. Where a part fits a key that exists (but for
/// case, and `_` for `-`), it means that key.
pub(super) fn variable_path(name: &str, tree: &Table) -> Vec<String> {
    let fold = |text: &str| text.to_lowercase().replace('-', "_");
    let mut level = Some(tree);
    let mut path = Vec::new();
    for part in name.split("__") {
        let part = part.to_lowercase();
        let key = level.and_then(|table| table.keys().find(|key| fold(key) == part)).cloned();
        let key = key.unwrap_or(part);
        level = level.and_then(|table| table.get(&key)).and_then(|entry| match &entry.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        });
        path.push(key);
    }
    path
}

/// A tree that holds one value.
pub(super) fn single(path: &[String], node: Node) -> Table {
    let Some((first, rest)) = path.split_first() else { return Table::new() };
    let place = node.place.clone();
    let node = if rest.is_empty() {
        node
    } else {
        Node { value: Value::Table(single(rest, node)), place: place.clone(), raw: None }
    };
    Table::from([(first.clone(), Entry { key: place, node })])
}

/// Where a layer gives a secret in plain and another one as a file, the upper layer wins. Both in one layer stay: the reader
/// reports them.
pub(super) fn settle_pairs(tree: &mut Table, pairs: &[(&str, &str, &str)]) {
    fn child<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Table> {
        match &mut table.get_mut(key)?.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
    let Some(environments) = child(tree, "environments") else { return };
    for entry in environments.values_mut() {
        let Value::Table(environment) = &mut entry.node.value else { continue };
        for (section, plain, file) in pairs {
            let Some(section) = child(environment, section) else { continue };
            let rank = |table: &Table, key: &str| table.get(key).map(|e| e.key.layer.rank);
            match (rank(section, plain), rank(section, file)) {
                (Some(a), Some(b)) if a > b => section.remove(*file),
                (Some(a), Some(b)) if a < b => section.remove(*plain),
                _ => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::LayerKind;
    use super::*;

    fn layer(rank: usize) -> Arc<Layer> {
        Layer::new(rank, format!("l{rank}"), LayerKind::BuiltIn)
    }

    fn table(rank: usize, text: &str) -> Table {
        let (table, mistakes) = parse(&layer(rank), text);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        table
    }

    fn flat(table: &Table) -> String {
        Value::Table(table.clone()).to_toml().to_string()
    }

    #[test]
    fn upper_layers_replace_values_and_merge_tables() {
        let mut base = table(0, "a = [1, 2]\n[t]\nx = 1\ny = 2\n[t.u]\nz = 3");
        merge(&mut base, table(1, "a = [3]\nt.y = \"two\"\nt.u.w = 4"));
        assert_eq!(flat(&base), flat(&table(0, "a = [3]\n[t]\nx = 1\ny = \"two\"\nu = { z = 3, w = 4 }")));
        let Value::Table(t) = &base["t"].node.value else { panic!() };
        assert_eq!(
            (t["x"].node.place.to_string(), t["y"].node.place.to_string()),
            ("l0:3:5".into(), "l1:2:7".into())
        );
    }

    #[test]
    fn a_variable_is_toml_or_text() {
        let kind = |text| parse_variable(&layer(1), text).value.kind();
        for (text, expected) in [
            ("5", "a number"),
            ("true", "true or false"),
            ("[\"a\"]", "a list"),
            ("{ hosts = [\"a\"] }", "a table"),
            ("\"5\"", "text"),
            ("127.0.0.1:80", "text"),
            ("2h", "text"),
            ("", "text"),
            ("99999999999999999999", "text"),
            ("1 2", "text"),
        ] {
            assert_eq!(kind(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_variables_name_finds_existing_keys() {
        let tree = table(0, "[environments.eu-west.ara]\nurl = 'x'");
        assert_eq!(
            variable_path("ENVIRONMENTS__EU_WEST__ARA__URL", &tree),
            ["environments", "eu-west", "ara", "url"]
        );
        assert_eq!(variable_path("SERVER__LISTEN", &tree), ["server", "listen"]);
    }

    #[test]
    fn every_syntax_error_is_found_and_none_quotes_the_line() {
        let (_, mistakes) = parse(&layer(1), "a = hunter2\nb = \"hunter2\n[c\n");
        let text = super::super::place::Mistakes::new(mistakes).to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.starts_with("l1:1:5: this is not TOML") && !text.contains("hunter2"), "{text}");
    }
}
