//! The `scrape-collectd` targets: a list in Prometheus' file_sd form, which Victoria Metrics reads. Entries that we do not
//! know are kept as they are, byte for byte.

mod typed;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use typed::{same, split};

use super::{HostName, Kind, Run};

pub use typed::{InputError, address, host_port, label, label_change};

/// The most that a ConfigMap may hold, in bytes.
pub const CONFIGMAP_LIMIT: usize = 1_048_576;
/// From here on it is said that the ConfigMap fills up.
const FULL_PERCENT: usize = 80;

/// The label that names the host that an entry is for.
pub const HOST_LABEL: &str = "host";
/// The label that names the run that added an entry.
pub const RUN_LABEL: &str = "hostwright_run";

/// Whether a ConfigMap of this size, in bytes, is nearly full.
#[must_use]
pub fn nearly_full(size: usize) -> bool {
    size * 100 >= CONFIGMAP_LIMIT * FULL_PERCENT
}

/// One target as a table shows it, or an entry of unknown form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// `host:port`; an IPv6 address has brackets. Empty where the form is unknown.
    pub address: String,
    /// The entry's labels.
    pub labels: BTreeMap<String, String>,
    /// The host that it is for, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The run that put it there, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The run is not recorded on the entry: it is the newest ready one of the host.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
    /// Set for an entry whose form we do not know: it is kept and never changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Unknown>,
}

/// An entry of unknown form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// The entry as it stands there.
    pub text: String,
    /// What is unknown about it.
    pub reason: &'static str,
}

/// The targets, and how much room they take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// In the order of the ConfigMap.
    pub targets: Vec<Target>,
    /// How many bytes the ConfigMap holds, of [`CONFIGMAP_LIMIT`].
    pub size: usize,
}

/// A target to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTarget {
    /// `host:port`, as [`address`] gives it.
    pub address: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl NewTarget {
    /// A host's target, with the run that adds it.
    #[must_use]
    pub fn of_host(host: &HostName, port: u16, run: Option<&str>) -> Self {
        let mut labels = BTreeMap::from([(HOST_LABEL.to_owned(), host.to_string())]);
        labels.extend(run.map(|run| (RUN_LABEL.to_owned(), run.to_owned())));
        Self { address: host_port(host.as_str(), port), labels }
    }

    /// An address that an operator gave, with what they want to label it with; its host is a label unless they say otherwise.
    #[must_use]
    pub fn given(address: String, mut labels: BTreeMap<String, String>) -> Self {
        let host = split(&address).map_or(address.as_str(), |(host, _)| host);
        labels.entry(HOST_LABEL.to_owned()).or_insert_with(|| host.trim_matches(['[', ']']).to_owned());
        Self { address, labels }
    }
}

/// What is changed on an entry's labels: a value sets one, none takes it away.
pub type LabelChange = BTreeMap<String, Option<String>>;

/// Why the list cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetsError {
    /// The text is not a list of file_sd groups.
    #[error("is not a list of target groups: {0}")]
    Malformed(String),
    /// The list would not fit in a ConfigMap.
    #[error("would take {0} bytes, a ConfigMap holds {CONFIGMAP_LIMIT}")]
    TooLarge(usize),
}

/// The list, with everything in it that we do not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets(Vec<Entry>);

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    /// As it is written.
    raw: String,
    value: Value,
}

impl Entry {
    fn new(value: Value) -> Self {
        Self { raw: value.to_string(), value }
    }

    /// The addresses and labels of a known form; else what is unknown about it.
    fn read(&self) -> Result<(Vec<&str>, BTreeMap<String, String>), &'static str> {
        let entry = self.value.as_object().ok_or("it is no object")?;
        let targets = entry.get("targets").and_then(Value::as_array).ok_or("it has no list of targets")?;
        let addresses: Option<Vec<&str>> = targets.iter().map(Value::as_str).collect();
        let addresses = addresses.ok_or("one of its targets is no text")?;
        let labels = match entry.get("labels") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(Value::Object(labels)) => {
                let texts = labels.iter().map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
                texts.collect::<Option<_>>().ok_or("one of its labels is no text")?
            }
            Some(_) => return Err("its labels are no object"),
        };
        if addresses.is_empty() { Err("its list of targets is empty") } else { Ok((addresses, labels)) }
    }

    fn has(&self, address: &str) -> bool {
        self.read().is_ok_and(|(addresses, _)| addresses.iter().any(|a| same(a, address)))
    }

    /// The same entry for only some of its addresses, with other labels where they are given.
    fn with(&self, keep: impl Fn(&str) -> bool, labels: Option<&BTreeMap<String, String>>) -> Self {
        let mut value = self.value.clone();
        if let Some(entry) = value.as_object_mut() {
            if let Some(targets) = entry.get_mut("targets").and_then(Value::as_array_mut) {
                targets.retain(|t| t.as_str().is_none_or(&keep));
            }
            if let Some(labels) = labels {
                entry.insert("labels".to_owned(), json!(labels));
            }
        }
        Self::new(value)
    }
}

impl Targets {
    /// Reads the list; an empty text is an empty list.
    ///
    /// # Errors
    /// When it is not a JSON list: then it is not ours to overwrite.
    pub fn parse(text: &str) -> Result<Self, TargetsError> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let values = match serde_json::from_str(text) {
            Ok(Value::Array(values)) => values,
            Ok(_) => return Err(TargetsError::Malformed("not a list".to_owned())),
            Err(error) => return Err(TargetsError::Malformed(error.to_string())),
        };
        let raw = elements(text);
        if raw.len() != values.len() {
            return Err(TargetsError::Malformed("its entries cannot be told apart".to_owned()));
        }
        let entry = |(raw, value): (&str, Value)| Entry { raw: raw.to_owned(), value };
        Ok(Self(raw.into_iter().zip(values).map(entry).collect()))
    }

    /// The list as it is written: one entry a line, so that changes are easy to read. It is read back first: a list that its
    /// reader could not parse would lose all targets.
    ///
    /// # Errors
    /// When it is larger than a ConfigMap holds.
    pub fn to_text(&self) -> Result<String, TargetsError> {
        let lines: Vec<&str> = self.0.iter().map(|entry| entry.raw.as_str()).collect();
        let text =
            if lines.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", lines.join(",\n")) };
        if text.len() > CONFIGMAP_LIMIT {
            return Err(TargetsError::TooLarge(text.len()));
        }
        if Self::parse(&text)? == *self {
            Ok(text)
        } else {
            Err(TargetsError::Malformed("what would be written reads otherwise".to_owned()))
        }
    }

    /// Adds a target, or gives it these labels too if it is there already. Returns whether anything changed.
    pub fn add(&mut self, new: &NewTarget) -> bool {
        let address = new.address.as_str();
        // Only an entry for this one target is changed; where somebody put it in a group of several it stays there.
        let alone =
            |e: &Entry| e.read().is_ok_and(|(all, _)| matches!(all.as_slice(), [a] if same(a, address)));
        if let Some(own) = self.0.iter_mut().find(|e| alone(e)) {
            let Ok((_, old)) = own.read() else { return false };
            let mut merged = old.clone();
            merged.extend(new.labels.clone());
            if merged == old {
                return false;
            }
            *own = own.with(|_| true, Some(&merged));
            return true;
        }
        if self.0.iter().any(|e| e.has(address)) {
            return false;
        }
        let labels: Map<String, Value> = new.labels.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        self.0.push(Entry::new(json!({"targets": [address], "labels": labels})));
        true
    }

    /// Removes a target. Returns whether it was there.
    pub fn remove(&mut self, address: &str) -> bool {
        let mut found = false;
        self.0.retain_mut(|entry| {
            if !entry.has(address) {
                return true;
            }
            found = true;
            *entry = entry.with(|a| !same(a, address), None);
            entry.read().is_ok()
        });
        found
    }

    /// Changes a target's labels. One of a group gets an entry of its own: the others of the group keep theirs. Returns nothing
    /// when there is no such target, else whether anything changed.
    pub fn label(&mut self, address: &str, change: &LabelChange) -> Option<bool> {
        let mut result = None;
        let mut entries = Vec::with_capacity(self.0.len());
        for entry in std::mem::take(&mut self.0) {
            let (several, old) = match entry.read() {
                Ok((all, old)) if all.iter().any(|a| same(a, address)) => {
                    (all.iter().any(|a| !same(a, address)), old)
                }
                _ => {
                    entries.push(entry);
                    continue;
                }
            };
            let mut labels = old.clone();
            for (name, value) in change {
                match value {
                    Some(value) => labels.insert(name.clone(), value.clone()),
                    None => labels.remove(name),
                };
            }
            let changed = labels != old;
            result = Some(changed || result.unwrap_or(false));
            if !changed {
                entries.push(entry);
                continue;
            }
            if several {
                entries.push(entry.with(|a| !same(a, address), None));
            }
            entries.push(entry.with(|a| same(a, address), Some(&labels)));
        }
        self.0 = entries;
        result
    }

    /// Every target with its entry's labels, and every entry of unknown form.
    #[must_use]
    pub fn list(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for entry in &self.0 {
            match entry.read() {
                Ok((addresses, labels)) => targets.extend(addresses.into_iter().map(|address| Target {
                    address: address.to_owned(),
                    host: labels.get(HOST_LABEL).cloned(),
                    run: labels.get(RUN_LABEL).cloned(),
                    labels: labels.clone(),
                    guessed: false,
                    unknown: None,
                })),
                Err(reason) => targets.push(Target {
                    address: String::new(),
                    labels: BTreeMap::new(),
                    host: None,
                    run: None,
                    guessed: false,
                    unknown: Some(Unknown { text: entry.raw.clone(), reason }),
                }),
            }
        }
        targets
    }
}

/// Finds out for targets that do not say so which host they are for and which run put them there: the newest ready run of the
/// host that they name.
pub fn attribute<'a>(targets: &mut [Target], runs: impl IntoIterator<Item = &'a Run>) {
    let mut newest: BTreeMap<&str, &Run> = BTreeMap::new();
    for run in runs.into_iter().filter(|r| r.kind == Kind::Provision && r.phase == super::Phase::Ready) {
        let slot = newest.entry(run.host.as_str()).or_insert(run);
        if run.number > slot.number {
            *slot = run;
        }
    }
    for target in targets.iter_mut().filter(|t| t.unknown.is_none() && t.run.is_none()) {
        let named = target.host.as_deref().or_else(|| split(&target.address).map(|(host, _)| host));
        let Some(run) = named.and_then(|host| newest.get(host.to_ascii_lowercase().as_str())) else {
            continue;
        };
        target.host.get_or_insert_with(|| run.host.to_string());
        target.run = Some(run.name.clone());
        target.guessed = true;
    }
}

/// The elements of a well-formed JSON list, byte for byte.
fn elements(list: &str) -> Vec<&str> {
    let inner = list.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or_default();
    let (mut depth, mut quoted, mut escaped, mut start) = (0_usize, false, false, 0);
    let mut parts = Vec::new();
    for (at, c) in inner.char_indices() {
        if quoted {
            (quoted, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        match c {
            '"' => quoted = true,
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(inner.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(inner.get(start..));
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(address: &str, host: &str) -> NewTarget {
        NewTarget::given(address.to_owned(), BTreeMap::from([(HOST_LABEL.to_owned(), host.to_owned())]))
    }

    fn addresses(targets: &Targets) -> Vec<String> {
        targets.list().into_iter().map(|t| t.address).collect()
    }

    #[test]
    fn adding_is_idempotent_and_keeps_what_others_wrote() {
        let group = r#"{ "targets":["a:1", "b:1"],"labels":{"x":"y"},
            "more": 1.50 }"#;
        let alien = format!(r#"[{group}, "o]d,d\"", {{"targets": "t"}}]"#);
        let mut targets = Targets::parse(&alien).unwrap();
        assert!(targets.add(&new("web:25826", "web")));
        assert!(!targets.add(&new("web:25826", "web")) && !targets.add(&new("WEB:25826", "web")));
        assert!(targets.add(&new("web:25826", "other")));
        assert!(!targets.add(&new("a:1", "a")));
        let text = targets.to_text().unwrap();
        assert!(text.contains(group) && text.contains(r#""o]d,d\"""#), "{text}");
        assert_eq!(Targets::parse(&text).unwrap(), targets);
        let list = targets.list();
        let unknown: Vec<_> = list.iter().filter_map(|t| t.unknown.as_ref()).collect();
        assert_eq!((list.len(), unknown.len()), (5, 2));
        assert_eq!((unknown[0].text.as_str(), unknown[0].reason), (r#""o]d,d\"""#, "it is no object"));
        assert_eq!(unknown[1].reason, "it has no list of targets");
    }

    #[test]
    fn removing_one_of_a_group_leaves_the_group_and_unknown_ones_are_never_touched() {
        let odd = r#"{"targets":["a:1", 5]}"#;
        let mut targets =
            Targets::parse(&format!(r#"[{{"targets":["a:1","b:1"]}},{{"targets":["c:1"]}},{odd}]"#)).unwrap();
        assert!(targets.remove("a:1") && targets.remove("c:1") && !targets.remove("d:1"));
        assert_eq!(addresses(&targets), ["b:1", ""]);
        assert_eq!(targets.to_text().unwrap(), format!("[\n{{\"targets\":[\"b:1\"]}},\n{odd}\n]\n"));
    }

    #[test]
    fn labels_of_one_of_a_group_do_not_change_the_others() {
        let mut targets =
            Targets::parse(r#"[{"targets":["a:1","b:1"],"labels":{"k":"v","x":"y"},"more":1}]"#).unwrap();
        let change = |text: &[&str]| text.iter().map(|t| label_change(t).unwrap()).collect::<LabelChange>();
        assert_eq!(targets.label("a:1", &change(&["k-", "z=1=2"])), Some(true));
        assert_eq!(targets.label("a:1", &change(&["k-", "z=1=2"])), Some(false));
        assert_eq!(targets.label("c:1", &change(&["k-"])), None);
        assert_eq!(
            targets.to_text().unwrap(),
            "[\n{\"targets\":[\"b:1\"],\"labels\":{\"k\":\"v\",\"x\":\"y\"},\"more\":1},\n{\"targets\":[\"a:1\"],\"labels\":{\"x\":\"y\",\"z\":\"1=2\"},\"more\":1}\n]\n"
        );
    }

    /// S24: what the reader could not read is not written over.
    #[test]
    fn what_is_no_list_is_left_alone_and_too_much_is_refused() {
        for text in ["{}", "- a", "[1,]", "[1] 2", "null"] {
            assert!(matches!(Targets::parse(text), Err(TargetsError::Malformed(_))), "{text}");
        }
        for text in ["", "[]", " [ ] ", "[\n]"] {
            assert_eq!(Targets::parse(text).unwrap().to_text().unwrap(), "[]\n");
        }
        let full = Targets(vec![Entry::new(Value::String("x".repeat(CONFIGMAP_LIMIT)))]);
        assert!(matches!(full.to_text(), Err(TargetsError::TooLarge(_))));
    }

    #[test]
    fn hosts_get_the_port_and_pairs_keep_theirs() {
        for (text, expected) in [
            ("Web.example.org", Some("web.example.org:9103")),
            ("web:1", Some("web:1")),
            ("2001:DB8:0::1", Some("[2001:db8::1]:9103")),
            ("[2001:db8::1]", Some("[2001:db8::1]:9103")),
            ("[2001:db8::1]:5", Some("[2001:db8::1]:5")),
            ("[::ffff:10.0.0.1]:5", Some("10.0.0.1:5")),
            ("10.0.0.1:5", Some("10.0.0.1:5")),
            ("a b", None),
            ("web:port", None),
            ("web:65536", None),
            ("[x]:5", None),
            ("[fe80::1%eth0]:5", None),
        ] {
            assert_eq!(address(text, 9103).ok().as_deref(), expected, "{text}");
        }
        let mut targets = Targets::parse(r#"[{"targets":["[2001:DB8::1]:5"]}]"#).unwrap();
        assert!(targets.remove("[2001:db8::1]:5"));
    }

    #[test]
    fn labels_are_names_and_values() {
        assert_eq!(label("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert_eq!(label_change("a-").unwrap(), ("a".to_owned(), None));
        assert_eq!(label_change("a=-").unwrap(), ("a".to_owned(), Some("-".to_owned())));
        for wrong in ["a", "=b", "1a=b", "a-b=c", "a=\u{1b}", "a-b-", "-"] {
            assert!(label_change(wrong).is_err(), "{wrong:?}");
        }
    }
}
