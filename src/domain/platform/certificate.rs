//! Which certificates the platform has, and whom each names: everything that the environment's variables say.
//!
//! Usages are those that etcd and the API server ask for (etcd: "Transport security model"; Kubernetes: "PKI certificates and
//! requirements"): an etcd server's own certificate is a client's too, since its HTTP gateway calls itself with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::domain::environment::EnvironmentVariables;

/// The CA's certificate: every node gets it.
pub const CA: &str = "common/pki/ca.crt";
/// The CA's key: it never goes to a node.
pub const CA_KEY: &str = "locked/pki/ca.key";
/// The key that service accounts' tokens are signed with.
pub const SERVICE_ACCOUNT_KEY: &str = "secure/pki/service-account.key";
/// What those are checked with.
pub const SERVICE_ACCOUNT_PUBLIC: &str = "secure/pki/service-account.pub";
/// The operators' SSH key.
pub const SSH_KEY: &str = "locked/ssh/id_ed25519";
/// Its public half.
pub const SSH_PUBLIC: &str = "locked/ssh/id_ed25519.pub";

/// How long the CA lasts, in days.
pub const CA_DAYS: u64 = 3650;
/// How long other certificates last, in days.
pub const LEAF_DAYS: u64 = 365;
/// How many days before its end a certificate is to be renewed.
pub const RENEWED_BEFORE: i64 = 30;

/// The services' network when the variables have no `service_cidr`: kubeadm's.
const SERVICES: &str = "10.96.0.0/12";

/// What a certificate may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// To serve.
    Server,
    /// To call.
    Client,
    /// Both.
    Both,
}

/// A certificate under the platform's CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its key in the bucket without `.crt`; the private key's is the same with `.key`.
    pub path: &'static str,
    /// What for.
    pub usage: Usage,
    /// Who it is: to the API server the user's name.
    pub common_name: &'static str,
    /// The API server takes it for a group.
    pub organization: Option<&'static str>,
    /// The names that it is reached by.
    pub names: Vec<String>,
    /// The addresses that it is reached by.
    pub addresses: Vec<IpAddr>,
}

impl Leaf {
    /// The certificate's key in the bucket.
    #[must_use]
    pub fn certificate(&self) -> String {
        format!("{}.crt", self.path)
    }

    /// The private key's key in the bucket.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}.key", self.path)
    }
}

/// The CA's name.
#[must_use]
pub fn ca_name(environment: &str) -> String {
    format!("hostwright {environment}")
}

/// All certificates of an environment.
#[must_use]
pub fn leaves(variables: &EnvironmentVariables) -> Vec<Leaf> {
    let nodes = nodes(variables);
    let etcd = etcd_names(variables);
    let here = || (vec!["localhost".to_owned()], loopback().to_vec());
    let server = |path, usage, common_name, (names, addresses)| Leaf {
        path,
        usage,
        common_name,
        organization: None,
        names,
        addresses,
    };
    let client = |path, common_name, organization| Leaf {
        path,
        usage: Usage::Client,
        common_name,
        organization,
        names: Vec::new(),
        addresses: Vec::new(),
    };
    let with_here = |addresses: &[IpAddr]| [&loopback(), addresses].concat();
    vec![
        server("secure/pki/etcd-server", Usage::Both, "etcd-server", (etcd.clone(), with_here(&nodes))),
        server("secure/pki/etcd-peer", Usage::Both, "etcd-peer", (etcd, with_here(&nodes))),
        client("secure/pki/kubeapi-etcd-client", "kubeapi-etcd-client", None),
        server("compute/pki/etcd-proxy-server", Usage::Server, "etcd-proxy", here()),
        client("compute/pki/etcd-proxy-client", "etcd-proxy-client", None),
        server("secure/pki/kubeapi-server", Usage::Server, "kube-apiserver", kubeapi(variables, &nodes)),
        client("secure/pki/kubeapi-kubelet-client", "kube-apiserver-kubelet-client", Some("platform:api")),
        client("secure/pki/kubeapi-kube-auth-client", "kube-apiserver-kube-auth-client", None),
        server("secure/pki/kube-auth-server", Usage::Server, "kube-auth", here()),
    ]
}

fn loopback() -> [IpAddr; 2] {
    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
}

fn nodes(variables: &EnvironmentVariables) -> Vec<IpAddr> {
    variables.secure_nodes.iter().map(|node| node.address).collect()
}

/// `etcd` and each node, in the private zone.
fn etcd_names(variables: &EnvironmentVariables) -> Vec<String> {
    let zone = variables.private_zone_name.trim_end_matches('.');
    let nodes = variables.secure_nodes.iter().map(|node| node.name.as_str());
    let names = ["etcd"].into_iter().chain(nodes);
    std::iter::once("localhost".to_owned()).chain(names.map(|name| format!("{name}.{zone}"))).collect()
}

/// The names and addresses that the API server is reached by, from outside, from inside, and by pods.
fn kubeapi(variables: &EnvironmentVariables, nodes: &[IpAddr]) -> (Vec<String>, Vec<IpAddr>) {
    let inside = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
    ];
    let mut names = vec![variables.kubeapi(), variables.kubeapi_internal()];
    names.extend(inside.map(str::to_owned));
    names.dedup();
    let mut addresses = loopback().to_vec();
    addresses.extend(first_service(variables));
    addresses.extend(nodes);
    (names, addresses)
}

/// The API server's own service has the first address of the services' network.
fn first_service(variables: &EnvironmentVariables) -> Option<IpAddr> {
    let written = variables.others.get("service_cidr").and_then(serde_json::Value::as_str);
    let network: IpNet = written.unwrap_or(SERVICES).parse().ok()?;
    network.hosts().next()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::environment::Node;

    pub(in super::super) fn variables() -> EnvironmentVariables {
        let node = |n: u8| Node {
            name: format!("node{n}"),
            address: format!("10.100.1{n}.100").parse().unwrap(),
            zone: None,
            subnet: None,
        };
        EnvironmentVariables {
            environment: "staging".into(),
            kms_master_id: "alias/x".into(),
            public_zone_name: "example.org".into(),
            private_zone_name: "lan.example.org.".into(),
            secrets_bucket_name: "s".into(),
            terraform_bucket_name: "t".into(),
            kubeapi_dns: "kube".into(),
            kubeapi_internal_dns: "kube-int".into(),
            aws_region: None,
            aws_account: None,
            aws_profile: None,
            vpc_cidr: "10.100.0.0/16".parse().unwrap(),
            subnets: BTreeMap::new(),
            secure_nodes: vec![node(0), node(1), node(2)],
            others: BTreeMap::new(),
        }
    }

    fn leaf(path: &str, variables: &EnvironmentVariables) -> Leaf {
        leaves(variables).into_iter().find(|leaf| leaf.path.ends_with(path)).unwrap()
    }

    #[test]
    fn names_and_addresses_are_the_environments() {
        let mut variables = variables();
        let etcd = leaf("etcd-peer", &variables);
        let names = ["localhost", "etcd.lan.example.org", "node0.lan.example.org"];
        assert_eq!(etcd.names[..3], names);
        assert!(etcd.addresses.contains(&"10.100.12.100".parse().unwrap()));
        let api = leaf("kubeapi-server", &variables);
        assert_eq!(api.names[..2], ["kube.example.org", "kube-int.lan.example.org"]);
        assert!(api.addresses.contains(&"10.96.0.1".parse().unwrap()), "{api:?}");
        variables.others.insert("service_cidr".into(), "10.32.0.0/24".into());
        assert!(leaf("kubeapi-server", &variables).addresses.contains(&"10.32.0.1".parse().unwrap()));
        for leaf in leaves(&variables) {
            assert_eq!(leaf.names.is_empty(), leaf.usage == Usage::Client, "who serves has names: {leaf:?}");
        }
    }

    #[test]
    fn no_key_of_the_ca_goes_to_a_node_and_no_key_of_the_api_to_a_worker() {
        assert!(CA_KEY.starts_with("locked/") && SSH_KEY.starts_with("locked/") && CA.starts_with("common/"));
        for leaf in leaves(&variables()) {
            let worker = leaf.path.starts_with("compute/");
            assert!(leaf.path.starts_with("secure/") || worker, "{leaf:?}");
            assert_eq!(worker, leaf.path.contains("etcd-proxy"), "{leaf:?}");
        }
    }
}
