//! Opening things: runs, questions, texts.

use super::dialog::{Button, Confirm, Dialog, Intent, Subject, Typed, Verb};
use super::effect::{Effect, EffectId, RunRef};
use super::flight;
use super::form::Form;
use super::notice::Level;
use super::permit;
use super::screens::Screen;
use super::screens::run::{Pane, RunScreen};
use super::state::State;
use super::{approvals, describe, secrets};
use crate::config::Risk;
use crate::domain::{Parameters, Phase, Run};

/// So many hosts are named in a question about several.
const NAMED: usize = 8;

/// What it means to forget a host.
const FORGOTTEN: &str =
    "All its runs are deleted, with their logs. A host that calls again is new, and pending.";

/// How an effect names a run.
pub(super) fn run_ref(run: &Run) -> RunRef {
    RunRef { uid: run.uid.clone(), name: run.name.clone(), host: run.host.clone() }
}

/// Another screen, with the way back.
pub(super) fn go(state: &mut State, screen: Screen) {
    if state.screen == screen {
        return;
    }
    if state.screen == Screen::Run {
        leave_run(state);
    }
    state.stack.retain(|s| *s != screen);
    // What differs is read anew each time.
    if state.screen != Screen::Differences {
        state.stack.push(state.screen);
    }
    enter(state, screen);
}

/// The screen before this one. Returns whether there was one.
pub(super) fn back(state: &mut State) -> bool {
    let Some(screen) = state.stack.pop() else { return false };
    if state.screen == Screen::Run {
        leave_run(state);
    }
    let screen = if screen == Screen::Run && state.run.is_none() { Screen::Hosts } else { screen };
    enter(state, screen);
    true
}

fn enter(state: &mut State, screen: Screen) {
    let looked = matches!(state.screen, Screen::List(_) | Screen::Secrets);
    if state.screen == Screen::Differences {
        secrets::act::leave_differences(state);
    }
    state.screen = screen;
    match screen {
        Screen::List(topic) => state.outbox.push(Effect::Look(topic)),
        Screen::Secrets => state.outbox.push(Effect::LookSecrets),
        _ if looked => state.outbox.push(Effect::LookAway),
        _ => {}
    }
    if let Some(table) = state.table_mut() {
        table.rearrange();
    }
    state.touch();
}

fn leave_run(state: &mut State) {
    state.stack.retain(|s| *s != Screen::Run);
    if let Some(run) = state.run.take() {
        state.store.forget_log(&run.uid);
        flight::start(state, Effect::Unfollow { run: run.uid });
    }
    state.touch();
}

/// Opens a run: follows its log and results, fetches the whole of it.
pub(super) fn open_run(state: &mut State, uid: &str) {
    let Some(found) = state.store.run(uid) else { return };
    let (run, nothing_ran) = (run_ref(found), matches!(found.phase, Phase::Pending | Phase::Rejected));
    if state.screen == Screen::Run {
        return;
    }
    state.store.forget_log(&run.uid);
    let mut screen = RunScreen::new(run.uid.clone());
    if nothing_ran {
        // There is no task and no log to look at: the run's own page is what there is.
        screen.focus = Pane::Result;
    }
    state.run = Some(screen);
    let from = state.screen;
    enter(state, Screen::Run);
    state.stack.push(from);
    fetch_details(state, uid);
    flight::start(state, Effect::Follow { run });
}

/// Fetches the whole run unless it is known as it is.
pub(super) fn fetch_details(state: &mut State, uid: &str) {
    let Some(run) = state.store.run(uid) else { return };
    let known = state.store.details(uid);
    if known.is_some_and(|d| d.run.digest == run.digest && d.run.decision == run.decision) {
        return;
    }
    let run = run_ref(run);
    flight::start(state, Effect::OpenRun { id: EffectId(0), run });
}

/// Asks before a deed on runs, or does it at once when it has no risk. What cannot be done is said.
pub(super) fn ask(state: &mut State, verb: Verb, uids: &[String]) {
    let mut subjects = Vec::new();
    let mut refused = Vec::new();
    for uid in uids {
        let Some(run) = state.store.run(uid) else { continue };
        match permit::refusal(state, verb, run) {
            Some(reason) => refused.push((uid.clone(), reason)),
            None => {
                let run = permit::addressed(state, verb, run);
                let subject = Subject { run: run_ref(run), digest: run.digest.clone() };
                if !subjects.contains(&subject) {
                    subjects.push(subject);
                }
            }
        }
    }
    if subjects.is_empty() {
        let reason = match refused.into_iter().next() {
            Some((_, reason)) => reason,
            None => "it is gone meanwhile".to_owned(),
        };
        state.say(Level::Warning, reason, "");
        return;
    }
    if verb.action().info().risk == Risk::None {
        flight::perform(state, verb, subjects, None);
        return;
    }
    let left_out = refused.len();
    let dialog = question(state, verb, subjects, left_out);
    state.dialogs.push(Dialog::Confirm(Box::new(dialog)));
    state.touch();
}

fn question(state: &State, verb: Verb, subjects: Vec<Subject>, left_out: usize) -> Confirm {
    let label = verb.action().info().label.to_owned();
    let key = if verb == Verb::Check { 'c' } else { 'y' };
    let mut buttons = vec![Button { label, key, intent: Some(Intent::Do(verb, subjects.clone())) }];
    if verb == Verb::Approve {
        let check = Intent::Do(Verb::Check, subjects.clone());
        buttons.insert(0, Button { label: "check first".to_owned(), key: 'c', intent: Some(check) });
        if subjects.len() == 1 {
            buttons.insert(1, Button { label: "change".to_owned(), key: 'e', intent: Some(Intent::Edit) });
        }
    }
    let what = match subjects.as_slice() {
        [one] if verb == Verb::Stop => one.run.name.clone(),
        [one] => one.run.host.to_string(),
        several => format!("{} hosts", several.len()),
    };
    let mut confirm = Confirm::new(format!("{} {what}", verb.title()), buttons, "cancel");
    match subjects.as_slice() {
        [one] => describe_one(state, verb, one, &mut confirm),
        several => describe_several(state, verb, several, &mut confirm),
    }
    if verb == Verb::Approve {
        confirm.notes.extend(approvals::doubt(state));
    }
    if left_out > 0 {
        confirm.notes.push(format!("{left_out} of the marked rows cannot be: they are left out."));
    }
    if verb.action().info().risk == Risk::Typed && state.environment.guarded {
        let expected = state.environment.name.clone();
        confirm.typed = Some(Typed { expected, input: super::edit::LineEdit::default() });
    }
    confirm.subjects = subjects;
    confirm
}

fn describe_one(state: &State, verb: Verb, subject: &Subject, confirm: &mut Confirm) {
    let environment = &state.environment;
    let Some(run) = state.store.run(&subject.run.uid) else { return };
    let none = "none".to_owned();
    match verb {
        Verb::Approve => {
            confirm.fields = vec![
                ("playbook".to_owned(), environment.playbook.clone()),
                ("branch".to_owned(), branch(state, run)),
                (
                    "groups".to_owned(),
                    if run.groups.is_empty() { none.clone() } else { run.groups.join(" ") },
                ),
                ("address".to_owned(), run.address.map_or(none, |a| a.to_string())),
            ];
            confirm.warnings = describe::unusual(&state.store, environment, run);
            let mut note = format!("Runs on {}.", environment.name);
            if confirm.warnings.is_empty() {
                note = format!("{note} {}", describe::key_note(&state.store, run));
            }
            confirm.notes.push(note);
        }
        Verb::Reject => {
            confirm.notes.push(
                "This announcement never starts. When the host calls again it is pending again.".to_owned(),
            );
        }
        Verb::Retry => {
            confirm.notes.push(describe::why(run, state.now, environment));
            confirm.notes.push(format!("The same playbook runs again on {}.", environment.name));
            confirm.warnings = describe::unusual(&state.store, environment, run);
        }
        Verb::Stop => {
            confirm.notes.push(format!(
                "{} is {}: its pod is ended in the middle of what it does.",
                run.host, run.phase
            ));
        }
        Verb::Forget => {
            confirm.notes.push(FORGOTTEN.to_owned());
        }
        Verb::Check => {}
    }
}

fn branch(state: &State, run: &Run) -> String {
    let branch = run.branch.as_deref().or(state.environment.branch.as_deref());
    branch.unwrap_or("the repository's default").to_owned()
}

fn describe_several(state: &State, verb: Verb, subjects: &[Subject], confirm: &mut Confirm) {
    let names: Vec<&str> = subjects.iter().take(NAMED).map(|s| s.run.host.as_str()).collect();
    for name in names {
        confirm.fields.push((String::new(), name.to_owned()));
    }
    if subjects.len() > NAMED {
        confirm.fields.push((String::new(), format!("and {} more", subjects.len() - NAMED)));
    }
    if verb == Verb::Forget {
        confirm.notes.push(FORGOTTEN.to_owned());
    }
    if verb == Verb::Approve {
        let (name, playbook) = (&state.environment.name, &state.environment.playbook);
        confirm.notes.push(format!("{playbook} runs on {name}, on each with its own branch and groups."));
        for subject in subjects {
            if let Some(run) = state.store.run(&subject.run.uid) {
                let notes = describe::unusual(&state.store, &state.environment, run);
                confirm.warnings.extend(notes.into_iter().map(|note| format!("{}: {note}", run.host)));
            }
        }
    }
}

/// Other parameters than the usual ones for the one run that is asked about.
pub(super) fn edit(state: &mut State, confirm: &Confirm) {
    let [subject] = confirm.subjects.as_slice() else { return };
    let Some(run) = state.store.run(&subject.run.uid) else { return };
    let usual = Parameters {
        playbook: state.environment.playbook.clone(),
        branch: run.branch.clone().or_else(|| state.environment.branch.clone()),
        groups: run.groups.clone(),
        ..Parameters::default()
    };
    let mut changed = Form::approve(confirm.title.clone(), confirm.subjects.clone(), &usual);
    changed.warnings.clone_from(&confirm.warnings);
    form(state, changed);
}

/// A form.
pub(super) fn form(state: &mut State, form: Form) {
    state.dialogs.push(Dialog::Form(Box::new(form)));
    state.touch();
}

/// Another environment; asks while something is in flight here.
pub(super) fn switch(state: &mut State, name: &str) {
    if state.in_flight.iter().any(|f| f.effect.changes()) {
        ask_leave(state, format!("Leave for {name}"), "leave", Intent::Switch(name.to_owned()));
    } else {
        state.outbox.push(Effect::Switch(name.to_owned()));
    }
}

/// Asks whether to end the console.
pub(super) fn ask_quit(state: &mut State) {
    ask_leave(state, "Quit".to_owned(), "quit", Intent::Quit);
}

fn ask_leave(state: &mut State, title: String, label: &str, intent: Intent) {
    let flights: Vec<String> =
        state.in_flight.iter().filter(|f| f.effect.changes()).map(|f| f.effect.doing()).collect();
    let buttons = vec![Button { label: label.to_owned(), key: 'y', intent: Some(intent) }];
    let mut confirm = Confirm::new(title, buttons, "stay");
    if flights.is_empty() {
        confirm.notes.push("Runs go on without the console.".to_owned());
    } else {
        confirm
            .warnings
            .push(format!("Under way: {}. Whether it is done will not be seen here.", flights.join(", ")));
    }
    state.dialogs.push(Dialog::Confirm(Box::new(confirm)));
    state.touch();
}
