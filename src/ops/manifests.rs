//! Manifests: rendered from the folder of templates with an environment's values, and what of them is in the bucket and on the nodes.

mod bucket;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::environment::EnvironmentError;
use crate::backend::folder::{Folder, FolderError, Found, Over, Writer};
use crate::config::{Permit, VariablesFile};
use crate::domain::manifest::{self, Fault, ManifestFile, Role, Sources};
use crate::domain::secret::{CHECK_LIMIT, RelativePath, shown};

pub use bucket::{ManifestBucket, Pushed};

/// How many files a folder of manifests may have.
const FILES: usize = 10_000;
/// How large they may be together, in bytes.
const TOTAL: usize = 64 * 1024 * 1024;

/// Why manifests were not rendered.
#[derive(Debug, thiserror::Error)]
pub enum ManifestsError {
    /// The environment's variables.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// There is no folder of manifests.
    #[error("there is no folder of manifests {}: make it, or set platform.manifests", .0.display())]
    NoFolder(PathBuf),
    /// A folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There is too much in it.
    #[error("the folder of manifests {} holds more than {FILES} files or {TOTAL} bytes: set platform.manifests to the manifests alone", .0.display())]
    TooMuch(PathBuf),
    /// Something is wrong with the files: all of it.
    #[error("{}", lines(.0))]
    Faults(Vec<Fault>),
    /// What is in the folder can be no manifest: a sentence each.
    #[error("{}", .0.join("\n"))]
    Odd(Vec<String>),
    /// No file is called so.
    #[error("{}", missing(.0))]
    NotFound(Vec<String>),
    /// What is made would be among what it is made of.
    #[error("{} is in the folder of manifests: choose a folder outside it", .0.display())]
    Inside(PathBuf),
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

fn missing(names: &[String]) -> String {
    let line =
        |name: &String| format!("there is no manifest {}, and no folder of them of that name", shown(name));
    names.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl ManifestsError {
    /// The command's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Environment(error) => error.exit_code(),
            Self::Faults(_) | Self::Odd(_) | Self::TooMuch(_) | Self::Inside(_) => 2,
            Self::NoFolder(_) | Self::NotFound(_) => 3,
            Self::Folder(FolderError::Locked { .. }) => 4,
            Self::Folder(_) => 1,
        }
    }
}

/// Where a path leads, links and all, though the end of it may not be there yet.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match there {
        Some((above, real)) => path.strip_prefix(above).map_or_else(|_| real.clone(), |rest| real.join(rest)),
        None => path,
    }
}

fn put(writer: &Writer, file: &ManifestFile) -> Result<(), FolderError> {
    let mut staged = writer.stage(&file.path)?;
    let failed = |error| FolderError::File { doing: "write", path: file.path.to_string(), error };
    staged.write_all(&file.bytes).map_err(failed)?;
    staged.place(Over::Anything).map(|_| ())
}

/// Renders an environment's manifests, of this folder: all, or those that `names` name by the path of what is made, of what it is made of, or of a folder
/// above it.
///
/// # Errors
/// When the environment's variables or any file that is wanted has mistakes: all of them at once.
pub fn render(
    folder: &Path,
    variables: &VariablesFile,
    names: &[String],
) -> Result<Vec<ManifestFile>, ManifestsError> {
    let sources = read(folder)?;
    let unknown: Vec<String> =
        names.iter().filter(|name| !sources.keys().any(|path| is_named(name, path))).cloned().collect();
    if !unknown.is_empty() {
        return Err(ManifestsError::NotFound(unknown));
    }
    let values = manifest::values(&variables.variables);
    let wanted = |_: &RelativePath, from: &RelativePath| {
        names.is_empty() || names.iter().any(|name| is_named(name, from))
    };
    manifest::render(&sources, &values, wanted).map_err(ManifestsError::Faults)
}

/// Whether a name means a file of the folder, or one of the folders that it is in.
fn is_named(name: &str, from: &RelativePath) -> bool {
    let made = Role::of(from).made(from);
    made.is_some_and(|made| within(name, made.as_str()) || within(name, from.as_str()))
}

/// Whether a path is what a name says, or in the folder of that name.
fn within(name: &str, path: &str) -> bool {
    let name = name.strip_prefix("./").unwrap_or(name).trim_end_matches('/');
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads the folder. What is neither a file nor a folder, such as a link, is a fault: it could lead anywhere.
fn read(path: &Path) -> Result<Sources, ManifestsError> {
    let folder = match Folder::open(path) {
        Err(FolderError::NotThere(path)) => return Err(ManifestsError::NoFolder(path)),
        opened => opened?,
    };
    let mut paths = Vec::new();
    let mut faults = Vec::new();
    let root = format!("{}/", shown(path.to_string_lossy().trim_end_matches('/')));
    let hidden =
        |place: &str| place.strip_prefix(&root).unwrap_or(place).split('/').any(|part| part.starts_with('.'));
    folder.walk(|found| match found {
        Found::File { path, .. } if Role::of(&path) == Role::Left => {}
        Found::File { path, stat } => paths.push((path, stat.size)),
        Found::Odd { path, .. } | Found::Unnamable { path, .. } if hidden(&path) => {}
        Found::Odd { path, what } => {
            faults.push(format!("{path} is {what}: put a file there, or take it away"));
        }
        Found::Unnamable { path, reason } => {
            let why = reason.map_or_else(|| "its name is not UTF-8".to_owned(), |reason| reason.to_string());
            faults.push(format!("{path} can be no manifest: {why}"));
        }
    })?;
    if !faults.is_empty() {
        faults.sort();
        return Err(ManifestsError::Odd(faults));
    }
    let total = paths.iter().fold(0_u64, |total, (_, size)| total.saturating_add(*size));
    if paths.len() > FILES || total > TOTAL as u64 {
        return Err(ManifestsError::TooMuch(path.to_owned()));
    }
    let mut sources = Sources::new();
    for (path, _) in paths {
        if let Some(bytes) = folder.read(&path, CHECK_LIMIT as u64)? {
            sources.insert(path, bytes);
        }
    }
    Ok(sources)
}

/// What became of the files in a folder.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// Files that were written, by path.
    pub written: Vec<RelativePath>,
    /// How many were so already.
    pub kept: usize,
    /// Files in the folder that were not rendered: they stay.
    pub others: Vec<String>,
}

/// Writes what was rendered of the folder `manifests` to another one: each file whole or not at all, and none that is so already.
///
/// # Errors
/// When the folder cannot be written, somebody else writes to it, or it is in the folder of manifests.
pub fn place(
    permit: &Permit,
    manifests: &Path,
    files: &[ManifestFile],
    to: &Path,
) -> Result<Placed, ManifestsError> {
    if real(to).starts_with(real(manifests)) {
        return Err(ManifestsError::Inside(to.to_owned()));
    }
    let folder = Folder::create(permit, to)?;
    let writer = folder.writer(permit, "manifests render")?;
    writer.sweep()?;
    let mut placed = Placed::default();
    for file in files {
        if folder.hash(&file.path)?.is_some_and(|(fact, _)| fact.sha256 == file.sha256) {
            placed.kept += 1;
            continue;
        }
        put(&writer, file)?;
        placed.written.push(file.path.clone());
    }
    writer.settle()?;
    let made: BTreeSet<&RelativePath> = files.iter().map(|file| &file.path).collect();
    folder.walk(|found| match found {
        Found::File { path, .. } if made.contains(&path) => {}
        Found::File { path, .. } => placed.others.push(path.to_string()),
        Found::Odd { path, .. } | Found::Unnamable { path, .. } => placed.others.push(path),
    })?;
    placed.others.sort();
    Ok(placed)
}
