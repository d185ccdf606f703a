//! Pictures of the console, and every size.

mod inside;
mod page;
mod scene;
mod secrets;
mod sizes;
mod wide;

use scene::{Scene, deeds, down, failed_run, many, queues, site, targets, tokens};

use crate::app::sample::{ago, now, rights, uid};
use crate::app::{Effect, Fresh, Msg, RunsMsg, Topic};
use crate::config::{ColourDepth, Need, Role, SymbolSet, Theme};
use crate::domain::{BackEnd, Health, Problem, ProblemKind};

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (160, 50)];

fn picture(name: &str, scene: &mut Scene) {
    scene.rested();
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, scene.text());
    });
}

#[test]
fn the_hosts_at_three_sizes() {
    for (width, height) in SIZES {
        let mut scene = site(width, height);
        scene.press("j j").rested();
        if width >= 140 {
            scene::details(&mut scene);
        }
        picture(&format!("hosts_{width}x{height}"), &mut scene);
    }
}

#[test]
fn the_runs_at_three_sizes() {
    for (width, height) in SIZES {
        let mut scene = site(width, height);
        scene.press("2").rested();
        picture(&format!("runs_{width}x{height}"), &mut scene);
    }
}

#[test]
fn the_lists_at_three_sizes() {
    for (width, height) in SIZES {
        for (topic, mut scene) in [
            (Topic::Targets, targets(width, height)),
            (Topic::Tokens, tokens(width, height)),
            (Topic::Queue, queues(width, height)),
            (Topic::Activity, deeds(width, height)),
        ] {
            picture(&format!("{topic:?}_{width}x{height}").to_lowercase(), &mut scene);
        }
    }
}

#[test]
fn a_list_that_is_empty_broken_forbidden_or_on_its_way() {
    let mut scene = site(80, 24);
    picture("targets_loading_80x24", scene.press("3"));
    let fresh = Fresh { note: "default/scrape-collectd".to_owned(), ..Fresh::default() };
    scene.send(Msg::Listed { topic: Topic::Targets, result: Ok(fresh) });
    picture("targets_empty_80x24", &mut scene);
    for (kind, text, advice) in [
        (
            ProblemKind::Forbidden,
            "forbidden: needs \"get\" on configmaps in namespace \"default\"",
            "Ask for the Role hostwright-operator.",
        ),
        (ProblemKind::Unreachable, "the cluster does not answer: connection refused", ""),
    ] {
        let mut scene = site(80, 24);
        scene.press("8");
        let problem = Problem::new("activity", kind, text).advise(advice);
        scene.send(Msg::Listed { topic: Topic::Activity, result: Err(problem) });
        picture(&format!("activity_{kind:?}_80x24").to_lowercase(), &mut scene);
    }
}

#[test]
fn forms_at_two_sizes() {
    for (width, height) in [(40, 12), (80, 24)] {
        let mut scene = targets(width, height);
        scene.press("a a . b tab x enter enter");
        picture(&format!("form_target_{width}x{height}"), &mut scene);
        let mut scene = site(width, height);
        scene.press("a e tab");
        picture(&format!("form_approve_{width}x{height}"), &mut scene);
    }
}

#[test]
fn a_failed_run_at_three_sizes() {
    for (width, height) in SIZES {
        let mut scene = failed_run(width, height);
        picture(&format!("run_{width}x{height}"), &mut scene);
    }
}

#[test]
fn a_pending_host_opens_on_its_own_page() {
    let mut scene = site(80, 24);
    scene.press("j enter");
    scene::details(&mut scene);
    picture("run_pending_80x24", &mut scene);
    scene.press("esc");
    assert_eq!(scene.state.screen, crate::app::Screen::Hosts);
}

#[test]
fn the_result_alone_where_there_is_no_room_beside() {
    let mut scene = failed_run(80, 24);
    scene.press("enter");
    picture("run_result_80x24", &mut scene);
    scene.press("esc l l");
    picture("run_log_80x24", &mut scene);
}

#[test]
fn the_question_before_an_approval() {
    for (width, height) in SIZES {
        let mut scene = site(width, height);
        scene.press("j a");
        picture(&format!("approve_{width}x{height}"), &mut scene);
    }
}

#[test]
fn what_is_unusual_is_said_before_an_approval() {
    for (width, height) in [(40, 12), (80, 24)] {
        let mut scene = site(width, height);
        let mut changed = scene::runs()[1].clone();
        changed.key = Some("ed25519 SHA256:someOtherKeyThatNobodyHasSeen".into());
        changed.address = "10.0.4.1".parse().ok();
        scene.send(Msg::Runs(RunsMsg::Batch(vec![changed])));
        scene.press("j a");
        picture(&format!("approve_unusual_{width}x{height}"), &mut scene);
    }
}

#[test]
fn a_host_whose_details_come_later() {
    let mut scene = site(80, 24);
    scene.press("d");
    let (text, before) = (scene.text(), scene.effects.len());
    assert!(!text.contains("64 GiB") && before == 1, "{text}");
    scene::details(&mut scene);
    picture("details_80x24", &mut scene);
}

#[test]
fn a_stop_in_a_guarded_environment_wants_its_name() {
    let mut scene = site(80, 24);
    scene.press("j j j X s t a");
    picture("stop_typed_80x24", &mut scene);
}

#[test]
fn several_hosts_at_once() {
    let mut scene = site(80, 24);
    scene.press("space space space");
    picture("marked_80x24", &mut scene);
    scene.press("a");
    picture("approve_several_80x24", &mut scene);
}

#[test]
fn help_palette_and_why() {
    let mut scene = site(80, 24);
    scene.press("?");
    picture("help_80x24", &mut scene);
    scene.press("esc : s t");
    picture("palette_80x24", &mut scene);
    scene.press("esc j j j j w");
    picture("why_80x24", &mut scene);
}

#[test]
fn a_filter_says_what_it_hides() {
    let mut scene = site(80, 24);
    scene.press("/ w e b");
    picture("filter_typing_80x24", &mut scene);
    scene.press("enter");
    picture("filter_80x24", &mut scene);
    scene.press("/ space p h a s e : r e j enter");
    picture("filter_nothing_80x24", &mut scene);
}

#[test]
fn before_anything_is_known() {
    let mut scene = Scene::new(80, 24);
    picture("connecting_80x24", &mut scene);
    scene.health(BackEnd::Cluster, down("cannot reach https://10.0.0.1:6443: connection refused"));
    picture("broken_80x24", &mut scene);
    scene.health(BackEnd::Cluster, Health::Up);
    scene.send(Msg::Runs(RunsMsg::Reset)).send(Msg::Runs(RunsMsg::Listed));
    picture("empty_80x24", &mut scene);
    scene.state.environment.name = String::new();
    picture("no_environment_80x24", &mut scene);
}

#[test]
fn what_the_cluster_said_last_is_kept_and_marked_as_old() {
    let mut scene = site(120, 24);
    scene.health(BackEnd::Cluster, down("cannot reach https://10.0.0.1:6443: connection refused"));
    scene.health(BackEnd::Ara, down("ara answers 401"));
    picture("stale_120x24", &mut scene);
}

#[test]
fn that_approvals_are_held_is_on_every_screen() {
    let hold = || Msg::Approvals(crate::app::tests::held("ben@example.org"));
    for (width, height) in SIZES {
        let mut scene = site(width, height);
        scene.send(hold());
        picture(&format!("held_{width}x{height}"), &mut scene);
        let cell = scene.draw()[(1, height - 1)].clone();
        let disabled = scene.theme.style(Role::Disabled).fg.map(super::pen::colour);
        assert_eq!((cell.symbol(), Some(cell.fg)), ("a", disabled), "{width}x{height}");
    }
    for (name, mut scene) in [
        ("run", failed_run(80, 24)),
        ("tokens", tokens(80, 24)),
        ("queue", queues(80, 24)),
        ("activity", deeds(80, 24)),
    ] {
        scene.send(hold());
        let text = scene.text();
        let banner = text.lines().nth(1).unwrap_or_default();
        assert!(banner.contains("held for 5m by ben@example.org: the API servers"), "{name}: {text}");
    }
    for keys in ["H", "R", "a"] {
        let mut scene = site(80, 24);
        if keys != "H" {
            scene.send(hold());
        }
        scene.press(keys);
        picture(&format!("held_{keys}_80x24").to_lowercase(), &mut scene);
    }
}

#[test]
fn read_only_greys_the_keys_and_says_so() {
    let mut scene = site(80, 24);
    scene.state.environment.read_only = true;
    scene.press("a");
    picture("read_only_80x24", &mut scene);
    assert_eq!(scene.effects, []);
}

#[test]
fn what_the_cluster_would_refuse_is_grey_and_says_why() {
    let mut scene = site(80, 24);
    scene.send(Msg::Rights(Box::new(rights(&[Need::PatchRun]))));
    let grey = scene.styled();
    scene.press("a");
    picture("no_rights_80x24", &mut scene);
    assert_eq!(scene.effects, [Effect::AskRights]);
    let footer = |styled: &str| styled.lines().rev().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(footer(&grey), footer(&scene.styled()), "grey before it is pressed");
    scene.press("w");
    picture("no_rights_why_80x24", &mut scene);
    scene.press("esc ?");
    assert!(scene.text().contains("(off: you may not patch jobs.batch"), "{}", scene.text());
    scene.press("esc :").send(Msg::Paste("approve".to_owned()));
    assert!(scene.text().contains("you may not patch jobs.batch"), "{}", scene.text());
}

#[test]
fn ascii_has_no_other_characters() {
    for mut scene in [site(160, 50), failed_run(160, 50), failed_run(80, 24)] {
        scene.theme = scene.theme.clone().resolve(ColourDepth::Ansi, SymbolSet::Ascii);
        for keys in ["", "?", "esc : ", "esc m", "esc esc j a"] {
            // The sample's own log and separators between words are plain already.
            let text = scene.press(keys).text();
            let odd: String = text.chars().filter(|c| !c.is_ascii()).collect();
            assert!(odd.chars().all(|c| c == '␛' || c == '␇'), "{keys:?}: {odd:?}");
        }
    }
}

#[test]
fn colours_are_held() {
    let mut scene = site(80, 24);
    scene.press("j j space").rested();
    styled("styled_hosts_80x24", &mut scene);
    scene.theme = Theme::built_in("light").unwrap();
    styled("styled_hosts_light_80x24", &mut scene);
    let mut scene = failed_run(160, 50);
    styled("styled_run_160x50", &mut scene);
    let mut scene = site(160, 50);
    scene.press("a");
    styled("styled_approve_160x50", &mut scene);
}

fn styled(name: &str, scene: &mut Scene) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, scene.styled());
    });
}

#[test]
fn without_colours_no_colour_is_used_and_the_selection_is_still_seen() {
    let mut scene = failed_run(160, 50);
    scene.theme = Theme::default().resolve(ColourDepth::None, SymbolSet::Unicode);
    let styled = scene.styled();
    assert!(!styled.contains('#') || !styled.contains("#c9d1d9"), "{styled}");
    let styles: Vec<&str> = styled.lines().filter(|l| l.starts_with("    ")).collect();
    assert!(
        styles.iter().all(|l| !l.contains('#') && !l.contains("Red") && !l.contains(" on ")),
        "{styles:?}"
    );
    assert!(styles.iter().any(|l| l.contains("reverse")));
}

#[test]
fn every_size_draws_without_a_panic() {
    type Prepare = fn(&mut Scene);
    let ways: [(&str, Prepare); 9] = [
        ("table", |_| {}),
        ("question", |s| {
            s.press("a");
        }),
        ("typed", |s| {
            s.press("j j j X s t");
        }),
        ("help", |s| {
            s.press("?");
        }),
        ("palette", |s| {
            s.press(":");
        }),
        ("filter", |s| {
            s.press("/ h 漢");
        }),
        ("why", |s| {
            s.press("w");
        }),
        ("marked", |s| {
            s.press("space space a");
        }),
        ("runs", |s| {
            s.press("2 G");
        }),
    ];
    for rows in [0, 1, 300] {
        // Dialogs do not depend on how many rows there are: only the tables do.
        let some = |name: &str| rows == 300 || ["table", "runs", "question"].contains(&name);
        for (name, way) in ways.into_iter().filter(|(name, _)| some(name)) {
            let mut scene = Scene::new(80, 24);
            scene.send(Msg::Runs(RunsMsg::Reset)).send(Msg::Runs(RunsMsg::Batch(many(rows))));
            scene.send(Msg::Runs(RunsMsg::Listed)).rested();
            way(&mut scene);
            every_size(&mut scene, name);
        }
    }
    for keys in ["", "tab", "l z", "?", "/", "f f", "X s"] {
        let mut scene = failed_run(160, 50);
        scene.press(keys);
        every_size(&mut scene, keys);
    }
    for keys in ["", "l", "tab"] {
        let mut scene = site(80, 24);
        scene.press("enter").press(keys);
        every_size(&mut scene, keys);
    }
}

fn every_size(scene: &mut Scene, name: &str) {
    for width in 0..=60 {
        for height in 0..=20 {
            let backend = ratatui::backend::TestBackend::new(width, height);
            let mut terminal = ratatui::Terminal::new(backend).unwrap();
            let draw = std::panic::AssertUnwindSafe(|| {
                terminal.draw(|frame| drop(crate::view::draw(frame, &scene.state, &scene.theme))).unwrap();
            });
            assert!(std::panic::catch_unwind(draw).is_ok(), "{name} at {width}x{height}");
        }
    }
}

#[test]
fn nothing_hostile_reaches_a_cell() {
    let hostile =
        ["\u{1b}[2J", "\u{1b}]52;c;aGk=\u{7}", "\u{9b}31m", "\u{1b}Pq", "a\u{202e}b", "x\0y", "漢字\ttab"];
    let mut scene = failed_run(160, 50);
    let run = uid("nas-1.lan.example.org", 1);
    scene.send(Msg::Log { run, event: scene::lines(&hostile) });
    for text in hostile {
        scene.send(Msg::Crashed(text.to_owned()));
        scene.health(BackEnd::Queue, down(text));
        for keys in ["", "m", "esc w", "esc"] {
            let buffer = scene.press(keys).draw();
            for cell in buffer.content() {
                assert!(
                    !cell.symbol().chars().any(|c| c.is_control() || c == '\u{202e}'),
                    "{:?}",
                    cell.symbol()
                );
            }
        }
    }
}

#[test]
fn a_frame_is_due_when_a_text_changes_and_not_before() {
    let mut scene = site(80, 24);
    scene.draw();
    // db-3 was seen 12 seconds ago, which is not shown at this width; its announcement is 2 minutes old.
    let wake = scene.seen.wake.unwrap();
    assert_eq!(wake, ago(120) + jiff::SignedDuration::from_mins(3));
    assert!(wake > now());
    let mut old = Scene::new(80, 24);
    let mut ready = crate::app::sample::run("a.org", crate::domain::Phase::Ready);
    (ready.created, ready.seen) = (ago(7_300), ago(7_300));
    old.send(Msg::Runs(RunsMsg::Reset))
        .send(Msg::Runs(RunsMsg::Batch(vec![ready])))
        .send(Msg::Runs(RunsMsg::Listed));
    old.rested().draw();
    assert_eq!(old.seen.wake, Some(ago(7_300) + jiff::SignedDuration::from_hours(3)));
}

#[test]
fn moving_the_cursor_changes_few_cells() {
    let mut scene = site(160, 50);
    let before = scene.draw();
    scene.press("j");
    let after = scene.draw();
    // Two markers and two names: what 300 bytes can carry.
    let changed = before.diff(&after).len();
    assert!(changed <= 2 * ("db-3.lan.example.org".len() + "web-7.lan.example.org".len()), "{changed} cells");
}

#[test]
fn other_keys_are_shown_where_they_were_chosen() {
    let mut scene = site(80, 24);
    scene.state.keymap = scene::keymap("hosts", "approve", &["A"]);
    assert!(scene.text().contains("A approve"));
    scene.press("a");
    assert!(scene.state.dialogs.is_empty());
    scene.press("A y");
    assert!(matches!(scene.effects.as_slice(), [Effect::Approve { .. }]));
}
