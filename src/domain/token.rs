//! Bootstrap tokens, as kubeadm and the Kubernetes bootstrap token authenticator know them.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The alphabet of ids and secrets.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID: usize = 6;
const SECRET: usize = 16;

/// A token `id.secret`. Its `Debug` and `Display` show the id only.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    id: String,
    secret: String,
}

/// Why a text is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a bootstrap token: 6 characters, a dot and 16 characters, lower-case letters and digits")]
pub struct TokenError;

impl BootstrapToken {
    /// A token from random bytes of a cryptographic source, without bias: bytes that would favour a letter are passed over.
    ///
    /// Returns nothing when the bytes do not suffice; 64 do but once in many millions of calls.
    #[must_use]
    pub fn from_random(bytes: &[u8]) -> Option<Self> {
        let mut letters = bytes
            .iter()
            .filter(|b| **b < 252)
            .filter_map(|b| ALPHABET.get(usize::from(b % 36)))
            .map(|b| char::from(*b));
        let id: String = letters.by_ref().take(ID).collect();
        let secret: String = letters.take(SECRET).collect();
        (secret.len() == SECRET).then_some(Self { id, secret })
    }

    /// A token for a run: its id is always the same for the run, so that another attempt finds what an earlier one left. Its
    /// secret part comes from random bytes as in [`BootstrapToken::from_random`].
    #[must_use]
    pub fn of_run(uid: &str, bytes: &[u8]) -> Option<Self> {
        Self::from_random(bytes).map(|token| Self { id: run_token_id(uid), ..token })
    }

    /// Whether a signature in `cluster-info` is this token's for this content: a detached JWS (RFC 7515, appendix F) with HS256. One of
    /// an earlier token of the same id is not.
    #[must_use]
    pub fn has_signed(&self, content: &str, signature: &str) -> bool {
        let Some((header, signed)) = signature.split_once("..") else { return false };
        let Ok(signed) = BASE64URL_NOPAD.decode(signed.as_bytes()) else { return false };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()) else { return false };
        mac.update(format!("{header}.{}", BASE64URL_NOPAD.encode(content.as_bytes())).as_bytes());
        mac.verify_slice(&signed).is_ok()
    }

    /// Reads `id.secret`.
    ///
    /// # Errors
    /// When it is not of that form.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let (id, secret) = text.split_once('.').ok_or(TokenError)?;
        if legal(id, ID) && legal(secret, SECRET) {
            Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
        } else {
            Err(TokenError)
        }
    }

    /// The public half.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The secret half.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The whole token, for the machine that joins.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The name of its Secret in `kube-system`.
    #[must_use]
    pub fn secret_name(&self) -> String {
        format!("{TOKEN_PREFIX}{}", self.id)
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootstrapToken({}.…)", self.id)
    }
}

impl fmt::Display for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.…", self.id)
    }
}

/// The id of a run's token. It is no secret; two runs of the same id are one in two thousand millions.
#[must_use]
pub fn run_token_id(uid: &str) -> String {
    let digest = Sha256::digest(format!("bootstrap token of run {uid}").as_bytes());
    let letters = digest.iter().filter_map(|b| ALPHABET.get(usize::from(b % 36)));
    letters.take(ID).map(|b| char::from(*b)).collect()
}

/// The type of a token's Secret.
pub const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";
/// How the names of tokens' Secrets begin.
pub const TOKEN_PREFIX: &str = "bootstrap-token-";
/// The group of a token when nobody says otherwise: that of new nodes.
pub const NODE_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
const GROUP_PREFIX: &str = "system:bootstrappers:";
/// How the fields that say what a token is good for begin.
const USAGE: &str = "usage-bootstrap-";

/// A token as it lies in the cluster, without its secret part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its id, from the Secret's name.
    pub id: String,
    /// The Secret's name.
    pub name: String,
    /// The Secret's UID: what a deletion is conditional on.
    pub uid: String,
    /// The groups that it gives besides `system:bootstrappers`.
    pub groups: Vec<String>,
    /// `authentication`, `signing`.
    pub usages: Vec<String>,
    /// What it is for.
    pub description: String,
    /// Until when it is good; none: for ever.
    pub expires: Option<Timestamp>,
    /// Why it is no token as the cluster knows them; empty for a good one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<&'static str>,
}

/// How a token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenState {
    /// Good for so many seconds.
    Valid(i64),
    /// Good for ever, which nobody should want.
    Forever,
    /// Not any more.
    Expired,
    /// Never was.
    Malformed,
}

impl Token {
    /// Reads a Secret: its name, UID and type, and its fields. The secret part is only looked at.
    #[must_use]
    pub fn read(name: &str, uid: &str, kind: &str, field: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let mut malformed = Vec::new();
        let mut text = |key: &str, broken: &'static str| match field(key).map(String::from_utf8) {
            None => None,
            Some(Ok(text)) => Some(text),
            Some(Err(_)) => {
                malformed.push(broken);
                None
            }
        };
        let given = text("token-id", "its id is no text").unwrap_or_default();
        let secret = text("token-secret", "its secret part is no text").unwrap_or_default();
        let expiration = text("expiration", "its expiry is no text").unwrap_or_default();
        let groups = text("auth-extra-groups", "its groups are no text").unwrap_or_default();
        let description = text("description", "its description is no text").unwrap_or_default();
        let usages = ["authentication", "signing"];
        let on = |usage: &&str| field(&format!("{USAGE}{usage}")).as_deref() == Some(b"true");
        let usages: Vec<String> = usages.into_iter().filter(on).map(str::to_owned).collect();
        let groups: Vec<String> =
            groups.split(',').map(str::trim).filter(|g| !g.is_empty()).map(str::to_owned).collect();
        let id = name.strip_prefix(TOKEN_PREFIX);
        let expires = expiration.parse::<Timestamp>();
        let rules = [
            (kind != TOKEN_TYPE, "its type is not bootstrap.kubernetes.io/token"),
            (id.is_none(), "its name does not begin with bootstrap-token-"),
            (!legal(&given, ID), "its id is not 6 lower-case letters and digits"),
            (id.is_some_and(|id| id != given), "its name does not end with its id"),
            (!legal(&secret, SECRET), "its secret part is not 16 lower-case letters and digits"),
            (
                !expiration.is_empty() && expires.is_err(),
                "its expiry is no RFC 3339 time: the cluster takes it for expired",
            ),
            (!groups.iter().all(|g| is_token_group(g)), "one of its groups is none that a token may give"),
        ];
        malformed.extend(rules.into_iter().filter(|(wrong, _)| *wrong).map(|(_, why)| why));
        Self {
            id: id.unwrap_or(name).to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            groups,
            usages,
            description,
            expires: expires.ok(),
            malformed,
        }
    }

    /// A Secret that only looks like a token, as no more than its name is known.
    #[must_use]
    pub fn of_other_type(name: &str, uid: &str) -> Self {
        Self {
            malformed: vec!["its type is not bootstrap.kubernetes.io/token"],
            ..Self::read(name, uid, TOKEN_TYPE, |_| None)
        }
    }

    /// How it stands at a time.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> TokenState {
        match self.expires {
            _ if !self.malformed.is_empty() => TokenState::Malformed,
            None => TokenState::Forever,
            Some(at) if at <= now => TokenState::Expired,
            Some(at) => TokenState::Valid(at.duration_since(now).as_secs()),
        }
    }
}

/// Whether a token may give this group: `system:bootstrappers:` and more.
#[must_use]
pub fn is_token_group(group: &str) -> bool {
    group.strip_prefix(GROUP_PREFIX).is_some_and(|rest| {
        rest.len() <= 256
            && rest.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b":-".contains(&b))
    })
}

fn legal(part: &str, length: usize) -> bool {
    part.len() == length && part.bytes().all(|b| ALPHABET.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn made_tokens_are_tokens(bytes in proptest::collection::vec(any::<u8>(), 64)) {
            if let Some(token) = BootstrapToken::from_random(&bytes) {
                prop_assert_eq!(BootstrapToken::parse(&token.reveal()), Ok(token.clone()));
                let shown = format!("{token:?}{token}");
                prop_assert!(!shown.contains(token.secret()));
            }
        }
    }

    #[test]
    fn a_runs_token_has_its_id_and_another_secret_each_time() {
        let [one, two] = [7, 8].map(|byte| BootstrapToken::of_run("uid-1", &[byte; 64]).unwrap());
        assert_eq!(BootstrapToken::parse(&one.reveal()), Ok(one.clone()));
        assert_eq!((one.id(), one.id().len()), (two.id(), 6));
        assert_ne!(one.secret(), two.secret());
        let ids: std::collections::HashSet<String> =
            (0..10_000).map(|n| run_token_id(&n.to_string())).collect();
        assert!(ids.len() > 9_990 && ids.iter().all(|id| legal(id, ID)), "{}", ids.len());
    }

    #[test]
    fn a_signature_is_known_by_secret_and_content() {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
        // Computed with Python's hmac over the same header and payload.
        let jws = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..0TaMGHmkUmrmJzX2IZH40z8KPjHdxhjPikTkoySmxlA";
        assert!(token.has_signed("x", jws));
        assert!(!token.has_signed("y", jws));
        assert!(!BootstrapToken::parse("abcdef.0123456789abcdeg").unwrap().has_signed("x", jws));
        for broken in ["", "..", "x..y", jws.trim_end_matches('A'), &jws.replace("..", ".")] {
            assert!(!token.has_signed("x", broken), "{broken}");
        }
    }

    #[test]
    fn malformed_ones_are_refused() {
        for text in
            ["", "abcdef", "abcde.0123456789abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde-"]
        {
            assert_eq!(BootstrapToken::parse(text), Err(TokenError), "{text:?}");
        }
    }

    #[test]
    fn a_hundred_thousand_are_all_of_the_form_and_no_two_alike() {
        let mut seed = [7_u8; 64];
        let mut ids = std::collections::HashSet::new();
        for _ in 0..100_000 {
            for half in seed.chunks_mut(32) {
                half.copy_from_slice(&<sha2::Sha256 as sha2::Digest>::digest(&*half));
                half[0] ^= 1;
            }
            let Some(token) = BootstrapToken::from_random(&seed) else { continue };
            assert_eq!(BootstrapToken::parse(&token.reveal()).as_ref(), Ok(&token));
            assert!(ids.insert(token.reveal()));
        }
        assert!(ids.len() > 99_000, "{}", ids.len());
    }

    #[test]
    fn what_is_wrong_with_one_is_said() {
        let good = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("expiration", "2026-12-01T11:00:00+01:00"),
            ("usage-bootstrap-signing", "true"),
            ("usage-bootstrap-authentication", "false"),
            ("auth-extra-groups", "system:bootstrappers:a, system:bootstrappers:b"),
        ];
        let read = |name: &str, change: (&str, &str)| {
            let field = |key: &str| {
                let all = std::iter::once(change).chain(good);
                all.into_iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_bytes().to_vec())
            };
            Token::read(name, "u", TOKEN_TYPE, field)
        };
        let token = read("bootstrap-token-abcdef", ("", ""));
        assert_eq!((token.malformed.len(), token.usages.as_slice()), (0, &["signing".to_owned()][..]));
        assert_eq!(token.groups, ["system:bootstrappers:a", "system:bootstrappers:b"]);
        assert_eq!(token.state("2026-12-01T09:59:00Z".parse().unwrap()), TokenState::Valid(60));
        assert_eq!(token.state("2026-12-01T10:00:00Z".parse().unwrap()), TokenState::Expired);
        let forever = read("bootstrap-token-abcdef", ("expiration", ""));
        assert_eq!(forever.state(Timestamp::MAX), TokenState::Forever);
        for (change, said) in [
            (("token-id", "ABCDEF"), "lower-case"),
            (("token-id", "abcde"), "6 lower-case"),
            (("token-id", "abcdeg"), "end with its id"),
            (("token-secret", "short"), "16 lower-case"),
            (("expiration", "tomorrow"), "RFC 3339"),
            (("auth-extra-groups", "system:masters"), "groups"),
        ] {
            let broken = read("bootstrap-token-abcdef", change);
            assert!(broken.malformed.iter().any(|why| why.contains(said)), "{change:?}: {broken:?}");
            assert_eq!(broken.state(Timestamp::UNIX_EPOCH), TokenState::Malformed);
        }
        assert_eq!(Token::of_other_type("bootstrap-token-abcdef", "u").malformed.len(), 1);
    }
}
