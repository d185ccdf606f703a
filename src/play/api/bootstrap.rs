//! Bootstrap tokens: how they are read, and what who shows one may do.
//!
//! In a real cluster the kubelet of a new machine gets a client certificate for a bootstrap token, for whatever node name it asks, and
//! makes its Node with that. Here nobody signs certificates, and the token itself may do what the kubelet does in the end: make a Node,
//! look at it, and write its status.

use data_encoding::BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use super::identity::{AUTHENTICATED, Caller};
use super::kinds::Kind;
use super::meta::{self, text};
use super::signer;
use super::store::{Inner, Key};
use crate::domain::{BootstrapToken, is_token_group};

/// Where tokens are.
pub(super) const TOKENS: &str = "kube-system";
/// How the names of their Secrets begin.
pub(super) const PREFIX: &str = "bootstrap-token-";
/// The group of everybody who shows one.
pub(super) const GROUP: &str = "system:bootstrappers";

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Signing,
    Authentication,
}

/// A token that is good for something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) expires: Option<Timestamp>,
    groups: Vec<String>,
}

impl Token {
    /// Reads a Secret; `None` for what a real cluster ignores: malformed, expired, or not meant for this.
    pub(super) fn read(secret: &Value, usage: Usage, now: Timestamp) -> Option<Self> {
        let field = |name: &str| {
            let raw = secret.get("data")?.get(name)?.as_str()?;
            String::from_utf8(BASE64.decode(raw.as_bytes()).ok()?).ok()
        };
        let id = field("token-id")?;
        let fits = id.len() == 6 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let named = text(secret, "/metadata/name").and_then(|n| n.strip_prefix(PREFIX)) == Some(id.as_str());
        let typed = text(secret, "/type") == Some("bootstrap.kubernetes.io/token");
        let meant = match usage {
            Usage::Signing => "usage-bootstrap-signing",
            Usage::Authentication => "usage-bootstrap-authentication",
        };
        if !fits || !named || !typed || meta::is_going(secret) || field(meant).as_deref() != Some("true") {
            return None;
        }
        let expires = match field("expiration").filter(|e| !e.is_empty()) {
            None => None,
            // An expiry that cannot be read counts as passed.
            Some(expiration) => Some(expiration.parse::<Timestamp>().ok().filter(|at| *at > now)?),
        };
        let secret = field("token-secret").filter(|s| !s.is_empty())?;
        let groups = field("auth-extra-groups").unwrap_or_default();
        let groups = groups.split(',').map(str::trim).filter(|group| is_token_group(group));
        Some(Self { id, secret, expires, groups: groups.map(str::to_owned).collect() })
    }
}

/// Who shows this token; `None` when there is no such token, or it is not good any more.
pub(super) fn caller(inner: &Inner, given: &BootstrapToken, now: Timestamp) -> Option<Caller> {
    let key = Key::new(Kind::Secret, TOKENS, &given.secret_name());
    let token = Token::read(&inner.get(&key)?.value(), Usage::Authentication, now)?;
    if !bool::from(token.secret.as_bytes().ct_eq(given.secret().as_bytes())) {
        return None;
    }
    let groups = [GROUP.to_owned()].into_iter().chain(token.groups);
    let groups = groups.chain([AUTHENTICATED.to_owned()]).collect();
    Some(Caller { name: format!("system:bootstrap:{}", token.id), groups, ..Caller::default() })
}

/// What a kubelet does to join.
pub(super) fn rules() -> [Value; 3] {
    [
        json!({ "verbs": ["create", "get"], "apiGroups": [""], "resources": ["nodes"] }),
        json!({ "verbs": ["patch", "update"], "apiGroups": [""], "resources": ["nodes/status"] }),
        json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [signer::CLUSTER_INFO],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(secret: &Value, now: Timestamp) -> Option<Token> {
        Token::read(secret, Usage::Signing, now)
    }

    fn secret(expiration: Option<&str>) -> Value {
        let encode = |text: &str| BASE64.encode(text.as_bytes());
        let mut secret = json!({
            "metadata": { "name": "bootstrap-token-abcdef" },
            "type": "bootstrap.kubernetes.io/token",
            "data": {
                "token-id": encode("abcdef"),
                "token-secret": encode("0123456789abcdef"),
                "usage-bootstrap-signing": encode("true"),
                "auth-extra-groups": encode("system:bootstrappers:a, system:masters"),
            },
        });
        if let Some(expiration) = expiration {
            secret["data"]["expiration"] = encode(expiration).into();
        }
        secret
    }

    #[test]
    fn only_a_valid_token_signs() {
        let now: Timestamp = "2026-12-01T10:00:00Z".parse().unwrap();
        assert!(read(&secret(None), now).is_some());
        assert!(read(&secret(Some("2026-12-01T11:00:00+01:00")), now).is_none());
        assert!(read(&secret(Some("2026-12-01T10:00:01Z")), now).is_some());
        assert!(read(&secret(Some("tomorrow")), now).is_none());
        for (pointer, value) in [
            ("/type", "Opaque"),
            ("/metadata/name", "bootstrap-token-abcdeg"),
            ("/data/token-id", "QUJDREVG"),
            ("/data/usage-bootstrap-signing", "ZmFsc2U="),
            ("/data/token-secret", ""),
        ] {
            let mut broken = secret(None);
            *broken.pointer_mut(pointer).unwrap() = value.into();
            assert!(read(&broken, now).is_none(), "{pointer}");
        }
    }

    #[test]
    fn a_token_is_good_for_what_it_says_and_gives_no_other_groups() {
        let token = read(&secret(None), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(token.groups, ["system:bootstrappers:a"]);
        assert_eq!(Token::read(&secret(None), Usage::Authentication, Timestamp::UNIX_EPOCH), None);
    }
}
