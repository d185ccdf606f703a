//! What a host said of itself when it came online. All of it is hostile until it has been through [`RawAnnouncement::check`].

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{HostName, SshKey};

/// The most that an announcement may take as JSON, in bytes: it lives in one annotation of a Job.
pub const ANNOUNCEMENT_LIMIT: usize = 8 * 1024;

/// A checked announcement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// The host's name.
    pub host: HostName,
    /// The host's SSH keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<SshKey>,
    /// An id of this boot: the same boot announced twice starts nothing new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Where Ansible reaches the host; without it, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The branch of the policy that the host asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The inventory groups that the host asks to be in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Anything else that the host says of itself.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub facts: Map<String, Value>,
}

/// The fields as they came in, unchecked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawAnnouncement {
    /// `hostname`.
    pub hostname: String,
    /// `sshkeys`, one key a line.
    pub sshkeys: String,
    /// `boot`.
    pub boot: Option<String>,
    /// `address`; the caller fills in the peer's own when the host did not say.
    pub address: Option<String>,
    /// `branch`.
    pub branch: Option<String>,
    /// `groups`.
    pub groups: Vec<String>,
    /// `facts`.
    pub facts: Map<String, Value>,
}

/// A field that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct FieldError {
    /// The field's name in the request.
    pub field: &'static str,
    /// Why, as the rest of a sentence that starts with the field.
    pub reason: String,
}

impl RawAnnouncement {
    /// Checks every field for what it claims to be.
    ///
    /// # Errors
    /// The first field that is wrong, with the reason.
    pub fn check(self) -> Result<Announcement, FieldError> {
        let host = HostName::parse(self.hostname.trim()).map_err(|e| field("hostname", e))?;
        let mut keys = Vec::new();
        for (number, line) in self.sshkeys.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key =
                SshKey::parse(line).map_err(|e| field("sshkeys", format!("line {}: {e}", number + 1)))?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort();
        let mut groups = Vec::new();
        for name in &self.groups {
            check_group(name)?;
            if !groups.contains(name) {
                groups.push(name.clone());
            }
        }
        let address = self.address.filter(|a| !a.is_empty()).map(|a| check_address(&a)).transpose()?;
        let branch = self.branch.filter(|b| !b.is_empty());
        branch.as_deref().map(check_branch).transpose()?;
        Ok(Announcement {
            host,
            keys,
            boot: self.boot.filter(|b| !b.is_empty()).map(check_boot).transpose()?,
            address,
            branch,
            groups,
            facts: settled(self.facts)?,
        })
    }
}

impl Announcement {
    /// The announcement as it is kept: JSON on one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What an approval binds to: 64 hexadecimal characters over everything but the boot id (a reboot changes nothing that an
    /// operator looks at). Independent of the order of facts.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.remove("boot");
        }
        sort_keys(&mut value);
        data_encoding::HEXLOWER.encode(&Sha256::digest(value.to_string().as_bytes()))
    }
}

/// The facts as they read back from what is written of them. Not every number does so at once, and the digest is computed on
/// both sides.
fn settled(facts: Map<String, Value>) -> Result<Map<String, Value>, FieldError> {
    let read = |text: &str| {
        serde_json::from_str(text).map_err(|e| field("facts", format!("cannot be read back: {e}")))
    };
    let mut text = Value::Object(facts).to_string();
    for _ in 0..8 {
        let facts: Map<String, Value> = read(&text)?;
        let again = serde_json::to_string(&facts).unwrap_or_default();
        if again == text {
            return Ok(facts);
        }
        text = again;
    }
    Err(field("facts", "has a number that cannot be written exactly: send it as a text"))
}

fn field(field: &'static str, reason: impl std::fmt::Display) -> FieldError {
    FieldError { field, reason: reason.to_string() }
}

pub(super) fn check_group(name: &str) -> Result<(), FieldError> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !first || name.len() > 63 || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(field(
            "groups",
            "must be letters, digits and underscores, at most 63, not starting with a digit",
        ));
    }
    if ["all", "ungrouped", "localhost"].contains(&name) {
        return Err(field("groups", format!("may not name {name}, which Ansible reserves")));
    }
    Ok(())
}

fn check_address(text: &str) -> Result<IpAddr, FieldError> {
    let address: IpAddr = text.parse().map_err(|_| field("address", "is not an IPv4 or IPv6 address"))?;
    let address = address.to_canonical();
    if address.is_unspecified() || address.is_multicast() {
        return Err(field("address", "is not the address of one host"));
    }
    Ok(address)
}

fn check_boot(text: String) -> Result<String, FieldError> {
    if text.len() > 64 || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(field("boot", "must be letters, digits and hyphens, at most 64"));
    }
    Ok(text)
}

/// A branch name that is safe as an argument of git and legal for it (git-check-ref-format), at most 100 characters.
pub(super) fn check_branch(text: &str) -> Result<(), FieldError> {
    let legal = text.len() <= 100
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b))
        && !text.starts_with(['-', '/', '.'])
        && !text.ends_with(['/', '.'])
        && !text.contains("..")
        && !text.contains("//")
        && !text.contains("/.")
        && !text.split('/').any(|part| part.ends_with(".lock"));
    if legal { Ok(()) } else { Err(field("branch", "is not a plain branch name")) }
}

fn sort_keys(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.sort_keys();
            map.values_mut().for_each(sort_keys);
        }
        Value::Array(items) => items.iter_mut().for_each(sort_keys),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn raw() -> RawAnnouncement {
        RawAnnouncement { hostname: "web-1.example.org".into(), ..RawAnnouncement::default() }
    }

    #[test]
    fn the_digest_ignores_the_boot_and_the_order_of_facts() {
        let facts = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let a =
            RawAnnouncement { boot: Some("1".into()), facts: facts(r#"{"a":1,"b":{"c":2,"d":3}}"#), ..raw() };
        let b =
            RawAnnouncement { boot: Some("2".into()), facts: facts(r#"{"b":{"d":3,"c":2},"a":1}"#), ..raw() };
        let c = RawAnnouncement { facts: facts(r#"{"a":2}"#), ..raw() };
        let digest = |r: RawAnnouncement| r.check().unwrap().digest();
        assert_eq!(digest(a.clone()), digest(b));
        assert_ne!(digest(a), digest(c));
    }

    #[test]
    fn each_field_is_checked_for_what_it_claims_to_be() {
        let wrong = [
            ("hostname", RawAnnouncement { hostname: "a b".into(), ..raw() }),
            ("sshkeys", RawAnnouncement { sshkeys: "nonsense".into(), ..raw() }),
            ("boot", RawAnnouncement { boot: Some("../x".into()), ..raw() }),
            ("address", RawAnnouncement { address: Some("web".into()), ..raw() }),
            ("address", RawAnnouncement { address: Some("0.0.0.0".into()), ..raw() }),
            ("branch", RawAnnouncement { branch: Some("--upload-pack=x".into()), ..raw() }),
            ("branch", RawAnnouncement { branch: Some("a..b".into()), ..raw() }),
            ("groups", RawAnnouncement { groups: vec!["all".into()], ..raw() }),
            ("groups", RawAnnouncement { groups: vec!["localhost".into()], ..raw() }),
            ("groups", RawAnnouncement { groups: vec!["a:b".into()], ..raw() }),
        ];
        for (name, raw) in wrong {
            assert_eq!(raw.check().unwrap_err().field, name);
        }
    }

    proptest::proptest! {
        #[test]
        fn the_digest_survives_writing_and_reading(number in proptest::num::f64::ANY, wide in proptest::prelude::any::<u64>()) {
            let facts = json!({"number": number, "wide": wide, "exact": 2.45947123052868e-20});
            let raw = RawAnnouncement { facts: facts.as_object().unwrap().clone(), ..raw() };
            if let Ok(announcement) = raw.check() {
                let read: Announcement = serde_json::from_str(&announcement.to_json()).unwrap();
                proptest::prop_assert_eq!(read.digest(), announcement.digest());
            }
        }
    }

    #[test]
    fn a_mapped_address_is_the_address() {
        let a = RawAnnouncement { address: Some("::ffff:10.0.0.1".into()), ..raw() }.check().unwrap();
        assert_eq!(a.address.unwrap().to_string(), "10.0.0.1");
    }

    #[test]
    fn it_reads_back_as_written() {
        let a = RawAnnouncement {
            groups: vec!["web".into(), "web".into()],
            branch: Some("main".into()),
            ..raw()
        };
        let mut a = a.check().unwrap();
        a.facts.insert("x".into(), json!({"y": [1, null]}));
        assert_eq!(a.groups, ["web"]);
        assert_eq!(serde_json::from_str::<Announcement>(&a.to_json()).unwrap(), a);
    }
}
