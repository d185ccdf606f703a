//! Where the console is: kept, come back to, said by the command line.

use super::*;
use crate::app::screens::run::Pane;
use crate::app::{Place, RunPlace, Screen, TablePlace, Topic};

fn fresh(console: &Console) -> State {
    State::new(console.state.environment.clone(), Keymap::default(), now())
}

#[test]
fn another_console_comes_back_to_where_this_one_is() {
    let mut console = site();
    console.press("/");
    console.send(Msg::Paste("phase:failed".into()));
    console.press("enter s S ctrl-w 3");
    let place = console.state.place();
    assert_eq!(place.screen, "targets");

    let text = serde_json::to_string(&place).unwrap();
    let mut other = fresh(&console);
    other.restore(&serde_json::from_str(&text).unwrap());
    assert_eq!((other.screen, other.place()), (Screen::List(Topic::Targets), place));
    assert_eq!(other.outbox, [Effect::Look(Topic::Targets)], "its rows are asked for");
    let hosts = &other.hosts.table;
    assert_eq!((hosts.filter.text(), hosts.column, hosts.descending), ("phase:failed", 1, true));
    assert!(hosts.wide && !other.runs.table.wide);
}

#[test]
fn inside_a_run_the_place_is_the_table_around_it() {
    let mut console = site();
    console.press("2 enter");
    assert_eq!(console.state.screen, Screen::Run);
    assert_eq!(console.state.place().screen, "runs");
}

/// Another console, which was told where a console was that ended inside a run's log; nothing is listed yet.
fn resumed(keys: &str) -> (Console, Place) {
    let mut before = site();
    before.press(&format!("{keys} enter l l"));
    let place = before.state.place();
    let mut console = Console::empty();
    console.state.restore(&place);
    (console, place)
}

fn list(console: &mut Console, runs: Vec<Run>) -> Vec<Effect> {
    console.send(Msg::Runs(RunsMsg::Reset));
    let effects = console.send(Msg::Runs(RunsMsg::Batch(runs)));
    console.send(Msg::Runs(RunsMsg::Listed));
    effects
}

#[test]
fn inside_a_run_it_comes_back_when_the_run_is_listed_and_forgets_nothing_until_then() {
    for (keys, from) in [("G", Screen::Hosts), ("2 G", Screen::Runs)] {
        let (mut console, place) = resumed(keys);
        let open = place.run.clone().unwrap();
        assert_eq!((open.pane.as_str(), open.zoom, console.state.screen), ("log", true, from));
        // Whoever ends before there is a list leaves the same behind.
        assert_eq!(console.state.place(), place);
        console.press("? esc");
        assert_eq!(console.state.place().run.as_ref(), Some(&open), "help is no other place");

        let runs: Vec<Run> = site().state.store.runs().map(|(_, run)| run.clone()).collect();
        let effects = list(&mut console, runs);
        let follows = |effect: &Effect| matches!(effect, Effect::Follow { run } if run.uid == open.uid);
        assert!(effects.iter().any(follows), "{effects:?}");
        let run = console.state.run.as_ref().unwrap();
        assert_eq!((console.state.screen, run.focus, run.zoom), (Screen::Run, Pane::Log, true));
        assert_eq!(console.state.place(), place);
        console.press("esc esc");
        let row = console.state.current().map(|run| run.uid.clone());
        assert_eq!((console.state.screen, row), (from, Some(open.uid)), "the way back leads to its row");
    }
}

#[test]
fn a_run_that_is_gone_is_told_in_one_line_and_an_operator_who_goes_on_is_not_taken_away() {
    let (mut console, place) = resumed("G");
    let name = place.run.unwrap().name;
    list(&mut console, vec![run("other.org", Phase::Ready)]);
    assert_eq!((console.state.screen, console.state.place().run), (Screen::Hosts, None));
    let said = console.state.notice.as_ref().unwrap().text.clone();
    assert!(!name.is_empty() && said.starts_with(&name) && said.ends_with("is gone"), "{said}");

    for keys in ["2", "/", "j"] {
        let (mut console, _) = resumed("G");
        console.press(keys);
        let runs: Vec<Run> = site().state.store.runs().map(|(_, run)| run.clone()).collect();
        list(&mut console, runs);
        assert_ne!(console.state.screen, Screen::Run, "{keys}");
    }
    for (screen, filter) in [(Some(Screen::Runs), None), (None, Some("web".to_owned()))] {
        let (mut console, _) = resumed("G");
        console.send(Msg::Start { screen, filter });
        assert_eq!(console.state.place().run, None, "what the command line says counts");
    }
    let (mut console, place) = resumed("G");
    console.send(Msg::Start { screen: None, filter: None });
    assert_eq!(console.state.place(), place);
}

#[test]
fn a_broken_run_is_none() {
    let mut console = site();
    let sound = RunPlace { uid: "3f2a".into(), name: "provision-a-1".into(), pane: "log".into(), zoom: true };
    let kept = |console: &mut Console, run: RunPlace| {
        console.state.restore(&Place { run: Some(run), ..Place::default() });
        console.state.place().run.is_some()
    };
    for broken in [
        RunPlace { uid: String::new(), ..sound.clone() },
        RunPlace { uid: "u".repeat(65), ..sound.clone() },
        RunPlace { uid: "a\u{1b}[2J".into(), ..sound.clone() },
        RunPlace { uid: "a b".into(), ..sound.clone() },
        RunPlace { name: "../../etc".into(), ..sound.clone() },
        RunPlace { name: "n".repeat(64), ..sound.clone() },
    ] {
        assert!(!kept(&mut console, broken.clone()), "{broken:?}");
    }
    assert!(
        kept(&mut console, RunPlace { pane: "moon".into(), ..sound.clone() }),
        "a pane of another version"
    );
    assert!(kept(&mut console, sound));
}

#[test]
fn what_is_not_understood_is_left_alone() {
    let console = site();
    let mut other = fresh(&console);
    let before = other.place();
    let table = |filter: &str, column: &str| TablePlace {
        filter: filter.into(),
        column: column.into(),
        descending: true,
        wide: true,
    };
    let tables = [("hosts".into(), table("a\u{1b}[2Jb", "shoe size")), ("moons".into(), table("x", "x"))];
    // Wide columns are understood whatever else is not.
    let mut before = before;
    before.tables.get_mut("hosts").unwrap().wide = true;
    other.restore(&Place { screen: "moons".into(), tables: tables.into(), run: None });
    assert_eq!(other.place(), before);
    assert_eq!(serde_json::from_str::<Place>("{\"later\": 1}").unwrap(), Place::default());
}

#[test]
fn the_command_line_says_where_to_start() {
    let start = |screen, filter: Option<&str>| {
        let mut console = site();
        console.state.restore(&Place { screen: "tokens".into(), ..Place::default() });
        let effects = console.send(Msg::Start { screen, filter: filter.map(str::to_owned) });
        (console, effects)
    };
    let (console, effects) = start(Some(Screen::Runs), Some("phase:failed"));
    assert_eq!(
        (console.state.screen, console.state.runs.table.filter.text()),
        (Screen::Runs, "phase:failed")
    );
    assert_eq!(effects.last(), Some(&Effect::LookAway));
    let (console, _) = start(None, Some("web"));
    assert_eq!((console.state.screen, console.state.hosts.table.filter.text()), (Screen::Hosts, "web"));
    let (console, _) = start(None, None);
    assert_eq!(console.state.screen, Screen::List(Topic::Tokens));
}

#[test]
fn tabs_have_names_of_their_own() {
    let names: Vec<_> = Screen::tabs().map(Screen::name).collect();
    assert_eq!(names, ["hosts", "runs", "targets", "secrets", "tokens", "queue", "activity"]);
    assert!(Screen::tabs().all(|screen| Screen::named(screen.name()) == Some(screen)));
    assert_eq!(Screen::named("run"), None);
}
