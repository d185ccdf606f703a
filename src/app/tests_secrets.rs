//! The secrets, the versions of one, and what differs: keys in, effects out.

use super::*;
use crate::app::sample::{bucket, secret};
use crate::app::screens::secrets::Node;
use crate::app::secrets::{Back, SecretDeed, SecretRef, SecretsDone, Sides, Transfer};
use crate::domain::kube_auth::{Names, NewRule, NewToken};
use crate::domain::secret::tree::file_id;
use crate::domain::secret::{
    Compared, Difference, Encryption, FileState, Format, SecretListing, SecretRow, SecretVersion, Setting,
    Values, diff,
};

/// Secrets of every kind, in two folders and none.
pub(crate) fn rows() -> Vec<SecretRow> {
    use FileState as F;
    let mut rows = vec![
        secret("common/motd", F::Same),
        secret("common/ntp.yaml", F::ChangedHere),
        secret("secure/auth/abac.jsonl", F::Both),
        secret("secure/auth/tokens.csv", F::ChangedThere),
        secret("secure/ca.crt", F::Same),
        secret("locked/root.key", F::OnlyThere),
        secret("manifests/dns.yaml", F::OnlyHere),
        secret("addons/old.yaml", F::RemovedHere),
        secret("addons//odd", F::OnlyThere),
    ];
    rows[4].expires = Some(now() + SignedDuration::from_hours(20 * 24));
    rows[5].encryption = Encryption::OtherKey("alias/old".into());
    rows[8].problem = Some("it has two slashes, one after the other".into());
    rows
}

pub(crate) fn listing(rows: Vec<SecretRow>) -> Msg {
    Msg::Secrets(Ok(Box::new(SecretListing { facts: bucket(), rows, incomplete: None })))
}

pub(crate) fn versions() -> Vec<SecretVersion> {
    let version = |id: &str, days: i64, size, newest, here| SecretVersion {
        id: id.into(),
        modified: Some(ago(days * 86_400)),
        size,
        newest,
        here,
    };
    vec![
        version("3HL4kqtJvjVBH40Nrjfkd", 1, Some(120), true, false),
        version("3HL4kqCxf3vjVBH40Nrjf", 3, Some(110), false, true),
        version("QUpfdndhfd8438MNFDN93", 9, None, false, false),
        version("UIORUnfndfiufdisojhr3", 12, Some(90), false, false),
    ]
}

pub(crate) fn compared(values: Values) -> Compared {
    let (old, new) = (b"server: a\npassword: one\n", b"server: a\npassword: hunter2\n");
    let difference = diff(Some(old), Some(new), Format::Yaml, values);
    Compared::Two { from: "in the bucket".into(), to: "here".into(), difference }
}

fn console() -> Console {
    let mut console = site();
    assert_eq!(console.press("4"), [Effect::LookSecrets]);
    console.send(listing(rows()));
    console
}

/// With the cursor on this secret.
fn on(key: &str) -> Console {
    let mut console = console();
    let id = crate::domain::secret::tree::file_id(key);
    console.press("/");
    console.send(Msg::Paste(key.to_owned()));
    console.press("enter");
    console.seen();
    console.state.table_mut().unwrap().select(&id);
    assert_eq!(console.state.table().unwrap().cursor(), Some(&*id));
    console.seen();
    console
}

/// With the cursor on each row of the tree.
pub(super) fn stages() -> Vec<Console> {
    let count = {
        let mut console = console();
        console.seen();
        console.state.table().unwrap().rows().len()
    };
    let at = |down: usize| {
        let mut console = console();
        console.press(&"j ".repeat(down));
        console
    };
    let mut refused = console();
    let problem = Problem::new("bucket", ProblemKind::NotAuthenticated, "the MFA device has to say its code");
    refused.send(Msg::Secrets(Err(problem)));
    (0..count).map(at).chain([refused]).collect()
}

fn deed(effects: &[Effect]) -> &SecretDeed {
    let found = effects.iter().find_map(|effect| match effect {
        Effect::Secret { deed, .. } => Some(deed),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no deed: {effects:?}"))
}

fn keys(deed: &SecretDeed) -> Vec<&str> {
    match deed {
        SecretDeed::Fetch { secrets, .. }
        | SecretDeed::Upload { secrets, .. }
        | SecretDeed::Remove(secrets) => secrets.iter().map(|secret| secret.key.as_str()).collect(),
        other => panic!("{other:?}"),
    }
}

fn page_of(key: &str, keys: &str) -> (Console, Vec<Effect>) {
    let mut console = on(key);
    let effects = console.press(keys);
    (console, effects)
}

pub(super) fn version_stages() -> Vec<Console> {
    let at = |down: usize| {
        let (mut console, effects) = page_of("secure/auth/tokens.csv", "H");
        let read = effects.iter().find(|effect| effect.id().is_some()).unwrap();
        console.answer(read, Ok(Answer::Versions(versions())));
        console.press(&"j ".repeat(down));
        console
    };
    (0..versions().len()).map(at).collect()
}

pub(super) fn difference_stages() -> Vec<Console> {
    let of = |key: &str, search: &str| {
        let (mut console, effects) = page_of(key, "d");
        let read = effects.iter().find(|effect| effect.id().is_some()).unwrap();
        let Compared::Two { from, to, difference: Difference::Text { mut lines } } = compared(Values::Hidden)
        else {
            panic!("no lines")
        };
        let more = lines.clone();
        lines.extend(more.iter().cycle().take(60).cloned());
        let compared = Compared::Two { from, to, difference: Difference::Text { lines } };
        console.answer(read, Ok(Answer::Compared(Box::new(compared))));
        console.press(search);
        console
    };
    vec![
        of("common/ntp.yaml", "/ s e r v e r enter"),
        of("secure/auth/tokens.csv", ""),
        of("secure/auth/abac.jsonl", "j j j"),
    ]
}

#[test]
fn what_is_safe_is_fetched_at_once_and_what_loses_something_is_asked_for() {
    let (_, effects) = page_of("secure/auth/tokens.csv", "f");
    let SecretDeed::Fetch { secrets, over: false } = deed(&effects) else { panic!("{effects:?}") };
    let etag = Some("\"secure/auth/tokens.csv\"".to_owned());
    assert_eq!(*secrets, [SecretRef { key: "secure/auth/tokens.csv".into(), etag }], "as it was seen");

    let (mut console, effects) = page_of("secure/auth/abac.jsonl", "f");
    assert_eq!(effects, []);
    let Some(Dialog::Confirm(confirm)) = console.state.dialogs.last() else { panic!("nothing is asked") };
    assert_eq!(confirm.warnings, ["What was changed in your file is lost."]);
    assert_eq!(console.press("enter"), [], "the safe answer has the focus");
    console.press("f");
    assert!(matches!(deed(&console.press("y")), SecretDeed::Fetch { over: true, .. }));

    let (console, effects) = page_of("common/motd", "f");
    assert_eq!(effects, []);
    assert_eq!(console.notice(), "common/motd is the same here and in the bucket");
}

#[test]
fn an_upload_is_asked_for_and_says_what_it_replaces() {
    let (mut console, effects) = page_of("common/ntp.yaml", "u");
    assert_eq!(effects, []);
    let Some(Dialog::Confirm(confirm)) = console.state.dialogs.last() else { panic!("nothing is asked") };
    assert_eq!((confirm.warnings.len(), confirm.notes.len()), (0, 2));
    let effects = console.press("C");
    let said = "hostwright -e staging secrets upload common/ntp.yaml".to_owned();
    assert!(matches!(&effects[0], Effect::Copy { text, .. } if *text == said), "{effects:?}");
    assert!(matches!(deed(&console.press("y")), SecretDeed::Upload { over: false, .. }));

    let (mut console, _) = page_of("secure/auth/abac.jsonl", "u");
    let Some(Dialog::Confirm(confirm)) = console.state.dialogs.last() else { panic!("nothing is asked") };
    assert!(confirm.warnings[0].contains("is replaced by your file"));
    assert!(matches!(deed(&console.press("y")), SecretDeed::Upload { over: true, .. }));

    let (console, _) = page_of("secure/auth/tokens.csv", "u");
    assert!(console.notice().contains("fetch it"), "{}", console.notice());
}

#[test]
fn a_bucket_without_versions_is_warned_of() {
    let mut facts = bucket();
    facts.versioning = Setting::Bad("versioning is off".into());
    let (mut console, _) = page_of("common/motd", "");
    console.send(Msg::Secrets(Ok(Box::new(SecretListing { facts, rows: rows(), incomplete: None }))));
    console.press("x");
    let Some(Dialog::Confirm(confirm)) = console.state.dialogs.last() else { panic!("nothing is asked") };
    assert!(confirm.warnings[0].contains("nothing brings it back"), "{confirm:?}");
}

#[test]
fn a_folder_and_marks_stand_for_the_files_in_them() {
    let mut console = console();
    let effects = console.press("j j j f");
    // The cursor is on compute or secure, whichever is there: the third area.
    let Some(Node::Folder(path, _)) = console.state.secrets.current() else { panic!("no folder") };
    assert_eq!((path, keys(deed(&effects))), ("secure/", vec!["secure/auth/tokens.csv"]));
    assert!(console.notice().contains("left out"), "{}", console.notice());

    console.press("space");
    assert_eq!(console.state.table().unwrap().marks().len(), 3);
    console.press("*");
    assert_eq!(console.state.table().unwrap().marks().len(), rows().len() - 3);
    let effects = console.press("u y");
    assert_eq!(keys(deed(&effects)), ["common/ntp.yaml", "manifests/dns.yaml"]);
    console.press("esc");
    assert!(console.state.table().unwrap().marks().is_empty());
}

#[test]
fn marks_stay_on_what_failed_and_each_says_why() {
    let mut console = console();
    console.press("*");
    let effects = console.press("f");
    let fetched = effects.iter().find(|effect| effect.id().is_some()).unwrap();
    assert_eq!(keys(deed(&effects)), ["addons/old.yaml", "locked/root.key", "secure/auth/tokens.csv"]);
    let transfer = Transfer { files: 1, of_files: 3, bytes: 10, of_bytes: 30 };
    console.send(Msg::Transfer { id: fetched.id().unwrap(), transfer });
    assert_eq!(console.state.in_flight[0].progress, "1 of 3 files, 10 B of 30 B");
    let before = console.state.table().unwrap().marks().len();
    let problem =
        Problem::new("locked/root.key", ProblemKind::Forbidden, "the key may not be used").advise("Ask.");
    let outcomes = vec![
        ("addons/old.yaml".to_owned(), Ok("fetched".to_owned())),
        ("locked/root.key".to_owned(), Err(problem)),
    ];
    let effects = console.answer(fetched, Ok(Answer::Secrets(SecretsDone { outcomes, cancelled: true })));
    assert!(effects.contains(&Effect::LookSecrets), "{effects:?}");
    assert_eq!(console.notice(), "Fetch: 1 done, 1 failed, the rest was cancelled");
    assert_eq!(console.state.table().unwrap().marks().len(), before - 1);
    assert_eq!(console.state.secrets.outcome("addons/old.yaml"), Some(&Ok("fetched".to_owned())));
    console.press("w");
    let Some(Dialog::Text(text)) = console.state.dialogs.last() else { panic!("no why") };
    assert!(text.copy.contains("locked/root.key: the key may not be used: Ask."), "{}", text.copy);
}

#[test]
fn a_transfer_is_cancelled_with_the_key_that_cancels() {
    let (mut console, effects) = page_of("secure/auth/tokens.csv", "f");
    let id = effects.iter().find_map(Effect::id).unwrap();
    assert_eq!(console.press("f"), [], "not twice");
    assert!(console.notice().contains("is under way"), "{}", console.notice());
    assert_eq!(console.press("ctrl-c"), [Effect::Cancel(id)]);
}

#[test]
fn folders_open_and_close_and_leaving_a_file_leads_to_its_folder() {
    let mut console = on("secure/auth/tokens.csv");
    console.press("esc");
    console.seen();
    let at = |console: &mut Console| {
        console.seen();
        console.state.table().unwrap().cursor().unwrap().to_owned()
    };
    console.press("h");
    assert_eq!(at(&mut console), "d:secure/auth/");
    console.press("h h h");
    assert_eq!(at(&mut console), "d:secure/");
    let closed = console.state.table().unwrap().rows().len();
    console.press("enter");
    console.seen();
    assert!(console.state.table().unwrap().rows().len() > closed);
    console.press("h right j enter");
    assert_eq!(at(&mut console), "d:secure/auth/");
}

#[test]
fn a_filter_counts_files_and_finds_them_in_closed_folders() {
    for (filter, found) in [
        ("state:changed", 2),
        ("state:both", 1),
        ("area:secure", 3),
        ("key:other", 1),
        ("kind:pem", 2),
        ("!yaml", 6),
        ("age:>1d", 9),
        ("tokens", 1),
    ] {
        let mut console = console();
        console.press("h /");
        console.send(Msg::Paste(filter.to_owned()));
        console.press("enter");
        console.seen();
        let table = console.state.table().unwrap();
        assert_eq!((table.total(), table.total() - table.hidden()), (9, found), "{filter}");
        let files = table.rows().iter().filter(|row| row.key.starts_with("f:")).count();
        assert_eq!(files, found, "{filter}");
    }
}

#[test]
fn the_versions_are_read_and_one_becomes_the_newest() {
    let (mut console, effects) = page_of("secure/auth/tokens.csv", "H");
    assert_eq!(*deed(&effects), SecretDeed::History("secure/auth/tokens.csv".into()));
    assert_eq!(console.state.screen, Screen::Versions);
    let read = effects.iter().find(|effect| effect.id().is_some()).unwrap();
    console.answer(read, Ok(Answer::Versions(versions())));
    assert_eq!(console.press("r"), []);
    assert_eq!(console.notice(), "this is what the bucket has");
    console.press("j r");
    let effects = console.press("y");
    let (key, version) = ("secure/auth/tokens.csv".to_owned(), versions()[1].id.clone());
    assert_eq!(*deed(&effects), SecretDeed::Restore { key: key.clone(), version });
    let again = console.answer(&effects[0], Ok(Answer::Done("restored".into())));
    assert_eq!(*deed(&again), SecretDeed::History(key), "what is shown is read again");
    console.press("j r");
    assert!(console.notice().contains("restore the one before it"), "{}", console.notice());
    let effects = console.press("j d");
    let sides = Sides::Version(versions()[3].id.clone());
    assert!(matches!(deed(&effects), SecretDeed::Compare { sides: s, values: false, .. } if *s == sides));
    console.press("esc");
    assert_eq!(console.state.screen, Screen::Versions);
    console.press("esc");
    assert_eq!(console.state.screen, Screen::Secrets);
}

#[test]
fn values_are_read_when_they_are_asked_for_and_forgotten_when_they_are_hidden() {
    let (mut console, effects) = page_of("common/ntp.yaml", "d");
    assert!(matches!(deed(&effects), SecretDeed::Compare { values: false, sides: Sides::Here, .. }));
    let read = effects.iter().find(|effect| effect.id().is_some()).unwrap();
    console.answer(read, Ok(Answer::Compared(Box::new(compared(Values::Hidden)))));
    let shown = |console: &Console| format!("{:?}", console.state);
    assert!(!shown(&console).contains("hunter2"));
    let effects = console.press("v");
    assert!(matches!(deed(&effects), SecretDeed::Compare { values: true, .. }));
    console.answer(&effects[0], Ok(Answer::Compared(Box::new(compared(Values::Shown)))));
    assert!(shown(&console).contains("+password: hunter2"));
    let late = console.press("v");
    assert!(!shown(&console).contains("hunter2"), "hidden at once");
    console.press("esc");
    console.answer(&late[0], Ok(Answer::Compared(Box::new(compared(Values::Shown)))));
    assert!(!shown(&console).contains("hunter2"), "nobody looks any more");
    let again = console.press("d");
    assert!(matches!(deed(&again), SecretDeed::Compare { values: false, .. }), "hidden again each time");
}

#[test]
fn a_conflict_is_decided_where_it_is_seen() {
    for (keys, over) in [("f", "fetch"), ("u", "upload")] {
        let (mut console, effects) = page_of("secure/auth/abac.jsonl", "d");
        let read = effects.iter().find(|effect| effect.id().is_some()).unwrap();
        console.answer(read, Ok(Answer::Compared(Box::new(compared(Values::Hidden)))));
        console.press(keys);
        let effects = console.press("y");
        match deed(&effects) {
            SecretDeed::Fetch { over: true, .. } => assert_eq!(over, "fetch"),
            SecretDeed::Upload { over: true, .. } => assert_eq!(over, "upload"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_text_that_is_wrong_is_opened_again_or_thrown_away() {
    let (mut console, effects) = page_of("secure/auth/tokens.csv", "e");
    let edit = effects.iter().find(|effect| effect.id().is_some()).unwrap().clone();
    let id = edit.id().unwrap();
    assert!(matches!(deed(&effects), SecretDeed::Edit(secret) if secret.key == "secure/auth/tokens.csv"));
    let back = |why| Msg::EditedBack { id, key: "secure/auth/tokens.csv".into(), why };
    let wrong = || back(Back::Wrong(vec!["line 2: has 2 of them".into()]));
    console.send(wrong());
    assert!(console.state.asks_again(id));
    assert_eq!(console.press("enter"), [Effect::EditAgain(id)]);
    assert!(!console.state.asks_again(id));
    for way in ["esc", "n", "ctrl-c"] {
        console.send(wrong());
        assert_eq!(console.press(way), [], "{way}");
        assert!(!console.state.asks_again(id), "{way}");
    }
    let failed = Problem::new("bucket", ProblemKind::Unreachable, "the bucket does not answer");
    console.send(back(Back::Failed(failed)));
    assert_eq!(console.press("e"), [Effect::EditAgain(id)]);
    console.answer(&edit, Ok(Answer::Done("nothing was uploaded".into())));
    assert!(console.state.in_flight.is_empty());
}

#[test]
fn who_was_slower_sees_what_both_made_of_it_and_decides() {
    let (mut console, effects) = page_of("secure/auth/tokens.csv", "e");
    let id = effects.iter().find_map(Effect::id).unwrap();
    let apart = |values| {
        let shown = if values { Values::Shown } else { Values::Hidden };
        let compared = Box::new(compared(shown));
        let why = Back::Apart { compared, values };
        Msg::EditedBack { id, key: "secure/auth/tokens.csv".into(), why }
    };
    console.send(apart(false));
    let text = |console: &Console| format!("{:?}", console.state.dialogs);
    assert!(text(&console).contains("password: ****") && !text(&console).contains("hunter2"));
    assert_eq!(console.press("esc v"), [Effect::EditShow(id)]);
    assert!(console.state.asks_again(id), "the question stays");
    console.send(apart(true));
    assert!(text(&console).contains("hunter2"));
    assert_eq!(console.press("esc e"), [Effect::EditAgain(id)]);
    assert!(console.state.dialogs.is_empty());
}

#[test]
fn a_line_of_tokens_or_rules_is_given_with_known_names_completed() {
    let mut console = console();
    let names = || Names { users: vec!["olga".into()], groups: vec!["ops".into(), "platform:admins".into()] };
    let at = |console: &mut Console, key: &str| {
        console.press("g");
        let found = (0..40).any(|_| {
            let there = console.seen().subject.as_deref() == Some(&file_id(key));
            if !there {
                console.press("j");
            }
            there
        });
        assert!(found, "{key}");
    };
    at(&mut console, "secure/ca.crt");
    assert_eq!(console.press("a"), []);
    assert!(console.notice().contains("no file of tokens or rules"), "{}", console.notice());

    at(&mut console, "secure/auth/tokens.csv");
    let effects = console.press("a");
    assert_eq!(deed(&effects), &SecretDeed::Names("secure/auth/tokens.csv".into()));
    console.answer(&effects[0], Ok(Answer::Names("secure/auth/tokens.csv".into(), names())));
    let effects = console.press("p a u l enter o right space p l right enter enter enter");
    let new =
        NewToken { user: "paul".into(), uid: None, groups: vec!["ops".into(), "platform:admins".into()] };
    assert_eq!(deed(&effects), &SecretDeed::GrantToken("secure/auth/tokens.csv".into(), new));

    at(&mut console, "secure/auth/abac.jsonl");
    let effects = console.press("a");
    console.answer(&effects[0], Ok(Answer::Names("secure/auth/abac.jsonl".into(), names())));
    assert_eq!(
        console.press("o right enter enter enter enter enter enter enter enter"),
        [],
        "it is about nothing"
    );
    assert!(!console.state.dialogs.is_empty());
    let effects = console.press("down down down p o d s down down down down enter");
    let rule = NewRule { user: Some("olga".into()), resource: Some("pods".into()), ..NewRule::default() };
    assert_eq!(deed(&effects), &SecretDeed::GrantRule("secure/auth/abac.jsonl".into(), rule));
}

#[test]
fn the_manifests_on_the_nodes_are_shown() {
    let mut console = console();
    let effects = console.press("N");
    assert_eq!(deed(&effects), &SecretDeed::Nodes);
    console.answer(&effects[0], Ok(Answer::Nodes(Vec::new())));
    assert!(format!("{:?}", console.state.dialogs).contains("No node has said anything yet"));
}

#[test]
fn a_code_is_given_where_the_credentials_want_one() {
    let mut console = site();
    console.press("4 M");
    assert!(console.state.dialogs.is_empty());
    let problem = Problem::new("bucket", ProblemKind::NotAuthenticated, "the MFA device has to say its code");
    console.send(Msg::Secrets(Err(problem)));
    assert_eq!(console.press("M 1 2 3 enter enter"), []);
    let effects = console.press("up 4 5 6 enter enter");
    let [Effect::GiveCode(code)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((code.reveal(), format!("{code:?}").as_str()), ("123456", "********"));
}

#[test]
fn what_is_listed_stays_while_the_bucket_does_not_answer() {
    let mut console = console();
    let problem = Problem::new("bucket", ProblemKind::Unreachable, "the bucket does not answer");
    console.send(Msg::Secrets(Err(problem.clone())));
    assert_eq!(console.notice(), "the bucket does not answer");
    assert_eq!(console.state.secrets.rows().len(), 9);
    assert!(console.state.secrets.stale_since().is_some());
    console.state.clear_notices();
    console.send(Msg::Secrets(Err(problem)));
    assert_eq!(console.notice(), "", "said once");
    console.send(listing(rows()));
    assert!(console.state.secrets.stale_since().is_none());
}

#[test]
fn the_cursor_stays_on_its_secret_while_others_come() {
    let mut console = on("secure/auth/tokens.csv");
    console.press("esc s");
    console.seen();
    let mut more = rows();
    more.insert(0, secret("common/aaa", FileState::Both));
    more.push(secret("secure/auth/zzz", FileState::Both));
    console.send(listing(more));
    console.seen();
    let table = console.state.table().unwrap();
    assert_eq!(table.cursor(), Some("f:secure/auth/tokens.csv"));
    assert_eq!(&*table.rows()[table.position()].key, "f:secure/auth/tokens.csv");
}
