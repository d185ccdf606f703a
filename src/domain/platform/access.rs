//! Who speaks to the API server: users with tokens, their kubeconfigs, the first rules, and where the API server asks about both.

use serde_json::{Value, json};

use super::certificate::CA;
use crate::domain::environment::EnvironmentVariables;
use crate::domain::kube_auth::NewRule;

/// The tokens of kube-auth.
pub const TOKENS: &str = "secure/kube-auth/tokens.csv";
/// Its ABAC policy.
pub const POLICY: &str = "secure/kube-auth/policy.jsonl";
/// The port of the API servers and of their load balancers.
pub const API_PORT: u16 = 6443;
/// The port of kube-auth on each API server's loopback address.
pub const AUTH_PORT: u16 = 8471;

/// Where a node keeps what it gets of the bucket, unless the variables have a `sync_folder`: that of
/// `assets/systemd/hostwright-sync.service`.
const SYNC_FOLDER: &str = "/var/lib/hostwright/sync";

/// Somebody who gets a token and a kubeconfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The kubeconfig's key in the bucket.
    pub path: &'static str,
    /// The user's name to the API server.
    pub user: &'static str,
    /// The groups.
    pub groups: &'static [&'static str],
    /// Calls from outside of the network.
    outside: bool,
}

/// All of them. What Kubernetes itself knows by name (`system:…`) has its rules in the API server's own RBAC.
#[must_use]
pub fn accesses() -> [Access; 6] {
    let inside = |path, user, groups| Access { path, user, groups, outside: false };
    [
        Access {
            path: "locked/kubeconfig/admin.yaml",
            user: "admin",
            groups: &["platform:admins"],
            outside: true,
        },
        inside("secure/kubeconfig/controller-manager.yaml", "system:kube-controller-manager", &[]),
        inside("secure/kubeconfig/scheduler.yaml", "system:kube-scheduler", &[]),
        inside("compute/kubeconfig/kubelet.yaml", "kubelet", &["platform:kubelets"]),
        inside("compute/kubeconfig/bootstrap.yaml", "kubelet-bootstrap", &["system:bootstrappers"]),
        inside("compute/kubeconfig/proxy.yaml", "system:kube-proxy", &[]),
    ]
}

/// The first policy: administrators may do everything, kubelets what a node needs, and who has nothing but a bootstrap token may ask for a
/// certificate.
#[must_use]
pub fn rules() -> Vec<NewRule> {
    let all = || Some("*".to_owned());
    let of = |group: &str| NewRule { group: Some(group.to_owned()), ..NewRule::default() };
    let everything = |group: &str| NewRule {
        namespace: all(),
        resource: all(),
        api_group: all(),
        path: all(),
        ..of(group)
    };
    let on = |group: &str, api_group: &str, resource: &str, readonly: bool| NewRule {
        namespace: all(),
        resource: Some(resource.to_owned()),
        api_group: (!api_group.is_empty()).then(|| api_group.to_owned()),
        readonly,
        ..of(group)
    };
    let mut rules = vec![
        everything("platform:admins"),
        on("platform:api", "", "nodes", false),
        on("system:bootstrappers", "certificates.k8s.io", "certificatesigningrequests", false),
    ];
    let kubelets = [
        ("", "nodes", false),
        ("", "pods", false),
        ("", "events", false),
        ("events.k8s.io", "events", false),
        ("coordination.k8s.io", "leases", false),
        ("", "services", true),
        ("", "configmaps", true),
        ("", "secrets", true),
        ("", "persistentvolumeclaims", true),
        ("", "persistentvolumes", true),
        ("", "serviceaccounts", false),
        ("storage.k8s.io", "csinodes", false),
        ("storage.k8s.io", "csidrivers", true),
        ("node.k8s.io", "runtimeclasses", true),
        ("authentication.k8s.io", "tokenreviews", false),
        ("authorization.k8s.io", "subjectaccessreviews", false),
    ];
    rules.extend(
        kubelets
            .map(|(api_group, resource, readonly)| on("platform:kubelets", api_group, resource, readonly)),
    );
    rules
}

/// What a kubeconfig is made of.
#[derive(Debug, Clone, Copy)]
pub struct Kubeconfig<'a> {
    /// Whose.
    pub access: &'a Access,
    /// The user's token.
    pub token: &'a str,
    /// The CA's certificate in PEM.
    pub ca: &'a [u8],
}

/// A kubeconfig. The CA stands in it, and the server's name is checked.
#[must_use]
pub fn kubeconfig(variables: &EnvironmentVariables, of: &Kubeconfig<'_>) -> Value {
    let name = if of.access.outside { variables.kubeapi() } else { variables.kubeapi_internal() };
    let environment = &variables.environment;
    let user = of.access.user;
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": environment, "cluster": {
            "server": format!("https://{name}:{API_PORT}"),
            "certificate-authority-data": data_encoding::BASE64.encode(of.ca),
        }}],
        "users": [{"name": user, "user": {"token": of.token}}],
        "contexts": [{"name": environment, "context": {"cluster": environment, "user": user}}],
        "current-context": environment,
    })
}

/// The two files that tell the API server where to ask: key in the bucket, and content.
#[must_use]
pub fn webhooks(variables: &EnvironmentVariables) -> [(&'static str, Value); 2] {
    let folder = variables.others.get("sync_folder").and_then(Value::as_str).unwrap_or(SYNC_FOLDER);
    [
        ("secure/kube-auth/authentication.yaml", webhook(folder, "token")),
        ("secure/kube-auth/authorization.yaml", webhook(folder, "policy")),
    ]
}

fn webhook(folder: &str, what: &str) -> Value {
    let client = |end: &str| format!("{folder}/secure/pki/kubeapi-kube-auth-client.{end}");
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kube-auth", "cluster": {
            "server": format!("https://localhost:{AUTH_PORT}/authorize/{what}"),
            "certificate-authority": format!("{folder}/{CA}"),
        }}],
        "users": [{"name": "kube-apiserver", "user": {
            "client-certificate": client("crt"),
            "client-key": client("key"),
        }}],
        "contexts": [{"name": "kube-auth", "context": {"cluster": "kube-auth", "user": "kube-apiserver"}}],
        "current-context": "kube-auth",
    })
}

#[cfg(test)]
mod tests {
    use super::super::certificate::tests::variables;
    use super::*;
    use crate::domain::kube_auth::{Policies, with_rule};

    #[test]
    fn the_first_policy_can_be_read_and_lets_nobody_in_by_accident() {
        let mut text = Vec::new();
        for rule in rules() {
            text = with_rule(&text, &rule).unwrap();
        }
        let read = Policies::parse(&text).unwrap();
        assert!(read.warnings.is_empty(), "{:?}", read.warnings);
        let text = String::from_utf8(text).unwrap();
        let wide: Vec<&str> = text.lines().filter(|line| line.contains(r#""nonResourcePath":"*""#)).collect();
        assert_eq!(wide.len(), 1, "only administrators: {wide:?}");
        assert!(!text.contains("unauthenticated") && !text.contains(r#""user""#), "{text}");
    }

    #[test]
    fn nothing_skips_verification_and_only_the_admin_comes_from_outside() {
        let variables = variables();
        for access in accesses() {
            let of = Kubeconfig { access: &access, token: "t", ca: b"ca" };
            let text = kubeconfig(&variables, &of).to_string();
            assert!(text.contains("certificate-authority-data") && !text.contains("insecure"), "{text}");
            let outside = text.contains("https://kube.example.org:6443");
            assert_eq!(outside, access.path.starts_with("locked/"), "{text}");
        }
        for (_, webhook) in webhooks(&variables) {
            let text = webhook.to_string();
            assert!(text.contains("https://localhost:8471/authorize/") && !text.contains("insecure"));
        }
    }
}
