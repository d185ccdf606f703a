//! Inside a run: keys in, effects out.

use super::*;
use crate::app::screens::logview::{Only, Times};

fn screen(console: &Console) -> &crate::app::screens::run::RunScreen {
    console.state.run.as_ref().unwrap()
}

fn names(console: &mut Console) -> Vec<String> {
    console.seen();
    screen(console).rows().iter().map(|r| r.key.clone()).collect()
}

#[test]
fn failed_tasks_come_first_once_the_run_is_over_and_the_order_is_the_operators() {
    let mut console = inside_failed();
    let first = ["p1/Provision/zfs", "t2", "t3", "p1/Provision/base", "t1"];
    assert_eq!(names(&mut console), first, "it is over, and a task failed");
    console.press("f");
    assert_eq!(names(&mut console), ["p1/Provision/zfs", "t2"]);
    assert_eq!(screen(&console).tree().hidden, 2);
    console.press("f");
    assert_eq!(names(&mut console), ["p1/Provision/zfs", "t3"], "only changed");
    console.press("f");
    let ran = ["p1/Provision/base", "t1", "p1/Provision/zfs", "t2", "t3"];
    assert_eq!(names(&mut console), ran);
    let list = screen(&console).uid.clone();
    let again = RunResults {
        results: vec![
            result(1, "base", "one", ResultStatus::Ok),
            result(2, "zfs", "two", ResultStatus::Failed),
        ],
        ..RunResults::default()
    };
    console.send(Msg::Results { run: list, results: Ok(Box::new(again)), complete: true });
    assert_eq!(names(&mut console), ran[..4], "news do not undo what was chosen");
    console.press("g left");
    assert_eq!(names(&mut console), ["p1/Provision/base", "p1/Provision/zfs", "t2"]);
}

#[test]
fn tasks_stay_as_they_ran_while_the_run_goes_on_or_went_well() {
    for (keys, host) in [("j j enter", "c.org"), ("G enter", "e.org")] {
        let mut console = site();
        console.press(keys);
        let status = if host == "c.org" { ResultStatus::Failed } else { ResultStatus::Ok };
        let list = vec![result(1, "base", "one", ResultStatus::Ok), result(2, "zfs", "two", status)];
        let results = Ok(Box::new(RunResults { results: list, ..RunResults::default() }));
        console.send(Msg::Results { run: uid(host, 1), results, complete: false });
        assert_eq!(names(&mut console), ["p1/Provision/base", "t1", "p1/Provision/zfs", "t2"], "{host}");
    }
}

#[test]
fn the_slowest_tasks_are_one_key_away_and_back() {
    let mut console = inside_failed();
    let mut list = vec![
        result(1, "base", "one", ResultStatus::Ok),
        result(2, "zfs", "two", ResultStatus::Failed),
        result(3, "zfs", "three", ResultStatus::Changed),
    ];
    list[2].duration_ms = 90_000;
    let results = Ok(Box::new(RunResults { results: list, ..RunResults::default() }));
    console.send(Msg::Results { run: uid("d.org", 1), results, complete: true });
    console.press("t");
    assert_eq!(names(&mut console), ["t3", "t1", "t2"]);
    assert_eq!(screen(&console).row().unwrap().key, "t2", "the cursor stays on its task");
    console.press("t");
    assert_eq!(names(&mut console)[0], "p1/Provision/zfs");
}

fn at(second: i64, text: &str) -> LogLine {
    LogLine { at: Some(ago(600 - second)), bytes: text.as_bytes().into() }
}

fn log(console: &mut Console, lines: Vec<LogLine>) {
    let run = screen(console).uid.clone();
    console.send(Msg::Log { run, event: LogEvent::Lines(lines) });
}

/// The row under the cursor of the log.
fn row(console: &Console) -> Option<u64> {
    let run = screen(console);
    run.log.cursor_row(console.state.store.log(&run.uid)?)
}

fn numbered(count: usize) -> Vec<LogLine> {
    (0..count).map(|n| LogLine { at: None, bytes: format!("line {n}").into_bytes().into() }).collect()
}

#[test]
fn the_log_is_followed_until_somebody_looks_back() {
    let mut console = inside_failed();
    log(&mut console, numbered(100));
    for (key, follow, at) in [
        ("l", true, 99),
        ("k", false, 98),
        ("j", false, 99),
        ("j", true, 99),
        ("pageup", false, 89),
        ("g", false, 0),
        ("G", true, 99),
        ("F", false, 99),
        ("F", true, 99),
    ] {
        console.press(key);
        assert_eq!((screen(&console).log.follows(), row(&console)), (follow, Some(at)), "{key}");
    }
}

#[test]
fn a_paused_log_does_not_move_and_counts_what_comes() {
    let mut console = inside_failed();
    log(&mut console, numbered(30));
    console.press("l F k");
    let before = (row(&console), screen(&console).log.top);
    log(&mut console, numbered(20));
    console.seen();
    assert_eq!((row(&console), screen(&console).log.top), before);
    let run = screen(&console);
    assert_eq!(run.log.behind(console.state.store.log(&run.uid).unwrap()), 20);
}

#[test]
fn matches_in_the_log_are_gone_through_and_counted() {
    let mut console = inside_failed();
    log(&mut console, numbered(100));
    console.press("l / l i n e space 7 enter");
    assert_eq!(row(&console), Some(7));
    assert_eq!((screen(&console).log.search.count(), screen(&console).log.search.place(7)), (11, Some(1)));
    for (key, at) in [("n", 70), ("n", 71), ("N", 70), ("N", 7), ("N", 79)] {
        console.press(key);
        assert_eq!(row(&console), Some(at), "{key}");
    }
    console.press("/ n o n e enter");
    assert!(console.notice().contains("none is not there"));
}

#[test]
fn a_search_in_the_tasks_goes_through_all_of_them_and_on_to_the_log() {
    let mut console = inside_failed();
    log(&mut console, numbered(9));
    console.press("G left g / o n e enter");
    assert_eq!(names(&mut console)[..4], ["p1/Provision/zfs", "t2", "t3", "p1/Provision/base"]);
    assert_eq!(screen(&console).row().unwrap().key, "t1", "the group that hid it is open");
    assert_eq!(screen(&console).search.task_hit, Some((1, 1)));
    console.press("/ z f s enter n");
    console.seen();
    assert_eq!(
        (screen(&console).row().unwrap().key.as_str(), screen(&console).search.task_hit),
        ("t3", Some((2, 2)))
    );
    // A message that was read is found too.
    let effects = console.press("g j").into_iter().chain(console.rest()).collect::<Vec<_>>();
    let mut details = result_details(2);
    details.message = "no such pool".into();
    console.answer(&effects[0], Ok(Answer::Result(Box::new(details))));
    console.press("G / s u c h enter");
    console.seen();
    assert_eq!(screen(&console).row().unwrap().key, "t2");
    console.press("/ l i n e space 4 enter");
    assert_eq!((screen(&console).focus, row(&console)), (Pane::Log, Some(4)));
    assert!(console.notice().contains("this is the log"));
}

fn two_tasks(console: &mut Console) {
    log(
        console,
        vec![
            at(0, "hostwright: run x"),
            at(479, "TASK [zfs : three] ***"),
            at(479, "ok: [nas-1.lan.example.org]"),
            at(480, "TASK [zfs : two] ***"),
            at(481, "fatal: [nas-1.lan.example.org]: FAILED!"),
            at(500, "TASK [zfs : two] ***"),
            at(501, "ok: [other.org]"),
            at(502, "PLAY RECAP ***"),
        ],
    );
}

#[test]
fn from_a_task_to_its_lines_and_back() {
    let mut console = inside_failed();
    two_tasks(&mut console);
    console.press("l");
    assert_eq!((screen(&console).focus, row(&console)), (Pane::Log, Some(3)), "the heading nearest in time");
    console.press("k enter");
    console.seen();
    let run = screen(&console);
    assert_eq!((run.focus, run.row().unwrap().key.as_str()), (Pane::Tasks, "t3"));
    console.press("l G enter");
    assert!(console.notice().contains("belongs to no task"));
    console.press("l");
    assert!(screen(&console).zoom, "in the log the key gives it the screen");
    console.press("g j j j j z enter");
    console.seen();
    assert_eq!(screen(&console).row().unwrap().key, "t2");
}

#[test]
fn only_this_tasks_and_only_this_hosts_lines() {
    let mut console = inside_failed();
    two_tasks(&mut console);
    let shown = |console: &Console| {
        let run = screen(console);
        let log = console.state.store.log(&run.uid).unwrap();
        (0..run.log.len(log)).filter_map(|place| run.log.row(log, place)).collect::<Vec<_>>()
    };
    console.press("o");
    assert_eq!((screen(&console).focus, shown(&console)), (Pane::Log, vec![3, 4]));
    let effects = console.press("y");
    let text = "TASK [zfs : two] ***\nfatal: [nas-1.lan.example.org]: FAILED!\n";
    assert!(
        matches!(effects.as_slice(), [Effect::Copy { text: copied, .. }] if copied == text),
        "{effects:?}"
    );
    console.press("o");
    assert_eq!(shown(&console).len(), 8);
    console.press("G k O");
    assert_eq!((screen(&console).log.only(), shown(&console)), (Only::Host(2), vec![6]));
    console.press("O g O");
    assert!(console.notice().contains("speaks of no host"));
    let mut console = inside_failed();
    log(&mut console, vec![at(1, "ok: [a.org]")]);
    console.press("l O");
    assert!(console.notice().contains("one host only"));
}

#[test]
fn what_is_copied_from_the_log_is_the_line_as_it_came() {
    let mut console = inside_failed();
    let hostile = b"\x1b]52;c;aGk=\x07 \xff 10%\r20%\r";
    log(
        &mut console,
        vec![at(0, "\u{1b}[31mred\u{1b}[0m\t"), LogLine { at: None, bytes: hostile.as_slice().into() }],
    );
    let effects = console.press("l F y");
    assert!(
        matches!(effects.as_slice(), [Effect::CopyBytes { bytes, .. }] if bytes == hostile),
        "{effects:?}"
    );
    let effects = console.press("k y");
    assert!(
        matches!(effects.as_slice(), [Effect::Copy { text, .. }] if text == "\u{1b}[31mred\u{1b}[0m\t"),
        "{effects:?}"
    );
}

#[test]
fn wrap_and_times_are_switched_by_their_keys() {
    let mut console = inside_failed();
    log(&mut console, numbered(3));
    console.press("l right right");
    assert_eq!((screen(&console).log.left, screen(&console).log.wrap), (32, false));
    console.press("W");
    assert_eq!((screen(&console).log.left, screen(&console).log.wrap), (0, true));
    for times in [Times::Clock, Times::Since, Times::Off] {
        console.press("T");
        assert_eq!(screen(&console).log.times, times);
    }
}

#[test]
fn the_log_is_saved_once_at_a_time_and_the_saving_can_be_cancelled() {
    let mut console = inside_failed();
    let effects = console.press("ctrl-s");
    let [Effect::SaveLog { run, id }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(run.uid, uid("d.org", 1));
    assert_eq!(console.press("ctrl-s"), []);
    console.send(Msg::Progress { id: *id, text: "1.2 MB".into() });
    assert_eq!(console.state.in_flight.iter().find(|f| f.id == *id).unwrap().progress, "1.2 MB");
    assert_eq!(console.press("ctrl-c"), [Effect::Cancel(*id)]);
    console.answer(&effects[0], Ok(Answer::Done("the log is in /x".into())));
    assert_eq!(console.notice(), "the log is in /x");
    console.state.environment.read_only = true;
    assert!(matches!(console.press("ctrl-s").as_slice(), [Effect::SaveLog { .. }]), "a file of one's own");
}
