//! Values in other shapes: as JSON, as they are shown, and defaults as nodes.

use super::MASK;
use super::place::{Layer, LayerKind, Place};
use super::tree::{Entry, Node, Value};
use super::values::{self, Wrong};

pub(super) fn is_empty(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if text.is_empty())
}

/// A value as it was taken: a variable's number that was taken for a text is shown as one, and so reads back the same.
pub(super) fn as_taken(node: &Node, reads: impl Fn(&Node) -> bool) -> toml::Value {
    match &node.raw {
        Some(raw) if !reads(&Node { raw: None, ..node.clone() }) => toml::Value::String(raw.clone()),
        _ => node.value.to_toml(),
    }
}

/// A default as a node, so that it goes the same way as a value that was written.
pub(super) fn built_in(value: &toml::Value) -> Node {
    let layer = Layer::new(0, "default", LayerKind::BuiltIn);
    let place = Place::whole(&layer);
    let value = match value {
        toml::Value::String(text) => Value::Text(text.clone()),
        toml::Value::Integer(number) => Value::Integer(*number),
        toml::Value::Float(number) => Value::Float(*number),
        toml::Value::Boolean(flag) => Value::Flag(*flag),
        toml::Value::Datetime(time) => Value::Time(*time),
        toml::Value::Array(items) => Value::List(items.iter().map(built_in).collect()),
        toml::Value::Table(table) => Value::Table(
            table
                .iter()
                .map(|(key, value)| (key.clone(), Entry { key: place.clone(), node: built_in(value) }))
                .collect(),
        ),
    };
    Node { value, place, raw: None }
}

pub(super) fn to_json(node: &Node) -> Result<serde_json::Value, (&Node, Wrong)> {
    Ok(match &node.value {
        Value::Text(text) => text.clone().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => serde_json::Number::from_f64(*number)
            .map(Into::into)
            .ok_or_else(|| (node, Wrong::new("is not a number that JSON has")))?,
        Value::Flag(flag) => (*flag).into(),
        Value::Time(time) => time.to_string().into(),
        Value::List(items) => items.iter().map(to_json).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Table(table) => {
            let pairs = table.iter().map(|(key, entry)| Ok((key.clone(), to_json(&entry.node)?)));
            serde_json::Value::Object(pairs.collect::<Result<_, _>>()?)
        }
    })
}

/// Whether a variable is named like a secret.
pub(super) fn is_telling(name: &str) -> bool {
    const TELLING: [&str; 6] = ["password", "passwd", "passphrase", "secret", "token", "private_key"];
    let name = name.to_lowercase();
    TELLING.iter().any(|word| name.contains(word))
}

/// Variables are anything; what is named like a secret, or is a URL with a password, is masked all the same.
pub(super) fn mask_variables(name: &str, value: toml::Value) -> toml::Value {
    match value {
        toml::Value::Table(table) => toml::Value::Table(
            table
                .into_iter()
                .map(|(k, v)| {
                    let v = mask_variables(&k, v);
                    (k, v)
                })
                .collect(),
        ),
        toml::Value::Array(items) => {
            toml::Value::Array(items.into_iter().map(|item| mask_variables(name, item)).collect())
        }
        toml::Value::String(_) if is_telling(name) => toml::Value::String(MASK.to_owned()),
        toml::Value::String(text) => toml::Value::String(values::mask_url(&text).unwrap_or(text)),
        other => other,
    }
}
