//! `manifests`: the platform's Kubernetes services, as templates with an environment's values, in the bucket, and on the nodes.

mod bucket;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use super::output::Table;
use super::{Failure, Format, Output, fail, finish, say};
use crate::config::Config;
use crate::domain::manifest::ManifestFile;
use crate::domain::secret::{Checksum, Format as FileFormat};
use crate::ops::environment::{self, EnvironmentError};
use crate::ops::manifests::{self, ManifestsError};

/// What is asked of the manifests.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fill in the templates with the environment's values, and print or write what comes out
    Render {
        /// Only these: paths of files, with or without .j2, or of folders; without any, all
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Write the files to this folder instead of printing them
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Say what a push would change in the bucket, as a diff; exits with 1 when something would
    Diff {
        /// Only these: paths of files, with or without .j2, or of folders; without any, all
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Write what differs to the bucket, encrypted with the environment's key; what is only there stays
    Push {
        /// Only these: paths of files, with or without .j2, or of folders; without any, all
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Say which version of each file each node has, and when it last synced; exits with 1 when a node needs a look
    Status {
        /// Only these nodes, with their files; without any, all nodes
        #[arg(value_name = "NODE")]
        nodes: Vec<String>,
    },
}

impl From<ManifestsError> for Failure {
    fn from(error: ManifestsError) -> Self {
        Self { text: error.to_string(), code: error.exit_code() }
    }
}

/// Runs one command.
pub async fn run(command: Command, config: &Config, format: Format) -> ExitCode {
    finish(Box::pin(go(command, config, format.output)).await)
}

async fn go(command: Command, config: &Config, output: Output) -> Result<(), Failure> {
    match command {
        Command::Render { names, to } => {
            let files = rendered(config, &names)?;
            match to {
                Some(to) => place(config, &files, &to, output),
                None => print(&files, output),
            }
        }
        Command::Diff { names } => bucket::diff(config, &names, output).await,
        Command::Push { names } => bucket::push(config, &names, output).await,
        Command::Status { nodes } => bucket::status(config, &nodes, output).await,
    }
}

/// The manifests of the environment that is used.
fn rendered(config: &Config, names: &[String]) -> Result<Vec<ManifestFile>, Failure> {
    let named = environment::named(config, None)?;
    let variables = super::env::read(config, &named)?;
    Ok(manifests::render(&named.manifests(config), &variables, names)?)
}

/// A file, for programs.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    path: &'a str,
    from: &'a str,
    size: usize,
    sha256: Checksum,
    /// What is in it; none: it is no text.
    text: Option<&'a str>,
}

impl<'a> From<&'a ManifestFile> for Shown<'a> {
    fn from(file: &'a ManifestFile) -> Self {
        Self {
            path: file.path.as_str(),
            from: file.from.as_str(),
            size: file.bytes.len(),
            sha256: file.sha256,
            text: std::str::from_utf8(&file.bytes).ok(),
        }
    }
}

/// One file is printed as it is; several are printed so that `kubectl apply -f -` takes them.
fn print(files: &[ManifestFile], output: Output) -> Result<(), Failure> {
    match (output, files) {
        (Output::Table, [file]) => std::io::stdout().write_all(&file.bytes)?,
        (Output::Table, files) => files.iter().try_for_each(document)?,
        _ => output.print(&files.iter().map(Shown::from).collect::<Vec<_>>(), |_| Table::pairs())?,
    }
    Ok(())
}

/// A file as a part of a stream of YAML, which JSON is too.
fn document(file: &ManifestFile) -> Result<(), Failure> {
    let text = std::str::from_utf8(&file.bytes).unwrap_or_default();
    if !matches!(FileFormat::of(file.path.as_str()), FileFormat::Yaml | FileFormat::Json) {
        fail(&format!("{} is neither YAML nor JSON: name it alone, or use --to DIR or -o json", file.path));
        return Ok(());
    }
    if text.trim().is_empty() {
        return Ok(());
    }
    let begins = text.trim_start_matches('\u{feff}').trim_start().starts_with("---");
    say(&format!("{}# {}\n{}", if begins { "" } else { "---\n" }, file.path, text.trim_end()))?;
    Ok(())
}

fn place(config: &Config, files: &[ManifestFile], to: &Path, output: Output) -> Result<(), Failure> {
    let permit = config.permit().map_err(EnvironmentError::from)?;
    let named = environment::named(config, None)?;
    let placed = manifests::place(&permit, &named.manifests(config), files, to)?;
    if output != Output::Table {
        output.print(&placed, |_| Table::pairs())?;
        return Ok(());
    }
    placed.written.iter().try_for_each(|path| say(&format!("wrote {path}")))?;
    say(&format!("{} written, {} as they were", placed.written.len(), placed.kept))?;
    if !placed.others.is_empty() {
        let names = placed.others.join(", ");
        fail(&format!("in {} there are files that were not rendered, and stay: {names}", to.display()));
    }
    Ok(())
}
