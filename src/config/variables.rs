//! From a file of variables to the typed ones: one function a group. What Hostwright does not know is Terraform's, and kept.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;

use super::convert::{mask_variables, to_json};
use super::hcl;
use super::place::{Layer, Mistake, MistakeKind, Mistakes, Place, nearest};
use super::reader::{Findings, Reader, Shown, World};
use super::tree::{Node as Written, Table, Value};
use super::values::{self, Wrong};
use crate::domain::environment::{
    self, EnvironmentVariables, NetworkLayer, Node, Subnet, VariableError, is_placeholder,
};

/// A file of variables that has all that must be filled in.
#[derive(Debug, Clone)]
pub struct VariablesFile {
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub variables: EnvironmentVariables,
    /// What is not wrong but ought to be known; one sentence each, with its place.
    pub warnings: Vec<String>,
    /// What the file itself gives, by name: without defaults, nothing masked.
    pub given: BTreeMap<String, serde_json::Value>,
    shown: Vec<Shown>,
}

/// A variable as it counts; what is named like a secret is masked.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownVariable {
    /// The variable, and the keys inside it.
    pub path: Vec<String>,
    /// Its value.
    pub value: serde_json::Value,
    /// Where it was written; none: the default.
    pub place: Option<String>,
}

impl VariablesFile {
    /// Every variable, defaults included.
    #[must_use]
    pub fn shown(&self) -> Vec<ShownVariable> {
        let of = |shown: &Shown| ShownVariable {
            path: shown.table.iter().chain([&shown.key]).cloned().collect(),
            value: serde_json::to_value(&shown.value).unwrap_or_default(),
            place: shown.place.as_ref().map(Place::to_string),
        };
        self.shown.iter().map(of).collect()
    }
}

const BLANK_NETWORK: IpNet = IpNet::V4(ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::UNSPECIFIED, 0));

/// Reads the text of a file for the environment `name`.
pub(super) fn read(
    path: &Path,
    layer: &Arc<Layer>,
    text: &str,
    name: &str,
    world: &World<'_>,
) -> Result<VariablesFile, Mistakes> {
    let (table, mistakes) = hcl::parse(layer, text);
    if mistakes.iter().any(|m| m.kind == MistakeKind::Syntax) {
        return Err(Mistakes::new(mistakes));
    }
    let places = Places::of(layer, &table);
    let given = table.iter().filter_map(|(key, e)| Some((key.clone(), to_json(&e.node).ok()?))).collect();
    let mut findings = Findings { mistakes, ..Findings::default() };
    let whole = Some(Place::whole(layer));
    let variables = Reader::root(table, whole, world, &mut findings, |t| all(t, name));
    if findings.mistakes.is_empty() {
        places.contradictions(&variables, &mut findings);
    }
    if !findings.mistakes.is_empty() {
        return Err(Mistakes::new(findings.mistakes));
    }
    let Findings { shown, warnings, .. } = findings;
    Ok(VariablesFile { path: path.to_owned(), variables, warnings, given, shown })
}

/// Where each variable and each key of a map was written.
struct Places {
    whole: Place,
    keys: BTreeMap<(String, String), Place>,
    given: Vec<String>,
}

impl Places {
    fn of(layer: &Arc<Layer>, table: &Table) -> Self {
        let mut keys = BTreeMap::new();
        for (name, entry) in table {
            if let Value::Table(inner) = &entry.node.value {
                let inner = inner.iter().map(|(key, e)| ((name.clone(), key.clone()), e.node.place.clone()));
                keys.extend(inner);
            }
        }
        Self { whole: Place::whole(layer), keys, given: table.keys().cloned().collect() }
    }

    /// A contradiction in what the file says is a mistake; with a default it is only worth a word.
    fn contradictions(&self, variables: &EnvironmentVariables, findings: &mut Findings) {
        for wrong in variables.contradictions() {
            let written = self.keys.get(&(wrong.variable.to_owned(), wrong.key.clone()));
            let text = format!("{}.{}: {}", wrong.variable, wrong.key, wrong.text);
            let both = written.filter(|_| {
                !wrong.text.contains("vpc_cidr") || self.given.iter().any(|given| given == "vpc_cidr")
            });
            match both {
                Some(place) => {
                    findings.mistakes.push(Mistake::new(place, MistakeKind::Conflict, text));
                }
                None => {
                    let place = written.unwrap_or(&self.whole);
                    findings.warnings.push(format!("{place}: {text} (a default: give it in the file)"));
                }
            }
        }
    }
}

fn all(t: &mut Reader<'_>, name: &str) -> EnvironmentVariables {
    let bucket = |text: &str| environment::bucket(text);
    let environment = t.required("environment", "the environment's name", |node| {
        let text = filled(node, "write the environment's name", environment::environment_name)?;
        if text == name {
            return Ok(text);
        }
        let advice = format!("write {name:?}, or rename the file {text}.tfvars");
        Err(Wrong::new("is not the file's name").advise(advice))
    });
    let key = "the KMS key that the secrets are encrypted with";
    let public = "the DNS zone that all the world sees";
    let private = "the DNS zone inside the network";
    let secrets = "the bucket of the secrets and manifests";
    let terraform = "the bucket of Terraform's state";
    let variables = EnvironmentVariables {
        environment: environment.unwrap_or_default(),
        kms_master_id: required(t, "kms_master_id", key, environment::kms_key),
        public_zone_name: required(t, "public_zone_name", public, environment::dns_name),
        private_zone_name: required(t, "private_zone_name", private, environment::dns_name),
        secrets_bucket_name: required(t, "secrets_bucket_name", secrets, bucket),
        terraform_bucket_name: required(t, "terraform_bucket_name", terraform, bucket),
        kubeapi_dns: dns(t, "kubeapi_dns"),
        kubeapi_internal_dns: dns(t, "kubeapi_internal_dns"),
        aws_region: optional(t, "aws_region", environment::region),
        aws_account: optional(t, "aws_account", environment::account),
        aws_profile: optional(t, "aws_profile", environment::profile),
        vpc_cidr: t.default("vpc_cidr", "10.100.0.0/16", network).unwrap_or(BLANK_NETWORK),
        subnets: BTreeMap::new(),
        secure_nodes: Vec::new(),
        others: BTreeMap::new(),
    };
    let subnets =
        NetworkLayer::ALL.into_iter().map(|layer| (layer, subnets(t, layer, variables.region()))).collect();
    let variables = EnvironmentVariables { subnets, ..variables };
    let secure_nodes = nodes(t, variables.subnets.get(&NetworkLayer::Secure).map_or(&[], Vec::as_slice));
    EnvironmentVariables { secure_nodes, others: others(t), ..variables }
}

/// A text that somebody filled in.
fn filled(
    node: &Written,
    what: &str,
    check: impl Fn(&str) -> Result<(), VariableError>,
) -> Result<String, Wrong> {
    // Terraform takes a number where a text is wanted.
    let text = match &node.value {
        Value::Integer(number) => number.to_string(),
        _ => values::any_text(node)?.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(Wrong::new(VariableError::Empty.to_string()).advise(what));
    }
    if is_placeholder(&text) {
        return Err(Wrong::new(VariableError::Placeholder.to_string()).advise(what));
    }
    check(&text).map(|()| text).map_err(|error| Wrong::new(error.to_string()))
}

fn required(
    t: &mut Reader<'_>,
    key: &str,
    what: &str,
    check: impl Fn(&str) -> Result<(), VariableError>,
) -> String {
    let advice = format!("fill in {what}");
    t.required(key, what, |node| filled(node, &advice, &check)).unwrap_or_default()
}

fn optional(
    t: &mut Reader<'_>,
    key: &str,
    check: impl Fn(&str) -> Result<(), VariableError>,
) -> Option<String> {
    t.optional(key, |node| filled(node, "fill it in, or leave it out", &check))
}

fn dns(t: &mut Reader<'_>, key: &str) -> String {
    let parse = |node: &Written| filled(node, "fill it in, or leave it out", environment::dns_name);
    t.default(key, "kube", parse).unwrap_or_default()
}

fn network(node: &Written) -> Result<IpNet, Wrong> {
    let net: IpNet = values::any_text(node)?
        .parse()
        .map_err(|_| Wrong::new("is not a network").advise("write one such as \"10.100.10.0/24\""))?;
    if net.addr() == net.network() {
        return Ok(net);
    }
    Err(Wrong::new("has bits behind its prefix").advise(format!("write {:?}", net.trunc().to_string())))
}

fn subnets(t: &mut Reader<'_>, layer: NetworkLayer, region: &str) -> Vec<Subnet> {
    if !t.table.contains_key(layer.variable()) {
        t.section(layer.variable(), |_| ());
        return default_subnets(t, layer, region);
    }
    t.section(layer.variable(), |t| {
        let mut names: Vec<String> = Vec::new();
        for key in t.table.keys() {
            let name = key.strip_suffix("_cidr").or_else(|| key.strip_suffix("_zone"));
            names.extend(
                name.filter(|name| !name.is_empty() && !names.iter().any(|n| n == name)).map(str::to_owned),
            );
        }
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        let mut subnets = Vec::new();
        for name in names {
            let parse = |node: &Written| filled(node, "fill in the availability zone", environment::zone);
            let cidr = t.required(&format!("{name}_cidr"), "the subnet's addresses", network);
            let zone = t.required(&format!("{name}_zone"), "the subnet's availability zone", parse);
            if let (Some(cidr), Some(zone)) = (cidr, zone) {
                subnets.push(Subnet { name, cidr, zone });
            }
        }
        subnets
    })
}

fn default_subnets(t: &mut Reader<'_>, layer: NetworkLayer, region: &str) -> Vec<Subnet> {
    let table = vec![layer.variable().to_owned()];
    ["a", "b", "c"]
        .into_iter()
        .zip(0u8..)
        .map(|(letter, at)| {
            let address = std::net::Ipv4Addr::new(10, 100, layer.default_byte() + at, 0);
            let cidr = IpNet::from(ipnet::Ipv4Net::new_assert(address, 24));
            let (name, zone) = (format!("az{at}"), format!("{region}{letter}"));
            t.show_in(table.clone(), &format!("{name}_cidr"), cidr.to_string().into(), None);
            t.show_in(table.clone(), &format!("{name}_zone"), zone.clone().into(), None);
            Subnet { name, cidr, zone }
        })
        .collect()
}

/// `node10` behind `node9`.
fn natural(name: &str) -> (&str, u64) {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (head, name.strip_prefix(head).and_then(|digits| digits.parse().ok()).unwrap_or_default())
}

/// What `secure_nodes_info` says of an address.
#[derive(Default, Clone)]
struct Info {
    zone: Option<String>,
    subnet: Option<usize>,
}

fn nodes(t: &mut Reader<'_>, secure: &[Subnet]) -> Vec<Node> {
    let default = !t.table.contains_key("secure_nodes");
    let mut nodes: Vec<(String, IpAddr)> = t.section("secure_nodes", |t| {
        let mut names: Vec<String> = t.table.keys().cloned().collect();
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        names.into_iter().filter_map(|name| Some((name.clone(), t.optional(&name, address)?))).collect()
    });
    let info: BTreeMap<IpAddr, Info> = t.section("secure_nodes_info", |t| {
        let mut info: BTreeMap<IpAddr, Info> = BTreeMap::new();
        for key in t.table.keys().cloned().collect::<Vec<_>>() {
            let (node, what) = key.rsplit_once('_').unwrap_or_default();
            match (node.parse::<IpAddr>(), what) {
                (Ok(node), "zone") => {
                    info.entry(node).or_default().zone = optional(t, &key, environment::zone);
                }
                (Ok(node), "subnet") => info.entry(node).or_default().subnet = t.optional(&key, count),
                _ => t.unknown(&key, "write ADDRESS_zone or ADDRESS_subnet"),
            }
        }
        info
    });
    if default {
        nodes = default_nodes(secure);
        let table = vec!["secure_nodes".to_owned()];
        nodes.iter().for_each(|(name, a)| t.show_in(table.clone(), name, a.to_string().into(), None));
    }
    let with = |(name, address): (String, IpAddr)| {
        let Info { zone, subnet } = info.get(&address).cloned().unwrap_or_default();
        Node { name, address, zone, subnet }
    };
    nodes.into_iter().map(with).collect()
}

/// One in each secure subnet: its address number 100.
fn default_nodes(secure: &[Subnet]) -> Vec<(String, IpAddr)> {
    let hundredth = |subnet: &Subnet| match subnet.cidr {
        IpNet::V4(net) => {
            let address = u32::from(net.network()).checked_add(100).map(std::net::Ipv4Addr::from)?;
            net.contains(&address).then_some(IpAddr::V4(address))
        }
        IpNet::V6(_) => None,
    };
    let addresses = secure.iter().filter_map(hundredth).enumerate();
    addresses.map(|(at, address)| (format!("node{at}"), address)).collect()
}

fn address(node: &Written) -> Result<IpAddr, Wrong> {
    let wrong = || Wrong::new("is not an address").advise("write one such as \"10.100.10.100\"");
    values::any_text(node)?.parse().map_err(|_| wrong())
}

/// Which of several, from 0; old files have their numbers in quotes.
fn count(node: &Written) -> Result<usize, Wrong> {
    match &node.value {
        Value::Text(text) => text.parse().map_err(|_| Wrong::new("is not a whole number")),
        _ => values::number(node, 0, 255),
    }
}

/// What is left is Terraform's; a name that is nearly one of ours is most likely meant as that.
fn others(t: &mut Reader<'_>) -> BTreeMap<String, serde_json::Value> {
    let mut others = BTreeMap::new();
    for (name, entry) in std::mem::take(&mut t.table) {
        if let Some(near) = nearest(&name, KNOWN).filter(|near| !t.was_given(near)) {
            t.warn_at(&entry.key, &format!("{name} is kept for Terraform; did you mean {near:?}?"));
        }
        if holds_placeholder(&entry.node) {
            t.warn_at(&entry.node.place, &format!("{name} holds a placeholder"));
        }
        match to_json(&entry.node) {
            Ok(value) => {
                let shown = mask_variables(&name, entry.node.value.to_toml());
                t.show(&name, shown, Some(entry.node.place.clone()));
                others.insert(name, value);
            }
            Err((node, wrong)) => t.wrong(&name, node, wrong),
        }
    }
    others
}

fn holds_placeholder(node: &Written) -> bool {
    match &node.value {
        Value::Text(text) => is_placeholder(text),
        Value::List(items) => items.iter().any(holds_placeholder),
        Value::Table(table) => table.values().any(|entry| holds_placeholder(&entry.node)),
        _ => false,
    }
}

/// The variables that Hostwright reads.
const KNOWN: [&str; 19] = [
    "environment",
    "kms_master_id",
    "public_zone_name",
    "private_zone_name",
    "secrets_bucket_name",
    "terraform_bucket_name",
    "kubeapi_dns",
    "kubeapi_internal_dns",
    "aws_region",
    "aws_account",
    "aws_profile",
    "vpc_cidr",
    "secure_subnets",
    "compute_subnets",
    "elb_subnets",
    "nat_subnets",
    "mgmt_subnets",
    "secure_nodes",
    "secure_nodes_info",
];
