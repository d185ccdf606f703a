//! The targets: what others write at the same time survives, what does not fit is refused, what is not known is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostwright::backend::kube::Kube;
use hostwright::config::{Kubernetes, TargetSettings};
use hostwright::domain::HostName;
use hostwright::domain::target::{CONFIGMAP_LIMIT, NewTarget};
use hostwright::ops::targets;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::ground::{Ground, write_kubeconfig};
use crate::proxy::Proxy;

fn settings() -> TargetSettings {
    TargetSettings {
        namespace: "default".into(),
        name: "scrape-collectd".into(),
        key: "targets.json".into(),
        port: 9103,
    }
}

async fn write(ground: &Ground, text: &str) {
    let patch = json!({"data": {"targets.json": text}});
    ground
        .api::<ConfigMap>("default")
        .patch("scrape-collectd", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn text(ground: &Ground) -> String {
    let map = ground.api::<ConfigMap>("default").get("scrape-collectd").await.unwrap();
    map.data.unwrap().remove("targets.json").unwrap()
}

fn host(number: usize) -> NewTarget {
    let host = HostName::parse(&format!("web-{number}.example.org")).unwrap();
    NewTarget::of_host(&host, 9103, Some("provision-x-1"))
}

/// S24: fifty at once, and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_are_fifty_entries_and_again_changes_nothing() {
    let ground = Ground::new().await;
    for _ in 0..2 {
        let adding = (0..50).map(|number| {
            let (kube, permit) = (ground.kube.clone(), ground.permit());
            tokio::spawn(async move {
                targets::add(&kube, &permit, &settings(), &[host(number)], "test").await.unwrap()
            })
        });
        futures_util::future::join_all(adding).await;
        let list = targets::list(&ground.kube, &settings()).await.unwrap();
        let mut addresses: Vec<String> = list.iter().map(|t| t.address.clone()).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!((list.len(), addresses.len()), (50, 50));
    }
}

/// S24: a map of 1,048,500 bytes and one host more; and the warning from 80 % on.
#[tokio::test]
async fn what_does_not_fit_is_refused_with_its_size_and_the_map_stays() {
    let ground = Ground::new().await;
    let alien = |bytes: usize| format!(r#"["{}"]"#, "x".repeat(bytes - 4));
    // The key counts as well.
    let full = alien(1_048_500 - "targets.json".len());
    write(&ground, &full).await;
    let said = ground.run(&["targets", "add", "web-1.example.org"]).await;
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
    assert!(said.err.contains("would take 10485") && said.err.contains("holds 1048576"), "{}", said.err);
    assert_eq!(text(&ground).await, full);

    // Nor is what nobody could read written over.
    write(&ground, "- no: list of JSON\n").await;
    let said = ground.run(&["targets", "add", "web-1.example.org"]).await;
    assert_eq!((said.code, text(&ground).await.as_str()), (1, "- no: list of JSON\n"), "{}", said.err);

    write(&ground, &alien(CONFIGMAP_LIMIT / 100 * 81)).await;
    let said = ground.run(&["targets", "add", "web-1.example.org"]).await;
    assert!(said.err.contains("split it soon"), "{}", said.err);
    assert_eq!(said.done(), "1 added\n");
}

/// S24: somebody edits the map by hand after we have read it and before we write: the entry survives.
#[tokio::test]
async fn an_alien_entry_between_reading_and_writing_survives() {
    let ground = Ground::new().await;
    let port = ground.url.rsplit(':').next().unwrap().parse().unwrap();
    let proxy = Proxy::start(port).await;
    let kubeconfig = ground.dir.path().join("proxied");
    write_kubeconfig(&kubeconfig, &format!("http://127.0.0.1:{}", proxy.port()));
    let place = Kubernetes { kubeconfig: Some(kubeconfig), context: None, namespace: None };
    let kube = Kube::connect(&place).await.unwrap();
    let stopped = proxy.stop_at(b"PUT /api/v1/namespaces/default/configmaps/");
    let alien = r#"[ {"targets":["alien:1"],  "labels":{"by":"hand"}} ]"#;
    let written = Arc::new(Notify::new());
    let meanwhile = async {
        stopped.await;
        write(&ground, alien).await;
        written.notify_one();
        proxy.go_on();
    };
    let new = [host(1)];
    let settings = settings();
    let permit = ground.permit();
    let (change, ()) = tokio::join!(targets::add(&kube, &permit, &settings, &new, "test"), meanwhile);
    written.notified().await;
    assert_eq!(change.unwrap().changed, 1);
    let text = text(&ground).await;
    assert!(text.contains(r#"{"targets":["alien:1"],  "labels":{"by":"hand"}}"#), "{text}");
    assert!(text.contains("web-1.example.org:9103"), "{text}");
}

#[tokio::test]
async fn the_commands_add_label_list_and_remove() {
    let ground = Ground::new().await;
    let odd = r#"{"targets": ["x:1", 7]}"#;
    write(&ground, &format!("[{odd}]")).await;
    let said = ground
        .run(&[
            "targets",
            "add",
            "web-1.example.org",
            "[2001:DB8::1]:5",
            "2001:db8::2",
            "--label",
            "team=a b",
        ])
        .await;
    assert_eq!(said.done(), "3 added\n");
    assert_eq!(
        ground.run(&["targets", "label", "web-1.example.org", "team-", "zone=b"]).await.done(),
        "1 labelled\n"
    );
    let list = ground.run(&["targets", "list", "-o", "json"]).await.json();
    let list: Vec<&Value> = list.as_array().unwrap().iter().collect();
    assert_eq!(list.len(), 4);
    assert_eq!(list[0]["unknown"], json!({"text": odd, "reason": "one of its targets is no text"}));
    assert_eq!(list[1]["labels"], json!({"host": "web-1.example.org", "zone": "b"}));
    assert_eq!((&list[2]["address"], &list[2]["host"]), (&json!("[2001:db8::1]:5"), &json!("2001:db8::1")));
    assert_eq!(list[3]["address"], "[2001:db8::2]:9103");
    // Its reader takes it for YAML as well as for JSON.
    let yaml: Vec<serde_json::Value> = serde_saphyr::from_str(&text(&ground).await).unwrap();
    assert_eq!(yaml.len(), 4);
    let table = ground.run(&["targets", "list"]).await.done();
    assert!(table.contains("(unknown form)") && table.contains("7]}"), "{table}");

    let gone = ground.run(&["targets", "remove", "[2001:db8:0::1]:5", "nobody:1", "web-1.example.org"]).await;
    assert_eq!((gone.code, gone.out.as_str()), (3, "2 removed\n"));
    assert!(gone.err.contains("no such target: nobody:1"), "{}", gone.err);
    assert!(text(&ground).await.contains(odd));

    for (arguments, code) in [
        (vec!["targets", "add", "a b"], 2),
        (vec!["targets", "add", "web", "--label", "1=2"], 2),
        (vec!["targets", "label", "web", "x"], 2),
        (vec!["--read-only", "targets", "add", "web"], 4),
        (vec!["--read-only", "targets", "label", "web", "a=b"], 4),
        (vec!["--read-only", "targets", "remove", "[2001:db8::2]:9103"], 4),
    ] {
        let before = text(&ground).await;
        let said = ground.run(&arguments).await;
        assert_eq!(said.code, code, "{arguments:?}: {}{}", said.out, said.err);
        assert_eq!(text(&ground).await, before);
    }
}

#[tokio::test]
async fn what_was_done_is_told_and_what_failed_is_noted() {
    let ground = Ground::new().await;
    ground.run(&["targets", "add", "web-1.example.org"]).await.done();
    // Nothing changes: nothing to tell.
    ground.run(&["targets", "add", "web-1.example.org"]).await.done();
    write(&ground, "{}").await;
    assert_eq!(ground.run(&["targets", "remove", "web-1.example.org"]).await.code, 1);
    let lines = ground.activity_file();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        (&lines[0]["action"], &lines[0]["on"], &lines[0]["outcome"], &lines[0]["environment"]),
        (&json!("add targets"), &json!("targets default/scrape-collectd"), &json!("done"), &json!("test"))
    );
    assert_eq!((&lines[1]["action"], &lines[1]["outcome"]), (&json!("remove targets"), &json!("failed")));
    assert!(lines[1]["text"].as_str().unwrap().contains("not a list"), "{}", lines[1]);
    let told = ground.kube.activity("default").await.unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].action.as_str(), told[0].on.as_str()),
        ("add targets", "targets default/scrape-collectd")
    );
    assert_eq!(told[0].who, lines[0]["who"].as_str().unwrap());
}

#[tokio::test]
async fn a_target_that_does_not_say_so_is_the_newest_ready_runs() {
    let ground = Ground::new().await;
    let mut settings = ground.settings.clone();
    settings.environment.targets = self::settings();
    let announcement = crate::stage::announcement(&json!({}));
    let announced = hostwright::ops::announce::announce(
        &ground.kube,
        &ground.permit(),
        &ground.template(),
        &announcement,
        false,
    )
    .await
    .unwrap();
    let new = [NewTarget { address: "web-1.example.org:9103".into(), labels: BTreeMap::new() }];
    targets::add(&ground.kube, &ground.permit(), &self::settings(), &new, "test").await.unwrap();
    let look = || async { targets::look_with_runs(&ground.kube, &self::settings()).await.unwrap().targets };
    // A pending run has added nothing.
    assert_eq!(look().await[0].run, None);
    let status = json!({"status": {
        "startTime": "2026-12-01T10:00:00Z", "completionTime": "2026-12-01T10:00:01Z", "succeeded": 1,
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ],
    }});
    let jobs = ground.api::<k8s_openapi::api::batch::v1::Job>("hostwright");
    let name = announced.run.name.as_str();
    let resume = json!({"spec": {"suspend": false}});
    jobs.patch(name, &PatchParams::default(), &Patch::Merge(resume)).await.unwrap();
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let target = look().await.remove(0);
    assert_eq!(
        (target.run.as_deref(), target.host.as_deref(), target.guessed),
        (Some(name), Some("web-1.example.org"), true)
    );
}
