//! What the console and the server cost, measured from outside: the real program in a pseudo-terminal or at its port, against a cluster in
//! a process of its own.
//!
//! `cargo bench --bench outside -- target/release/hostwright [NAME…]` prints a table with the bounds; NAME chooses among `start`,
//! `small`, `large`, `crowd`, `change` and `load`. It takes three minutes on a quiet machine, and a busy one spoils it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods
)]

mod cluster;
mod load;
mod process;
mod terminal;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::{Cluster, Size, announcement, job_name, write_config};
use serde_json::json;
use tempfile::TempDir;
use terminal::Console;
use tokio::runtime::Runtime;

/// One line of the table.
struct Measured {
    what: &'static str,
    bound: f64,
    value: f64,
    unit: &'static str,
    note: String,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = Runtime::new().unwrap();
    if let [word, folder] = arguments.as_slice()
        && word == "cluster"
    {
        return runtime.block_on(cluster::serve(Path::new(folder)));
    }
    let program =
        arguments.first().map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_hostwright")), PathBuf::from);
    let program = program.canonicalize().expect("the path of the program");
    let wanted = |name: &str| arguments.len() < 2 || arguments.iter().skip(1).any(|a| a == name);
    let mut table = Vec::new();
    if wanted("start") {
        table.push(start(&program));
    }
    if wanted("small") {
        small(&program, &runtime, &mut table);
    }
    if wanted("large") {
        table.push(large(&program));
    }
    if wanted("crowd") {
        table.push(crowd(&program));
    }
    if wanted("change") {
        table.push(change(&program, &runtime));
    }
    if wanted("load") {
        load::load(&program, &runtime, &mut table);
    }
    println!("{}\n\n| what | at most | measured | |\n| --- | --- | --- | --- |", program.display());
    for Measured { what, bound, value, unit, note } in table {
        let over = if value > bound { " **over**" } else { "" };
        let bound = if bound.is_finite() { format!("{bound} {unit}") } else { "-".to_owned() };
        println!("| {what} | {bound} | {value:.1} {unit}{over} | {note} |");
    }
}

/// The value that so many percent are not above.
fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent).div_ceil(100).saturating_sub(1)]
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

/// From the start of the process to its first whole frame; every back end is dead.
fn start(program: &Path) -> Measured {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "far",
        "clusters": [{"name": "far", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "far", "context": {"cluster": "far", "user": "far"}}],
        "users": [{"name": "far", "user": {"token": "none"}}],
    });
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let text = format!(
        "[environments.far]\npolicy.source = \"/nonexistent\"\nkubernetes.kubeconfig = {kubeconfig:?}\n\
         amqp.url = \"amqp://guest:guest@127.0.0.1:1\"\nara.url = \"http://127.0.0.1:1\"\n"
    );
    let config = write_config(folder.path(), &text);
    let once = |_| {
        let mut console = Console::start(program, &config);
        let (at, _) = console.frame_after(0);
        milliseconds(at - console.begun)
    };
    let mut spans: Vec<f64> = (0..40).map(once).collect();
    let note = format!("median of 40; p95 {:.1} ms", percentile(&mut spans, 95));
    let value = percentile(&mut spans, 50);
    Measured { what: "start to first frame, dead back ends", bound: 15.0, value, unit: "ms", note }
}

/// 2,000 Jobs and 200 pods: memory, moves of the cursor, and doing nothing.
fn small(program: &Path, runtime: &Runtime, table: &mut Vec<Measured>) {
    let folder = TempDir::new().unwrap();
    let cluster = Cluster::start(folder.path(), &Size { runs: 2_000, pods: 200, lines: 0, pending: false });
    let broker = broker(program, runtime, &folder);
    let up = if broker.is_some() {
        "cluster, queue and ARA up"
    } else {
        "cluster and ARA up; RabbitMQ is not installed"
    };
    let mut console = Console::start(program, &cluster.config(broker.as_ref().map(|b| b.url()).as_deref()));
    console.wait_for("2000 ready");
    console.quiet(Duration::from_secs(2));
    let (value, own) = console.resident();
    let note = format!("{own:.1} MB of it its own, the rest the program's file; {up}");
    table.push(Measured {
        what: "resident memory: 2,000 Jobs and 200 pods",
        bound: 40.0,
        value,
        unit: "MB",
        note,
    });
    moves(&mut console, table);

    console.quiet(Duration::from_secs(5));
    let (written, processor) = (console.written(), console.processor());
    std::thread::sleep(Duration::from_secs(30));
    let value = (console.written() - written) as f64;
    let note = up.to_owned();
    table.push(Measured { what: "idle for 30 s: bytes written", bound: 0.0, value, unit: "bytes", note });
    let value = milliseconds(console.processor() - processor);
    let note = String::new();
    table.push(Measured { what: "idle for 30 s: processor time", bound: 20.0, value, unit: "ms", note });
}

/// The cursor moves down one row, rests, and the details follow.
fn moves(console: &mut Console, table: &mut Vec<Measured>) {
    let (mut moved, mut settled) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        let begin = console.written();
        console.press("j");
        let (_, end) = console.frame_after(begin);
        moved.push((end - begin) as f64);
        console.quiet(Duration::from_millis(400));
        settled.push((console.written() - end) as f64);
    }
    for (what, bound, mut bytes) in [
        ("bytes written: the cursor moves one row at 160x50", 300.0, moved),
        ("bytes written: the details settle", 1_000.0, settled),
    ] {
        let value = percentile(&mut bytes, 100);
        let note = format!("most of 30; median {:.0}", percentile(&mut bytes, 50));
        table.push(Measured { what, bound, value, unit: "bytes", note });
    }
}

/// A broker, where RabbitMQ is installed.
fn broker(
    program: &Path,
    runtime: &Runtime,
    folder: &TempDir,
) -> Option<hostwright::play::services::rabbitmq::RabbitMq> {
    use hostwright::play::services::rabbitmq;
    if !rabbitmq::installed() {
        return None;
    }
    Some(runtime.block_on(rabbitmq::start(&folder.path().join("rabbitmq"), program)).unwrap())
}

/// 10,000 runs, and the newest is open with a log of 50,000 lines.
fn large(program: &Path) -> Measured {
    const LINES: usize = 50_000;
    let folder = TempDir::new().unwrap();
    let cluster =
        Cluster::start(folder.path(), &Size { runs: 10_000, pods: 1, lines: LINES, pending: false });
    let mut console = Console::start(program, &cluster.config(None));
    console.wait_for("10000 ready");
    console.quiet(Duration::from_secs(1));
    console.press("\r");
    console.wait_for(&format!("line {LINES:06}"));
    console.quiet(Duration::from_secs(2));
    let (value, own) = console.resident();
    let note = format!("{own:.1} MB of it its own, the rest the program's file");
    let what = "resident memory: 10,000 runs and a 50,000-line log open";
    Measured { what, bound: 60.0, value, unit: "MB", note }
}

/// Ten times as many hosts as the bounds are for: what a host costs.
fn crowd(program: &Path) -> Measured {
    const HOSTS: usize = 100_000;
    let folder = TempDir::new().unwrap();
    let cluster = Cluster::start(folder.path(), &Size { runs: HOSTS, pods: 0, lines: 0, pending: false });
    let mut console = Console::start(program, &cluster.config(None));
    console.wait_for("100000 ready");
    console.quiet(Duration::from_secs(2));
    let (value, own) = console.resident();
    let note = format!("{own:.1} MB of it its own, {:.1} kB a host", own * 1000.0 / HOSTS as f64);
    Measured { what: "resident memory: 100,000 hosts", bound: f64::INFINITY, value, unit: "MB", note }
}

/// How long the changes go on, at 100 a second; each fifth is of a host that is on the screen.
const CHANGES: usize = 3_000;
const ON_SCREEN: usize = 30;

/// From the request that changes an object to the frame that shows it, among 1,000 that change 100 times a second.
fn change(program: &Path, runtime: &Runtime) -> Measured {
    let folder = TempDir::new().unwrap();
    let cluster = Cluster::start(folder.path(), &Size { runs: 1_000, pods: 0, lines: 0, pending: true });
    let mut console = Console::start(program, &cluster.config(None));
    console.wait_for("1000 pending");
    console.quiet(Duration::from_secs(1));
    let screen = console.screen();
    assert!(
        (0..ON_SCREEN).all(|n| screen.contains(&cluster::host(n)[..9])),
        "other hosts are shown:\n{screen}"
    );
    let from = console.written();
    let asked = runtime.block_on(changes(&cluster.api));
    console.quiet(Duration::from_secs(1));
    let tape = console.tape();
    let shown = |(word, at): &(String, Instant)| {
        let place = tape.find(from, word.as_bytes())?;
        Some(milliseconds(tape.frame_at(place)?.duration_since(*at)))
    };
    let mut spans: Vec<f64> = asked.iter().filter_map(shown).collect();
    let lost = asked.len() - spans.len();
    assert!(!spans.is_empty(), "no change was shown");
    let value = percentile(&mut spans, 99);
    let median = percentile(&mut spans, 50);
    let note = format!("{} changes on screen, {lost} not seen; median {median:.1} ms", spans.len());
    let what =
        "from an object's change to the frame that shows it (p99; 1,000 objects, 100 changes a second)";
    Measured { what, bound: 50.0, value, unit: "ms", note }
}

/// Makes the changes; tells which word is on the screen after each that is to be seen there, and when it was asked for.
async fn changes(api: &str) -> Vec<(String, Instant)> {
    let client = reqwest::Client::new();
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let mut asked = Vec::new();
    let mut calls = tokio::task::JoinSet::new();
    for change in 0..CHANGES {
        tick.tick().await;
        let round = change / 5;
        let seen = change % 5 == 0;
        let host = if seen { round % ON_SCREEN } else { 100 + change % 900 };
        let word = word(round, (round / ON_SCREEN).is_multiple_of(2));
        let group = if seen { word.clone() } else { "db".to_owned() + &word };
        let patch = json!({"metadata": {"annotations": {
            "hostwright.dev/announcement": announcement(host, &group), "hostwright.dev/digest": format!("{change:064x}"),
        }}});
        let url = format!("{api}/apis/batch/v1/namespaces/hostwright/jobs/{}", job_name(host));
        let call =
            client.patch(url).header("content-type", "application/merge-patch+json").body(patch.to_string());
        if seen {
            asked.push((word, Instant::now()));
        }
        calls.spawn(async move { assert!(call.send().await.unwrap().status().is_success()) });
    }
    calls.join_all().await;
    asked
}

/// A word of its own for each round, in letters that its place on the screen does not have yet: then it is written whole.
fn word(round: usize, even: bool) -> String {
    let first = if even { b'a' } else { b'n' };
    let letter = |place: u32| char::from(first + u8::try_from(round / 13_usize.pow(place) % 13).unwrap());
    (0..5).map(letter).collect()
}
