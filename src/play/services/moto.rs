//! A private AWS server: S3, KMS, STS, EC2 and Auto Scaling as moto has them. What is in it is gone when it ends.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::watch;

use super::earlier::settle;
use super::supervise::{Recipe, Service, State};
use super::{LEASH, ServiceError, private_folder, remembered_port};
use crate::play::leash;
use crate::play::python::Python;

const NAME: &str = "the AWS server";

/// What the server may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// An AWS server that is kept running until this is dropped. A server that died comes back empty.
#[derive(Debug)]
pub struct Moto {
    service: Service,
    port: u16,
}

/// Starts the server that lives in `folder` and waits until it serves. `exe` is the `hostwright` program.
///
/// # Errors
/// When it does not come up.
pub async fn start(folder: &Path, python: &Python, exe: &Path) -> Result<Moto, ServiceError> {
    private_folder(NAME, folder)?;
    let folder = std::fs::canonicalize(folder).map_err(|source| ServiceError::File {
        service: NAME,
        path: folder.to_owned(),
        source,
    })?;
    let log = folder.join("moto.log");
    settle(NAME, &log, GRACE + LEASH).await?;
    let port = remembered_port(NAME, &folder)?;
    let server = Server { log, folder, python: python.python.clone(), exe: exe.to_owned(), port };
    Ok(Moto { service: Service::start(server).await?, port })
}

impl Moto {
    /// The endpoint of every AWS service in it: `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its state, now and as it changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.service.state()
    }

    /// Stops the server and waits until it has ended.
    pub async fn stop(&self) {
        self.service.stop().await;
    }
}

/// Where the server lives and listens.
struct Server {
    folder: PathBuf,
    python: PathBuf,
    exe: PathBuf,
    log: PathBuf,
    port: u16,
}

/// What could lead it, or the AWS library inside it, elsewhere: to other packages, other credentials, other settings.
const UNWANTED: [&str; 4] = ["AWS_", "MOTO_", "PYTHON", "FLASK_"];

impl Recipe for Server {
    fn name(&self) -> &'static str {
        NAME
    }

    fn command(&self) -> Result<Command, ServiceError> {
        let port = self.port.to_string();
        let arguments = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &port];
        let mut command = leash::command(&self.exe, GRACE, self.python.as_os_str(), arguments);
        let unwanted = |name: &std::ffi::OsString| {
            name.to_str().is_some_and(|name| UNWANTED.iter().any(|head| name.starts_with(head)))
        };
        for name in std::env::vars_os().map(|(name, _)| name).filter(unwanted) {
            command.env_remove(name);
        }
        command
            // Nobody's own settings and credentials: it needs none.
            .env("HOME", &self.folder)
            .env("PYTHONUNBUFFERED", "1")
            .env("PYTHONNOUSERSITE", "1")
            .current_dir(&self.folder);
        Ok(command)
    }

    /// It serves when its own page of what it holds is there.
    async fn ready(&self) -> bool {
        let ask = async {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
            stream.write_all(b"GET /moto-api/data.json HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").await?;
            let mut head = [0; 12];
            stream.read_exact(&mut head).await?;
            Ok::<_, std::io::Error>(head)
        };
        ask.await.is_ok_and(|head| head.starts_with(b"HTTP/1.") && head.ends_with(b" 200"))
    }

    fn log(&self) -> &Path {
        &self.log
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}
