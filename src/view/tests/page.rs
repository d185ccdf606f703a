//! The page of a host and its run: the timeline and the runs before, each with a bar.

use super::scene::{Scene, failed_run, recorded, runs, site};
use super::{every_size, picture};
use crate::app::sample::{ago, uid};
use crate::app::{Msg, RunsMsg};
use crate::config::{ColourDepth, SymbolSet, Theme};
use crate::domain::{Kind, Phase, Run};

const NAS: &str = "nas-1.lan.example.org";

/// The runs before the failed one, with lengths of their own.
fn earlier() -> Vec<Run> {
    let failed = &runs()[4];
    let before = [(Phase::Ready, 62), (Phase::Ready, 75), (Phase::Failed, 300), (Phase::Ready, 58)];
    let made = (0i64..).zip(before).map(|(n, (phase, took))| {
        let mut run = failed.clone();
        let created = 86_400 * (n + 1);
        (run.uid, run.number, run.phase) = (format!("before-{n}"), 1, phase);
        (run.created, run.started) = (ago(created), Some(ago(created - 10)));
        run.finished = Some(ago(created - 10 - took));
        if phase == Phase::Ready {
            run.outcome.clone_from(&runs()[5].outcome);
        }
        if n == 3 {
            run.kind = Kind::Check;
        }
        run
    });
    made.collect()
}

fn with_history(mut scene: Scene) -> Scene {
    scene.send(Msg::Runs(RunsMsg::Batch(earlier())));
    scene
}

/// The run is open, with plays.
fn opened(width: u16, height: u16) -> Scene {
    let mut scene = with_history(failed_run(width, height));
    let mut found = recorded();
    for (at, task) in found.results.iter_mut().enumerate() {
        let (play, began) =
            if at < 14 { ("Base", 7_250) } else { ("Collect and provision everything", 7_230) };
        (task.play, task.started) = (play.to_owned(), Some(ago(began - i64::try_from(at).unwrap() / 2)));
    }
    scene.send(Msg::Results { run: uid(NAS, 1), results: Ok(Box::new(found)), complete: true });
    scene.rested();
    scene
}

#[test]
fn the_page_from_the_table_at_three_sizes() {
    for (width, height) in [(40, 10), (80, 24), (160, 50)] {
        let mut scene = with_history(site(width, height));
        scene.press("j j j j").rested();
        if width == 160 {
            picture("page_beside_160x50", &mut scene);
        }
        scene.press("i");
        picture(&format!("page_{width}x{height}"), &mut scene);
        assert!(!scene.effects.iter().any(|e| e.changes()));
    }
}

#[test]
fn the_page_inside_a_run_at_two_sizes() {
    for (width, height) in [(80, 24), (160, 50)] {
        let mut scene = opened(width, height);
        scene.press("i");
        picture(&format!("page_run_{width}x{height}"), &mut scene);
    }
}

#[test]
fn a_host_with_one_run_has_a_page_too() {
    let mut scene = site(80, 24);
    scene.press("G").rested().press("i");
    picture("page_single_80x24", &mut scene);
}

#[test]
fn the_page_is_ascii_where_it_must_be_and_told_without_colours() {
    let mut scene = opened(80, 24);
    scene.press("i");
    scene.theme = Theme::default().resolve(ColourDepth::None, SymbolSet::Ascii);
    let text = scene.text();
    let odd: String = text.chars().filter(|c| !c.is_ascii()).collect();
    assert!(odd.is_empty(), "{odd:?} in {text}");
    for part in ["ansible", "==", "x   1m 2s", "failed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    every_size(&mut scene, "page");
    let mut scene = with_history(site(80, 24));
    scene.press("j j j j i");
    every_size(&mut scene, "page from the table");
}

#[test]
fn a_page_that_tells_an_age_is_drawn_again_when_that_changes() {
    let mut scene = site(160, 50);
    // web-8 runs since an hour, and nothing else is younger than two minutes.
    scene.press("j j j").rested();
    let wake = scene.seen.wake.unwrap();
    assert!(
        wake > crate::app::sample::now()
            && wake <= crate::app::sample::now() + jiff::SignedDuration::from_mins(1)
    );
    let mut alone = Scene::new(80, 24);
    let mut old = crate::app::sample::run("a.org", Phase::Running);
    (old.created, old.seen, old.started) = (ago(90_000), ago(90_000), Some(ago(7_300)));
    alone
        .send(Msg::Runs(RunsMsg::Reset))
        .send(Msg::Runs(RunsMsg::Batch(vec![old])))
        .send(Msg::Runs(RunsMsg::Listed));
    alone.rested().press("i");
    assert_eq!(alone.seen.wake, Some(ago(7_300) + jiff::SignedDuration::from_hours(3)), "not once a second");
}

#[test]
fn names_of_plays_are_hostile() {
    let mut scene = opened(80, 24);
    let mut found = recorded();
    for task in &mut found.results {
        task.play = "\u{1b}[2J\u{202e}漢字漢字漢字漢字\n".into();
    }
    scene.send(Msg::Results { run: uid(NAS, 1), results: Ok(Box::new(found)), complete: true });
    let text = scene.press("i").text();
    assert!(!text.chars().any(|c| c == '\u{1b}' || c == '\u{202e}'), "{text:?}");
    assert!(text.contains("漢字"), "{text}");
}
