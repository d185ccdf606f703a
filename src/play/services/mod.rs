//! The real services that the playground and the tests run: RabbitMQ, ARA and an AWS server, private, on loopback, each on a leash.
//!
//! Called by the playground and by the tests. Everything of a service lies in one folder, which it keeps from one start to the next:
//! its data, its port, its logs.

pub mod ara;
mod earlier;
pub mod moto;
pub mod rabbitmq;
pub mod supervise;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::packages::PackagesError;

/// What a leash may take beyond the grace of its program to end the rest.
const LEASH: Duration = Duration::from_secs(5);

/// Why a service does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// It is not installed.
    #[error(transparent)]
    Packages(#[from] PackagesError),
    /// A file or folder of it could not be read or written.
    #[error("cannot prepare {service}: {path}: {source}")]
    File {
        /// The service.
        service: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No free port was to be had.
    #[error("cannot find a free port on 127.0.0.1 for {service}: {source}")]
    Port {
        /// The service.
        service: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// It did not come up.
    #[error("cannot start {service}: {why}")]
    NotUp {
        /// The service.
        service: &'static str,
        /// What happened.
        why: String,
    },
}

/// Makes a folder that only its owner may enter.
pub(super) fn private_folder(service: &'static str, path: &Path) -> Result<(), ServiceError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| ServiceError::File { service, path: path.to_owned(), source })
}

/// Writes a file that only its owner may read, whole or not at all.
pub(super) fn private_file(service: &'static str, path: &Path, text: &str) -> Result<(), ServiceError> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        // A temporary file is made with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|source| ServiceError::File { service, path: path.to_owned(), source })
}

/// A port on 127.0.0.1 that is free at this moment.
fn free_port(service: &'static str) -> Result<u16, ServiceError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(bound.map_err(|source| ServiceError::Port { service, source })?.port())
}

/// The port that the service in `folder` had the last time, if nobody else has it now; else a free one, which is remembered.
pub(super) fn remembered_port(service: &'static str, folder: &Path) -> Result<u16, ServiceError> {
    let path = folder.join("port");
    let remembered = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
    // Binding succeeds beside connections of an earlier start that are still closing, as the service's own will.
    if let Some(port) = remembered.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()) {
        return Ok(port);
    }
    let port = free_port(service)?;
    private_file(service, &path, &format!("{port}\n"))?;
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_remembered_while_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let first = remembered_port("x", folder.path()).unwrap();
        assert_eq!(remembered_port("x", folder.path()).unwrap(), first);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        let second = remembered_port("x", folder.path()).unwrap();
        assert_ne!(second, first);
        drop(taken);
        assert_eq!(remembered_port("x", folder.path()).unwrap(), second);
    }
}
