//! What admission policies and the quota hold together, whatever Roles allow: decisions that stand, signed holds, no Job too many. Against
//! a real API server and the loopback API alike.

use reqwest::Method;
use serde_json::{Value, json};

use crate::operators::pending;
use crate::permissions::{installed, note, shipped};

fn decided(verdict: &str, by: &str) -> Value {
    let mut change = note("decision", verdict);
    change["metadata"]["annotations"]["hostwright.dev/decided-by"] = by.into();
    change["metadata"]["annotations"]["hostwright.dev/decided-at"] = "2026-01-01T00:00:00Z".into();
    change
}

fn held(mut change: Value, label: &str) -> Value {
    change["metadata"]["labels"] = json!({"hostwright.dev/held": label});
    change
}

fn suspended(mut change: Value, suspend: bool) -> Value {
    change["spec"]["suspend"] = suspend.into();
    change
}

/// A decision stands, whoever comes later, and what is held, stopped or waits says so truly.
#[tokio::test]
async fn a_run_is_decided_once_and_started_once() {
    let (ground, caller) = installed().await;
    let me = "system:serviceaccount:hostwright:hostwright-operator";
    let path_of = |name: &str| format!("/apis/batch/v1/namespaces/hostwright/jobs/{name}");
    let mut jobs = Vec::new();
    for host in ["web-1.example.org", "web-2.example.org", "web-3.example.org"] {
        jobs.push(path_of(&pending(&ground, host).await.name));
    }
    let stop = note("stop", &format!("{{\"by\":\"{me}\",\"at\":\"2026-01-01T00:00:00Z\"}}"));
    let waits = |mut change: Value| {
        change["metadata"]["annotations"]["hostwright.dev/waits"] = "{}".into();
        change
    };
    caller.until_refused(&("operator", Method::PATCH, jobs[0].clone(), note("decided-by", "olga"))).await;
    let (first, second, third) = (&jobs[0], &jobs[1], &jobs[2]);
    // Which run, what is changed, and what a refusal says; empty: it is done.
    let cases = [
        (first, held(json!({}), "rejected"), "as what was done to it says"),
        (first, held(json!({}), "stopped"), "as what was done to it says"),
        (first, note("parameters", "{}"), "written with it"),
        (first, note("waits", "{}"), "written with it"),
        (first, decided("maybe", me), "approves or rejects"),
        (first, held(decided("rejected", me), "place"), "as what was done to it says"),
        (first, held(decided("rejected", me), "rejected"), ""),
        (first, suspended(decided("approved", me), false), "decided once"),
        (first, suspended(json!({}), false), "only with an approval"),
        (
            first,
            json!({"metadata": {"labels": {"hostwright.dev/held": null}}}),
            "as what was done to it says",
        ),
        (second, suspended(decided("approved", me), false), ""),
        (second, decided("rejected", me), "decided once"),
        (second, note("decided-at", "2026-01-02T00:00:00Z"), "written with it"),
        (second, suspended(held(stop.clone(), "stopped"), true), ""),
        (second, suspended(json!({}), false), "only with an approval"),
        (second, suspended(decided("approved", me), false), "only with an approval"),
        (second, note("stop", &format!("{{\"by\":\"{me}\"}}")), "stopped once"),
        (
            second,
            json!({"metadata": {"labels": {"hostwright.dev/held": null}}}),
            "as what was done to it says",
        ),
        (third, held(waits(decided("approved", me)), "place"), ""),
        (third, suspended(json!({}), false), "only with an approval"),
        (third, decided("approved", "olga"), "own name"),
        (third, held(decided("rejected", me), "rejected"), ""),
        (third, held(decided("approved", me), "place"), "decided once"),
    ];
    for (job, change, says) in cases {
        let (status, message) = caller.call(Some("operator"), None, Method::PATCH, job, &change).await;
        let as_said = if says.is_empty() { status < 300 } else { status == 422 && message.contains(says) };
        assert!(as_said, "{job} {change}: {status} {message:?}, and not {says:?}");
    }
}

/// The one ConfigMap by which everything is held.
#[tokio::test]
async fn a_hold_is_signed_and_the_limit_is_the_servers() {
    let (_ground, caller) = installed().await;
    let path = "/api/v1/namespaces/hostwright/configmaps/hostwright-approvals";
    let by =
        |who: &str| format!("{{\"by\":\"system:serviceaccount:hostwright:hostwright-{who}\",\"at\":\"x\"}}");
    let data = |pairs: &[(&str, &str)]| {
        let data: serde_json::Map<_, _> = pairs.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        json!({"metadata": {"name": "hostwright-approvals"}, "data": data})
    };
    let (mine, again, others) = (by("operator"), by("operator").replace("\"x\"", "\"y\""), by("viewer"));
    caller.until_refused(&("operator", Method::PUT, path.to_owned(), data(&[("hold", &others)]))).await;
    let cases = [
        ("viewer", data(&[("hold", &others)]), "cannot update"),
        ("operator", data(&[("hold", &others)]), "a hold is signed"),
        ("operator", data(&[("hold", "held")]), "a hold is signed"),
        ("operator", data(&[("runs-at-once", "9")]), "the limit"),
        ("operator", data(&[("other", "x")]), "it says who holds"),
        ("server", data(&[("runs-at-once", "9")]), ""),
        ("operator", data(&[("runs-at-once", "9"), ("hold", &mine)]), ""),
        ("operator", data(&[("hold", &mine)]), "the limit"),
        ("operator", data(&[("runs-at-once", "9"), ("hold", &again)]), "released before"),
        ("operator", data(&[("runs-at-once", "9")]), "a release is signed"),
        ("operator", data(&[("runs-at-once", "9"), ("released", &others)]), "a release is signed"),
        ("server", data(&[("runs-at-once", "9"), ("released", &mine)]), "a release is signed"),
        ("operator", data(&[("runs-at-once", "9"), ("released", &mine)]), ""),
    ];
    for (who, map, says) in cases {
        let (status, message) = caller.call(Some(who), None, Method::PUT, path, &map).await;
        let as_said = if says.is_empty() { status < 300 } else { status >= 400 && message.contains(says) };
        assert!(as_said, "{who} {map}: {status} {message:?}, and not {says:?}");
    }
    // Who applies the manifest again changes nothing of it.
    let manifest =
        shipped().into_iter().find(|object| path.ends_with(object["metadata"]["name"].as_str().unwrap()));
    let manifest = manifest.filter(|object| object["kind"] == "ConfigMap").unwrap();
    assert!(caller.apply(&manifest, false).await.0 < 300);
}

/// The namespace's quota counts Jobs, whoever makes them.
#[tokio::test]
async fn a_job_too_many_is_refused() {
    let (ground, caller) = installed().await;
    let quota = "/api/v1/namespaces/hostwright/resourcequotas/hostwright-jobs";
    let run = pending(&ground, "web-1.example.org").await;
    let hard = json!({"spec": {"hard": {"count/jobs.batch": "1"}}});
    assert!(caller.call(None, None, Method::PATCH, quota, &hard).await.0 < 300);
    // A controller writes what is used, where one runs: the API server goes by that.
    let status = json!({"status": {"hard": {"count/jobs.batch": "1"}, "used": {"count/jobs.batch": "1"}}});
    let done = caller.call(None, None, Method::PATCH, &format!("{quota}/status"), &status).await;
    assert!(done.0 < 300, "{done:?}");
    let jobs = "/apis/batch/v1/namespaces/hostwright/jobs";
    let job = json!({
        "metadata": {"name": "one-more"},
        "spec": {"suspend": true, "template": {"spec": {
            "serviceAccountName": "hostwright-provision", "restartPolicy": "Never",
            "containers": [{"name": "a", "image": "a:1"}],
        }}},
    });
    let says = "exceeded quota: hostwright-jobs, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: \
                count/jobs.batch=1";
    // A real API server reads its quotas anew after a moment.
    let mut answer = (0, String::new());
    for _ in 0..150 {
        answer = caller.call(Some("server"), None, Method::POST, &format!("{jobs}?dryRun=All"), &job).await;
        if answer.0 == 403 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(answer.0, 403, "{}", answer.1);
    assert!(
        answer.1.contains("jobs.batch \"one-more\" is forbidden") && answer.1.contains(says),
        "{}",
        answer.1
    );
    assert!(
        caller.call(Some("server"), None, Method::GET, &format!("{jobs}/{}", run.name), &json!({})).await.0
            < 300
    );
}
