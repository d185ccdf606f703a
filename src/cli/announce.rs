//! `hosts announce` and `play host`: what calls the hook, as a machine would.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};

use super::output::Table;
use super::{Failure, Output};
use crate::backend::hook::{Answer, Hook};
use crate::backend::kube::Kube;
use crate::config::Settings;
use crate::domain::HostName;
use crate::ops::{self, OpError};

/// What a machine says.
#[derive(Debug, Args)]
pub struct Announce {
    /// The hosts
    #[arg(required = true)]
    hosts: Vec<HostName>,
    /// A file with the host's SSH public keys, one a line
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// An id of this boot; the same one starts nothing new
    #[arg(long)]
    boot: Option<String>,
    /// Where Ansible reaches the host
    #[arg(long)]
    address: Option<String>,
    /// The policy's branch
    #[arg(long)]
    branch: Option<String>,
    /// A group to be in; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Facts, a JSON object
    #[arg(long, value_name = "JSON")]
    facts: Option<String>,
}

/// Calls the hook; needs no cluster.
pub(super) async fn announce(settings: &Settings, output: Output, args: Announce) -> Result<(), Failure> {
    let permit = settings.permit().map_err(OpError::from)?;
    let hook = Hook::new(settings).map_err(|e| Failure::from(e.problem()))?;
    let keys = match &args.keys {
        None => String::new(),
        Some(path) => tokio::fs::read_to_string(path)
            .await
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))?,
    };
    let facts = match &args.facts {
        None => Map::new(),
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(facts)) => facts,
            _ => return Err(Failure::usage("--facts is not a JSON object")),
        },
    };
    let mut answers: Vec<Answer> = Vec::new();
    let mut failure = None;
    for host in &args.hosts {
        let mut body =
            serde_json::json!({"hostname": host, "sshkeys": keys, "groups": args.groups, "facts": facts});
        for (name, value) in [("boot", &args.boot), ("address", &args.address), ("branch", &args.branch)] {
            if let (Some(value), Some(fields)) = (value, body.as_object_mut()) {
                fields.insert(name.to_owned(), Value::String(value.clone()));
            }
        }
        match hook.online(&permit, &body).await {
            Ok(answer) => answers.push(answer),
            Err(error) => {
                super::fail(&format!("{host}: {error}"));
                failure.get_or_insert(Failure::from(error.problem()).code);
            }
        }
    }
    print_answers(output, &answers)?;
    failure.map_or(Ok(()), |code| Err(Failure::said(code)))
}

/// Boots a machine of the playground; without a name a new one.
///
/// # Errors
/// When the name is wrong, the settings are read-only, or the hook does not take it.
pub async fn boot(settings: &Settings, name: Option<&str>, output: Output) -> Result<(), Failure> {
    let permit = settings.permit().map_err(OpError::from)?;
    let host = match name {
        Some(name) => ops::machine::full_name(name)?,
        None => {
            let kube = Kube::connect(&settings.environment.kubernetes).await.map_err(OpError::from)?;
            ops::machine::unused_name(&kube).await?
        }
    };
    let hook = Hook::new(settings).map_err(OpError::from)?;
    let answer = ops::machine::boot(&hook, &permit, &host, &ops::machine::boot_id()).await?;
    print_answers(output, &[answer])
}

fn print_answers(output: Output, answers: &[Answer]) -> Result<(), Failure> {
    output.print(&answers, |answers| {
        let mut table = Table::new(&["HOST", "RUN", "PHASE"]);
        for answer in *answers {
            table.row([answer.host.clone(), answer.run.clone(), answer.phase.clone()]);
        }
        table
    })?;
    Ok(())
}
