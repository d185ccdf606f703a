//! What an operator may do: asked of the cluster, held to what the deeds really need, grey in the console, printed by a command.

use hostwright::config::{Action, Need, Rights};
use hostwright::domain::rights::{Answer, Right};
use hostwright::domain::{Phase, ProblemKind};
use hostwright::ops;
use serde_json::{Value, json};

use crate::console::Far;
use crate::gate::Gate;
use crate::ground::{Ground, write_kubeconfig};
use crate::operators::pending;
use crate::pty::Pty;

const HOST: &str = "web-1.example.org";

/// A ground whose commands and consoles go through a gate.
async fn gated() -> (Ground, Gate) {
    let ground = Ground::new().await;
    let gate = Gate::start(&ground.url).await;
    write_kubeconfig(&ground.dir.path().join("kubeconfig"), &gate.url());
    (ground, gate)
}

async fn look(ground: &Ground) -> Rights {
    let settings = &ground.settings.environment;
    let kube = hostwright::backend::kube::Kube::connect(&settings.kubernetes).await.unwrap();
    ops::rights::look(&kube, settings).await
}

fn changes(gate: &Gate) -> Vec<String> {
    gate.seen().iter().filter(|r| r.changes()).map(|r| format!("{} {}", r.method, r.path)).collect()
}

/// A right as the gate denies it.
fn denial(right: &Right) -> (&'static str, &'static str) {
    (right.verb, if right.subresource.is_some() { "pods/log" } else { right.resource })
}

/// Does an action by its command: on the host, or on the run or token of this name.
async fn try_it(ground: &Ground, action: Action, name: &str) -> (i32, String) {
    let words: Vec<&str> = match action {
        Action::Approve => vec!["hosts", "approve", HOST],
        Action::Check => vec!["hosts", "check", HOST],
        Action::Reject => vec!["hosts", "reject", HOST],
        Action::Retry => vec!["hosts", "retry", HOST],
        Action::Stop => vec!["runs", "stop", name],
        Action::Forget => vec!["hosts", "forget", HOST],
        Action::Yaml => vec!["runs", "yaml", name],
        Action::AddTarget => vec!["targets", "add", "web-2.example.org"],
        Action::LabelTargets => vec!["targets", "label", "web-9.example.org:9103", "site=lan"],
        Action::RemoveTargets => vec!["targets", "remove", "web-9.example.org:9103"],
        Action::MintToken => vec!["tokens", "create"],
        Action::RevokeTokens => vec!["tokens", "delete", name],
        Action::JoinCommand => vec!["tokens", "join-command", name],
        other => panic!("{other} is tried elsewhere"),
    };
    let said = ground.run(&words).await;
    (said.code, format!("{}{}", said.out, said.err))
}

/// Makes what an action is done on; returns its name.
async fn prepare(ground: &Ground, what: &str) -> String {
    match what {
        "targets" => drop(ground.run(&["targets", "add", "web-9.example.org"]).await.done()),
        "token" => {
            let token = ground.run(&["tokens", "create"]).await.done();
            return token.split('.').next().unwrap().to_owned();
        }
        phase => {
            let name = pending(ground, HOST).await.name;
            match phase {
                "rejected" => drop(ground.run(&["hosts", "reject", HOST]).await.done()),
                "approved" => drop(ground.run(&["hosts", "approve", HOST]).await.done()),
                _ => {}
            }
            return name;
        }
    }
    String::new()
}

/// Each right that an action is said to need is one without which its command is refused, with that right named. Both ways: with all
/// of them it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_right_that_an_action_is_said_to_need_is_one_that_it_needs() {
    use Action as A;
    let actions = [
        (A::Approve, "pending"),
        (A::Check, "pending"),
        (A::Reject, "pending"),
        (A::Retry, "rejected"),
        (A::Stop, "approved"),
        (A::Forget, "rejected"),
        (A::Yaml, "pending"),
        (A::AddTarget, "targets"),
        (A::LabelTargets, "targets"),
        (A::RemoveTargets, "targets"),
        (A::MintToken, "token"),
        (A::RevokeTokens, "token"),
        (A::JoinCommand, "token"),
    ];
    let tries = actions.map(|(action, phase)| {
        tokio::spawn(async move {
            let (ground, gate) = gated().await;
            let name = prepare(&ground, phase).await;
            let needs = action.needs().unwrap();
            assert!(!needs.is_empty(), "{action}");
            for need in needs {
                let right = need.right("hostwright", &ground.settings.environment.targets);
                let (verb, resource) = denial(&right);
                gate.allow();
                gate.deny(verb, resource);
                let (code, said) = try_it(&ground, action, &name).await;
                let named =
                    format!("cannot {verb} resource \"{resource}\" in the namespace \"{}\"", right.namespace);
                assert_eq!(code, 1, "{action} without {right}: {said}");
                assert!(said.contains(&named), "{action} without {right}: {said}");
            }
            gate.allow();
            let from = gate.seen().len();
            let (code, said) = try_it(&ground, action, &name).await;
            assert_eq!(code, 0, "{action}: {said}");
            // And nothing that it changes is something that it has not said. Events are a courtesy.
            for request in gate.seen()[from..].iter().filter(|r| r.changes() && r.resource != "events") {
                let said = needs.iter().any(|need| {
                    let right = need.right("hostwright", &ground.settings.environment.targets);
                    denial(&right) == (request.verb, request.resource.as_str())
                        && right.namespace == request.namespace
                });
                assert!(said, "{action} needs what it has not said: {request:?}");
            }
        })
    });
    for tried in tries {
        tried.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_asked_for_each_right_and_what_it_does_not_say_is_not_known() {
    let (ground, gate) = gated().await;
    let all = look(&ground).await;
    assert!(all.answers.values().all(|(_, answer)| *answer == Answer::Yes), "{all:?}");
    assert_eq!((all.answers.len(), all.who.as_deref()), (Need::ALL.len(), Some("playground")));

    gate.deny("patch", "jobs");
    gate.deny("get", "pods/log");
    gate.deny_one("update", "scrape-collectd");
    let some = look(&ground).await;
    let off: Vec<String> = some.off().map(|action| action.to_string()).collect();
    assert_eq!(
        off.join(" "),
        "approve check reject retry stop forget add-target label-targets remove-targets save-log"
    );
    let words: Vec<&str> = some.missing(Action::Approve).map(|(.., words)| words).collect();
    assert_eq!(words, ["no rule for olga"]);

    // Reviews are refused: one is asked for, and nothing is thought to be forbidden.
    gate.deny("create", "selfsubjectaccessreviews");
    let from = gate.seen().len();
    let none = look(&ground).await;
    assert_eq!((none.off().count(), none.may(Action::Approve)), (0, None));
    let unknown = |answer: &Answer| matches!(answer, Answer::Unknown(p) if p.kind == ProblemKind::Forbidden);
    assert!(none.answers.values().all(|(_, answer)| unknown(answer)), "{none:?}");
    let reviews = gate.seen()[from..].iter().filter(|r| r.resource == "selfsubjectaccessreviews").count();
    assert_eq!(reviews, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_printed_with_the_rules_that_are_missing() {
    let (ground, gate) = gated().await;
    let said = ground.run(&["cluster", "permissions"]).await.done();
    assert!(said.contains("approve") && !said.contains("missing") && !said.contains("boot"), "{said}");

    gate.deny("patch", "jobs");
    gate.deny_one("update", "scrape-collectd");
    gate.deny("create", "secrets");
    gate.deny("delete", "secrets");
    let said = ground.run(&["cluster", "permissions"]).await;
    assert_eq!((said.code, said.err.as_str()), (4, ""));
    let text: Vec<&str> = said.out.lines().map(str::trim_end).collect();
    let rules = text.iter().position(|line| line.is_empty()).unwrap();
    assert_eq!(
        text[rules..].join("\n"),
        "\nmissing in namespace default:\n\
         - {apiGroups: [\"\"], resources: [configmaps], resourceNames: [scrape-collectd], verbs: [update]}\n\
         \n\
         missing in namespace hostwright:\n\
         - {apiGroups: [batch], resources: [jobs], verbs: [patch]}\n\
         \n\
         missing in namespace kube-system:\n\
         - {apiGroups: [\"\"], resources: [secrets], verbs: [create, delete]}"
    );
    let row = |name: &str| text.iter().find(|line| line.starts_with(name)).unwrap().to_string();
    assert!(
        row("approve").contains("no") && row("approve").contains("patch jobs.batch"),
        "{}",
        row("approve")
    );
    assert!(row("shell").contains("yes"), "{}", row("shell"));

    let said = ground.run(&["cluster", "permissions", "shell", "approve", "-o", "json"]).await;
    assert_eq!(said.code, 4);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let right = |verb: &str| format!("{verb} jobs.batch in namespace hostwright");
    assert_eq!(
        report,
        json!({
            "user": "playground",
            "actions": [
                {"action": "shell", "allowed": true, "needs": [right("get")], "missing": []},
                {"action": "approve", "allowed": false, "needs": [right("get"), right("patch")], "missing": [right("patch")]},
            ],
            "missing": [{
                "namespace": "hostwright",
                "rule": {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["patch"]},
            }],
            "problem": null,
        })
    );
    ground.run(&["cluster", "permissions", "shell", "yaml", "-o", "yaml"]).await.done();
    let wrong = ground.run(&["cluster", "permissions", "dance"]).await;
    assert!(wrong.code == 2 && wrong.err.contains("approve, check"), "{}", wrong.err);
    assert_eq!(changes(&gate), [""; 0]);

    let bundle = ground.dir.path().join("bundle");
    ground.run(&["debug-bundle", &bundle.display().to_string()]).await.done();
    let text = std::fs::read_to_string(bundle).unwrap();
    for line in ["user playground", "hostwright - {apiGroups: [batch], resources: [jobs], verbs: [patch]}"] {
        assert!(text.contains(line), "{line}: {text}");
    }

    gate.deny("create", "selfsubjectaccessreviews");
    let said = ground.run(&["cluster", "permissions"]).await;
    assert!(said.code == 1 && said.err.contains("ask whether we may"), "{}{}", said.out, said.err);
    assert!(said.out.contains("not known"), "{}", said.out);
}

/// Whether the footer's key for this is in the colour of what is switched off: not the one of the key for help, which never is.
fn grey(screen: &vt100::Screen, label: &str) -> Option<bool> {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let footer = screen.rows(0, columns).nth(usize::from(rows) - 1)?;
    let column = |word: &str| u16::try_from(footer.find(word)?).ok();
    let colour = |word: &str| Some(screen.cell(rows - 1, column(word)?)?.fgcolor());
    Some(colour(&format!("{label} "))? != colour("help")?)
}

pub(crate) fn wait_grey(pty: &mut Pty, label: &str, wanted: bool) {
    let what = format!("{label} to be {}", if wanted { "grey" } else { "on" });
    pty.wait_until(&what, |screen| grey(screen, label) == Some(wanted));
}

/// Who may not patch Jobs sees it before trying: nothing is sent, the reason is one key away, and the rights come back by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_done_is_grey_before_it_is_tried() {
    let ground = Ground::new().await;
    let run = pending(&ground, HOST).await;
    let gate = Gate::start(&ground.url).await;
    gate.deny("patch", "jobs");
    let far = Far::at(&gate.url());
    let watched = gate.clone();
    let (far, pty) = tokio::task::spawn_blocking(move || {
        let mut pty = Pty::start(far.command(&[]), (80, 24));
        pty.wait_for(HOST);
        wait_grey(&mut pty, "approve", true);
        wait_grey(&mut pty, "open", false);
        pty.keys("a").wait_for("cannot approve: you may not patch jobs.batch in namespace hostw");
        pty.keys("w")
            .wait_for("takes you for playground")
            .wait_for("operator Role")
            .wait_for("no rule for olga");
        pty.keys("<esc>").wait_gone("operator Role").keys("?");
        pty.wait_for("(off: you may not patch jobs.batch").keys("<esc>").wait_gone("(off:");
        pty.keys("*").wait_for("1 marked").keys("x").wait_for("cannot reject: you may not");
        assert_eq!(changes(&watched), [""; 0], "nothing is even tried");
        (far, pty)
    })
    .await
    .unwrap();
    let patched = |gate: &Gate| gate.seen().iter().filter(|r| r.verb == "patch").count();
    assert_eq!(patched(&gate), 0);

    // The Role is given: whoever presses the key again has it asked for again.
    gate.allow();
    tokio::task::spawn_blocking(move || {
        let mut pty = pty;
        pty.keys("a").wait_for("the cluster lets you do this now: approve");
        wait_grey(&mut pty, "approve", false);
        pty.keys("a").wait_for("Approve web-1").keys("y").wait_for("approved web-1");
        pty.keys("q");
        assert_eq!(pty.wait_exit(), 0);
        drop(far);
    })
    .await
    .unwrap();
    assert_eq!(ground.kube.run(&run.name).await.unwrap().run.phase, Phase::Queued);
}

/// What a run's pod needs is checked by itself: no operator needs it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_runs_pod_needs_is_printed_too() {
    let (ground, gate) = gated().await;
    let said = ground.run(&["cluster", "permissions", "--provision"]).await.done();
    assert!(said.contains("provision") && said.contains("yes") && !said.contains("missing"), "{said}");
    assert!(said.contains("get nodes in the whole cluster"), "{said}");
    gate.deny("get", "nodes");
    gate.deny("delete", "secrets");
    let said = ground.run(&["cluster", "permissions", "--provision"]).await;
    assert_eq!((said.code, said.err.as_str()), (4, ""));
    let rules = said.out.split_once("\n\n").unwrap().1;
    assert_eq!(
        rules.trim_end(),
        "missing in the whole cluster:\n\
         - {apiGroups: [\"\"], resources: [nodes], verbs: [get]}\n\
         \n\
         missing in namespace kube-system:\n\
         - {apiGroups: [\"\"], resources: [secrets], verbs: [delete]}"
    );
    // An operator is not told to ask for it.
    gate.allow();
    gate.deny("get", "nodes");
    ground.run(&["cluster", "permissions"]).await.done();
    assert_eq!(ground.run(&["cluster", "permissions", "--provision", "approve"]).await.code, 2);
    assert_eq!(changes(&gate), [""; 0]);
}

/// The API server is the judge: where reviews are refused nothing is grey, and what it lets through is done.
#[tokio::test(flavor = "multi_thread")]
async fn where_reviews_are_refused_nothing_is_grey_and_the_deed_is_tried() {
    let ground = Ground::new().await;
    let run = pending(&ground, HOST).await;
    let gate = Gate::start(&ground.url).await;
    gate.deny("create", "selfsubjectaccessreviews");
    gate.deny_one("patch", &run.name);
    let far = Far::at(&gate.url());
    let watched = gate.clone();
    tokio::task::spawn_blocking(move || {
        let mut pty = Pty::start(far.command(&[]), (120, 24));
        pty.wait_for(HOST);
        // It was refused to say, and nothing came of that.
        let refused = |r: &crate::gate::Request| r.resource == "selfsubjectaccessreviews" && r.status == 403;
        pty.wait_until("the review to be refused", |_| watched.seen().iter().any(refused));
        pty.keys("a").wait_for("Approve web-1").keys("y").wait_for("cannot patch resource");
        wait_grey(&mut pty, "approve", false);
        watched.allow();
        pty.keys("a").wait_for("Approve web-1").keys("y").wait_for("approved web-1");
        pty.keys("q");
        assert_eq!(pty.wait_exit(), 0);
    })
    .await
    .unwrap();
    assert_eq!(ground.kube.run(&run.name).await.unwrap().run.phase, Phase::Queued);
}

/// A right that is taken away while the console runs: the refusal itself makes it ask, and the key is grey from then on.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_makes_the_key_grey() {
    let ground = Ground::new().await;
    pending(&ground, HOST).await;
    let gate = Gate::start(&ground.url).await;
    let far = Far::at(&gate.url());
    tokio::task::spawn_blocking(move || {
        let mut pty = Pty::start(far.command(&[]), (120, 24));
        pty.wait_for(HOST);
        wait_grey(&mut pty, "approve", false);
        let asked = |gate: &Gate| {
            let reviews = |r: &crate::gate::Request| r.resource == "selfsubjectaccessreviews";
            gate.seen().iter().filter(|r| reviews(r)).count()
        };
        pty.wait_until("all rights to be asked for", |_| asked(&gate) == Need::ALL.len());
        gate.deny("patch", "jobs");
        pty.keys("a").wait_for("Approve web-1").keys("y").wait_for("cannot patch resource");
        wait_grey(&mut pty, "approve", true);
        // However often the key is pressed, it is not asked as often.
        let before = asked(&gate);
        for _ in 0..20 {
            pty.keys("a");
        }
        pty.wait_for("you may not patch jobs.batch");
        pty.wait_until("it to be asked once more", |_| asked(&gate) >= before + Need::ALL.len());
        assert!(asked(&gate) <= before + 2 * Need::ALL.len(), "{}", asked(&gate) - before);
        pty.keys("q");
        assert_eq!(pty.wait_exit(), 0);
    })
    .await
    .unwrap();
}
