//! `secrets edit`: the editor, and the questions when a text is wrong or somebody else was quicker.

use std::io::{BufRead as _, IsTerminal as _};

use super::print;
use crate::backend::editor::{Editor, Places};
use crate::cli::{Failure, fail, say};
use crate::domain::secret::{Checked, shown};
use crate::ops::OpError;
use crate::ops::secrets::edit::{Edited, Next, edit};
use crate::ops::secrets::{Editing, Saved, Secrets};

pub(super) async fn run(secrets: &Secrets, key: &str) -> Result<(), Failure> {
    let editor = Editor::from_environment().map_err(OpError::from)?;
    let mut editing = secrets.begin(key).await?;
    // What the editor shows; after a conflict it is ours, on top of theirs.
    let mut text = editing.text.clone();
    loop {
        let edited = edit(&editor, &Places::of_this_machine(), key, &text, wrong).await;
        let (new, checked) = match edited.map_err(OpError::from)? {
            Edited::Changed { text, checked } => (text, checked),
            // What was opened again after a conflict is ours still.
            Edited::Unchanged if text != editing.text => (text, Checked::default()),
            Edited::Unchanged => return Ok(say(&format!("{} was not changed", shown(key)))?),
            Edited::Failed { code } => {
                let why = format!("the editor ended with {code}: nothing was uploaded");
                return Err(Failure { text: why, code: 1 });
            }
            Edited::Invalid { checked } => return Err(invalid(key, &checked)),
            Edited::Interrupted { signal } => {
                let code = u8::try_from(128 + signal).unwrap_or(1);
                return Err(Failure { text: "interrupted: nothing was uploaded".to_owned(), code });
            }
        };
        checked.warnings.iter().for_each(|warning| fail(&format!("warning: {}: {warning}", shown(key))));
        match secrets.save(&editing, new.clone()).await? {
            Saved::Uploaded { local } => {
                if let Some(why) = local {
                    fail(&format!("warning: {why}"));
                }
                return Ok(say(&format!("{} was uploaded", shown(key)))?);
            }
            Saved::Apart { compared, theirs } => {
                fail(&format!("somebody changed {} meanwhile: nothing was uploaded", shown(key)));
                print::lines(&compared).iter().try_for_each(|line| say(line))?;
                if !again("Open yours again, to upload it over theirs").await {
                    return Err(Failure { text: "given up: nothing was uploaded".to_owned(), code: 4 });
                }
                (editing, text) = reopened(theirs, new);
            }
        }
    }
}

fn reopened(theirs: Editing, mine: Vec<u8>) -> (Editing, Vec<u8>) {
    (theirs, mine)
}

fn invalid(key: &str, checked: &Checked) -> Failure {
    let problems: Vec<String> = checked.problems.iter().map(ToString::to_string).collect();
    Failure { text: format!("{} was not uploaded: {}", shown(key), problems.join("; ")), code: 2 }
}

/// Says what is wrong with a text and asks whether it is opened again.
async fn wrong(checked: &Checked) -> Next {
    for problem in &checked.problems {
        fail(&problem.to_string());
    }
    if again("Open it again").await { Next::Again } else { Next::GiveUp }
}

/// Asks on the terminal; without one the answer is no.
async fn again(question: &str) -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    fail(&format!("{question}? [Y/n]"));
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        read.is_ok_and(|count| count > 0) && !line.trim_start().to_ascii_lowercase().starts_with('n')
    });
    read.await.unwrap_or(false)
}
