//! An environment's variables: what `environments/NAME.tfvars` says of the platform that the hosts join.

mod names;
mod network;

use std::collections::BTreeMap;

use ipnet::IpNet;

pub use names::{
    VariableError, account, bucket, dns_name, environment_name, is_placeholder, kms_key, profile, region,
    user, zone,
};
pub use network::{Contradiction, NetworkLayer, Node, Subnet};

/// The environment that everybody has one of their own of: `play` stands for `play-USER`.
pub const PLAY: &str = "play";

/// The region when neither the file nor the credentials name one.
pub const DEFAULT_REGION: &str = "eu-west-1";

/// What the file says, with the defaults for what it does not.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentVariables {
    /// The environment's name, which is also the file's.
    pub environment: String,
    /// The KMS key that the secrets are encrypted with: its id, its ARN, or `alias/…`.
    pub kms_master_id: String,
    /// The public DNS zone.
    pub public_zone_name: String,
    /// The DNS zone inside the network.
    pub private_zone_name: String,
    /// The bucket of the secrets and manifests.
    pub secrets_bucket_name: String,
    /// The bucket of Terraform's state.
    pub terraform_bucket_name: String,
    /// The API server's name in the public zone.
    pub kubeapi_dns: String,
    /// The API server's name in the private zone.
    pub kubeapi_internal_dns: String,
    /// The region; none: the file names none.
    pub aws_region: Option<String>,
    /// The account that it all belongs to; none: any.
    pub aws_account: Option<String>,
    /// The profile of the credentials; none: the environment's name.
    pub aws_profile: Option<String>,
    /// The network's addresses.
    pub vpc_cidr: IpNet,
    /// The subnets of each layer, by name.
    pub subnets: BTreeMap<NetworkLayer, Vec<Subnet>>,
    /// The nodes with addresses of their own: those of etcd.
    pub secure_nodes: Vec<Node>,
    /// Variables that only Terraform knows.
    pub others: BTreeMap<String, serde_json::Value>,
}

impl EnvironmentVariables {
    /// The region that counts when neither the operator's variables nor the profile name one.
    #[must_use]
    pub fn region(&self) -> &str {
        self.aws_region.as_deref().unwrap_or(DEFAULT_REGION)
    }

    /// The API server's full name for those outside.
    #[must_use]
    pub fn kubeapi(&self) -> String {
        within(&self.kubeapi_dns, &self.public_zone_name)
    }

    /// The API server's full name for those inside.
    #[must_use]
    pub fn kubeapi_internal(&self) -> String {
        within(&self.kubeapi_internal_dns, &self.private_zone_name)
    }
}

/// A name in a zone; one that ends in the zone's is whole already.
fn within(name: &str, zone: &str) -> String {
    let zone = zone.trim_end_matches('.');
    let name = name.trim_end_matches('.');
    let whole = name == zone || name.strip_suffix(zone).is_some_and(|head| head.ends_with('.'));
    if whole { name.to_owned() } else { format!("{name}.{zone}") }
}

/// The name of a user's own playground.
#[must_use]
pub fn play_of(user: &str) -> String {
    format!("{PLAY}-{user}")
}

/// Whether an environment is somebody's playground.
#[must_use]
pub fn is_play(name: &str) -> bool {
    name == PLAY || name.strip_prefix(PLAY).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_into_their_zone_once() {
        assert_eq!(within("kube", "example.org"), "kube.example.org");
        assert_eq!(within("kube.example.org.", "example.org."), "kube.example.org");
        assert_eq!(within("kube-example.org", "example.org"), "kube-example.org.example.org");
        assert_eq!(within("example.org", "example.org"), "example.org");
    }

    #[test]
    fn playgrounds_are_known_by_their_name() {
        assert!(is_play("play") && is_play(&play_of("olga")));
        assert!(!is_play("playtest") && !is_play("prod"));
    }
}
