//! Paths: what a request is about.

use super::kinds::{Kind, Resource};
use super::reads::Scope;
use super::store::Key;

/// What a path names.
#[derive(Debug)]
pub(super) enum Route {
    Health,
    Version,
    CoreVersions,
    Groups,
    Group(String),
    Resources(String),
    Collection(Scope),
    Object(&'static Resource, Key),
    Status(&'static Resource, Key),
    Log(Key),
    /// A new token of a service account.
    Token(Key),
    AccessReview,
    RulesReview,
    IdentityReview,
    /// A path that servers without this part answer with 404.
    Absent,
    /// Something that a real server has.
    NotServed,
}

impl Route {
    /// Reads a path.
    pub(super) fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
        match parts.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", "v1"] => Self::Resources(String::new()),
            ["apis", group, "v1"] => Self::Resources((*group).to_owned()),
            ["api", "v1", rest @ ..] => Self::within("", rest),
            ["apis", group, "v1", rest @ ..] => Self::within(group, rest),
            // kubectl goes on without it.
            ["openapi", ..] | [] => Self::Absent,
            _ => Self::NotServed,
        }
    }

    fn within(group: &str, rest: &[&str]) -> Self {
        match (group, rest) {
            ("authorization.k8s.io", ["selfsubjectaccessreviews"]) => return Self::AccessReview,
            ("authorization.k8s.io", ["selfsubjectrulesreviews"]) => return Self::RulesReview,
            ("authentication.k8s.io", ["selfsubjectreviews"]) => return Self::IdentityReview,
            _ => {}
        }
        // `namespaces/x` is an object, `namespaces/x/pods` a place.
        match rest {
            ["namespaces", namespace, plural, rest @ ..] if *plural != "status" && *plural != "finalize" => {
                Self::resource(group, plural, Some(namespace), rest)
            }
            [plural, rest @ ..] => Self::resource(group, plural, None, rest),
            [] => Self::NotServed,
        }
    }

    fn resource(group: &str, plural: &str, namespace: Option<&str>, rest: &[&str]) -> Self {
        let Some(resource) = Resource::find(group, plural) else { return Self::NotServed };
        let key = |name: &str| Key::new(resource.kind, namespace.unwrap_or_default(), name);
        match rest {
            [] if resource.namespaced || namespace.is_none() => {
                Self::Collection(Scope { resource, namespace: namespace.map(str::to_owned) })
            }
            _ if resource.namespaced != namespace.is_some() => Self::Absent,
            [name] => Self::Object(resource, key(name)),
            [name, "status"] if resource.status => Self::Status(resource, key(name)),
            [name, "token"] if resource.kind == Kind::ServiceAccount => Self::Token(key(name)),
            [name, "log"] if resource.kind == Kind::Pod => Self::Log(key(name)),
            _ => Self::NotServed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_they_should() {
        for (path, expected) in [
            ("/api", "CoreVersions"),
            ("/apis/batch/v1/", "Resources"),
            ("/api/v1/pods", "Collection"),
            ("/api/v1/namespaces", "Collection"),
            ("/api/v1/namespaces/default", "Object"),
            ("/api/v1/namespaces/default/pods", "Collection"),
            ("/api/v1/namespaces/default/pods/p", "Object"),
            ("/api/v1/namespaces/default/pods/p/log", "Log"),
            ("/api/v1/namespaces/default/pods/p/exec", "NotServed"),
            ("/apis/batch/v1/namespaces/n/jobs/j/status", "Status"),
            ("/apis/batch/v1/namespaces/n/cronjobs", "Collection"),
            ("/api/v1/namespaces/n/serviceaccounts/s/token", "Token"),
            ("/api/v1/namespaces/n/secrets/s/token", "NotServed"),
            ("/apis/batch/v1/jobs/j", "Absent"),
            ("/api/v1/namespaces/n/status", "NotServed"),
            ("/apis/apps/v1/statefulsets", "NotServed"),
            ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "AccessReview"),
            ("/openapi/v3", "Absent"),
            ("/readyz/ping", "Health"),
        ] {
            let route = format!("{:?}", Route::of(path));
            assert!(route.starts_with(expected), "{path}: {route}");
        }
    }
}
