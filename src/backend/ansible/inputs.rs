//! The files that a run gives to Ansible: inventory, known hosts and extra variables.
//!
//! Everything in them that a host or an operator wrote is data: it is quoted and marked so that neither YAML nor Jinja nor SSH
//! takes it for more than text.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::yaml;
use crate::domain::{HostName, SshKey};

/// The extra variables of a run.
#[derive(Debug, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Sets variables of the configuration: templates in them work as they do in the policy.
    pub fn trusted(&mut self, variables: &BTreeMap<String, Value>) {
        self.0.extend(variables.iter().map(|(name, value)| (name.clone(), yaml::trusted(value))));
    }

    /// Sets one variable whose value is taken as it is, whatever it looks like.
    pub fn data(&mut self, name: &str, value: &Value) {
        self.0.insert(name.to_owned(), yaml::data(value));
    }

    /// The file's text.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        if self.0.is_empty() {
            return "{}\n".to_owned();
        }
        self.0.iter().map(|(name, value)| yaml::entry(name, value)).collect()
    }
}

/// The inventory: one host in its groups, reached at its address, with the keys that it announced and no others.
#[must_use]
pub fn inventory(host: &HostName, address: Option<IpAddr>, groups: &[String], known_hosts: &Path) -> String {
    let mut variables = serde_json::Map::new();
    if let Some(address) = address {
        variables.insert("ansible_host".to_owned(), json!(address.to_string()));
    }
    variables.insert("ansible_ssh_common_args".to_owned(), json!(ssh_arguments(host, known_hosts)));
    let mut hosts = String::from("{? ");
    hosts.push_str(&yaml::trusted(&json!(host.as_str())));
    hosts.push_str(" : ");
    hosts.push_str(&variables_of(&variables));
    hosts.push('}');
    let member = json!({ "hosts": { host.as_str(): null } });
    let groups: serde_json::Map<String, Value> =
        groups.iter().map(|group| (group.clone(), member.clone())).collect();
    format!("all:\n  hosts: {hosts}\n  children: {}\n", yaml::trusted(&Value::Object(groups)))
}

fn variables_of(variables: &serde_json::Map<String, Value>) -> String {
    let pairs: Vec<String> = variables
        .iter()
        .map(|(name, value)| {
            format!("? {} : {}", yaml::trusted(&Value::String(name.clone())), yaml::data(value))
        })
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

/// The host is known to SSH by its name whatever address or port it is reached at, and only by what we wrote down.
fn ssh_arguments(host: &HostName, known_hosts: &Path) -> String {
    // SSH splits the value into several files at blanks and expands `%`; Ansible splits the whole like a shell.
    let file = known_hosts.to_string_lossy().replace('%', "%%");
    let option = format!("UserKnownHostsFile=\"{file}\"");
    shell_words::join([
        "-o",
        option.as_str(),
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        &format!("HostKeyAlias={host}"),
    ])
}

/// The known hosts: each announced key under the host's name and its address.
#[must_use]
pub fn known_hosts(host: &HostName, address: Option<IpAddr>, keys: &[SshKey]) -> String {
    let mut patterns = host.to_string();
    if let Some(address) = address {
        patterns.push(',');
        patterns.push_str(&address.to_string());
    }
    keys.iter().map(|key| format!("{patterns} {}\n", key.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostName {
        HostName::parse("web-1.example.org").unwrap()
    }

    fn read(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn the_inventory_has_the_host_in_its_groups() {
        let text = inventory(
            &host(),
            Some("2001:db8::1".parse().unwrap()),
            &["web".into(), "k8s_worker".into()],
            Path::new("/tmp/x/known_hosts"),
        );
        let all = &read(&text)["all"];
        let own = &all["hosts"]["web-1.example.org"];
        assert_eq!(own["ansible_host"], "2001:db8::1");
        assert_eq!(
            own["ansible_ssh_common_args"],
            "-o 'UserKnownHostsFile=\"/tmp/x/known_hosts\"' -o 'StrictHostKeyChecking=yes' -o 'HostKeyAlias=web-1.example.org'"
        );
        assert!(all["children"]["web"]["hosts"]["web-1.example.org"].is_null());
        assert!(all["children"]["k8s_worker"]["hosts"].get("web-1.example.org").is_some());
        let bare = read(&inventory(&host(), None, &[], Path::new("/k")));
        assert!(bare["all"]["hosts"]["web-1.example.org"].get("ansible_host").is_none());
    }

    #[test]
    fn known_hosts_name_host_and_address() {
        let key = SshKey::parse(
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio a comment",
        )
        .unwrap();
        assert_eq!(
            known_hosts(&host(), Some("10.0.0.7".parse().unwrap()), std::slice::from_ref(&key)),
            format!("web-1.example.org,10.0.0.7 {}\n", key.as_str())
        );
        assert_eq!(known_hosts(&host(), None, &[]), "");
    }

    #[test]
    fn ours_win_and_data_is_marked() {
        let mut variables = Variables::default();
        variables.trusted(&BTreeMap::from([
            ("site".to_owned(), json!("{{ 1 + 1 }}")),
            ("hostwright_run".to_owned(), json!("not ours")),
        ]));
        variables.data("hostwright_run", &json!("uid-1"));
        let text = variables.to_yaml();
        assert!(text.contains("? \"site\"\n: \"{{ 1 + 1 }}\"\n"), "{text}");
        assert!(text.contains("? \"hostwright_run\"\n: !unsafe \"uid-1\"\n") && !text.contains("not ours"));
        assert_eq!(read(&Variables::default().to_yaml()), json!({}));
    }
}
