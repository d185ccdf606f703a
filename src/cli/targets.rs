//! `targets list|add|remove`.

use clap::Subcommand;

use super::output::Table;
use super::{Context, Failure};
use crate::domain::target::host_port;
use crate::ops;
use crate::ops::targets::Change;

/// What is done with scrape targets.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the targets with their labels
    List,
    /// Add hosts, or host:port pairs
    Add {
        /// The hosts or addresses; without a port the environment's is used
        #[arg(required = true)]
        targets: Vec<String>,
    },
    /// Remove hosts, or host:port pairs
    Remove {
        /// The hosts or addresses; without a port the environment's is used
        #[arg(required = true)]
        targets: Vec<String>,
    },
}

pub(super) async fn run(context: &Context<'_>, command: Command) -> Result<(), Failure> {
    let settings = &context.settings.environment.targets;
    match command {
        Command::List => {
            let targets = ops::targets::list(&context.kube, settings).await?;
            context.output.print(&targets, |targets| {
                let mut table = Table::new(&["TARGET", "LABELS"]);
                for target in targets {
                    let labels: Vec<String> = target.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
                    table.row([target.address.clone(), labels.join(" ")]);
                }
                table
            })?;
            Ok(())
        }
        Command::Add { targets } => {
            let new: Result<Vec<_>, Failure> = targets
                .iter()
                .map(|text| {
                    let address = address(text, settings.port)?;
                    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
                    Ok((address, host, None))
                })
                .collect();
            let change = ops::targets::add(&context.kube, &context.permit()?, settings, &new?).await?;
            said(change, "added")
        }
        Command::Remove { targets } => {
            let addresses: Result<Vec<_>, Failure> =
                targets.iter().map(|t| address(t, settings.port)).collect();
            let addresses = addresses?;
            let change =
                ops::targets::remove(&context.kube, &context.permit()?, settings, &addresses).await?;
            said(change, "removed")?;
            if change.changed < addresses.len() {
                let text =
                    format!("{} of {} were no targets", addresses.len() - change.changed, addresses.len());
                return Err(Failure { text, code: 3 });
            }
            Ok(())
        }
    }
}

fn said(change: Change, word: &str) -> Result<(), Failure> {
    super::say(&format!("{} {word}", change.changed))?;
    if change.nearly_full() {
        super::fail(&format!("the ConfigMap holds {} of 1048576 bytes: split it soon", change.size));
    }
    Ok(())
}

/// `host:port` of what was given; a bare host gets the environment's port.
fn address(text: &str, port: u16) -> Result<String, Failure> {
    let wrong = || {
        Failure::usage(format!("{text} is no host or host:port (an IPv6 address with a port has brackets)"))
    };
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Ok(host_port(text, port));
    }
    if let Some((host, given)) = text.rsplit_once(':') {
        given.parse::<u16>().map_err(|_| wrong())?;
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let legal = match inner {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                host.parse::<std::net::Ipv4Addr>().is_ok() || crate::domain::HostName::parse(host).is_ok()
            }
        };
        return if legal { Ok(text.to_owned()) } else { Err(wrong()) };
    }
    let host = crate::domain::HostName::parse(text).map_err(|_| wrong())?;
    Ok(host_port(host.as_str(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_the_port_and_pairs_keep_theirs() {
        for (text, expected) in [
            ("Web.example.org", Some("web.example.org:9103")),
            ("web:1", Some("web:1")),
            ("2001:db8::1", Some("[2001:db8::1]:9103")),
            ("[2001:db8::1]:5", Some("[2001:db8::1]:5")),
            ("10.0.0.1:5", Some("10.0.0.1:5")),
            ("a b", None),
            ("web:port", None),
            ("[x]:5", None),
        ] {
            assert_eq!(address(text, 9103).ok().as_deref(), expected, "{text}");
        }
    }
}
