//! Who may call: networks, the bearer token, and whose address a request really has.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::config::Secret;

/// The address of the machine that called; nothing when a proxy of ours says it in a way that cannot be read, since then
/// nobody knows who called. A forwarded header counts only from a configured proxy; of a chain of them the last address that
/// is no proxy of ours.
pub(super) fn caller(peer: IpAddr, headers: &HeaderMap, proxies: &[IpNet]) -> Option<IpAddr> {
    let mut caller = peer.to_canonical();
    let values: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
    let hops = values.iter().rev().flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    for hop in hops {
        if !contains(proxies, caller) {
            break;
        }
        caller = std::str::from_utf8(hop).ok().and_then(|hop| address(hop.trim()))?;
    }
    Some(caller)
}

/// An address as proxies write it: alone, or with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address| address.to_canonical())
}

/// Whether an address is in one of the networks.
pub(super) fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Whether the request carries the token. Digests are compared, in constant time, so neither length nor content leaks.
pub(super) fn has_token(headers: &HeaderMap, token: &Secret) -> bool {
    let given = headers
        .get(http::header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map_or("", |(_, token)| token.trim());
    let digest = |text: &str| Sha256::digest(text.as_bytes());
    !given.is_empty() && bool::from(digest(given).ct_eq(&digest(token.reveal())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_forwarded_header_counts_only_from_a_proxy() {
        let proxies: Vec<IpNet> = vec!["10.0.0.0/24".parse().unwrap()];
        let of = |peer: &str, forwarded: &[&str]| {
            let pairs: Vec<_> = forwarded.iter().map(|f| ("x-forwarded-for", *f)).collect();
            caller(peer.parse().unwrap(), &headers(&pairs), &proxies)
                .map(|a| a.to_string())
                .unwrap_or_default()
        };
        assert_eq!(of("192.0.2.7", &["198.51.100.1"]), "192.0.2.7");
        assert_eq!(of("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["203.0.113.9, 198.51.100.1, 10.0.0.2"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["203.0.113.9", "198.51.100.1"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(of("10.0.0.1", &["nonsense"]), "");
        assert_eq!(of("10.0.0.1", &["203.0.113.9, unknown"]), "");
        assert_eq!(of("10.0.0.1", &["nonsense, 198.51.100.1"]), "198.51.100.1");
        let mut odd = HeaderMap::new();
        odd.append("x-forwarded-for", http::HeaderValue::from_bytes(b"\xff, 198.51.100.1").unwrap());
        assert_eq!(caller("10.0.0.1".parse().unwrap(), &odd, &proxies).unwrap().to_string(), "198.51.100.1");
        assert_eq!(of("::ffff:10.0.0.1", &["2001:db8::1"]), "2001:db8::1");
    }

    #[test]
    fn only_the_token_opens() {
        let token = Secret::new("s3cret");
        assert!(has_token(&headers(&[("authorization", "Bearer s3cret")]), &token));
        for wrong in ["Bearer s3cre", "Bearer s3crets", "Basic s3cret", "Bearer ", "s3cret"] {
            assert!(!has_token(&headers(&[("authorization", wrong)]), &token), "{wrong}");
        }
        assert!(!has_token(&HeaderMap::new(), &token));
    }
}
