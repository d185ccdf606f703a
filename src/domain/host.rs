//! Host names: what a machine may call itself, and the short forms that Kubernetes names are made of.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Names that mean something else to Ansible's inventory, so no machine may have them.
const RESERVED: [&str; 3] = ["all", "localhost", "ungrouped"];
const SLUG_LENGTH: usize = 30;
const HASH_LENGTH: usize = 10;

/// A valid host name (RFC 1123), lower-cased, without the trailing dot: two spellings of one host are equal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// Why a text is no host name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    /// Nothing was given.
    #[error("is empty")]
    Empty,
    /// RFC 1035 allows 253 characters.
    #[error("is longer than 253 characters")]
    TooLong,
    /// A label of RFC 1035 has 1 to 63 characters.
    #[error("has a part that is empty or longer than 63 characters")]
    LabelLength,
    /// Labels start and end with a letter or digit.
    #[error("has a part that starts or ends with a hyphen")]
    LabelEdge,
    /// Only letters, digits, hyphens and dots are allowed.
    #[error("has characters other than letters, digits, hyphens and dots")]
    Character,
    /// An address was given.
    #[error("is an address, not a name")]
    Address,
    /// The name means something to Ansible.
    #[error("is a name that Ansible reserves")]
    Reserved,
}

impl HostName {
    /// Checks and normalises a name: lower case, one trailing dot dropped.
    ///
    /// # Errors
    /// When it is not a host name; see [`HostNameError`].
    pub fn parse(text: &str) -> Result<Self, HostNameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(HostNameError::Empty);
        }
        if name.len() > 253 {
            return Err(HostNameError::TooLong);
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.') {
            return Err(HostNameError::Character);
        }
        for label in name.split('.') {
            if label.is_empty() || label.len() > 63 {
                return Err(HostNameError::LabelLength);
            }
            if label.starts_with('-') || label.ends_with('-') {
                return Err(HostNameError::LabelEdge);
            }
        }
        // The last label of a name is never all digits (RFC 3696, 2): then it is an address, or a part of one.
        if name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
            return Err(HostNameError::Address);
        }
        let name = name.to_ascii_lowercase();
        if RESERVED.contains(&name.as_str()) {
            return Err(HostNameError::Reserved);
        }
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A readable part for Kubernetes names: dots to hyphens, at most 30 characters, never ending in a hyphen.
    #[must_use]
    pub fn slug(&self) -> String {
        let slug: String = self.0.chars().take(SLUG_LENGTH).map(|c| if c == '.' { '-' } else { c }).collect();
        slug.trim_end_matches('-').to_owned()
    }

    /// 10 base32 characters of the name's SHA-256: what keeps two names apart that share a slug.
    #[must_use]
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let mut text = data_encoding::BASE32_NOPAD.encode(&digest).to_ascii_lowercase();
        text.truncate(HASH_LENGTH);
        text
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl TryFrom<String> for HostName {
    type Error = HostNameError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl std::str::FromStr for HostName {
    type Err = HostNameError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Whether a host of a URL is this machine itself. What is here is not behind a proxy, whatever the environment says.
#[must_use]
pub fn is_here(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let loopback = |address: std::net::IpAddr| address.to_canonical().is_loopback();
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(loopback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_host_are_one() {
        let a = HostName::parse("Web-9.LAN.example.org.").unwrap();
        assert_eq!(a, HostName::parse("web-9.lan.example.org").unwrap());
        assert_eq!(a.slug(), "web-9-lan-example-org");
    }

    #[test]
    fn what_is_no_host_name_is_refused_with_the_reason() {
        use HostNameError as E;
        for (text, error) in [
            ("", E::Empty),
            (".", E::Empty),
            ("WEB_01", E::Character),
            ("a..b", E::LabelLength),
            ("a.b..", E::LabelLength),
            ("köln", E::Character),
            ("-x", E::LabelEdge),
            ("x-.org", E::LabelEdge),
            ("10.0.0.1", E::Address),
            ("fe80::1%eth0", E::Character),
            ("a b", E::Character),
            ("$(id)", E::Character),
            ("../x", E::Character),
            ("localhost", E::Reserved),
            ("ALL", E::Reserved),
            ("x\n", E::Character),
        ] {
            assert_eq!(HostName::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(HostName::parse(&"a.".repeat(127)).unwrap().as_str().len(), 253);
        assert_eq!(HostName::parse(&"a".repeat(254)), Err(E::TooLong));
        assert!(HostName::parse("xn--kln-sna").is_ok());
    }

    #[test]
    fn names_that_differ_in_a_cut_tail_stay_distinct() {
        let long = "a".repeat(40);
        let one = HostName::parse(&format!("{long}.one")).unwrap();
        let two = HostName::parse(&format!("{long}.two")).unwrap();
        assert_eq!(one.slug(), two.slug());
        assert_ne!(one.hash(), two.hash());
    }

    proptest! {
        #[test]
        fn slug_and_hash_are_always_legal(name in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z]([a-z0-9-]{0,20}[a-z0-9])?){1,6}") {
            let host = HostName::parse(&name).unwrap();
            let slug = host.slug();
            prop_assert!(!slug.is_empty() && slug.len() <= 30 && !slug.ends_with('-'));
            prop_assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            prop_assert_eq!(host.hash().len(), 10);
        }
    }

    #[test]
    fn this_machine_has_many_names() {
        for here in ["localhost", "LOCALHOST.", "127.0.0.1", "127.8.8.8", "[::1]", "[::ffff:127.0.0.1]"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["", "10.0.0.1", "localhost.example.org", "127.0.0.1.example.org", "[2001:db8::1]"] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
