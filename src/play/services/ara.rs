//! A private ARA server: records what Ansible did, in SQLite, and serves it on loopback.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::watch;

use super::earlier::settle;
use super::supervise::{Recipe, Service, State};
use super::{LEASH, ServiceError, private_file, private_folder, remembered_port};
use crate::play::leash::{self, Leashed};
use crate::play::python::Python;

const NAME: &str = "ARA";

/// What the server may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// Requests served at once. SQLite takes one writer at a time; readers do not wait for it.
const THREADS: &str = "--threads=8";

/// An ARA server that is kept running until this is dropped.
#[derive(Debug)]
pub struct Ara {
    service: Service,
    port: u16,
}

/// Starts the server that lives in `folder`, with its database, and waits until it serves. `exe` is the `hostwright` program.
///
/// # Errors
/// When its database cannot be made or it does not come up.
pub async fn start(folder: &Path, python: &Python, exe: &Path) -> Result<Ara, ServiceError> {
    private_folder(NAME, folder)?;
    let folder = std::fs::canonicalize(folder).map_err(|source| ServiceError::File {
        service: NAME,
        path: folder.to_owned(),
        source,
    })?;
    let log = folder.join("ara.log");
    settle(NAME, &log, GRACE + LEASH).await?;
    let port = remembered_port(NAME, &folder)?;
    let server = Server { log, folder, python: python.python.clone(), exe: exe.to_owned(), port };
    server.write_settings()?;
    server.migrate().await?;
    Ok(Ara { service: Service::start(server).await?, port })
}

impl Ara {
    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its state, now and as it changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.service.state()
    }

    /// Stops the server and waits until it has ended. Its database stays.
    pub async fn stop(&self) {
        self.service.stop().await;
    }

    /// Starts the server again after [`Ara::stop`], on the same port and with the same database.
    ///
    /// # Errors
    /// When it does not come up at once; it is tried again nevertheless.
    pub async fn start_again(&self) -> Result<(), ServiceError> {
        self.service.start_again().await
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

impl Server {
    fn settings(&self) -> PathBuf {
        self.folder.join("settings.json")
    }

    /// Writes the settings anew at each start, so that no file of an earlier version can disagree with us.
    fn write_settings(&self) -> Result<(), ServiceError> {
        let settings = json!({"default": {
            "BASE_DIR": self.folder,
            "ALLOWED_HOSTS": ["127.0.0.1", "localhost"],
            "SECRET_KEY": self.secret()?,
            "DATABASE_ENGINE": "django.db.backends.sqlite3",
            "DATABASE_NAME": self.folder.join("ansible.sqlite"),
            // A connection a thread, kept: opening one costs more than most questions.
            "DATABASE_CONN_MAX_AGE": 3600,
            // Playbooks record at the same time. A transaction that takes the lock at its start waits for it; one that takes it
            // later fails with "database is locked" without waiting. The write-ahead log lets readers in meanwhile.
            "DATABASE_OPTIONS": {
                "timeout": 30,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
            "DISTRIBUTED_SQLITE": false,
            "LOG_LEVEL": "WARNING",
            "TIME_ZONE": "UTC",
        }});
        private_file(NAME, &self.settings(), &settings.to_string())
    }

    /// The key that signs the web pages' cookies: made once.
    fn secret(&self) -> Result<String, ServiceError> {
        let path = self.folder.join("secret");
        if let Some(secret) = std::fs::read_to_string(&path).ok().filter(|secret| secret.len() >= 64) {
            return Ok(secret);
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| ServiceError::NotUp { service: NAME, why: error.to_string() })?;
        let secret = HEXLOWER.encode(&bytes);
        private_file(NAME, &path, &secret)?;
        Ok(secret)
    }

    /// Makes or renews the tables, once for each environment that the server is run with.
    async fn migrate(&self) -> Result<(), ServiceError> {
        let marker = self.folder.join("migrated");
        let by = self.python.display().to_string();
        let database = self.folder.join("ansible.sqlite");
        if database.exists() && std::fs::read_to_string(&marker).is_ok_and(|text| text == by) {
            return Ok(());
        }
        let failed = |why: String| ServiceError::NotUp {
            service: NAME,
            why: format!("making its database failed: {why}"),
        };
        let mut command = self.python(["-m", "ara.server", "migrate"]);
        // The log as its output tells the next start that it is at work still.
        let log = File::options().create(true).append(true).open(&self.log);
        command.stdout(log.map_err(|e| failed(e.to_string()))?).stderr(Stdio::piped());
        let mut leashed = Leashed::spawn(command).map_err(|e| failed(e.to_string()))?;
        let mut said = String::new();
        if let Some(mut err) = leashed.child.stderr.take() {
            err.read_to_string(&mut said).await.ok();
        }
        let status = leashed.wait().await.map_err(|e| failed(e.to_string()))?;
        if !status.success() {
            return Err(failed(said.lines().last().map_or_else(|| status.to_string(), str::to_owned)));
        }
        private_file(NAME, &marker, &by)
    }

    /// A command that runs Python on a leash with ARA's settings.
    fn python<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = leash::command(&self.exe, GRACE, self.python.as_os_str(), arguments);
        let inherited: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
        // Variables of the user's own go before the file, and Python's may lead to other packages.
        for name in inherited.iter().filter(|name| {
            name.to_str().is_some_and(|name| name.starts_with("ARA_") || name.starts_with("PYTHON"))
        }) {
            command.env_remove(name);
        }
        command
            .env("ARA_BASE_DIR", &self.folder)
            .env("ARA_SETTINGS", self.settings())
            .env("DJANGO_SETTINGS_MODULE", "ara.server.settings")
            .env("PYTHONUNBUFFERED", "1")
            .env("PYTHONNOUSERSITE", "1")
            .current_dir(&self.folder);
        command
    }
}

impl Recipe for Server {
    fn name(&self) -> &'static str {
        NAME
    }

    fn command(&self) -> Result<Command, ServiceError> {
        let listen = format!("--listen=127.0.0.1:{}", self.port);
        Ok(self.python(["-m", "waitress", &listen, THREADS, "ara.server.wsgi:application"]))
    }

    /// It serves when the API's first page is there.
    async fn ready(&self) -> bool {
        let ask = async {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
            stream
                .write_all(b"GET /api/v1/ HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n")
                .await?;
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
