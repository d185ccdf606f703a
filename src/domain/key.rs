//! SSH public keys as a host announces them.

use serde::{Deserialize, Serialize};
use ssh_key::{HashAlg, PublicKey};

/// One SSH host key in the form of an OpenSSH public key line, without its comment (which is the host's own text).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SshKey(String);

/// Why a line is no SSH public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not an SSH public key in OpenSSH's one-line form")]
pub struct KeyError;

impl SshKey {
    /// Parses one line of `ssh-keyscan` or of a `.pub` file.
    ///
    /// # Errors
    /// When the line is not a public key.
    pub fn parse(line: &str) -> Result<Self, KeyError> {
        // The comment may be any text, and is not read at all.
        let mut fields = line.split_ascii_whitespace();
        let (Some(algorithm), Some(base64)) = (fields.next(), fields.next()) else { return Err(KeyError) };
        let key = PublicKey::from_openssh(&format!("{algorithm} {base64}")).map_err(|_| KeyError)?;
        key.to_openssh().map(|text| Self(text.trim_end().to_owned())).map_err(|_| KeyError)
    }

    /// `algorithm base64`, as in a known_hosts line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The algorithm's short name: `ed25519`, `rsa`, `ecdsa`.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        let name = self.0.split(' ').next().unwrap_or("");
        let name = name.strip_prefix("ssh-").unwrap_or(name);
        if name.starts_with("ecdsa") { "ecdsa" } else { name }
    }

    /// `SHA256:…`, as OpenSSH prints it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        PublicKey::from_openssh(&self.0)
            .map(|key| key.fingerprint(HashAlg::Sha256).to_string())
            .unwrap_or_default()
    }
}

impl TryFrom<String> for SshKey {
    type Error = KeyError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<SshKey> for String {
    fn from(key: SshKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio root@web";

    #[test]
    fn a_key_loses_its_comment_and_keeps_its_fingerprint() {
        let key = SshKey::parse(KEY).unwrap();
        assert!(!key.as_str().contains("root@web"));
        assert_eq!(key.algorithm(), "ed25519");
        assert!(key.fingerprint().starts_with("SHA256:"));
        let bare = key.as_str().to_owned();
        for comment in ["", "two words", "köln[1]", "\u{1b}[2J"] {
            assert_eq!(SshKey::parse(&format!("{bare} {comment}")).unwrap().as_str(), bare, "{comment:?}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for line in ["", "ssh-ed25519", "ssh-ed25519 AAAA", "$(id)", "-----BEGIN OPENSSH PRIVATE KEY-----"] {
            assert_eq!(SshKey::parse(line), Err(KeyError), "{line:?}");
        }
    }
}
