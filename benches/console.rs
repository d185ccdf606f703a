//! The console's mind and face with 10,000 hosts: what one message and one frame cost.
#![allow(clippy::indexing_slicing, clippy::print_stdout, missing_docs, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use hostwright::app::{EnvironmentInfo, LogEvent, LogLine, Msg, RunsMsg, Seen, State, prepare, update};
use hostwright::config::{Keymap, Theme};
use hostwright::domain::{HostName, Kind, Phase, Run, run_name};
use hostwright::view::draw;
use jiff::{SignedDuration, Timestamp};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const HOSTS: usize = 10_000;

fn now() -> Timestamp {
    "2026-12-01T14:02:00Z".parse().unwrap()
}

fn run(n: usize, phase: Phase) -> Run {
    let host = HostName::parse(&format!("web-{n}.lan.example.org")).unwrap();
    Run {
        uid: format!("0f8fad5b-d9cb-469f-a165-{n:012}"),
        name: run_name(Kind::Provision, &host, 1),
        resource_version: n.to_string(),
        host,
        kind: Kind::Provision,
        number: 1,
        phase,
        reason: String::new(),
        created: now() - SignedDuration::from_secs(600 + n as i64 * 7),
        seen: now() - SignedDuration::from_secs(60),
        started: None,
        finished: None,
        digest: format!("{n:064}"),
        boot: None,
        address: Some(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n as u32).into()),
        branch: Some("main".into()),
        groups: vec!["web".into(), "k8s_worker".into()],
        key: Some("ed25519 SHA256:7rXkPq2v0bqVJm1mZ0r3QwT5c8hYt4n6".into()),
        decision: None,
        delivered: None,
        outcome: None,
        stop: None,
        retry: None,
        check: None,
        forget: None,
        playbooks: Vec::new(),
        last_attempt: None,
        answers: None,
        queue: false,
        deleting: false,
        failed_pods: 0,
        waits: None,
    }
}

fn phase(n: usize) -> Phase {
    Phase::ALL[n % Phase::ALL.len()]
}

struct Console {
    state: State,
    seen: Seen,
    theme: Theme,
    terminal: Terminal<TestBackend>,
}

impl Console {
    fn empty() -> Self {
        let environment = EnvironmentInfo {
            others: Vec::new(),
            target_port: 9103,
            name: "staging".into(),
            guarded: true,
            playground: false,
            read_only: false,
            operator: "ann".into(),
            cluster: "staging/hostwright".into(),
            amqp: true,
            ara: true,
            playbook: "site.yml".into(),
            branch: None,
            zone: jiff::tz::TimeZone::UTC,
            local: jiff::tz::TimeZone::UTC,
        };
        let mut state = State::new(environment, Keymap::default(), now());
        update(&mut state, &Seen::default(), now(), Msg::Resize { width: 160, height: 50 });
        let terminal = Terminal::new(TestBackend::new(160, 50)).unwrap();
        Self { state, seen: Seen::default(), theme: Theme::default(), terminal }
    }

    fn full() -> Self {
        Self::of(HOSTS)
    }

    fn of(hosts: usize) -> Self {
        let mut console = Self::empty();
        console.send(Msg::Runs(RunsMsg::Reset));
        console.send(Msg::Runs(RunsMsg::Batch((0..hosts).map(|n| run(n, phase(n))).collect())));
        console.send(Msg::Runs(RunsMsg::Listed));
        console.frame();
        console
    }

    fn send(&mut self, msg: Msg) {
        update(&mut self.state, &self.seen, now(), msg);
    }

    fn key(&mut self, key: &str) {
        self.send(Msg::Key(key.parse().unwrap()));
    }

    /// How long a key and its frame take.
    fn timed(&mut self, key: &str) -> Duration {
        let begun = Instant::now();
        self.key(key);
        self.frame();
        begun.elapsed()
    }

    fn frame(&mut self) {
        prepare(&mut self.state, now());
        let (state, theme) = (&self.state, &self.theme);
        let mut seen = Seen::default();
        self.terminal.draw(|frame| seen = draw(frame, state, theme)).unwrap();
        self.seen = seen;
    }
}

fn start(c: &mut Criterion) {
    c.bench_function("first frame, nothing known", |b| {
        b.iter_batched_ref(Console::empty, Console::frame, BatchSize::LargeInput);
    });
    c.bench_function("10,000 runs arrive in lists of 100, then a frame", |b| {
        let lists = || {
            (0..HOSTS / 100).map(|l| (l * 100..(l + 1) * 100).map(|n| run(n, phase(n))).collect::<Vec<_>>())
        };
        b.iter_batched(
            || (Console::empty(), lists().collect::<Vec<_>>()),
            |(mut console, lists)| {
                console.send(Msg::Runs(RunsMsg::Reset));
                for list in lists {
                    console.send(Msg::Runs(RunsMsg::Batch(list)));
                }
                console.send(Msg::Runs(RunsMsg::Listed));
                console.frame();
            },
            BatchSize::LargeInput,
        );
    });
}

fn hosts(c: &mut Criterion) {
    let mut console = Console::full();
    c.bench_function("10,000 hosts: one frame at 160x50", |b| b.iter(|| console.frame()));
    c.bench_function("10,000 hosts: a key that moves, and the frame", |b| {
        b.iter(|| {
            console.key("j");
            console.frame();
        });
    });
    c.bench_function("10,000 hosts: 100 of them change, and the frame", |b| {
        let mut turn = 0;
        b.iter(|| {
            turn += 1;
            let changed = (0..100).map(|n| run((n * 97 + turn) % HOSTS, phase(n + turn))).collect();
            console.send(Msg::Runs(RunsMsg::Batch(changed)));
            console.frame();
        });
    });
    filter(c, &mut console, "10,000 hosts");
    c.bench_function("10,000 hosts: sort by the next column, and the frame", |b| {
        b.iter(|| {
            console.key("s");
            console.frame();
        });
    });
}

/// One letter more and one letter less, each with its frame; each alone is timed.
fn filter(c: &mut Criterion, console: &mut Console, what: &str) {
    console.key("/");
    console.key("w");
    console.frame();
    for (name, timed, undone) in
        [("a letter of a filter", "9", "backspace"), ("a letter of a filter taken back", "backspace", "9")]
    {
        if timed == "backspace" {
            console.key("9");
            console.frame();
        }
        c.bench_function(&format!("{what}: {name}, and the frame"), |b| {
            b.iter_custom(|rounds| {
                let mut spent = Duration::ZERO;
                for _ in 0..rounds {
                    spent += console.timed(timed);
                    console.timed(undone);
                }
                spent
            });
        });
    }
    console.key("esc");
    console.frame();
}

/// The bound is on the slowest of a hundred keys: what an operator types into a filter over 10,000 runs, and moves among what it left.
fn keys(c: &mut Criterion) {
    const KEYS: [&str; 13] =
        ["/", "w", "e", "9", "backspace", "4", "enter", "down", "pagedown", "up", "/", "ctrl-u", "enter"];
    let mut console = Console::full();
    console.key("2");
    console.frame();
    let mut spans: Vec<Duration> = (0..100).flat_map(|_| KEYS).map(|key| console.timed(key)).collect();
    spans.sort_unstable();
    let at = |percent: usize| spans[(spans.len() * percent).div_ceil(100) - 1];
    println!(
        "10,000 runs, a filter typed and moved in: key to frame {:?} median, {:?} p99 of {} keys",
        at(50),
        at(99),
        spans.len()
    );
    c.bench_function("10,000 runs: a key that moves in a filter, and the frame", |b| {
        for key in ["/", "w", "9", "enter"] {
            console.timed(key);
        }
        b.iter(|| console.timed("j"));
    });
}

/// Ten times as many as the bounds are for: nothing may grow faster than the rows.
fn crowd(c: &mut Criterion) {
    const CROWD: usize = 100_000;
    let mut console = Console::of(CROWD);
    c.bench_function("100,000 hosts: one frame at 160x50", |b| b.iter(|| console.frame()));
    c.bench_function("100,000 hosts: a key that moves, and the frame", |b| {
        b.iter(|| {
            console.key("j");
            console.frame();
        });
    });
    c.bench_function("100,000 hosts: 100 of them change, and the frame", |b| {
        let mut turn = 0;
        b.iter(|| {
            turn += 1;
            let changed = (0..100).map(|n| run((n * 97 + turn) % CROWD, phase(n + turn))).collect();
            console.send(Msg::Runs(RunsMsg::Batch(changed)));
            console.frame();
        });
    });
    filter(c, &mut console, "100,000 hosts");
}

fn log(c: &mut Criterion) {
    let mut console = Console::full();
    console.key("enter");
    let uid = console.seen.subject.clone().unwrap();
    let lines = |count: usize| {
        let text = "\u{1b}[0;32mok: [web-1.lan.example.org] => {\"changed\": false, \"msg\": \"all is well\"}\u{1b}[0m";
        LogEvent::Lines((0..count).map(|_| LogLine { at: None, bytes: text.as_bytes().into() }).collect())
    };
    for _ in 0..50 {
        console.send(Msg::Log { run: uid.clone(), event: lines(1_000) });
    }
    console.frame();
    c.bench_function("50,000 lines of log: 1,000 more, and the frame", |b| {
        b.iter_batched(
            || lines(1_000),
            |event| {
                console.send(Msg::Log { run: uid.clone(), event });
                console.frame();
            },
            BatchSize::LargeInput,
        );
    });
}

/// A run that writes 200,000 lines a second, looked at: what a batch and its frame cost, what a key and its frame cost, and that no
/// line is lost count of.
fn flood(c: &mut Criterion) {
    const ALL: u64 = 400_000;
    const BATCH: u64 = 500;
    let text = |n: u64| match n % 20 {
        0 => format!("TASK [role-{} : step {n}] {}", n % 7, "*".repeat(60)),
        1 => format!(
            "\u{1b}[0;33mchanged: [web-1.lan.example.org] => {{\"changed\": true, \"n\": {n}}}\u{1b}[0m"
        ),
        2 => "10%\r20%\r100%".to_owned(),
        _ => {
            format!("\u{1b}[0;32mok: [web-1.lan.example.org] => {{\"changed\": false, \"n\": {n}}}\u{1b}[0m")
        }
    };
    let batch = |from: u64| {
        let line = |n| LogLine { at: Some(now()), bytes: text(n).into_bytes().into() };
        LogEvent::Lines((from..from + BATCH).map(line).collect())
    };
    let open = || {
        let mut console = Console::full();
        console.key("enter");
        console.frame();
        console.key("l");
        let uid = console.seen.subject.clone().unwrap();
        (console, uid)
    };
    c.bench_function("a flood of 400,000 lines in batches of 500, each with a frame", |b| {
        b.iter_batched(
            || (open(), (0..ALL / BATCH).map(|n| batch(n * BATCH)).collect::<Vec<_>>()),
            |((mut console, uid), batches)| {
                for event in batches {
                    console.send(Msg::Log { run: uid.clone(), event });
                    console.frame();
                }
                let log = console.state.store.log(&uid).unwrap();
                assert_eq!(log.dropped() + (log.end() - log.first()), ALL, "exact");
                console
            },
            BatchSize::PerIteration,
        );
    });
    let (mut console, uid) = open();
    for n in 0..ALL / BATCH {
        console.send(Msg::Log { run: uid.clone(), event: batch(n * BATCH) });
    }
    console.frame();
    let mut n = ALL;
    let mut step = |console: &mut Console, keys: &[&str]| {
        console.send(Msg::Log { run: uid.clone(), event: batch(n) });
        n += BATCH;
        for key in keys {
            console.key(key);
        }
        console.frame();
    };
    c.bench_function("in the flood: a batch, a key that moves, and the frame", |b| {
        b.iter(|| step(&mut console, &["k"]));
    });
    c.bench_function("in the flood: a batch, a search that finds nothing, and the frame", |b| {
        b.iter(|| step(&mut console, &["/", "z", "q", "x", "enter"]));
    });
    c.bench_function("in the flood: a batch, the next match, and the frame", |b| {
        step(&mut console, &["/", "s", "t", "e", "p", "enter"]);
        b.iter(|| step(&mut console, &["n"]));
    });
    console.key("W");
    console.key("z");
    c.bench_function("in the flood: a batch, and the frame of the zoomed log with long lines broken", |b| {
        b.iter(|| step(&mut console, &["k"]));
    });
}

criterion_group! {
    name = slow;
    config = Criterion::default().sample_size(10);
    targets = flood, crowd
}
criterion_group!(console, start, hosts, keys, log);
criterion_main!(console, slow);
