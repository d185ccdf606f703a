//! Addresses and labels as people and programs write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::domain::HostName;

/// Why what somebody typed is no target or label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// No address.
    #[error("{0} is no host or host:port (an IPv6 address with a port has brackets)")]
    Address(String),
    /// No label.
    #[error("{0} is no label: write NAME=VALUE, the name of letters, digits and _, not a digit first")]
    Label(String),
}

/// `host:port` as host and port.
pub(super) fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

/// Whether two texts name the same address: addresses are compared as such, names without regard to case.
pub(super) fn same(a: &str, b: &str) -> bool {
    a == b || canonical(a).is_some_and(|a| canonical(b) == Some(a))
}

fn canonical(address: &str) -> Option<String> {
    let (host, port) = split(address)?;
    let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok()?.to_canonical().to_string(),
        None => match host.parse::<Ipv4Addr>() {
            Ok(v4) => v4.to_string(),
            Err(_) => HostName::parse(host).ok()?.to_string(),
        },
    };
    Some(host_port(&host, port))
}

/// `host:port` of what somebody typed; a bare host gets `port`.
///
/// # Errors
/// When it is no host name, no address and neither of them with a port.
pub fn address(text: &str, port: u16) -> Result<String, InputError> {
    let wrong = || InputError::Address(text.to_owned());
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(host_port(&ip.to_canonical().to_string(), port));
    }
    if text.contains(':') {
        return canonical(text).ok_or_else(wrong);
    }
    let host = HostName::parse(text).map_err(|_| wrong())?;
    Ok(host_port(host.as_str(), port))
}

/// Reads `NAME=VALUE`.
///
/// # Errors
/// When the name is no label name, or the value holds a control character.
pub fn label(text: &str) -> Result<(String, String), InputError> {
    let wrong = || InputError::Label(text.to_owned());
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    if !is_label_name(name) || value.chars().any(char::is_control) {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads `NAME=VALUE`, which sets a label, or `NAME-`, which takes it away.
///
/// # Errors
/// As [`label`].
pub fn label_change(text: &str) -> Result<(String, Option<String>), InputError> {
    match text.strip_suffix('-').filter(|name| is_label_name(name)) {
        Some(name) => Ok((name.to_owned(), None)),
        None => label(text).map(|(name, value)| (name, Some(value))),
    }
}

fn is_label_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// `host:port`, with brackets around an IPv6 address.
#[must_use]
pub fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
