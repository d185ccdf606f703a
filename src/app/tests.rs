//! Keys in, effects out.

#[path = "tests_actions.rs"]
mod actions;
#[path = "tests_approvals.rs"]
mod all_approvals;
#[path = "tests_place.rs"]
mod coming_back;
#[path = "tests_run.rs"]
mod inside_a_run;
#[path = "tests_lists.rs"]
pub(crate) mod lists;
#[path = "tests_rights.rs"]
mod rights;
#[path = "tests_secrets.rs"]
pub(crate) mod secrets;
#[path = "tests_page.rs"]
mod the_page;

use jiff::SignedDuration;

use super::dialog::{Dialog, Palette, PaletteRow, palette_rows};
use super::sample::{ago, environment, now, result, result_details, run, uid};
use super::screens::run::{Pane, Shown};
use super::*;
use crate::config::{ACTIONS, Keymap, Risk, Scope};
use crate::domain::results::{ResultStatus, RunResults};
use crate::domain::{BackEnd, Decision, Health, Phase, Problem, ProblemKind, Run, Verdict};

/// Approvals held by somebody.
pub(crate) fn held(by: &str) -> crate::domain::approvals::Standing {
    let hold = crate::domain::approvals::Hold {
        by: by.into(),
        at: ago(300),
        reason: "the API servers are patched".into(),
    };
    crate::domain::approvals::Standing::Known(crate::domain::approvals::Approvals {
        hold: Some(hold),
        released: None,
        runs_at_once: 0,
    })
}

/// A console without a screen.
struct Console {
    state: State,
    now: jiff::Timestamp,
}

impl Console {
    fn empty() -> Self {
        let mut state = State::new(environment(), Keymap::default(), now());
        state.environment.guarded = false;
        Self { state, now: now() }
    }

    fn with(runs: Vec<Run>) -> Self {
        let mut console = Self::empty();
        console.send(Msg::Runs(RunsMsg::Reset));
        console.send(Msg::Runs(RunsMsg::Batch(runs)));
        console.send(Msg::Runs(RunsMsg::Listed));
        console
    }

    /// What a frame would have shown.
    fn seen(&mut self) -> Seen {
        prepare(&mut self.state, self.now);
        let pane = PaneSeen { top: 0, page: 10 };
        let keyed = !matches!(self.state.screen, Screen::Hosts | Screen::Runs);
        let row = self.state.table().filter(|_| keyed).and_then(|table| table.cursor()).map(str::to_owned);
        let subject = row.or_else(|| self.state.current().map(|r| r.uid.clone()));
        Seen { subject, list: pane, tasks: pane, result: pane, log: pane, dialog: pane, ..Seen::default() }
    }

    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        let seen = self.seen();
        update(&mut self.state, &seen, self.now, msg)
    }

    fn press(&mut self, keys: &str) -> Vec<Effect> {
        keys.split_whitespace().flat_map(|key| self.send(Msg::Key(key.parse().unwrap()))).collect()
    }

    /// The cursor has rested.
    fn rest(&mut self) -> Vec<Effect> {
        self.now += SignedDuration::from_millis(100);
        self.send(Msg::Wake)
    }

    fn answer(&mut self, effect: &Effect, result: Result<Answer, Problem>) -> Vec<Effect> {
        self.send(Msg::Answer { id: effect.id().unwrap(), result })
    }

    fn notice(&self) -> &str {
        self.state.notice.as_ref().map_or("", |n| &n.text)
    }
}

fn site() -> Console {
    Console::with(vec![
        run("a.org", Phase::Pending),
        run("b.org", Phase::Pending),
        run("c.org", Phase::Running),
        run("d.org", Phase::Failed),
        run("e.org", Phase::Ready),
    ])
}

fn changing(effects: &[Effect]) -> Vec<String> {
    effects.iter().filter(|e| e.changes()).map(Effect::doing).collect()
}

#[test]
fn a_then_y_approves_what_was_seen() {
    let mut console = site();
    assert_eq!(console.press("a"), []);
    let effects = console.press("y");
    let [Effect::Approve { run, digest, parameters: None, .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!((run.uid.as_str(), digest.as_str()), ("uid-a.org-1", "digest-a.org"));
}

#[test]
fn the_safe_answer_has_the_focus() {
    for keys in ["a enter", "a n", "a esc", "a q", "a ctrl-c", "a tab tab tab tab enter"] {
        let mut console = site();
        assert_eq!(changing(&console.press(keys)), [""; 0], "{keys}");
    }
    assert_eq!(changing(&site().press("a left enter")), ["approving a.org"]);
    assert_eq!(changing(&site().press("a tab enter")), ["asking for a check of a.org"]);
    let mut console = site();
    assert_eq!(changing(&console.press("a tab tab enter")), [""; 0]);
    assert!(matches!(console.state.dialogs.last(), Some(Dialog::Form(_))), "what is applied can be changed");
    assert_eq!(changing(&site().press("a shift-tab enter")), ["approving a.org"]);
    assert_eq!(changing(&site().press("a c")), ["asking for a check of a.org"]);
}

#[test]
fn each_deed_has_its_key_and_its_phase() {
    for (keys, deed) in [
        ("j x y", "rejecting b.org"),
        ("c", "asking for a check of a.org"),
        ("j j X y", "stopping provision-c-org-"),
        ("j j j r y", "asking for another run of d.org"),
        ("G r y", "asking for another run of e.org"),
    ] {
        let effects = site().press(keys);
        let deeds = changing(&effects);
        assert!(matches!(deeds.as_slice(), [one] if one.starts_with(deed)), "{keys}: {deeds:?}");
    }
    for (keys, reason) in [
        ("j j a", "c.org is running: only a pending host can be decided on"),
        ("G X", "only what is queued or running can be stopped"),
        ("r", "a.org is pending: approve it"),
        ("j j c", "check it before or after"),
    ] {
        let mut console = site();
        assert_eq!(changing(&console.press(keys)), [""; 0], "{keys}");
        assert!(console.notice().contains(reason), "{keys}: {}", console.notice());
        assert!(console.state.dialogs.is_empty());
    }
}

#[test]
fn a_guarded_environment_wants_its_name_typed_before_a_stop() {
    let mut console = site();
    console.state.environment.guarded = true;
    assert_eq!(changing(&console.press("j j X y enter")), [""; 0], "y is a letter here");
    let mut console = site();
    console.state.environment.guarded = true;
    console.press("j j X s t a g i n");
    assert_eq!(changing(&console.press("tab enter")), [""; 0], "not yet");
    assert!(console.notice().contains("type staging first"));
    let mut console = site();
    console.state.environment.guarded = true;
    let effects = console.press("j j X s t a g i n g enter");
    assert!(matches!(effects.as_slice(), [Effect::Stop { .. }]), "{effects:?}");
}

#[test]
fn a_host_is_forgotten_when_its_runs_are_over_and_the_name_is_typed() {
    for (keys, reason) in [("D", "a.org is pending: reject it first"), ("j j D", "stop it first")] {
        let mut console = site();
        assert_eq!(changing(&console.press(keys)), [""; 0], "{keys}");
        assert!(console.notice().contains(reason), "{keys}: {}", console.notice());
    }
    let forgets = |effects: &[Effect], host: &str| matches!(effects, [Effect::Forget { run, .. }] if run.host.as_str() == host);
    let mut console = site();
    console.press("/");
    console.send(Msg::Paste("d.org".to_owned()));
    console.press("enter D");
    assert!(forgets(&console.press("y"), "d.org"));
    for (keys, done) in [("y enter", false), ("s t a g i n tab enter", false), ("s t a g i n g enter", true)]
    {
        let mut console = site();
        console.state.environment.guarded = true;
        console.press("/");
        console.send(Msg::Paste("d.org".to_owned()));
        console.press("enter D");
        assert!(!console.state.dialogs.is_empty());
        let effects = console.press(keys);
        assert_eq!(forgets(&effects, "d.org"), done, "{keys}: {effects:?}");
        assert_eq!(changing(&effects).is_empty(), !done, "{keys}: {effects:?}");
    }
}

/// Marked hosts at once: those that cannot be are left out, and each of the others has a result of its own.
#[test]
fn marked_hosts_are_forgotten_with_a_result_each() {
    let mut console = site();
    console.press("*");
    console.press("D");
    let effects = console.press("y");
    assert!(effects.iter().all(|effect| matches!(effect, Effect::Forget { .. })), "{effects:?}");
    assert!(effects.len() > 1, "{effects:?}");
    let bulk = console.state.bulk.as_ref().unwrap();
    assert_eq!((bulk.title, bulk.rows.len()), ("Forget", effects.len()));
}

#[test]
fn what_changed_while_it_was_looked_at_is_not_approved() {
    let mut console = site();
    console.press("a");
    let mut changed = run("a.org", Phase::Pending);
    changed.digest = "another".into();
    console.send(Msg::Runs(RunsMsg::Batch(vec![changed])));
    assert_eq!(console.press("y"), []);
    assert!(console.notice().contains("changed while you looked"));
    let effects = console.press("a y");
    assert!(matches!(effects.as_slice(), [Effect::Approve { digest, .. }] if digest == "another"));
}

#[test]
fn an_action_takes_the_row_that_was_drawn() {
    let mut console = site();
    let seen = console.seen();
    // Between that frame and the key the row under the cursor goes, and another takes its place.
    console.send(Msg::Runs(RunsMsg::Removed(vec![uid("a.org", 1)])));
    prepare(&mut console.state, now());
    update(&mut console.state, &seen, now(), Msg::Key("a".parse().unwrap()));
    assert!(console.state.dialogs.is_empty());
    assert_eq!(console.notice(), "it is gone meanwhile");
}

#[test]
fn keys_that_come_faster_than_frames_mean_what_they_say() {
    let mut console = site();
    let seen = console.seen();
    for key in ["j", "a", "y"] {
        let effects = update(&mut console.state, &seen, now(), Msg::Key(key.parse().unwrap()));
        assert!(key != "y" || changing(&effects) == ["approving b.org"], "{effects:?}");
    }
}

#[test]
fn the_same_is_not_started_twice_and_late_answers_are_dropped() {
    let mut console = site();
    let effects = console.press("a y");
    assert_eq!(console.press("a"), []);
    assert!(console.state.dialogs.is_empty() && console.notice().contains("is under way"));
    console.answer(&effects[0], Ok(Answer::Done("approved a.org".into())));
    assert_eq!((console.notice(), console.state.in_flight.len()), ("approved a.org", 0));
    console.answer(&effects[0], Ok(Answer::Done("again".into())));
    assert_eq!(console.notice(), "approved a.org");
}

#[test]
fn a_problem_goes_to_the_notice_the_row_and_the_messages() {
    let mut console = site();
    let effects = console.press("a y");
    let problem =
        Problem::new("a.org", ProblemKind::Conflict, "a.org was rejected by bob").advise("look again");
    let after = console.answer(&effects[0], Err(problem));
    assert!(
        matches!(after.as_slice(), [Effect::WriteLog(line)] if line.contains("ann: approving a.org: failed"))
    );
    assert_eq!(console.notice(), "a.org was rejected by bob");
    assert_eq!(console.state.verdict(&uid("a.org", 1)), Some("a.org was rejected by bob"));
    console.press("w");
    let Some(Dialog::Text(why)) = console.state.dialogs.last() else { panic!() };
    assert!(why.copy.contains("look again"));
    console.press("esc m");
    let Some(Dialog::Text(messages)) = console.state.dialogs.last() else { panic!() };
    assert!(messages.copy.contains("rejected by bob"));
}

#[test]
fn bulk_has_an_outcome_for_each_row_and_keeps_the_failed_ones_marked() {
    let mut console = Console::with((0..9).map(|n| run(&format!("h{n}.org"), Phase::Pending)).collect());
    console.press("*");
    let effects = console.press("a y");
    assert_eq!(changing(&effects).len(), 9);
    for (n, effect) in effects.iter().enumerate() {
        let failed = Problem::new("x", ProblemKind::Forbidden, format!("forbidden {n}"));
        console.answer(effect, if n % 3 == 2 { Err(failed) } else { Ok(Answer::Done("approved".into())) });
    }
    assert_eq!(console.notice(), "Approve: 6 done, 3 failed and still marked");
    let marks: Vec<&str> = console.state.hosts.table.marks().iter().map(|k| &**k).collect();
    assert_eq!(marks, ["h2.org", "h5.org", "h8.org"]);
    let reasons = &console.state.last_problem.as_ref().unwrap().advice;
    assert!(reasons.contains("h2.org: forbidden 2") && reasons.contains("h8.org: forbidden 8"));
    assert_eq!(changing(&console.press("a y")).len(), 3, "those only");
}

#[test]
fn rows_of_a_bulk_deed_that_it_cannot_be_done_on_are_left_out() {
    let mut console = site();
    console.press("* a");
    let Some(Dialog::Confirm(confirm)) = console.state.dialogs.last() else { panic!() };
    assert!(confirm.notes.iter().any(|n| n.starts_with("3 of the marked rows cannot be")));
    assert_eq!(changing(&console.press("y")), ["approving a.org", "approving b.org"]);
}

#[test]
fn read_only_is_enforced_below_the_handlers_too() {
    let mut console = site();
    console.press("a");
    console.state.environment.read_only = true;
    assert_eq!(console.press("y"), []);
    assert!(console.notice().contains("read-only"));
}

#[test]
fn the_playground_boots_machines_and_no_other_does() {
    assert_eq!(changing(&site().press("b")), [""; 0]);
    let mut console = site();
    console.state.environment.playground = true;
    assert_eq!(changing(&console.press("b b")), ["booting a machine"]);
}

#[test]
fn quitting_asks_only_while_something_is_in_flight() {
    assert_eq!(site().press("q"), [Effect::Quit]);
    let mut console = site();
    console.press("a y");
    assert_eq!(console.press("q"), []);
    assert_eq!(console.press("n"), []);
    assert_eq!(console.press("q y"), [Effect::Quit]);
}

#[test]
fn ctrl_c_closes_then_cancels_then_asks() {
    let mut console = site();
    console.press("? ctrl-c");
    assert!(console.state.dialogs.is_empty());
    console.press("/ w ctrl-c");
    assert!(console.state.hosts.table.input.is_none() && console.state.hosts.table.filter.is_empty());
    let effects = console.press("a y");
    assert_eq!(console.press("ctrl-c"), [Effect::Cancel(effects[0].id().unwrap())]);
    assert_eq!(console.press("ctrl-c"), [], "asks");
    assert_eq!(console.press("ctrl-c"), [Effect::Quit], "pressed again it is an answer");
    let mut console = site();
    assert_eq!(console.press("ctrl-c"), []);
    assert!(matches!(console.state.dialogs.last(), Some(Dialog::Confirm(_))));
}

#[test]
fn another_environment_is_one_word_in_the_palette_away() {
    let mut console = site();
    console.state.environment.others = vec!["staging".to_owned(), "prod".to_owned()];
    assert_eq!(console.press(": e n v space p r enter"), [Effect::Switch("prod".to_owned())]);
    console.press("a y");
    assert_eq!(console.press(": e n v space s t enter"), [], "asks while something is in flight");
    assert_eq!(console.press("enter"), [], "the safe answer has the focus");
    assert_eq!(console.press(": s t a g i n g enter y"), [Effect::Switch("staging".to_owned())]);
}

#[test]
fn the_palette_has_every_action_and_says_where_those_of_other_screens_are_done() {
    let mut console = site();
    let found = |console: &Console, typed: &str| {
        let mut palette = Palette::default();
        palette.input.insert(typed);
        palette_rows(&console.state, &palette).iter().map(PaletteRow::name).collect::<Vec<_>>()
    };
    assert_eq!(found(&console, "").len(), ACTIONS.len() - 1, "all but the palette itself");
    for (word, action) in
        [("why", "why"), ("fail", "why"), ("error", "why"), ("result", "open"), ("log", "log")]
    {
        assert!(found(&console, word).contains(&action.to_owned()), "{word}: {:?}", found(&console, word));
    }
    assert_eq!(console.press(": s a v e - l o g enter"), []);
    assert_eq!(console.notice(), "save-log: inside a run: open a host or a run first");
    console.press("3");
    assert_eq!(console.press(": a p p r o v e enter"), []);
    assert_eq!(console.notice(), "approve: not here, but in Hosts, Runs, Inside a run");
}

#[test]
fn keys_change_while_the_console_runs() {
    let mut console = site();
    let keys = [("approve".to_owned(), vec!["A".to_owned()])].into();
    let keymap = Keymap::new(&[("hosts".to_owned(), keys)].into()).unwrap();
    console.send(Msg::Keys(Box::new(keymap)));
    console.press("a");
    assert!(console.state.dialogs.is_empty());
    console.press("A");
    assert!(matches!(console.state.dialogs.last(), Some(Dialog::Confirm(_))));
}

#[test]
fn a_run_that_ends_is_told_to_who_looks_elsewhere_and_what_was_said_before_is_kept() {
    let mut console = site();
    let running = console.state.store.runs().find(|(_, r)| r.phase == Phase::Running).unwrap().1.clone();
    let ended = Run { phase: Phase::Failed, ..running };
    let other = Run { uid: "new".to_owned(), phase: Phase::Ready, ..ended.clone() };
    console.state.show(Level::Info, "approved db-3.lan.example.org");
    let effects = console.send(Msg::Runs(RunsMsg::Batch(vec![ended.clone(), other])));
    let told: Vec<_> = effects.iter().filter(|e| matches!(e, Effect::Notify(_))).collect();
    assert_eq!(told.len(), 1, "of what was never seen running nothing is told: {effects:?}");
    assert!(console.state.notice.as_ref().unwrap().text.contains("is failed"));
    assert_eq!(console.state.older.len(), 1);
    assert!(
        console.send(Msg::Runs(RunsMsg::Batch(vec![ended]))).iter().all(|e| !matches!(e, Effect::Notify(_)))
    );
    console.now += SignedDuration::from_secs(60);
    console.send(Msg::Wake);
    assert!(console.state.notice.is_none() && console.state.older.is_empty());
}

#[test]
fn a_question_that_was_answered_elsewhere_meanwhile_says_by_whom() {
    let mut console = site();
    console.press("a");
    let run = console.state.current().unwrap().clone();
    let decision = Decision { verdict: Verdict::Rejected, by: "ben".to_owned(), at: now() };
    let decided = Run { phase: Phase::Rejected, decision: Some(decision), ..run };
    console.send(Msg::Runs(RunsMsg::Batch(vec![decided])));
    assert_eq!(console.press("y"), [], "nothing goes out");
    let notice = console.state.notice.as_ref().unwrap().text.clone();
    assert!(notice.contains("rejected by ben"), "{notice}");
}

#[test]
fn what_cannot_be_read_is_not_answered() {
    let mut console = site();
    console.press("a");
    console.send(Msg::Resize { width: 10, height: 3 });
    assert_eq!(console.press("y"), []);
    console.send(Msg::Resize { width: 80, height: 24 });
    assert_eq!(console.press("y").len(), 1);
}

#[test]
fn redraw_and_suspend_are_effects() {
    assert_eq!(site().press("ctrl-l ctrl-z"), [Effect::Redraw, Effect::Suspend]);
}

#[test]
fn pasted_text_is_never_taken_for_keys() {
    let mut console = site();
    assert_eq!(console.send(Msg::Paste("a\ny\nq".into())), []);
    assert!(console.state.dialogs.is_empty());
    console.press("/");
    console.send(Msg::Paste("phase:failed\n".into()));
    console.press("enter");
    console.seen();
    assert_eq!(console.state.hosts.table.rows().len(), 1);
    console.press("esc a");
    assert_eq!(console.send(Msg::Paste("y".into())), []);
}

#[test]
fn a_filter_survives_leaving_the_screen_and_esc_takes_it_away() {
    let mut console = site();
    console.press("/ p h a s e : p e n d enter 2 1");
    console.seen();
    assert_eq!((console.state.hosts.table.rows().len(), console.state.hosts.table.hidden()), (2, 3));
    console.press("esc");
    console.seen();
    assert_eq!(console.state.hosts.table.hidden(), 0);
}

#[test]
fn typing_a_filter_is_no_command() {
    let mut console = site();
    assert_eq!(console.press("/ a y q x space r X"), []);
    assert_eq!(console.state.hosts.table.filter.text(), "ayqx rX");
    console.press("esc");
    assert!(console.state.hosts.table.filter.is_empty());
}

#[test]
fn a_run_is_followed_while_it_is_open() {
    let mut console = site();
    let effects = console.press("j j enter");
    let [Effect::OpenRun { run, .. }, Effect::Follow { run: followed }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!((run.uid.as_str(), followed.uid.as_str()), ("uid-c.org-1", "uid-c.org-1"));
    let line = |text: &str| LogLine { at: None, bytes: text.as_bytes().into() };
    console.send(Msg::Log { run: run.uid.clone(), event: LogEvent::Lines(vec![line("one")]) });
    console.send(Msg::Log { run: "another".into(), event: LogEvent::Lines(vec![line("foreign")]) });
    assert_eq!(console.state.store.log("uid-c.org-1").unwrap().bytes(), b"one\n");
    assert!(console.state.store.log("another").is_none());
    assert_eq!(console.press("esc"), [Effect::Unfollow { run: "uid-c.org-1".into() }]);
    assert_eq!(console.state.screen, Screen::Hosts);
    assert_eq!(console.state.current().unwrap().host.as_str(), "c.org", "the cursor is where it was");
}

fn inside_failed() -> Console {
    let mut console = site();
    console.press("j j j enter");
    let list = vec![
        result(1, "base", "one", ResultStatus::Ok),
        result(2, "zfs", "two", ResultStatus::Failed),
        result(3, "zfs", "three", ResultStatus::Changed),
    ];
    let results = Ok(Box::new(RunResults { results: list, ..RunResults::default() }));
    console.send(Msg::Results { run: uid("d.org", 1), results, complete: true });
    console
}

#[test]
fn the_cursor_of_a_failed_run_stands_on_what_failed() {
    let mut console = inside_failed();
    let effects = console.rest();
    assert!(matches!(effects.as_slice(), [Effect::FetchResult { result: 2, .. }]), "{effects:?}");
    assert_eq!(console.rest(), [], "once");
    assert_eq!(console.press("j"), [], "nothing is fetched before the cursor rests");
    let effects = console.rest();
    assert!(matches!(effects.as_slice(), [Effect::FetchResult { result: 3, .. }]));
}

#[test]
fn a_result_is_read_searched_and_copied() {
    let mut console = inside_failed();
    let effects = console.rest();
    let mut details = result_details(2);
    details.stdout = (0..50).map(|n| format!("line {n}\n")).collect();
    let exact = details.stdout.clone();
    console.answer(&effects[0], Ok(Answer::Result(Box::new(details))));
    console.press("enter");
    assert_eq!(console.state.run.as_ref().unwrap().focus, Pane::Result);
    console.press("/ l i n e space 4 2 enter");
    let run = console.state.run.as_ref().unwrap();
    let hit = run.search.result_hit.unwrap();
    assert_eq!(run.doc().lines[hit].text, "line 42");
    let effects = console.press("y");
    assert!(matches!(effects.as_slice(), [Effect::Copy { text, .. }] if *text == exact));
    console.press("n");
    assert_eq!(console.state.run.as_ref().unwrap().search.result_hit, Some(hit), "the only match");
}

#[test]
fn an_approval_from_a_check_is_one_of_the_host() {
    let mut check = run("a.org", Phase::Ready);
    (check.uid, check.kind, check.created) = ("check".into(), crate::domain::Kind::Check, ago(10));
    let mut console = Console::with(vec![run("a.org", Phase::Pending), check]);
    console.press("2 G");
    assert_eq!(console.state.current().unwrap().uid, "check");
    let effects = console.press("a y");
    assert!(
        matches!(effects.as_slice(), [Effect::Approve { run, .. }] if run.uid == uid("a.org", 1)),
        "{effects:?}"
    );
}

#[test]
fn details_are_fetched_when_the_cursor_rests_and_there_is_room_for_them() {
    let mut console = site();
    console.press("j");
    assert_eq!(console.rest(), [], "80 columns have no room beside the table");
    console.send(Msg::Resize { width: 160, height: 50 });
    let effects = console.rest();
    assert!(matches!(effects.as_slice(), [Effect::OpenRun { run, .. }] if run.uid == uid("b.org", 1)));
    console.press("k j");
    assert_eq!(console.rest(), [], "in flight already");
}

#[test]
fn a_back_end_that_goes_and_comes_is_remembered_once() {
    let mut console = site();
    let down = |text: &str| Health::Down {
        since: now(),
        problem: Problem::new("ara", ProblemKind::Unreachable, text),
    };
    for health in [down("one"), down("two"), Health::Up, Health::Up] {
        console.send(Msg::Health(BackEnd::Ara, health));
    }
    let texts: Vec<&str> = console.state.activity.iter().map(|e| e.text.as_str()).collect();
    assert_eq!(texts, ["one", "ara is back"]);
}

#[test]
fn a_crash_is_shown_and_not_fatal() {
    let mut console = site();
    let effects = console.send(Msg::Crashed("boom".into()));
    assert!(matches!(effects.as_slice(), [Effect::WriteLog(_)]));
    assert!(console.notice().contains("boom"));
    assert_eq!(changing(&console.press("a y")), ["approving a.org"]);
}

#[test]
fn a_notice_ends_by_itself() {
    let mut console = site();
    console.press("b");
    assert!(!console.notice().is_empty());
    console.now += SignedDuration::from_secs(60);
    console.send(Msg::Wake);
    assert_eq!(console.notice(), "");
}

#[test]
fn a_frame_is_needed_only_when_something_changed() {
    let mut console = site();
    console.seen();
    assert!(!console.state.needs_frame());
    console.press("Z");
    assert!(!console.state.needs_frame(), "a key that means nothing");
    console.send(Msg::Answer { id: EffectId(999), result: Ok(Answer::Done("late".into())) });
    assert!(!console.state.needs_frame());
    let seen = console.seen();
    update(&mut console.state, &seen, now(), Msg::Key("j".parse().unwrap()));
    assert!(console.state.needs_frame());
}

#[test]
fn chords_are_pressed_one_key_after_the_other() {
    let keys = [("hosts".to_owned(), [("approve".to_owned(), vec!["z a".to_owned()])].into())].into();
    let mut console = site();
    console.state.keymap = Keymap::new(&keys).unwrap();
    assert_eq!(changing(&console.press("z a y")), ["approving a.org"]);
    console.press("z q a");
    assert!(console.state.dialogs.is_empty(), "a chord that means nothing does nothing");
}

#[test]
fn help_names_every_action_of_the_screen() {
    let mut console = site();
    console.press("?");
    let Some(Dialog::Text(help)) = console.state.dialogs.last() else { panic!() };
    for row in ACTIONS.iter().filter(|r| r.action.in_scope(Scope::Hosts)) {
        assert!(help.doc.lines.iter().any(|l| l.text.starts_with(row.description)), "{}", row.name);
    }
}

#[test]
fn the_result_pane_shows_the_runs_own_page_on_a_group() {
    let mut console = inside_failed();
    console.press("g");
    console.rest();
    console.seen();
    let screen = console.state.run.as_ref().unwrap();
    assert_eq!(screen.shown, Shown::Overview);
    assert!(screen.doc().lines.iter().any(|l| l.label == "announced"));
}

#[test]
fn the_mouse_chooses_rows_and_screens_and_answers_no_question() {
    let mut console = site();
    let seen = |console: &mut Console| {
        let mut seen = console.seen();
        let rows = Region { x: 0, y: 5, width: 80, height: 10, hit: Hit::Rows(0) };
        let tab =
            Region { x: 10, y: 1, width: 6, height: 1, hit: Hit::Action(crate::config::Action::GoRuns) };
        seen.regions = vec![rows, tab];
        seen
    };
    let click = |console: &mut Console, what, x, y| {
        let seen = seen(console);
        update(&mut console.state, &seen, console.now, Msg::Mouse(what, x, y))
    };
    let third = console.state.hosts.table.rows().get(2).map(|row| row.key.to_string());
    click(&mut console, Mouse::Click, 4, 7);
    assert_eq!(console.state.hosts.table.cursor().map(str::to_owned), third);
    click(&mut console, Mouse::Up, 4, 7);
    assert_eq!(console.state.hosts.table.position(), 0);
    click(&mut console, Mouse::Click, 79, 30);
    console.press("a");
    click(&mut console, Mouse::Click, 12, 1);
    click(&mut console, Mouse::Down, 12, 1);
    assert!(
        matches!(console.state.dialogs.last(), Some(Dialog::Confirm(_))),
        "a question is answered with keys"
    );
    console.press("n");
    click(&mut console, Mouse::Click, 12, 1);
    assert_eq!(console.state.screen, Screen::Runs);
}
