//! Tables with all their columns at full width.

use super::picture;
use super::scene::{Scene, deeds, queues, site, targets, tokens};
use crate::app::{Msg, RunsMsg, Screen};
use crate::domain::Phase;

/// The texts of a table's rows from the name's column on, as far as they are seen.
fn shown(scene: &mut Scene) -> Vec<String> {
    scene.text().lines().skip(5).map(str::to_owned).collect()
}

#[test]
fn wide_columns_at_two_sizes() {
    for (width, height) in [(80, 24), (160, 50)] {
        let mut scene = site(width, height);
        scene.press("ctrl-w");
        picture(&format!("wide_hosts_{width}x{height}"), &mut scene);
        scene.press("right right");
        picture(&format!("wide_hosts_right_{width}x{height}"), &mut scene);
        scene.press("ctrl-w 2 ctrl-w");
        picture(&format!("wide_runs_{width}x{height}"), &mut scene);
    }
}

#[test]
fn every_text_of_every_table_can_be_read_to_its_end() {
    let reason = "the last word of a long reason is here: END";
    type Make = fn(u16, u16) -> Scene;
    let tables: [(Make, &str); 6] = [
        (site, "END"),
        (
            |w, h| {
                let mut scene = site(w, h);
                scene.press("2");
                scene
            },
            "END",
        ),
        (targets, "site=lan"),
        (tokens, "its id is not 6 lower-case letters and digits"),
        (queues, "a pod has the message, or is done"),
        (deeds, "remove targets of targets default/scrape-collectd"),
    ];
    for (make, end) in tables {
        for width in [40, 80, 160] {
            let mut scene = make(width, 24);
            let mut failed = super::scene::runs()[4].clone();
            failed.outcome.as_mut().unwrap().text = format!("{} {reason}", "zfs : import pool: ".repeat(9));
            scene.send(Msg::Runs(RunsMsg::Batch(vec![failed])));
            scene.press("ctrl-w");
            let last = scene.seen.left_most.unwrap();
            for _ in 0..30 {
                scene.press("right");
            }
            let seen = scene.text();
            let words: String = seen.split_whitespace().collect();
            let wanted: String = end.split_whitespace().collect();
            let tail: String = wanted.chars().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect();
            assert!(words.contains(&tail), "{end} at {width}:\n{seen}");
            // As many steps back as forth, not more: at the end nothing is counted that is not shown.
            let mut steps = 0;
            while scene.state.table().unwrap().left.min(last) > 0 {
                scene.press("left");
                steps += 1;
            }
            assert!(steps <= usize::from(last).div_ceil(16), "{steps} for {last}");
        }
    }
}

#[test]
fn keys_that_come_faster_than_frames_move_as_far() {
    let mut scene = site(80, 24);
    scene.press("ctrl-w");
    for _ in 0..2 {
        let key = crate::app::Msg::Key("right".parse().unwrap());
        crate::app::update(&mut scene.state, &scene.seen, crate::app::sample::now(), key);
    }
    assert_eq!(scene.state.hosts.table.left, 32);
}

#[test]
fn the_name_stays_and_the_table_is_as_before_afterwards() {
    for (width, keys) in [(80, ""), (80, "2"), (160, ""), (40, "")] {
        let mut scene = site(width, 24);
        scene.press(keys).rested();
        let before = scene.text();
        scene.press("ctrl-w right right right");
        let wide = scene.text();
        let names = |text: &str| text.matches("db-3").count();
        assert!(names(&wide) >= 1 && wide != before, "{wide}");
        scene.press("ctrl-w").rested();
        assert_eq!(scene.text(), before);
        assert_eq!(scene.press("right").text(), before, "what fits does not move");
    }
}

#[test]
fn where_text_is_typed_ctrl_w_takes_a_word_back() {
    let mut scene = site(80, 24);
    scene.press("/ w e b space x ctrl-w ctrl-w");
    assert!(!scene.state.hosts.table.wide);
    assert_eq!(scene.state.hosts.table.input.as_ref().unwrap().text(), "");
    scene.press("esc : w i d ctrl-w");
    assert!(!scene.state.hosts.table.wide && scene.state.dialogs.len() == 1);
    scene.press("w i d e enter");
    assert!(scene.state.hosts.table.wide, "it is found by its name");
    scene.press("? ctrl-w esc");
    assert!(scene.state.hosts.table.wide);
    // Each screen has its own, and inside a run there are no columns.
    scene.press("2");
    assert!(!scene.state.runs.table.wide);
    scene.press("enter ctrl-w : w i d e enter");
    assert!(scene.text().contains("wide: not here, but in Hosts"), "{}", scene.text());
    assert_eq!(scene.state.screen, Screen::Run);
}

#[test]
fn wide_characters_at_the_edges_keep_their_columns() {
    let mut scene = site(80, 24);
    let mut odd = super::scene::runs()[3].clone();
    odd.phase = Phase::Queued;
    odd.reason = "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字\u{1b}[2J".into();
    odd.groups = vec!["字組".repeat(6)];
    scene.send(Msg::Runs(RunsMsg::Batch(vec![odd])));
    scene.press("ctrl-w");
    for _ in 0..20 {
        let rows = shown(&mut scene);
        assert!(rows.iter().all(|row| unicode_width::UnicodeWidthStr::width(row.as_str()) <= 80), "{rows:?}");
        assert!(!rows.concat().contains('\u{1b}'));
        scene.press("right");
    }
    super::every_size(&mut scene, "wide");
}
