//! The screens of the topics, and the forms: keys in, effects out.

use super::*;
use crate::app::dialog::Intent;
use crate::app::form::Form;
use crate::domain::activity::{Activity, Ending};
use crate::domain::queue::{DeadLetter, QueueState, RunQueue};
use crate::domain::target::{Target, Unknown};
use crate::domain::{NODE_GROUP, Token};

pub(crate) fn target(address: &str, host: &str) -> Item {
    Item::Target(Target {
        address: address.to_owned(),
        labels: [("host".to_owned(), host.to_owned()), ("site".to_owned(), "lan".to_owned())].into(),
        host: Some(host.to_owned()),
        run: Some(format!("provision-{}-abcdefghij-1", host.replace('.', "-"))),
        guessed: false,
        unknown: None,
    })
}

pub(crate) fn unknown(text: &str) -> Item {
    let unknown = Unknown { text: text.to_owned(), reason: "it is no group of targets" };
    let nothing = Target {
        address: String::new(),
        labels: Default::default(),
        host: None,
        run: None,
        guessed: false,
        unknown: Some(unknown),
    };
    Item::Target(nothing)
}

pub(crate) fn activity(id: &str, who: &str, action: &str, on: &str, minutes: i64) -> Item {
    Item::Activity(Activity {
        id: id.to_owned(),
        at: ago(minutes * 60),
        who: who.to_owned(),
        action: action.to_owned(),
        on: on.to_owned(),
        outcome: if action == "deliver" { Ending::Failed } else { Ending::Done },
        text: format!("{action} of {on}"),
    })
}

fn listed(topic: Topic, items: Vec<Item>) -> Msg {
    Msg::Listed { topic, result: Ok(Fresh { items, note: "a note".to_owned(), warning: false, since: None }) }
}

fn targets() -> Console {
    let mut console = site();
    assert_eq!(console.press("3"), [Effect::Look(Topic::Targets)]);
    console.send(listed(
        Topic::Targets,
        vec![target("a.org:9103", "a.org"), target("b.org:9103", "b.org"), unknown("{odd: true}")],
    ));
    console
}

#[test]
fn rows_are_fetched_while_their_screen_is_shown() {
    let mut console = targets();
    assert_eq!(console.press("8"), [Effect::Look(Topic::Activity)]);
    assert_eq!(console.press("ctrl-r"), [Effect::Look(Topic::Activity)]);
    assert_eq!(console.press("`"), [Effect::Look(Topic::Targets)], "back where it was");
    assert_eq!(console.press("1"), [Effect::LookAway]);
}

#[test]
fn targets_are_added_with_a_form_that_is_checked() {
    let mut console = targets();
    assert_eq!(console.press("a enter enter enter"), [], "an address is needed");
    let Some(Dialog::Form(form)) = console.state.dialogs.last() else { panic!("no form") };
    assert!(form.focus == 0 && form.fields[0].problem.is_some());
    console.press("c . o r g tab");
    console.send(Msg::Paste("site=lan note='two words'".to_owned()));
    let effects = console.press("enter enter");
    let [Effect::Change { change: Change::AddTarget(new), .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!(new.address, "c.org:9103");
    let labels: Vec<_> = new.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(labels, ["host=c.org", "note=two words", "site=lan"]);
    let effects = console.answer(&effects[0], Ok(Answer::Done("c.org:9103 is scraped from now on".into())));
    assert!(effects.contains(&Effect::Look(Topic::Targets)), "the rows are fetched again: {effects:?}");
}

#[test]
fn targets_are_removed_in_bulk_in_one_write_and_stay_marked_where_that_failed() {
    let mut console = targets();
    console.press("j space space");
    assert_eq!(console.state.table().unwrap().marks().len(), 2);
    assert_eq!(console.press("x n"), [], "the safe answer does nothing");
    let effects = console.press("x y");
    let both = vec!["a.org:9103".to_owned(), "b.org:9103".to_owned()];
    let [Effect::Change { change: Change::RemoveTargets(addresses), .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!(*addresses, both);
    console.answer(&effects[0], Err(Problem::new("targets", ProblemKind::Conflict, "changed all the time")));
    assert_eq!(console.state.table().unwrap().marks().len(), 2, "what failed stays marked");
    let effects = console.press("x y");
    console.answer(&effects[0], Ok(Answer::Done("removed 2 targets".to_owned())));
    assert!(console.state.table().unwrap().marks().is_empty());
}

#[test]
fn what_has_an_unknown_form_is_shown_and_nothing_is_done_on_it() {
    let mut console = targets();
    console.press("g");
    assert!(
        matches!(console.state.shown_list().unwrap().current(), Some(Item::Target(t)) if t.unknown.is_some())
    );
    assert_eq!(console.press("x e"), []);
    assert!(console.state.dialogs.is_empty());
    console.press("enter");
    let Some(Dialog::Text(text)) = console.state.dialogs.last() else { panic!("no text") };
    assert_eq!(text.copy, "{odd: true}", "exactly as it is");
}

#[test]
fn labels_are_changed_for_one_and_for_several() {
    let mut console = targets();
    console.press("j e ctrl-u");
    console.send(Msg::Paste("site- rack=7".to_owned()));
    let effects = console.press("enter enter");
    let [Effect::Change { change: Change::LabelTargets(addresses, labels), .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!(addresses, &["a.org:9103".to_owned()]);
    assert_eq!(labels.get("site"), Some(&None));
    assert_eq!(labels.get("rack"), Some(&Some("7".to_owned())));
    assert_eq!(console.press("e ctrl-u enter enter"), [], "nothing to set");
}

#[test]
fn rows_are_filtered_by_label_and_by_who() {
    let mut console = targets();
    console.press("/ l a b e l : h o s t = b enter");
    console.seen();
    assert_eq!(console.state.table().unwrap().rows().len(), 1);
    console.press("8");
    let rows =
        vec![activity("1", "ann", "approve", "run a", 1), activity("2", "ben", "deliver", "run b", 90)];
    console.send(listed(Topic::Activity, rows));
    console.press("/ b y : b e n enter");
    console.seen();
    assert_eq!(console.state.shown_list().unwrap().current().unwrap().key().as_ref(), "2");
    console.press("esc / a g e : < 1 h enter");
    console.seen();
    assert_eq!(console.state.shown_list().unwrap().current().unwrap().key().as_ref(), "1");
}

#[test]
fn rows_that_cannot_be_fetched_stay_and_are_old() {
    let mut console = targets();
    let problem = Problem::new("targets", ProblemKind::Forbidden, "forbidden: needs \"get\" on configmaps");
    console.send(Msg::Listed { topic: Topic::Targets, result: Err(problem) });
    let list = console.state.shown_list().unwrap();
    assert!(list.stale_since().is_some() && list.table.rows().len() == 3);
    assert!(console.state.notice.is_some());
    console.send(listed(Topic::Targets, vec![target("b.org:9103", "b.org")]));
    console.seen();
    let list = console.state.shown_list().unwrap();
    assert!(list.stale_since().is_none() && list.table.rows().len() == 1);
}

#[test]
fn an_approval_can_fix_everything_that_a_run_applies() {
    let mut console = site();
    console.press("a e");
    let Some(Dialog::Form(form)) = console.state.dialogs.last() else { panic!("no form") };
    assert_eq!(form.fields[0].input.text(), "site.yml");
    console.press("tab tab ctrl-u");
    console.send(Msg::Paste("web k8s_worker".to_owned()));
    console.press("tab");
    console.send(Msg::Paste("packages".to_owned()));
    console.press("tab tab");
    console.send(Msg::Paste("replicas=3 motd='hello there'".to_owned()));
    let effects = console.press("enter enter");
    let [Effect::Approve { parameters: Some(parameters), digest, .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert!(!digest.is_empty(), "bound to what was seen");
    assert_eq!(
        (parameters.groups.join(" "), parameters.tags.join(" ")),
        ("web k8s_worker".into(), "packages".into())
    );
    assert_eq!(parameters.variables.get("replicas"), Some(&serde_json::json!(3)));
    assert_eq!(parameters.variables.get("motd"), Some(&serde_json::json!("hello there")));
}

#[test]
fn a_form_says_what_is_wrong_with_which_field() {
    let console = site();
    for (at, text) in
        [(0, "../site.yml"), (0, ""), (1, "-x"), (2, "a;b"), (5, "novalue"), (5, "a='b"), (4, "@hosts")]
    {
        let mut form = Form::approve(
            "Approve".to_owned(),
            Vec::new(),
            &crate::domain::Parameters { playbook: "site.yml".to_owned(), ..Default::default() },
        );
        form.fields[at].input = crate::app::edit::LineEdit::new(text);
        assert_eq!(form.read(&console.state).unwrap_err().0, at, "{text:?}");
    }
}

#[test]
fn a_form_is_left_without_a_trace() {
    let mut console = targets();
    assert_eq!(console.press("a x esc"), []);
    assert_eq!(console.press("a tab tab tab enter"), [], "the way out");
    assert!(console.state.dialogs.is_empty());
    console.press("x");
    assert!(
        !matches!(console.state.dialogs.last(), Some(Dialog::Confirm(c)) if c.buttons[c.focus].intent.as_ref().is_some_and(|i| matches!(i, Intent::Changes(_)))),
        "the safe answer has the focus"
    );
}

pub(crate) fn token(id: &str, expires: Option<i64>, malformed: &[&'static str]) -> Item {
    Item::Token(Token {
        id: id.to_owned(),
        name: format!("bootstrap-token-{id}"),
        uid: format!("uid-{id}"),
        groups: vec![NODE_GROUP.to_owned()],
        usages: vec!["authentication".to_owned(), "signing".to_owned()],
        description: format!("for {id}"),
        expires: expires.map(|minutes| now() + SignedDuration::from_mins(minutes)),
        malformed: malformed.to_vec(),
    })
}

pub(crate) fn letter(id: &str, readable: bool) -> Item {
    Item::Letter(DeadLetter {
        id: id.to_owned(),
        run: None,
        name: readable.then(|| format!("provision-{id}-abcdefghij-1")),
        host: readable.then(|| format!("{id}.org")),
        reason: "unreadable: it is no JSON".to_owned(),
        at: Some(ago(600)),
        size: 312,
        readable,
        message_id: Some(id.to_owned()),
        digest: "0".repeat(64),
    })
}

pub(crate) fn queue(host: &str, messages: u32) -> Item {
    Item::Queue(RunQueue {
        uid: format!("uid-{host}"),
        run: format!("provision-{}-abcdefghij-1", host.replace('.', "-")),
        host: host.parse().unwrap(),
        phase: Phase::Queued,
        queue: format!("hostwright.run.uid-{host}"),
        delivered: Some(ago(60)),
        state: Some(QueueState { messages, consumers: 1 }),
    })
}

fn tokens() -> Console {
    let mut console = site();
    assert_eq!(console.press("5"), [Effect::Look(Topic::Tokens)]);
    let items = vec![
        token("abcdef", Some(30), &[]),
        token("odd", None, &["its id is not 6 lower-case letters and digits"]),
    ];
    console.send(listed(Topic::Tokens, items));
    console
}

#[test]
fn tokens_are_minted_with_a_lifetime_and_shown_once() {
    let mut console = tokens();
    assert_eq!(console.press("a ctrl-u s o o n tab tab tab enter"), [], "a lifetime is needed");
    let effects = console.press("ctrl-u 2 h tab tab r a c k tab enter");
    let [Effect::Change { change: Change::MintToken { lifetime, groups, description }, .. }] =
        effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!(
        (*lifetime, groups.as_slice(), description.as_str()),
        (7200, &[NODE_GROUP.to_owned()][..], "rack")
    );
    let text = "kubeadm join …".to_owned();
    console.answer(&effects[0], Ok(Answer::Text { title: "Token".to_owned(), text: text.clone() }));
    assert!(matches!(console.state.dialogs.last(), Some(Dialog::Text(t)) if t.copy == text));
}

#[test]
fn tokens_are_revoked_joined_with_and_looked_behind() {
    let mut console = tokens();
    console.press("G");
    let effects = console.press("J");
    assert!(
        matches!(effects.as_slice(), [Effect::Fetch { what: Fetch::JoinCommand(id), .. }] if id == "abcdef")
    );
    assert!(matches!(console.press("c").as_slice(), [Effect::Fetch { what: Fetch::Cluster, .. }]));
    assert!(
        matches!(console.press("x y").as_slice(), [Effect::Change { change: Change::RevokeToken(t), .. }] if t.id == "abcdef")
    );
    assert_eq!(console.press("g J"), [], "what is malformed has no join command");
    assert!(
        matches!(console.press("x y").as_slice(), [Effect::Change { change: Change::RevokeToken(t), .. }] if t.id == "odd")
    );
    console.state.environment.guarded = true;
    assert_eq!(console.press("G x y enter"), [], "a guarded environment wants its name");
}

#[test]
fn dead_letters_go_back_or_away_row_by_row() {
    let mut console = site();
    assert_eq!(console.press("6"), [Effect::Look(Topic::Queue)]);
    console.send(listed(Topic::Queue, vec![letter("a", true), letter("b", false), queue("c.org", 1)]));
    assert_eq!(console.press("G r"), [], "a queue is no letter");
    console.press("g *");
    assert_eq!(console.state.table().unwrap().marks().len(), 3);
    let effects = console.press("r y");
    assert!(
        matches!(effects.as_slice(), [Effect::Change { change: Change::Requeue(id, _), .. }] if id == "a"),
        "{effects:?}"
    );
    console.answer(&effects[0], Ok(Answer::Done("back".to_owned())));
    let effects = console.press("x y");
    assert_eq!(effects.len(), 1, "one letter is left marked: {effects:?}");
    console.answer(&effects[0], Err(Problem::new("b", ProblemKind::Unreachable, "the broker is away")));
    console.press("esc *");
    let effects = console.press("x y");
    assert_eq!(effects.len(), 2);
    console.answer(&effects[0], Ok(Answer::Done("gone".to_owned())));
    console.answer(&effects[1], Err(Problem::new("b", ProblemKind::NotFound, "it is gone")));
    let notice = console.state.notice.as_ref().unwrap().text.clone();
    assert!(notice.contains("1 done") && notice.contains("1 failed"), "{notice}");
}

#[test]
fn the_raw_object_is_one_key_away() {
    let mut console = site();
    let effects = console.press("Y");
    let [Effect::Fetch { what: Fetch::Yaml(run), .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(run.name.starts_with("provision-"));
    console.answer(&effects[0], Ok(Answer::Text { title: run.name.clone(), text: "kind: Job\n".to_owned() }));
    assert!(matches!(console.state.dialogs.last(), Some(Dialog::Text(t)) if t.copy == "kind: Job\n"));
}
