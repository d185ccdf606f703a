use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use super::*;
use crate::config::{Sources, Variables, load_with};
use crate::domain::secret::relative;

fn permit() -> Permit {
    load_with(&Sources::default(), &Variables::default()).unwrap().permit().unwrap()
}

fn folder() -> (tempfile::TempDir, Folder) {
    let temp = tempfile::tempdir().unwrap();
    let folder = Folder::create(&permit(), &temp.path().join("platform/secrets")).unwrap();
    (temp, folder)
}

fn path(key: &str) -> RelativePath {
    relative(key).unwrap()
}

fn put(writer: &Writer, key: &str, text: &[u8]) -> Result<(LocalFact, Stamp), FolderError> {
    let mut staged = writer.stage(&path(key))?;
    staged.write_all(text).unwrap();
    staged.commit(Over::Anything)
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

/// Everything below a folder, but what is our own.
fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap().path();
            let below = entry.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if below == OWN {
                continue;
            }
            if entry.symlink_metadata().unwrap().is_dir() {
                pending.push(entry);
            } else {
                found.push(below);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_file_is_whole_private_and_under_its_exact_name() {
    let (_temp, folder) = folder();
    let writer = folder.writer(&permit(), "test").unwrap();
    let keys = ["a b+\u{fc}{1}%41.txt", "d/u\u{308}", "d/\u{fc}", "new\nline", "-rf", "A", "a"];
    for key in keys {
        let (fact, stamp) = put(&writer, key, key.as_bytes()).unwrap();
        assert_eq!(fact, LocalFact { size: key.len() as u64, sha256: Checksum::of(key.as_bytes()) });
        assert_eq!(folder.hash(&path(key)).unwrap(), Some((fact, stamp)));
        assert_eq!(folder.stat(&path(key)).unwrap().unwrap().stamp, stamp);
        assert_eq!(mode(&folder.path().join(key)), 0o600);
    }
    for key in keys {
        assert_eq!(folder.read(&path(key), 100).unwrap().unwrap(), key.as_bytes());
    }
    assert_eq!((mode(folder.path()), mode(&folder.path().join("d"))), (0o700, 0o700));
    assert_eq!(folder.open_to_others().unwrap(), None);
    let mut expected: Vec<String> = keys.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(tree(folder.path()), expected);
    assert!(matches!(folder.read(&path("a"), 0), Err(FolderError::TooLarge { .. })));
    assert_eq!(folder.read(&path("no/such"), 1).unwrap(), None);
    assert_eq!(folder.hash(&path("none")).unwrap(), None);
    // 512 folders deep, 1,024 bytes.
    let deep = format!("{}bb", "a/".repeat(511));
    std::fs::remove_file(folder.path().join("a")).unwrap();
    put(&writer, &deep, b"x").unwrap();
    let mut files = 0;
    folder.walk(|found| files += usize::from(matches!(found, Found::File { .. }))).unwrap();
    assert_eq!(files, keys.len());
    assert!(writer.remove(&path(&deep), Over::Anything).unwrap());
    assert!(!folder.path().join("a").exists());
}

#[test]
fn an_existing_file_gets_the_mode_and_stays_when_nothing_is_committed() {
    let (_temp, folder) = folder();
    let writer = folder.writer(&permit(), "test").unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o664)).unwrap();
    assert!(writer.tighten(&path("f")).unwrap() && !writer.tighten(&path("f")).unwrap());
    assert_eq!(mode(&file), 0o600);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o664)).unwrap();
    let mut staged = writer.stage(&path("f")).unwrap();
    staged.write_all(b"half").unwrap();
    assert_eq!((staged.size(), tree(folder.path()).len()), (4, 2));
    drop(staged);
    assert_eq!((tree(folder.path()), std::fs::read(&file).unwrap()), (vec!["f".to_owned()], b"old".to_vec()));
    put(&writer, "f", b"new").unwrap();
    assert_eq!((mode(&file), std::fs::read(&file).unwrap()), (0o600, b"new".to_vec()));
}

#[test]
fn what_was_changed_meanwhile_is_neither_written_over_nor_removed() {
    let (_temp, folder) = folder();
    let writer = folder.writer(&permit(), "test").unwrap();
    let (_, stamp) = put(&writer, "d/f", b"one").unwrap();
    std::fs::write(folder.path().join("d/f"), "longer").unwrap();
    for over in [Over::Nothing, Over::This(stamp)] {
        let staged = writer.stage(&path("d/f")).unwrap();
        assert!(matches!(staged.commit(over), Err(FolderError::Changed(_))));
        assert!(matches!(writer.remove(&path("d/f"), over), Err(FolderError::Changed(_))));
    }
    assert_eq!(std::fs::read(folder.path().join("d/f")).unwrap(), b"longer");
    assert_eq!(tree(folder.path()), ["d/f"]);
    let now = folder.stat(&path("d/f")).unwrap().unwrap().stamp;
    let (_, later) = writer.stage(&path("d/f")).unwrap().place(Over::This(now)).unwrap();
    assert!(writer.remove(&path("d/f"), Over::This(later)).unwrap());
    assert!(!writer.remove(&path("d/f"), Over::Anything).unwrap());
    assert!(!folder.path().join("d").exists());
    writer.stage(&path("e/f")).unwrap().place(Over::Nothing).unwrap();
    let gone = writer.stage(&path("n")).unwrap();
    assert!(matches!(gone.commit(Over::This(later)), Err(FolderError::Changed(_))));
    writer.settle().unwrap();
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let (temp, folder) = folder();
    let outside = temp.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("f"), "theirs").unwrap();
    let root = folder.path();
    symlink(&outside, root.join("dir")).unwrap();
    symlink(outside.join("f"), root.join("link")).unwrap();
    symlink(outside.join("new"), root.join("dangling")).unwrap();
    std::fs::create_dir(root.join("folder")).unwrap();
    std::fs::write(root.join("file"), "x").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), FileType::Fifo, FILE, 0).unwrap();
    let writer = folder.writer(&permit(), "test").unwrap();
    let cases = [
        ("dir/f", InTheWay::Link),
        ("dir/new", InTheWay::Link),
        ("dir", InTheWay::Link),
        ("link", InTheWay::Link),
        ("dangling", InTheWay::Link),
        ("folder", InTheWay::Folder),
        ("file/f", InTheWay::File),
        ("pipe", InTheWay::Special),
    ];
    for (key, expected) in cases {
        let way = |error: FolderError| match error {
            FolderError::InTheWay { path, what } => {
                assert!(path.starts_with(&root.display().to_string()), "{path}");
                what
            }
            other => panic!("{key}: {other}"),
        };
        assert_eq!(way(put(&writer, key, b"evil").unwrap_err()), expected, "{key}");
        assert_eq!(way(folder.read(&path(key), 9).unwrap_err()), expected, "{key}");
        assert_eq!(way(folder.hash(&path(key)).unwrap_err()), expected, "{key}");
        assert_eq!(way(folder.stat(&path(key)).unwrap_err()), expected, "{key}");
        assert_eq!(way(writer.remove(&path(key), Over::Anything).unwrap_err()), expected, "{key}");
    }
    assert_eq!(tree(&outside), ["f"]);
    assert_eq!(std::fs::read(outside.join("f")).unwrap(), b"theirs");
    let mut odd = Vec::new();
    let mut files = Vec::new();
    folder
        .walk(|found| match found {
            Found::Odd { path, what } => odd.push((path.rsplit('/').next().unwrap().to_owned(), what)),
            Found::File { path, .. } => files.push(path.to_string()),
            other @ Found::Unnamable { .. } => panic!("{other:?}"),
        })
        .unwrap();
    odd.sort_by(|one, other| one.0.cmp(&other.0));
    let names: Vec<&str> = odd.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, files), (vec!["dangling", "dir", "link", "pipe"], vec!["file".to_owned()]));
    // Nor does our own folder.
    drop(writer);
    std::fs::remove_dir_all(root.join(OWN)).unwrap();
    symlink(&outside, root.join(OWN)).unwrap();
    assert!(matches!(folder.writer(&permit(), "t"), Err(FolderError::InTheWay { .. })));
    assert!(matches!(folder.read_own("index.json", 9), Err(FolderError::InTheWay { .. })));
    assert_eq!(tree(&outside), ["f"]);
}

#[test]
fn names_that_can_be_no_key_are_told() {
    use std::os::unix::ffi::OsStrExt as _;
    let (_temp, folder) = folder();
    std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"x\xff")), "").unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/.hostwright"), "").unwrap();
    let mut reasons = Vec::new();
    folder
        .walk(|found| match found {
            Found::Unnamable { reason, .. } => reasons.push(reason),
            other => panic!("{other:?}"),
        })
        .unwrap();
    reasons.sort_by_key(Option::is_some);
    assert_eq!(reasons, [None, Some(crate::domain::secret::SkipReason::Own)]);
}

#[test]
fn one_writes_at_a_time_and_others_are_told_who() {
    let (_temp, folder) = folder();
    let writer = folder.writer(&permit(), "secrets fetch").unwrap();
    let other = Folder::open(folder.path()).unwrap();
    let error = other.writer(&permit(), "x").unwrap_err();
    assert!(
        error.to_string().contains(&format!("process {} (secrets fetch)", std::process::id())),
        "{error}"
    );
    writer.write_own("index.json", b"{}").unwrap();
    assert_eq!(other.read_own("index.json", 9).unwrap().unwrap(), b"{}");
    assert_eq!(mode(&folder.path().join(OWN).join("index.json")), 0o600);
    drop(writer);
    other.writer(&permit(), "x").unwrap();
}

#[test]
fn a_folder_that_is_missing_open_to_others_or_blind_to_letters_is_said() {
    let (temp, folder) = folder();
    assert!(matches!(Folder::open(&temp.path().join("none")), Err(FolderError::NotThere(_))));
    std::fs::write(temp.path().join("file"), "").unwrap();
    assert!(matches!(Folder::open(&temp.path().join("file")), Err(FolderError::Root { .. })));
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(folder.open_to_others().unwrap(), Some(0o755));
    // Stands for a file system where the two names are one folder.
    symlink(OWN, folder.path().join(OWN.to_uppercase())).unwrap();
    assert!(matches!(folder.writer(&permit(), "x"), Err(FolderError::CaseBlind(_))));
}

/// Says to this test's own process that it is to write until it is killed.
const VICTIM: &str = "HOSTWRIGHT_TEST_FOLDER_VICTIM";

fn write_for_ever(root: &Path) -> ! {
    let folder = Folder::open(root).unwrap();
    let writer = folder.writer(&permit(), "victim").unwrap();
    for round in 0u8.. {
        for name in ["a", "b/c", "b/d/e"] {
            let mut staged = writer.stage(&path(name)).unwrap();
            for _ in 0..64 {
                staged.write_all(&[round; 4_096]).unwrap();
            }
            staged.place(Over::Anything).unwrap();
            writer.write_own("index.json", &[round; 512]).unwrap();
        }
        if round == u8::MAX {
            break;
        }
    }
    std::process::exit(3);
}

#[test]
fn a_fetch_that_is_killed_leaves_whole_files_and_what_can_be_swept() {
    if let Some(root) = std::env::var_os(VICTIM) {
        write_for_ever(Path::new(&root));
    }
    let (_temp, folder) = folder();
    let mut left = 0;
    for round in 0..20u64 {
        let test = "backend::folder::tests::a_fetch_that_is_killed_leaves_whole_files_and_what_can_be_swept";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(VICTIM, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed at some point of its work, another one in each round.
        let begun = std::time::Instant::now();
        let first = folder.stat(&path("a")).unwrap().map(|stat| stat.stamp);
        while folder.stat(&path("a")).unwrap().map(|stat| stat.stamp) == first {
            assert!(
                begun.elapsed().as_secs() < 60 && child.try_wait().unwrap().is_none(),
                "it does not write"
            );
            std::thread::yield_now();
        }
        for _ in 0..round * 37 {
            std::hint::black_box(folder.stat(&path("b/c")).unwrap());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        folder
            .walk(|found| {
                let Found::File { path, .. } = found else { panic!("{found:?}") };
                let bytes = folder.read(&path, 1 << 20).unwrap().unwrap();
                assert!(
                    bytes.len() == 64 * 4_096 && bytes.iter().all(|byte| *byte == bytes[0]),
                    "{path} is in pieces"
                );
            })
            .unwrap();
        if let Some(index) = folder.read_own("index.json", 1 << 20).unwrap() {
            assert!(index.len() == 512 && index.iter().all(|byte| *byte == index[0]));
        }
        let writer = folder.writer(&permit(), "after").unwrap();
        left += writer.sweep().unwrap();
        assert!(tree(folder.path()).iter().all(|name| ["a", "b/c", "b/d/e"].contains(&name.as_str())));
        assert_eq!(writer.sweep().unwrap(), 0);
    }
    assert!(left > 0, "no round was killed while it wrote: the test shows nothing");
}
