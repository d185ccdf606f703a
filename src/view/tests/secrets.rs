//! Pictures of the secrets.

use super::scene::{Scene, site};
use super::{SIZES, picture};
use crate::app::sample::{bucket, secret};
use crate::app::secrets::{Back, SecretsDone, Transfer};
use crate::app::tests::secrets::{compared, listing, rows, versions};
use crate::app::{Answer, Effect, Msg};
use crate::domain::secret::{Compared, FileState, Format, SecretListing, Setting, Values, three_way};
use crate::domain::{Problem, ProblemKind};

/// The secrets of a small site.
pub(super) fn secrets(width: u16, height: u16) -> Scene {
    let mut scene = site(width, height);
    scene.press("4").send(listing(rows())).press("j j");
    scene
}

/// With the cursor on the one that both sides changed.
fn conflict(width: u16, height: u16) -> Scene {
    let mut scene = secrets(width, height);
    scene.press("/ a b a c enter j j");
    scene
}

fn answer(scene: &mut Scene, answer: Answer) {
    super::scene::answer(scene, |effect| matches!(effect, Effect::Secret { .. }), answer);
}

#[test]
fn the_secrets_at_three_sizes() {
    for (width, height) in SIZES {
        let mut scene = secrets(width, height);
        picture(&format!("secrets_{width}x{height}"), &mut scene);
    }
}

#[test]
fn secrets_that_are_loading_broken_incomplete_or_none() {
    let mut scene = site(80, 24);
    picture("secrets_loading_80x24", scene.press("4"));
    let problem =
        Problem::new("bucket", ProblemKind::Unreachable, "cannot list the bucket: no answer within 10 s");
    let problem = problem.advise("is AWS, or the endpoint, reachable from here?");
    scene.send(Msg::Secrets(Err(problem)));
    picture("secrets_broken_80x24", &mut scene);
    let none = "environments/staging.tfvars: secrets_bucket_name must be filled in";
    scene.send(Msg::Secrets(Err(Problem::new("bucket", ProblemKind::Invalid, none))));
    picture("secrets_unset_80x24", &mut scene);
    let listing = |rows, incomplete: Option<&str>| {
        let incomplete = incomplete.map(str::to_owned);
        Msg::Secrets(Ok(Box::new(SecretListing { facts: bucket(), rows, incomplete })))
    };
    scene.send(listing(Vec::new(), None));
    picture("secrets_empty_80x24", &mut scene);
    scene.send(listing(Vec::new(), Some("the bucket broke off after 1,000 keys")));
    picture("secrets_incomplete_empty_80x24", &mut scene);
    scene.send(listing(vec![secret("common/motd", FileState::Same)], Some("it broke off after 1,000 keys")));
    picture("secrets_incomplete_80x24", &mut scene);
}

#[test]
fn a_bucket_that_is_not_as_it_must_be() {
    let mut scene = site(80, 24);
    let mut facts = bucket();
    facts.public_access = Setting::Bad("public access is not blocked".into());
    facts.versioning = Setting::Unknown("we may not ask".into());
    scene.press("4").send(Msg::Secrets(Ok(Box::new(SecretListing {
        facts,
        rows: rows(),
        incomplete: None,
    }))));
    picture("secrets_public_80x24", &mut scene);
    picture("secrets_public_why_80x24", scene.press("w"));
}

#[test]
fn a_transfer_and_what_came_of_it() {
    for (width, height) in [(80, 24), (160, 50)] {
        let mut scene = secrets(width, height);
        scene.press("* f");
        let id = scene.effects.iter().find_map(Effect::id).unwrap();
        let transfer = Transfer { files: 12, of_files: 40, bytes: 3_100_000, of_bytes: 9_000_000 };
        scene.send(Msg::Transfer { id, transfer });
        picture(&format!("secrets_transfer_{width}x{height}"), &mut scene);
        let problem =
            Problem::new("locked/root.key", ProblemKind::Forbidden, "cannot read locked/root.key: forbidden");
        let outcomes = vec![
            ("addons/old.yaml".to_owned(), Ok("fetched".to_owned())),
            ("locked/root.key".to_owned(), Err(problem.advise("ask for that permission"))),
        ];
        answer(&mut scene, Answer::Secrets(SecretsDone { outcomes, cancelled: true }));
        picture(&format!("secrets_done_{width}x{height}"), &mut scene);
    }
}

#[test]
fn what_is_asked_before_secrets_change() {
    let mut scene = secrets(80, 24);
    picture("secrets_upload_80x24", scene.press("* u"));
    let mut scene = secrets(80, 24);
    picture("secrets_remove_80x24", scene.press("x"));
    let mut scene = conflict(80, 24);
    picture("secrets_over_80x24", scene.press("u"));
}

#[test]
fn the_versions_of_a_secret_at_three_sizes() {
    for (width, height) in SIZES {
        let mut scene = secrets(width, height);
        scene.press("g j H");
        answer(&mut scene, Answer::Versions(versions()));
        picture(&format!("versions_{width}x{height}"), scene.press("j"));
    }
}

#[test]
fn what_differs_is_hidden_until_it_is_asked_for() {
    for (width, height) in [(40, 12), (80, 24)] {
        let mut scene = conflict(width, height);
        scene.press("d");
        answer(&mut scene, Answer::Compared(Box::new(compared(Values::Hidden))));
        picture(&format!("differences_{width}x{height}"), &mut scene);
    }
    let mut scene = conflict(80, 24);
    scene.press("d v");
    answer(&mut scene, Answer::Compared(Box::new(compared(Values::Shown))));
    picture("differences_values_80x24", &mut scene);
}

/// A conflict, with what both began with.
fn three() -> Compared {
    let (base, mine) = (b"a: 1\nb: 2\nc: 3\n", b"a: 1\nb: 7\nc: 3\n");
    Compared::Three(three_way(
        Some(base),
        Some(mine),
        Some(b"a: 1\nb: 8\nc: 3\n"),
        Format::Yaml,
        Values::Hidden,
    ))
}

#[test]
fn a_conflict_in_three_ways() {
    for (width, height) in [(80, 24), (160, 50)] {
        let mut scene = conflict(width, height);
        scene.press("d");
        answer(&mut scene, Answer::Compared(Box::new(three())));
        picture(&format!("differences_three_{width}x{height}"), &mut scene);
    }
    let mut scene = conflict(80, 24);
    scene.press("e");
    let id = scene.effects.iter().rev().find_map(Effect::id).unwrap();
    let why = Back::Apart { compared: Box::new(three()), values: false };
    scene.send(Msg::EditedBack { id, key: "secure/auth/abac.jsonl".into(), why });
    picture("edited_apart_80x24", &mut scene);
    picture("edited_question_80x24", scene.press("esc"));
}

#[test]
fn every_size_of_the_secrets_and_their_pages() {
    use super::sizes::all_sizes;
    for keys in ["", "i", "* u", "w", "s ctrl-w right", "h h"] {
        let mut scene = secrets(80, 24);
        scene.press(keys).rested();
        all_sizes(&mut scene, &format!("secrets, {keys:?}"));
    }
    for rows in [0, 300] {
        let many = (0..rows).map(|n| secret(&format!("common/{}/f{n}", n % 7), FileState::Same)).collect();
        let mut scene = site(80, 24);
        scene.press("4").send(listing(many)).press("enter j j").rested();
        all_sizes(&mut scene, &format!("{rows} secrets"));
    }
    let mut scene = secrets(80, 24);
    scene.press("g j H");
    answer(&mut scene, Answer::Versions(versions()));
    all_sizes(&mut scene, "versions");
    let mut scene = conflict(80, 24);
    scene.press("d");
    answer(&mut scene, Answer::Compared(Box::new(three())));
    all_sizes(&mut scene, "differences");
}
