//! What the cluster would refuse is not even tried, and what it has not said is.

use super::actions::{by_palette, places, press_action, stages};
use super::*;
use crate::app::sample::rights;
use crate::config::{Need, Rights};
use crate::domain::rights::Answer as Right;

fn told(console: &mut Console, rights: Rights) -> Vec<Effect> {
    console.send(Msg::Rights(Box::new(rights)))
}

/// What goes out to a back end: anything but being told.
fn sent(effects: &[Effect]) -> Vec<String> {
    let asks = |e: &&Effect| !matches!(e, Effect::AskRights | Effect::WriteLog(_));
    effects.iter().filter(asks).map(Effect::doing).collect()
}

/// Each action, in each scope, on each kind of row, without each right that it needs.
#[test]
fn without_a_right_that_it_needs_an_action_is_not_tried_and_says_which() {
    for row in ACTIONS {
        for need in row.action.needs().unwrap() {
            for scope in places(row) {
                for marked in [false, true] {
                    for mut console in stages(scope) {
                        told(&mut console, rights(&[*need]));
                        if marked {
                            console.press("*");
                        }
                        let effects = press_action(&mut console, row);
                        let what = format!("{} in {scope:?} without {need:?}", row.name);
                        assert_eq!(sent(&effects), [""; 0], "{what}");
                        assert!(effects.contains(&Effect::AskRights), "{what}: asks whether it is still so");
                        assert!(console.state.dialogs.is_empty(), "{what}: asks for nothing");
                        let right = rights(&[]).answers[need].0.to_string();
                        let notice = console.notice();
                        assert!(notice.starts_with("cannot ") && notice.contains(&right), "{what}: {notice}");
                        let problem = console.state.last_problem.clone().unwrap();
                        assert!(problem.advice.contains("olga") && problem.advice.contains("Role"), "{what}");
                        assert_eq!(sent(&by_palette(&mut console, row)), [""; 0], "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_not_known_is_tried() {
    let unknown = |kind| {
        let problem = Problem::new("permissions", kind, "cannot ask");
        let mut rights = rights(&[]);
        rights.answers.values_mut().for_each(|(_, answer)| *answer = Right::Unknown(problem.clone()));
        rights
    };
    for kind in [ProblemKind::Forbidden, ProblemKind::NotFound, ProblemKind::Unreachable] {
        let mut console = site();
        told(&mut console, unknown(kind));
        assert_eq!(changing(&console.press("a y")), ["approving a.org"]);
    }
}

#[test]
fn other_actions_go_on_and_rights_come_back() {
    let mut console = site();
    assert_eq!(told(&mut console, rights(&[Need::PatchRun])), []);
    assert_eq!(console.notice(), "", "nothing was pressed: the grey keys say it");
    console.press("a");
    assert!(console.state.dialogs.is_empty());
    assert_eq!(sent(&console.press("Y")), [format!("fetching {}", run("a.org", Phase::Pending).name)]);
    // Reviews that are refused from now on give nothing back: but what is not known is tried.
    let mut blind = rights(&[]);
    let problem = Problem::new("permissions", ProblemKind::Forbidden, "cannot ask");
    blind.answers.values_mut().for_each(|(_, answer)| *answer = Right::Unknown(problem.clone()));
    told(&mut console, blind);
    assert!(!console.notice().contains("now"), "{}", console.notice());

    told(&mut console, rights(&[Need::PatchRun]));
    told(&mut console, rights(&[]));
    assert_eq!(
        console.notice(),
        "the cluster lets you do this now: approve, check, reject, retry, stop, forget"
    );
    assert_eq!(changing(&console.press("a y")), ["approving a.org"]);
}

#[test]
fn it_is_asked_again_after_a_break_and_after_a_refusal() {
    let mut console = site();
    let down = |text: &str| {
        let problem = Problem::new("cluster", ProblemKind::Unreachable, text);
        Health::Down { since: now(), problem }
    };
    assert_eq!(console.send(Msg::Health(BackEnd::Cluster, Health::Up)), []);
    assert_eq!(console.send(Msg::Health(BackEnd::Cluster, down("away"))), []);
    assert_eq!(console.send(Msg::Health(BackEnd::Cluster, Health::Up)), [Effect::AskRights]);
    assert_eq!(console.send(Msg::Health(BackEnd::Ara, down("away"))), []);
    assert_eq!(console.send(Msg::Health(BackEnd::Ara, Health::Up)), []);

    for (kind, asks) in [(ProblemKind::Forbidden, true), (ProblemKind::Conflict, false)] {
        let effects = console.press("a y");
        let approve = effects.iter().find(|e| e.changes()).unwrap().clone();
        let after = console.answer(&approve, Err(Problem::new("a.org", kind, "no")));
        assert_eq!(after.contains(&Effect::AskRights), asks, "{kind:?}");
    }
}

#[test]
fn why_names_what_may_not_be_done_here_and_whom_the_cluster_sees() {
    let mut console = site();
    let mut denied = rights(&[Need::PatchRun, Need::CreateToken]);
    for (_, answer) in denied.answers.values_mut() {
        if matches!(answer, Right::No(_)) {
            *answer = Right::No("no \u{1b}[31mbinding".to_owned());
        }
    }
    told(&mut console, denied);
    console.press("w");
    let Some(Dialog::Text(text)) = console.state.dialogs.last() else { panic!() };
    for word in ["no approve: patch jobs.batch in namespace hostwright", "olga", "operator Role", "binding"] {
        assert!(text.copy.contains(word), "{word}: {}", text.copy);
    }
    assert!(!text.copy.contains('\u{1b}') && !text.copy.contains("mint"), "{}", text.copy);
}

#[test]
fn who_signs_is_whom_the_cluster_sees_now() {
    let mut console = site();
    told(&mut console, rights(&[]));
    assert_eq!(console.state.environment.operator, "ann", "the first answer is told by another message");
    told(&mut console, Rights { who: Some("ben".into()), ..rights(&[]) });
    assert_eq!(console.state.environment.operator, "ben");
    assert_eq!(console.notice(), "the cluster takes you for ben now");
}
