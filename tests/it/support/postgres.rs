//! A PostgreSQL of a test's own, which lets nobody in but over TLS and with a certificate of its CA. It ends with the test process,
//! however that ends.
//!
//! PostgreSQL does not run as root: then it runs as `nobody`, in a folder that is nobody's.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostwright::play::leash;
use hostwright::play::services::ServiceError;
use hostwright::play::services::supervise::{Recipe, Service};
use tempfile::TempDir;
use tokio::process::Command;

use super::certificates::Ca;

const GRACE: Duration = Duration::from_secs(10);
/// The user that it runs as when the tests are root's.
const NOBODY: u32 = 65_534;
/// An address of this machine that its certificate does not name.
pub(crate) const OTHER_ADDRESS: &str = "127.0.0.2";
/// To be asked to end is to end the connections too: PostgreSQL waits for its clients at SIGTERM and not at SIGINT.
const RUN: &str = r#""$@" & server=$!; trap 'kill -INT $server' TERM; wait $server; wait $server"#;
/// Who may come in: ARA's user into its own database, and the administrator; with a certificate in their name, and over TLS alone.
const WHO: &str = "hostssl ara ara 127.0.0.0/8 cert\nhostssl all postgres 127.0.0.0/8 cert\n";

/// A running server.
pub(crate) struct Postgres {
    recipe: Server,
    service: Service,
    folder: TempDir,
    ca: Ca,
}

impl Postgres {
    /// Starts a server with the role `ara`, which owns the database `ara`.
    pub(crate) async fn start() -> Self {
        let folder = super::temp();
        // Nobody may pass through, to what is its own.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let ca = Ca::new("database-ca");
        let admin = folder.path().join("admin");
        identity(&admin, &ca, &ca.user("postgres", "admins"));
        let recipe = Server::new(folder.path(), admin, &ca).await;
        let service = Service::start(recipe.clone()).await.unwrap_or_else(|error| {
            let log = std::fs::read_to_string(&recipe.log).unwrap_or_default();
            panic!("{error}\n{log}")
        });
        let started = Self { recipe, service, folder, ca };
        started.sql("postgres", "CREATE ROLE ara LOGIN").await;
        started.sql("postgres", "CREATE DATABASE ara OWNER ara").await;
        started
    }

    /// Ends it and waits until it has.
    pub(crate) async fn stop(self) {
        self.service.stop().await;
        self.folder.close().unwrap();
    }

    /// What it logged since it was last started.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.recipe.log).unwrap()
    }

    /// Ends it for a while, its connections too.
    pub(crate) async fn pause(&self) {
        self.service.stop().await;
    }

    /// Starts it again after [`Postgres::pause`].
    pub(crate) async fn resume(&self) {
        self.service.start_again().await.unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        self.recipe.port
    }

    /// The CA that signs the server's certificate and those of its users.
    pub(crate) fn ca(&self) -> &Ca {
        &self.ca
    }

    /// What a statement says, as the administrator: a line a row, columns by `|`.
    pub(crate) async fn sql(&self, database: &str, statement: &str) -> String {
        let (ok, said) = self.recipe.psql("127.0.0.1", database, "verify-full", statement).await;
        assert!(ok, "{statement}: {said}");
        said.trim().to_owned()
    }

    /// As [`Postgres::sql`], at another address and in another TLS mode, and whether it worked.
    pub(crate) async fn try_at(&self, host: &str, mode: &str) -> (bool, String) {
        self.recipe.psql(host, "postgres", mode, "SELECT 1").await
    }
}

/// Writes a CA's certificate, a certificate and its key as they lie in the Secret of a pod.
pub(crate) fn identity(folder: &Path, ca: &Ca, (certificate, key): &(String, String)) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, text) in [("ca.crt", &ca.pem()), ("tls.crt", certificate), ("tls.key", key)] {
        super::private_file(&folder.join(name), text);
    }
}

/// How it is started and asked.
#[derive(Clone)]
struct Server {
    programs: PathBuf,
    folder: PathBuf,
    admin: PathBuf,
    log: PathBuf,
    port: u16,
}

impl Server {
    /// Makes its data.
    async fn new(folder: &Path, admin: PathBuf, ca: &Ca) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let log = folder.join("postgres.log");
        let server = Self { programs: programs(), folder: folder.to_owned(), admin, log, port };
        let home = server.home();
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
        server.own(&home);
        let data = server.data();
        let make = ["-D", data.to_str().unwrap(), "-U", "postgres", "-A", "reject"];
        let make = make.into_iter().chain(["--no-sync", "-E", "UTF8", "--locale=C"]);
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$@""#, "sh"]).args(server.as_its_user("initdb")).args(make);
        let output = server.surroundings(&mut command).output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "initdb: {said}");

        let (certificate, key) = ca.sign_all(&["localhost", "127.0.0.1"]);
        for (name, text) in [
            ("ca.crt", ca.pem().as_str()),
            ("server.crt", &certificate),
            ("server.key", &key),
            ("pg_hba.conf", WHO),
        ] {
            super::private_file(&data.join(name), text);
            server.own(&data.join(name));
        }
        server
    }

    fn home(&self) -> PathBuf {
        self.folder.join("server")
    }

    fn data(&self) -> PathBuf {
        self.home().join("data")
    }

    /// Gives a file to the user that it runs as.
    fn own(&self, path: &Path) {
        if root() {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// A program of PostgreSQL's, run as the user that it runs as.
    fn as_its_user(&self, program: &str) -> Vec<String> {
        let program = self.programs.join(program).to_str().unwrap().to_owned();
        let nobody = NOBODY.to_string();
        let become_nobody = ["setpriv", "--reuid", &nobody, "--regid", &nobody, "--clear-groups", "--"];
        let become_nobody = become_nobody.map(str::to_owned).into_iter().filter(|_| root());
        become_nobody.chain([program]).collect()
    }

    fn surroundings<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir(self.home())
    }

    async fn psql(&self, host: &str, database: &str, mode: &str, statement: &str) -> (bool, String) {
        let file = |name: &str| self.admin.join(name).to_str().unwrap().to_owned();
        let target = format!(
            "host={host} port={} dbname={database} user=postgres sslmode={mode} sslrootcert={} sslcert={} sslkey={}",
            self.port,
            file("ca.crt"),
            file("tls.crt"),
            file("tls.key")
        );
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &target, "-c", statement]);
        let output = self.surroundings(&mut command).kill_on_drop(true).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }
}

impl Recipe for Server {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn command(&self) -> Result<Command, ServiceError> {
        let data = self.data();
        let port = self.port.to_string();
        let settings = [
            ("listen_addresses", format!("127.0.0.1,{OTHER_ADDRESS}")),
            ("unix_socket_directories", String::new()),
            ("ssl", "on".to_owned()),
            ("ssl_ca_file", "ca.crt".to_owned()),
            ("ssl_cert_file", "server.crt".to_owned()),
            ("ssl_key_file", "server.key".to_owned()),
            ("log_connections", "on".to_owned()),
            // A test's data need not outlive a power cut.
            ("fsync", "off".to_owned()),
        ];
        let mut arguments = vec!["-c".to_owned(), RUN.to_owned(), "sh".to_owned()];
        arguments.extend(self.as_its_user("postgres"));
        arguments.extend(["-D", data.to_str().unwrap(), "-p", &port].map(str::to_owned));
        arguments.extend(settings.map(|(name, value)| format!("--{name}={value}")));
        let mut command = leash::command(super::exe(), GRACE, OsStr::new("sh"), arguments);
        self.surroundings(&mut command);
        Ok(command)
    }

    async fn ready(&self) -> bool {
        self.psql("127.0.0.1", "postgres", "verify-full", "SELECT 1").await.0
    }

    fn log(&self) -> &Path {
        &self.log
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The folder of PostgreSQL's programs, which Debian keeps by version and off the `PATH`.
fn programs() -> PathBuf {
    let by_version = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = by_version.map(|entry| entry.path().join("bin")).collect();
    // Of several the newest.
    folders.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        std::cmp::Reverse(version.and_then(|version| version.parse::<u32>().ok()))
    });
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let found =
        folders.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists());
    found.expect("PostgreSQL is missing: apt-get install postgresql (tests/run does it)")
}
