//! Rights on the cluster, as its access rules name them (Kubernetes, "Using RBAC Authorization"), and what it said of them.

use std::fmt;

use serde::Serialize;

use super::Problem;

/// One right: to do this on objects of a kind, or on the one of a name, in a namespace or in the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Right {
    /// The verb: `get`, `list`, `create`, `update`, `patch`, `delete`.
    pub verb: &'static str,
    /// The API group; empty for the core one.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// The part of it, such as `log` of `pods`.
    pub subresource: Option<&'static str>,
    /// The namespace; empty: in the whole cluster, or on objects that are in no namespace.
    pub namespace: String,
    /// The one object that it is about; none: those of any name.
    pub name: Option<String>,
}

impl Right {
    /// The resource with its part, as rules have it: `pods/log`.
    #[must_use]
    pub fn resource(&self) -> String {
        match self.subresource {
            Some(part) => format!("{}/{part}", self.resource),
            None => self.resource.to_owned(),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource())?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        write!(f, " in {}", place(&self.namespace))
    }
}

/// A namespace in words; empty: the whole cluster.
#[must_use]
pub fn place(namespace: &str) -> String {
    match namespace {
        "" => "the whole cluster".to_owned(),
        namespace => format!("namespace {namespace}"),
    }
}

/// What the cluster said of a right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// We have it.
    Yes,
    /// We have not; with the cluster's words on it, which are often empty.
    No(String),
    /// It did not say.
    Unknown(Problem),
}

/// A rule of a Role, as its `rules` take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The API groups.
    pub api_groups: Vec<String>,
    /// The resources.
    pub resources: Vec<String>,
    /// The names of the objects; empty: of all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// The verbs.
    pub verbs: Vec<String>,
}

impl fmt::Display for Rule {
    /// As one line of YAML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |words: &[String]| {
            let quoted = |word: &String| if word.is_empty() { "\"\"".to_owned() } else { word.clone() };
            words.iter().map(quoted).collect::<Vec<_>>().join(", ")
        };
        write!(f, "- {{apiGroups: [{}], resources: [{}]", words(&self.api_groups), words(&self.resources))?;
        if !self.resource_names.is_empty() {
            write!(f, ", resourceNames: [{}]", words(&self.resource_names))?;
        }
        write!(f, ", verbs: [{}]}}", words(&self.verbs))
    }
}

/// The rules that give these rights, with the namespace that each belongs into: one rule for all verbs on the same objects.
#[must_use]
pub fn rules(rights: &[Right]) -> Vec<(String, Rule)> {
    let mut rules: Vec<(String, Rule)> = Vec::new();
    for right in rights {
        let new = Rule {
            api_groups: vec![right.group.to_owned()],
            resources: vec![right.resource()],
            resource_names: right.name.iter().cloned().collect(),
            verbs: Vec::new(),
        };
        let same = |(namespace, rule): &&mut (String, Rule)| {
            *namespace == right.namespace && Rule { verbs: Vec::new(), ..rule.clone() } == new
        };
        let verb = right.verb.to_owned();
        match rules.iter_mut().find(same) {
            Some((_, rule)) if rule.verbs.contains(&verb) => {}
            Some((_, rule)) => rule.verbs.push(verb),
            None => rules.push((right.namespace.clone(), Rule { verbs: vec![verb], ..new })),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(verb: &'static str, resource: &'static str, name: Option<&str>) -> Right {
        let group = if resource == "jobs" { "batch" } else { "" };
        let (namespace, name) = ("n".to_owned(), name.map(str::to_owned));
        Right { verb, group, resource, subresource: None, namespace, name }
    }

    #[test]
    fn rights_are_said_as_rules_name_them() {
        assert_eq!(right("patch", "jobs", None).to_string(), "patch jobs.batch in namespace n");
        assert_eq!(
            right("update", "configmaps", Some("c")).to_string(),
            "update configmaps c in namespace n"
        );
        let node = Right { namespace: String::new(), ..right("get", "nodes", None) };
        assert_eq!(node.to_string(), "get nodes in the whole cluster");
        let log = Right { subresource: Some("log"), ..right("get", "pods", None) };
        assert_eq!(log.to_string(), "get pods/log in namespace n");
    }

    #[test]
    fn a_rule_has_all_verbs_on_the_same_objects_and_no_others() {
        let rights = [
            right("get", "jobs", None),
            right("patch", "jobs", None),
            right("get", "configmaps", Some("c")),
            right("get", "configmaps", None),
            Right { namespace: "m".to_owned(), ..right("get", "jobs", None) },
            right("get", "jobs", None),
        ];
        let said: Vec<String> = rules(&rights).iter().map(|(ns, rule)| format!("{ns} {rule}")).collect();
        assert_eq!(
            said,
            [
                "n - {apiGroups: [batch], resources: [jobs], verbs: [get, patch]}",
                "n - {apiGroups: [\"\"], resources: [configmaps], resourceNames: [c], verbs: [get]}",
                "n - {apiGroups: [\"\"], resources: [configmaps], verbs: [get]}",
                "m - {apiGroups: [batch], resources: [jobs], verbs: [get]}",
            ]
        );
    }
}
