//! A text that came back from the editor and was not uploaded: what is asked then.

use super::{Back, doc};
use crate::app::dialog::{Button, Confirm, Dialog, Intent, TextKind};
use crate::app::effect::EffectId;
use crate::app::state::State;
use crate::app::texts;
use crate::domain::secret::shown;

/// So many mistakes of a text are named.
const NAMED: usize = 8;

/// Asks whether the text is opened again. Whatever closes the question otherwise throws it away.
pub(in crate::app) fn back(state: &mut State, id: EffectId, key: &str, why: &Back) {
    // The same question is asked anew.
    state.dialogs.retain(|dialog| match dialog {
        Dialog::Confirm(c) => c.buttons.iter().all(|b| b.intent != Some(Intent::EditAgain(id))),
        _ => true,
    });
    let name = shown(key);
    let (title, label) = match why {
        Back::Wrong(_) => (format!("{name} is not what its name says"), "edit again"),
        Back::Apart { .. } => {
            (format!("Somebody changed {name} meanwhile"), "open mine, to upload it over theirs")
        }
        Back::Failed(_) => (format!("{name} was not uploaded"), "open it again"),
    };
    let mut buttons = vec![Button { label: label.to_owned(), key: 'e', intent: Some(Intent::EditAgain(id)) }];
    if let Back::Apart { values: false, .. } = why {
        let values = Button { label: "show values".to_owned(), key: 'v', intent: Some(Intent::EditShow(id)) };
        buttons.insert(0, values);
    }
    let mut confirm = Confirm::new(title, buttons, "throw the text away");
    match why {
        Back::Wrong(problems) => {
            confirm.warnings.extend(problems.iter().take(NAMED).cloned());
            if problems.len() > NAMED {
                confirm.warnings.push(format!("and {} more", problems.len() - NAMED));
            }
        }
        Back::Failed(problem) => {
            confirm.warnings.push(problem.text.clone());
            confirm.notes.extend(Some(problem.advice.clone()).filter(|advice| !advice.is_empty()));
        }
        Back::Apart { .. } => {}
    }
    confirm.notes.push("Nothing was uploaded.".to_owned());
    // The text is not lost by a key that comes too early.
    confirm.focus = confirm.buttons.len() - 2;
    state.dialogs.push(Dialog::Confirm(Box::new(confirm)));
    if let Back::Apart { compared, values } = why {
        let doc = doc::of_compared(compared, *values, "v in the question after this");
        texts::text(state, TextKind::Item, format!("{name}: yours and theirs"), doc, String::new());
    }
    state.touch();
}
