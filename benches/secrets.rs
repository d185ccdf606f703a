//! Secrets against the same with rclone, by turns on one AWS server: 3,000 small objects uploaded, fetched, and fetched again; and the
//! sync agent in a minute in which nothing changes.
//!
//! `cargo bench --bench secrets` prints the figures; they are in `benches/README.md`. rclone is Debian's package.
#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hostwright::backend::aws::{Aws, Request};
use hostwright::backend::s3::Bucket;
use hostwright::config::{self, Sources, Variables};
use hostwright::play::packages::Install;
use hostwright::play::python;
use hostwright::play::services::moto;

const OBJECTS: usize = 3_000;
const REGION: &str = "eu-west-1";
/// How often each is done; the median counts.
const TURNS: usize = 3;

const EXE: &str = env!("CARGO_BIN_EXE_hostwright");

/// How long a command takes that must succeed.
fn timed(command: &mut Command) -> Duration {
    command.stdout(Stdio::null()).stdin(Stdio::null());
    let begun = Instant::now();
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
    begun.elapsed()
}

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.args(args).current_dir(home).env_clear();
    command
        .env("HOME", home)
        .env("HOSTWRIGHT_CONFIG", home.join("config.toml"))
        .env("HOSTWRIGHT_ENV", "staging");
    command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    command
}

fn ours(home: &Path, args: &[&str]) -> Duration {
    timed(&mut command(home, args))
}

/// What Prometheus would read there.
fn metric(address: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap().parse().unwrap()
}

/// Processor time of a process until now, and its memory, as the kernel tells them (a tick is 10 ms on Linux).
fn proc(pid: u32) -> (Duration, String) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    (Duration::from_millis(ticks * 10), memory)
}

/// The agent on a node in a minute in which nothing changes: requests to the bucket, processor time, memory.
async fn idle(home: &Path) {
    let args = ["sync", "compute", "--to", "node", "--node", "bench", "--metrics", "127.0.0.1:0"];
    let mut child = command(home, &args).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = log.find(|line| line.contains("metrics are served")).expect("no metrics are served");
    let address = line.split("\"address\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    log.find(|line| line.contains("as they were")).expect("it never synced");
    let count = |name: &str| metric(address, &format!("hostwright_sync_{name}_total"));
    let before = (count("rounds"), count("listing_pages"), count("downloads"), proc(child.id()).0);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (time, memory) = proc(child.id());
    println!(
        "sync, an idle minute with {OBJECTS} objects: {} rounds, {} requests, {} downloads, {:.2?} of processor time, {memory}",
        count("rounds") - before.0,
        count("listing_pages") - before.1,
        count("downloads") - before.2,
        time - before.3,
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

fn rclone(url: &str, key: &str, from: &str, to: &str) -> Duration {
    let mut command = Command::new("rclone");
    command.args(["copy", from, to, "--config", "/dev/null", "--quiet"]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("RCLONE_S3_PROVIDER", "Other").env("RCLONE_S3_ENDPOINT", url).env("RCLONE_S3_REGION", REGION);
    command.env("RCLONE_S3_ACCESS_KEY_ID", "a").env("RCLONE_S3_SECRET_ACCESS_KEY", "b");
    command.env("RCLONE_S3_SERVER_SIDE_ENCRYPTION", "aws:kms").env("RCLONE_S3_SSE_KMS_KEY_ID", key);
    timed(&mut command)
}

fn files(folder: &Path) {
    for n in 0..OBJECTS {
        let path = folder.join(format!("compute/{:02}/{n:04}.txt", n % 100));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{n} ").repeat(40 + n % 200)).unwrap();
    }
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    *all.get(all.len() / 2).unwrap()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("hostwright-test");
    std::fs::create_dir_all(&kept).unwrap();
    let python = python::ensure(&kept, Path::new(EXE), Install::Never, &|_| {}).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = moto::start(&folder.path().join("moto"), &python, Path::new(EXE)).await.unwrap();
    let url = server.url();
    let request = Request {
        profile: "none".to_owned(),
        credentials_file: Some(folder.path().join("credentials")),
        region: Some(REGION.to_owned()),
        default_region: REGION.to_owned(),
        endpoint: Some(url.clone()),
    };
    std::fs::write(
        folder.path().join("credentials"),
        "[none]\naws_access_key_id = a\naws_secret_access_key = b\n",
    )
    .unwrap();
    let aws = Aws::connect(&request, None).await.unwrap();
    let permit = config::load_with(&Sources::default(), &Variables::default()).unwrap().permit().unwrap();
    let key = aws.create_kms_key(&permit, "bench").await.unwrap();
    let mut figures: Vec<(&str, Vec<Duration>, Vec<Duration>)> =
        ["upload", "fetch", "fetch again"].map(|what| (what, Vec::new(), Vec::new())).into();
    for turn in 0..TURNS {
        let home = folder.path().join(format!("home-{turn}"));
        let (mine, theirs) = (format!("mine-{turn}"), format!("theirs-{turn}"));
        for name in [&mine, &theirs] {
            Bucket::new(aws.sdk(), true, name, &key).create(&permit, REGION).await.unwrap();
        }
        std::fs::create_dir_all(home.join("environments")).unwrap();
        let config = format!("[environments.staging]\npolicy.source = \"/\"\naws.endpoint = \"{url}\"\n");
        std::fs::write(home.join("config.toml"), config).unwrap();
        let variables = format!(
            "environment = \"staging\"\nkms_master_id = \"{key}\"\npublic_zone_name = \"example.org\"\n\
             private_zone_name = \"example.org\"\nsecrets_bucket_name = \"{mine}\"\nterraform_bucket_name = \"terraform\"\n"
        );
        std::fs::write(home.join("environments/staging.tfvars"), variables).unwrap();
        let copy = home.join("platform/secrets/staging");
        files(&copy);
        let other = home.join("rclone");
        files(&other);
        let remote = format!(":s3:{theirs}");
        let path = other.to_str().unwrap();
        // By turns, and each first as often as the other.
        let mut pair = |at: usize, ours: &dyn Fn() -> Duration, theirs: &dyn Fn() -> Duration| {
            let (a, b) = if turn % 2 == 0 {
                let a = ours();
                (a, theirs())
            } else {
                let b = theirs();
                (ours(), b)
            };
            println!("{}: hostwright {a:?}, rclone {b:?}", figures[at].0);
            figures[at].1.push(a);
            figures[at].2.push(b);
        };
        pair(0, &|| ours(&home, &["secrets", "upload"]), &|| rclone(&url, &key, path, &remote));
        std::fs::remove_dir_all(&copy).unwrap();
        std::fs::remove_dir_all(&other).unwrap();
        pair(1, &|| ours(&home, &["secrets", "fetch"]), &|| rclone(&url, &key, &remote, path));
        pair(2, &|| ours(&home, &["secrets", "fetch"]), &|| rclone(&url, &key, &remote, path));
    }
    for (what, ours, theirs) in figures {
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        println!("{what} of {OBJECTS}: hostwright {ours:.2?}, rclone {theirs:.2?}: {ratio:.1} times as fast");
    }
    idle(&folder.path().join("home-0")).await;
    server.stop().await;
}
