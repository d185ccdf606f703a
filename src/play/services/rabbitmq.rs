//! A private RabbitMQ node, run as whoever runs the playground.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::watch;

use super::earlier::settle;
use super::supervise::{Recipe, Service, State};
use super::{LEASH, ServiceError, free_port, private_file, private_folder, remembered_port};
use crate::play::leash;
use crate::play::packages::{self, Install};
use crate::play::progress::Report;

const NAME: &str = "RabbitMQ";
const PACKAGES: &[&str] = &["rabbitmq-server"];

/// Where Debian keeps the programs themselves: those on the `PATH` switch to a user of their own first.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// The node's name, which names its data too: so it must not change with the ports.
const NODE: &str = "hostwright@localhost";

/// What a node may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(15);

/// Little memory and few threads: the node serves one person. It logs only what is wrong, to its output.
const SETTINGS: &str = "loopback_users = none
log.console = true
log.console.level = warning
log.file = false
vm_memory_high_watermark.relative = 0.2
disk_free_limit.absolute = 50MB
";

/// Whether RabbitMQ is installed where we can use it.
#[must_use]
pub fn installed() -> bool {
    Path::new(PROGRAMS).join("rabbitmq-server").exists()
}

/// Installs RabbitMQ if it is missing.
///
/// # Errors
/// When it is missing and cannot or may not be installed.
pub async fn ensure_installed(install: Install, report: Report<'_>) -> Result<(), ServiceError> {
    if !installed() {
        packages::install("RabbitMQ", PACKAGES, install, report).await?;
    }
    Ok(())
}

/// A private node that is kept running until this is dropped.
#[derive(Debug)]
pub struct RabbitMq {
    service: Service,
    node: Node,
}

/// How often the start of the node is tried.
const START_TRIES: u32 = 3;

/// Starts the node that lives in `folder`, with its data, and waits until it serves. `exe` is the `hostwright` program.
///
/// # Errors
/// When RabbitMQ is not installed or does not come up.
pub async fn start(folder: &Path, exe: &Path) -> Result<RabbitMq, ServiceError> {
    // Says what to install, and installs nothing.
    ensure_installed(Install::Never, &|_| {}).await?;
    private_folder(NAME, folder)?;
    let folder = std::fs::canonicalize(folder).map_err(|source| ServiceError::File {
        service: NAME,
        path: folder.to_owned(),
        source,
    })?;
    let mut tries = START_TRIES;
    loop {
        tries -= 1;
        match attempt(&folder, exe).await {
            // A free port may be taken before the node opens it, by whoever looks for one at the same time.
            Err(error @ ServiceError::NotUp { .. }) if tries > 0 => {
                tracing::warn!(%error, "RabbitMQ did not come up: again, on other ports");
            }
            done => return done,
        }
    }
}

/// Starts the node once, on ports that are free now.
async fn attempt(folder: &Path, exe: &Path) -> Result<RabbitMq, ServiceError> {
    let log = folder.join("rabbitmq.log");
    settle(NAME, &log, GRACE + LEASH).await?;
    let port = remembered_port(NAME, folder)?;
    let epmd = free_port(NAME)?;
    let distribution = free_port(NAME)?;
    private_folder(NAME, &folder.join("home"))?;
    private_file(
        NAME,
        &folder.join("rabbitmq.conf"),
        &format!("listeners.tcp.1 = 127.0.0.1:{port}\n{SETTINGS}"),
    )?;
    private_file(NAME, &folder.join("enabled_plugins"), "[].\n")?;
    let node = Node { log, folder: folder.to_owned(), exe: exe.to_owned(), port, epmd, distribution };
    let service = Service::start(node.clone()).await?;
    Ok(RabbitMq { service, node })
}

impl RabbitMq {
    /// The URL to connect to, with the node's only user; it listens on loopback alone.
    #[must_use]
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.node.port)
    }

    /// The AMQP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.node.port
    }

    /// Its state, now and as it changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.service.state()
    }

    /// Stops the node and waits until all of it has ended. Its data stays.
    pub async fn stop(&self) {
        self.service.stop().await;
    }

    /// Starts the node again after [`RabbitMq::stop`], on the same port and with the same data.
    ///
    /// # Errors
    /// When it does not come up at once; it is tried again nevertheless.
    pub async fn start_again(&self) -> Result<(), ServiceError> {
        self.service.start_again().await
    }

    /// A command that runs one of RabbitMQ's own tools (`rabbitmqctl`, `rabbitmq-diagnostics`) against this node.
    #[must_use]
    pub fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(Path::new(PROGRAMS).join(name));
        self.node.environment(&mut command);
        command.kill_on_drop(true);
        command
    }
}

/// Where the node lives and listens.
#[derive(Debug, Clone)]
struct Node {
    folder: PathBuf,
    exe: PathBuf,
    log: PathBuf,
    port: u16,
    epmd: u16,
    distribution: u16,
}

impl Node {
    /// Everything that RabbitMQ's scripts would else look for in system folders, or in the user's.
    fn environment(&self, command: &mut Command) {
        let inside = |name: &str| self.folder.join(name);
        command
            .env_clear()
            .env("PATH", format!("{PROGRAMS}:/usr/local/bin:/usr/bin:/bin"))
            .env("HOME", inside("home"))
            .env("LANG", "C.UTF-8")
            .env("ERL_EPMD_PORT", self.epmd.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_CRASH_DUMP", "/dev/null")
            .env("RABBITMQ_NODENAME", NODE)
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_CONFIG_FILE", inside("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", inside("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", inside("data"))
            .env("RABBITMQ_LOG_BASE", inside("log"))
            .env("RABBITMQ_SCHEMA_DIR", inside("schema"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", inside("generated"))
            .current_dir(&self.folder);
    }
}

impl Recipe for Node {
    fn name(&self) -> &'static str {
        NAME
    }

    fn command(&self) -> Result<Command, ServiceError> {
        let program = Path::new(PROGRAMS).join("rabbitmq-server");
        // The node starts Erlang's port mapper itself. That one leaves its process group and session, but not the leash.
        let mut command = leash::command(&self.exe, GRACE, program.as_os_str(), [""; 0]);
        self.environment(&mut command);
        command
            // Makes the script become the node instead of waiting for it.
            .env("RUNNING_UNDER_SYSTEMD", "1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
            );
        Ok(command)
    }

    /// It serves when it answers the protocol's header with `connection.start`.
    async fn ready(&self) -> bool {
        let ask = async {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
            stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
            let mut head = [0; 11];
            stream.read_exact(&mut head).await?;
            Ok::<_, std::io::Error>(head)
        };
        // A frame: type 1 (method), channel, size; then class 10 (connection), method 10 (start).
        matches!(ask.await, Ok([1, 0, 0, _, _, _, _, 0, 10, 0, 10]))
    }

    fn log(&self) -> &Path {
        &self.log
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(90)
    }
}
