//! Label and field selectors.
//!
//! Read from the query of lists and watches, asked of every stored object.

use serde_json::Value;

use super::kinds::{Kind, Resource};
use super::meta;
use super::status::{Answer, Failure};
use super::store::Stored;

/// What a list or watch shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<LabelRule>,
    fields: Vec<FieldRule>,
}

#[derive(Clone, Debug, PartialEq)]
struct LabelRule {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug)]
struct FieldRule {
    name: &'static str,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads both selectors of a query.
    ///
    /// # Errors
    /// 400 for what cannot be parsed and for a field that this kind cannot be selected by.
    pub(super) fn parse(resource: &Resource, labels: &str, fields: &str) -> Answer<Self> {
        Ok(Self { labels: parse_labels(labels)?, fields: parse_fields(resource, fields)? })
    }

    /// Whether everything matches.
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub(super) fn matches(&self, object: &Stored) -> bool {
        self.labels.iter().all(|r| r.matches(object))
            && self.fields.iter().all(|r| {
                let value = match r.name {
                    "metadata.name" => object.key.name.as_str(),
                    "metadata.namespace" => object.key.namespace.as_str(),
                    name => object.field(name),
                };
                (value == r.value) == r.equal
            })
    }
}

impl LabelRule {
    fn matches(&self, object: &Stored) -> bool {
        let value = object.labels.get(&self.key);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(values) => value.is_some_and(|v| values.contains(v)),
            // An object without the label is not in the set either.
            Test::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Test::Above(than) => number().is_some_and(|n| n > *than),
            Test::Below(than) => number().is_some_and(|n| n < *than),
        }
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn parse_labels(text: &str) -> Answer<Vec<LabelRule>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let wrong = |part: &str| Failure::bad_request(format!("unable to parse requirement: {part}"));
    split(text).into_iter().map(|part| parse_label(part).ok_or_else(|| wrong(part))).collect()
}

fn parse_label(part: &str) -> Option<LabelRule> {
    let rule = |key: &str, test: Test| {
        let values_fit = match &test {
            Test::In(values) | Test::NotIn(values) => values.iter().all(|v| meta::is_label_value(v)),
            _ => true,
        };
        (meta::is_qualified_name(key) && values_fit).then(|| LabelRule { key: key.to_owned(), test })
    };
    if let Some(key) = part.strip_prefix('!') {
        return rule(key.trim(), Test::Missing);
    }
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = part.split_once("!=") {
        return rule(key.trim(), Test::NotIn(one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return rule(key.trim(), Test::In(one(value)));
    }
    if let Some((key, value)) = part.split_once('>') {
        return rule(key.trim(), Test::Above(value.trim().parse().ok()?));
    }
    if let Some((key, value)) = part.split_once('<') {
        return rule(key.trim(), Test::Below(value.trim().parse().ok()?));
    }
    if let Some((head, set)) = part.split_once('(') {
        let values = set.strip_suffix(')')?.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        let (key, word, end) = (words.next()?, words.next()?, words.next());
        return match (word, end) {
            ("in", None) => rule(key, Test::In(values)),
            ("notin", None) => rule(key, Test::NotIn(values)),
            _ => None,
        };
    }
    rule(part, Test::Exists)
}

fn parse_fields(resource: &Resource, text: &str) -> Answer<Vec<FieldRule>> {
    let mut rules = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (name, value, equal) = if let Some((name, value)) = part.split_once("!=") {
            (name, value, false)
        } else if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (name, value, true)
        } else {
            return Err(Failure::bad_request(format!(
                "invalid selector: '{part}'; can't understand '{part}'"
            )));
        };
        let name = name.trim();
        let Some(name) = known_field(resource.kind, name) else {
            return Err(Failure::bad_request(format!("field label not supported: {name}")));
        };
        rules.push(FieldRule { name, value: value.trim().to_owned(), equal });
    }
    Ok(rules)
}

/// The field as it is kept with the object: events call theirs by two names.
fn known_field(kind: Kind, name: &str) -> Option<&'static str> {
    let name = match (kind, name.strip_prefix("involvedObject.")) {
        (Kind::Event, Some(rest)) => format!("regarding.{rest}"),
        (Kind::Event, None) if name == "reportingComponent" => "reportingController".to_owned(),
        _ => name.to_owned(),
    };
    let own: &[&'static str] = match kind {
        Kind::Job => JOB,
        Kind::Pod => POD,
        Kind::Event => EVENT,
        Kind::Secret => &["type"],
        Kind::Namespace => &["status.phase"],
        Kind::Node => &["spec.unschedulable"],
        _ => &[],
    };
    ["metadata.name", "metadata.namespace"].iter().chain(own).find(|f| **f == name).copied()
}

const JOB: &[&str] = &["status.successful"];
const POD: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];
const EVENT: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// The values that field selectors may ask an object for.
pub(super) fn fields_of(kind: Kind, object: &Value) -> Vec<(&'static str, String)> {
    let names: &[&'static str] = match kind {
        Kind::Job => {
            let succeeded = meta::number(object, "/status/succeeded").unwrap_or(0);
            return vec![("status.successful", succeeded.to_string())];
        }
        Kind::Node => {
            let closed = meta::truth(object, "/spec/unschedulable");
            return vec![("spec.unschedulable", closed.to_string())];
        }
        Kind::Pod => POD,
        Kind::Event => EVENT,
        Kind::Secret => &["type"],
        Kind::Namespace => &["status.phase"],
        _ => &[],
    };
    names
        .iter()
        .filter_map(|name| {
            let pointer = format!("/{}", name.replace('.', "/"));
            meta::text(object, &pointer).map(|value| (*name, value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::api::store::Key;
    use serde_json::json;

    fn pod() -> Stored {
        let object = json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web", "x/tier": "3"}},
            "status": {"phase": "Running"},
        });
        Stored::unsaved(Key::new(Kind::Pod, "n", "p"), object)
    }

    fn selects(labels: &str, fields: &str) -> bool {
        Selector::parse(Kind::Pod.resource(), labels, fields).unwrap().matches(&pod())
    }

    #[test]
    fn labels_select() {
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "other!=db",
            "app in (db, web)",
            "app notin (db,x)",
            "other notin (a)",
            "!other",
            "app=web,x/tier=3",
            "app in (a,web),!b , x/tier>2",
            "x/tier<4",
        ] {
            assert!(selects(yes, ""), "{yes}");
        }
        for no in [
            "other",
            "app=db",
            "app!=web",
            "!app",
            "app in (a)",
            "app notin (web)",
            "app=web,b",
            "app=",
            "app>1",
        ] {
            assert!(!selects(no, ""), "{no}");
        }
    }

    #[test]
    fn fields_select() {
        assert!(selects("", "metadata.name=p,status.phase!=Failed"));
        assert!(selects("", "metadata.namespace==n"));
        assert!(!selects("", "status.phase=Failed"));
        assert!(selects("", "spec.nodeName="));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (labels, fields) in [
            ("a in b", ""),
            ("a in (b", ""),
            ("=x", ""),
            ("a,,b", ""),
            ("-a", ""),
            ("", "spec.what=1"),
            ("", "x"),
        ] {
            assert!(Selector::parse(Kind::Pod.resource(), labels, fields).is_err(), "{labels} {fields}");
        }
    }

    #[test]
    fn events_are_selected_by_either_name() {
        let object = json!({"metadata": {"name": "e"}, "regarding": {"name": "web", "kind": "Job"}});
        let event = Stored::unsaved(Key::new(Kind::Event, "n", "e"), object);
        for fields in ["involvedObject.name=web,involvedObject.kind=Job", "regarding.name=web"] {
            assert!(Selector::parse(Kind::Event.resource(), "", fields).unwrap().matches(&event), "{fields}");
        }
    }
}
