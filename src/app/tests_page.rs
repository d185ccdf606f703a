//! The page of a host and its run, and the way to its other runs.

use super::*;
use crate::app::dialog::TextKind;

fn several() -> Console {
    let runs = (1..=3).map(|n| {
        let mut run = run("a.org", if n == 3 { Phase::Failed } else { Phase::Ready });
        (run.uid, run.number, run.created) = (uid("a.org", n), n, ago(1_000 - i64::from(n)));
        (run.started, run.finished) = (Some(ago(900)), Some(ago(800)));
        run
    });
    Console::with(runs.collect())
}

fn open_number(console: &Console) -> u32 {
    console.state.current().map_or(0, |run| run.number)
}

#[test]
fn the_page_of_a_row_is_one_key_away_at_every_size() {
    for (width, keys) in [(80, "i"), (200, "i"), (80, "d"), (80, "2 i")] {
        let mut console = several();
        console.send(Msg::Resize { width, height: 50 });
        let effects = console.press(keys);
        let Some(Dialog::Text(text)) = console.state.dialogs.last() else { panic!("{keys} at {width}") };
        assert!(matches!(&text.kind, TextKind::Details(_)));
        let all: String =
            text.doc.lines.iter().map(|line| format!("{} {}\n", line.label, line.text)).collect();
        for part in ["timeline", "runs of this host", "1 of 3 failed", "#1", "announcement"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        // Whatever is shown, the cluster is asked for one Job and ARA for nothing.
        assert!(
            effects.iter().all(|e| matches!(e, Effect::OpenRun { .. })) && effects.len() == 1,
            "{effects:?}"
        );
        console.press("i");
        assert!(console.state.dialogs.is_empty(), "the same key closes it");
    }
}

#[test]
fn inside_a_run_its_page_stands_until_the_cursor_moves() {
    let mut console = several();
    console.press("enter");
    let found =
        RunResults { results: vec![result(7, "zfs", "x", ResultStatus::Failed)], ..RunResults::default() };
    let open = uid("a.org", 3);
    console.send(Msg::Results { run: open, results: Ok(Box::new(found)), complete: true });
    console.rest();
    let shown = |console: &Console| console.state.run.as_ref().map(|run| (run.shown, run.focus)).unwrap();
    console.press("tab");
    assert_eq!(shown(&console), (Shown::Result(7), Pane::Result));
    console.press("i");
    console.rest();
    assert_eq!(shown(&console), (Shown::Overview, Pane::Result));
    console.press("esc");
    console.rest();
    assert_eq!((console.state.screen, shown(&console)), (Screen::Run, (Shown::Result(7), Pane::Tasks)));
    console.press("i tab tab g G");
    console.rest();
    assert_eq!(shown(&console).0, Shown::Result(7), "a move leads back to the tasks' results");
    console.press("i i");
    assert_eq!(shown(&console), (Shown::Result(7), Pane::Tasks));
}

#[test]
fn brackets_lead_to_the_hosts_earlier_and_later_runs() {
    let mut console = several();
    console.press("enter i");
    assert_eq!(open_number(&console), 3);
    let effects = console.press("[");
    let went = |effects: &[Effect], from: u32, to: u32| {
        let (from, to) = (uid("a.org", from), uid("a.org", to));
        let left = effects.iter().any(|e| matches!(e, Effect::Unfollow { run } if *run == from));
        left && effects.iter().any(|e| matches!(e, Effect::Follow { run } if run.uid == to))
    };
    assert!(went(&effects, 3, 2) && open_number(&console) == 2, "{effects:?}");
    let run = console.state.run.as_ref().unwrap();
    assert_eq!((run.focus, run.shown), (Pane::Result, Shown::Overview), "it is looked at in the same way");
    console.press("[ [");
    assert_eq!(
        (open_number(&console), console.notice()),
        (1, "this is the oldest run of a.org that is kept")
    );
    let effects = console.press("]");
    assert!(went(&effects, 1, 2), "{effects:?}");
    console.press("] ]");
    assert_eq!(
        (open_number(&console), console.notice()),
        (3, "this is the newest run of a.org that is kept")
    );
    console.press("esc esc");
    assert_eq!(console.state.screen, Screen::Hosts, "there is one way back, however many were looked at");
}
