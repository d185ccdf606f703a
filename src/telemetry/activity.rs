//! The activity file: one JSON line for everything that was done, for its owner only. Whatever the log's filter says, it is
//! written; each line is one `write` to a file opened for appending, so that several processes can share it.

use std::fmt::Debug;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// What deeds are told under.
pub(super) const TARGET: &str = "hostwright::activity";
/// A file that is larger than this is put aside, and the one before it forgotten: 5 MiB.
const ROTATE_AT: u64 = 5 * 1024 * 1024;
/// The order of a line.
const FIELDS: [&str; 7] = ["at", "who", "environment", "action", "on", "outcome", "text"];

/// Writes the file.
pub(super) struct ActivityFile {
    path: PathBuf,
}

impl ActivityFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        let open = file.metadata()?;
        if open.len() > ROTATE_AT {
            // Another process may have done it meanwhile: only the file that was looked at is put aside.
            if std::fs::metadata(&self.path).is_ok_and(|now| now.ino() == open.ino()) {
                let mut aside = self.path.clone().into_os_string();
                aside.push(".old");
                std::fs::rename(&self.path, aside)?;
            }
            file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        }
        if open.mode() & 0o077 != 0 {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        file.write_all(line.as_bytes())
    }
}

impl<S: Subscriber> Layer<S> for ActivityFile {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said(Map::new());
        said.0.insert("at".to_owned(), Value::String(now()));
        event.record(&mut said);
        let mut line = Map::new();
        for field in FIELDS {
            line.insert(field.to_owned(), said.0.remove(field).unwrap_or_default());
        }
        let line = format!("{}\n", Value::Object(line));
        // A read-only disk must not stop a deed; the log tells what was done as well.
        self.append(&line).unwrap_or_else(|error| {
            tracing::debug!(%error, path = %self.path.display(), "the activity file cannot be written");
        });
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// An event's fields, as JSON.
struct Said(Map<String, Value>);

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(name(field), Value::String(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(name(field), Value::String(format!("{value:?}")));
    }
}

fn name(field: &Field) -> String {
    if field.name() == "message" { "text".to_owned() } else { field.name().to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tracing_subscriber::filter::filter_fn;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn each_deed_is_one_private_line_and_the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/activity.jsonl");
        let subscriber = tracing_subscriber::registry()
            .with(ActivityFile::new(path.clone()).with_filter(filter_fn(|m| m.target() == TARGET)));
        let tell = |who: &str| {
            tracing::info!(target: TARGET, who, environment = "test", action = "stop", on = "run x", outcome = "done", "a\nb");
            tracing::warn!(who, "something else");
        };
        tracing::subscriber::with_default(subscriber, || {
            tell("ann");
            tell("\"bob\"");
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(lines.len(), 2);
            assert!(lines[0]["at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
            let keys: Vec<&String> = lines[1].as_object().unwrap().keys().collect();
            assert_eq!(keys, FIELDS.map(str::to_owned).iter().collect::<Vec<_>>());
            assert_eq!((&lines[1]["who"], &lines[1]["text"]), (&"\"bob\"".into(), &"a\nb".into()));
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600);

            std::fs::File::options().write(true).open(&path).unwrap().set_len(ROTATE_AT + 1).unwrap();
            tell("cid");
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
            let old = folder.path().join("state/activity.jsonl.old");
            assert_eq!(std::fs::metadata(old).unwrap().len(), ROTATE_AT + 1);
        });
    }
}
