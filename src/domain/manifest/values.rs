//! What a template knows of the environment: `docs/manifests.md` lists it.

use serde_json::{Map, Value, json};

use crate::domain::environment::{EnvironmentVariables, NetworkLayer, Subnet};

/// The environment's variables for templates: by the names and in the form that the file has them, with the defaults; and, as
/// `platform`, what follows from them. Where nothing is known there is no entry, so that a template that needs it is refused.
#[must_use]
pub fn values(variables: &EnvironmentVariables) -> Value {
    let mut all: Map<String, Value> =
        variables.others.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let texts = [
        ("environment", &variables.environment),
        ("kms_master_id", &variables.kms_master_id),
        ("public_zone_name", &variables.public_zone_name),
        ("private_zone_name", &variables.private_zone_name),
        ("secrets_bucket_name", &variables.secrets_bucket_name),
        ("terraform_bucket_name", &variables.terraform_bucket_name),
        ("kubeapi_dns", &variables.kubeapi_dns),
        ("kubeapi_internal_dns", &variables.kubeapi_internal_dns),
    ];
    all.extend(texts.map(|(name, text)| (name.to_owned(), json!(text))));
    all.insert("aws_region".to_owned(), json!(variables.region()));
    let known = [("aws_account", &variables.aws_account), ("aws_profile", &variables.aws_profile)];
    all.extend(known.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?)))));
    all.insert("vpc_cidr".to_owned(), json!(variables.vpc_cidr));
    for layer in NetworkLayer::ALL {
        all.insert(layer.variable().to_owned(), flat(subnets(variables, layer)));
    }
    let nodes = variables.secure_nodes.iter();
    let addresses: Map<_, _> = nodes.map(|node| (node.name.clone(), json!(node.address))).collect();
    all.insert("secure_nodes".to_owned(), Value::Object(addresses));
    all.insert("secure_nodes_info".to_owned(), nodes_info(variables));
    all.insert("platform".to_owned(), platform(variables));
    Value::Object(all)
}

fn subnets(variables: &EnvironmentVariables, layer: NetworkLayer) -> &[Subnet] {
    variables.subnets.get(&layer).map(Vec::as_slice).unwrap_or_default()
}

/// As the file has them: `NAME_cidr` and `NAME_zone`.
fn flat(subnets: &[Subnet]) -> Value {
    let mut map = Map::new();
    for Subnet { name, cidr, zone } in subnets {
        map.insert(format!("{name}_cidr"), json!(cidr));
        map.insert(format!("{name}_zone"), json!(zone));
    }
    Value::Object(map)
}

/// Which of the secure subnets a node is in: number and subnet.
fn home(variables: &EnvironmentVariables, address: std::net::IpAddr) -> Option<(usize, &Subnet)> {
    let secure = subnets(variables, NetworkLayer::Secure).iter().enumerate();
    secure.into_iter().find(|(_, subnet)| subnet.cidr.contains(&address))
}

fn nodes_info(variables: &EnvironmentVariables) -> Value {
    let mut map = Map::new();
    for node in &variables.secure_nodes {
        if let Some((number, subnet)) = home(variables, node.address) {
            map.insert(format!("{}_zone", node.address), json!(subnet.zone));
            map.insert(format!("{}_subnet", node.address), json!(number));
        }
    }
    Value::Object(map)
}

/// What follows from the variables, in a form to loop over.
fn platform(variables: &EnvironmentVariables) -> Value {
    let node = |node: &crate::domain::environment::Node| {
        let zone = home(variables, node.address).map(|(_, subnet)| subnet.zone.as_str());
        let mut map = json!({"name": node.name, "address": node.address});
        if let (Some(zone), Some(map)) = (node.zone.as_deref().or(zone), map.as_object_mut()) {
            map.insert("zone".to_owned(), json!(zone));
        }
        map
    };
    let of_layer = |layer| {
        let listed = subnets(variables, layer).iter();
        let listed = listed.map(|s| json!({"name": s.name, "cidr": s.cidr, "zone": s.zone}));
        Value::Array(listed.collect())
    };
    let subnets: Map<_, _> =
        NetworkLayer::ALL.map(|layer| (layer.word().to_owned(), of_layer(layer))).into_iter().collect();
    json!({
        "kubeapi": variables.kubeapi(),
        "kubeapi_internal": variables.kubeapi_internal(),
        "nodes": variables.secure_nodes.iter().map(node).collect::<Vec<_>>(),
        "subnets": subnets,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::environment::Node;

    /// An environment for the tests of this folder.
    pub(in crate::domain::manifest) fn staging() -> EnvironmentVariables {
        let subnet = |name: &str, cidr: &str, zone: &str| Subnet {
            name: name.into(),
            cidr: cidr.parse().unwrap(),
            zone: zone.into(),
        };
        let secure =
            vec![subnet("az0", "10.80.10.0/24", "eu-west-1a"), subnet("az1", "10.80.11.0/24", "eu-west-1b")];
        let node = |name: &str, address: &str| Node {
            name: name.into(),
            address: address.parse().unwrap(),
            zone: None,
            subnet: None,
        };
        EnvironmentVariables {
            environment: "staging".into(),
            kms_master_id: "alias/staging".into(),
            public_zone_name: "eu.example.org".into(),
            private_zone_name: "eu.example.lan".into(),
            secrets_bucket_name: "staging-secrets".into(),
            terraform_bucket_name: "staging-terraform".into(),
            kubeapi_dns: "kube".into(),
            kubeapi_internal_dns: "kube".into(),
            aws_region: None,
            aws_account: None,
            aws_profile: None,
            vpc_cidr: "10.80.0.0/16".parse().unwrap(),
            subnets: BTreeMap::from([(NetworkLayer::Secure, secure)]),
            secure_nodes: vec![node("node0", "10.80.10.100"), node("node1", "10.80.11.100")],
            others: BTreeMap::from([
                ("replicas".into(), json!(3)),
                ("platform".into(), json!("hidden by ours")),
            ]),
        }
    }

    #[test]
    fn names_and_form_are_those_of_the_file_and_platform_is_what_follows() {
        let values = values(&staging());
        assert_eq!(values["secure_subnets"]["az1_cidr"], "10.80.11.0/24");
        assert_eq!(values["secure_nodes"]["node0"], "10.80.10.100");
        assert_eq!(values["secure_nodes_info"]["10.80.11.100_subnet"], 1);
        assert_eq!((&values["replicas"], &values["aws_region"]), (&json!(3), &json!("eu-west-1")));
        assert_eq!(values["platform"]["kubeapi_internal"], "kube.eu.example.lan");
        assert_eq!(values["platform"]["nodes"][1]["zone"], "eu-west-1b");
        assert_eq!(values["platform"]["subnets"]["secure"][0]["name"], "az0");
        assert_eq!(values["platform"]["subnets"]["nat"], json!([]));
        assert!(values.get("aws_account").is_none(), "what is not known is no null");
    }
}
