//! Machines to play with: folders on this machine that come online through the real hook, as a new machine would.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use sha2::{Digest, Sha256};

use super::OpError;
use crate::backend::hook::{Answer, Hook};
use crate::backend::kube::Kube;
use crate::config::Permit;
use crate::domain::HostName;

/// The domain of the playground's machines; RFC 2606 keeps `.test` for such things.
const DOMAIN: &str = "play.test";

/// The machines that come online by themselves: a web server, a cluster member of each kind, one whose provisioning fails and one
/// that cannot be reached.
pub const FIRST: [&str; 5] = ["web-1", "node-1", "control-1", "broken-1", "lost-1"];

/// The groups of a machine, by the first part of its name.
fn groups(host: &HostName) -> Vec<&'static str> {
    let kind = host.as_str().split(['-', '.']).next().unwrap_or_default();
    match kind {
        "node" => vec!["k8s_worker"],
        "control" => vec!["k8s_controller"],
        _ => vec!["web"],
    }
}

/// The full name of a machine: a name without a dot is one of the playground's.
///
/// # Errors
/// When it is no host name.
pub fn full_name(name: &str) -> Result<HostName, OpError> {
    let full = if name.contains('.') { name.to_owned() } else { format!("{name}.{DOMAIN}") };
    HostName::parse(&full).map_err(|e| OpError::Invalid(format!("host name {name} {e}")))
}

/// A name that no machine has yet.
///
/// # Errors
/// When the API server does not answer.
pub async fn unused_name(kube: &Kube) -> Result<HostName, OpError> {
    let taken = super::runs::hosts(kube).await?;
    for number in 2.. {
        let name = full_name(&format!("web-{number}"))?;
        if !taken.iter().any(|run| run.host == name) {
            return Ok(name);
        }
    }
    Err(OpError::NotFound("unused name".to_owned()))
}

/// Boots a machine: it calls the hook. With the same `boot` again nothing new starts.
///
/// # Errors
/// When the hook does not take the announcement.
pub async fn boot(hook: &Hook, permit: &Permit, host: &HostName, boot: &str) -> Result<Answer, OpError> {
    let seed: [u8; 32] = Sha256::digest(host.as_str().as_bytes()).into();
    let [a, b, c, ..] = seed;
    let key = ssh_key::PublicKey::from(ssh_key::public::Ed25519PublicKey(seed));
    let body = json!({
        "hostname": host,
        "sshkeys": key.to_openssh().map_err(|e| OpError::Invalid(e.to_string()))?,
        "boot": boot,
        "address": IpAddr::V4(Ipv4Addr::new(10, 20, a, b.clamp(1, 254))).to_string(),
        "groups": groups(host),
        "facts": {"os": "debian 13", "cores": 2 << (c % 4), "memory_mb": 4096 << (c % 3)},
    });
    Ok(hook.online(permit, &body).await?)
}

/// An id for a new boot.
#[must_use]
pub fn boot_id() -> String {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => data_encoding::HEXLOWER.encode(&bytes),
        Err(_) => jiff::Timestamp::now().as_nanosecond().to_string(),
    }
}
