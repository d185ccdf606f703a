//! Names of Jobs for whatever hosts are called, and that the way in of an administrator works.

use std::collections::BTreeSet;
use std::path::Path;

use hostwright::backend::kube::{Kube, KubeErrorKind};
use hostwright::domain::RawAnnouncement;
use hostwright::ops::{self, runs};
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;

use crate::ground::{Ground, first_run};
use crate::operators::pending;
use crate::stage::settings_of;
use crate::support;
use crate::support::apiserver::ApiServer;

/// Names as long as they may be, names that differ only in what a Job's name has no room for, and what looks alike in one.
fn hosts() -> Vec<String> {
    let label = "x".repeat(63);
    let long = format!("{}.example.org", "a".repeat(40));
    vec![
        format!("{label}.{label}.{label}.{}", "y".repeat(61)),
        format!("{label}.{label}.{label}.{}z", "y".repeat(60)),
        format!("one.{long}"),
        format!("{long}.one"),
        format!("{long}.two"),
        format!("{}-a.b", "a".repeat(29)),
        format!("{}.b", "a".repeat(29)),
        format!("{}-b", "a".repeat(29)),
        "WEB-1.Example.ORG".to_owned(),
        "web.1.example.org".to_owned(),
        "web-1-example.org".to_owned(),
        "a".to_owned(),
        "9-9.a".to_owned(),
    ]
}

#[tokio::test]
async fn every_legal_host_name_has_a_job_of_its_own() {
    let ground = Ground::new().await;
    let hosts = hosts();
    for host in &hosts {
        let run = pending(&ground, host).await;
        assert!(run.name.len() <= 57, "{}", run.name);
        let found = runs::of_host(&ground.kube, &host.parse().unwrap()).await.unwrap().run;
        assert_eq!((found.uid, found.host.as_str()), (run.uid, host.to_ascii_lowercase().as_str()));
    }
    let jobs = ground.api::<Job>("hostwright").list(&ListParams::default()).await.unwrap().items;
    let names: BTreeSet<_> = jobs.iter().map(|job| job.metadata.name.as_ref().unwrap()).collect();
    assert_eq!(names.len(), hosts.len());

    // Another spelling is the same host, and so the same Job.
    for host in &hosts {
        let raw = RawAnnouncement { hostname: host.to_ascii_uppercase() + ".", ..RawAnnouncement::default() };
        let Ok(announcement) = raw.check() else { panic!("{host}") };
        let new = first_run(&announcement);
        let error = ground.kube.create_run(&ground.permit(), &ground.template(), &new).await.unwrap_err();
        assert_eq!(error.kind, KubeErrorKind::AlreadyExists, "{host}: {error}");
    }
}

/// Straight to the API server: through TLS and with a client certificate where it is a real one.
#[tokio::test]
async fn an_administrator_comes_in_with_a_kubeconfig() {
    let dir = support::temp();
    let server = ApiServer::start(dir.path()).await;
    let kubeconfig = dir.path().join("admin");
    support::private_file(&kubeconfig, &server.kubeconfig().to_string());
    let none = Path::new("/nonexistent");
    let environment = settings_of(&kubeconfig, none, none, none, none).environment;
    let kube = Kube::connect(&environment.kubernetes).await.unwrap();
    assert!(kube.ping().await.unwrap().starts_with("v1."));
    assert!(kube.runs(None).await.unwrap().is_empty());
    assert_eq!(ops::operator(&kube, &environment).await.unwrap(), "playground");
}
