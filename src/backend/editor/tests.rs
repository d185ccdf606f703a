use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::*;

const PLAIN: &[u8] = b"password: hunter2\n";

fn place() -> (tempfile::TempDir, Places) {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::new(vec![temp.path().join("none"), temp.path().to_owned()]);
    (temp, places)
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn words(argv: &[OsString]) -> Vec<&str> {
    argv.iter().map(|word| word.to_str().unwrap()).collect()
}

#[test]
fn the_command_is_split_as_a_shell_splits_it() {
    fn of(visual: Option<&str>, editor: Option<&str>) -> Vec<OsString> {
        Editor::of(visual, editor).unwrap().argv
    }
    assert_eq!(words(&of(Some("code --wait"), Some("ed"))), ["code", "--wait"]);
    assert_eq!(
        words(&of(Some(" "), Some("'/opt/my editor/e' -x \"a b\""))),
        ["/opt/my editor/e", "-x", "a b"]
    );
    assert_eq!(words(&of(None, None))[0], "vi");
    assert_eq!(words(&of(None, Some("/usr/bin/vim -R")))[..2], ["/usr/bin/vim", "-R"]);
    assert!(of(None, Some("nvim")).contains(&OsString::from("NONE")));
    // Vim under another name, as `vi` often is.
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("vim.basic"), "").unwrap();
    std::fs::write(temp.path().join("vile"), "").unwrap();
    std::os::unix::fs::symlink("vim.basic", temp.path().join("vi")).unwrap();
    let named = |name: &str| of(None, Some(&temp.path().join(name).display().to_string()));
    assert_eq!(
        (named("vi")[1..4].to_vec(), named("vile").len()),
        (["-n", "-i", "NONE"].map(OsString::from).to_vec(), 1)
    );
    let error = Editor::of(None, Some("vi 'x")).unwrap_err().to_string();
    assert!(error.contains("$EDITOR"), "{error}");
}

#[test]
fn the_text_is_private_and_gone_afterwards() {
    let (temp, places) = place();
    let sheet = Sheet::new(&places, "locked/a.yaml", PLAIN).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(sheet.path().parent().unwrap()), mode(sheet.path())), (0o700, 0o600));
    assert!(sheet.path().ends_with("a.yaml") && sheet.text().unwrap() == PLAIN);
    let editor = Editor::of(None, Some("ed -s")).unwrap();
    assert_eq!(words(&editor.command(&sheet)), ["ed", "-s", sheet.path().to_str().unwrap()]);
    // What an editor leaves beside it, as a swap file or a copy.
    let beside = sheet.path().parent().unwrap().join("more");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join(".a.yaml.swp"), PLAIN).unwrap();
    // A file that is still open shows what became of the bytes.
    let mut open = std::fs::File::open(sheet.path()).unwrap();
    drop(sheet);
    assert!(entries(temp.path()).is_empty());
    let mut left = Vec::new();
    std::io::Read::read_to_end(&mut open, &mut left).unwrap();
    assert_eq!(left, vec![0; PLAIN.len()]);
    let error = Sheet::new(&Places::new(vec![temp.path().join("none")]), "a", PLAIN).unwrap_err();
    assert!(error.to_string().contains("none") && !error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn this_machine_has_a_place() {
    let sheet = Sheet::new(&Places::of_this_machine(), "a", PLAIN).unwrap();
    let folder = sheet.path().parent().unwrap().to_owned();
    if let Some(memory) =
        Path::new("/dev/shm").metadata().ok().filter(|_| std::env::var_os("XDG_RUNTIME_DIR").is_none())
    {
        assert!(memory.is_dir() && folder.starts_with("/dev/shm"), "{}", folder.display());
    }
    drop(sheet);
    assert!(!folder.exists());
}

#[test]
fn a_text_that_is_none_any_more_is_not_taken() {
    let (temp, places) = place();
    let sheet = Sheet::new(&places, "a", PLAIN).unwrap();
    std::fs::remove_file(sheet.path()).unwrap();
    assert!(sheet.text().is_err());
    let other = temp.path().join("theirs");
    std::fs::write(&other, "theirs").unwrap();
    std::os::unix::fs::symlink(&other, sheet.path()).unwrap();
    assert!(sheet.text().is_err());
    std::fs::remove_file(sheet.path()).unwrap();
    let large = std::fs::File::create(sheet.path()).unwrap();
    large.set_len(SHEET_LIMIT + 1).unwrap();
    assert!(matches!(sheet.text(), Err(EditorError::TooLarge)));
    drop(sheet);
    assert_eq!(std::fs::read(other).unwrap(), b"theirs");
}

/// Says to this test's own process that it is to edit in this folder until it ends.
const VICTIM: &str = "HOSTWRIGHT_TEST_EDITOR_VICTIM";

/// A process of its own that edits: with its editor's process number, once that runs.
async fn victim(test: &str, dir: &Path) -> (Child, Pid) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("backend::editor::tests::{test}"), "--nocapture", "--test-threads=1"])
        .env(VICTIM, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let told = dir.join("pid");
    let pid = async {
        loop {
            let text = std::fs::read_to_string(&told).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n').and_then(|text| text.parse().ok()) {
                return Pid::from_raw(pid).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    (child, tokio::time::timeout(Duration::from_secs(60), pid).await.expect("its editor does not start"))
}

/// What the victim does: an editor that changes the text, says who it is, and goes on until it is ended.
async fn edit_for_ever(dir: &Path) -> ! {
    let script = format!("echo more >> \"$1\"; echo $$ > '{}'; exec sleep 600", dir.join("pid").display());
    let editor = Editor { argv: ["sh", "-c", &script, "sh"].map(OsString::from).to_vec() };
    let ended = {
        let mut signals = Signals::new().unwrap();
        let sheet = Sheet::new(&Places::new(vec![dir.join("places")]), "a.yaml", PLAIN).unwrap();
        run(&editor, &sheet, &mut signals).await.unwrap()
    };
    match ended {
        Ended::Interrupted(signal) => std::process::exit(128 + signal),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_signal_that_ends_us_ends_the_editor_and_leaves_nothing() {
    if let Some(dir) = std::env::var_os(VICTIM) {
        edit_for_ever(Path::new(&dir)).await;
    }
    for signal in [Signal::TERM, Signal::HUP] {
        let temp = tempfile::tempdir().unwrap();
        let places = temp.path().join("places");
        std::fs::create_dir(&places).unwrap();
        let (mut child, editor) =
            victim("a_signal_that_ends_us_ends_the_editor_and_leaves_nothing", temp.path()).await;
        let us = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        assert_eq!(entries(&places).len(), 1);
        // Not for us while an editor runs.
        kill_process(us, Signal::INT).unwrap();
        kill_process(us, Signal::QUIT).unwrap();
        kill_process(us, signal).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(128 + signal.as_raw()));
        assert!(entries(&places).is_empty());
        assert!(rustix::process::test_kill_process(editor).is_err(), "the editor lives on");
    }
}

#[tokio::test]
async fn what_a_killed_edit_left_is_wiped_and_what_is_in_use_is_not() {
    if let Some(dir) = std::env::var_os(VICTIM) {
        edit_for_ever(Path::new(&dir)).await;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("places");
    std::fs::create_dir(&dir).unwrap();
    let places = Places::new(vec![temp.path().join("none"), dir.clone()]);
    let (mut child, editor) =
        victim("what_a_killed_edit_left_is_wiped_and_what_is_in_use_is_not", temp.path()).await;
    let in_use = Sheet::new(&places, "b", PLAIN).unwrap();
    std::fs::create_dir(dir.join("somebody-elses")).unwrap();
    assert_eq!(sweep(&places).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(entries(&dir).len(), 3);
    child.kill().await.unwrap();
    assert!(child.wait().await.unwrap().signal() == Some(9));
    assert_eq!(sweep(&places).unwrap().len(), 1);
    assert_eq!((entries(&dir).len(), in_use.text().unwrap()), (2, PLAIN.to_vec()));
    // The editor was nobody's any more.
    kill_process(editor, Signal::KILL).unwrap();
    drop(in_use);
    assert_eq!(entries(&dir).len(), 1);
}
