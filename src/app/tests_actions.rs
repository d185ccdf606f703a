//! What holds for every action of the table: it does something, read-only keeps it from changing anything, and what it changes has
//! an op and a command.

use std::collections::BTreeSet;

use super::*;
use crate::app::items::Item;
use crate::app::notice::Level;
use crate::app::screens::list::Fresh;
use crate::app::secrets::SecretDeed;
use crate::config::{Action, ActionInfo};

/// Actions, the effects they lead to, ops and commands; `tests/it/operators.rs` holds the last two.
const DEEDS: &str = include_str!("../../tests/data/deeds.txt");

fn deeds() -> Vec<(Action, &'static str)> {
    let rows = DEEDS.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut parts = line.split('|').map(str::trim);
        (Action::parse(parts.next().unwrap()).unwrap_or_else(|| panic!("{line}")), parts.next().unwrap())
    })
    .collect()
}

/// Where an action counts, without `Global`: that is everywhere.
pub(super) fn places(row: &ActionInfo) -> Vec<Scope> {
    let here = |scope: &Scope| *scope != Scope::Global && row.action.in_scope(*scope);
    Scope::ALL.into_iter().filter(here).collect()
}

/// Consoles of the playground in this scope, with the cursor on each kind of row.
pub(super) fn stages(scope: Scope) -> Vec<Console> {
    let rows = |topic: Topic, screen: &str, items: Vec<Item>| {
        (0..items.len())
            .map(|down| {
                let mut console = site();
                console.press(screen);
                let fresh =
                    Fresh { items: items.clone(), note: "a note".to_owned(), warning: false, since: None };
                console.send(Msg::Listed { topic, result: Ok(fresh) });
                console.press(&"j ".repeat(down));
                console
            })
            .collect::<Vec<_>>()
    };
    let runs = |before: &str, after: &str| {
        let keys = (0..5).map(|down| format!("{before} {} {after}", "j ".repeat(down)));
        keys.map(|keys| {
            let mut console = site();
            console.press(&keys);
            console
        })
        .collect::<Vec<_>>()
    };
    let held = |keys: &str| {
        let mut console = site();
        console.press(keys);
        console.send(Msg::Approvals(super::held("ben")));
        console
    };
    let mut stages: Vec<Console> = match scope {
        Scope::Global => unreachable!("no screen"),
        Scope::Hosts => runs("", "").into_iter().chain([held("")]).collect(),
        Scope::Runs => runs("2", "").into_iter().chain([held("2")]).collect(),
        Scope::Run => {
            let mut stages: Vec<Console> = runs("", "enter");
            stages.extend([inside_failed(), read_and_searched(), held("enter")]);
            stages
        }
        Scope::Targets => rows(
            Topic::Targets,
            "3",
            vec![
                lists::target("a.org:9103", "a.org"),
                lists::target("b.org:9103", "b.org"),
                lists::unknown("{odd: true}"),
            ],
        ),
        Scope::Secrets => secrets::stages(),
        Scope::Versions => secrets::version_stages(),
        Scope::Differences => secrets::difference_stages(),
        Scope::Tokens => rows(
            Topic::Tokens,
            "5",
            vec![lists::token("abcdef", Some(30), &[]), lists::token("x", None, &["odd"])],
        ),
        Scope::Queue => rows(
            Topic::Queue,
            "6",
            vec![lists::letter("a", true), lists::letter("b", false), lists::queue("c.org", 1)],
        ),
        Scope::Activity => rows(
            Topic::Activity,
            "8",
            vec![
                lists::activity("1", "ann", "approve", "run a", 1),
                lists::activity("2", "ben", "deliver", "b", 9),
            ],
        ),
    };
    for stage in &mut stages {
        stage.state.environment.playground = true;
        assert_eq!(stage.state.scope(), scope);
    }
    stages
}

/// Inside a run whose log and first result are read, and that is searched.
fn read_and_searched() -> Console {
    let mut console = inside_failed();
    let effects = console.rest();
    let mut details = result_details(2);
    details.diffs = vec![crate::domain::results::FileDiff {
        before_header: "/etc/motd".into(),
        after_header: "/etc/motd".into(),
        before: "one\n".into(),
        after: "two\n".into(),
        prepared: String::new(),
    }];
    console.answer(&effects[0], Ok(Answer::Result(Box::new(details))));
    let line = |n: usize| match n {
        5 => "TASK [zfs : two] ***".to_owned(),
        6 => "fatal: [nas-1.lan.example.org]: FAILED!".to_owned(),
        7 => "ok: [other.org]".to_owned(),
        n => format!("line {n}"),
    };
    let lines = (0..60).map(|n| LogLine { at: Some(ago(120)), bytes: line(n).into_bytes().into() }).collect();
    console.send(Msg::Log { run: uid("d.org", 1), event: LogEvent::Lines(lines) });
    console.press("l g j j j j j j / l i n e enter");
    console
}

/// Says yes to whatever stands in front, and fills in what a form needs.
pub(super) fn say_yes(console: &mut Console) -> Vec<Effect> {
    match console.state.dialogs.last() {
        Some(Dialog::Confirm(confirm)) if confirm.typed.is_some() => console.press("s t a g i n g enter"),
        Some(Dialog::Confirm(_)) => console.press("y"),
        Some(Dialog::Form(form)) => {
            let fields: Vec<(String, bool)> =
                form.fields.iter().map(|f| (f.name.to_owned(), f.input.text().is_empty())).collect();
            let mut effects = Vec::new();
            for (label, empty) in &fields {
                let text = match label.as_str() {
                    "target" => "c.org",
                    "labels" => " rack=7",
                    "reason" => "patching",
                    _ => "",
                };
                if *empty || label == "labels" {
                    console.send(Msg::Paste(text.to_owned()));
                }
                effects.extend(console.press("enter"));
            }
            effects.extend(console.press("enter"));
            effects
        }
        _ => Vec::new(),
    }
}

/// The name of what an effect does to the outside; a new one has to be named here, and in the table.
fn kind(effect: &Effect) -> Option<&'static str> {
    Some(match effect {
        Effect::Approve { .. } => "Approve",
        Effect::Check { .. } => "Check",
        Effect::Reject { .. } => "Reject",
        Effect::Retry { .. } => "Retry",
        Effect::Stop { .. } => "Stop",
        Effect::Forget { .. } => "Forget",
        Effect::Hold { .. } => "Hold",
        Effect::Release { .. } => "Release",
        Effect::Shell { .. } => "Shell",
        Effect::BootMachine { .. } => "BootMachine",
        Effect::Secret { deed, .. } => match deed {
            SecretDeed::Upload { .. } => "UploadSecrets",
            SecretDeed::Remove(_) => "RemoveSecrets",
            SecretDeed::Restore { .. } => "RestoreVersion",
            SecretDeed::Edit(_) => "EditSecret",
            // Who is known is read first, to complete the names in the form that gives it.
            SecretDeed::Names(_) | SecretDeed::GrantToken(..) | SecretDeed::GrantRule(..) => "Grant",
            SecretDeed::Fetch { .. }
            | SecretDeed::History(_)
            | SecretDeed::Compare { .. }
            | SecretDeed::Nodes => return None,
        },
        Effect::Change { change, .. } => match change {
            Change::AddTarget(_) => "AddTarget",
            Change::RemoveTargets(_) => "RemoveTargets",
            Change::LabelTargets(..) => "LabelTargets",
            Change::MintToken { .. } => "MintToken",
            Change::RevokeToken(_) => "RevokeToken",
            Change::Requeue(..) => "Requeue",
            Change::DropLetter(..) => "DropLetter",
        },
        other => {
            assert!(!other.changes(), "{other:?} has no name here");
            return None;
        }
    })
}

/// Presses an action's key; in the palette where it has none.
pub(super) fn press_action(console: &mut Console, row: &ActionInfo) -> Vec<Effect> {
    let scope = console.state.scope();
    let keys: Vec<String> =
        console.state.keymap.keys(scope, row.action).iter().map(ToString::to_string).collect();
    match keys.first() {
        Some(key) => console.press(key),
        None => by_palette(console, row),
    }
}

pub(super) fn by_palette(console: &mut Console, row: &ActionInfo) -> Vec<Effect> {
    console.press(":");
    console.send(Msg::Paste(row.name.to_owned()));
    console.press("enter")
}

#[test]
fn what_changes_something_is_in_the_table_of_ops_and_commands_with_its_effects() {
    let table = deeds();
    let named: Vec<Action> = table.iter().map(|(action, _)| *action).collect();
    let changing: Vec<Action> = ACTIONS.iter().filter(|row| row.changes).map(|row| row.action).collect();
    assert_eq!(named.iter().collect::<BTreeSet<_>>(), changing.iter().collect(), "tests/data/deeds.txt");
    for (action, effects) in table {
        let row = action.info();
        for scope in places(row) {
            let mut seen = BTreeSet::new();
            for mut console in stages(scope) {
                let mut effects = press_action(&mut console, row);
                effects.extend(say_yes(&mut console));
                seen.extend(effects.iter().filter_map(kind));
            }
            assert_eq!(seen, BTreeSet::from([effects]), "{action} in {scope:?}");
        }
    }
}

/// S05: every action in every scope on every kind of row, by each of its keys and by the palette, and whatever opens said yes to.
#[test]
fn read_only_lets_nothing_through_anywhere_and_says_so() {
    const ANSWERS: [&str; 6] = ["y", "enter", "left enter", "tab enter", "c", "s t a g i n g enter"];
    for row in ACTIONS {
        // What changes nothing opens nothing that could: one answer is enough.
        let answers = if row.changes { &ANSWERS[..] } else { &ANSWERS[..1] };
        for scope in places(row) {
            for (at, mut console) in stages(scope).into_iter().enumerate() {
                console.state.environment.read_only = true;
                let keys: Vec<String> =
                    console.state.keymap.keys(scope, row.action).iter().map(ToString::to_string).collect();
                let mut effects = Vec::new();
                for marked in [false, true] {
                    for key in keys.iter().map(Some).chain([None]) {
                        for answer in answers {
                            if console.state.scope() != scope {
                                continue;
                            }
                            console.state.notice = None;
                            effects.extend(match key {
                                Some(key) => console.press(key),
                                None => by_palette(&mut console, row),
                            });
                            let said = console.notice().starts_with("read-only");
                            assert!(!row.changes || said, "{} in {scope:?}, row {at}: no word", row.name);
                            effects.extend(say_yes(&mut console));
                            effects.extend(console.press(answer));
                            console.state.dialogs.clear();
                        }
                    }
                    if !marked {
                        console.press("*");
                    }
                }
                assert_eq!(changing(&effects), [""; 0], "{} in {scope:?}, row {at}", row.name);
            }
        }
    }
}

/// Whatever opened a question or a form: the answer to it is refused below.
#[test]
fn read_only_is_enforced_below_what_asks() {
    for (action, _) in deeds() {
        let row = action.info();
        for scope in places(row) {
            for mut console in stages(scope) {
                if !changing(&press_action(&mut console, row)).is_empty() || console.state.dialogs.is_empty()
                {
                    continue;
                }
                console.state.environment.read_only = true;
                let effects = say_yes(&mut console);
                assert_eq!(changing(&effects), [""; 0], "{action} in {scope:?}");
                assert!(
                    console.notice().starts_with("read-only"),
                    "{action} in {scope:?}: {}",
                    console.notice()
                );
            }
        }
    }
}

/// No action with a risk does anything by its key alone, and in a guarded environment none of the dangerous ones by `y`.
#[test]
fn what_asks_really_asks() {
    for row in ACTIONS.iter().filter(|row| row.risk != Risk::None) {
        for scope in places(row) {
            for mut console in stages(scope) {
                console.state.environment.guarded = true;
                assert_eq!(changing(&press_action(&mut console, row)), [""; 0], "{} in {scope:?}", row.name);
                if row.risk == Risk::Typed && !console.state.dialogs.is_empty() {
                    let effects = console.press("y enter tab enter");
                    assert_eq!(changing(&effects), [""; 0], "{} in {scope:?}", row.name);
                }
            }
        }
    }
}

/// What an operator could see of the console, in words.
fn looks(console: &mut Console) -> String {
    let seen = console.seen();
    let state = &console.state;
    let text = format!(
        "{seen:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        state.environment.in_utc(),
        state.screen,
        state.stack,
        state.hosts,
        state.runs,
        state.lists,
        state.secrets,
        state.run,
        state.dialogs,
        state.bulk,
        state.in_flight,
    );
    // That somebody moved is remembered also where there was nowhere to go.
    text.replace("moved: true", "")
        .replace("moved: false", "")
        .replace("ahead: true", "")
        .replace("ahead: false", "")
}

/// Why an action may have nothing to do in a scope.
fn excused(row: &ActionInfo, scope: Scope) -> bool {
    match row.action {
        // A tree has folders to open and to close.
        Action::Left | Action::Right if scope == Scope::Secrets => false,
        // What differs is not opened any further.
        Action::Open => scope == Scope::Differences,
        // Tables have no panes and are as wide as the terminal.
        Action::Left | Action::Right | Action::NextPane | Action::PreviousPane => scope != Scope::Run,
        // We are there already.
        Action::GoHosts
        | Action::GoRuns
        | Action::GoTargets
        | Action::GoSecrets
        | Action::GoTokens
        | Action::GoQueue
        | Action::GoActivity => row.name == scope.as_str(),
        // The console opened here: there is nothing before it.
        Action::PreviousScreen => scope == Scope::Hosts,
        _ => false,
    }
}

/// Every action does something with its key: what is seen changes, or an effect goes out; being refused is no such thing.
#[test]
fn every_key_does_something_in_every_scope_it_counts_in() {
    // Moves and openings make sense where there is something in that direction: on one of these ways to it.
    const WAYS: [&str; 6] = ["", "j", "G", "space", "tab", "tab tab"];
    let mut idle = Vec::new();
    for row in ACTIONS {
        for scope in places(row).into_iter().filter(|scope| !excused(row, *scope)) {
            let works = WAYS.iter().any(|way| stages(scope).into_iter().any(|stage| does(stage, way, row)));
            if !works {
                idle.push(format!("{} in {}", row.name, scope.as_str()));
            }
        }
    }
    assert_eq!(idle, [""; 0]);
}

/// Whether an action's key does something after these keys.
fn does(mut console: Console, way: &str, row: &ActionInfo) -> bool {
    console.press(way);
    console.state.notice = None;
    let before = looks(&mut console);
    let effects = press_action(&mut console, row);
    let refused = console.state.notice.as_ref().is_some_and(|n| n.level == Level::Warning);
    !effects.is_empty() || (!refused && looks(&mut console) != before)
}
