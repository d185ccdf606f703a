//! Finds the layers of the configuration and reads them. The one place of `config` that touches files and the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::looks::{self, ThemeFile};
use super::merged::{Config, unknown};
use super::parse::{self, PAIRS, TOP};
use super::place::{Layer, LayerKind, Mistake, MistakeKind, Mistakes, Place};
use super::reader::{World, variable_name};
use super::tree::{self, Table};
use super::variables::{self, VariablesFile};

/// Every setting with its default and a comment. It is the default.
pub const DEFAULT: &str = include_str!("../../config.toml");

/// A configuration is text that somebody wrote; larger is a mistake.
const FILE_LIMIT: u64 = 1024 * 1024;
const SECRET_LIMIT: u64 = 64 * 1024;

/// What the command line says about the configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--config`: the operator's file; none: `HOSTWRIGHT_CONFIG`, else the usual place.
    pub file: Option<PathBuf>,
    /// `-e`: the environment.
    pub environment: Option<String>,
    /// `--read-only`.
    pub read_only: bool,
    /// Files that are laid over the operator's, if they exist: the playground's.
    pub extra: Vec<PathBuf>,
}

/// The variables of the process, or of a test.
#[derive(Debug, Clone, Default)]
pub struct Variables(BTreeMap<String, OsString>);

impl Variables {
    /// Those of this process. A name that is not UTF-8 is none of ours.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }

    /// A variable that is a path. An empty one counts as absent.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// One of the folders of the XDG base directory specification, which ignores relative ones.
    fn folder(&self, name: &str, below_home: &str) -> Option<PathBuf> {
        let home = || self.path("HOME").map(|home| home.join(below_home));
        self.path(name).filter(|path| path.is_absolute()).or_else(home).map(|path| path.join("hostwright"))
    }

    /// The folder of the operator's file and themes.
    #[must_use]
    pub fn config_dir(&self) -> Option<PathBuf> {
        self.folder("XDG_CONFIG_HOME", ".config")
    }

    /// The folder of what we keep: logs, the playground.
    #[must_use]
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.folder("XDG_STATE_HOME", ".local/state")
    }

    /// The playground's folder; it writes a `config.toml` there.
    #[must_use]
    pub fn play_dir(&self) -> Option<PathBuf> {
        self.path("HOSTWRIGHT_PLAY_DIR").or_else(|| Some(self.state_dir()?.join("play")))
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Reads all layers: the embedded default, the operator's file, the extra files, the variables, the command line.
///
/// # Errors
/// All mistakes at once, each with its place.
pub fn load(sources: &Sources) -> Result<Config, Mistakes> {
    load_with(sources, &Variables::of_process())
}

/// The same with given variables.
///
/// # Errors
/// All mistakes at once, each with its place.
pub fn load_with(sources: &Sources, variables: &Variables) -> Result<Config, Mistakes> {
    let mut layers = Layers::default();
    layers.text(&Layer::new(0, "config.toml (built in)", LayerKind::BuiltIn), DEFAULT);
    layers.operators_file(sources, variables);
    for path in &sources.extra {
        layers.file(path, None);
    }
    layers.variables(variables);
    tree::settle_pairs(&mut layers.tree, &PAIRS);

    let home = variables.path("HOME");
    let working = std::env::current_dir().ok();
    let world = World { home: home.as_deref(), working: working.as_deref(), read_secret: &read_secret };
    let (parsed, mut findings) = parse::read(layers.tree, &world);
    findings.mistakes.append(&mut layers.mistakes);
    findings.warnings.extend(lookalikes(variables, &findings.known));
    let folder = variables.config_dir().map(|folder| folder.join("themes"));
    let theme_path = |name: &str| Some(folder.as_ref()?.join(format!("{name}.toml")));
    let (looks, mut mistakes) =
        looks::read(&parsed.console, &findings.shown, layers.rank, |name| theme_file(theme_path(name)));
    findings.mistakes.append(&mut mistakes);
    layers.watched.extend(theme_path(&parsed.console.theme));

    let asked = chosen(sources, variables, layers.rank).or(parsed.default);
    if !findings.mistakes.is_empty() {
        if let Some((name, place)) = asked.filter(|(name, _)| !parsed.environments.contains_key(name)) {
            findings.mistakes.push(unknown(&name, Some(&place), &parsed.environments));
        }
        return Err(Mistakes::new(findings.mistakes));
    }
    let (default_environment, asked) = asked.unzip();
    Ok(Config {
        console: parsed.console,
        looks,
        server: parsed.server,
        job: parsed.job,
        provision: parsed.provision,
        platform: parsed.platform,
        deploy: parsed.deploy,
        environments: parsed.environments,
        default_environment,
        warnings: findings.warnings,
        read_only: sources.read_only,
        files: layers.files,
        watched: layers.watched,
        known: findings.known,
        asked,
        shown: findings.shown,
    })
}

/// Reads an environment's variables from its file, `environments/NAME.tfvars`.
///
/// # Errors
/// All mistakes at once, each with its place.
pub fn load_variables(path: &Path, name: &str) -> Result<VariablesFile, Mistakes> {
    let mut layers = Layers::default();
    let Some((layer, text)) = layers.file_text(path, None) else {
        if layers.mistakes.is_empty() {
            let layer = Layer::new(0, path.display().to_string(), LayerKind::Flag);
            let text = "there is no such file";
            layers.mistakes.push(Mistake::new(&Place::whole(&layer), MistakeKind::Unreadable, text));
        }
        return Err(Mistakes::new(layers.mistakes));
    };
    let read_secret = |_: &Path| Err("is not read here".to_owned());
    let world = World { home: None, working: None, read_secret: &read_secret };
    variables::read(path, &layer, text.trim_start_matches('\u{feff}'), name, &world)
}

/// The names of the files of variables in a folder, sorted; a folder that is not there has none.
///
/// # Errors
/// When the folder cannot be read.
pub fn variables_files(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|n| n.strip_suffix(".tfvars"));
        if let Some(name) = name.filter(|name| !name.is_empty() && !name.starts_with('.')) {
            files.push((name.to_owned(), path.clone()));
        }
    }
    files.sort();
    Ok(files)
}

/// The theme of this name in the configuration folder, which need not be there.
fn theme_file(path: Option<PathBuf>) -> ThemeFile {
    let text = match path.as_deref().map(|path| read(path, FILE_LIMIT)) {
        None => Ok(None),
        Some(Ok((bytes, _))) => String::from_utf8(bytes).map(Some).map_err(io::Error::other),
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Some(Err(error)) => Err(error),
    };
    (path, text)
}

/// The layers so far, laid over one another.
#[derive(Default)]
struct Layers {
    tree: Table,
    mistakes: Vec<Mistake>,
    files: Vec<String>,
    /// Also those that are not there yet.
    watched: Vec<PathBuf>,
    /// The rank of the next layer.
    rank: usize,
}

impl Layers {
    fn text(&mut self, layer: &Arc<Layer>, text: &str) {
        let (table, mut mistakes) = tree::parse(layer, text);
        tree::merge(&mut self.tree, table);
        self.mistakes.append(&mut mistakes);
        self.rank = layer.rank + 1;
    }

    fn operators_file(&mut self, sources: &Sources, variables: &Variables) {
        let usual = || variables.config_dir().map(|folder| folder.join("config.toml"));
        if let Some(path) = &sources.file {
            self.file(path, Some("--config"));
        } else if let Some(path) = variables.path("HOSTWRIGHT_CONFIG") {
            self.file(&path, Some("HOSTWRIGHT_CONFIG"));
        } else if let Some(path) = usual() {
            self.file(&path, None);
        }
    }

    /// Reads a file. `wanted` is who named it; a file that nobody named need not exist.
    fn file(&mut self, path: &Path, wanted: Option<&str>) {
        if let Some((layer, text)) = self.file_text(path, wanted) {
            self.text(&layer, &text);
        }
    }

    fn file_text(&mut self, path: &Path, wanted: Option<&str>) -> Option<(Arc<Layer>, String)> {
        let name = path.display().to_string();
        self.watched.push(path.to_owned());
        let (bytes, exposed) = match read(path, FILE_LIMIT) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound && wanted.is_none() => return None,
            Err(error) => {
                let (layer, text) = match wanted {
                    Some(who) => {
                        (Layer::new(self.rank, who, LayerKind::Flag), format!("cannot read {name}: {error}"))
                    }
                    None => {
                        (Layer::new(self.rank, name, LayerKind::Flag), format!("cannot read it: {error}"))
                    }
                };
                self.mistakes.push(Mistake::new(&Place::whole(&layer), MistakeKind::Unreadable, text));
                self.rank += 1;
                return None;
            }
        };
        let base = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_path_buf));
        let kind = LayerKind::File { base: base.unwrap_or_default(), exposed };
        let layer = Layer::new(self.rank, &name, kind);
        self.files.push(name);
        match String::from_utf8(bytes) {
            Ok(text) => Some((layer, text)),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes());
                let place = Place::at(&layer, &text, valid);
                self.mistakes.push(Mistake::new(&place, MistakeKind::Unreadable, "this is not UTF-8"));
                self.rank += 1;
                None
            }
        }
    }

    /// All variables are one layer: none is laid over another, but for one that names a table and one that names a key in it.
    fn variables(&mut self, variables: &Variables) {
        for (name, value) in &variables.0 {
            let Some(setting) = setting_name(name) else { continue };
            let layer = Layer::new(self.rank, name, LayerKind::Variable);
            let mut refuse = |text: &str| {
                self.mistakes.push(Mistake::new(&Place::whole(&layer), MistakeKind::Value, text));
            };
            let Some(value) = value.to_str() else {
                refuse("this variable is not UTF-8");
                continue;
            };
            if setting.split("__").any(str::is_empty) {
                refuse("the name of this variable has an empty part");
                continue;
            }
            let path = tree::variable_path(setting, &self.tree);
            tree::merge(&mut self.tree, tree::single(&path, tree::parse_variable(&layer, value)));
        }
        self.rank += 1;
    }
}

/// What follows `HOSTWRIGHT_` in a variable that is meant as a setting: one with `__` inside, or named like something at the
/// top. All others are none of the configuration's: what a pod is told, or what Kubernetes says of services.
fn setting_name(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("HOSTWRIGHT_")?;
    let other = ["TEST_", "VOLUME_"].iter().any(|prefix| rest.starts_with(prefix));
    let top = || TOP.iter().any(|top| top.eq_ignore_ascii_case(rest));
    (!other && (rest.contains("__") || top())).then_some(rest)
}

/// Variables that would be settings if their name had `__` where it has `_`.
fn lookalikes(variables: &Variables, known: &[Vec<String>]) -> Vec<String> {
    let names: BTreeMap<String, String> = known
        .iter()
        .map(|path| variable_name(path))
        .map(|name| (name.replace("__", "_"), name))
        .filter(|(single, name)| single != name)
        .collect();
    let meant = |name: &String| Some(format!("{name} is no setting; did you mean {}?", names.get(name)?));
    variables.0.keys().filter_map(meant).collect()
}

/// The environment that the command line or `HOSTWRIGHT_ENV` names.
fn chosen(sources: &Sources, variables: &Variables, rank: usize) -> Option<(String, Place)> {
    let place = |name: &str, kind| Place::whole(&Layer::new(rank, name, kind));
    if let Some(name) = &sources.environment {
        return Some((name.clone(), place("-e", LayerKind::Flag)));
    }
    let name = variables.0.get("HOSTWRIGHT_ENV").filter(|name| !name.is_empty())?;
    Some((name.to_string_lossy().into_owned(), place("HOSTWRIGHT_ENV", LayerKind::Variable)))
}

/// A file's content, and whether others than its owner can read it.
fn read(path: &Path, limit: u64) -> io::Result<(Vec<u8>, bool)> {
    let file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    // A pipe has no readers but us.
    let exposed = metadata.is_file() && metadata.permissions().mode() & 0o077 != 0;
    Ok((bytes, exposed))
}

fn read_secret(path: &Path) -> Result<String, String> {
    let (bytes, _) = read(path, SECRET_LIMIT).map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| "holds something that is not UTF-8".to_owned())?;
    match text.trim() {
        "" => Err("is an empty file".to_owned()),
        secret => Ok(secret.to_owned()),
    }
}
