//! From the start of the process to the first whole frame on the terminal, with every back end unreachable.
//!
//! `cargo bench --bench start` measures the release build; the figures are in `benches/README.md`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::io::Read;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use tempfile::TempDir;

/// The end of a frame, as the console marks it.
const FRAME: &[u8] = b"\x1b[?2026l";

fn first_frame(command: &CommandBuilder) -> Duration {
    let size = PtySize { rows: 50, cols: 160, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut reader = pair.master.try_clone_reader().unwrap();
    let begun = Instant::now();
    let mut child = pair.slave.spawn_command(command.clone()).unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 65536];
    while !seen.windows(FRAME.len()).any(|bytes| bytes == FRAME) {
        let n = reader.read(&mut buffer).unwrap();
        seen.extend_from_slice(buffer.get(..n).unwrap());
    }
    let spent = begun.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    spent
}

fn start(criterion: &mut Criterion) {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        "apiVersion: v1\nkind: Config\ncurrent-context: far\n\
         contexts: [{name: far, context: {cluster: far, user: far}}]\n\
         clusters: [{name: far, cluster: {server: 'https://127.0.0.1:1'}}]\n\
         users: [{name: far, user: {token: none}}]\n",
    )
    .unwrap();
    let config = folder.path().join("config.toml");
    let text = format!(
        "[environments.far.kubernetes]\nkubeconfig = {kubeconfig:?}\n\
         [environments.far.amqp]\nurl = \"amqp://guest:guest@127.0.0.1:1\"\n\
         [environments.far.ara]\nurl = \"http://127.0.0.1:1\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_hostwright"));
    command.args(["-e", "far", "--config"]);
    command.arg(&config);
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
        command.env(name, folder.path());
    }
    criterion.bench_function("start to first frame", |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| first_frame(&command)).sum());
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(3));
    targets = start
}
criterion_main!(benches);
