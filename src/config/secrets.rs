//! What must not be told to anybody: every secret that a configuration holds, to take it out of what is shown of other things.

use std::path::PathBuf;

use serde_json::Value;

use super::convert::is_telling;
use super::merged::Config;
use super::settings::{AraCredentials, Environment, Secret};

/// Shorter ones would take half of a text away with them.
const SHORTEST: usize = 4;

impl Config {
    /// Every secret in plain text: of all environments, in the form in which it is written and in the one in which it is used.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        let mut found = Vec::new();
        for environment in self.environments.values() {
            of_environment(environment, &mut found);
        }
        found.retain(|text| text.chars().count() >= SHORTEST);
        found.sort_unstable();
        found.dedup();
        // A long one that holds a short one goes first, else its rest stays.
        found.sort_by_key(|text| std::cmp::Reverse(text.len()));
        found.into_iter().map(Secret::new).collect()
    }

    /// The files whose whole content is a secret that is only read when it is needed.
    pub fn secret_files(&self) -> impl Iterator<Item = &PathBuf> {
        let hooks = self.environments.values().filter_map(|e| e.hook_token_file.as_ref());
        self.server.token_file.iter().chain(hooks)
    }
}

fn of_environment(environment: &Environment, found: &mut Vec<String>) {
    let Environment { amqp, ara, policy, .. } = environment;
    if let Some(amqp) = amqp {
        of_url(amqp.url.reveal(), found);
    }
    match ara.as_ref().map(|ara| &ara.credentials) {
        None | Some(AraCredentials::Anonymous) => {}
        Some(
            AraCredentials::Basic { password: secret, .. }
            | AraCredentials::Bearer(secret)
            | AraCredentials::Header { value: secret, .. },
        ) => found.push(secret.reveal().to_owned()),
    }
    of_url(&policy.source, found);
    for (name, value) in &policy.variables {
        of_variable(name, value, found);
    }
}

/// The password in a URL, or the user where there is none: that is often a token.
fn of_url(url: &str, found: &mut Vec<String>) {
    let Some((scheme, rest)) = url.split_once("://") else { return };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((who, _)) = authority.rsplit_once('@') else { return };
    let secret = match who.split_once(':') {
        Some((_, password)) => password,
        None if scheme == "ssh" => return,
        None => who,
    };
    found.push(secret.to_owned());
    let form = format!("={}", secret.replace('+', "%2B").replace('&', "%26"));
    found.extend(form_urlencoded::parse(form.as_bytes()).map(|(_, decoded)| decoded.into_owned()));
}

fn of_variable(name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| of_variable(name, value, found)),
        Value::Array(items) => items.iter().for_each(|value| of_variable(name, value, found)),
        Value::String(text) if is_telling(name) => found.push(text.clone()),
        Value::String(text) => of_url(text, found),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text without these secrets.
#[must_use]
pub fn redact(text: &str, secrets: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        if text.contains(secret.reveal()) {
            text = text.replace(secret.reveal(), super::MASK);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Sources, load_with};
    use super::*;

    #[test]
    fn all_secrets_of_a_configuration_are_known() {
        let variables = [
            ("HOSTWRIGHT_ENVIRONMENTS__LAN__POLICY__SOURCE", "https://gittoken@git.example.org/p.git"),
            ("HOSTWRIGHT_ENVIRONMENTS__LAN__AMQP__URL", "amqp://me:p%40ss+w@rabbit/%2f"),
            ("HOSTWRIGHT_ENVIRONMENTS__LAN__ARA__URL", "http://127.0.0.1:1"),
            ("HOSTWRIGHT_ENVIRONMENTS__LAN__ARA__TOKEN", "arat0ken"),
            (
                "HOSTWRIGHT_ENVIRONMENTS__LAN__POLICY__VARIABLES",
                "{db_password = \"hunter2\", n = {deep_token = \"abc\", url = \"https://u:inner@h/\"}}",
            ),
        ];
        let config = load_with(&Sources::default(), &variables.into_iter().collect()).unwrap();
        let all: Vec<String> = config.secrets().iter().map(|s| s.reveal().to_owned()).collect();
        assert_eq!(all, ["arat0ken", "gittoken", "p%40ss+w", "hunter2", "p@ss+w", "inner"]);
        assert_eq!(redact("a hunter2, p@ss+w.", &config.secrets()), "a ********, ********.");
    }

    #[test]
    fn a_secret_inside_another_leaves_nothing_of_it() {
        let secrets = ["secret-and-more", "secret"].map(Secret::new);
        assert_eq!(redact("x secret-and-more y secret", &secrets), "x ******** y ********");
    }
}
