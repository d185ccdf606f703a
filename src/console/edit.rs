//! A secret's plain text on its way through the operator's editor.
//!
//! It is made ready in the background, opened by the loop, which lends the terminal, and uploaded in the background again. Whoever drops
//! an [`Opened`] wipes the text.

use crate::app::secrets::{Back, SecretsDone};
use crate::app::{Answer, EffectId};
use crate::backend::editor::{Editor, Places, Sheet};
use crate::domain::secret::{Compared, Format, Values, check, shown, three_way};
use crate::domain::{Problem, ProblemKind};
use crate::ops::OpError;
use crate::ops::secrets::{Editing, Saved, Secrets};

/// A text that is laid out to be edited.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The effect that asked for it, which is answered when all is done.
    pub(crate) id: EffectId,
    /// The secret as it is in the bucket.
    editing: Editing,
    /// What it was when this edit began, where somebody changed it since.
    base: Option<Vec<u8>>,
    editor: Editor,
    sheet: Sheet,
    secrets: Secrets,
}

/// What is to be done with a text that came back from the editor.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing: this is the answer.
    Answer(Result<Answer, Problem>),
    /// The operator is asked.
    Ask(Back),
    /// It is uploaded.
    Save(Vec<u8>),
}

impl Opened {
    /// Makes a secret's text ready.
    pub(crate) async fn prepare(id: EffectId, secrets: Secrets, key: &str) -> Result<Self, OpError> {
        let editor = Editor::from_environment()?;
        let editing = secrets.begin(key).await?;
        let sheet = Sheet::new(&Places::of_this_machine(), key, &editing.text)?;
        Ok(Self { id, editing, base: None, editor, sheet, secrets })
    }

    /// The secret's exact key.
    pub(crate) fn key(&self) -> &str {
        &self.editing.key
    }

    /// The program with its arguments, and the variables that it gets.
    pub(crate) fn command(&self) -> (Vec<std::ffi::OsString>, Vec<(&'static str, std::path::PathBuf)>) {
        (self.editor.command(&self.sheet), self.sheet.variables())
    }

    /// The editor's name, for people.
    pub(crate) fn program(&self) -> String {
        self.editor.program()
    }

    /// What is to be done with the text as the editor left it.
    pub(crate) fn next(&self) -> Next {
        let name = shown(self.key());
        let text = match self.sheet.text() {
            Ok(text) => text,
            Err(error) => return Next::Answer(Err(OpError::from(error).problem(name))),
        };
        if text == self.editing.text {
            return Next::Answer(Ok(Answer::Done(format!("{name} was not changed: nothing was uploaded"))));
        }
        let checked = check(self.key(), &text);
        if checked.is_good() {
            return Next::Save(text);
        }
        Next::Ask(Back::Wrong(checked.problems.iter().map(ToString::to_string).collect()))
    }

    /// Uploads it. Gives itself back with the reason when the operator is to be asked: no text is lost by a bucket that does not take it.
    pub(crate) async fn save(mut self, text: Vec<u8>) -> Result<Answer, (Box<Self>, Back)> {
        let saved = self.secrets.save(&self.editing, text).await;
        match saved {
            Ok(Saved::Uploaded { local }) => {
                let words = local.map_or_else(|| "uploaded".to_owned(), |why| format!("uploaded; {why}"));
                let outcomes = vec![(self.key().to_owned(), Ok(words))];
                Ok(Answer::Secrets(SecretsDone { outcomes, cancelled: false }))
            }
            Ok(Saved::Apart { compared, theirs }) => {
                let before = std::mem::replace(&mut self.editing, theirs);
                self.base.get_or_insert(before.text);
                Err((Box::new(self), Back::Apart { compared, values: false }))
            }
            Err(error) => {
                let problem = error.problem(shown(self.key()));
                Err((Box::new(self), Back::Failed(problem)))
            }
        }
    }

    /// What differs, with the values: the operator asked for them.
    pub(crate) fn shown(&self) -> Result<Back, Problem> {
        let mine = self.sheet.text().map_err(|error| OpError::from(error).problem(shown(self.key())))?;
        let ways = three_way(
            self.base.as_deref(),
            Some(&mine),
            Some(&self.editing.text),
            Format::of(self.key()),
            Values::Shown,
        );
        Ok(Back::Apart { compared: Box::new(Compared::Three(ways)), values: true })
    }

    /// The answer when the editor ended otherwise than well.
    pub(crate) fn ended(&self, how: &str) -> Problem {
        let text = format!("{} {how}: nothing was uploaded", self.program());
        Problem::new(shown(self.key()), ProblemKind::Failed, text)
            .advise("$VISUAL or $EDITOR says which editor is run.")
    }

    /// The answer when the text is thrown away.
    pub(crate) fn thrown_away(&self) -> Answer {
        Answer::Done(format!("the text of {} was thrown away: nothing was uploaded", shown(self.key())))
    }
}
