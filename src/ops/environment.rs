//! Environments: which there are, where their variables are, a playground's own, and what a shell in one needs.

mod check;
mod shell;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::config::{
    AwsSettings, Config, Environment, Mistakes, Permit, ReadOnly, VariablesFile, load_variables,
    variables_files,
};
use crate::domain::environment::{self, PLAY, VariableError};

pub use check::{Finding, State, check};
pub use shell::{Kind, Shell, ShellError, prepare};

/// What a new file of variables is made from; a team's own for playgrounds is `play.tfvars` beside the others.
const TEMPLATE: &str = include_str!("../../assets/environments/play.tfvars");
/// What stands for the environment's name in it.
const MARK: &str = "play-USER";

/// Why something about an environment was not done.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// There is nobody to make a playground for.
    #[error(
        "the environment `play` is a user's own, and there is no user's name: set USER, or platform.user in the configuration"
    )]
    NoUser,
    /// The operator's name cannot be part of an environment's.
    #[error(
        "{user:?} {error}: set platform.user in the configuration (or HOSTWRIGHT_PLATFORM__USER) to one that can"
    )]
    User {
        /// The name.
        user: String,
        /// Why.
        error: VariableError,
    },
    /// It cannot be an environment's name.
    #[error("{0:?} {1}")]
    Name(String, VariableError),
    /// Which one?
    #[error("no environment is named: give its NAME, -e NAME or HOSTWRIGHT_ENV=NAME")]
    None,
    /// There is no such file.
    #[error("there are no variables of {name}: {path} is not there: `hostwright env init {name}` makes it")]
    NotThere {
        /// The environment.
        name: String,
        /// Where its file would be.
        path: PathBuf,
    },
    /// The file is there already.
    #[error("{0} is there already, and is left as it is")]
    Exists(PathBuf),
    /// Nothing may be changed.
    #[error(transparent)]
    ReadOnly(#[from] ReadOnly),
    /// A file or folder could not be read or written.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

impl EnvironmentError {
    /// The command's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoUser | Self::User { .. } | Self::Name(..) | Self::None | Self::Mistakes(_) => 2,
            Self::NotThere { .. } => 3,
            Self::Exists(_) | Self::ReadOnly(_) => 4,
            Self::File { .. } => 1,
        }
    }
}

/// An environment by its whole name, and where its variables are or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name: `play-olga` for `play`.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its name in the configuration: `play` for the operator's own playground.
    pub configured: String,
}

impl Named {
    /// Its table in the configuration, if it has one.
    #[must_use]
    pub fn settings<'c>(&self, config: &'c Config) -> Option<&'c Environment> {
        config.environments.get(&self.name).or_else(|| config.environments.get(&self.configured))
    }

    /// How its AWS is reached, as the configuration says.
    #[must_use]
    pub fn aws(&self, config: &Config) -> AwsSettings {
        self.settings(config).map(|settings| settings.aws.clone()).unwrap_or_default()
    }

    /// The profile of its credentials in the shared files: the one that the configuration or its variables name, else its own name;
    /// `play` for any playground.
    #[must_use]
    pub fn profile(&self, config: &Config, file: Option<&VariablesFile>) -> String {
        let usual = || if environment::is_play(&self.name) { PLAY } else { &self.name }.to_owned();
        let own = self.aws(config).profile;
        own.or_else(|| file.and_then(|file| file.variables.aws_profile.clone())).unwrap_or_else(usual)
    }

    /// The folder of its manifests and their templates.
    #[must_use]
    pub fn manifests(&self, config: &Config) -> PathBuf {
        let own = self.settings(config).and_then(|settings| settings.manifests.clone());
        own.unwrap_or_else(|| config.platform.manifests.clone())
    }

    /// The folder of its secrets' local copy.
    #[must_use]
    pub fn secrets(&self, config: &Config) -> PathBuf {
        let own = self.settings(config).and_then(|settings| settings.secrets.clone());
        own.unwrap_or_else(|| config.platform.secrets.join(&self.name))
    }

    /// Whether its file is there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.path.exists()
    }
}

/// The operator's name: that of the configuration, else the session's.
fn user(config: &Config) -> Result<String, EnvironmentError> {
    let of_session = || {
        ["USER", "LOGNAME"].iter().filter_map(|name| std::env::var(name).ok()).find(|user| !user.is_empty())
    };
    let user = config.platform.user.clone().or_else(of_session).ok_or(EnvironmentError::NoUser)?;
    environment::user(&user).map_err(|error| EnvironmentError::User { user: user.clone(), error })?;
    Ok(user)
}

/// The environment that a name means; without one that which the configuration chooses.
///
/// # Errors
/// When there is none to choose, or the name cannot be one.
pub fn named(config: &Config, name: Option<&str>) -> Result<Named, EnvironmentError> {
    let asked = || config.default_environment.clone();
    let only = || config.settings(None).ok().map(|settings| settings.environment.name);
    let name = match name {
        Some(name) => name.to_owned(),
        None => asked().or_else(only).ok_or(EnvironmentError::None)?,
    };
    environment::environment_name(&name).map_err(|error| EnvironmentError::Name(name.clone(), error))?;
    let own = user(config).map(|user| environment::play_of(&user));
    let (name, configured) = match own {
        Ok(own) if name == PLAY || name == own => (own, PLAY.to_owned()),
        Err(error) if name == PLAY => return Err(error),
        _ => (name.clone(), name),
    };
    let path = config.platform.environments.join(format!("{name}.tfvars"));
    let mut named = Named { name, path, configured };
    if let Some(path) = named.settings(config).and_then(|settings| settings.variables.clone()) {
        named.path = path;
    }
    Ok(named)
}

/// All environments that have variables or stand in the configuration, sorted; the operator's own playground is always one.
///
/// # Errors
/// When the folder cannot be read.
pub fn all(config: &Config) -> Result<Vec<Named>, EnvironmentError> {
    let folder = &config.platform.environments;
    let failed = |source| EnvironmentError::File { doing: "read the folder", path: folder.clone(), source };
    let files = variables_files(folder).map_err(failed)?.into_iter().map(|(name, _)| name);
    let names = files.chain(config.environments.keys().cloned()).chain([PLAY.to_owned()]);
    // A file whose name can be no environment's is none; without a user's name there is no playground.
    let mut all: Vec<Named> = names.filter_map(|name| named(config, Some(&name)).ok()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup();
    Ok(all)
}

/// Reads an environment's variables. The operator's own playground gets its file on first use.
///
/// # Errors
/// When there is no such file, it has mistakes, or it cannot be made.
pub fn variables(config: &Config, named: &Named) -> Result<VariablesFile, EnvironmentError> {
    if let (false, PLAY, Ok(permit)) = (named.is_there(), named.configured.as_str(), config.permit()) {
        match init(&permit, config, named) {
            // Another shell was quicker: the file is as good.
            Ok(()) | Err(EnvironmentError::Exists(_)) => {}
            Err(error) => return Err(error),
        }
    }
    if !named.is_there() {
        return Err(EnvironmentError::NotThere { name: named.name.clone(), path: named.path.clone() });
    }
    Ok(load_variables(&named.path, &named.name)?)
}

/// Makes an environment's file of variables from the template, for its owner only. One that is there is never touched.
///
/// # Errors
/// When it is there already, or cannot be written; when a team's own template does not make a file for this environment.
pub fn init(_: &Permit, config: &Config, named: &Named) -> Result<(), EnvironmentError> {
    let path = &named.path;
    if path.symlink_metadata().is_ok() {
        return Err(EnvironmentError::Exists(path.clone()));
    }
    let own = config.platform.environments.join(format!("{PLAY}.tfvars"));
    let text = match std::fs::read_to_string(&own) {
        Ok(text) if named.configured == PLAY => text,
        Err(source) if named.configured == PLAY && source.kind() != std::io::ErrorKind::NotFound => {
            return Err(EnvironmentError::File { doing: "read the template", path: own, source });
        }
        _ => in_region(TEMPLATE),
    };
    write_new(path, &text.replace(MARK, &named.name)).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => EnvironmentError::Exists(path.clone()),
        _ => EnvironmentError::File { doing: "write", path: path.clone(), source },
    })?;
    tracing::info!(
        target: "hostwright::activity",
        who = std::env::var("USER").unwrap_or_default(),
        environment = named.name,
        action = "init",
        on = %path.display(),
        outcome = "done",
        "its variables were made from the template"
    );
    Ok(())
}

/// The template for the region that the operator's variables name.
fn in_region(text: &str) -> String {
    let names = ["AWS_REGION", "AWS_DEFAULT_REGION"];
    let region =
        names.iter().filter_map(|name| std::env::var(name).ok()).find(|r| environment::region(r).is_ok());
    region.map_or_else(|| text.to_owned(), |region| text.replace(environment::DEFAULT_REGION, &region))
}

/// Writes a file that is not there yet, whole or not at all; a temporary file has mode 0600.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map(|_| ()).map_err(|error| error.error)
}
