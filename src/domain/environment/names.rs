//! What the names in an environment's variables may be. The rules are those of AWS and of DNS.

/// What is wrong with a value: the rest of a sentence that starts with the variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// Nobody filled it in.
    #[error("is still a placeholder")]
    Placeholder,
    /// Nothing is in it.
    #[error("is empty")]
    Empty,
    /// It cannot name an environment: it stands in file names, DNS names and names of buckets.
    #[error("is not a name for an environment: at most 40 lower-case letters, digits and hyphens")]
    Environment,
    /// It cannot be part of the name of a playground.
    #[error(
        "cannot stand in DNS names and names of buckets: at most 28 lower-case letters, digits and hyphens, none at the ends"
    )]
    User,
    /// S3 has no such bucket (its rules for general purpose buckets).
    #[error(
        "is not a bucket: 3 to 63 lower-case letters, digits, hyphens and dots, with a letter or digit at both ends"
    )]
    Bucket,
    /// RFC 1035.
    #[error("is not a DNS name")]
    DnsName,
    /// KMS knows keys by id, ARN and alias.
    #[error("is not a KMS key: its id, its ARN, or alias/NAME")]
    KmsKey,
    /// Such as `eu-west-1`.
    #[error("is not a region, such as \"eu-west-1\"")]
    Region,
    /// Such as `eu-west-1a`.
    #[error("is not an availability zone, such as \"eu-west-1a\"")]
    Zone,
    /// Twelve digits.
    #[error("is not an account: twelve digits")]
    Account,
    /// It stands between brackets in the credentials file.
    #[error("is not the name of a profile")]
    Profile,
}

type Checked = Result<(), VariableError>;

/// What people write where something is to be filled in.
const PLACEHOLDERS: [&str; 9] = [
    "NEEDS_ADDING",
    "NEEDS_ADDED",
    "NEEDS_FILLING",
    "CHANGE_ME",
    "CHANGEME",
    "REPLACE_ME",
    "FILL_ME_IN",
    "FILL_IN",
    "PLACEHOLDER",
];
const WHOLE_PLACEHOLDERS: [&str; 6] = ["TODO", "TBD", "FIXME", "XXX", "...", "UNSET"];

/// Whether a text only holds the place of a value, such as `NEEDS_ADDING`, `change-me` or `<kms key>`.
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    let folded = text.to_uppercase().replace(['-', ' '], "_");
    let bracketed = text.len() > 2 && text.starts_with('<') && text.ends_with('>');
    bracketed
        || PLACEHOLDERS.iter().any(|word| folded.contains(word))
        || WHOLE_PLACEHOLDERS.iter().any(|word| folded == *word)
}

fn accept(legal: bool, error: VariableError) -> Checked {
    if legal { Ok(()) } else { Err(error) }
}

/// Lower-case letters, digits, and hyphens inside.
fn is_label(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(legal) && !text.starts_with('-') && !text.ends_with('-')
}

/// The name of an environment.
///
/// # Errors
/// [`VariableError::Environment`].
pub fn environment_name(text: &str) -> Checked {
    accept(is_label(text) && text.len() <= 40, VariableError::Environment)
}

/// A user's name as part of `play-USER` and of the names made of it: the longest, a bucket with a region in it, has 63 characters.
///
/// # Errors
/// [`VariableError::User`].
pub fn user(text: &str) -> Checked {
    accept(is_label(text) && text.len() <= 28, VariableError::User)
}

/// The name of a bucket.
///
/// # Errors
/// [`VariableError::Bucket`].
pub fn bucket(text: &str) -> Checked {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let reserved = ["xn--", "sthree-", "amzn-s3-demo-"].iter().any(|head| text.starts_with(head))
        || ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].iter().any(|tail| text.ends_with(tail));
    let right = (3..=63).contains(&text.len())
        && text.bytes().all(legal)
        && text.starts_with(end)
        && text.ends_with(end)
        && !text.contains("..")
        && text.parse::<std::net::Ipv4Addr>().is_err()
        && !reserved;
    accept(right, VariableError::Bucket)
}

/// A DNS name, of a zone or in one; a dot at its end is no part of it.
///
/// # Errors
/// [`VariableError::DnsName`].
pub fn dns_name(text: &str) -> Checked {
    let name = text.strip_suffix('.').unwrap_or(text);
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(legal)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let address = text.parse::<std::net::IpAddr>().is_ok();
    accept(name.len() <= 253 && name.split('.').all(label) && !address, VariableError::DnsName)
}

/// A KMS key: its id (a UUID, or `mrk-` and 32 digits), its ARN or an alias's, or `alias/NAME`.
///
/// # Errors
/// [`VariableError::KmsKey`].
pub fn kms_key(text: &str) -> Checked {
    let right = match text.strip_prefix("arn:") {
        None => is_key_id(text) || is_alias(text),
        Some(rest) => match rest.split(':').collect::<Vec<_>>().as_slice() {
            [partition, "kms", place, owner, resource] => {
                partition.starts_with("aws")
                    && region(place).is_ok()
                    && account(owner).is_ok()
                    && (resource.strip_prefix("key/").is_some_and(is_key_id) || is_alias(resource))
            }
            _ => false,
        },
    };
    accept(right, VariableError::KmsKey)
}

fn is_key_id(text: &str) -> bool {
    let hex = |part: &str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = text.strip_prefix("mrk-") {
        return hex(digits, 32);
    }
    let lengths = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() == lengths.len() && parts.iter().zip(lengths).all(|(part, length)| hex(part, length))
}

fn is_alias(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"/_-".contains(&b);
    text.strip_prefix("alias/").is_some_and(|n| !n.is_empty() && n.len() <= 250 && n.bytes().all(legal))
}

/// A region: `eu-west-1`, `us-gov-west-1`.
///
/// # Errors
/// [`VariableError::Region`].
pub fn region(text: &str) -> Checked {
    let number = text.rsplit('-').next().unwrap_or_default();
    let right = is_label(text)
        && text.len() <= 32
        && text.split('-').count() >= 3
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit());
    accept(right, VariableError::Region)
}

/// An availability zone: `eu-west-1a`, `us-west-2-lax-1a`.
///
/// # Errors
/// [`VariableError::Zone`].
pub fn zone(text: &str) -> Checked {
    let letter = text.ends_with(|c: char| c.is_ascii_lowercase());
    let head = text.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(text);
    accept(letter && region(head).is_ok(), VariableError::Zone)
}

/// An account.
///
/// # Errors
/// [`VariableError::Account`].
pub fn account(text: &str) -> Checked {
    accept(text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit()), VariableError::Account)
}

/// The name of a profile in the shared credentials and config files.
///
/// # Errors
/// [`VariableError::Profile`].
pub fn profile(text: &str) -> Checked {
    let wrong = |c: char| c.is_control() || c == '[' || c == ']';
    accept(!text.trim().is_empty() && !text.contains(wrong) && text.trim() == text, VariableError::Profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_place_is_no_value() {
        for text in ["NEEDS_ADDING", " needs adding ", "x-NEEDS_ADDING-y", "change-me", "<the key>", "TBD"] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["", "eu.example.org", "todo-list.example.org", "xxx.example.org", "<>", "alias/fill"] {
            assert!(!is_placeholder(text), "{text}");
        }
    }

    #[test]
    fn buckets() {
        for good in ["abc", "staging-secrets-eu-west-1", "a.b.c", &"a".repeat(63)] {
            assert_eq!(bucket(good), Ok(()), "{good}");
        }
        for bad in
            ["ab", "Ab-c", "a_b", "-ab", "ab-", "a..b", "10.0.0.1", "xn--a", "a-s3alias", &"a".repeat(64)]
        {
            assert_eq!(bucket(bad), Err(VariableError::Bucket), "{bad}");
        }
    }

    #[test]
    fn keys() {
        let id = "cce72fca-5dd8-4563-92ac-d1c5f603170d";
        let arn = |tail: &str| format!("arn:aws:kms:eu-west-1:123456789012:{tail}");
        for good in [id.to_owned(), arn(&format!("key/{id}")), arn("alias/x"), "alias/play/x_y".to_owned()] {
            assert_eq!(kms_key(&good), Ok(()), "{good}");
        }
        assert_eq!(kms_key(&format!("mrk-{}", "0a".repeat(16))), Ok(()));
        for bad in ["", "key", "alias/", "cce72fca-5dd8-4563-92ac-d1c5f603170", "arn:aws:s3:::bucket"] {
            assert_eq!(kms_key(bad), Err(VariableError::KmsKey), "{bad}");
        }
        assert!(kms_key(&arn("role/x")).is_err() && kms_key(&format!("arn:aws:kms:eu:1:key/{id}")).is_err());
    }

    #[test]
    fn places() {
        for good in ["eu-west-1", "us-gov-west-1", "ap-southeast-2"] {
            assert!(
                region(good).is_ok() && zone(&format!("{good}a")).is_ok() && zone(good).is_err(),
                "{good}"
            );
        }
        assert!(zone("us-west-2-lax-1a").is_ok());
        for bad in ["", "eu-west", "eu-west-1a", "EU-WEST-1", "1-2-3", "eu--1-"] {
            assert!(region(bad).is_err(), "{bad}");
        }
        assert!(dns_name("eu.example.org.").is_ok() && dns_name("kube").is_ok() && dns_name("_x.y").is_ok());
        for bad in ["", ".", "a..b", "-a.b", "a b", "10.0.0.1", &"a".repeat(64)] {
            assert!(dns_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn users_make_legal_buckets() {
        let longest = "u".repeat(28);
        for good in ["olga", "o-1", longest.as_str()] {
            assert!(user(good).is_ok(), "{good}");
            assert!(bucket(&format!("play-{good}-kube-terraform-ap-southeast-1")).is_ok(), "{good}");
        }
        for bad in ["", "Olga", "olga.p", "olga_p", "-o", "o-", "../x", "ölga", &"u".repeat(29)] {
            assert_eq!(user(bad), Err(VariableError::User), "{bad}");
        }
        assert!(account("123456789012").is_ok() && account("12345678901").is_err());
        assert!(profile("hod playground").is_ok() && profile("a]").is_err() && profile(" a").is_err());
    }
}
