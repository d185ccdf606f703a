//! Who may call: networks, the bearer token, and whose address a request really has.

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::config::Secret;

/// The address of the machine that called. A forwarded header counts only from a configured proxy; of a chain of them the
/// last address that is no proxy of ours.
pub(super) fn caller(peer: IpAddr, headers: &HeaderMap, proxies: &[IpNet]) -> IpAddr {
    let mut caller = peer.to_canonical();
    let hops: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    for hop in hops.iter().rev() {
        if !contains(proxies, caller) {
            break;
        }
        match hop.parse::<IpAddr>() {
            Ok(address) => caller = address.to_canonical(),
            Err(_) => break,
        }
    }
    caller
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
            caller(peer.parse().unwrap(), &headers(&pairs), &proxies).to_string()
        };
        assert_eq!(of("192.0.2.7", &["198.51.100.1"]), "192.0.2.7");
        assert_eq!(of("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["203.0.113.9, 198.51.100.1, 10.0.0.2"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["203.0.113.9", "198.51.100.1"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["nonsense"]), "10.0.0.1");
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
