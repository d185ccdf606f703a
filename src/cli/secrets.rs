//! `secrets list|status|fetch|upload|cat|diff|edit|history|restore|rm`.

mod edit;
mod grant;
mod print;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use tokio_util::sync::CancellationToken;

use super::{Failure, Format, Output, fail, finish, say};
use crate::config::Config;
use crate::domain::kube_auth::{NewRule, NewToken};
use crate::domain::secret::{SecretListing, SecretRow, Values, shown};
use crate::domain::text::bytes;
use crate::ops::OpError;
use crate::ops::environment::named;
use crate::ops::secrets::{self, Depth, Grant, Moved, Picked, Secrets, Sides, Transfer};

/// What is done with secrets.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the secrets with size, age, encryption and versions, and the bucket's own settings
    List {
        /// Keys or folders of keys; without any, all
        paths: Vec<String>,
    },
    /// Say which secrets differ between here and the bucket; exits with 1 when some do
    Status {
        /// Keys or folders of keys; without any, all
        paths: Vec<String>,
    },
    /// Fetch what was changed in the bucket into the local copy
    Fetch {
        /// Keys or folders of keys; without any, all
        paths: Vec<String>,
        /// Also over files that were changed here
        #[arg(long)]
        over: bool,
        /// Remove files whose objects were removed, when they are as they were fetched
        #[arg(long)]
        prune: bool,
    },
    /// Upload what was changed here, encrypted with the environment's key
    Upload {
        /// Keys or folders of keys; without any, all
        paths: Vec<String>,
        /// Also over what somebody else changed in the bucket
        #[arg(long)]
        over: bool,
    },
    /// Print a secret
    Cat {
        /// Its key
        key: String,
        /// An old version of it
        #[arg(long, value_name = "ID")]
        version: Option<String>,
    },
    /// Show what differs between the bucket and here, or between the bucket and an old version; values are hidden
    Diff {
        /// Its key
        key: String,
        /// Compare with this version
        #[arg(long, value_name = "ID")]
        version: Option<String>,
        /// Show the values
        #[arg(long)]
        show: bool,
    },
    /// Open a secret in $VISUAL or $EDITOR and upload it when it was changed and is valid
    Edit {
        /// Its key; one that is not there is made
        key: String,
    },
    /// List the versions of a secret
    History {
        /// Its key
        key: String,
    },
    /// Make an old version of a secret the newest
    Restore {
        /// Its key
        key: String,
        /// The version
        #[arg(long, value_name = "ID")]
        version: String,
    },
    /// Give a user a token of kube-auth; it is printed once
    GrantToken {
        /// The user's name
        user: String,
        /// A group; may be repeated
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// What tells two users of one name apart; without it the next free number
        #[arg(long)]
        uid: Option<String>,
        /// The key of the file; without it the only tokens.csv
        #[arg(long)]
        key: Option<String>,
    },
    /// Let a user or a group do something (a line of kube-auth's ABAC policy)
    GrantRule(Rule),
    /// List the users and groups that kube-auth's files know
    Names,
    /// Remove secrets from the bucket; old versions stay where the bucket keeps them
    Rm {
        /// Keys or folders of keys
        #[arg(required = true)]
        paths: Vec<String>,
    },
}

impl Command {
    /// Whether it changes something in the bucket.
    fn changes(&self) -> bool {
        match self {
            Self::Upload { .. }
            | Self::Edit { .. }
            | Self::Restore { .. }
            | Self::Rm { .. }
            | Self::GrantToken { .. }
            | Self::GrantRule(_) => true,
            Self::List { .. }
            | Self::Status { .. }
            | Self::Fetch { .. }
            | Self::Cat { .. }
            | Self::Diff { .. }
            | Self::History { .. }
            | Self::Names => false,
        }
    }
}

/// A line of the policy.
#[derive(Debug, Args)]
pub struct Rule {
    /// The user
    #[arg(long, required_unless_present = "group", conflicts_with = "group")]
    user: Option<String>,
    /// The group
    #[arg(long)]
    group: Option<String>,
    /// Only to look
    #[arg(long)]
    readonly: bool,
    /// In this namespace; * for all
    #[arg(long)]
    namespace: Option<String>,
    /// On this resource, such as pods; * for all
    #[arg(long)]
    resource: Option<String>,
    /// In this API group; * for all
    #[arg(long)]
    api_group: Option<String>,
    /// On this path that is no object's, such as /version; * for all
    #[arg(long)]
    path: Option<String>,
    /// The key of the file; without it the only abac.jsonl
    #[arg(long)]
    key: Option<String>,
}

/// Runs one command.
pub async fn run(command: Command, config: &Config, format: Format, shutdown: CancellationToken) -> ExitCode {
    let patience = match command {
        // The editor's own signals end it.
        Command::Edit { .. } => Duration::MAX,
        // What is under way gets the time to say what came of it.
        Command::Fetch { .. } | Command::Upload { .. } | Command::Rm { .. } => PATIENCE,
        _ => Duration::ZERO,
    };
    let late = async {
        shutdown.cancelled().await;
        match patience {
            Duration::MAX => std::future::pending().await,
            patience => tokio::time::sleep(patience).await,
        }
    };
    tokio::select! {
        done = go(command, config, format.output, shutdown.clone()) => finish(done),
        () = late => finish(Err(Failure { text: "interrupted".to_owned(), code: 130 })),
    }
}

/// How long a transfer may take to end once it is cancelled.
const PATIENCE: Duration = Duration::from_secs(3);

async fn go(
    command: Command,
    config: &Config,
    output: Output,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let named = named(config, None)?;
    // Said before anything is asked for.
    match command {
        Command::Fetch { .. } => config.permit().map(|_| ()),
        _ if command.changes() => secrets::permit(config, &named).map(|_| ()),
        _ => Ok(()),
    }
    .map_err(OpError::from)?;
    let secrets = super::code::asked(async |code| Secrets::open(config, &named, code).await).await?;
    let values = |show: bool| if show { Values::Shown } else { Values::Hidden };
    match command {
        Command::List { paths } => print::list(&look(&secrets, &paths, Depth::Details).await?, output),
        Command::Status { paths } => print::status(&look(&secrets, &paths, Depth::Details).await?, output),
        Command::Fetch { paths, over, prune } => {
            let wanted = wanted(&paths)?;
            let bar = Bar::new("fetched");
            let tell = |transfer| bar.tell(transfer);
            let moved = secrets.fetch(|key| wanted.has(key), None, (over, prune), &tell, &shutdown).await;
            bar.end();
            told(&moved?, &wanted, output)
        }
        Command::Upload { paths, over } => {
            let wanted = wanted(&paths)?;
            let bar = Bar::new("uploaded");
            let tell = |transfer| bar.tell(transfer);
            let moved = secrets.upload(|key| wanted.has(key), None, over, &tell, &shutdown).await;
            bar.end();
            told(&moved?, &wanted, output)
        }
        Command::Cat { key, version } => {
            let text = secrets.read(&key, version.as_deref()).await?;
            Ok(std::io::stdout().write_all(&text)?)
        }
        Command::Diff { key, version, show } => {
            let sides = version.map_or(Sides::Here, Sides::Version);
            print::compared(&secrets.compare(&key, &sides, values(show)).await?, output)
        }
        Command::Edit { key } => edit::run(&secrets, &key).await,
        Command::History { key } => print::history(&secrets.history(&key).await?, output),
        Command::Restore { key, version } => {
            secrets.restore(&key, &version).await?;
            Ok(say(&format!("{} is again what it was in version {version}", shown(&key)))?)
        }
        Command::GrantToken { user, groups, uid, key } => {
            let grant = Grant::Token(NewToken { user, uid, groups });
            grant::run(&secrets, key.as_deref(), &grant, output).await
        }
        Command::GrantRule(rule) => {
            let Rule { user, group, readonly, namespace, resource, api_group, path, key } = rule;
            let rule = NewRule { user, group, readonly, namespace, resource, api_group, path };
            grant::run(&secrets, key.as_deref(), &Grant::Rule(rule), output).await
        }
        Command::Names => print::names(&secrets.names().await?, output),
        Command::Rm { paths } => remove(&secrets, &paths, output, &shutdown).await,
    }
}

/// What the operator named: exact keys, or everything below a folder.
struct Wanted<'a> {
    paths: &'a [String],
}

fn wanted(paths: &[String]) -> Result<Wanted<'_>, Failure> {
    if paths.iter().any(String::is_empty) {
        return Err(Failure::usage("a key cannot be empty"));
    }
    Ok(Wanted { paths })
}

impl Wanted<'_> {
    fn has(&self, key: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|path| names(path, key))
    }

    /// Those that no key was named by.
    fn absent<'k>(&self, keys: &(impl Iterator<Item = &'k str> + Clone)) -> Vec<String> {
        let absent = self.paths.iter().filter(|path| !keys.clone().any(|key| names(path, key)));
        absent.map(|path| shown(path)).collect()
    }
}

fn names(path: &str, key: &str) -> bool {
    let folder = path.strip_suffix('/').unwrap_or(path);
    key == path || key.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

async fn look(secrets: &Secrets, paths: &[String], depth: Depth) -> Result<SecretListing, Failure> {
    let wanted = wanted(paths)?;
    let mut listing = secrets.look(depth).await?;
    listing.rows.retain(|row| wanted.has(&row.key));
    let absent = wanted.absent(&listing.rows.iter().map(|row| row.key.as_str()));
    missing(&absent)?;
    Ok(listing)
}

fn missing(absent: &[String]) -> Result<(), Failure> {
    if absent.is_empty() {
        return Ok(());
    }
    Err(OpError::NotFound(format!("secret {}", absent.join(", "))).into())
}

async fn remove(
    secrets: &Secrets,
    paths: &[String],
    output: Output,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let listing = look(secrets, paths, Depth::Listing).await?;
    let pick = |row: &SecretRow| Some(Picked { key: row.key.clone(), etag: Some(row.etag.clone()?) });
    let picked: Vec<Picked> = listing.rows.iter().filter_map(pick).collect();
    if picked.is_empty() {
        return Err(OpError::NotFound(format!("secret {} in the bucket", paths.join(", "))).into());
    }
    let moved = secrets.remove(&picked, &|_| {}, cancel).await?;
    told(&moved, &wanted(paths)?, output)
}

/// Prints what came of a transfer. The exit code is 4 where somebody has to decide, 1 where something failed or was left out.
fn told(moved: &Moved, wanted: &Wanted<'_>, output: Output) -> Result<(), Failure> {
    print::moved(moved, output)?;
    let keys = moved.outcomes.iter().map(|(key, _)| key.as_str());
    let absent = wanted.absent(&keys.chain(moved.skipped.iter().map(|(key, _)| key.as_str())));
    let mut code = 0;
    for (_, outcome) in &moved.outcomes {
        if let Err(problem) = outcome {
            let failure = Failure::from(problem.clone());
            fail(&failure.text);
            code = if code == 4 || failure.code == 4 { 4 } else { failure.code.max(1) };
        }
    }
    for (key, why) in &moved.skipped {
        fail(&format!("{key} is left out: {why}"));
        code = code.max(1);
    }
    if moved.cancelled {
        fail("cancelled: what is not named was not begun");
        code = code.max(1);
    }
    if code == 0 { missing(&absent) } else { Err(Failure::said(code)) }
}

/// How far a transfer is, on a terminal.
struct Bar {
    word: &'static str,
    last: Mutex<Option<Instant>>,
    terminal: bool,
}

impl Bar {
    fn new(word: &'static str) -> Self {
        Self { word, last: Mutex::default(), terminal: std::io::stderr().is_terminal() }
    }

    fn tell(&self, transfer: Transfer) {
        let Some(mut last) = self.last.lock().ok().filter(|_| self.terminal) else { return };
        if last.is_some_and(|at| at.elapsed() < Duration::from_millis(100)) {
            return;
        }
        *last = Some(Instant::now());
        let Transfer { files, of_files, bytes: done, of_bytes } = transfer;
        let text = format!("{} of {of_files} files, {} of {}", files, bytes(done), bytes(of_bytes));
        write!(std::io::stderr(), "\r\x1b[K{} {text}", self.word).ok();
    }

    fn end(&self) {
        if self.terminal {
            write!(std::io::stderr(), "\r\x1b[K").ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_path_names_its_key_and_what_is_below() {
        assert!(names("common/a", "common/a") && names("common", "common/a") && names("common/", "common/a"));
        assert!(!names("common/a", "common/ab") && !names("commo", "common/a"));
    }
}
