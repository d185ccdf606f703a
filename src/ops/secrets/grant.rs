//! Giving somebody a token, or a rule, in the files of kube-auth.

use super::look::name;
use super::{Saved, Secrets};
use crate::backend::s3::Which;
use crate::config::Secret;
use crate::domain::kube_auth::{GrantError, Names, NewRule, NewToken, with_rule, with_token};
use crate::domain::secret::Format;
use crate::ops::OpError;

/// How often it is tried when others write at the same time: a line can be added to whatever they made of it.
const TRIES: usize = 4;

/// What is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// A token.
    Token(NewToken),
    /// A rule.
    Rule(NewRule),
}

impl Grant {
    /// The kind of file that it is a line of.
    #[must_use]
    pub fn format(&self) -> Format {
        match self {
            Self::Token(_) => Format::Tokens,
            Self::Rule(_) => Format::Policy,
        }
    }
}

/// What was given.
#[derive(Debug)]
pub struct Granted {
    /// The file's key.
    pub key: String,
    /// The new token: nobody is told again, but by the file.
    pub token: Option<Secret>,
    /// Why the local copy is not the same now, if it is not.
    pub local: Option<String>,
}

impl Secrets {
    /// The users and groups that the bucket's files of tokens and rules know.
    ///
    /// # Errors
    /// When the bucket cannot be read.
    pub async fn names(&self) -> Result<Names, OpError> {
        let mut tokens = Vec::new();
        let mut policies = Vec::new();
        for key in self.keys_of(&[Format::Tokens, Format::Policy]).await? {
            let Some((_, bytes)) = self.content(&key, &Which::Newest).await? else { continue };
            if Format::of(&key) == Format::Tokens { tokens.push(bytes) } else { policies.push(bytes) }
        }
        Ok(Names::of(tokens.iter().map(Vec::as_slice), policies.iter().map(Vec::as_slice)))
    }

    /// Adds a line to a file; without a key to the only one of its kind. Who writes at the same time loses nothing.
    ///
    /// # Errors
    /// When there is no such file or several, the line cannot stand in it, or nothing may be changed.
    pub async fn grant(&self, key: Option<&str>, grant: &Grant) -> Result<Granted, OpError> {
        let key = match key {
            Some(key) => key.to_owned(),
            None => self.only(grant.format()).await?,
        };
        if Format::of(&key) != grant.format() {
            return Err(OpError::Invalid(format!("{} is not a file of that kind, by its name", name(&key))));
        }
        let token = match grant {
            Grant::Token(_) => Some(new_token()?),
            Grant::Rule(_) => None,
        };
        for _ in 0..TRIES {
            let editing = self.begin(&key).await?;
            let text = match (grant, &token) {
                (Grant::Token(new), Some(token)) => with_token(&editing.text, new, token.reveal()),
                (Grant::Token(_), None) => return Err(OpError::Invalid("there is no token".to_owned())),
                (Grant::Rule(new), _) => with_rule(&editing.text, new),
            };
            match self.save(&editing, text.map_err(|error| wrong(&key, &error))?).await? {
                Saved::Uploaded { local } => return Ok(Granted { key, token, local }),
                Saved::Apart { .. } => {}
            }
        }
        Err(OpError::Contended(format!("add a line to {}", name(&key))))
    }

    async fn keys_of(&self, formats: &[Format]) -> Result<Vec<String>, OpError> {
        let all = self.inner.bucket.list_all("").await?;
        Ok(all
            .into_iter()
            .map(|object| object.key)
            .filter(|key| formats.contains(&Format::of(key)))
            .collect())
    }

    async fn only(&self, format: Format) -> Result<String, OpError> {
        let mut keys = self.keys_of(&[format]).await?;
        let what = if format == Format::Tokens { "tokens.csv" } else { "abac.jsonl" };
        match (keys.pop(), keys.is_empty()) {
            (Some(key), true) => Ok(key),
            (None, _) => Err(OpError::NotFound(format!("{what} in the bucket: name its key"))),
            (Some(last), false) => {
                keys.push(last);
                let names: Vec<String> = keys.iter().map(|key| name(key)).collect();
                Err(OpError::Invalid(format!("there are several: name one of {}", names.join(", "))))
            }
        }
    }
}

fn wrong(key: &str, error: &GrantError) -> OpError {
    OpError::Invalid(format!("{}: {error}", name(key)))
}

/// 256 random bits, in characters that any header may hold.
pub(in crate::ops) fn new_token() -> Result<Secret, OpError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| OpError::Missing(format!("there are no random numbers: {error}")))?;
    Ok(Secret::new(data_encoding::BASE64URL_NOPAD.encode(&bytes)))
}
