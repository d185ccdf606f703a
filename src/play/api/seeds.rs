//! What is there from the start: namespaces, the root CA in each of them, `cluster-info`, and the list of targets.
//!
//! Written through the same verbs as any request.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::status::Answer;
use super::store::{Key, Store};
use super::verbs::{self, Manner, Part};
use super::{Options, meta, signer};

/// The namespaces of a new cluster, and the program's own.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "hostwright"];
/// The ConfigMap that holds the cluster's root CA, in every namespace.
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";

/// Puts everything in its place; `fresh` for a store that was just made.
///
/// # Errors
/// When the state file cannot be written.
pub(super) fn plant(store: &Store, options: &Options, fresh: bool) -> Answer<()> {
    for name in NAMESPACES {
        if store.with(|inner| inner.get(&Key::new(Kind::Namespace, "", name)).is_none()) {
            create(store, Kind::Namespace, "", json!({ "metadata": { "name": name } }))?;
        }
        furnish(store, name, &options.ca)?;
    }
    let info = json!({ "kubeconfig": kubeconfig(&options.ca, &options.endpoint) });
    // Only its own key: the signatures beside it are the signer's.
    keep(store, signer::NAMESPACE, signer::CLUSTER_INFO, &info)?;
    if fresh {
        // Later it is the operator's: one who removes it has removed it.
        let targets = json!({ "metadata": { "name": "scrape-collectd" }, "data": { "targets.json": "[]" } });
        create(store, Kind::ConfigMap, "default", targets)?;
    }
    Ok(())
}

/// Gives a namespace what each has: the root CA and the default account.
///
/// # Errors
/// When the state file cannot be written.
pub(super) fn furnish(store: &Store, namespace: &str, ca: &str) -> Answer<()> {
    keep(store, namespace, ROOT_CA, &json!({ "ca.crt": ca }))?;
    if store.with(|inner| inner.get(&Key::new(Kind::ServiceAccount, namespace, "default")).is_none()) {
        create(store, Kind::ServiceAccount, namespace, json!({ "metadata": { "name": "default" } }))?;
    }
    Ok(())
}

fn create(store: &Store, kind: Kind, namespace: &str, object: Value) -> Answer<()> {
    verbs::create(store, kind.resource(), namespace, object, Manner::default()).map(|_| ())
}

/// Sees to it that a ConfigMap has these keys; others stay.
fn keep(store: &Store, namespace: &str, name: &str, data: &Value) -> Answer<()> {
    let key = Key::new(Kind::ConfigMap, namespace, name);
    if store.with(|inner| inner.get(&key).is_none()) {
        return create(
            store,
            Kind::ConfigMap,
            namespace,
            json!({ "metadata": { "name": name }, "data": data }),
        );
    }
    let change = |mut map: Value| {
        verbs::merge(meta::child(&mut map, "data"), data.clone());
        Ok(map)
    };
    verbs::update(store, key.kind.resource(), &key, Part::Main, Manner::default(), change).map(|_| ())
}

/// The kubeconfig in `cluster-info`, as kubeadm writes it.
fn kubeconfig(ca: &str, endpoint: &str) -> String {
    let ca = data_encoding::BASE64.encode(ca.as_bytes());
    // JSON strings are YAML strings: whatever the caller gives stays one value.
    let endpoint = Value::from(endpoint);
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {endpoint}\n  \
         name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {{}}\nusers: null\n"
    )
}
