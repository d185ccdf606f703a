//! Who asks: the owner of the token, an account by its own token, or whom one of them speaks for (impersonation).
//!
//! Pure but for the store, which knows whether an account's token still stands for somebody.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::rbac::{self, Ask};
use super::status::{Answer, Failure};
use super::store::Inner;

/// The group that may do everything.
const MASTERS: &str = "system:masters";
pub(super) const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
/// The group whose resources stand for the parts of an identity.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The key of `extra` that names the pod that a token is bound to.
pub(super) const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) uid: Option<String>,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// The owner of the server's own token: everything is allowed to it.
    pub(super) fn admin(name: &str) -> Self {
        let groups = [MASTERS, AUTHENTICATED].map(str::to_owned).to_vec();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Who shows nothing: what everybody may see is all it gets.
    pub(super) fn stranger() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// A service account, without what its token says further.
    pub(super) fn account(namespace: &str, name: &str) -> Self {
        let mut groups = groups_of_account(namespace);
        groups.push(AUTHENTICATED.to_owned());
        Self { name: format!("system:serviceaccount:{namespace}:{name}"), groups, ..Self::default() }
    }

    /// Whether nothing is denied to this caller.
    pub(super) fn is_admin(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Whether the caller is in a group.
    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// As reviews and admission policies see it.
    pub(super) fn info(&self) -> Value {
        let mut info = json!({ "username": self.name });
        if let Value::Object(map) = &mut info {
            if let Some(uid) = &self.uid {
                map.insert("uid".to_owned(), uid.clone().into());
            }
            if !self.groups.is_empty() {
                map.insert("groups".to_owned(), json!(self.groups));
            }
            if !self.extra.is_empty() {
                map.insert("extra".to_owned(), json!(self.extra));
            }
        }
        info
    }
}

fn groups_of_account(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Namespace and name of the service account that a user name stands for.
fn account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?
        .split_once(':')
        .filter(|(space, name)| !space.is_empty() && !name.is_empty() && !name.contains(':'))
}

/// For whom a caller wants to speak; `None` when its request says nothing of it.
///
/// # Errors
/// 500, as a real API server has it, when groups or more are given and no user.
pub(super) fn wanted(headers: &HeaderMap) -> Answer<Option<Caller>> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.filter_map(|v| v.to_str().ok()).map(str::to_owned).collect()
    };
    let mut caller = Caller {
        name: all("impersonate-user").into_iter().next().unwrap_or_default(),
        uid: all("impersonate-uid").into_iter().next().filter(|uid| !uid.is_empty()),
        groups: all("impersonate-group"),
        extra: BTreeMap::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix("impersonate-extra-") {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            caller.extra.insert(key, all(name.as_str()));
        }
    }
    if caller.name.is_empty() {
        if caller == Caller::default() {
            return Ok(None);
        }
        return Err(Failure::internal(
            "Internal Server Error: requested groups without impersonating a user",
        ));
    }
    Ok(Some(caller))
}

/// The one that a caller speaks for.
///
/// # Errors
/// 403 when the caller may not speak for it.
pub(super) fn impersonate(inner: &Inner, caller: &Caller, mut wanted: Caller) -> Answer<Caller> {
    let allowed = |ask: Ask<'_>| rbac::authorise(inner, caller, &ask);
    let user = wanted.name.clone();
    match account_of(&user) {
        Some((namespace, name)) => {
            allowed(Ask { namespace, name, ..Ask::of("impersonate", "", "serviceaccounts") })?;
        }
        None => allowed(Ask { name: &user, ..Ask::of("impersonate", "", "users") })?,
    }
    for group in &wanted.groups {
        allowed(Ask { name: group, ..Ask::of("impersonate", "", "groups") })?;
    }
    if let Some(uid) = &wanted.uid {
        allowed(Ask { name: uid, ..Ask::of("impersonate", AUTHENTICATION, "uids") })?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            let part = Ask::of("impersonate", AUTHENTICATION, "userextras");
            allowed(Ask { sub: key, name: value, ..part })?;
        }
    }
    if wanted.groups.is_empty()
        && let Some((namespace, _)) = account_of(&user)
    {
        wanted.groups = groups_of_account(namespace);
    }
    let last = if user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !wanted.is_in(last) {
        wanted.groups.push(last.to_owned());
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::api::store::Store;
    use http::HeaderName;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_headers_say_for_whom_somebody_speaks() {
        assert_eq!(wanted(&headers(&[("accept", "x")])).unwrap(), None);
        assert!(wanted(&headers(&[("impersonate-group", "x")])).is_err());
        let named = wanted(&headers(&[
            ("impersonate-user", "system:serviceaccount:a:b"),
            ("impersonate-extra-authentication.kubernetes.io%2fpod-name", "p"),
        ]));
        let named = named.unwrap().unwrap();
        assert_eq!(named.extra[POD_NAME], ["p"]);
        let (store, _) = Store::open(None, 8).unwrap();
        let speaks = |caller: &Caller| store.with(|inner| impersonate(inner, caller, named.clone()));
        let it = speaks(&Caller::admin("root")).unwrap();
        assert_eq!(it.groups, ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]);
        let refused = speaks(&Caller::account("a", "b")).unwrap_err().to_string();
        let said = "serviceaccounts \"b\" is forbidden: User \"system:serviceaccount:a:b\" cannot impersonate resource \
                    \"serviceaccounts\" in API group \"\" in the namespace \"a\"";
        assert_eq!(refused, said);
    }
}
