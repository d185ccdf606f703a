//! Tokens of service accounts: made by request (`serviceaccounts/NAME/token`), bound to a pod if asked, and good for as long as the account,
//! the pod and the server's process are the ones they were made for.

use data_encoding::BASE64URL_NOPAD as BASE64;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::identity::{Caller, POD_NAME};
use super::kinds::Kind;
use super::meta::{self, items, number, text};
use super::status::{Answer, Failure, Faults};
use super::store::{Inner, Key, Store};

/// The shortest and the usual lifetime in seconds, as a real API server has them.
const SHORTEST: i64 = 600;
const USUAL: i64 = 3600;
/// For whom tokens are when nothing is said.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// What tokens are signed with: other in each process.
pub(super) struct Signer([u8; 32]);

impl Signer {
    /// A key of its own.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0u8; 32];
        getrandom::fill(&mut key)?;
        Ok(Self(key))
    }

    fn mac(&self, text: &str) -> Answer<Hmac<Sha256>> {
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.0);
        let mut mac = mac.map_err(|error| Failure::internal(error.to_string()))?;
        mac.update(text.as_bytes());
        Ok(mac)
    }

    /// Answers a TokenRequest for an account.
    ///
    /// # Errors
    /// 404 without the account or the pod, 400 and 422 for what can't be asked.
    pub(super) fn issue(&self, store: &Store, account: &Key, request: &Value) -> Answer<Value> {
        let resource = Kind::ServiceAccount.resource();
        let mut faults = Faults::default();
        let seconds = number(request, "/spec/expirationSeconds").unwrap_or(USUAL);
        if seconds < SHORTEST {
            faults.invalid(
                "spec.expirationSeconds",
                seconds,
                "may not specify a duration less than 10 minutes",
            );
        }
        faults.done(resource, &account.name)?;
        let found = store.with(|inner| inner.get(account).cloned());
        let Some(found) = found else { return Err(Failure::not_found(resource, &account.name)) };
        let pod = bound_pod(store, account, request)?;
        let now = jiff::Timestamp::now().as_second();
        let ends = now.saturating_add(seconds);
        let mut audiences = items(request, "/spec/audiences").to_vec();
        if audiences.is_empty() {
            audiences.push(AUDIENCE.into());
        }
        let mut of = json!({
            "namespace": account.namespace, "serviceaccount": { "name": account.name, "uid": found.uid },
        });
        meta::set(&mut of, "pod", pod);
        let id = meta::new_uid().map_err(|error| Failure::internal(error.to_string()))?;
        let claims = json!({
            "aud": audiences, "exp": ends, "iat": now, "iss": AUDIENCE, "jti": id, "kubernetes.io": of, "nbf": now,
            "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        });
        let head = json!({ "alg": "HS256", "typ": "JWT" });
        let [head, claims] = [head, claims].map(|part| BASE64.encode(part.to_string().as_bytes()));
        let signed = format!("{head}.{claims}");
        let signature = BASE64.encode(&self.mac(&signed)?.finalize().into_bytes());
        let expiry = jiff::Timestamp::from_second(ends).map_err(|e| Failure::internal(e.to_string()))?;
        let mut spec = request.get("spec").cloned().unwrap_or_else(|| json!({}));
        meta::set(&mut spec, "audiences", Some(audiences.into()));
        meta::set(&mut spec, "expirationSeconds", Some(seconds.into()));
        Ok(json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": { "name": account.name, "namespace": account.namespace, "creationTimestamp": meta::time(jiff::Timestamp::now()) },
            "spec": spec,
            "status": { "token": format!("{signed}.{signature}"), "expirationTimestamp": meta::time(expiry) },
        }))
    }

    /// Whose token this is; `None` when it is none of ours, too old, or its account or pod is gone.
    pub(super) fn caller(&self, inner: &Inner, token: &str) -> Option<Caller> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64.decode(signature.as_bytes()).ok()?;
        self.mac(signed).ok()?.verify_slice(&signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims: Value = serde_json::from_slice(&BASE64.decode(claims.as_bytes()).ok()?).ok()?;
        if number(&claims, "/exp")? <= jiff::Timestamp::now().as_second() {
            return None;
        }
        let of = claims.get("kubernetes.io")?;
        let namespace = text(of, "/namespace")?;
        let lives = |kind: Kind, at: &str| -> Option<String> {
            let (name, uid) = (text(of, &format!("{at}/name"))?, text(of, &format!("{at}/uid"))?);
            let found = inner.get(&Key::new(kind, namespace, name))?;
            (found.uid == uid && !found.going).then(|| name.to_owned())
        };
        let name = lives(Kind::ServiceAccount, "/serviceaccount")?;
        let mut caller = Caller::account(namespace, &name);
        caller.uid = text(of, "/serviceaccount/uid").map(str::to_owned);
        let mut extra = |key: &str, value: String| caller.extra.insert(key.to_owned(), vec![value]);
        extra("authentication.kubernetes.io/credential-id", format!("JTI={}", text(&claims, "/jti")?));
        if of.get("pod").is_some() {
            // A pod on its way out still speaks: it writes how it ended.
            let (name, uid) = (text(of, "/pod/name")?, text(of, "/pod/uid")?);
            inner.get(&Key::new(Kind::Pod, namespace, name)).filter(|pod| pod.uid == uid)?;
            extra(POD_NAME, name.to_owned());
            extra("authentication.kubernetes.io/pod-uid", uid.to_owned());
        }
        Some(caller)
    }
}

/// Whether a text has the form of an account's token, whoever made it.
pub(super) fn is_one(text: &str) -> bool {
    text.starts_with("ey") && text.split('.').count() == 3
}

/// Name and UID of the pod that a token is to be bound to.
fn bound_pod(store: &Store, account: &Key, request: &Value) -> Answer<Option<Value>> {
    let Some(bound) = request.pointer("/spec/boundObjectRef") else { return Ok(None) };
    let name = text(bound, "/name").unwrap_or_default();
    if text(bound, "/kind") != Some("Pod") {
        return Err(Failure::not_implemented("tokens bound to anything but a pod"));
    }
    let resource = Kind::Pod.resource();
    let pod = store.with(|inner| inner.get(&Key::new(Kind::Pod, &account.namespace, name)).cloned());
    let Some(pod) = pod else { return Err(Failure::not_found(resource, name)) };
    if let Some(uid) = text(bound, "/uid").filter(|uid| *uid != pod.uid) {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record ({})",
            pod.uid
        );
        return Err(Failure::conflict(resource, name, &why));
    }
    let runs_as = text(&pod.value(), "/spec/serviceAccountName").unwrap_or_default().to_owned();
    if runs_as != account.name {
        let why = format!(
            "cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name.",
            account.name
        );
        return Err(Failure::bad_request(why));
    }
    Ok(Some(json!({ "name": name, "uid": pod.uid })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::api::verbs::{self, Manner};

    #[test]
    fn a_token_is_good_while_what_it_stands_for_is_there() {
        let (store, _) = Store::open(None, 64).unwrap();
        let make = |kind: Kind, namespace: &str, object: Value| {
            verbs::create(&store, kind.resource(), namespace, object, Manner::default()).unwrap()
        };
        make(Kind::Namespace, "", json!({"metadata": {"name": "a"}}));
        make(Kind::ServiceAccount, "a", json!({"metadata": {"name": "sa"}}));
        make(
            Kind::Pod,
            "a",
            json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}]}}),
        );
        let (signer, account) = (Signer::new().unwrap(), Key::new(Kind::ServiceAccount, "a", "sa"));
        let bound = json!({"spec": {"boundObjectRef": {"kind": "Pod", "name": "p"}}});
        let token = |request: &Value| {
            let made = signer.issue(&store, &account, request).unwrap();
            text(&made, "/status/token").unwrap().to_owned()
        };
        let (free, held) = (token(&json!({})), token(&bound));
        let who = |token: &str| store.with(|inner| signer.caller(inner, token));
        assert_eq!(who(&free).unwrap().name, "system:serviceaccount:a:sa");
        assert_eq!(who(&held).unwrap().extra[POD_NAME], ["p"]);
        assert_eq!(who(&format!("{free}x")), None);
        assert_eq!(store.with(|inner| Signer::new().unwrap().caller(inner, &free)), None);
        assert!(signer.issue(&store, &account, &json!({"spec": {"expirationSeconds": 5}})).is_err());
        let gone = |kind: Kind, name: &str| {
            let key = Key::new(kind, "a", name);
            store.with(|inner| inner.remove(&key, json!({"metadata": {"name": name}}))).unwrap();
        };
        gone(Kind::Pod, "p");
        assert_eq!((who(&held), who(&free).is_some()), (None, true));
        gone(Kind::ServiceAccount, "sa");
        assert_eq!(who(&free), None);
    }
}
