//! The scenarios of public bug reports about consoles, each with the input that is given there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hostwright::domain::Phase;

use crate::console::{Far, wait_for_console};
use crate::gate::{Gate, Request};
use crate::ground::Ground;
use crate::operators::pending;
use crate::pty::Pty;
use crate::rights::wait_grey;

/// What can be forbidden: verb, resource.
const RIGHTS: [(&str, &str); 4] =
    [("watch", "jobs"), ("get", "configmaps"), ("list", "secrets"), ("patch", "jobs")];

/// What an operator need not be allowed: nothing of it is asked for.
const UNNEEDED: [(&str, &str); 5] =
    [("list", "namespaces"), ("list", "nodes"), ("list", "pods"), ("get", "secrets"), ("create", "jobs")];

/// So long a console is looked at before its requests are counted.
const WHILE: Duration = Duration::from_secs(12);

/// The screen without its line breaks and borders: long reasons are broken.
pub(crate) fn words(pty: &Pty) -> String {
    let screen = pty.screen();
    let words = screen.split(|c: char| c.is_whitespace() || c == '│').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn wait_words(pty: &mut Pty, wanted: &str) {
    for _ in 0..600 {
        if words(pty).contains(wanted) {
            return;
        }
        pty.comes(pty.mark(), b"\x1b[?2026l", Duration::from_millis(100));
    }
    panic!("waited in vain for {wanted:?}; the screen:\n{}", pty.screen());
}

/// Looks at everything in a console that may not do all; what it may not do is said.
fn look_around(far: &Far, denied: &[(&str, &str)]) {
    let may = |verb, resource| !denied.contains(&(verb, resource));
    let mut pty = Pty::start(far.command(&[]), (160, 50));
    wait_for_console(&mut pty);
    if may("list", "jobs") {
        pty.wait_for("web-1.example.org");
        if !may("watch", "jobs") {
            wait_words(&mut pty, "cannot watch resource \"jobs\" in the namespace \"hostwright\"");
        }
    } else {
        wait_words(&mut pty, "cannot list resource \"jobs\" in the namespace \"hostwright\"");
    }
    pty.keys("3");
    if may("get", "configmaps") {
        pty.wait_for("web-9.example.org:9103");
    } else {
        wait_words(&mut pty, "cannot get resource \"configmaps\" in the namespace \"default\"");
    }
    pty.keys("5");
    if may("list", "secrets") {
        pty.wait_for("bootstrappers").wait_gone("configmaps");
    } else {
        wait_words(&mut pty, "cannot list resource \"secrets\" in the namespace \"kube-system\"");
    }
    if may("list", "jobs") {
        pty.keys("1 g");
        wait_grey(&mut pty, "approve", !may("patch", "jobs"));
        if may("patch", "jobs") {
            pty.keys("a").wait_for("Approve web-1").keys("y").wait_for("approved web-1");
        } else {
            pty.keys("a");
            wait_words(&mut pty, "cannot approve: you may not patch jobs.batch in namespace hostwright");
        }
    }
    // Where it was denied first it stays, so that it would ask again.
    pty.keys(match denied {
        [("get", "configmaps"), ..] => "3",
        [("list", "secrets"), ..] => "5",
        _ => "1",
    });
    assert!(pty.alive());
    // The absence of requests can only be seen over a time.
    std::thread::sleep(WHILE);
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// Requests that were refused: never more than one in five seconds for the same, but for those that an operator asked for.
fn assert_patient(gate: &Gate, denied: &[(&str, &str)]) {
    for (verb, resource) in denied {
        let asked: Vec<Request> =
            gate.seen().into_iter().filter(|r| r.verb == *verb && r.resource == *resource).collect();
        assert!(asked.iter().all(|request| request.status == 403), "{asked:?}");
        let mut by_path: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
        for request in &asked {
            by_path.entry(&request.path).or_default().push(request);
        }
        for asked in by_path.values() {
            let (Some(first), Some(last)) = (asked.first(), asked.last()) else { continue };
            // Going to a screen asks at once: twice at most here.
            let most = 2 + last.at.duration_since(first.at).as_secs() / 5;
            assert!(asked.len() as u64 <= most, "{verb} {resource}, of {denied:?}: {asked:?}");
        }
    }
}

/// S04: what may not be done is said with verb, resource and namespace; the rest works, and nothing is asked for again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_part_of_the_cluster_may_be_seen_or_changed() {
    let mut looks = Vec::new();
    let mut matrix: Vec<Vec<(&'static str, &'static str)>> = (0..16)
        .map(|bits| (0..4).filter(|bit| bits & (1 << bit) != 0).map(|bit| RIGHTS[bit]).collect())
        .collect();
    matrix.push(vec![("list", "jobs")]);
    matrix.push([&[("list", "jobs")], &RIGHTS[..]].concat());
    for denied in matrix {
        looks.push(tokio::spawn(async move {
            let ground = Ground::new().await;
            let run = pending(&ground, "web-1.example.org").await;
            ground.run(&["targets", "add", "web-9.example.org"]).await.done();
            ground.run(&["tokens", "create"]).await.done();
            let gate = Gate::start(&ground.url).await;
            for (verb, resource) in UNNEEDED.iter().chain(&denied) {
                gate.deny(verb, resource);
            }
            let far = Far::at(&gate.url());
            let these = denied.clone();
            tokio::task::spawn_blocking(move || look_around(&far, &these)).await.unwrap();
            assert_patient(&gate, &denied);
            let may = |right| !denied.contains(&right);
            let approved = may(("patch", "jobs")) && may(("list", "jobs"));
            let phase = ground.kube.run(&run.name).await.unwrap().run.phase;
            assert_eq!(phase, if approved { Phase::Queued } else { Phase::Pending }, "{denied:?}");
        }));
    }
    for look in looks {
        look.await.unwrap();
    }
}

/// S04: where runs may be listed and not watched, what is new is seen all the same.
#[tokio::test(flavor = "multi_thread")]
async fn without_watching_runs_are_listed_again() {
    let ground = Ground::new().await;
    pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    gate.deny("watch", "jobs");
    let far = Far::at(&gate.url());
    let mut pty = Pty::start(far.command(&[]), (120, 40));
    pty.wait_for("web-1.example.org").wait_for("cannot watch");
    pending(&ground, "web-2.example.org").await;
    pty.wait_for("web-2.example.org").wait_for("● cluster");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// S03: a token that is no good any more is called so, with how to log in; a new one in its file counts without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_expire_are_renewed_by_themselves() {
    let ground = Ground::new().await;
    pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    let far = Far::at(&gate.url());
    let token = far.path().join("token");
    std::fs::write(&token, "one").unwrap();
    let kubeconfig = far.path().join("kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::write(&kubeconfig, text.replace("{token: none}", &format!("{{tokenFile: {token:?}}}"))).unwrap();
    gate.only("two");
    let mut pty = Pty::start(far.command(&[]), (120, 40));
    wait_words(&mut pty, "log in to the cluster again");
    assert!(words(&pty).contains("not authenticated to far"), "{}", pty.screen());
    std::fs::write(&token, "two").unwrap();
    pty.wait_for("web-1.example.org").wait_gone("log in");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// The page of scenarios names tests that are there.
#[test]
fn the_page_of_scenarios_is_true() {
    fn sources(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, all),
                path if path.extension().is_some_and(|end| end == "rs") => {
                    all.push_str(&std::fs::read_to_string(path).unwrap());
                }
                _ => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    for folder in ["src", "tests"] {
        sources(&root.join(folder), &mut all);
    }
    let page = std::fs::read_to_string(root.join("docs/scenarios.md")).unwrap();
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let tests = row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2);
        for test in tests.filter(|test| test.contains("::") || test.contains('_')) {
            let name = test.rsplit("::").next().unwrap();
            let kind = if name == "tests" { "mod" } else { "fn" };
            assert!(all.contains(&format!("{kind} {name}")), "{test}");
            named += 1;
        }
    }
    assert!(named > 40, "{named}");
}
