//! Where the broker is, read from the URL of the settings.

use lapin::uri::AMQPUri;

use super::AmqpError;
use crate::config::Secret;

/// Seconds between heartbeats when the URL does not say.
const HEARTBEAT: u16 = 10;

/// A broker's address, with the password inside: it has no `Debug`.
pub(super) struct Address {
    /// As people know it: scheme, host, port and virtual host, without user and password.
    pub(super) name: String,
    /// What is connected to.
    pub(super) uri: AMQPUri,
    /// The heartbeat that is wanted, in seconds; 0: what the broker proposes.
    pub(super) heartbeat: u16,
}

impl Address {
    pub(super) fn parse(url: &Secret) -> Result<Self, AmqpError> {
        let refuse = |what: String| AmqpError::Url(what);
        // The client library repeats a URL that it cannot read in its error, with the password: look first.
        let parsed = reqwest::Url::parse(url.reveal()).map_err(|e| refuse(e.to_string()))?;
        if !matches!(parsed.scheme(), "amqp" | "amqps") {
            return Err(refuse("it starts neither with amqp:// nor with amqps://".into()));
        }
        let Some(host) = parsed.host_str().filter(|host| !host.is_empty()) else {
            return Err(refuse("it names no host".into()));
        };
        let mut uri: AMQPUri = url.reveal().parse().map_err(refuse)?;
        // It takes an IPv6 address for no host, and would connect to localhost.
        if let Some(v6) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            v6.clone_into(&mut uri.authority.host);
        }
        let heartbeat = uri.query.heartbeat.unwrap_or(HEARTBEAT);
        uri.query.heartbeat = Some(wire_heartbeat(heartbeat));
        let port = uri.authority.port;
        let vhost = if uri.vhost == "/" { String::new() } else { format!("/{}", uri.vhost) };
        let name = format!("{}://{host}:{port}{vhost}", parsed.scheme());
        Ok(Self { name, uri, heartbeat })
    }
}

/// The client library calls a connection dead after 2 to 2.5 heartbeats: a shorter one on the wire keeps that within two of
/// those that were asked for.
fn wire_heartbeat(wanted: u16) -> u16 {
    if wanted == 0 { 0 } else { (wanted / 5 * 4 + wanted % 5 * 4 / 5).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, AmqpError> {
        Address::parse(&Secret::new(url))
    }

    #[test]
    fn the_name_has_no_password() {
        let address = parse("amqp://ann:hunter2@broker.example.org/%2f?heartbeat=0").unwrap();
        assert_eq!(address.name, "amqp://broker.example.org:5672");
        assert_eq!((address.uri.vhost.as_str(), address.heartbeat), ("/", 0));
        assert_eq!(parse("amqps://b:1/infra").unwrap().name, "amqps://b:1/infra");
    }

    #[test]
    fn an_ipv6_address_is_a_host() {
        let address = parse("amqp://u:p@[2001:db8::1]:5673/%2f").unwrap();
        assert_eq!(address.uri.authority.host, "2001:db8::1");
        assert_eq!(address.name, "amqp://[2001:db8::1]:5673");
    }

    #[test]
    fn what_is_no_url_is_refused_without_repeating_it() {
        for url in ["", "broker", "http://ann:hunter2@b/", "amqp:ann:hunter2@b", "ann:hunter2@b", "amqp://"] {
            let error = parse(url).err().unwrap_or_else(|| panic!("{url:?} was accepted"));
            let shown = format!("{error} {error:?} {}", error.problem());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn a_dead_connection_is_noticed_within_two_heartbeats() {
        for wanted in 2..=u16::MAX {
            assert!(f64::from(wire_heartbeat(wanted)) * 2.5 <= f64::from(wanted) * 2.0 + 1.0, "{wanted}");
        }
        assert_eq!([0, 1, 2, 10].map(wire_heartbeat), [0, 1, 1, 8]);
    }
}
