//! What a cluster's controller manager does and an API server alone does not, as far as tests need it, through the API.
//!
//! The playground's Job runner does the Job controller's part; the loopback API has the rest of it built in.

use std::collections::BTreeMap;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::Sha256;

/// The URL of the API server that `cluster-info` names.
pub(crate) const ENDPOINT: &str = "https://[2001:db8::1]:6443";
pub(crate) const CA: &str = include_str!("../../data/ca.pem");
/// The finalizer of what is deleted without what it owns: how a Job goes that is deleted without a word on that.
const ORPHAN: &str = "orphan";
const SIGNATURE: &str = "jws-kubeconfig-";

/// Makes what the loopback API has from the start.
pub(crate) async fn plant(client: &Client) {
    create::<Namespace>(&Api::all(client.clone()), json!({"metadata": {"name": "hostwright"}})).await;
    for namespace in ["default", "hostwright", "kube-public", "kube-system"] {
        furnish(client, namespace).await;
    }
    let cluster = json!({"server": ENDPOINT, "certificate-authority-data": BASE64.encode(CA.as_bytes())});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}],
        "contexts": null, "users": null, "current-context": "", "preferences": {},
    });
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": kubeconfig.to_string()}});
    create::<ConfigMap>(&Api::namespaced(client.clone(), "kube-public"), info).await;
    let targets = json!({"metadata": {"name": "scrape-collectd"}, "data": {"targets.json": "[]"}});
    create::<ConfigMap>(&Api::namespaced(client.clone(), "default"), targets).await;
}

/// The root CA and the default account of a namespace.
async fn furnish(client: &Client, namespace: &str) {
    let root = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": CA}});
    create::<ConfigMap>(&Api::namespaced(client.clone(), namespace), root).await;
    let account = json!({"metadata": {"name": "default"}});
    create::<ServiceAccount>(&Api::namespaced(client.clone(), namespace), account).await;
}

/// Creates what is not there.
async fn create<K>(api: &Api<K>, object: Value)
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    match api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await {
        Err(kube::Error::Api(status)) if status.reason != "AlreadyExists" => panic!("{status:?}"),
        // The test may have ended the server meanwhile.
        _ => {}
    }
}

/// Does the work until it is dropped.
pub(crate) async fn run(client: Client) {
    let config = watcher::Config::default;
    let namespaces = watcher(Api::<Namespace>::all(client.clone()), config());
    let namespaces = namespaces.map_ok(|event| match event {
        watcher::Event::Apply(namespace) => Change::Namespace(namespace.name_any()),
        _ => Change::Other,
    });
    let jobs = watcher(Api::<Job>::all(client.clone()), config()).map_ok(|event| match event {
        watcher::Event::Delete(job) => Change::Gone(job.uid().unwrap_or_default()),
        watcher::Event::Apply(job) if job.finalizers().iter().any(|f| f == ORPHAN) => {
            Change::Going(job.into())
        }
        _ => Change::Other,
    });
    let tokens = watcher(Api::<Secret>::namespaced(client.clone(), "kube-system"), config());
    let infos = config().fields("metadata.name=cluster-info");
    let infos = watcher(Api::<ConfigMap>::namespaced(client.clone(), "kube-public"), infos);
    let changes = [
        namespaces.boxed(),
        jobs.boxed(),
        tokens.map_ok(|_| Change::Token).boxed(),
        infos.map_ok(|_| Change::Token).boxed(),
    ];
    let mut changes = stream::select_all(changes);
    while let Some(change) = changes.next().await {
        // What does not work is done at the next change: a conflict is one, and a watch that broke begins anew.
        match change {
            Ok(Change::Namespace(name)) => furnish(&client, &name).await,
            Ok(Change::Gone(uid)) => drop(collect(&client, &uid).await),
            Ok(Change::Going(job)) => drop(orphan(&client, &job).await),
            Ok(Change::Token) => drop(sign(&client).await),
            Ok(Change::Other) | Err(_) => {}
        }
    }
}

enum Change {
    Namespace(String),
    /// A Job of this UID is gone.
    Gone(String),
    /// A Job is to go without its pods.
    Going(Box<Job>),
    /// A token or what they sign.
    Token,
    Other,
}

/// The pods of a Job, each with the handle on its namespace's.
async fn owned(client: &Client, owner: &str) -> kube::Result<Vec<(Api<Pod>, Pod)>> {
    let all = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?.items;
    let of_owner = all.into_iter().filter(|pod| pod.owner_references().iter().any(|r| r.uid == owner));
    let handle = |pod: &Pod| Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    Ok(of_owner.map(|pod| (handle(&pod), pod)).collect())
}

/// Deletes the pods of a Job that is gone.
async fn collect(client: &Client, owner: &str) -> kube::Result<()> {
    for (pods, pod) in owned(client, owner).await? {
        pods.delete(&pod.name_any(), &DeleteParams::background()).await?;
    }
    Ok(())
}

/// Makes the pods of a Job forget it, and lets it go.
async fn orphan(client: &Client, job: &Job) -> kube::Result<()> {
    let uid = job.uid().unwrap_or_default();
    for (pods, mut pod) in owned(client, &uid).await? {
        pod.owner_references_mut().retain(|reference| reference.uid != uid);
        pods.replace(&pod.name_any(), &PostParams::default(), &pod).await?;
    }
    let jobs = Api::<Job>::namespaced(client.clone(), &job.namespace().unwrap_or_default());
    let mut job = job.clone();
    job.finalizers_mut().retain(|finalizer| finalizer != ORPHAN);
    jobs.replace(&job.name_any(), &PostParams::default(), &job).await?;
    Ok(())
}

/// Signs `cluster-info` with each token that is valid.
async fn sign(client: &Client) -> kube::Result<()> {
    let infos = Api::<ConfigMap>::namespaced(client.clone(), "kube-public");
    let Some(mut info) = infos.get_opt("cluster-info").await? else { return Ok(()) };
    let secrets = Api::<Secret>::namespaced(client.clone(), "kube-system");
    let secrets = secrets.list(&ListParams::default().fields("type=bootstrap.kubernetes.io/token")).await?;
    let data = info.data.get_or_insert_default();
    let before = data.clone();
    data.retain(|key, _| !key.starts_with(SIGNATURE));
    if let Some(content) = data.get("kubeconfig").cloned() {
        data.extend(secrets.items.iter().filter_map(|secret| signed(secret, &content)));
    }
    if *data != before {
        infos.replace("cluster-info", &PostParams::default(), &info).await?;
    }
    Ok(())
}

/// The key and the detached signature (JWS, HS256) that a token adds to `cluster-info`.
fn signed(secret: &Secret, content: &str) -> Option<(String, String)> {
    let data: BTreeMap<&str, &str> = secret
        .data
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), std::str::from_utf8(&value.0).unwrap_or_default()))
        .collect();
    let signs = data.get("usage-bootstrap-signing") == Some(&"true");
    let over =
        data.get("expiration").is_some_and(|at| at.parse().is_ok_and(|at: Timestamp| at < Timestamp::now()));
    let (id, key) = (data.get("token-id")?, data.get("token-secret")?);
    if !signs || over {
        return None;
    }
    Some((format!("{SIGNATURE}{id}"), signature(id, key, content)))
}

/// What the token `id.key` adds to `cluster-info` with this content.
pub(crate) fn signature(id: &str, key: &str, content: &str) -> String {
    let header = BASE64URL_NOPAD.encode(json!({"alg": "HS256", "kid": id}).to_string().as_bytes());
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(format!("{header}.{}", BASE64URL_NOPAD.encode(content.as_bytes())).as_bytes());
    format!("{header}..{}", BASE64URL_NOPAD.encode(&mac.finalize().into_bytes()))
}
