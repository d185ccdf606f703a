//! Bootstrap tokens, as kubeadm and the Kubernetes bootstrap token authenticator know them.

use std::fmt;

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

    /// Reads `id.secret`.
    ///
    /// # Errors
    /// When it is not of that form.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let (id, secret) = text.split_once('.').ok_or(TokenError)?;
        let legal = |part: &str, length| part.len() == length && part.bytes().all(|b| ALPHABET.contains(&b));
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
        format!("bootstrap-token-{}", self.id)
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
    fn malformed_ones_are_refused() {
        for text in
            ["", "abcdef", "abcde.0123456789abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde-"]
        {
            assert_eq!(BootstrapToken::parse(text), Err(TokenError), "{text:?}");
        }
    }
}
