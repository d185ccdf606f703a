//! Environments: files of variables as people write them, playgrounds, the command `env`, and the operator's shell.

use std::path::{Path, PathBuf};

use hostwright::config::{VariablesFile, load_variables, variables_files};
use hostwright::domain::environment::NetworkLayer;

/// As teams have them: maps with and without `=`, quoted keys, numbers in quotes, comments, what only Terraform knows.
pub(crate) const STAGING: &str = r#"#
# Staging
#
aws_region              = "eu-west-1"
environment             = "staging"
kms_master_id           = "cce72fca-5dd8-4563-92ac-d1c5f603170d" // the key of all secrets
kubeapi_dns             = "kube-staging"
private_zone_name       = "eu.example.org"
public_zone_name        = "eu.example.org."
secrets_bucket_name     = "staging-secrets-eu-west-1"
terraform_bucket_name   = "staging-terraform-eu-west-1"
vpc_cidr                = "10.80.0.0/16"
compute_flavor          = "t2.large"
compute_asg_max         = 100
database_password       = "hunter2"

ssh_access_list = [
  "192.0.2.65/32",
]

nat_subnets {
  "az0_cidr" = "10.80.0.0/24"
  "az0_zone" = "eu-west-1a"
}
compute_subnets = { az0_cidr = "10.80.20.0/24", az0_zone = "eu-west-1a" }
elb_subnets { az0_cidr = "10.80.100.0/24", az0_zone = "eu-west-1a" }
mgmt_subnets {
  az0_cidr = "10.80.110.0/24"
  az0_zone = "eu-west-1a"
}
secure_subnets {
  "az10_cidr" = "10.80.12.0/24"
  "az10_zone" = "eu-west-1c"
  "az0_cidr"  = "10.80.10.0/24"
  "az0_zone"  = "eu-west-1a"
  "az1_cidr"  = "10.80.11.0/24"
  "az1_zone"  = "eu-west-1b"
}

secure_nodes = {
  "node0" = "10.80.10.100"
  "node1" = "10.80.11.100"
}
secure_nodes_info {
  "10.80.10.100_subnet" = 0
  "10.80.11.100_subnet" = "1"
  "10.80.10.100_zone"   = "eu-west-1a"
}
"#;

/// What must be filled in, and nothing else.
fn least(name: &str) -> String {
    format!(
        "environment = \"{name}\"\nkms_master_id = \"alias/{name}\"\npublic_zone_name = \"example.org\"\n\
         private_zone_name = \"example.org\"\nsecrets_bucket_name = \"{name}-secrets\"\nterraform_bucket_name = \"{name}-terraform\"\n"
    )
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(format!("{name}.tfvars"));
    std::fs::write(&path, text).unwrap();
    path
}

/// A file's variables, or its mistakes with the file called `F`.
fn read(name: &str, text: &str) -> Result<VariablesFile, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), name, text);
    load_variables(&path, name)
        .map_err(|mistakes| mistakes.to_string().replace(&path.display().to_string(), "F"))
}

#[test]
fn a_file_is_read_as_it_is() {
    let file = read("staging", STAGING).unwrap();
    let variables = &file.variables;
    assert_eq!(variables.kubeapi(), "kube-staging.eu.example.org");
    assert_eq!(variables.kubeapi_internal(), "kube.eu.example.org");
    assert_eq!(variables.region(), "eu-west-1");
    let secure = &variables.subnets[&NetworkLayer::Secure];
    let names: Vec<&str> = secure.iter().map(|subnet| subnet.name.as_str()).collect();
    assert_eq!(names, ["az0", "az1", "az10"]);
    assert_eq!(secure[2].cidr.to_string(), "10.80.12.0/24");
    assert_eq!(variables.subnets[&NetworkLayer::Nat][0].zone, "eu-west-1a");
    let nodes: Vec<String> = variables.secure_nodes.iter().map(|n| format!("{n:?}")).collect();
    assert_eq!(nodes.len(), 2);
    assert!(nodes[1].contains("10.80.11.100") && nodes[1].contains("subnet: Some(1)"), "{nodes:?}");
    // What only Terraform knows is kept as it is, and shown without what is named like a secret.
    assert_eq!(variables.others["compute_asg_max"], 100);
    assert_eq!(variables.others["database_password"], "hunter2");
    assert_eq!(variables.others["ssh_access_list"], serde_json::json!(["192.0.2.65/32"]));
    assert!(!format!("{:?}", file.shown()).contains("hunter2"));
    let origin = |name: &str| file.shown().into_iter().find(|s| s.path == [name]).unwrap().place;
    assert!(origin("kubeapi_dns").unwrap().ends_with("staging.tfvars:7:27"), "{:?}", origin("kubeapi_dns"));
    assert_eq!(origin("kubeapi_internal_dns"), None);
    assert_eq!(file.warnings, [""; 0]);
}

#[test]
fn what_is_not_given_has_a_default() {
    let text = least("lan") + "aws_region = \"us-east-2\"\n";
    let variables = read("lan", &text).unwrap().variables;
    assert_eq!(variables.vpc_cidr.to_string(), "10.100.0.0/16");
    let all = |layer| -> Vec<String> {
        variables.subnets[&layer].iter().map(|s| format!("{} {} {}", s.name, s.cidr, s.zone)).collect()
    };
    assert_eq!(
        all(NetworkLayer::Secure),
        ["az0 10.100.10.0/24 us-east-2a", "az1 10.100.11.0/24 us-east-2b", "az2 10.100.12.0/24 us-east-2c"]
    );
    assert_eq!(all(NetworkLayer::Mgmt)[2], "az2 10.100.102.0/24 us-east-2c");
    let nodes: Vec<String> = variables.secure_nodes.iter().map(|n| n.address.to_string()).collect();
    assert_eq!(nodes, ["10.100.10.100", "10.100.11.100", "10.100.12.100"]);
    assert_eq!(variables.kubeapi(), "kube.example.org");
}

#[test]
fn what_must_be_filled_in_is_named_all_at_once_with_its_place() {
    let text = "# new\nenvironment = \"lan\"\nkms_master_id = \"NEEDS_ADDING\"\nprivate_zone_name = \"\"\n\
                secrets_bucket_name = <<EOF\nNEEDS_ADDING\nEOF\nssh_access_list = [\"NEEDS_ADDING\"]\n";
    assert_eq!(
        read("lan", text).unwrap_err(),
        "F: public_zone_name is missing: the DNS zone that all the world sees\n\
         F: terraform_bucket_name is missing: the bucket of Terraform's state\n\
         F:3:17: kms_master_id = \"NEEDS_ADDING\" is still a placeholder; fill in the KMS key that the secrets are encrypted with\n\
         F:4:21: private_zone_name is empty; fill in the DNS zone inside the network\n\
         F:5:23: secrets_bucket_name = \"NEEDS_ADDING\\n\" is still a placeholder; fill in the bucket of the secrets and manifests"
    );
    let file = read("lan", &(least("lan") + "ssh_access_list = [\"NEEDS_ADDING\"]\n")).unwrap();
    assert!(file.warnings[0].ends_with(":7:19: ssh_access_list holds a placeholder"), "{:?}", file.warnings);
}

#[test]
fn every_mistake_is_named_at_once() {
    let text = least("lan").replace("lan-secrets", "Lan_Secrets").replace("\"lan\"\nkms", "\"lam\"\nkms")
        + "kubeapi_dns = 7.5\naws_region = \"europe\"\nvpc_cidr = \"10.80.1.0/16\"\n\
           secure_subnets {\n az0_cidr = \"10.80.300.0/24\"\n az0_zone = \"eu-west-1a\"\n az1_cidr = \"10.80.1.0/24\"\n az1_zon = \"x\"\n}\n\
           secure_nodes = [\"10.80.1.1\"]\nsecure_nodes_info {\n \"10.80.1.1_zon\" = 1\n}\n";
    assert_eq!(
        read("lan", &text).unwrap_err(),
        "F:1:15: environment = \"lam\" is not the file's name; write \"lan\", or rename the file lam.tfvars\n\
         F:5:23: secrets_bucket_name = \"Lan_Secrets\" is not a bucket: 3 to 63 lower-case letters, digits, hyphens and dots, with a letter or digit at both ends\n\
         F:7:15: kubeapi_dns = 7.5 is a fraction, not text\n\
         F:8:14: aws_region = \"europe\" is not a region, such as \"eu-west-1\"\n\
         F:9:12: vpc_cidr = \"10.80.1.0/16\" has bits behind its prefix; write \"10.80.0.0/16\"\n\
         F:10:1: secure_subnets.az1_zone is missing: the subnet's availability zone\n\
         F:11:13: secure_subnets.az0_cidr = \"10.80.300.0/24\" is not a network; write one such as \"10.100.10.0/24\"\n\
         F:14:2: unknown key \"az1_zon\" in [secure_subnets]; did you mean \"az1_zone\"?\n\
         F:16:16: secure_nodes is a list, not a table\n\
         F:18:2: unknown key \"10.80.1.1_zon\" in [secure_nodes_info]; write ADDRESS_zone or ADDRESS_subnet"
    );
    let syntax = read("lan", "environment = \"lan\"\nkms_master_id = \"hunter2\n").unwrap_err();
    assert_eq!(syntax, "F:2:17: this is not HCL: what begins here has no end");
    assert_eq!(
        read("lan", "environment = lan\n").unwrap_err().lines().last().unwrap(),
        "F:1:15: lan stands without quotes; write \"lan\""
    );
}

#[test]
fn a_network_that_cannot_be_is_a_mistake_where_it_was_written() {
    let text = STAGING
        .replace("\"10.80.110.0/24\"", "\"10.80.100.128/25\"")
        .replace("\"node1\" = \"10.80.11.100\"", "\"node1\" = \"10.80.20.1\"\n  \"node2\" = \"10.80.10.100\"")
        .replace("\"10.80.10.100_zone\"   = \"eu-west-1a\"", "\"10.80.10.100_zone\" = \"eu-west-1b\"")
        .replace("\"10.80.0.0/24\"", "\"10.81.0.0/24\"")
        .replace("\"az1_zone\"  = \"eu-west-1b\"", "\"az1_zone\" = \"eu-central-1b\"");
    let said = read("staging", &text).unwrap_err();
    for part in [
        "F:22:16: nat_subnets.az0_cidr: 10.81.0.0/24 is not within vpc_cidr, 10.80.0.0/16",
        "mgmt_subnets.az0_cidr: 10.80.100.128/25 overlaps elb_subnets.az0_cidr, 10.80.100.0/24",
        "secure_subnets.az1_zone: eu-central-1b is not in the region eu-west-1",
        "secure_nodes.node1: 10.80.20.1 is in none of the secure_subnets",
        "secure_nodes.node2: 10.80.10.100 is node0's address too",
        "secure_nodes_info.10.80.10.100_zone: eu-west-1b is not the zone of its subnet az0, eu-west-1a",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    // With a default on one side it is only worth a word.
    let file = read("lan", &(least("lan") + "vpc_cidr = \"10.80.0.0/16\"\n")).unwrap();
    assert!(file.warnings[0].contains("10.100.10.0/24 is not within vpc_cidr"), "{:?}", file.warnings);
}

#[test]
fn a_name_that_is_nearly_known_is_kept_and_said() {
    let file = read("lan", &(least("lan") + "kubeapi_dn = \"x\"\netcd_dns = \"y\"\n")).unwrap();
    assert_eq!(file.variables.others["kubeapi_dn"], "x");
    assert_eq!(file.warnings.len(), 1, "{:?}", file.warnings);
    assert!(file.warnings[0].ends_with("did you mean \"kubeapi_dns\"?"), "{:?}", file.warnings);
}

#[test]
fn files_that_are_none_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: &Path| load_variables(path, "lan").unwrap_err().to_string();
    assert!(said(&folder.path().join("lan.tfvars")).ends_with("lan.tfvars: there is no such file"));
    let path = folder.path().join("lan.tfvars");
    std::fs::write(&path, b"a = \"\xff\"\n").unwrap();
    assert!(said(&path).ends_with("lan.tfvars:1:6: this is not UTF-8"), "{}", said(&path));
    std::fs::write(&path, " ".repeat(1024 * 1024 + 1)).unwrap();
    assert!(said(&path).contains("larger than"), "{}", said(&path));
    std::fs::write(&path, format!("\u{feff}{}", least("lan").replace('\n', "\r\n"))).unwrap();
    assert_eq!(load_variables(&path, "lan").unwrap().variables.environment, "lan");
    std::fs::create_dir(folder.path().join("dir.tfvars")).unwrap();
    std::fs::write(folder.path().join(".tfvars"), "").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();
    let names: Vec<String> = variables_files(folder.path()).unwrap().into_iter().map(|f| f.0).collect();
    assert_eq!(names, ["dir", "lan"]);
    assert!(variables_files(&folder.path().join("nowhere")).unwrap().is_empty());
}
