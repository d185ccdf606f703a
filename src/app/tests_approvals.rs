//! All approvals held: what the console refuses then, what it still does, and how they are released.

use super::*;
use crate::app::permit;
use crate::config::Action;
use crate::domain::approvals::{Approvals, Release, Standing};

fn held_site() -> Console {
    let mut console = site();
    console.send(Msg::Approvals(held("ben")));
    console
}

#[test]
fn what_would_start_a_change_is_refused_with_who_since_when_and_why() {
    for keys in ["a", "space space a", "j j j r", "2 a", "enter a"] {
        let mut console = held_site();
        assert_eq!(changing(&console.press(keys)), [""; 0], "{keys}");
        assert!(console.state.dialogs.is_empty(), "{keys}");
        let said = console.notice();
        for word in ["held by ben", "since", "the API servers are patched", "R releases"] {
            assert!(said.contains(word), "{keys}: {said}");
        }
    }
    let console = held_site();
    assert!(permit::unavailable(&console.state, Action::Approve).is_some_and(|why| why.contains("ben")));
}

#[test]
fn what_changes_no_host_goes_on() {
    for (keys, deed) in [
        ("x y", "rejecting a.org"),
        ("c", "asking for a check of a.org"),
        ("j j X y", "stopping provision-c-org-"),
        ("R y", "releasing approvals"),
    ] {
        let deeds = changing(&held_site().press(keys));
        assert!(matches!(deeds.as_slice(), [one] if one.starts_with(deed)), "{keys}: {deeds:?}");
    }
    // What was rejected only becomes pending again.
    let mut console = Console::with(vec![run("a.org", Phase::Rejected)]);
    console.send(Msg::Approvals(held("ben")));
    assert_eq!(changing(&console.press("r y")), ["asking for another run of a.org"]);
}

#[test]
fn a_hold_wants_a_reason_and_a_release_is_bound_to_the_hold_that_was_seen() {
    let mut console = site();
    console.press("H");
    assert_eq!(changing(&console.press("enter enter")), [""; 0], "no reason, no hold");
    let Some(Dialog::Form(form)) = console.state.dialogs.last() else { panic!("the form is gone") };
    assert!(form.fields[0].problem.as_ref().is_some_and(|p| p.contains("say why")), "{form:?}");
    console.send(Msg::Paste("  a bad\nbranch ".to_owned()));
    let effects = console.press("enter enter");
    assert!(
        matches!(effects.as_slice(), [Effect::Hold { reason, .. }] if reason == "a bad branch"),
        "{effects:?}"
    );

    let mut console = held_site();
    assert_eq!(changing(&console.press("H")), [""; 0]);
    assert!(console.notice().contains("already"), "{}", console.notice());
    console.press("R");
    // Somebody else holds them by now: the answer still carries what was looked at.
    console.send(Msg::Approvals(held("eve")));
    let effects = console.press("y");
    assert!(matches!(effects.as_slice(), [Effect::Release { hold, .. }] if hold.by == "ben"), "{effects:?}");
    let mut console = site();
    console.press("R");
    assert!(console.notice().contains("not held"), "{}", console.notice());
}

#[test]
fn news_of_the_hold_are_said_and_a_hold_that_is_there_at_the_start_is_not() {
    let mut console = held_site();
    assert_eq!(console.notice(), "");
    let released = Some(Release { by: "cid".into(), at: console.now });
    console.send(Msg::Approvals(Standing::Known(Approvals { released, ..Approvals::default() })));
    assert!(console.notice().contains("released by cid"), "{}", console.notice());
    assert_eq!(console.press("a"), []);
    assert_eq!(changing(&console.press("y")), ["approving a.org"]);
    console.send(Msg::Approvals(held("ben")));
    assert!(console.notice().contains("held by ben"), "{}", console.notice());
}

#[test]
fn where_the_hold_cannot_be_seen_it_does_not_hold_and_the_question_says_so() {
    let mut console = site();
    console.send(Msg::Approvals(Standing::Unreadable("configmaps are forbidden".into())));
    assert_eq!(console.notice(), "", "a quiet word");
    assert!(console.state.activity.iter().any(|entry| entry.text.contains("configmaps are forbidden")));
    console.press("a");
    let Some(Dialog::Confirm(question)) = console.state.dialogs.last() else { panic!("no question") };
    assert!(question.notes.iter().any(|note| note.contains("configmaps are forbidden")), "{question:?}");
    assert_eq!(changing(&console.press("y")), ["approving a.org"]);
}

#[test]
fn a_run_that_waits_for_its_place_says_so_and_can_be_stopped_or_rejected() {
    let mut waiting = run("a.org", Phase::Queued);
    let wait = crate::domain::Wait { since: ago(60), of: 5 };
    (waiting.reason, waiting.waits) = (wait.words(), Some(wait));
    waiting.decision = Some(Decision { verdict: Verdict::Approved, by: "ann".into(), at: ago(60) });
    let console = || Console::with(vec![waiting.clone()]);
    assert_eq!(changing(&console().press("x y")), ["rejecting a.org"]);
    assert!(matches!(console().press("X y").as_slice(), [Effect::Stop { .. }]));
    assert_eq!(changing(&console().press("a")), [""; 0]);
    let why = crate::app::describe::why(&waiting, now(), &environment());
    assert_eq!(why, "It is approved by ann, and waits for a place: 5 of 5 runs go on.");
}
