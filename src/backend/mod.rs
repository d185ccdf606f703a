//! The outside: one module per system, none imports another.
//!
//! Each is a cheap handle made from settings, with typed methods and an error of its own. Methods that change something take a
//! [`crate::config::Permit`].

pub mod amqp;
pub mod ansible;
pub mod ara;
pub mod git;
pub mod hook;
pub mod kube;

/// Whether a host of a URL is this machine itself. What is here is not behind a proxy, whatever the environment says.
fn is_here(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let loopback = |address: std::net::IpAddr| address.to_canonical().is_loopback();
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

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
