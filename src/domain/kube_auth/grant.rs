//! Adding a token or a rule: one more line, and nothing else of the file changed.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{LineNote, Policies, parse_tokens, utf8};

/// Groups that are there without a token naming them.
const ALWAYS: [&str; 3] = ["system:authenticated", "system:masters", "system:unauthenticated"];
/// How long a name may be, in bytes.
const NAME_LIMIT: usize = 253;

/// Who is known by either file: what a name is completed from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    /// The users, sorted.
    pub users: Vec<String>,
    /// The groups, sorted.
    pub groups: Vec<String>,
}

/// Somebody who gets a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewToken {
    /// The user's name.
    pub user: String,
    /// What tells two users of one name apart; none: the next free number.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
}

/// What somebody may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewRule {
    /// The user; none: a group.
    pub user: Option<String>,
    /// The group; none: a user.
    pub group: Option<String>,
    /// Only looking.
    pub readonly: bool,
    /// In which namespace; `*`: in all.
    pub namespace: Option<String>,
    /// On which resource, such as `pods`; `*`: on all.
    pub resource: Option<String>,
    /// In which API group; `*`: in all.
    pub api_group: Option<String>,
    /// On which path that is no object's, such as `/version`.
    pub path: Option<String>,
}

/// Why a line cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The file is wrong already.
    #[error("the file cannot be read: {0}")]
    File(LineNote),
    /// A name.
    #[error("{what} {text}")]
    Name {
        /// Which one.
        what: &'static str,
        /// What is wrong.
        text: &'static str,
    },
    /// The rule says nothing, or too much.
    #[error("{0}")]
    Rule(&'static str),
}

impl Names {
    /// Those in these files; a file that cannot be read adds none.
    #[must_use]
    pub fn of<'a>(
        tokens: impl IntoIterator<Item = &'a [u8]>,
        policies: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut users = BTreeSet::new();
        let mut groups: BTreeSet<String> = ALWAYS.map(str::to_owned).into();
        for entry in
            tokens.into_iter().filter_map(|bytes| parse_tokens(bytes).ok()).flat_map(|read| read.value)
        {
            users.insert(entry.identity.username);
            groups.extend(entry.identity.groups);
        }
        for read in policies.into_iter().filter_map(|bytes| Policies::parse(bytes).ok()) {
            for (user, group) in read.value.subjects() {
                users.insert(user.to_owned());
                groups.insert(group.to_owned());
            }
        }
        let named = |all: BTreeSet<String>| all.into_iter().filter(|name| !matches!(name.as_str(), "" | "*"));
        Self { users: named(users).collect(), groups: named(groups).collect() }
    }
}

/// A token file with one more line. What was there stays as it is, byte by byte.
///
/// # Errors
/// When the file is wrong already, or a name cannot stand in it.
pub fn with_token(bytes: &[u8], new: &NewToken, token: &str) -> Result<Vec<u8>, GrantError> {
    let entries =
        if blank(bytes)? { Vec::new() } else { parse_tokens(bytes).map_err(GrantError::File)?.value };
    name("the user's name", &new.user)?;
    for group in &new.groups {
        name("a group", group)?;
        if group.contains(',') {
            return Err(GrantError::Name { what: "a group", text: "cannot hold a comma" });
        }
    }
    let next =
        || entries.iter().filter_map(|entry| entry.identity.uid.parse::<u64>().ok()).max().unwrap_or(0) + 1;
    let uid = new.uid.clone().unwrap_or_else(|| next().to_string());
    name("the uid", &uid)?;
    let mut line = [token, &new.user, &uid].map(field).join(",");
    if !new.groups.is_empty() {
        line.push_str(&format!(",\"{}\"", new.groups.join(",").replace('"', "\"\"")));
    }
    let text = with_line(bytes, &line);
    // The reader has the last word.
    parse_tokens(&text).map_err(GrantError::File)?;
    Ok(text)
}

/// A policy with one more line. What was there stays as it is, byte by byte.
///
/// # Errors
/// When the file is wrong already, or the rule says nothing.
pub fn with_rule(bytes: &[u8], new: &NewRule) -> Result<Vec<u8>, GrantError> {
    if !blank(bytes)? {
        Policies::parse(bytes).map_err(GrantError::File)?;
    }
    match (&new.user, &new.group) {
        (Some(user), None) => name("the user's name", user)?,
        (None, Some(group)) => name("the group", group)?,
        _ => return Err(GrantError::Rule("a rule is for a user or for a group: name one of the two")),
    }
    if new.resource.is_none() && new.path.is_none() {
        return Err(GrantError::Rule("a rule is about a resource (* for all) or about a path (* for all)"));
    }
    if new.path.as_ref().is_some_and(|path| path != "*" && !path.starts_with('/')) {
        return Err(GrantError::Rule("a path begins with a slash, or is *"));
    }
    let texts = [
        ("user", &new.user),
        ("group", &new.group),
        ("namespace", &new.namespace),
        ("resource", &new.resource),
        ("apiGroup", &new.api_group),
        ("nonResourcePath", &new.path),
    ];
    let mut spec: Map<String, Value> =
        texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?)))).collect();
    if new.readonly {
        spec.insert("readonly".to_owned(), Value::Bool(true));
    }
    let line =
        json!({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec});
    let text = with_line(bytes, &line.to_string());
    Policies::parse(&text).map_err(GrantError::File)?;
    Ok(text)
}

fn blank(bytes: &[u8]) -> Result<bool, GrantError> {
    Ok(utf8(bytes).map_err(GrantError::File)?.trim().is_empty())
}

fn name(what: &'static str, text: &str) -> Result<(), GrantError> {
    let wrong = |text| Err(GrantError::Name { what, text });
    match text {
        "" => wrong("is missing"),
        text if text.len() > NAME_LIMIT => wrong("is longer than 253 bytes"),
        text if text.trim() != text => wrong("begins or ends with a blank"),
        text if text.chars().any(char::is_control) => wrong("holds a control character"),
        _ => Ok(()),
    }
}

fn field(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn with_line(bytes: &[u8], line: &str) -> Vec<u8> {
    let mut text = bytes.to_vec();
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: &str = "t1,olga,7,\"ops,dev\"\r\nt2,robot,x";
    const RULES: &str = "# rules\n{\"apiVersion\": \"abac.authorization.kubernetes.io/v1beta1\", \"kind\": \"Policy\", \"spec\": {\"group\": \"auditors\", \"resource\": \"*\", \"readonly\": true}}\n";

    #[test]
    fn a_line_is_added_and_nothing_else_is_changed() {
        let new =
            NewToken { user: "pa,ul \"x\"".into(), uid: None, groups: vec!["ops".into(), "a b".into()] };
        let text = with_token(TOKENS.as_bytes(), &new, "t3").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, format!("{TOKENS}\nt3,\"pa,ul \"\"x\"\"\",8,\"ops,a b\"\n"));
        let added = parse_tokens(text.as_bytes()).unwrap().value.pop().unwrap();
        assert_eq!((added.identity.username, added.identity.groups), (new.user, new.groups));
        assert_eq!(
            with_token(b"", &NewToken { user: "a".into(), ..NewToken::default() }, "t").unwrap(),
            b"t,a,1\n"
        );

        let rule = NewRule {
            group: Some("ops".into()),
            namespace: Some("apps".into()),
            resource: Some("pods".into()),
            ..NewRule::default()
        };
        let text = String::from_utf8(with_rule(RULES.as_bytes(), &rule).unwrap()).unwrap();
        let line = text.strip_prefix(RULES).unwrap();
        assert!(line.contains(r#""spec":{"group":"ops","namespace":"apps","resource":"pods"}"#), "{line}");
    }

    #[test]
    fn what_cannot_stand_there_is_refused() {
        let token = |user: &str, group: &str| {
            let groups = if group.is_empty() { vec![] } else { vec![group.to_owned()] };
            with_token(TOKENS.as_bytes(), &NewToken { user: user.into(), uid: None, groups }, "t3")
        };
        for (user, group) in [("", ""), (" a", ""), ("a\nb", ""), ("a", "x,y"), ("a", "x\u{1b}")] {
            assert!(token(user, group).is_err(), "{user:?} {group:?}");
        }
        assert!(
            with_token(TOKENS.as_bytes(), &NewToken { user: "a".into(), ..NewToken::default() }, "t1")
                .is_err(),
            "twice"
        );
        assert!(matches!(with_token(b"one,two", &NewToken::default(), "t"), Err(GrantError::File(_))));
        let rule = |rule: &NewRule| with_rule(RULES.as_bytes(), rule).is_err();
        let user = || Some("a".to_owned());
        assert!(rule(&NewRule { user: user(), ..NewRule::default() }), "about nothing");
        assert!(rule(&NewRule { user: user(), group: user(), resource: user(), ..NewRule::default() }));
        assert!(rule(&NewRule { resource: user(), ..NewRule::default() }), "for nobody");
        assert!(rule(&NewRule { user: user(), path: Some("version".into()), ..NewRule::default() }));
    }

    #[test]
    fn names_are_those_of_both_files() {
        let names = Names::of([TOKENS.as_bytes(), b"broken"], [RULES.as_bytes()]);
        assert_eq!(names.users, ["olga", "robot"]);
        assert_eq!(
            names.groups,
            ["auditors", "dev", "ops", "system:authenticated", "system:masters", "system:unauthenticated"]
        );
    }
}
