//! Many at once, and several operators at once: what each row came to, and that a decision is made once.

use hostwright::domain::{Phase, Verdict};

use crate::console::{Far, wait_for_console};
use crate::gate::Gate;
use crate::ground::Ground;
use crate::operators::pending;
use crate::pty::Pty;

/// How many changes of Jobs were let through or refused.
fn patches(gate: &Gate, allowed: bool) -> Vec<String> {
    let all = gate.seen().into_iter();
    all.filter(|r| r.verb == "patch" && r.resource == "jobs" && (r.status == 200) == allowed)
        .map(|r| r.path)
        .collect()
}

/// E07: each third row fails. Sums, reasons, marks, and the failed ones alone again.
#[tokio::test(flavor = "multi_thread")]
async fn of_nine_approvals_each_third_fails_and_only_those_are_tried_again() {
    let ground = Ground::new().await;
    let gate = Gate::start(&ground.url).await;
    let mut runs = Vec::new();
    for n in 0..9 {
        let run = pending(&ground, &format!("web-{n}.example.org")).await;
        if n % 3 == 2 {
            gate.deny_one("patch", &run.name);
        }
        runs.push(run);
    }
    let far = Far::at(&gate.url());
    let mut pty = Pty::start(far.command(&[]), (160, 50));
    for n in 0..9 {
        pty.wait_for(&format!("web-{n}.example.org"));
    }
    pty.keys("*").wait_for("9 marked").keys("a").wait_for("Approve 9").keys("y");
    pty.wait_for("6 done, 3 failed and still marked").wait_for("3 marked");
    assert_eq!((patches(&gate, true).len(), patches(&gate, false).len()), (6, 3));
    for (n, run) in runs.iter().enumerate() {
        let phase = ground.kube.run(&run.name).await.unwrap().run.phase;
        assert_eq!(phase, if n % 3 == 2 { Phase::Pending } else { Phase::Queued }, "{n}");
    }
    pty.keys("m");
    for n in 0..9 {
        let said = if n % 3 == 2 { "cannot approve" } else { "approved" };
        pty.wait_until("the row's outcome", |screen| {
            let text = screen.contents();
            let of = |line: &str| line.contains(&format!("web-{n}.example.org:")) && line.contains(said);
            text.lines().any(of)
        });
    }
    gate.allow();
    pty.keys("<esc>").wait_gone("cannot patch resource").keys("a").wait_for("Approve 3").keys("y");
    pty.wait_for("3 done").wait_gone("marked");
    assert_eq!(patches(&gate, true).len(), 9, "those only: {:?}", patches(&gate, true));
    for run in &runs {
        assert_eq!(ground.kube.run(&run.name).await.unwrap().run.phase, Phase::Queued);
    }
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// E08: two operators say yes to the same question at once, then a third one comes too late.
#[tokio::test(flavor = "multi_thread")]
async fn two_approvals_at_once_are_one_and_who_comes_too_late_is_told_who_was_first() {
    let ground = Ground::new().await;
    let run = pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    let blind = Gate::start(&ground.url).await;
    // These learn of it late: the server refuses them, not what they have seen.
    blind.deny("watch", "jobs");
    let (far, late) = (Far::at(&gate.url()), Far::at(&blind.url()));
    let open = |far: &Far, who: &str| {
        let mut command = far.command(&[]);
        command.env("USER", who);
        let mut pty = Pty::start(command, (160, 50));
        wait_for_console(&mut pty);
        pty.wait_for("web-1.example.org").keys("a").wait_for("Approve web-1");
        pty
    };
    let (mut one, mut two) = (open(&far, "olga"), open(&late, "ben"));
    one.keys("y");
    two.keys("y");
    // The server's refusal, or the console's own where the list came in between.
    let too_late = |text: &str| text.contains("cannot decide on web-1") || text.contains("(approved by");
    let told = |screen: &vt100::Screen| {
        let text = screen.contents();
        text.contains("approved web-1") || too_late(&text)
    };
    for pty in [&mut one, &mut two] {
        // The list of messages keeps what a notice says for a moment only.
        pty.wait_until("the question to go", |screen| !screen.contents().contains("Approve web-1"));
        pty.keys("m").wait_for("Messages").wait_until("an outcome", told);
    }
    assert_eq!(patches(&gate, true).len() + patches(&blind, true).len(), 1, "one effect");
    let decision = ground.kube.run(&run.name).await.unwrap().run.decision.unwrap();
    assert_eq!(decision.verdict, Verdict::Approved);
    let second = [one.screen(), two.screen()].into_iter().find(|screen| too_late(screen)).unwrap();
    let words = [format!("{} approved", decision.by), format!("approved by {}", decision.by)];
    assert!(words.iter().any(|words| second.contains(words)), "{second}");
    for pty in [&mut one, &mut two] {
        pty.keys("<esc>").wait_gone("Messages").keys("q");
        assert_eq!(pty.wait_exit(), 0);
    }
    let said = ground.run(&["hosts", "approve", "web-1.example.org"]).await;
    let words = format!("{}{}", said.out, said.err);
    assert_eq!(said.code, 4, "{words}");
    let day = decision.at.to_string();
    assert!(words.contains(&decision.by) && words.contains(&day[..10]), "{words}");
}
