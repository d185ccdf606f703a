//! The bootstrap signer: for each valid token a signature of `cluster-info`, so that a host that knows the token can trust it.
//!
//! Does what the kube-controller-manager's signer does: a detached JWS (HS256, the token's id as key id, its secret as key) of
//! the key `kubeconfig`, under `jws-kubeconfig-<id>`; gone as soon as the token is gone or expired.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::bootstrap::{PREFIX, TOKENS, Token, Usage};
use super::kinds::Kind;
use super::meta::{self, text};
use super::status::Answer;
use super::store::{Key, Store};
use super::verbs::{self, Manner, Part};

/// Where `cluster-info` is.
pub(super) const NAMESPACE: &str = "kube-public";
/// What hosts read before they trust anything.
pub(super) const CLUSTER_INFO: &str = "cluster-info";
const SIGNATURE: &str = "jws-kubeconfig-";

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
    let tokens: Vec<Token> = secrets.iter().filter_map(|s| Token::read(s, Usage::Signing, now)).collect();
    let key = Key::new(Kind::ConfigMap, NAMESPACE, CLUSTER_INFO);
    if store.with(|inner| inner.get(&key).is_some()) {
        let change = |map| Ok(signed(map, &tokens));
        verbs::update(store, key.kind.resource(), &key, Part::Main, Manner::default(), change)?;
    }
    Ok(tokens.into_iter().filter_map(|t| t.expires).min())
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

    #[test]
    fn signatures_follow_the_tokens_and_leave_the_rest() {
        let encode = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
        let secret = json!({
            "metadata": { "name": "bootstrap-token-abcdef" }, "type": "bootstrap.kubernetes.io/token",
            "data": {
                "token-id": encode("abcdef"), "token-secret": encode("0123456789abcdef"),
                "usage-bootstrap-signing": encode("true"),
            },
        });
        let tokens = [Token::read(&secret, Usage::Signing, Timestamp::UNIX_EPOCH).unwrap()];
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
