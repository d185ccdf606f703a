//! Editing a secret's plain text: opened again with the text kept until it is what its name says, or given up.

use crate::backend::editor::{self, Editor, EditorError, Ended, Places, Sheet, Signals};
use crate::domain::secret::{Checked, check};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    /// The text is as it was: nothing is to be uploaded.
    Unchanged,
    /// It was changed, and is what its name says.
    Changed {
        /// The new text.
        text: Vec<u8>,
        /// What is doubtful in it, and when it expires.
        checked: Checked,
    },
    /// The editor failed (its exit code, or 128 and the signal's number): nothing is to be uploaded.
    Failed {
        /// That number.
        code: i32,
    },
    /// The last text is not what its name says, and it was not gone on with: nothing is to be uploaded.
    Invalid {
        /// What is wrong.
        checked: Checked,
    },
    /// A signal (its number) came for us: leave.
    Interrupted {
        /// Its number.
        signal: i32,
    },
}

/// What to do with a text that is not what its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Open it again.
    Again,
    /// Give up.
    GiveUp,
}

/// Edits the text of a key on the terminal. `told` hears what is wrong with a text before it is opened again, and decides whether it is.
/// A text that the editor left as wrong as it was is given up by itself.
///
/// Whichever way this ends, also by being dropped, no plain text is left. Signals that end us do that here and say so in the answer; see
/// [`Signals`] for what they do afterwards.
///
/// # Errors
/// When there is no private place for the text, the editor does not start, or the text cannot be read back.
pub async fn edit(
    editor: &Editor,
    places: &Places,
    key: &str,
    text: &[u8],
    mut told: impl AsyncFnMut(&Checked) -> Next,
) -> Result<Edited, EditorError> {
    let mut signals = Signals::new()?;
    let sheet = Sheet::new(places, key, text)?;
    let mut before = text.to_vec();
    loop {
        match editor::run(editor, &sheet, &mut signals).await? {
            Ended::Well => {}
            Ended::Code(code) => return Ok(Edited::Failed { code }),
            Ended::Signal(signal) => return Ok(Edited::Failed { code: 128 + signal }),
            Ended::Interrupted(signal) => return Ok(Edited::Interrupted { signal }),
        }
        let now = sheet.text()?;
        if now == text {
            return Ok(Edited::Unchanged);
        }
        let checked = check(key, &now);
        if checked.is_good() {
            return Ok(Edited::Changed { text: now, checked });
        }
        if now == before {
            return Ok(Edited::Invalid { checked });
        }
        let next = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Edited::Interrupted { signal }),
            next = told(&checked) => next,
        };
        if next == Next::GiveUp {
            return Ok(Edited::Invalid { checked });
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Edits with this program and says what came of it, what was told, and what is left in the folder.
    async fn with(program: &str, key: &str, text: &str, next: Next) -> (Edited, Vec<String>) {
        let temp = tempfile::tempdir().unwrap();
        let places = Places::new(vec![temp.path().to_owned()]);
        let editor = Editor::of(None, Some(program)).unwrap();
        let mut told = Vec::new();
        let edited = edit(&editor, &places, key, text.as_bytes(), async |checked: &Checked| {
            told.extend(checked.problems.iter().map(ToString::to_string));
            next
        })
        .await
        .unwrap();
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "{program} left something");
        (edited, told)
    }

    /// An editor of these shell commands; `$1` is the file.
    fn script(dir: &Path, commands: &str) -> String {
        let path = dir.join("editor.sh");
        std::fs::write(&path, commands).unwrap();
        format!("sh {}", path.display())
    }

    fn changed(text: &str) -> Edited {
        Edited::Changed { text: text.into(), checked: Checked::default() }
    }

    /// Scenario E02.
    #[tokio::test]
    async fn each_editor_and_what_comes_of_it() {
        let temp = tempfile::tempdir().unwrap();
        let rename = "printf 'a: 2\\n' > \"$1.new\" && mv \"$1.new\" \"$1\"; cp \"$1\" \"$1~\"";
        let aside = "cat \"$1\" > \"$TMPDIR/copy\"; echo 'a: 3' > \"$1\"";
        let cases = [
            ("true".to_owned(), Edited::Unchanged),
            ("false".to_owned(), Edited::Failed { code: 1 }),
            ("sed -i s/1/9/".to_owned(), changed("a: 9\n")),
            ("sed -i -e 's/a: 1/a: \"b c\"/'".to_owned(), changed("a: \"b c\"\n")),
            ("touch".to_owned(), Edited::Unchanged),
            (script(temp.path(), rename), changed("a: 2\n")),
        ];
        for (program, expected) in cases {
            assert_eq!(
                with(&program, "a.yaml", "a: 1\n", Next::GiveUp).await,
                (expected, Vec::new()),
                "{program}"
            );
        }
        let fails = [
            ("echo 'a: 5' > \"$1\"; exit 7", Edited::Failed { code: 7 }),
            ("echo 'a: 5' > \"$1\"; kill -9 $$", Edited::Failed { code: 137 }),
        ];
        for (commands, expected) in fails {
            let program = script(temp.path(), commands);
            assert_eq!(with(&program, "a.yaml", "a: 1\n", Next::Again).await.0, expected, "{commands}");
        }
        let program = script(temp.path(), aside);
        assert_eq!(with(&program, "a.yaml", "a: 1\n", Next::Again).await.0, changed("a: 3\n"));
    }

    #[tokio::test]
    async fn a_wrong_text_is_told_and_opened_again_as_it_was_left() {
        let temp = tempfile::tempdir().unwrap();
        // Breaks it; mends what it broke, but only if that was kept.
        let commands = "grep -q ']' \"$1\" && sed -i 's/]/ok/' \"$1\" || sed -i 's/1/]/' \"$1\"";
        let mends = script(temp.path(), commands);
        let told = vec!["line 1: is no YAML at column 4".to_owned()];
        assert_eq!(with(&mends, "a.yaml", "a: 1\n", Next::Again).await, (changed("a: ok\n"), told.clone()));
        let (given_up, heard) = with(&mends, "a.yaml", "a: 1\n", Next::GiveUp).await;
        assert!(matches!(&given_up, Edited::Invalid { checked } if !checked.is_good()), "{given_up:?}");
        assert_eq!(heard, told);
        // Nobody at the keyboard who could mend it: it ends all the same.
        let (left, heard) = with("sed -i s/1/]/", "a.yaml", "a: 1\n", Next::Again).await;
        assert!(matches!(left, Edited::Invalid { .. }), "{left:?}");
        assert_eq!(heard, told);
    }

    #[tokio::test]
    async fn an_editor_that_is_not_there_or_is_dropped_leaves_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let places = Places::new(vec![temp.path().to_owned()]);
        let none = Editor::of(None, Some("/no/such/editor")).unwrap();
        let error =
            edit(&none, &places, "a", b"hunter2", async |_: &Checked| Next::GiveUp).await.unwrap_err();
        assert!(error.to_string().contains("/no/such/editor") && !error.to_string().contains("hunter2"));
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
        let flags = tempfile::tempdir().unwrap();
        let flag = flags.path().join("runs");
        let sleeps = script(flags.path(), &format!("echo > '{}'; exec sleep 600", flag.display()));
        let editor = Editor::of(None, Some(&sleeps)).unwrap();
        tokio::select! {
            edited = edit(&editor, &places, "a", b"hunter2", async |_: &Checked| Next::GiveUp) => panic!("{edited:?}"),
            () = async {
                while !flag.exists() {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            } => {}
        }
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    /// Says to this test's own process that it is to wait for an answer until it ends.
    const VICTIM: &str = "HOSTWRIGHT_TEST_EDIT_VICTIM";

    async fn ask_for_ever(dir: &Path) -> ! {
        let places = Places::new(vec![dir.join("places")]);
        let editor = Editor::of(None, Some("sed -i s/1/]/")).unwrap();
        let asked = dir.join("asked");
        let edited = edit(&editor, &places, "a.yaml", b"a: 1\n", async |_: &Checked| {
            std::fs::write(&asked, "").unwrap();
            std::future::pending().await
        });
        match edited.await.unwrap() {
            Edited::Interrupted { signal } => std::process::exit(128 + signal),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_signal_while_it_is_asked_leaves_nothing() {
        use rustix::process::{Pid, Signal, kill_process};
        if let Some(dir) = std::env::var_os(VICTIM) {
            ask_for_ever(Path::new(&dir)).await;
        }
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let temp = tempfile::tempdir().unwrap();
            let places = temp.path().join("places");
            std::fs::create_dir(&places).unwrap();
            let test = "ops::secrets::edit::tests::a_signal_while_it_is_asked_leaves_nothing";
            let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture", "--test-threads=1"])
                .env(VICTIM, temp.path())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let asked = async {
                while !temp.path().join("asked").exists() {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(std::time::Duration::from_secs(60), asked).await.expect("it does not ask");
            assert_eq!(std::fs::read_dir(&places).unwrap().count(), 1);
            kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
            assert_eq!(child.wait().await.unwrap().code(), Some(128 + signal.as_raw()));
            assert_eq!(std::fs::read_dir(&places).unwrap().count(), 0);
        }
    }
}
