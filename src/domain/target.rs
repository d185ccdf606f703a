//! The `scrape-collectd` targets: a list in Prometheus' file_sd form, which Victoria Metrics reads. Entries that we do not
//! know are kept as they are.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The most that a ConfigMap may hold, in bytes.
pub const CONFIGMAP_LIMIT: usize = 1_048_576;

/// The label that names the host that an entry is for.
pub const HOST_LABEL: &str = "host";
/// The label that names the run that added an entry.
pub const RUN_LABEL: &str = "hostwright_run";

/// One target as a table shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// `host:port`; an IPv6 address has brackets.
    pub address: String,
    /// The entry's labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

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
pub struct Targets(Vec<Value>);

impl Targets {
    /// Reads the list; an empty text is an empty list.
    ///
    /// # Errors
    /// When it is not a JSON list: then it is not ours to overwrite.
    pub fn parse(text: &str) -> Result<Self, TargetsError> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        match serde_json::from_str(text) {
            Ok(Value::Array(entries)) => Ok(Self(entries)),
            Ok(_) => Err(TargetsError::Malformed("not a list".to_owned())),
            Err(error) => Err(TargetsError::Malformed(error.to_string())),
        }
    }

    /// The list as it is written: one entry a line, so that changes are easy to read.
    ///
    /// # Errors
    /// When it is larger than a ConfigMap holds.
    pub fn to_text(&self) -> Result<String, TargetsError> {
        let lines: Vec<String> = self.0.iter().map(Value::to_string).collect();
        let text =
            if lines.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", lines.join(",\n")) };
        if text.len() > CONFIGMAP_LIMIT { Err(TargetsError::TooLarge(text.len())) } else { Ok(text) }
    }

    /// Adds a target, or gives it these labels if it is there already. Returns whether anything changed.
    pub fn add(&mut self, address: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Map<String, Value> = labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        let entry = json!({"targets": [address], "labels": labels});
        // Only an entry for this one target is replaced; where somebody put it in a group of several it stays there.
        if let Some(own) = self.0.iter_mut().find(|e| addresses(e).eq([address])) {
            let old = own.get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
            let mut merged = old.clone();
            merged.extend(labels);
            if merged == old {
                return false;
            }
            if let Some(object) = own.as_object_mut() {
                object.insert("labels".to_owned(), Value::Object(merged));
            }
            return true;
        }
        if self.0.iter().any(|e| addresses(e).any(|a| a == address)) {
            return false;
        }
        self.0.push(entry);
        true
    }

    /// Removes a target. Returns whether it was there.
    pub fn remove(&mut self, address: &str) -> bool {
        let mut found = false;
        self.0.retain_mut(|entry| {
            let Some(targets) = entry.get_mut("targets").and_then(Value::as_array_mut) else { return true };
            let before = targets.len();
            targets.retain(|t| t.as_str() != Some(address));
            found |= targets.len() != before;
            targets.len() == before || !targets.is_empty()
        });
        found
    }

    /// Every target with its entry's labels.
    #[must_use]
    pub fn list(&self) -> Vec<Target> {
        self.0
            .iter()
            .flat_map(|entry| {
                let labels = entry.get("labels").and_then(Value::as_object);
                let labels: std::collections::BTreeMap<String, String> = labels
                    .into_iter()
                    .flatten()
                    .map(|(k, v)| (k.clone(), v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
                    .collect();
                addresses(entry).map(move |a| Target { address: a.to_owned(), labels: labels.clone() })
            })
            .collect()
    }
}

fn addresses(entry: &Value) -> impl Iterator<Item = &str> {
    entry.get("targets").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// `host:port`, with brackets around an IPv6 address.
#[must_use]
pub fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_is_idempotent_and_keeps_what_others_wrote() {
        let alien = r#"[{"targets":["a:1","b:1"],"labels":{"x":"y"},"more":1}, "odd"]"#;
        let mut targets = Targets::parse(alien).unwrap();
        assert!(targets.add("web:25826", &[("host", "web")]));
        assert!(!targets.add("web:25826", &[("host", "web")]));
        assert!(targets.add("web:25826", &[("host", "other")]));
        assert!(!targets.add("a:1", &[("host", "a")]));
        let text = targets.to_text().unwrap();
        assert!(text.contains(r#""more":1"#) && text.contains("\"odd\""));
        assert_eq!(Targets::parse(&text).unwrap(), targets);
        assert_eq!(targets.list().len(), 3);
    }

    #[test]
    fn removing_one_of_a_group_leaves_the_group() {
        let mut targets = Targets::parse(r#"[{"targets":["a:1","b:1"]},{"targets":["c:1"]}]"#).unwrap();
        assert!(targets.remove("a:1") && targets.remove("c:1") && !targets.remove("d:1"));
        assert_eq!(targets.list().iter().map(|t| t.address.as_str()).collect::<Vec<_>>(), ["b:1"]);
        assert_eq!(targets.to_text().unwrap(), "[\n{\"targets\":[\"b:1\"]}\n]\n");
    }

    #[test]
    fn what_is_no_list_is_left_alone_and_too_much_is_refused() {
        assert!(matches!(Targets::parse("{}"), Err(TargetsError::Malformed(_))));
        assert!(matches!(Targets::parse("- a"), Err(TargetsError::Malformed(_))));
        let full = Targets(vec![Value::String("x".repeat(CONFIGMAP_LIMIT))]);
        assert!(matches!(full.to_text(), Err(TargetsError::TooLarge(_))));
    }

    #[test]
    fn ipv6_has_brackets() {
        assert_eq!(host_port("2001:db8::1", 80), "[2001:db8::1]:80");
        assert_eq!(host_port("web", 80), "web:80");
    }
}
