//! The platform's network: its layers, their subnets, and the nodes with addresses of their own.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::EnvironmentVariables;

/// A part of the platform's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkLayer {
    /// The API servers and etcd.
    Secure,
    /// The workers.
    Compute,
    /// Load balancers.
    Elb,
    /// The way out.
    Nat,
    /// The bastion.
    Mgmt,
}

impl NetworkLayer {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Secure, Self::Compute, Self::Elb, Self::Nat, Self::Mgmt];

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Secure => "secure",
            Self::Compute => "compute",
            Self::Elb => "elb",
            Self::Nat => "nat",
            Self::Mgmt => "mgmt",
        }
    }

    /// The variable that holds its subnets.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Secure => "secure_subnets",
            Self::Compute => "compute_subnets",
            Self::Elb => "elb_subnets",
            Self::Nat => "nat_subnets",
            Self::Mgmt => "mgmt_subnets",
        }
    }

    /// The third byte of its first subnet when the file names none: `10.100.N.0/24`, then N + 1, N + 2.
    #[must_use]
    pub fn default_byte(self) -> u8 {
        match self {
            Self::Secure => 10,
            Self::Compute => 20,
            Self::Elb => 30,
            Self::Nat => 90,
            Self::Mgmt => 100,
        }
    }
}

/// One subnet of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// Its name in the file: `az0`.
    pub name: String,
    /// Its addresses.
    pub cidr: IpNet,
    /// The availability zone that it lies in.
    pub zone: String,
}

/// A node with an address of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name in the file: `node0`.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The zone that the file says it is in.
    pub zone: Option<String>,
    /// Which of the secure subnets the file says it is in, from 0.
    pub subnet: Option<usize>,
}

/// Two things in a file that cannot both be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The variable.
    pub variable: &'static str,
    /// The key inside it.
    pub key: String,
    /// What is wrong with it: the rest of a sentence.
    pub text: String,
}

impl EnvironmentVariables {
    /// What in the network cannot be: subnets that overlap or lie outside the network or the region, nodes outside the secure subnets.
    #[must_use]
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut all = self.of_subnets();
        all.extend(self.of_nodes());
        all
    }

    fn of_subnets(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let mut before: Vec<(NetworkLayer, &Subnet)> = Vec::new();
        let pairs = self.subnets.iter().flat_map(|(layer, subnets)| subnets.iter().map(|s| (*layer, s)));
        for (layer, subnet) in pairs {
            let Subnet { name, cidr, zone } = subnet;
            let mut say = |tail: &str, text: String| {
                found.push(Contradiction { variable: layer.variable(), key: format!("{name}_{tail}"), text });
            };
            if !self.vpc_cidr.contains(cidr) {
                say("cidr", format!("{cidr} is not within vpc_cidr, {}", self.vpc_cidr));
            }
            let overlaps = |other: &IpNet| other.contains(cidr) || cidr.contains(other);
            if let Some((other, with)) = before.iter().find(|(_, s)| overlaps(&s.cidr)) {
                let text = format!("{cidr} overlaps {}.{}_cidr, {}", other.variable(), with.name, with.cidr);
                say("cidr", text);
            }
            if let Some(region) = self.aws_region.as_ref().filter(|region| !zone.starts_with(*region)) {
                say("zone", format!("{zone} is not in the region {region}"));
            }
            before.push((layer, subnet));
        }
        found
    }

    fn of_nodes(&self) -> Vec<Contradiction> {
        const INFO: &str = "secure_nodes_info";
        let secure = self.subnets.get(&NetworkLayer::Secure).map(Vec::as_slice).unwrap_or_default();
        let mut found = Vec::new();
        let mut seen: BTreeMap<IpAddr, &str> = BTreeMap::new();
        for Node { name, address, zone, subnet } in &self.secure_nodes {
            let mut say = |variable, key: String, text| found.push(Contradiction { variable, key, text });
            if let Some(other) = seen.insert(*address, name) {
                let text = format!("{address} is {other}'s address too");
                say("secure_nodes", name.clone(), text);
            }
            let Some((at, home)) = secure.iter().enumerate().find(|(_, s)| s.cidr.contains(address)) else {
                say("secure_nodes", name.clone(), format!("{address} is in none of the secure_subnets"));
                continue;
            };
            if let Some(zone) = zone.as_ref().filter(|zone| **zone != home.zone) {
                let text = format!("{zone} is not the zone of its subnet {}, {}", home.name, home.zone);
                say(INFO, format!("{address}_zone"), text);
            }
            if let Some(subnet) = subnet.filter(|subnet| *subnet != at) {
                let text = format!("{subnet} is not its subnet: {address} is in number {at}, {}", home.name);
                say(INFO, format!("{address}_subnet"), text);
            }
        }
        found
    }
}
