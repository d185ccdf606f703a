//! What a file is, by its name.

use serde::Serialize;

/// What a file is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The tokens of [`crate::domain::kube_auth`].
    Tokens,
    /// The ABAC policy of [`crate::domain::kube_auth`].
    Policy,
    /// YAML, one document or several.
    Yaml,
    /// JSON.
    Json,
    /// JSON, a value a line.
    JsonLines,
    /// Certificates, keys and the like, in PEM.
    Pem,
    /// `name = value` lines.
    Pairs,
    /// Nothing that is known.
    Other,
}

impl Format {
    /// What a key's last part says, in capitals or not.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let name = key.rsplit('/').next().unwrap_or(key).to_ascii_lowercase();
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        let is_policy = matches!(stem, "abac" | "abac-policy" | "abac_policy");
        match extension {
            "csv" if stem == "tokens" => Self::Tokens,
            "json" | "jsonl" if is_policy => Self::Policy,
            "jsonl" if stem == "policy" => Self::Policy,
            "yaml" | "yml" => Self::Yaml,
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::JsonLines,
            "pem" | "crt" | "cer" | "key" => Self::Pem,
            "env" | "properties" | "tfvars" | "ini" => Self::Pairs,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_it_is() {
        let cases = [
            ("secure/auth/tokens.csv", Format::Tokens),
            ("other-tokens.csv", Format::Other),
            ("secure/auth/policy.jsonl", Format::Policy),
            ("abac-policy.json", Format::Policy),
            ("abac.jsonl", Format::Policy),
            // An IAM policy, for one.
            ("policy.json", Format::Json),
            ("audit.jsonl", Format::JsonLines),
            ("manifests/a.YAML", Format::Yaml),
            ("a.yml", Format::Yaml),
            ("a.yaml.j2", Format::Other),
            ("tls.crt", Format::Pem),
            ("tls.key", Format::Pem),
            (".env", Format::Pairs),
            ("yaml", Format::Other),
            ("a.json/b", Format::Other),
            ("", Format::Other),
        ];
        for (key, format) in cases {
            assert_eq!(Format::of(key), format, "{key}");
        }
    }
}
