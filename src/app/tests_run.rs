//! Inside a run: keys in, effects out.

use super::*;

fn screen(console: &Console) -> &super::super::screens::run::RunScreen {
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
