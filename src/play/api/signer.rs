//! The bootstrap signer: for each valid token a signature of `cluster-info`, so that a host that knows the token can trust it.
//!
//! Does what the kube-controller-manager's signer does: a detached JWS (HS256, the token's id as key id, its secret as key) of
//! the key `kubeconfig`, under `jws-kubeconfig-<id>`; gone as soon as the token is gone or expired.

use std::collections::BTreeMap;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::kinds::Kind;
use super::meta::{self, text};
use super::status::Answer;
use super::store::{Key, Store};
use super::verbs::{self, Manner, Part};

/// Where `cluster-info` is.
pub(super) const NAMESPACE: &str = "kube-public";
/// What hosts read before they trust anything.
pub(super) const CLUSTER_INFO: &str = "cluster-info";
/// Where tokens are.
const TOKENS: &str = "kube-system";
const PREFIX: &str = "bootstrap-token-";
const SIGNATURE: &str = "jws-kubeconfig-";

/// A token that may sign.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    id: String,
    secret: String,
    expires: Option<Timestamp>,
}

/// Whether a change of this object may change the signatures.
pub(super) fn concerns(key: &Key) -> bool {
    match key.kind {
        Kind::Secret => key.namespace == TOKENS && key.name.starts_with(PREFIX),
        Kind::ConfigMap => key.namespace == NAMESPACE && key.name == CLUSTER_INFO,
        _ => false,
    }
}

/// Brings the signatures up to date and tells when the next token expires.
///
/// # Errors
/// When the state file cannot be written.
pub(super) fn sign(store: &Store, now: Timestamp) -> Answer<Option<Timestamp>> {
    let secrets: Vec<Value> = store.with(|inner| {
        let first = Key::new(Kind::Secret, TOKENS, PREFIX);
        let from = inner.from(std::ops::Bound::Included(&first));
        from.take_while(|s| concerns(&s.key)).filter(|s| !s.going).map(|s| s.value()).collect()
    });
    let tokens: Vec<Token> = secrets.iter().filter_map(|s| token(s, now)).collect();
    let key = Key::new(Kind::ConfigMap, NAMESPACE, CLUSTER_INFO);
    if store.with(|inner| inner.get(&key).is_some()) {
        let change = |map| Ok(signed(map, &tokens));
        verbs::update(store, key.kind.resource(), &key, Part::Main, Manner::default(), change)?;
    }
    Ok(tokens.into_iter().filter_map(|t| t.expires).min())
}

/// Reads a token; `None` for what the real signer ignores.
fn token(secret: &Value, now: Timestamp) -> Option<Token> {
    let field = |name: &str| {
        let raw = secret.get("data")?.get(name)?.as_str()?;
        String::from_utf8(BASE64.decode(raw.as_bytes()).ok()?).ok()
    };
    let id = field("token-id")?;
    let fits = id.len() == 6 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let named = text(secret, "/metadata/name").and_then(|n| n.strip_prefix(PREFIX)) == Some(id.as_str());
    let typed = text(secret, "/type") == Some("bootstrap.kubernetes.io/token");
    if !fits || !named || !typed || field("usage-bootstrap-signing").as_deref() != Some("true") {
        return None;
    }
    let expires = match field("expiration").filter(|e| !e.is_empty()) {
        None => None,
        // An expiry that cannot be read counts as passed.
        Some(expiration) => Some(expiration.parse::<Timestamp>().ok().filter(|at| *at > now)?),
    };
    Some(Token { id, secret: field("token-secret").filter(|s| !s.is_empty())?, expires })
}

/// `cluster-info` with exactly these tokens' signatures.
fn signed(mut map: Value, tokens: &[Token]) -> Value {
    let content = text(&map, "/data/kubeconfig").map(str::to_owned);
    let wanted: BTreeMap<String, String> = match &content {
        Some(content) => {
            tokens.iter().filter_map(|t| Some((format!("{SIGNATURE}{}", t.id), jws(content, t)?))).collect()
        }
        None => BTreeMap::new(),
    };
    let data = meta::child(&mut map, "data");
    if let Value::Object(data) = data {
        let kept: Map<String, Value> =
            std::mem::take(data).into_iter().filter(|(key, _)| !key.starts_with(SIGNATURE)).collect();
        *data = kept;
        data.extend(wanted.into_iter().map(|(key, value)| (key, Value::from(value))));
    }
    map
}

/// The detached signature: `header..signature`.
fn jws(content: &str, token: &Token) -> Option<String> {
    let header = json!({ "alg": "HS256", "kid": token.id }).to_string();
    let header = BASE64URL_NOPAD.encode(header.as_bytes());
    let mut mac = Hmac::<Sha256>::new_from_slice(token.secret.as_bytes()).ok()?;
    mac.update(header.as_bytes());
    mac.update(b".");
    mac.update(BASE64URL_NOPAD.encode(content.as_bytes()).as_bytes());
    Some(format!("{header}..{}", BASE64URL_NOPAD.encode(&mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(expiration: Option<&str>) -> Value {
        let encode = |text: &str| BASE64.encode(text.as_bytes());
        let mut secret = json!({
            "metadata": { "name": "bootstrap-token-abcdef" },
            "type": "bootstrap.kubernetes.io/token",
            "data": {
                "token-id": encode("abcdef"),
                "token-secret": encode("0123456789abcdef"),
                "usage-bootstrap-signing": encode("true"),
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
        assert!(token(&secret(None), now).is_some());
        assert!(token(&secret(Some("2026-12-01T11:00:00+01:00")), now).is_none());
        assert!(token(&secret(Some("2026-12-01T10:00:01Z")), now).is_some());
        assert!(token(&secret(Some("tomorrow")), now).is_none());
        for (pointer, value) in [
            ("/type", "Opaque"),
            ("/metadata/name", "bootstrap-token-abcdeg"),
            ("/data/token-id", "QUJDREVG"),
            ("/data/usage-bootstrap-signing", "ZmFsc2U="),
            ("/data/token-secret", ""),
        ] {
            let mut broken = secret(None);
            *broken.pointer_mut(pointer).unwrap() = value.into();
            assert!(token(&broken, now).is_none(), "{pointer}");
        }
    }

    #[test]
    fn signatures_follow_the_tokens_and_leave_the_rest() {
        let tokens = [Token { id: "abcdef".into(), secret: "0123456789abcdef".into(), expires: None }];
        let map = json!({ "data": { "kubeconfig": "x", "other": "y", "jws-kubeconfig-gone00": "z" } });
        let map = signed(map, &tokens);
        let keys: Vec<&str> = map["data"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["kubeconfig", "other", "jws-kubeconfig-abcdef"]);
        let jws = map["data"]["jws-kubeconfig-abcdef"].as_str().unwrap();
        // Computed with Python's hmac over the same header and payload.
        assert_eq!(
            jws,
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..0TaMGHmkUmrmJzX2IZH40z8KPjHdxhjPikTkoySmxlA"
        );
    }
}
