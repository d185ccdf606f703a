//! The ABAC policy: one JSON object a line. The rules are those of Kubernetes' ABAC authorizer and of the conversions of its v0 and
//! v1beta1 formats (<https://kubernetes.io/docs/reference/access-authn-authz/abac/>).

use serde_json::{Map, Value};

use super::{LineNote, Read, text};

const GROUP: &str = "abac.authorization.kubernetes.io";
const ALL_AUTHENTICATED: &str = "system:authenticated";
const ANY: &str = "*";

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Where it stands, from 1.
    pub line: usize,
    user: String,
    group: String,
    readonly: bool,
    namespace: String,
    resource: String,
    api_group: String,
    path: String,
}

/// All lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies(Vec<Policy>);

/// Whether somebody may do something.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The user.
    pub user: &'a str,
    /// The user's groups, those of the API server included.
    pub groups: &'a [String],
    /// `get`, `create` …; for a path the HTTP method in small letters.
    pub verb: &'a str,
    /// On what.
    pub target: Target<'a>,
}

/// What something is done to. A subresource (`pods/exec`) is as its resource, which is how ABAC has it.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// An object of the API.
    Resource {
        /// Its namespace; empty: none, or all.
        namespace: &'a str,
        /// Its API group; empty: the core group.
        group: &'a str,
        /// Its resource, such as `pods`.
        resource: &'a str,
    },
    /// A path that is no object's, such as `/version`.
    Path(&'a str),
}

impl Policies {
    /// Reads a policy file. Empty lines and lines that begin with `#` are skipped. More strictly than there, a line that has a `spec`
    /// but not both of `apiVersion` and `kind` is refused: it would be taken for one of the old format that says nothing, and a line
    /// of the old format that says nothing allows everything.
    ///
    /// # Errors
    /// The first line that cannot be read, and why.
    pub fn parse(bytes: &[u8]) -> Result<Read<Self>, LineNote> {
        let mut warnings = Vec::new();
        let mut policies = Vec::new();
        for (number, line) in text(bytes)?.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                policies.push(policy(line, number + 1, &mut warnings)?);
            }
        }
        Ok(Read { value: Self(policies), warnings })
    }

    /// The first line that allows it.
    #[must_use]
    pub fn allows(&self, question: &Question<'_>) -> Option<&Policy> {
        self.0.iter().find(|policy| policy.matches(question))
    }

    /// Whom the lines are for: user and group, either may be empty.
    pub fn subjects(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|policy| (policy.user.as_str(), policy.group.as_str()))
    }

    /// How many lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Policy {
    fn matches(&self, question: &Question<'_>) -> bool {
        let may = !self.readonly || matches!(question.verb, "get" | "list" | "watch");
        may && self.is_of(question.user, question.groups) && self.covers(&question.target)
    }

    /// A line that names neither user nor group is nobody's; one that names both is that user's in that group.
    fn is_of(&self, user: &str, groups: &[String]) -> bool {
        let named = !self.user.is_empty() || !self.group.is_empty();
        let is_user = self.user.is_empty() || self.user == ANY || self.user == user;
        let is_group = self.group.is_empty() || self.group == ANY || groups.contains(&self.group);
        named && is_user && is_group
    }

    fn covers(&self, target: &Target<'_>) -> bool {
        let fits = |rule: &str, value: &str| rule == ANY || rule == value;
        match target {
            Target::Resource { namespace, group, resource } => {
                fits(&self.namespace, namespace)
                    && fits(&self.resource, resource)
                    && fits(&self.api_group, group)
            }
            Target::Path(path) => {
                let below = self.path.ends_with('*') && path.starts_with(self.path.trim_end_matches('*'));
                fits(&self.path, path) || below
            }
        }
    }
}

/// What the format is, and which fields it has.
const V0: [&str; 5] = ["user", "group", "readonly", "resource", "namespace"];
const V1BETA1: [&str; 7] =
    ["user", "group", "readonly", "resource", "namespace", "apiGroup", "nonResourcePath"];

fn policy(text: &str, line: usize, warnings: &mut Vec<LineNote>) -> Result<Policy, LineNote> {
    let wrong = |text: String| LineNote::new(line, text);
    let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        wrong(match error.classify() {
            serde_json::error::Category::Data => "is no JSON object: one object a line".to_owned(),
            _ => format!("is no JSON at column {}", error.column()),
        })
    })?;
    let word = |key: &str| string(&object, key).map_err(wrong);
    let (version, kind) = (word("apiVersion")?, word("kind")?);
    let old = version == format!("{GROUP}/v0") || version.is_empty() || kind.is_empty();
    if old && object.contains_key("spec") {
        return Err(wrong("has a spec, and not both of apiVersion and kind: it would be taken for an old line that allows everything".to_owned()));
    }
    if !kind.is_empty() && kind != "Policy" {
        return Err(wrong("kind is not Policy".to_owned()));
    }
    let policy = if old {
        let known = [V0.as_slice(), &["apiVersion", "kind"]].concat();
        unknown(&object, &known, line, warnings);
        v0(&object, line).map_err(wrong)?
    } else if version == format!("{GROUP}/v1beta1") {
        unknown(&object, &["apiVersion", "kind", "metadata", "spec"], line, warnings);
        let empty = Map::new();
        let spec = match object.get("spec") {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(spec)) => spec,
            Some(_) => return Err(wrong("spec is no object".to_owned())),
        };
        unknown(spec, &V1BETA1, line, warnings);
        v1beta1(spec, line).map_err(wrong)?
    } else {
        return Err(wrong(format!("apiVersion is not {GROUP}/v1beta1")));
    };
    if policy.user.is_empty() && policy.group.is_empty() {
        warnings.push(LineNote::new(line, "names neither user nor group: it is nobody's"));
    }
    let everything = policy.group == ALL_AUTHENTICATED && policy.user.is_empty() && !policy.readonly;
    if everything && [&policy.namespace, &policy.resource, &policy.api_group].iter().all(|rule| *rule == ANY)
    {
        warnings.push(LineNote::new(line, "allows everything to everybody who has a token or a certificate"));
    }
    Ok(policy)
}

/// The old format: what is not said is all, of all API groups.
fn v0(object: &Map<String, Value>, line: usize) -> Result<Policy, String> {
    let mut policy = common(object, line)?;
    if policy.namespace.is_empty() && policy.resource.is_empty() {
        ANY.clone_into(&mut policy.path);
    }
    if policy.user.is_empty() && policy.group.is_empty() {
        ALL_AUTHENTICATED.clone_into(&mut policy.group);
    }
    for rule in [&mut policy.namespace, &mut policy.resource, &mut policy.api_group] {
        if rule.is_empty() {
            ANY.clone_into(rule);
        }
    }
    Ok(policy)
}

fn v1beta1(spec: &Map<String, Value>, line: usize) -> Result<Policy, String> {
    let mut policy = common(spec, line)?;
    policy.api_group = string(spec, "apiGroup")?;
    policy.path = string(spec, "nonResourcePath")?;
    Ok(policy)
}

/// What both formats have. In both `*` as user or group is everybody who is authenticated, whatever the other says.
fn common(object: &Map<String, Value>, line: usize) -> Result<Policy, String> {
    let mut policy = Policy {
        line,
        user: string(object, "user")?,
        group: string(object, "group")?,
        readonly: match object.get("readonly") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(readonly)) => *readonly,
            Some(_) => return Err("readonly is neither true nor false".to_owned()),
        },
        namespace: string(object, "namespace")?,
        resource: string(object, "resource")?,
        ..Policy::default()
    };
    if policy.user == ANY || policy.group == ANY {
        policy.user.clear();
        ALL_AUTHENTICATED.clone_into(&mut policy.group);
    }
    Ok(policy)
}

fn string(object: &Map<String, Value>, key: &str) -> Result<String, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{key} is no string")),
    }
}

/// Kubernetes ignores what it does not know; a misspelt restriction allows more than was meant, so it is at least said.
fn unknown(object: &Map<String, Value>, known: &[&str], line: usize, warnings: &mut Vec<LineNote>) {
    for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
        let near =
            known.iter().max_by(|a, b| strsim::jaro_winkler(key, a).total_cmp(&strsim::jaro_winkler(key, b)));
        let meant = near.filter(|near| strsim::jaro_winkler(key, near) > 0.8);
        let hint = meant.map(|near| format!(": is {near} meant?")).unwrap_or_default();
        let name = crate::domain::text::plain(&key.chars().take(40).collect::<String>());
        warnings.push(LineNote::new(line, format!("{name} is unknown and ignored{hint}")));
    }
}

#[cfg(test)]
mod tests;
