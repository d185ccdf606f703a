//! A shell on a host: the environment's command, and the keys that the host announced as the only ones that are trusted.

use std::io::Write;

use tempfile::TempDir;

use super::OpError;
use crate::backend::kube::Kube;
use crate::config::{Environment, Permit};
use crate::domain::{HostName, RunDetails};

/// A command that opens a shell.
#[derive(Debug)]
pub struct Shell {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder with its known_hosts; it goes with this value, so keep it until the shell has ended.
    pub folder: TempDir,
}

/// What opens a shell on the host of a run. It is for changing things, so it wants a permit.
///
/// # Errors
/// When the run cannot be read, or its keys cannot be written.
pub async fn prepare(
    kube: &Kube,
    _: &Permit,
    environment: &Environment,
    run: &str,
) -> Result<Shell, OpError> {
    let details = kube.run(run).await?;
    let refused =
        |error: std::io::Error| OpError::Missing(format!("the host's keys cannot be written: {error}"));
    let folder = tempfile::Builder::new().prefix("hostwright-").tempdir().map_err(refused)?;
    let known_hosts = folder.path().join("known_hosts");
    // Made anew, in a folder that is ours alone.
    let mut file = std::fs::File::create_new(&known_hosts).map_err(refused)?;
    file.write_all(lines(&details).as_bytes()).map_err(refused)?;
    let announced = !details.announcement.keys.is_empty();
    let address = details.run.address.map(|address| address.to_string());
    let argv = command(
        &environment.shell,
        &details.run.host,
        address.as_deref(),
        &known_hosts.display().to_string(),
        announced,
    );
    Ok(Shell { argv, folder })
}

/// The host's keys as ssh reads them.
fn lines(details: &RunDetails) -> String {
    let host = &details.run.host;
    details.announcement.keys.iter().map(|key| format!("{host} {}\n", key.as_str())).collect()
}

/// The environment's command with what it names put in; ssh is told to trust the announced keys and no others.
fn command(
    shell: &[String],
    host: &HostName,
    address: Option<&str>,
    known_hosts: &str,
    announced: bool,
) -> Vec<String> {
    let fill = |word: &String| {
        word.replace("{host}", host.as_str())
            .replace("{address}", address.unwrap_or(host.as_str()))
            .replace("{known_hosts}", known_hosts)
    };
    let mut argv: Vec<String> = shell.iter().map(fill).collect();
    let program = argv.first().and_then(|program| program.rsplit('/').next());
    if program == Some("ssh") && announced {
        let trusted = [
            format!("UserKnownHostsFile={known_hosts}"),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            format!("HostKeyAlias={host}"),
        ];
        argv.splice(1..1, trusted.into_iter().flat_map(|option| ["-o".to_owned(), option]));
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn ssh_trusts_the_announced_keys_and_no_others() {
        let host: HostName = "web-1.lan.example.org".parse().unwrap();
        let argv = command(&words("/usr/bin/ssh -p 22 admin@{address}"), &host, Some("10.0.0.7"), "/k", true);
        assert_eq!(
            argv.join(" "),
            "/usr/bin/ssh -o UserKnownHostsFile=/k -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes \
             -o HostKeyAlias=web-1.lan.example.org -p 22 admin@10.0.0.7"
        );
        let argv = command(&words("ssh {host}"), &host, None, "/k", false);
        assert_eq!(argv.join(" "), "ssh web-1.lan.example.org", "without a key ssh asks as it always does");
        let argv = command(&words("mosh --ssh={known_hosts} {address}"), &host, None, "/k", true);
        assert_eq!(argv.join(" "), "mosh --ssh=/k web-1.lan.example.org");
    }
}
