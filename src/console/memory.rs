//! Where the console was, kept in a file an environment: `console/NAME.json` in the state folder. It is written a few seconds after a
//! change and at the end, so that whoever loses the line comes back to where they were.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::app::Place;
use crate::config::Variables;

/// The shortest time between two writes.
const PERIOD: Duration = Duration::from_secs(3);
/// How long the end waits for the last write: a home folder on a network may hang.
const LAST: Duration = Duration::from_secs(1);
/// A place takes a few hundred bytes; what is larger is none.
const LIMIT: u64 = 64 * 1024;

/// The file, and what it holds.
#[derive(Debug)]
pub(crate) struct Memory {
    /// None: nothing is kept.
    path: Option<PathBuf>,
    /// The newest place.
    newest: Place,
    /// It is not in the file yet, and must not be before then.
    due: Option<Instant>,
    /// When the next write may be.
    next: Instant,
    writing: Option<JoinHandle<()>>,
}

impl Memory {
    /// The memory of an environment, and what it remembers. A console without an environment has none.
    pub(crate) fn open(variables: &Variables, environment: &str) -> (Self, Option<Place>) {
        let folder = variables.state_dir().filter(|_| !environment.is_empty());
        let path = folder.map(|folder| folder.join("console").join(format!("{environment}.json")));
        let place = path.as_deref().and_then(|path| match read(path) {
            Ok(place) => Some(place),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let path = path.display();
                tracing::warn!("cannot read where the console was from {path}: {error}: it starts afresh");
                None
            }
        });
        (Self { path, newest: Place::default(), due: None, next: Instant::now(), writing: None }, place)
    }

    /// The place at the start: nothing to write.
    pub(crate) fn start(&mut self, place: Place) {
        self.newest = place;
    }

    /// Where the console is now.
    pub(crate) fn note(&mut self, place: Place) {
        if place != self.newest {
            self.newest = place;
            // Not before this change is over, such as the typing of a filter.
            self.due = self.due.or_else(|| Some(self.next.max(Instant::now() + PERIOD)));
        }
    }

    /// When [`Memory::write_if_due`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Writes what has changed, in the background, if it is time.
    pub(crate) fn write_if_due(&mut self) {
        if self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.next = Instant::now() + PERIOD;
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            self.due = Some(self.next);
            return;
        }
        self.due = None;
        self.writing = self.write();
    }

    fn write(&self) -> Option<JoinHandle<()>> {
        let (path, place) = (self.path.clone()?, self.newest.clone());
        Some(tokio::task::spawn_blocking(move || {
            if let Err(error) = write(&path, &place) {
                tracing::warn!("cannot keep where the console is in {}: {error}", path.display());
            }
        }))
    }

    /// Writes what is not written yet.
    pub(crate) async fn finish(mut self) {
        let last = async {
            if let Some(writing) = self.writing.take() {
                writing.await.ok();
            }
            if let Some(writing) = self.due.and_then(|_| self.write()) {
                writing.await.ok();
            }
        };
        if tokio::time::timeout(LAST, last).await.is_err() {
            tracing::warn!("where the console was could not be written in time");
        }
    }
}

fn read(path: &Path) -> io::Result<Place> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LIMIT).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Whole or not at all, for its owner only.
fn write(path: &Path, place: &Place) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // A temporary file is made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, place)?;
    file.write_all(b"\n")?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn place(screen: &str) -> Place {
        Place { screen: screen.into(), ..Place::default() }
    }

    fn variables(folder: &Path) -> Variables {
        [("XDG_STATE_HOME", folder)].into_iter().collect()
    }

    #[tokio::test]
    async fn what_changed_is_written_at_the_end_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let (mut memory, before) = Memory::open(&variables(folder.path()), "lan");
        assert_eq!(before, None);
        memory.start(place("hosts"));
        memory.note(place("hosts"));
        memory.finish().await;
        let path = folder.path().join("hostwright/console/lan.json");
        assert!(!path.exists(), "nothing has changed");

        let (mut memory, _) = Memory::open(&variables(folder.path()), "lan");
        memory.note(place("runs"));
        memory.write_if_due();
        assert!(memory.writing.is_none(), "it is too early");
        memory.finish().await;
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(Memory::open(&variables(folder.path()), "lan").1, Some(place("runs")));
        assert_eq!(Memory::open(&variables(folder.path()), "wan").1, None, "each environment has its own");
        assert_eq!(Memory::open(&variables(folder.path()), "").0.path, None);
    }

    #[tokio::test]
    async fn it_is_written_seldom_while_the_console_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (mut memory, _) = Memory::open(&variables(folder.path()), "lan");
        memory.note(place("runs"));
        let due = memory.due().unwrap();
        memory.note(place("queue"));
        assert_eq!(memory.due(), Some(due), "changes do not put it off");
        memory.due = Some(Instant::now());
        memory.write_if_due();
        assert_eq!(memory.due(), None);
        memory.writing.take().unwrap().await.unwrap();
        assert_eq!(Memory::open(&variables(folder.path()), "lan").1, Some(place("queue")));
        memory.note(place("hosts"));
        assert!(memory.due().unwrap() >= memory.next && memory.next > due - PERIOD);
    }

    #[test]
    fn a_broken_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hostwright/console/lan.json");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        for broken in ["", "{\"screen\": 3}", "\u{0}", "[1,"] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(Memory::open(&variables(folder.path()), "lan").1, None, "{broken:?}");
        }
    }
}
