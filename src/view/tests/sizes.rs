//! Every size, for what the pictures show and for all that may stand before it.

use super::scene::{Scene, failed_run, many, site};
use crate::app::sample::ago;
use crate::app::tests::lists;
use crate::app::{Fresh, Item, Msg, RunsMsg, Topic};

/// A list with so many rows of each kind.
fn list(topic: Topic, rows: usize) -> Scene {
    let mut scene = Scene::new(80, 24);
    scene.send(Msg::Runs(RunsMsg::Reset)).send(Msg::Runs(RunsMsg::Batch(many(rows.min(3)))));
    scene.send(Msg::Runs(RunsMsg::Listed));
    let (key, item): (&str, fn(usize) -> Item) = match topic {
        Topic::Targets => ("3", |n| lists::target(&format!("h{n}:9103"), &format!("h{n}.org"))),
        Topic::Tokens => ("5", |n| lists::token(&format!("a{n:05}"), Some(42), &[])),
        Topic::Queue => ("6", |n| lists::letter(&format!("h{n}"), true)),
        Topic::Activity => ("8", |n| lists::activity(&n.to_string(), "ann", "approve", "run h", 3)),
    };
    let items = (0..rows).map(item).collect();
    let fresh = Fresh { items, note: "a note".to_owned(), warning: false, since: Some(ago(3480)) };
    scene.press(key).send(Msg::Listed { topic, result: Ok(fresh) });
    scene.press("j j j").rested();
    scene
}

/// All sizes of small terminals and some of large ones; afterwards everything is where it was.
pub(super) fn all_sizes(scene: &mut Scene, name: &str) {
    let before = scene.text();
    let small = (0..=40).flat_map(|width| (0..=20).map(move |height| (width, height)));
    let large = [(500, 200), (500, 1), (1, 200), (500, 0), (0, 200), (80, 24), (41, 200), (300, 7)];
    for (width, height) in small.chain(large) {
        let draw = std::panic::AssertUnwindSafe(|| {
            scene.resize(width, height);
        });
        assert!(std::panic::catch_unwind(draw).is_ok(), "{name} at {width}x{height}");
    }
    scene.resize(80, 24);
    assert_eq!(scene.text(), before, "{name}: another picture after the sizes");
}

#[test]
fn every_list_and_what_stands_before_it_at_every_size() {
    // Questions, forms, texts.
    let ways = [
        (Topic::Targets, ["", "a", "e", "x", "w"]),
        (Topic::Tokens, ["", "a", "x", "?", ":"]),
        (Topic::Queue, ["", "r", "x", "m", "/ h"]),
        (Topic::Activity, ["", "w", "y", "enter", "s"]),
    ];
    for (topic, ways) in ways {
        for rows in [0, 1, 300] {
            // What stands before a list does not depend on how long it is.
            for keys in ways.into_iter().take(if rows == 1 { 5 } else { 1 }) {
                let mut scene = list(topic, rows);
                scene.press(keys);
                all_sizes(&mut scene, &format!("{topic:?}, {rows} rows, {keys:?}"));
            }
        }
    }
}

#[test]
fn tables_runs_and_forms_keep_their_place_at_every_size() {
    for rows in [0, 1, 300] {
        for keys in ["", "2 G"] {
            let mut scene = Scene::new(80, 24);
            scene.send(Msg::Runs(RunsMsg::Reset)).send(Msg::Runs(RunsMsg::Batch(many(rows))));
            scene.send(Msg::Runs(RunsMsg::Listed)).press(keys).rested();
            all_sizes(&mut scene, &format!("{rows} rows, {keys:?}"));
        }
    }
    for keys in ["a e tab", "space space a", "j j j X s t", "w", "?", ":"] {
        let mut scene = site(80, 24);
        scene.press(keys);
        all_sizes(&mut scene, keys);
    }
    for keys in ["", "R", "2", "enter"] {
        let mut scene = site(80, 24);
        scene.send(Msg::Approvals(crate::app::tests::held("ben")));
        scene.press(keys);
        all_sizes(&mut scene, &format!("held, {keys}"));
    }
    for keys in ["", "enter", "l l", "tab", "w"] {
        let mut scene = failed_run(80, 24);
        scene.press(keys);
        all_sizes(&mut scene, keys);
    }
}

/// S09: more rows than a terminal can count. Filling is the slow part, so one console goes through it all.
#[test]
fn a_hundred_thousand_rows_are_shown_moved_through_filtered_and_marked() {
    const ROWS: usize = 100_000;
    let mut scene = Scene::new(80, 24);
    let msgs = [RunsMsg::Reset, RunsMsg::Batch(many(ROWS)), RunsMsg::Listed];
    for msg in msgs {
        scene.send(Msg::Runs(msg));
    }
    for keys in ["", "2"] {
        scene.press(keys).press("G");
        let at = |scene: &Scene| {
            let table = scene.state.table().unwrap();
            (table.total(), table.rows().len(), table.position())
        };
        assert_eq!(at(&scene), (ROWS, ROWS, ROWS - 1));
        let last = scene.state.table().unwrap().cursor().unwrap().to_owned();
        let before = scene.text();
        for (width, height) in [(0, 0), (1, 1), (40, 3), (500, 200), (20, 20), (160, 50), (80, 24)] {
            scene.resize(width, height);
            assert_eq!(scene.state.table().unwrap().cursor(), Some(&*last), "{width}x{height}");
        }
        assert_eq!(scene.text(), before, "another picture after the sizes");
        // Past what 16 bits count, and back.
        scene.press("pageup pageup k");
        assert!(at(&scene).2 < ROWS - 10 && at(&scene).2 > 65_536);
        scene.press("g").press("/ h 9 9 9 9 9 enter");
        let found = scene.state.table().unwrap();
        assert!(found.rows().len() < 10 && found.hidden() == ROWS - found.rows().len());
        assert!(scene.text().contains("h99999"));
        scene.press("esc").press("*");
        assert_eq!(scene.state.table().unwrap().marks().len(), ROWS);
        assert!(scene.text().contains("100000 marked"), "{}", scene.text());
        scene.press("*");
    }
    // What is gone goes, what stays keeps its place.
    scene.press("1 G k").send(Msg::Runs(RunsMsg::Reset));
    let kept = scene.state.table().unwrap().cursor().unwrap().to_owned();
    let half =
        many(ROWS).into_iter().filter(|run| run.host.as_str() == kept || run.host.as_str().ends_with('5'));
    scene.send(Msg::Runs(RunsMsg::Batch(half.collect()))).send(Msg::Runs(RunsMsg::Listed));
    let table = scene.state.table().unwrap();
    assert_eq!((table.total(), table.cursor()), (scene.state.store.host_count(), Some(&*kept)));
    assert!(table.total() <= ROWS / 10 + 1);
}
