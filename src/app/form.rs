//! Forms: what is to be done, field by field, checked before it goes out.

use std::collections::BTreeMap;

use super::change::Change;
use super::dialog::Subject;
use super::edit::LineEdit;
use super::secrets::SecretDeed;
use super::state::State;
use super::time;
use crate::config::Secret;
use crate::domain::approvals;
use crate::domain::kube_auth::{Names, NewRule, NewToken, with_rule, with_token};
use crate::domain::secret::{Format, shown};
use crate::domain::target::{self, LabelChange, NewTarget};
use crate::domain::{NODE_GROUP, Parameters, is_token_group};

/// What a form is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Approve these runs with other parameters than the usual ones.
    Approve(Vec<Subject>),
    /// Add a target.
    AddTarget,
    /// Change the labels of these targets.
    LabelTargets(Vec<String>),
    /// Mint a token.
    MintToken,
    /// Hold all approvals.
    Hold,
    /// Give the code of an MFA device.
    Code,
    /// Give somebody a token: a line of the file with this key.
    GrantToken(String),
    /// Let somebody do something: a line of the file with this key.
    GrantRule(String),
}

/// One field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormField {
    /// What it is called.
    pub name: &'static str,
    /// What was typed.
    pub input: LineEdit,
    /// What it wants.
    pub hint: &'static str,
    /// Names that complete what is typed.
    pub known: Vec<String>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// A form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// What is asked.
    pub title: String,
    /// What is to be known first.
    pub warnings: Vec<String>,
    /// The fields.
    pub fields: Vec<FormField>,
    /// The field with the focus; one past the last: the answer that does it; two past: the way out.
    pub focus: usize,
    /// The word on the answer that does it.
    pub label: &'static str,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a form asks for, once it is right.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// A change of something that is listed.
    Change(Change),
    /// Hold all approvals, for this reason.
    Hold(String),
    /// Take this code of an MFA device.
    Code(Secret),
    /// Add a line to a file of kube-auth.
    Grant(SecretDeed),
    /// Approve these runs so.
    Approve(Vec<Subject>, Parameters),
}

/// A mistake: the number of the field, and what is wrong.
type Mistake = (usize, String);

impl Form {
    fn new(
        title: String,
        label: &'static str,
        purpose: Purpose,
        fields: Vec<(&'static str, String, &'static str)>,
    ) -> Self {
        let field = |(name, text, hint): (_, String, _)| FormField {
            name,
            input: LineEdit::new(&text),
            hint,
            known: Vec::new(),
            problem: None,
        };
        let fields = fields.into_iter().map(field).collect();
        Self { title, warnings: Vec::new(), fields, focus: 0, label, purpose }
    }

    /// A target to add.
    #[must_use]
    pub fn add_target() -> Self {
        let fields = vec![
            ("target", String::new(), "host, or host:port"),
            ("labels", String::new(), "name=value, with blanks between; host is set by itself"),
        ];
        Self::new("Add a target".to_owned(), "add", Purpose::AddTarget, fields)
    }

    /// Other labels for targets; those of a single one are there to be changed.
    #[must_use]
    pub fn label_targets(addresses: Vec<String>, labels: &[String]) -> Self {
        let title = match addresses.as_slice() {
            [one] => format!("Labels of {one}"),
            several => format!("Labels of {} targets", several.len()),
        };
        let hint = "name=value sets one, name- takes one away";
        let fields = vec![("labels", labels.join(" "), hint)];
        Self::new(title, "set", Purpose::LabelTargets(addresses), fields)
    }

    /// A token to mint.
    #[must_use]
    pub fn mint_token() -> Self {
        let fields = vec![
            ("lifetime", "1h".to_owned(), "such as 30m, 2h or 1d"),
            ("groups", NODE_GROUP.to_owned(), "system:bootstrappers:…, with blanks between"),
            ("what for", String::new(), "a note for others"),
        ];
        Self::new("Mint a token".to_owned(), "mint", Purpose::MintToken, fields)
    }

    /// Why all approvals are held.
    #[must_use]
    pub fn hold() -> Self {
        let fields = vec![("reason", String::new(), "everybody who wants to approve reads it")];
        Self::new("Hold all approvals".to_owned(), "hold", Purpose::Hold, fields)
    }

    /// The code of an MFA device.
    #[must_use]
    pub fn code() -> Self {
        let fields = vec![("code", String::new(), "six digits, as the device shows them now")];
        Self::new("Code of your MFA device".to_owned(), "give", Purpose::Code, fields)
    }

    /// A line of kube-auth's files: which of the two, its name says. What is known completes what is typed.
    #[must_use]
    pub fn grant(key: &str, names: &Names) -> Self {
        let fields = |all: &[(&'static str, &'static str)]| {
            all.iter().map(|(name, hint)| (*name, String::new(), *hint)).collect()
        };
        let title = |what: &str| format!("{what} in {}", shown(key));
        let mut form = if Format::of(key) == Format::Tokens {
            let all = [
                ("user", "who gets it"),
                ("groups", "with blanks between"),
                ("uid", "empty: the next free number"),
            ];
            Self::new(title("A token"), "give", Purpose::GrantToken(key.to_owned()), fields(&all))
        } else {
            let all = [
                ("user", "who may do it; empty: a group"),
                ("group", "whose members may do it; empty: a user"),
                ("namespace", "* for all; empty: none"),
                ("resource", "such as pods; * for all; empty: a path"),
                ("API group", "such as apps; * for all; empty: the core group"),
                ("path", "such as /version; * for all; empty: a resource"),
                ("only look", "yes, or empty: also change"),
            ];
            Self::new(title("A rule"), "add", Purpose::GrantRule(key.to_owned()), fields(&all))
        };
        for field in &mut form.fields {
            field.known = match field.name {
                "user" => names.users.clone(),
                "group" | "groups" => names.groups.clone(),
                _ => Vec::new(),
            };
        }
        form
    }

    /// Everything that an approval fixes.
    #[must_use]
    pub fn approve(title: String, subjects: Vec<Subject>, usual: &Parameters) -> Self {
        let fields = vec![
            ("playbook", usual.playbook.clone(), "a path inside the policy"),
            ("branch", usual.branch.clone().unwrap_or_default(), "empty: the environment's"),
            ("groups", usual.groups.join(" "), "the inventory groups, with blanks between"),
            ("tags", usual.tags.join(" "), "only tasks with these; empty: all"),
            (
                "limit",
                usual.limit.clone().unwrap_or_default(),
                "an Ansible limit inside the run; empty: none",
            ),
            ("variables", String::new(), "name=value, with blanks between; quote what has blanks"),
        ];
        Self::new(title, "approve", Purpose::Approve(subjects), fields)
    }

    /// What the form asks for.
    ///
    /// # Errors
    /// The first field that cannot be used, and why.
    pub fn read(&self, state: &State) -> Result<Wanted, Mistake> {
        match &self.purpose {
            Purpose::AddTarget => {
                let port = state.environment.target_port;
                let address = target::address(self.text(0).trim(), port).map_err(|e| (0, e.to_string()))?;
                let labels = self.words(1)?.iter().map(|word| target::label(word)).collect::<Result<_, _>>();
                let labels = labels.map_err(|e| (1, e.to_string()))?;
                Ok(Wanted::Change(Change::AddTarget(NewTarget::given(address, labels))))
            }
            Purpose::LabelTargets(addresses) => {
                let words = self.words(0)?;
                let changes = words.iter().map(|word| target::label_change(word));
                let changes: LabelChange =
                    changes.collect::<Result<_, _>>().map_err(|e| (0, e.to_string()))?;
                if changes.is_empty() {
                    return Err((0, "write at least one label".to_owned()));
                }
                Ok(Wanted::Change(Change::LabelTargets(addresses.clone(), changes)))
            }
            Purpose::MintToken => {
                let lifetime = time::parse_seconds(self.text(0).trim()).and_then(|s| u64::try_from(s).ok());
                let lifetime = lifetime.filter(|seconds| *seconds > 0);
                let groups = self.words(1)?;
                if let Some(wrong) = groups.iter().find(|group| !is_token_group(group)) {
                    return Err((
                        1,
                        format!("{wrong} is none that a token may give: system:bootstrappers:…"),
                    ));
                }
                Ok(Wanted::Change(Change::MintToken {
                    lifetime: lifetime.ok_or((0, "write 30m, 2h or 1d".to_owned()))?,
                    groups,
                    description: self.text(2).trim().to_owned(),
                }))
            }
            Purpose::Hold => {
                Ok(Wanted::Hold(approvals::reason(self.text(0)).map_err(|e| (0, e.to_string()))?))
            }
            Purpose::Code => {
                let code: String = self.text(0).chars().filter(|c| !c.is_whitespace()).collect();
                let right = code.len() == 6 && code.bytes().all(|b| b.is_ascii_digit());
                if right {
                    Ok(Wanted::Code(Secret::new(code)))
                } else {
                    Err((0, "write the six digits".to_owned()))
                }
            }
            Purpose::GrantToken(key) => {
                let new = NewToken { user: self.needed(0)?, groups: self.words(1)?, uid: self.some(2) };
                // What cannot stand in the file is said here, and not only when it is uploaded.
                with_token(b"", &new, "t").map_err(|e| (0, e.to_string()))?;
                Ok(Wanted::Grant(SecretDeed::GrantToken(key.clone(), new)))
            }
            Purpose::GrantRule(key) => {
                let new = self.rule()?;
                with_rule(b"", &new).map_err(|e| (0, e.to_string()))?;
                Ok(Wanted::Grant(SecretDeed::GrantRule(key.clone(), new)))
            }
            Purpose::Approve(subjects) => Ok(Wanted::Approve(subjects.clone(), self.parameters()?)),
        }
    }

    fn rule(&self) -> Result<NewRule, Mistake> {
        let readonly = match self.text(6).trim() {
            "" | "no" => false,
            "yes" => true,
            _ => return Err((6, "write yes, or leave it empty".to_owned())),
        };
        Ok(NewRule {
            user: self.some(0),
            group: self.some(1),
            namespace: self.some(2),
            resource: self.some(3),
            api_group: self.some(4),
            path: self.some(5),
            readonly,
        })
    }

    /// What was typed; none: nothing.
    fn some(&self, at: usize) -> Option<String> {
        Some(self.text(at).trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn needed(&self, at: usize) -> Result<String, Mistake> {
        self.some(at).ok_or((at, "it is needed".to_owned()))
    }

    fn parameters(&self) -> Result<Parameters, Mistake> {
        let mut variables = BTreeMap::new();
        for word in self.words(5)? {
            let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                return Err((5, format!("{word}: write name=value")));
            };
            // As on the command line: what reads as JSON is that, everything else a text.
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            variables.insert(name.to_owned(), value);
        }
        let parameters = Parameters {
            playbook: self.some(0).ok_or((0, "a playbook is needed".to_owned()))?,
            branch: self.some(1),
            groups: self.words(2)?,
            tags: self.words(3)?,
            limit: self.some(4),
            variables,
            check: false,
        };
        parameters.check_playbook().map_err(|e| (0, e))?;
        let wrong = |at: usize, part: Parameters| part.check().map_err(|e| (at, e));
        wrong(1, Parameters { branch: parameters.branch.clone(), ..Parameters::default() })?;
        wrong(2, Parameters { groups: parameters.groups.clone(), ..Parameters::default() })?;
        wrong(4, Parameters { limit: parameters.limit.clone(), ..Parameters::default() })?;
        wrong(5, Parameters { variables: parameters.variables.clone(), ..Parameters::default() })?;
        Ok(parameters)
    }

    /// Text was pasted.
    pub fn paste(&mut self, text: &str) {
        if let Some(field) = self.fields.get_mut(self.focus) {
            field.input.insert(text);
            field.problem = None;
        }
    }

    /// Completes the word that is typed, where the cursor is at its end. Whether there was something to complete.
    pub fn complete(&mut self) -> bool {
        let Some(field) = self.fields.get_mut(self.focus) else { return false };
        let Some(rest) = field.input.completion(&field.known) else { return false };
        field.input.insert(rest);
        field.problem = None;
        true
    }

    fn text(&self, at: usize) -> &str {
        self.fields.get(at).map_or("", |field| field.input.text())
    }

    /// The words of a field, quoted as in a shell.
    fn words(&self, at: usize) -> Result<Vec<String>, Mistake> {
        shell_words::split(self.text(at)).map_err(|_| (at, "a quote is not closed".to_owned()))
    }
}
