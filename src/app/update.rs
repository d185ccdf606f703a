//! How messages change the state: this module only routes.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::dialog::{Dialog, TextKind};
use super::effect::{Effect, EffectId};
use super::items::Topic;
use super::msg::{LogEvent, Msg, RunsMsg};
use super::notice::{Entry, Level};
use super::screens::hosts::Hosts;
use super::screens::list::Fresh;
use super::screens::run::Shown;
use super::screens::runs::Runs;
use super::seen::Seen;
use super::state::State;
use super::{Screen, approvals, describe, flight, input, open, place, rights, secrets, time};
use crate::domain::{BackEnd, Health, Kind, Phase, Problem, Run};

/// The back ends in the order of the header.
pub const BACK_ENDS: [BackEnd; 4] = [BackEnd::Cluster, BackEnd::Queue, BackEnd::Ara, BackEnd::Bucket];

/// How long the cursor rests before what is under it is fetched, in milliseconds.
const REST_MS: i64 = 80;
/// How long what is under it is waited for before the rest is shown without it, in milliseconds.
const DETAILS_MS: i64 = 300;

/// Takes one message in and says what is to be done. `seen` is what the last frame showed: keys refer to that.
pub fn update(state: &mut State, seen: &Seen, now: Timestamp, msg: Msg) -> Vec<Effect> {
    state.now = now;
    match msg {
        Msg::Key(key) => input::key(state, seen, key),
        Msg::Mouse(what, x, y) => input::mouse(state, seen, what, x, y),
        Msg::Paste(text) => input::paste(state, &text),
        Msg::Resize { width, height } => resize(state, width, height),
        Msg::Focus(_) => {}
        Msg::Wake => state.touch(),
        Msg::Runs(news) => runs(state, news),
        Msg::Health(back_end, health) => set_health(state, back_end, health),
        Msg::Log { run, event } => log(state, &run, event),
        Msg::Results { run, results, complete } => {
            state.store.put_results(&run, results, complete);
            if is_open(state, &run) {
                rest(state);
                state.touch();
            }
        }
        Msg::Answer { id, result } => flight::answer(state, id, result),
        Msg::Progress { id, text } => flight::progress(state, id, text),
        Msg::Crashed(text) => {
            state.outbox.push(Effect::WriteLog(format!("a background task panicked: {text}")));
            let advice = "The console goes on; what it did may be missing. The log file has more.";
            state.say(Level::Error, format!("internal error: {text}"), advice);
        }
        Msg::Listed { topic, result } => listed(state, topic, result),
        Msg::Secrets(result) => secrets::act::listed(state, result),
        Msg::Transfer { id, transfer } => secrets::act::transferred(state, id, transfer),
        Msg::EditedBack { id, key, why } => secrets::edited::back(state, id, &key, &why),
        Msg::Note { level, text, advice } => state.say(level, text, advice),
        Msg::Start { screen, filter } => place::start(state, screen, filter.as_deref()),
        Msg::Approvals(standing) => approvals::told(state, standing),
        Msg::Operator(name) => state.environment.operator = name,
        Msg::Rights(new) => rights::put(state, *new),
        Msg::Keys(keymap) => {
            (state.keymap, state.chord) = (*keymap, Vec::new());
            state.touch();
        }
    }
    if state.rest.is_some_and(|at| at <= now) {
        state.rest = None;
        settle(state);
    }
    if state.settling.as_ref().is_some_and(|(_, until)| *until <= now) {
        show_settled(state);
    }
    state.expire_notices();
    std::mem::take(&mut state.outbox)
}

/// Brings what the screens show up to date (sort, filter, ages). Call it right before each draw.
pub fn prepare(state: &mut State, now: Timestamp) {
    state.now = now;
    let touched = state.store.take_touched();
    let settled = state.store.ever_listed();
    let State { store, hosts, runs, scratch, .. } = state;
    arrange(&mut hosts.table, &Hosts(store), &touched.hosts, settled, now, scratch);
    arrange(&mut runs.table, &Runs(store), &touched.runs, settled, now, scratch);
    for list in &mut state.lists {
        list.arrange(now, &mut state.scratch);
    }
    state.secrets.arrange(now, &mut state.scratch);
    if let Some(versions) = &mut state.secrets.versions {
        versions.arrange(now, &mut state.scratch);
    }
    if let Some(screen) = &mut state.run {
        let (store, environment) = (&state.store, &state.environment);
        let run = store.run(&screen.uid);
        let overview = || {
            let page = |run: &Run| describe::overview(store, environment, run, store.details(&run.uid), now);
            run.map(page).unwrap_or_default()
        };
        screen.arrange(store, overview);
    }
    refresh_details(state);
    state.clear_redraw();
}

/// The details of a host stand in a dialog: they may have come meanwhile.
fn refresh_details(state: &mut State) {
    let State { dialogs, store, environment, now, .. } = state;
    let Some(Dialog::Text(text)) = dialogs.last_mut() else { return };
    if let TextKind::Details(uid) = &text.kind
        && let Some(run) = store.run(uid)
    {
        text.doc = describe::overview(store, environment, run, store.details(uid), *now);
    }
}

fn arrange(
    table: &mut super::table::Table,
    source: &impl super::table::Source,
    touched: &HashSet<Arc<str>>,
    settled: bool,
    now: Timestamp,
    scratch: &mut super::filter::Scratch,
) {
    table.arrange(source, touched.iter(), settled, now, scratch);
}

/// The cursor moved: what is under it is looked at when it has rested.
pub(super) fn rest(state: &mut State) {
    state.rest = state.now.checked_add(SignedDuration::from_millis(REST_MS)).ok();
}

/// The details of the row that the cursor rests on have come, or are not waited for any longer.
pub(super) fn show_settled(state: &mut State) {
    if let Some((uid, _)) = state.settling.take() {
        state.settled = Some(uid);
        state.touch();
    }
}

/// The cursor rested.
fn settle(state: &mut State) {
    state.touch();
    match state.screen {
        Screen::List(_) | Screen::Versions | Screen::Differences => {}
        Screen::Secrets => state.secrets.settled = state.secrets.table.cursor().map(str::to_owned),
        Screen::Hosts | Screen::Runs => {
            state.settling = None;
            let uid = state.current().map(|r| r.uid.clone());
            let Some(wanted) = uid.clone().filter(|_| state.details_beside()) else {
                state.settled = uid;
                return;
            };
            open::fetch_details(state, &wanted);
            let until = state.now.checked_add(SignedDuration::from_millis(DETAILS_MS)).unwrap_or(state.now);
            if state.store.details(&wanted).is_some() || state.settled.as_ref() == Some(&wanted) {
                state.settled = uid;
            } else {
                state.settling = Some((wanted, until));
            }
        }
        Screen::Run => {
            let Some(screen) = &mut state.run else { return };
            screen.arrange_tasks(&state.store);
            screen.show();
            let (run, shown) = (screen.uid.clone(), screen.shown);
            if let Shown::Result(result) = shown
                && state.store.result(result).is_none()
            {
                flight::start(state, Effect::FetchResult { id: EffectId(0), run, result });
            }
        }
    }
}

fn resize(state: &mut State, width: u16, height: u16) {
    let beside = state.details_beside();
    state.size = (width, height);
    if state.details_beside() && !beside {
        rest(state);
    }
    state.touch();
}

fn is_open(state: &State, uid: &str) -> bool {
    state.run.as_ref().is_some_and(|r| r.uid == uid)
}

fn runs(state: &mut State, news: RunsMsg) {
    match news {
        RunsMsg::Reset => state.store.reset(),
        RunsMsg::Batch(runs) => {
            let open = state.run.as_ref().map(|r| r.uid.clone());
            let concerned = open.filter(|uid| runs.iter().any(|r| r.uid == *uid));
            let ended = ended(state, &runs);
            state.store.batch(runs);
            for uid in ended {
                tell_end(state, &uid);
            }
            if let Some(uid) = concerned {
                open::fetch_details(state, &uid);
            }
            if state.settled.is_none() {
                rest(state);
            }
        }
        RunsMsg::Listed => state.store.listed(state.now),
        RunsMsg::Removed(uids) => {
            for uid in &uids {
                state.set_verdict(uid, None);
            }
            state.store.remove(uids);
        }
    }
    place::come_back(state);
    state.touch();
}

/// The runs among these that were seen going on and are over now.
fn ended(state: &State, runs: &[Run]) -> Vec<String> {
    let over = |run: &&Run| {
        run.phase.finished() && state.store.run(&run.uid).is_some_and(|before| !before.phase.finished())
    };
    runs.iter().filter(over).map(|run| run.uid.clone()).collect()
}

/// Says that a run is over, on the screen and to who looks elsewhere.
fn tell_end(state: &mut State, uid: &str) {
    let Some(run) = state.store.run(uid).filter(|run| matches!(run.phase, Phase::Ready | Phase::Failed))
    else {
        return;
    };
    let took = describe::duration(run, state.now).map(|ms| format!(" after {}", time::length(ms)));
    let check = if run.kind == Kind::Check { "the check of " } else { "" };
    let text = format!("{check}{} is {}{}", run.host, run.phase, took.unwrap_or_default());
    let level = if run.phase == Phase::Failed { Level::Warning } else { Level::Info };
    state.say(level, text.clone(), "");
    state.outbox.push(Effect::Notify(text));
}

fn listed(state: &mut State, topic: Topic, result: Result<Fresh, Problem>) {
    let now = state.now;
    let shown = state.screen == Screen::List(topic);
    let Some(list) = state.list_mut(topic) else { return };
    match result {
        Ok(fresh) => list.put(fresh, now),
        Err(problem) if list.problem.as_ref().is_some_and(|p| p.text == problem.text) => list.fail(problem),
        Err(problem) => {
            list.fail(problem.clone());
            // An empty screen says it itself.
            if shown && list.fetched.is_some() {
                state.problem(&problem);
            }
        }
    }
    if shown {
        state.touch();
    }
}

fn set_health(state: &mut State, back_end: BackEnd, health: Health) {
    let text = match &health {
        Health::Down { problem, .. } => Some((Level::Error, problem.text.clone(), problem.advice.clone())),
        Health::Up => Some((Level::Info, format!("{} is back", back_end.word()), String::new())),
        Health::Unknown | Health::Unused => None,
    };
    let before = state.store.set_health(back_end, health);
    let now_down = matches!(state.store.health(back_end), Health::Down { .. });
    let was_down = matches!(before, Health::Down { .. });
    // The header shows it all the time; only what is new is also remembered.
    if now_down != was_down
        && let Some((level, text, advice)) = text
    {
        state.remember(Entry { at: state.now, level, text, advice });
    }
    // Meanwhile it may have been told to let us do other things.
    if back_end == BackEnd::Cluster && was_down && !now_down {
        state.outbox.push(Effect::AskRights);
    }
    state.touch();
}

fn log(state: &mut State, run: &str, event: LogEvent) {
    if !is_open(state, run) {
        return;
    }
    if let Some(log) = state.store.log_mut(run) {
        log.apply(event);
        state.touch();
    }
}
