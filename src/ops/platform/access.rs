//! Tokens, kubeconfigs, the first policy, and where the API server asks.

use serde_json::Value;

use super::batch::Batch;
use crate::config::Secret;
use crate::domain::environment::EnvironmentVariables;
use crate::domain::kube_auth::{GrantError, NewToken, parse_tokens, with_rule, with_token};
use crate::domain::platform::{Access, Kubeconfig, POLICY, TOKENS, accesses, kubeconfig, rules, webhooks};
use crate::ops::OpError;
use crate::ops::secrets::new_token;

pub(super) async fn make(
    batch: &mut Batch<'_>,
    variables: &EnvironmentVariables,
    ca: &[u8],
) -> Result<(), OpError> {
    let there = batch.here(TOKENS).await?;
    let mut tokens = there.as_ref().map(|here| here.bytes.clone()).unwrap_or_default();
    let before = tokens.len();
    for access in &accesses() {
        give(batch, variables, ca, access, &mut tokens).await?;
    }
    if tokens.len() == before {
        batch.keep();
    } else {
        batch.add(TOKENS, tokens, there);
    }
    batch.make(POLICY, policy).await?;
    for (key, webhook) in webhooks(variables) {
        batch.make(key, || yaml(key, &webhook)).await?;
    }
    Ok(())
}

/// One user: the token that the kubeconfig or the file of tokens has, or a new one; then what is missing of the two.
async fn give(
    batch: &mut Batch<'_>,
    variables: &EnvironmentVariables,
    ca: &[u8],
    access: &Access,
    tokens: &mut Vec<u8>,
) -> Result<(), OpError> {
    let there = batch.here(access.path).await?;
    let of_config = there.as_ref().map(|here| token_of(access.path, &here.bytes)).transpose()?;
    let of_file = token_in(tokens, access.user)?;
    let token = match (&of_config, &of_file) {
        (Some(token), _) | (None, Some(token)) => token.clone(),
        (None, None) => new_token()?,
    };
    let known = of_file.as_ref().is_some_and(|known| known.reveal() == token.reveal());
    if !known && of_file.is_some() {
        batch.note(format!(
            "{} has another token than {TOKENS} has for {}: one of the two was replaced",
            access.path, access.user
        ));
    } else if !known {
        let groups = access.groups.iter().map(|group| (*group).to_owned()).collect();
        let new = NewToken { user: access.user.to_owned(), uid: None, groups };
        *tokens = with_token(tokens, &new, token.reveal()).map_err(|error| wrong(TOKENS, &error))?;
    }
    if there.is_some() {
        batch.keep();
        return Ok(());
    }
    let of = Kubeconfig { access, token: token.reveal(), ca };
    batch.add(access.path, yaml(access.path, &kubeconfig(variables, &of))?, None);
    Ok(())
}

fn policy() -> Result<Vec<u8>, OpError> {
    rules()
        .iter()
        .try_fold(Vec::new(), |text, rule| with_rule(&text, rule).map_err(|error| wrong(POLICY, &error)))
}

/// A user's token in the file of tokens.
fn token_in(tokens: &[u8], user: &str) -> Result<Option<Secret>, OpError> {
    if tokens.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let read = parse_tokens(tokens).map_err(|note| OpError::Invalid(format!("{TOKENS}: {note}")))?;
    let found = read.value.into_iter().find(|entry| entry.identity.username == user);
    Ok(found.map(|entry| Secret::new(entry.token)))
}

/// The token of a kubeconfig's first user.
fn token_of(key: &str, bytes: &[u8]) -> Result<Secret, OpError> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let read: Option<Value> = serde_saphyr::from_str(text).ok();
    let token = read.as_ref().and_then(|read| read.pointer("/users/0/user/token")?.as_str());
    let token = token.filter(|token| !token.is_empty());
    token.map(|token| Secret::new(token.to_owned())).ok_or_else(|| {
        OpError::Invalid(format!(
            "{key} is no kubeconfig with a token: bring it back (`secrets history`), or remove it"
        ))
    })
}

fn yaml(key: &str, value: &Value) -> Result<Vec<u8>, OpError> {
    let text = serde_saphyr::to_string(value);
    text.map(String::into_bytes).map_err(|error| OpError::Invalid(format!("cannot write {key}: {error}")))
}

fn wrong(key: &str, error: &GrantError) -> OpError {
    OpError::Invalid(format!("{key}: {error}"))
}
