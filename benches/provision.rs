//! What `hostwright provision` adds to a bare `ansible-playbook` with ARA's callback: the same playbook on the same machine, the
//! two by turns. It may add at most 150 ms.
#![allow(
    clippy::indexing_slicing,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

use std::cell::RefCell;
use std::process::Stdio;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use hostwright::agent::provision;
use hostwright::domain::ExitCode;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use stage::{Stage, local, own, site};

#[path = "../tests/it/stage.rs"]
mod stage;
#[path = "../tests/it/support/mod.rs"]
mod support;

/// How long a bare run took, and one through `provision`.
type Pair = (Duration, Duration);

struct Bench {
    runtime: Runtime,
    stage: Stage,
    pairs: RefCell<Vec<Pair>>,
}

impl Bench {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let tasks = "- command: \"true\"\n- debug: {msg: hello}\n- set_fact: {x: 1}";
        let stage = runtime.block_on(async { Stage::new(&local(tasks)).await.with_ara().await });
        let inputs = stage.dir.path().join("inputs");
        std::fs::create_dir(&inputs).unwrap();
        std::fs::write(inputs.join("inventory.yaml"), "all: {hosts: {web-1.example.org: null}}\n").unwrap();
        let python = &stage.settings.provision.python;
        std::fs::write(inputs.join("vars.yaml"), format!("ansible_python_interpreter: {python}\n")).unwrap();
        Self { runtime, stage, pairs: RefCell::default() }
    }

    /// Ansible as an operator starts it, its output read as by a terminal.
    async fn bare(&self) -> Duration {
        let python = support::python().await;
        let inputs = self.stage.dir.path().join("inputs");
        let started = Instant::now();
        let output = tokio::process::Command::new(&python.ansible_playbook)
            .arg("--inventory")
            .arg(inputs.join("inventory.yaml"))
            .arg("--extra-vars")
            .arg(format!("@{}", inputs.join("vars.yaml").display()))
            .args(["--diff", "site.yml"])
            .current_dir(self.stage.policy())
            .env("ANSIBLE_CALLBACK_PLUGINS", &python.callback_plugins)
            .env("ANSIBLE_ACTION_PLUGINS", &python.action_plugins)
            .env("ARA_API_CLIENT", "http")
            .env("ARA_API_SERVER", support::ara().await.url())
            .env("ARA_DEFAULT_LABELS", "run:bare,host:web-1.example.org")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        started.elapsed()
    }

    async fn through_provision(&self) -> Duration {
        let run = self.stage.approved(&site(&["web"])).await;
        let own = own(&run);
        let mut out = Vec::new();
        let started = Instant::now();
        let exit = provision::run(&self.stage.settings, own, &mut out, CancellationToken::new()).await;
        let took = started.elapsed();
        assert_eq!(exit, ExitCode::Ready, "{}", String::from_utf8_lossy(&out));
        took
    }

    /// `count` runs of each, by turns; the sum of what `which` picks.
    fn measure(&self, count: u64, which: impl Fn(Pair) -> Duration) -> Duration {
        let mut sum = Duration::ZERO;
        for _ in 0..count {
            let pair = self.runtime.block_on(async { (self.bare().await, self.through_provision().await) });
            self.pairs.borrow_mut().push(pair);
            sum += which(pair);
        }
        sum
    }

    fn say_what_it_adds(&self) {
        let mut added: Vec<i128> = self
            .pairs
            .borrow()
            .iter()
            .map(|(bare, ours)| ours.as_micros().cast_signed() - bare.as_micros().cast_signed())
            .collect();
        added.sort_unstable();
        let at = |percent: usize| added.get(added.len() * percent / 100).copied().unwrap_or_default() / 1000;
        eprintln!(
            "provision adds {} ms (median of {} pairs; half of them lie between {} and {} ms)",
            at(50),
            added.len(),
            at(25),
            at(75)
        );
    }
}

fn provision(c: &mut Criterion) {
    let bench = Bench::new();
    let mut group = c.benchmark_group("provision");
    group.sample_size(10).warm_up_time(Duration::from_secs(3)).measurement_time(Duration::from_secs(30));
    group.bench_function("bare", |b| b.iter_custom(|count| bench.measure(count, |(bare, _)| bare)));
    group.bench_function("through", |b| b.iter_custom(|count| bench.measure(count, |(_, ours)| ours)));
    group.finish();
    bench.say_what_it_adds();
}

criterion_group!(benches, provision);
criterion_main!(benches);
