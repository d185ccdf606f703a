//! The program itself as the accounts that are shipped: the server, an operator and a run's pod each with a token of its own do all of
//! their part with what Roles and policies leave to them, and the API server says who they are.

use std::path::Path;

use hostwright::backend::kube::Kube;
use hostwright::config::{Kubernetes, Signer};
use hostwright::domain::target::NewTarget;
use hostwright::domain::{ExitCode, Outcome, Phase, RawAnnouncement, Run};
use hostwright::ops::decide::{self, Changes, Seen};
use hostwright::ops::marks::{self, Wish};
use hostwright::ops::tokens::NewToken;
use hostwright::ops::{self, OpError};
use reqwest::Method;
use serde_json::{Value, json};

use crate::ground::Ground;
use crate::permissions::{Caller, installed, note};
use crate::support::apiserver::kubeconfig;

const ACCOUNTS: &str = "/api/v1/namespaces/hostwright/serviceaccounts";
const OPERATOR: &str = "system:serviceaccount:hostwright:hostwright-operator";

/// A token of an account, bound to a pod if there is one.
async fn token(caller: &Caller, who: &str, pod: Option<&str>) -> String {
    let mut request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    if let Some(pod) = pod {
        request["spec"]["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
    }
    let path = format!("{ACCOUNTS}/hostwright-{who}/token");
    let made = caller.answer(None, Method::POST, &path, &request).await;
    made["status"]["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

/// The program's client with a token.
async fn with_token(ground: &Ground, name: &str, token: &str) -> Kube {
    let file = ground.dir.path().join(name);
    let mut config: Value = kubeconfig(&ground.url);
    config["users"][0]["user"] = json!({"token": token});
    write(&file, &config);
    let place =
        Kubernetes { kubeconfig: Some(file), context: None, namespace: Some("hostwright".to_owned()) };
    Kube::connect(&place).await.unwrap().of_environment("test")
}

fn write(file: &Path, config: &Value) {
    std::fs::write(file, config.to_string()).unwrap();
}

async fn account(ground: &Ground, caller: &Caller, who: &str) -> Kube {
    with_token(ground, who, &token(caller, who, None).await).await
}

/// A run's pod, as the Job's controller would make it.
async fn pod_of(caller: &Caller, run: &Run) -> String {
    let name = format!("{}-abcde", run.name);
    let safe = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "serviceAccountName": "hostwright-provision", "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "a", "image": "a:1", "securityContext": safe}],
        },
    });
    let made = caller.answer(None, Method::POST, "/api/v1/namespaces/hostwright/pods", &pod).await;
    assert_eq!(made["metadata"]["name"], name.as_str(), "{made}");
    name
}

fn is_refused<T>(done: &Result<T, OpError>, says: &str) -> bool {
    done.as_ref().is_err_and(|error| error.to_string().contains(says))
}

#[tokio::test]
async fn the_program_does_its_work_with_what_is_shipped() {
    let (mut ground, caller) = installed().await;
    ground.settings.job.service_account = Some("hostwright-provision".to_owned());
    let (settings, permit) = (ground.settings.clone(), ground.permit());
    let environment = &settings.environment;
    let [server, operator, admin] = [
        account(&ground, &caller, "server").await,
        account(&ground, &caller, "operator").await,
        account(&ground, &caller, "token-admin").await,
    ];
    let refused = note("decided-by", "olga");
    let announce = async |host: &str| {
        let raw = RawAnnouncement { hostname: host.into(), ..RawAnnouncement::default() };
        let announcement = raw.check().unwrap();
        let new = crate::ground::first_run(&announcement);
        server.create_run(&permit, &ground.template(), &new).await.unwrap().run
    };
    let run = announce("web-1.example.org").await;
    let path = format!("/apis/batch/v1/namespaces/hostwright/jobs/{}", run.name);
    caller.until_refused(&("operator", Method::PATCH, path, refused)).await;

    // Held, released, and then approved, by the name that the API server knows.
    assert_eq!(ops::operator(&operator, environment).await.unwrap(), OPERATOR);
    ops::approvals::hold(&operator, &permit, "patching", OPERATOR).await.unwrap();
    let approve = async |run: &Run| {
        decide::approve(&operator, &permit, environment, &Seen::from(run), &Changes::default(), OPERATOR)
            .await
    };
    assert!(is_refused(&approve(&run).await, "patching"));
    ops::approvals::release(&operator, &permit, None, OPERATOR).await.unwrap();
    assert_eq!(approve(&run).await.unwrap().run.phase, Phase::Queued);

    // The pod, and no other, says how it ended, adds its host to the targets and takes a token for a while.
    let pod = token(&caller, "provision", Some(&pod_of(&caller, &run).await)).await;
    let pod = with_token(&ground, "pod", &pod).await;
    let other = announce("web-2.example.org").await;
    let ended =
        Outcome { exit: ExitCode::Ready, at: jiff::Timestamp::now(), text: "done".into(), counts: None };
    let foreign = pod.set_outcome(&permit, &other.name, &other.uid, Some(&ended), &[]).await;
    assert!(foreign.unwrap_err().to_string().contains("only its own run"));
    pod.set_outcome(&permit, &run.name, &run.uid, Some(&ended), &[7]).await.unwrap();
    let new = [NewTarget::of_host(&run.host, 9103, Some(&run.uid))];
    ops::targets::add(&pod, &permit, &environment.targets, &new, "pod").await.unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let node = |hours: u32| NewToken::for_node(hour * hours, "web-1".into(), Signer::Off);
    ops::tokens::mint(&pod, &permit, &node(1), "pod").await.unwrap();
    assert!(is_refused(&ops::tokens::mint(&pod, &permit, &node(48), "pod").await, "within 25 hours"));
    let tokens = ops::tokens::list(&admin).await.unwrap();
    assert_eq!(tokens.len(), 1);
    ops::tokens::delete(&admin, &permit, &tokens[0], "admin").await.unwrap();

    // With a limit the server starts what waits; stopped, and rejected while it waits; a retry is a mark that the server answers.
    ops::approvals::publish(&server, &permit, 1).await.unwrap();
    let waiting = approve(&other).await.unwrap().run;
    assert!(waiting.waits.is_some());
    let third = approve(&announce("web-3.example.org").await).await.unwrap().run;
    decide::reject(&operator, &permit, &Seen::from(&third), OPERATOR).await.unwrap();
    assert_eq!(ops::places::fill(&server, &permit, 2, false).await.unwrap(), 1);
    let stopped = decide::stop(&operator, &permit, &other.name, &other.uid, OPERATOR).await.unwrap().run;
    assert_eq!(stopped.phase, Phase::Stopped);
    let marked =
        marks::mark(&operator, &permit, Wish::Retry, &Seen::from(&stopped), OPERATOR).await.unwrap().run;
    let approvals = ops::approvals::look(&server).await.unwrap();
    let template = ground.template();
    let made = marks::answer(&server, &permit, environment, &template, &marked, &approvals).await.unwrap();
    assert_eq!((made.len(), made[0].host.as_str()), (1, "web-2.example.org"));
}

/// Who shows an account's token is that account, on that pod; reviews say what it may do.
#[tokio::test]
async fn a_token_says_who_and_reviews_say_what() {
    let (ground, caller) = installed().await;
    let run = crate::operators::pending(&ground, "web-1.example.org").await;
    let pod = pod_of(&caller, &run).await;
    let held = token(&caller, "provision", Some(&pod)).await;
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let me = caller.answer(Some(&held), Method::POST, review, &body).await;
    let info = &me["status"]["userInfo"];
    assert_eq!(info["username"], "system:serviceaccount:hostwright:hostwright-provision", "{me}");
    assert_eq!(info["extra"]["authentication.kubernetes.io/pod-name"], json!([pod]), "{me}");
    let groups = ["system:serviceaccounts", "system:serviceaccounts:hostwright", "system:authenticated"];
    assert_eq!(info["groups"], json!(groups), "{me}");

    let may = async |verb: &str, group: &str, resource: &str, namespace: &str, name: &str| {
        let asked =
            json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name});
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        caller.answer(Some(&held), Method::POST, path, &body).await["status"]["allowed"].as_bool().unwrap()
    };
    assert!(may("patch", "batch", "jobs", "hostwright", "").await);
    assert!(may("create", "", "secrets", "kube-system", "").await);
    assert!(may("watch", "", "configmaps", "default", "scrape-collectd").await);
    for denied in [
        may("list", "batch", "jobs", "hostwright", "").await,
        may("patch", "batch", "jobs", "default", "").await,
        may("get", "", "secrets", "kube-system", "bootstrap-token-abcdef").await,
        may("watch", "", "configmaps", "default", "").await,
        may("impersonate", "", "users", "", "root").await,
    ] {
        assert!(!denied);
    }
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "kube-system"},
    });
    let said = caller.answer(Some(&held), Method::POST, rules, &body).await;
    let secrets = json!({"verbs": ["create", "delete"], "apiGroups": [""], "resources": ["secrets"]});
    assert!(said["status"]["resourceRules"].as_array().unwrap().contains(&secrets), "{said}");

    // Without its pod the token is nobody's.
    let gone = format!("/api/v1/namespaces/hostwright/pods/{pod}?gracePeriodSeconds=0");
    caller.answer(None, Method::DELETE, &gone, &json!({})).await;
    let mut left = 0;
    for _ in 0..300 {
        // A real API server remembers for ten seconds who showed a token.
        left = caller.answer(Some(&held), Method::POST, review, &body).await["code"].as_u64().unwrap_or(0);
        if left == 401 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(left, 401);
}
