//! What is shipped for a cluster: an API server takes all of it, and each account may do what it must and nothing else. The same is asked
//! of a real API server (`KUBEBUILDER_ASSETS`) and of the loopback API.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::operators::pending;

const FILES: [&str; 7] = ["namespace", "rbac", "admission", "config", "quota", "network", "server"];

/// Every object of `assets/deploy`, in the order of its files.
pub(crate) fn shipped() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/deploy");
    let read = |name: &str| std::fs::read_to_string(folder.join(name).with_extension("yaml")).unwrap();
    FILES.iter().flat_map(|name| serde_saphyr::from_multiple::<Value>(&read(name)).unwrap()).collect()
}

/// Where an object is.
fn path(object: &Value) -> String {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap().to_owned();
    let version = text("/apiVersion");
    let base = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let kind = text("/kind").to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    let namespace = namespace.map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
    format!("{base}{namespace}/{plural}/{}", text("/metadata/name"))
}

pub(crate) struct Caller {
    client: reqwest::Client,
    url: String,
}

/// What was answered: status and message.
pub(crate) type Answer = (u16, String);

impl Caller {
    pub(crate) async fn call(
        &self,
        who: Option<&str>,
        pod: Option<&str>,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Answer {
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.url));
        if let Some(who) = who {
            request = request
                .header("Impersonate-User", format!("system:serviceaccount:hostwright:hostwright-{who}"));
            for group in
                ["system:serviceaccounts", "system:serviceaccounts:hostwright", "system:authenticated"]
            {
                request = request.header("Impersonate-Group", group);
            }
        }
        if let Some(pod) = pod {
            request = request.header("Impersonate-Extra-authentication.kubernetes.io%2Fpod-name", pod);
        }
        let kind = match method {
            Method::PATCH if body.get("apiVersion").is_some() => "application/apply-patch+yaml",
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = request.header("Content-Type", kind).body(body.to_string());
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.unwrap_or_default();
        (status, body["message"].as_str().unwrap_or_default().to_owned())
    }

    /// What is answered to who shows this token; to one who may do everything without.
    pub(crate) async fn answer(
        &self,
        token: Option<&str>,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Value {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        request.send().await.unwrap().json().await.unwrap()
    }

    /// A policy takes effect a moment after it was made.
    pub(crate) async fn until_refused(&self, (who, method, path, body): &(&str, Method, String, Value)) {
        for _ in 0..150 {
            let path = format!("{path}?dryRun=All");
            if self.call(Some(who), None, method.clone(), &path, body).await.0 >= 400 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("{who} {method} {path}: the policy never took effect");
    }

    pub(crate) async fn apply(&self, object: &Value, dry: bool) -> Answer {
        let query = if dry { "&dryRun=All" } else { "" };
        let path = format!("{}?fieldManager=test&force=true&fieldValidation=Strict{query}", path(object));
        self.call(None, None, Method::PATCH, &path, object).await
    }
}

/// A time from now, as tokens and decisions have it.
fn in_hours(hours: i64) -> String {
    let then = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn token(id: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut secret = json!({
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": id, "token-secret": "0123456789abcdef", "expiration": in_hours(24),
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            "usage-bootstrap-authentication": "true",
        },
    });
    change(&mut secret);
    secret
}

pub(crate) fn note(key: &str, text: &str) -> Value {
    json!({"metadata": {"annotations": {format!("hostwright.dev/{key}"): text}}})
}

/// Whether what is shipped gives an account a right.
fn given(objects: &[Value], account: &str, right: &hostwright::domain::rights::Right) -> bool {
    let has = |list: &Value, word: &str| list.as_array().unwrap().iter().any(|item| item == word);
    let wide = right.namespace.is_empty();
    let (binding, role) = if wide { ("ClusterRoleBinding", "ClusterRole") } else { ("RoleBinding", "Role") };
    let here = |object: &&Value| wide || object["metadata"]["namespace"] == right.namespace.as_str();
    let of = |kind: &'static str| objects.iter().filter(move |o| o["kind"] == kind).filter(here);
    of(binding)
        .filter(|b| b["subjects"].as_array().unwrap().iter().any(|subject| subject["name"] == account))
        .flat_map(|b| of(role).filter(|role| role["metadata"]["name"] == b["roleRef"]["name"]))
        .flat_map(|role| role["rules"].as_array().unwrap())
        .any(|rule| {
            has(&rule["apiGroups"], right.group)
                && has(&rule["resources"], &right.resource())
                && has(&rule["verbs"], right.verb)
                && rule
                    .get("resourceNames")
                    .is_none_or(|names| right.name.as_ref().is_some_and(|name| has(names, name)))
        })
}

#[test]
fn what_a_run_is_said_to_need_is_what_it_is_given() {
    let objects = shipped();
    let settings = hostwright::config::TargetSettings {
        namespace: "default".into(),
        name: "scrape-collectd".into(),
        key: String::new(),
        port: 0,
    };
    for need in hostwright::config::Need::PROVISION {
        let right = need.right("hostwright", &settings);
        assert!(given(&objects, "hostwright-provision", &right), "nothing gives {right}");
        assert!(!given(&objects, "hostwright-nobody", &right), "{right}");
    }
}

/// A cluster with everything that is shipped in it: a server takes it as a dry run first.
pub(crate) async fn installed() -> (Ground, Caller) {
    let (ground, objects) = (Ground::new().await, shipped());
    let caller =
        Caller { client: reqwest::Client::builder().no_proxy().build().unwrap(), url: ground.url.clone() };
    for dry in [true, false] {
        for object in &objects {
            let (status, message) = caller.apply(object, dry).await;
            assert!(status < 300, "{}: {status} {message}", path(object));
        }
    }
    (ground, caller)
}

#[tokio::test]
async fn each_account_may_do_what_it_must_and_nothing_else() {
    let objects = shipped();
    assert!(objects.len() > 35, "{}", objects.len());
    let (ground, caller) = installed().await;
    let opaque = json!({"metadata": {"name": "probe"}, "type": "Opaque"});
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let run = pending(&ground, "web-1.example.org").await;
    let job = format!("/apis/batch/v1/namespaces/hostwright/jobs/{}", run.name);
    let jobs = "/apis/batch/v1/namespaces/hostwright/jobs";
    let pod = format!("{}-abcde", run.name);
    let operator = "system:serviceaccount:hostwright:hostwright-operator";
    let mark = |by: &str| note("retry", &format!("{{\"by\":\"{by}\",\"at\":\"2026-01-01T00:00:00Z\"}}"));
    let foreign_job = json!({
        "metadata": {"name": "foreign"},
        "spec": {"template": {"spec": {
            "serviceAccountName": "hostwright-token-admin", "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "a", "image": "a:1"}],
        }}},
    });
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}]);
    let owned = json!({"metadata": {"ownerReferences": owner}});
    let mut owned_job = foreign_job.clone();
    owned_job["spec"]["template"]["spec"]["serviceAccountName"] = "hostwright-provision".into();
    owned_job["metadata"]["ownerReferences"] = owner;
    let probes = [
        ("provision", Method::POST, secrets.to_owned(), opaque.clone()),
        ("provision", Method::PATCH, job.clone(), note("outcome", "x")),
        ("operator", Method::PATCH, job.clone(), mark("olga")),
        ("server", Method::POST, jobs.to_owned(), foreign_job.clone()),
    ];
    for probe in probes {
        caller.until_refused(&probe).await;
    }
    let node = json!({"metadata": {"name": "web-1.example.org"}});
    assert!(caller.call(None, None, Method::POST, "/api/v1/nodes", &node).await.0 < 300);
    let targets = "/api/v1/namespaces/default/configmaps/scrape-collectd";
    let none = json!({});
    let (get, post, patch, delete) = (Method::GET, Method::POST, Method::PATCH, Method::DELETE);
    let group = |secret: &mut Value| secret["stringData"]["auth-extra-groups"] = "system:masters".into();
    let no_end =
        |secret: &mut Value| drop(secret["stringData"].as_object_mut().unwrap().remove("expiration"));
    let written = |text: &str| {
        let text = text.to_owned();
        move |secret: &mut Value| secret["stringData"]["expiration"] = text.into()
    };
    let ends = |hours: i64| written(&in_hours(hours));
    let template_label = json!({"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}});
    // Who, on which pod, what, and what a refusal says; empty: it is done.
    type Case<'a> = (&'a str, Option<&'a str>, &'a Method, String, Value, &'a str);
    let cases: Vec<Case<'_>> = vec![
        ("server", None, &get, jobs.into(), none.clone(), ""),
        ("server", None, &patch, job.clone(), note("last-seen", "2026-01-01T00:00:00Z"), ""),
        ("server", None, &get, secrets.into(), none.clone(), "cannot list"),
        ("server", None, &get, "/api/v1/namespaces/hostwright/secrets".into(), none.clone(), "cannot list"),
        ("viewer", None, &get, jobs.into(), none.clone(), ""),
        ("viewer", None, &patch, job.clone(), mark("x"), "cannot patch"),
        ("viewer", None, &get, targets.into(), none.clone(), ""),
        ("operator", None, &get, jobs.into(), none.clone(), ""),
        ("operator", None, &patch, job.clone(), mark(operator), ""),
        ("operator", None, &patch, job.clone(), mark("olga"), "own name"),
        ("operator", None, &patch, job.clone(), note("decided-by", "olga"), "own name"),
        ("operator", None, &patch, job.clone(), json!({"spec": {"suspend": false}}), "only with an approval"),
        ("operator", None, &patch, job.clone(), note("announcement", "{}"), "change nothing else"),
        ("operator", None, &patch, job.clone(), note("outcome", "{}"), "change nothing else"),
        (
            "operator",
            None,
            &patch,
            job.clone(),
            json!({"metadata": {"finalizers": ["a.b/c"]}}),
            "the queue goes",
        ),
        (
            "operator",
            None,
            &patch,
            job.clone(),
            json!({"spec": {"activeDeadlineSeconds": 99}}),
            "the server's to say",
        ),
        (
            "operator",
            None,
            &patch,
            job.clone(),
            json!({"metadata": {"labels": {"hostwright.dev/kind": "x"}}}),
            "no label",
        ),
        ("operator", None, &patch, job.clone(), template_label, "labels of a run's pods are"),
        ("server", None, &post, jobs.into(), foreign_job.clone(), "runs have the account"),
        ("server", None, &post, jobs.into(), owned_job, "runs have no owner"),
        ("operator", None, &patch, job.clone(), owned.clone(), "a run has no owner"),
        ("provision", Some(&pod), &patch, job.clone(), owned, "nothing but what it has to say"),
        ("operator", None, &delete, job.clone(), none.clone(), "cannot delete"),
        ("operator", None, &post, jobs.into(), none.clone(), "cannot create"),
        ("operator", None, &post, secrets.into(), token("aaaaaa", |_| {}), "cannot create"),
        ("provision", Some(&pod), &patch, job.clone(), note("outcome", "{}"), ""),
        ("provision", Some(&pod), &patch, job.clone(), note("decision", "approved"), "only how it ended"),
        ("provision", Some("other-abcde"), &patch, job.clone(), note("outcome", "x"), "only its own run"),
        ("provision", None, &patch, job.clone(), note("outcome", "x"), "only its own run"),
        ("provision", None, &get, jobs.into(), none.clone(), "cannot list"),
        ("provision", None, &get, secrets.into(), none.clone(), "cannot list"),
        ("provision", None, &get, "/api/v1/nodes/web-1.example.org".into(), none.clone(), ""),
        ("provision", None, &get, "/api/v1/nodes".into(), none.clone(), "cannot list"),
        ("provision", None, &delete, "/api/v1/nodes/web-1.example.org".into(), none.clone(), "cannot delete"),
        ("server", None, &get, "/api/v1/nodes/web-1.example.org".into(), none.clone(), "cannot get"),
        ("operator", None, &get, "/api/v1/nodes/web-1.example.org".into(), none.clone(), "cannot get"),
        ("provision", None, &post, secrets.into(), token("bbbbbb", |_| {}), ""),
        ("provision", None, &post, secrets.into(), token("cccccc", group), "only the group"),
        ("provision", None, &post, secrets.into(), token("dddddd", no_end), "has an end"),
        ("provision", None, &post, secrets.into(), opaque.clone(), "only bootstrap tokens"),
        ("provision", None, &delete, format!("{secrets}/bootstrap-token-bbbbbb"), none.clone(), ""),
        ("provision", None, &post, secrets.into(), token("eeeeee", ends(26)), "within 25 hours"),
        (
            "provision",
            None,
            &post,
            secrets.into(),
            token("ffffff", written("2026-01-01T01:00:00+01:00")),
            "within 25",
        ),
        ("provision", None, &post, secrets.into(), token("gggggg", written("tomorrow")), "within 25 hours"),
        ("token-admin", None, &get, secrets.into(), none.clone(), ""),
        ("token-admin", None, &post, secrets.into(), token("hhhhhh", ends(25)), ""),
        ("token-admin", None, &post, secrets.into(), token("iiiiii", ends(24 * 365)), "within 25 hours"),
        ("token-admin", None, &post, secrets.into(), opaque.clone(), "only bootstrap tokens"),
    ];
    for (who, pod, method, path, body, says) in cases {
        let (status, message) = caller.call(Some(who), pod, method.clone(), &path, &body).await;
        let as_said = if says.is_empty() { status < 300 } else { status >= 400 && message.contains(says) };
        assert!(as_said, "{who} {method} {path} {body}: {status} {message:?}, and not {says:?}");
    }
    // A Secret that is none of ours is not deleted by who may delete tokens.
    assert!(caller.call(None, None, post, secrets, &json!({"metadata": {"name": "foreign"}})).await.0 < 300);
    let gone = caller.call(Some("provision"), None, delete, &format!("{secrets}/foreign"), &none).await;
    assert!(gone.0 >= 400 && gone.1.contains("only bootstrap tokens"), "{gone:?}");
}
