//! Logs: to a file in the console, structured on stderr elsewhere; and the activity file. `main.rs` calls one of the two once, before anything else
//! runs. Never log a secret: nothing here could tell.

mod activity;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub use tracing::Level;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::config::Variables;
use activity::ActivityFile;

/// A log that is larger than this when the console starts is put aside: 5 MiB.
const ROTATE_AT: u64 = 5 * 1024 * 1024;

/// Why logs cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// They were set up before.
    #[error("cannot set up logs: they are set up already")]
    AlreadyInitialised,
    /// `HOSTWRIGHT_LOG` holds no filter.
    #[error(
        "cannot read HOSTWRIGHT_LOG={text:?}: {reason}; write a level such as \"debug\", or \"warn,hostwright=debug\""
    )]
    Filter {
        /// What it holds.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `HOSTWRIGHT_LOG_FORMAT` is neither of its words.
    #[error("cannot read HOSTWRIGHT_LOG_FORMAT={0:?}: it is \"text\" or \"json\"")]
    Format(String),
    /// The log file cannot be opened.
    #[error("cannot write the log {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Where the console's log is: `$XDG_STATE_HOME/hostwright/log/hostwright.log`, else below `~/.local/state`. None when there
/// is no home.
#[must_use]
pub fn log_file(variables: &Variables) -> Option<PathBuf> {
    Some(variables.state_dir()?.join("log").join("hostwright.log"))
}

/// Where everything that was done is noted: `$XDG_STATE_HOME/hostwright/activity.jsonl`, else below `~/.local/state`. None when
/// there is no home.
#[must_use]
pub fn activity_file(variables: &Variables) -> Option<PathBuf> {
    Some(variables.state_dir()?.join("activity.jsonl"))
}

/// Logs to stderr, from `level` up unless `HOSTWRIGHT_LOG` says otherwise: servers give `INFO`, commands and `provision` `WARN`.
///
/// Text for people on a terminal, JSON elsewhere or with `json`; `HOSTWRIGHT_LOG_FORMAT` (`text` or `json`) decides before both.
///
/// # Errors
/// When a variable cannot be read, or logs are set up already.
pub fn init_stderr(json: bool, level: Level) -> Result<(), TelemetryError> {
    let json = match variable("HOSTWRIGHT_LOG_FORMAT").as_deref() {
        None => json || !io::stderr().is_terminal(),
        Some("json") => true,
        Some("text") => false,
        Some(other) => return Err(TelemetryError::Format(other.to_owned())),
    };
    install(filter(variable("HOSTWRIGHT_LOG").as_deref(), level)?, io::stderr, json)
}

/// Logs to a file, for the console, whose terminal takes nothing else; from INFO up unless `HOSTWRIGHT_LOG` says otherwise.
///
/// The file is for its owner only, as is its folder. Larger than 5 MiB, it becomes `….1` first and replaces the last one.
///
/// # Errors
/// When the file cannot be written, `HOSTWRIGHT_LOG` cannot be read, or logs are set up already.
pub fn init_file(path: &Path) -> Result<(), TelemetryError> {
    let filter = filter(variable("HOSTWRIGHT_LOG").as_deref(), Level::INFO)?;
    let file = open(path).map_err(|error| TelemetryError::File { path: path.to_path_buf(), error })?;
    // One line is one short write to a file: a lock around it delays nobody.
    install(filter, Mutex::new(file), false)
}

/// An empty variable counts as absent; one that is not UTF-8 is reported by who reads it.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

/// Our own events from `level` up, those of the libraries from WARN up; a bare level in the variable is for ours too.
fn filter(text: Option<&str>, level: Level) -> Result<EnvFilter, TelemetryError> {
    let refuse = |text: &str, reason: String| TelemetryError::Filter { text: text.to_owned(), reason };
    let directives = match text {
        None => ours(level),
        Some(text) => match text.parse::<Level>() {
            Ok(level) => ours(level),
            // A word alone is read as the name of a crate by the filter: for us it is a level with a slip in it.
            Err(_) if !text.contains(['=', ',']) && text != "off" => {
                return Err(refuse(text, "there is no such level".to_owned()));
            }
            Err(_) => text.to_owned(),
        },
    };
    EnvFilter::builder().parse(&directives).map_err(|error| refuse(&directives, error.to_string()))
}

fn ours(level: Level) -> String {
    let libraries = if level == Level::ERROR { Level::ERROR } else { Level::WARN };
    // What these call an error is told by our own errors, in our words, or is none (a channel that closes when we are done).
    format!("{libraries},lapin=off,kube_client=off,hostwright={level}")
}

fn install<W>(filter: EnvFilter, writer: W, json: bool) -> Result<(), TelemetryError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A log that nobody takes any more must not end the program: by itself the subscriber would complain on stderr, and panic.
    let log = fmt::layer().log_internal_errors(false).with_writer(writer);
    let log = if json { log.json().flatten_event(true).boxed() } else { log.boxed() };
    let activity = activity_file(&Variables::of_process()).map(ActivityFile::new);
    // What was done is noted whatever the log leaves out.
    let activity = activity.map(|file| file.with_filter(filter_fn(|m| m.target() == activity::TARGET)));
    let installed =
        set_global_default(tracing_subscriber::registry().with(log.with_filter(filter)).with(activity));
    installed.map_err(|_| TelemetryError::AlreadyInitialised)
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if std::fs::metadata(path).is_ok_and(|log| log.len() > ROTATE_AT) {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".1");
        std::fs::rename(path, aside)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    // A file from before may be readable for others.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_log_is_private_and_put_aside_when_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/log/hostwright.log");
        writeln!(open(&path).unwrap(), "first").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        writeln!(open(&path).unwrap(), "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        assert_eq!(mode(&path), 0o600);

        File::options().write(true).open(&path).unwrap().set_len(ROTATE_AT + 1).unwrap();
        drop(open(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(
            std::fs::metadata(folder.path().join("a/log/hostwright.log.1")).unwrap().len(),
            ROTATE_AT + 1
        );
    }

    #[test]
    fn filters_are_levels_or_directives() {
        let read = |text| filter(text, Level::INFO).map(|f| f.to_string());
        assert_eq!(read(None).unwrap(), "kube_client=off,hostwright=info,lapin=off,warn");
        assert_eq!(read(Some("debug")).unwrap(), "kube_client=off,hostwright=debug,lapin=off,warn");
        assert_eq!(read(Some("off")).unwrap(), "off");
        assert_eq!(read(Some("warn,lapin=trace")).unwrap(), "lapin=trace,warn");
        for bad in ["debgu", "hostwright=loud", "a=b=c"] {
            assert!(matches!(read(Some(bad)), Err(TelemetryError::Filter { .. })), "{bad}");
        }
    }

    #[test]
    fn a_second_set_up_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let results = [1, 2].map(|n| init_file(&folder.path().join(n.to_string())));
        assert!(matches!(results[1], Err(TelemetryError::AlreadyInitialised)), "{results:?}");
    }

    #[test]
    fn the_logs_place_follows_xdg() {
        let of = |vars: &[(&str, &str)]| log_file(&vars.iter().copied().collect());
        let home = ("HOME", "/home/o");
        assert_eq!(of(&[home]), Some("/home/o/.local/state/hostwright/log/hostwright.log".into()));
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "/s")]), Some("/s/hostwright/log/hostwright.log".into()));
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "s")]), of(&[home]), "a relative one is ignored");
        assert_eq!(of(&[]), None);
    }
}
