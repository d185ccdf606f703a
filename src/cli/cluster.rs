//! `cluster info|ca|permissions`.

use std::io::Write;

use clap::Subcommand;
use jiff::Timestamp;

use super::output::Table;
use super::{Context, Failure};
use crate::domain::cluster::{Certificate, ClusterInfo, Served};
use crate::domain::text::short_span;
use crate::ops;

/// What is asked of the cluster.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the API server, its certificate, and what machines that join are told
    Info,
    /// Print the cluster's root CA, PEM
    Ca,
    /// Check what you may do, action by action, and print the rules that are missing
    Permissions(super::permissions::Permissions),
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    match command {
        Command::Info => info(context).await,
        Command::Ca => {
            let pem = ops::cluster::root_ca(&context.kube).await?;
            std::io::stdout().write_all(pem.as_bytes())?;
            Ok(())
        }
        Command::Permissions(asked) => super::permissions::run(context, &asked).await,
    }
}

async fn info(context: &Context<'_>) -> Result<(), Failure> {
    let info = Box::pin(ops::cluster::look(&context.kube)).await;
    let now = Timestamp::now();
    context.output.print(&info, |info| table(info, now))?;
    let mut code = None;
    for problem in &info.problems {
        super::fail(&format!("{}: {problem}", problem.subject));
        code = code.or(Some(Failure::from(problem.clone()).code));
    }
    code.map_or(Ok(()), |code| Err(Failure::said(code)))
}

fn table(info: &ClusterInfo, now: Timestamp) -> Table {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut pair = |name: &str, value: String| rows.push((name.to_owned(), value));
    pair("API server", info.server.clone());
    pair("version", info.version.clone().unwrap_or_default());
    match &info.served {
        Some(Served::Plain) => pair("certificate", "none: it speaks plain HTTP".to_owned()),
        Some(Served::Tls(certificate)) => of_certificate("certificate", certificate, now, &mut pair),
        None => {}
    }
    pair("machines join", info.join_server.clone().unwrap_or_default());
    for certificate in &info.join_ca {
        of_certificate("cluster-info CA", certificate, now, &mut pair);
    }
    for certificate in &info.root_ca {
        of_certificate("kube-root-ca.crt", certificate, now, &mut pair);
    }
    let same = match info.same_ca {
        Some(true) => "yes",
        Some(false) => "no: machines that join trust another CA than the pods",
        None => "not known",
    };
    pair("same CA", same.to_owned());
    let mut table = Table::pairs();
    rows.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .for_each(|(name, value)| table.row([name, value]));
    table
}

fn of_certificate(what: &str, of: &Certificate, now: Timestamp, pair: &mut impl FnMut(&str, String)) {
    pair(what, of.subject.clone());
    if of.issuer != of.subject {
        pair("  signed by", of.issuer.clone());
    }
    pair("  names", of.names.join(" "));
    let left = of.expires.duration_since(now).as_secs();
    let when = if left <= 0 {
        format!("expired {} ago", short_span(-left))
    } else {
        format!("{} left", short_span(left))
    };
    pair("  expires", format!("{} ({when})", of.expires));
    pair("  SHA-256", of.fingerprint.clone());
    pair("  key", of.key_hash.clone());
}
