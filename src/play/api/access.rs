//! What a request wants, as Roles name it: verb, group, resource, namespace, name.

use http::Method;

use super::kinds::Resource;
use super::params::Params;
use super::rbac::Ask;
use super::route::Route;
use super::store::Key;

/// What a request for this path wants.
pub(super) fn of<'a>(method: &Method, path: &'a str, route: &'a Route, params: &'a Params) -> Ask<'a> {
    match route {
        Route::Collection(scope) => {
            let verb = match *method {
                Method::GET if matches!(params.flag("watch"), Ok(true)) => "watch",
                Method::GET => "list",
                Method::DELETE => "deletecollection",
                _ => "create",
            };
            let reads = *method == Method::GET;
            Ask {
                namespace: scope.namespace.as_deref().unwrap_or_default(),
                name: if reads { one_name(params.text("fieldSelector")) } else { "" },
                ..Ask::of(verb, scope.resource.group, scope.resource.plural)
            }
        }
        Route::Object(resource, key) => on(method, resource, key, ""),
        Route::Status(resource, key) => on(method, resource, key, "status"),
        Route::Log(key) => on(method, key.kind.resource(), key, "log"),
        Route::Token(key) => Ask { verb: "create", ..on(method, key.kind.resource(), key, "token") },
        Route::AccessReview => Ask::of("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
        Route::RulesReview => Ask::of("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
        Route::IdentityReview => Ask::of("create", "authentication.k8s.io", "selfsubjectreviews"),
        _ => {
            let verb = match *method {
                Method::POST => "post",
                Method::PUT => "put",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ => "get",
            };
            Ask { verb, path, ..Ask::default() }
        }
    }
}

fn on<'a>(method: &Method, resource: &'a Resource, key: &'a Key, sub: &'a str) -> Ask<'a> {
    let verb = match *method {
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::POST => "create",
        _ => "get",
    };
    // A namespace counts as being in itself.
    let namespace = if resource.plural == "namespaces" { &key.name } else { &key.namespace };
    Ask { namespace, name: &key.name, sub, ..Ask::of(verb, resource.group, resource.plural) }
}

/// The only name that a list can show.
fn one_name(selector: &str) -> &str {
    let rules = selector.split(',').map(str::trim);
    let mut names = rules.filter_map(|rule| {
        let (field, value) = rule.split_once("==").or_else(|| rule.split_once('='))?;
        (field == "metadata.name").then_some(value)
    });
    names.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_as_roles_name_them() {
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/pods", "list  pods   "),
            (Method::GET, "/api/v1/pods?watch=1", "watch  pods   "),
            (
                Method::GET,
                "/apis/batch/v1/namespaces/n/jobs?fieldSelector=metadata.name%3Da",
                "list batch jobs  n a",
            ),
            (
                Method::POST,
                "/apis/batch/v1/namespaces/n/jobs?fieldSelector=metadata.name%3Da",
                "create batch jobs  n ",
            ),
            (Method::PATCH, "/apis/batch/v1/namespaces/n/jobs/a/status", "patch batch jobs status n a"),
            (Method::GET, "/api/v1/namespaces/n/pods/p/log", "get  pods log n p"),
            (Method::GET, "/api/v1/namespaces/n", "get  namespaces  n n"),
            (
                Method::POST,
                "/api/v1/namespaces/n/serviceaccounts/s/token",
                "create  serviceaccounts token n s",
            ),
            (Method::DELETE, "/api/v1/namespaces/n/pods", "deletecollection  pods  n "),
        ] {
            let uri: http::Uri = uri.parse().unwrap();
            let (route, params) = (Route::of(uri.path()), Params::read(&uri).unwrap());
            let ask = of(&method, uri.path(), &route, &params);
            let said = [ask.verb, ask.group, ask.resource, ask.sub, ask.namespace, ask.name].join(" ");
            assert_eq!(said, expected, "{method} {uri}");
        }
    }
}
