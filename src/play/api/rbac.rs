//! Roles and their bindings: what a caller may do, in the words of a real API server.
//!
//! Reads the Roles and bindings that are in the store as they are at that moment. What every cluster has (`cluster-admin`,
//! `system:basic-user`, `system:discovery`, `system:public-info-viewer`) is built in and not shown as objects.

use serde_json::Value;

use super::bootstrap;
use super::identity::Caller;
use super::kinds::{Kind, RBAC};
use super::meta::{items, text};
use super::status::{Answer, Failure};
use super::store::{Inner, Key, Stored};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ask<'a> {
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    /// The part behind the resource: `log`, `status`; empty for the resource itself.
    pub(super) sub: &'a str,
    /// Empty for all namespaces, and for what has none.
    pub(super) namespace: &'a str,
    /// Empty for all of them.
    pub(super) name: &'a str,
    /// A path that is no resource; the fields above but the verb are empty then.
    pub(super) path: &'a str,
}

impl<'a> Ask<'a> {
    /// A verb on a resource, everywhere.
    pub(super) fn of(verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self { verb, group, resource, ..Self::default() }
    }

    /// The refusal's words, without the reason.
    fn refusal(&self, caller: &Caller) -> String {
        let who = &caller.name;
        if !self.path.is_empty() {
            return format!("forbidden: User \"{who}\" cannot {} path \"{}\"", self.verb, self.path);
        }
        let qualified = if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        };
        let name = if self.name.is_empty() { String::new() } else { format!(" \"{}\"", self.name) };
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", self.namespace)
        };
        format!(
            "{qualified}{name} is forbidden: User \"{who}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
            self.verb,
            self.whole(),
            self.group,
        )
    }

    /// Resource and part: `pods/log`.
    fn whole(&self) -> String {
        if self.sub.is_empty() { self.resource.to_owned() } else { format!("{}/{}", self.resource, self.sub) }
    }
}

/// What the Roles say.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// Why it is allowed, or what was wrong with a binding.
    pub(super) reason: String,
}

/// Lets through what the caller may do.
///
/// # Errors
/// 403.
pub(super) fn authorise(inner: &Inner, caller: &Caller, ask: &Ask<'_>) -> Answer<()> {
    let verdict = judge(inner, caller, ask);
    if verdict.allowed {
        return Ok(());
    }
    let mut words = ask.refusal(caller);
    if !verdict.reason.is_empty() {
        words.push_str(": ");
        words.push_str(&verdict.reason);
    }
    Err(Failure::forbidden(words, ask.group, ask.resource, ask.name))
}

/// Whether a caller may do something.
pub(super) fn judge(inner: &Inner, caller: &Caller, ask: &Ask<'_>) -> Verdict {
    if caller.is_admin() {
        return Verdict { allowed: true, reason: String::new() };
    }
    if built_in(caller).iter().any(|rule| covers(rule, ask)) {
        return Verdict {
            allowed: true,
            reason: "RBAC: allowed by a ClusterRole of every cluster".to_owned(),
        };
    }
    let (granted, lost) = grants(inner, caller, ask.namespace);
    for grant in granted {
        if grant.rules.iter().any(|rule| covers(rule, ask) && (ask.path.is_empty() || grant.everywhere)) {
            return Verdict { allowed: true, reason: format!("RBAC: allowed by {}", grant.because) };
        }
    }
    let reason = match lost.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    };
    Verdict { allowed: false, reason }
}

/// Every rule that is the caller's in a namespace.
pub(super) fn rules(inner: &Inner, caller: &Caller, namespace: &str) -> Vec<Value> {
    let mut rules = built_in(caller);
    if caller.is_admin() {
        rules.extend(everything());
    }
    rules.extend(grants(inner, caller, namespace).0.into_iter().flat_map(|grant| grant.rules));
    rules
}

/// What one binding gives to the caller.
struct Grant {
    rules: Vec<Value>,
    because: String,
    /// Whether it counts at the cluster scope.
    everywhere: bool,
}

/// What bindings give to the caller in a namespace, and the Roles among them that are not there.
fn grants(inner: &Inner, caller: &Caller, namespace: &str) -> (Vec<Grant>, Vec<String>) {
    let mut bindings = inner.of(Kind::ClusterRoleBinding, "");
    if !namespace.is_empty() {
        bindings.extend(inner.of(Kind::RoleBinding, namespace));
    }
    let (mut grants, mut lost) = (Vec::new(), Vec::new());
    for stored in bindings {
        let binding = stored.value();
        let Some(subject) = subject_of(&stored, &binding, caller) else { continue };
        let role = text(&binding, "/roleRef/name").unwrap_or_default();
        let kind = text(&binding, "/roleRef/kind").unwrap_or_default();
        let Some(rules) = rules_of(inner, &stored, kind, role) else {
            lost.push(format!("{}.{RBAC} \"{role}\" not found", kind.to_lowercase()));
            continue;
        };
        let everywhere = stored.key.kind == Kind::ClusterRoleBinding;
        let (of, name) = if everywhere {
            ("ClusterRoleBinding", stored.key.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", stored.key.name, stored.key.namespace))
        };
        let because = format!("{of} \"{name}\" of {kind} \"{role}\" to {subject}");
        grants.push(Grant { rules, because, everywhere });
    }
    (grants, lost)
}

/// The subject of a binding that means the caller, as reasons name it.
fn subject_of(stored: &Stored, binding: &Value, caller: &Caller) -> Option<String> {
    items(binding, "/subjects").iter().find_map(|subject| {
        let name = text(subject, "/name").unwrap_or_default();
        match text(subject, "/kind")? {
            "User" => (name == caller.name).then(|| format!("User \"{name}\"")),
            "Group" => caller.is_in(name).then(|| format!("Group \"{name}\"")),
            "ServiceAccount" => {
                let space = text(subject, "/namespace").unwrap_or(&stored.key.namespace);
                let user = format!("system:serviceaccount:{space}:{name}");
                (user == caller.name).then(|| format!("ServiceAccount \"{name}/{space}\""))
            }
            _ => None,
        }
    })
}

fn rules_of(inner: &Inner, binding: &Stored, kind: &str, name: &str) -> Option<Vec<Value>> {
    let key = match kind {
        "ClusterRole" => Key::new(Kind::ClusterRole, "", name),
        "Role" => Key::new(Kind::Role, &binding.key.namespace, name),
        _ => return None,
    };
    match inner.get(&key) {
        Some(role) => Some(items(&role.value(), "/rules").to_vec()),
        None if kind == "ClusterRole" && name == "cluster-admin" => Some(everything()),
        None => None,
    }
}

fn everything() -> Vec<Value> {
    vec![
        serde_json::json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }),
        serde_json::json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }),
    ]
}

/// What every cluster gives to everybody: to ask who one is and what one may, and to look around.
fn built_in(caller: &Caller) -> Vec<Value> {
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let mut rules = vec![serde_json::json!({ "verbs": ["get"], "nonResourceURLs": public })];
    if caller.is_in("system:authenticated") {
        let reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
        rules.push(serde_json::json!({
            "verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": reviews,
        }));
        rules.push(serde_json::json!({
            "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"],
        }));
        let paths = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
        rules.push(serde_json::json!({ "verbs": ["get"], "nonResourceURLs": paths }));
    }
    if caller.is_in(bootstrap::GROUP) {
        rules.extend(bootstrap::rules());
    }
    rules
}

/// Whether a rule allows something.
fn covers(rule: &Value, ask: &Ask<'_>) -> bool {
    let has = |list: &str, wanted: &str| items(rule, list).iter().any(|v| v == "*" || v == wanted);
    if !has("/verbs", ask.verb) {
        return false;
    }
    if !ask.path.is_empty() {
        let urls = items(rule, "/nonResourceURLs").iter().filter_map(Value::as_str);
        return urls.into_iter().any(|url| match url.strip_suffix('*') {
            Some(start) => ask.path.starts_with(start),
            None => url == ask.path,
        });
    }
    let part = format!("*/{}", ask.sub);
    let resource = has("/resources", &ask.whole())
        || (!ask.sub.is_empty() && items(rule, "/resources").iter().any(|v| *v == part));
    let names = items(rule, "/resourceNames");
    has("/apiGroups", ask.group) && resource && (names.is_empty() || names.iter().any(|n| n == ask.name))
}

/// Whoever writes Roles and bindings gives no more than is the writer's own, unless a Role says so (`escalate`, `bind`).
///
/// # Errors
/// 403 naming what is missing.
pub(super) fn no_more_than_own(inner: &Inner, caller: &Caller, key: &Key, object: &Value) -> Answer<()> {
    let resource = key.kind.resource();
    let ask = |verb, kind: Kind, name| Ask {
        namespace: &key.namespace,
        name,
        ..Ask::of(verb, RBAC, kind.resource().plural)
    };
    let allowed = |ask: &Ask<'_>| judge(inner, caller, ask).allowed;
    let given = match key.kind {
        Kind::Role | Kind::ClusterRole if !allowed(&ask("escalate", key.kind, &key.name)) => {
            items(object, "/rules").to_vec()
        }
        Kind::RoleBinding | Kind::ClusterRoleBinding => {
            let (kind, name) =
                (text(object, "/roleRef/kind"), text(object, "/roleRef/name").unwrap_or_default());
            let of = if kind == Some("ClusterRole") { Kind::ClusterRole } else { Kind::Role };
            if allowed(&ask("bind", of, name)) {
                return Ok(());
            }
            let stored = Stored::unsaved(key.clone(), object.clone());
            match rules_of(inner, &stored, kind.unwrap_or_default(), name) {
                Some(rules) => rules,
                None => return Err(Failure::not_found(of.resource(), name)),
            }
        }
        _ => return Ok(()),
    };
    match given.iter().flat_map(parts).find(|(verb, group, whole, name, path)| {
        let (resource, sub) = whole.split_once('/').unwrap_or((whole, ""));
        !allowed(&Ask { verb, group, resource, sub, namespace: &key.namespace, name, path })
    }) {
        None => Ok(()),
        Some((verb, group, whole, ..)) => {
            let who = &caller.name;
            let words = format!(
                "{} \"{}\" is forbidden: user \"{who}\" is attempting to grant RBAC permissions not currently held:\n\
                 {{APIGroups:[\"{group}\"], Resources:[\"{whole}\"], Verbs:[\"{verb}\"]}}",
                resource.qualified(),
                key.name
            );
            Err(Failure::forbidden(words, resource.group, resource.plural, &key.name))
        }
    }
}

/// A rule as its single permissions: verb, group, resource with its part, name, path.
fn parts(rule: &Value) -> Vec<(String, String, String, String, String)> {
    let list = |at: &str| -> Vec<String> {
        items(rule, at).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let or_all = |all: Vec<String>| if all.is_empty() { vec![String::new()] } else { all };
    let (groups, resources) = (or_all(list("/apiGroups")), or_all(list("/resources")));
    let (names, paths) = (or_all(list("/resourceNames")), or_all(list("/nonResourceURLs")));
    let mut parts = Vec::new();
    for verb in list("/verbs") {
        for group in &groups {
            for resource in &resources {
                for name in &names {
                    for path in &paths {
                        let [group, resource, name, path] = [group, resource, name, path].map(Clone::clone);
                        parts.push((verb.clone(), group, resource, name, path));
                    }
                }
            }
        }
    }
    parts
}
