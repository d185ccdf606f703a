//! `debug-bundle`: one text file with all that helps to understand a problem, and no secret: what is masked in the configuration is
//! taken out of everything else as well.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::{Failure, finish, say};
use crate::backend::amqp::Broker;
use crate::backend::ara::Ara;
use crate::backend::kube::Kube;
use crate::config::{Config, Mistakes, Secret, Settings, Variables, redact};
use crate::domain::{BackEnd, Problem, ProblemKind};

/// How much of the log's end.
const LOG_BYTES: u64 = 2 * 1024 * 1024;
/// How long a back end has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A file with a token is short.
const TOKEN_BYTES: u64 = 64 * 1024;

/// Where to.
#[derive(Debug, Clone, Args)]
pub struct Bundle {
    /// The file to write, which must not be there yet; else one named after the time, in this folder
    pub file: Option<PathBuf>,
}

/// What `main.rs` knows.
#[derive(Debug)]
pub struct Known {
    /// The configuration, or what is wrong with it.
    pub config: Result<Config, Mistakes>,
    /// Where the console's log is.
    pub log: Option<PathBuf>,
}

/// Variables that decide how a terminal is treated. None can hold a secret.
const TERMINAL: [&str; 18] = [
    "TERM",
    "COLORTERM",
    "COLORFGBG",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "VTE_VERSION",
    "TMUX",
    "STY",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "NO_COLOR",
    "COLUMNS",
    "LINES",
    "SSH_TTY",
    "TZ",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
];
/// Variables of which it is enough to know whether they are there.
const PRESENT: [&str; 7] =
    ["KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "NO_PROXY"];

/// Collects everything, writes the file and says where it is.
pub async fn run(args: Bundle, known: Known) -> ExitCode {
    finish(Box::pin(write(args, known)).await)
}

async fn write(args: Bundle, known: Known) -> Result<(), Failure> {
    let now = Timestamp::now();
    let usual = || PathBuf::from(format!("hostwright-debug-{}.txt", now.strftime("%Y%m%dT%H%M%SZ")));
    let path = args.file.unwrap_or_else(usual);
    let failed = |error: io::Error| {
        let advice = match error.kind() {
            io::ErrorKind::AlreadyExists => ": name another, or remove it",
            _ => "",
        };
        Failure { text: format!("cannot write {}: {error}{advice}", path.display()), code: 1 }
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let text = Box::pin(collect(&known, now)).await;
    file.write_all(text.as_bytes()).map_err(failed)?;
    say(&format!(
        "wrote {} ({} bytes), without secrets: read it before you send it",
        path.display(),
        text.len()
    ))?;
    Ok(())
}

async fn collect(known: &Known, now: Timestamp) -> String {
    let variables = Variables::of_process();
    let mut secrets = known.config.as_ref().map(secrets).unwrap_or_default();
    let mut text = format!("hostwright debug bundle, {now}\n");
    section(&mut text, "program", &program());
    section(&mut text, "system", &system());
    section(&mut text, "terminal", &terminal());
    match &known.config {
        Err(mistakes) => section(&mut text, "configuration", &format!("it has mistakes:\n{mistakes}")),
        Ok(config) => {
            let warnings: String =
                config.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
            section(&mut text, "configuration", &format!("{warnings}{}", config.to_toml(true)));
            match config.settings(None) {
                Ok(settings) => {
                    section(&mut text, "back ends", &Box::pin(back_ends(&settings, &mut secrets)).await);
                    section(&mut text, "rights on the cluster", &Box::pin(rights(&settings)).await);
                }
                Err(mistakes) => section(&mut text, "back ends", &format!("not asked: {mistakes}")),
            }
        }
    }
    section(&mut text, "folders and files", &places(&variables, known));
    section(&mut text, "log, its end", &log(known.log.as_deref()));
    redact(&text, &secrets)
}

fn section(text: &mut String, title: &str, body: &str) {
    // Nothing that was written by others moves a cursor when this is read.
    let body: Vec<String> = body.lines().map(crate::domain::text::plain).collect();
    let _ = write!(text, "\n== {title}\n\n{}\n", body.join("\n"));
}

/// Those of the configuration, and the content of the files that it names.
fn secrets(config: &Config) -> Vec<Secret> {
    let mut all = config.secrets();
    for path in config.secret_files() {
        let mut content = String::new();
        let read = File::open(path).and_then(|file| file.take(TOKEN_BYTES).read_to_string(&mut content));
        if read.is_ok() && !content.trim().is_empty() {
            all.push(Secret::new(content.trim()));
        }
    }
    all
}

fn program() -> String {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    let exe = std::env::current_exe().map_or_else(|error| error.to_string(), |exe| described(&exe));
    format!("hostwright {} ({build}, {arch} {os})\n{exe}", env!("CARGO_PKG_VERSION"))
}

fn system() -> String {
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory: Vec<&str> = memory.lines().take(3).collect();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "{} {} {}\n{}\n{cores} cores\n{}\nuser {}",
        word(uname.sysname()),
        word(uname.release()),
        word(uname.machine()),
        name.trim_matches('"'),
        memory.join("\n"),
        rustix::process::getuid().as_raw()
    )
}

fn terminal() -> String {
    let mut text = String::new();
    for name in TERMINAL {
        if let Some(value) = std::env::var_os(name) {
            let _ = writeln!(text, "{name}={}", value.to_string_lossy());
        }
    }
    let ours = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours = ours.filter(|name| name.starts_with("HOSTWRIGHT_"));
    let present =
        PRESENT.iter().filter(|name| std::env::var_os(name).is_some()).map(|name| (*name).to_owned());
    for name in ours.chain(present) {
        let _ = writeln!(text, "{name} is set");
    }
    match rustix::termios::tcgetwinsize(io::stdin()) {
        Ok(size) => {
            let _ = write!(text, "{} columns, {} rows", size.ws_col, size.ws_row);
        }
        Err(_) => text.push_str("standard input is no terminal"),
    }
    text
}

/// How each back end answers now.
async fn back_ends(settings: &Settings, secrets: &mut Vec<Secret>) -> String {
    let environment = &settings.environment;
    let mut server = None;
    let cluster = async {
        let kube =
            Kube::connect(&environment.kubernetes).await.map_err(|e| e.problem(BackEnd::Cluster.word()))?;
        server = Some(Secret::new(kube.server()));
        kube.ping().await.map_err(|e| e.problem(BackEnd::Cluster.word()))
    };
    let queue = async {
        let Some(amqp) = &environment.amqp else { return Ok("not used".to_owned()) };
        let broker = Broker::new(amqp).map_err(|e| e.problem())?;
        broker.connect().await.map_err(|e| e.problem())?;
        Ok("connected".to_owned())
    };
    let ara = async {
        let Some(ara) = &environment.ara else { return Ok("not used".to_owned()) };
        let ara = Ara::new(ara).map_err(|e| e.problem())?;
        ara.ping().await.map_err(|e| e.problem())?;
        Ok("answers".to_owned())
    };
    let (cluster, queue, ara) = tokio::join!(
        asked(BackEnd::Cluster, cluster),
        asked(BackEnd::Queue, queue),
        asked(BackEnd::Ara, ara)
    );
    // The playground's address holds its token.
    secrets.splice(0..0, server);
    format!("environment {}\n{cluster}{queue}{ara}", environment.name)
}

/// What the cluster lets us do.
async fn rights(settings: &Settings) -> String {
    let environment = &settings.environment;
    let kube = match Kube::connect(&environment.kubernetes).await {
        Ok(kube) => kube,
        Err(error) => return format!("not asked: {error}"),
    };
    match tokio::time::timeout(PATIENCE, crate::ops::rights::look(&kube, environment)).await {
        Ok(rights) => super::permissions::summary(&rights),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    }
}

async fn asked(back_end: BackEnd, asking: impl Future<Output = Result<String, Problem>>) -> String {
    let begun = std::time::Instant::now();
    let limit = || {
        let text = format!("no answer within {} s", PATIENCE.as_secs());
        Err(Problem::new(back_end.word(), ProblemKind::Unreachable, text))
    };
    let said = tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| limit());
    let took = begun.elapsed().as_millis();
    match said {
        Ok(said) => format!("{}: {said} ({took} ms)\n", back_end.word()),
        Err(problem) => format!("{}: {:?}: {problem} ({took} ms)\n", back_end.word(), problem.kind),
    }
}

/// What is there, whose it is and who may read it.
fn places(variables: &Variables, known: &Known) -> String {
    let (config, state) = (variables.config_dir(), variables.state_dir());
    let inside = |folder: &Option<PathBuf>, name: &str| folder.as_ref().map(|folder| folder.join(name));
    let mut paths: Vec<PathBuf> = [
        config.clone(),
        inside(&config, "config.toml"),
        inside(&config, "themes"),
        state.clone(),
        inside(&state, "activity.jsonl"),
        inside(&state, "console"),
        known.log.as_deref().and_then(Path::parent).map(Path::to_path_buf),
        known.log.clone(),
        variables.play_dir(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Ok(config) = &known.config {
        paths.extend(config.files.iter().map(PathBuf::from));
        paths.extend(config.secret_files().cloned());
        paths.extend(config.environments.values().filter_map(|e| e.kubernetes.kubeconfig.clone()));
    }
    paths.dedup();
    paths.iter().map(|path| described(path) + "\n").collect()
}

fn described(path: &Path) -> String {
    match path.metadata() {
        Ok(found) => {
            let kind = if found.is_dir() { "folder" } else { "file" };
            let (mode, owner, size) = (found.mode() & 0o7777, found.uid(), found.len());
            format!("{} {kind} {mode:04o} user {owner} {size} bytes", path.display())
        }
        Err(error) => format!("{} {error}", path.display()),
    }
}

fn log(path: Option<&Path>) -> String {
    let Some(path) = path else { return "none: there is no home folder".to_owned() };
    match end_of(path) {
        Ok(text) => text,
        Err(error) => format!("{}: {error}", path.display()),
    }
}

/// The end of a file, from the beginning of a line on.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_, whole)) if skipped > 0 => format!("(the {skipped} bytes before are left out)\n{whole}"),
        _ => text.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_only_whole_lines_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "short\n").unwrap();
        assert_eq!(end_of(&path).unwrap(), "short\n");
        let line = format!("{}\n", "x".repeat(1022));
        std::fs::write(&path, format!("first\n{}last\n", line.repeat(2100))).unwrap();
        let end = end_of(&path).unwrap();
        assert!(end.starts_with("(the ") && end.ends_with("x\nlast\n") && !end.contains("first"));
        assert!(end.lines().skip(1).all(|l| l.len() == 1022 || l == "last"), "whole lines");
        assert!(u64::try_from(end.len()).unwrap() <= LOG_BYTES + 100);
    }
}
