//! Where the console is: kept, come back to, said by the command line.

use super::*;
use crate::app::{Place, Screen, TablePlace, Topic};

fn fresh(console: &Console) -> State {
    State::new(console.state.environment.clone(), Keymap::default(), now())
}

#[test]
fn another_console_comes_back_to_where_this_one_is() {
    let mut console = site();
    console.press("/");
    console.send(Msg::Paste("phase:failed".into()));
    console.press("enter s S 3");
    let place = console.state.place();
    assert_eq!(place.screen, "targets");

    let text = serde_json::to_string(&place).unwrap();
    let mut other = fresh(&console);
    other.restore(&serde_json::from_str(&text).unwrap());
    assert_eq!((other.screen, other.place()), (Screen::List(Topic::Targets), place));
    assert_eq!(other.outbox, [Effect::Look(Topic::Targets)], "its rows are asked for");
    let hosts = &other.hosts.table;
    assert_eq!((hosts.filter.text(), hosts.column, hosts.descending), ("phase:failed", 1, true));
}

#[test]
fn inside_a_run_the_place_is_the_table_around_it() {
    let mut console = site();
    console.press("2 enter");
    assert_eq!(console.state.screen, Screen::Run);
    assert_eq!(console.state.place().screen, "runs");
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
    };
    let tables = [("hosts".into(), table("a\u{1b}[2Jb", "shoe size")), ("moons".into(), table("x", "x"))];
    other.restore(&Place { screen: "moons".into(), tables: tables.into() });
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
    assert_eq!(names, ["hosts", "runs", "targets", "tokens", "queue", "activity"]);
    assert!(Screen::tabs().all(|screen| Screen::named(screen.name()) == Some(screen)));
    assert_eq!(Screen::named("run"), None);
}
