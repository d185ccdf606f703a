//! What the actions do on secrets.

use super::{SecretDeed, SecretRef, SecretsDone, Sides, Transfer, about, pages, permit};
use crate::app::dialog::{Button, Confirm, Dialog, Intent, TextKind, Typed};
use crate::app::document::END;
use crate::app::edit::LineEdit;
use crate::app::effect::{Effect, EffectId};
use crate::app::form::Form;
use crate::app::notice::{Entry, Level};
use crate::app::screens::Screen;
use crate::app::screens::secrets::SecretsScreen;
use crate::app::seen::Seen;
use crate::app::state::State;
use crate::app::{flight, open, texts, update};
use crate::config::{Action, Risk};
use crate::domain::Problem;
use crate::domain::kube_auth::Names;
use crate::domain::secret::tree::{file_id, folder_of, key_of};
use crate::domain::secret::{SecretListing, SecretRow, shown};

/// So many secrets are named in a question about several.
const NAMED: usize = 8;

/// Whether an action is done here on this screen.
pub(in crate::app) fn owns(state: &State, action: Action) -> bool {
    use Action as A;
    match state.screen {
        Screen::Secrets => {
            let folds = matches!(action, A::Left | A::Right) && !state.secrets.table.wide;
            permit::owns(action) || folds || matches!(action, A::Mark | A::Invert | A::Refresh)
        }
        Screen::Versions => matches!(action, A::RestoreVersion | A::CompareSecret | A::Refresh),
        Screen::Differences => true,
        _ => false,
    }
}

/// Does one.
pub(in crate::app) fn act(state: &mut State, seen: &Seen, action: Action) {
    match (state.screen, action) {
        (Screen::Secrets, _) => in_tree(state, seen, action),
        (_, Action::Refresh) => pages::refresh(state),
        (Screen::Versions, _) => in_versions(state, seen, action),
        _ => in_differences(state, seen, action),
    }
}

fn in_tree(state: &mut State, seen: &Seen, action: Action) {
    let screen = &mut state.secrets;
    match action {
        Action::Refresh => state.outbox.push(Effect::LookSecrets),
        Action::GiveCode => open::form(state, Form::code()),
        Action::Nodes => start(state, SecretDeed::Nodes),
        Action::Mark => screen.toggle_mark(),
        Action::Invert => screen.invert_marks(),
        Action::Left | Action::Right => {
            screen.fold(Some(action == Action::Right));
        }
        Action::AboutSecret => show_about(state, seen),
        Action::FetchSecrets | Action::UploadSecrets | Action::RemoveSecrets => {
            let rows: Vec<SecretRow> = screen.chosen(seen.subject.as_deref()).into_iter().cloned().collect();
            ask(state, action, &rows);
        }
        _ => {
            let key = seen.subject.as_deref().and_then(key_of).map(str::to_owned);
            if let Some(key) = key {
                single(state, action, &key);
            }
        }
    }
    update::rest(state);
}

/// Who is known came: the line can be asked for.
pub(in crate::app) fn names_came(state: &mut State, key: &str, names: &Names) {
    open::form(state, Form::grant(key, names));
}

/// What is done on one secret.
fn single(state: &mut State, action: Action, key: &str) {
    let Some(row) = state.secrets.row(key) else { return };
    if let Some(reason) = permit::refusal(action, row) {
        return state.show(Level::Warning, reason);
    }
    match action {
        Action::CompareSecret => pages::differences(state, key, Sides::Here),
        Action::Grant => start(state, SecretDeed::Names(key.to_owned())),
        Action::SecretVersions => pages::versions(state, key),
        Action::EditSecret => {
            let secret = SecretsScreen::reference(row);
            start(state, SecretDeed::Edit(secret));
        }
        _ => {}
    }
}

fn in_versions(state: &mut State, seen: &Seen, action: Action) {
    let Some(page) = &state.secrets.versions else { return };
    let Some(version) = seen.subject.as_deref().and_then(|id| page.version(id)) else { return };
    if let Some(reason) = permit::version_refusal(action, version) {
        return state.show(Level::Warning, reason);
    }
    let (key, id) = (page.key.clone(), version.id.clone());
    if action == Action::RestoreVersion {
        let mut confirm = question(action, format!("Restore {}", shown(&key)), {
            Intent::Secrets(SecretDeed::Restore { key, version: id.clone() })
        });
        confirm.fields.push(("version".to_owned(), id));
        if let Some(at) = version.modified {
            let at = crate::app::describe::moment(at, state.now, &state.environment);
            confirm.fields.push(("written".to_owned(), at));
        }
        confirm
            .notes
            .push("It becomes the newest version. What is there now stays in the history.".to_owned());
        confirm.notes.push("Your local copy stays as it is.".to_owned());
        return put(state, action, confirm);
    }
    pages::differences(state, &key, Sides::Version(id));
}

/// Enter on a version.
pub(in crate::app) fn open_version(state: &mut State, seen: &Seen) {
    in_versions(state, seen, Action::CompareSecret);
}

fn in_differences(state: &mut State, seen: &Seen, action: Action) {
    match action {
        Action::ShowValues => pages::show_values(state),
        Action::NextMatch | Action::PreviousMatch => pages::next(state, action == Action::PreviousMatch),
        Action::Filter => {
            if let Some(page) = &mut state.secrets.differences {
                page.input = Some(LineEdit::default());
            }
        }
        Action::FetchSecrets | Action::UploadSecrets => {
            let key = state.secrets.differences.as_ref().map(|page| page.key.clone());
            let row = key.and_then(|key| state.secrets.row(&key)).cloned();
            ask(state, action, row.as_slice());
        }
        Action::EditSecret => {
            let key = state.secrets.differences.as_ref().map(|page| page.key.clone());
            if let Some(key) = key {
                single(state, action, &key);
            }
        }
        _ => pages::go(state, seen, action),
    }
}

/// Opens what is under the cursor: a folder, or all that is known of a file.
pub(in crate::app) fn enter(state: &mut State, seen: &Seen) {
    if !state.secrets.fold(None) {
        show_about(state, seen);
    }
    update::rest(state);
}

/// All that is known of a row, and of the bucket.
fn show_about(state: &mut State, seen: &Seen) {
    let Some(id) = seen.subject.as_deref() else { return };
    let Some((name, doc)) = about(state, id) else { return };
    let copy = key_of(id).or(folder_of(id)).unwrap_or(&name).to_owned();
    texts::text(state, TextKind::Item, name, doc, copy);
}

/// Asks before something is done on secrets; what loses nothing is fetched at once.
fn ask(state: &mut State, action: Action, rows: &[SecretRow]) {
    let able: Vec<&SecretRow> = rows.iter().filter(|row| permit::refusal(action, row).is_none()).collect();
    let safe: Vec<&SecretRow> = able.iter().copied().filter(|row| !permit::loses(action, row)).collect();
    // What loses something is done on one at a time.
    let over = safe.is_empty() && able.len() == 1 && rows.len() == 1;
    let chosen = if over { &able } else { &safe };
    let secrets: Vec<SecretRef> = chosen.iter().map(|row| SecretsScreen::reference(row)).collect();
    let left_out = rows.len() - secrets.len();
    if secrets.is_empty() {
        let reason = rows.iter().find_map(|row| permit::refusal(action, row));
        let several = "changed on both sides: decide on each by itself".to_owned();
        return state.show(Level::Warning, reason.unwrap_or(several));
    }
    let deed = match action {
        Action::UploadSecrets => SecretDeed::Upload { secrets, over },
        Action::RemoveSecrets => SecretDeed::Remove(secrets),
        _ => SecretDeed::Fetch { secrets, over },
    };
    if action == Action::FetchSecrets && !over {
        if left_out > 0 {
            let text = format!("{left_out} are left out: the same, not there, or changed here");
            state.show(Level::Info, text);
        }
        return start(state, deed);
    }
    let confirm = describe(state, action, deed, over, left_out);
    put(state, action, confirm);
}

fn describe(state: &State, action: Action, deed: SecretDeed, over: bool, left_out: usize) -> Confirm {
    let gone = match &deed {
        SecretDeed::Fetch { secrets, .. } | SecretDeed::Upload { secrets, .. } => {
            secrets.iter().any(|secret| over && secret.etag.is_none())
        }
        _ => false,
    };
    let (title, keys) = match &deed {
        SecretDeed::Fetch { secrets, .. }
        | SecretDeed::Upload { secrets, .. }
        | SecretDeed::Remove(secrets) => {
            (deed.title(), secrets.iter().map(|secret| shown(&secret.key)).collect::<Vec<_>>())
        }
        _ => (deed.title(), Vec::new()),
    };
    let what = if let [one] = keys.as_slice() { one.clone() } else { format!("{} secrets", keys.len()) };
    let mut confirm = question(action, format!("{title} {what}"), Intent::Secrets(deed));
    if keys.len() > 1 {
        confirm.fields.extend(keys.iter().take(NAMED).map(|name| (String::new(), name.clone())));
        if keys.len() > NAMED {
            confirm.fields.push((String::new(), format!("and {} more", keys.len() - NAMED)));
        }
    }
    let versions = state.secrets.facts.as_ref().is_some_and(|facts| facts.keeps_versions());
    let bucket = state.secrets.facts.as_ref().map_or("the bucket", |facts| facts.bucket.as_str());
    match (action, over) {
        (Action::FetchSecrets, _) if gone => {
            confirm.warnings.push("It was removed in the bucket: your file is removed too.".to_owned());
        }
        (Action::FetchSecrets, _) => {
            confirm.warnings.push("What was changed in your file is lost.".to_owned());
        }
        (Action::UploadSecrets, true) if gone => {
            confirm.warnings.push("Somebody removed it in the bucket: your file brings it back.".to_owned());
        }
        (Action::UploadSecrets, true) => {
            confirm.warnings.push("What somebody else did there is replaced by your file.".to_owned());
        }
        (Action::UploadSecrets, false) => {
            confirm.notes.push(format!("To {bucket}, encrypted with the environment's key."));
            confirm.notes.push("What somebody changed there meanwhile is not replaced.".to_owned());
        }
        _ => confirm.notes.push(format!("From {bucket}. Nodes that have it remove it too.")),
    }
    if action != Action::FetchSecrets && !versions {
        confirm.warnings.push("The bucket is not known to keep versions: nothing brings it back.".to_owned());
    }
    if left_out > 0 {
        confirm.notes.push(format!("{left_out} more cannot be, or not with others: they are left out."));
    }
    confirm
}

fn question(action: Action, title: String, intent: Intent) -> Confirm {
    let label = action.info().label.to_owned();
    Confirm::new(title, vec![Button { label, key: 'y', intent: Some(intent) }], "cancel")
}

/// Puts a question in front; where the environment is guarded its name may have to be typed.
fn put(state: &mut State, action: Action, mut confirm: Confirm) {
    if action.info().risk == Risk::Typed && state.environment.guarded {
        let expected = state.environment.name.clone();
        confirm.typed = Some(Typed { expected, input: LineEdit::default() });
    }
    state.dialogs.push(Dialog::Confirm(Box::new(confirm)));
    state.touch();
}

/// Begins a deed; what came of an earlier one is forgotten.
pub(in crate::app) fn start(state: &mut State, deed: SecretDeed) {
    if let SecretDeed::Fetch { secrets, .. }
    | SecretDeed::Upload { secrets, .. }
    | SecretDeed::Remove(secrets) = &deed
    {
        for secret in secrets {
            state.secrets.set_outcome(&secret.key, None);
        }
    }
    flight::start(state, Effect::Secret { id: EffectId(0), deed });
}

/// The bucket and the folder were listed, or could not be.
pub(in crate::app) fn listed(state: &mut State, result: Result<Box<SecretListing>, Problem>) {
    let now = state.now;
    let shown = state.screen == Screen::Secrets;
    let screen = &mut state.secrets;
    match result {
        Ok(listing) => screen.put(*listing, now),
        Err(problem) => {
            let same = screen.problem.as_ref().is_some_and(|before| before.text == problem.text);
            screen.problem = Some(problem.clone());
            // An empty screen says it itself.
            if shown && !same && screen.fetched.is_some() {
                state.problem(&problem);
            }
        }
    }
    if state.secrets.settled.is_none() {
        update::rest(state);
    }
    state.touch();
}

/// How far a transfer is.
pub(in crate::app) fn transferred(state: &mut State, id: EffectId, transfer: Transfer) {
    flight::progress(state, id, transfer.words());
    if state.in_flight.iter().any(|flight| flight.id == id) {
        state.secrets.transfer = Some((id, transfer));
    }
}

/// A deed on secrets ended: each is told, marks stay on those that failed.
pub(in crate::app) fn done(state: &mut State, deed: &SecretDeed, done: SecretsDone) {
    let mut failed = Vec::new();
    let (mut count, mut one) = (0, None);
    for (key, outcome) in done.outcomes {
        match &outcome {
            Ok(word) => {
                count += 1;
                one = Some(format!("{} is {word}", shown(&key)));
                state.secrets.table.unmark(&file_id(&key));
            }
            Err(problem) => failed.push((shown(&key), problem.clone())),
        }
        let said = outcome.map_err(|problem| problem.text);
        state.secrets.set_outcome(&key, Some(said));
    }
    tell(state, deed, (count, one), &failed, done.cancelled);
}

fn tell(
    state: &mut State,
    deed: &SecretDeed,
    (count, one): (usize, Option<String>),
    failed: &[(String, Problem)],
    cancelled: bool,
) {
    match (failed, count, one) {
        ([(_, problem)], 0, _) => return state.problem(problem),
        ([], 1, Some(text)) => return state.say(Level::Info, text, ""),
        _ => {}
    }
    let mut words = format!("{}: {count} done", deed.title());
    if !failed.is_empty() {
        words.push_str(&format!(", {} failed", failed.len()));
    }
    if cancelled {
        words.push_str(", the rest was cancelled");
    }
    let level = match (failed.is_empty(), cancelled) {
        (false, _) => Level::Error,
        (true, true) => Level::Warning,
        (true, false) => Level::Info,
    };
    let reasons: Vec<String> = failed.iter().map(|(key, problem)| format!("{key}: {problem}")).collect();
    let entry = Entry { at: state.now, level, text: words.clone(), advice: reasons.join("\n") };
    state.show(level, words);
    if level == Level::Error {
        state.last_problem = Some(entry.clone());
    }
    state.remember(entry);
}

/// The end of what differs: it is left, and what was shown of it is not kept.
pub(in crate::app) fn leave_differences(state: &mut State) {
    state.secrets.differences = None;
    state.stack.retain(|screen| *screen != Screen::Differences);
}

/// What keys refer to is what the last frame showed.
pub(in crate::app) fn seen(state: &mut State, seen: &Seen) {
    if let Some(page) = &mut state.secrets.differences {
        page.seen(if page.top == END { seen.result.top } else { page.top });
    }
}
