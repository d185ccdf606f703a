//! Consoles in the states that the pictures show, reached through messages as in real life.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use crate::app::sample::{ago, environment, now, result, result_details, run, uid};
use crate::app::tests::lists;
use crate::app::{
    Answer, Effect, Fresh, Item, LogEvent, LogLine, Msg, RunsMsg, Seen, State, Topic, prepare, update,
};
use crate::config::{Keymap, Theme};
use crate::domain::results::{FileDiff, Playbook, PlaybookStatus, ResultStatus, RunResults};
use crate::domain::{
    BackEnd, Counts, Decision, ExitCode, Health, Kind, Outcome, Phase, Problem, ProblemKind, RawAnnouncement,
    Run, RunDetails, Verdict,
};

/// A console with a terminal of its own.
pub(crate) struct Scene {
    pub(crate) state: State,
    pub(crate) seen: Seen,
    pub(crate) theme: Theme,
    pub(crate) effects: Vec<Effect>,
    width: u16,
    height: u16,
}

impl Scene {
    pub(crate) fn new(width: u16, height: u16) -> Self {
        let state = State::new(environment(), Keymap::default(), now());
        let theme = Theme::default();
        let mut scene = Self { state, seen: Seen::default(), theme, effects: Vec::new(), width, height };
        scene.send(Msg::Resize { width, height });
        scene
    }

    /// Takes a message in, then draws.
    pub(crate) fn send(&mut self, msg: Msg) -> &mut Self {
        let effects = update(&mut self.state, &self.seen, now(), msg);
        self.effects.extend(effects);
        self.draw();
        self
    }

    /// Presses keys, named as in `config.toml`.
    pub(crate) fn press(&mut self, keys: &str) -> &mut Self {
        for key in keys.split_whitespace() {
            self.send(Msg::Key(key.parse().unwrap()));
        }
        self
    }

    /// The cursor has rested, and what is under it was waited for long enough.
    pub(crate) fn rested(&mut self) -> &mut Self {
        for milliseconds in [100, 500] {
            let later = now() + SignedDuration::from_millis(milliseconds);
            let effects = update(&mut self.state, &self.seen, later, Msg::Wake);
            self.effects.extend(effects);
        }
        self.state.now = now();
        self.draw();
        self
    }

    pub(crate) fn draw(&mut self) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(self.width, self.height)).unwrap();
        prepare(&mut self.state, now());
        let mut seen = Seen::default();
        terminal.draw(|frame| seen = crate::view::draw(frame, &self.state, &self.theme)).unwrap();
        self.seen = seen;
        terminal.backend().buffer().clone()
    }

    /// The picture as text.
    pub(crate) fn text(&mut self) -> String {
        let buffer = self.draw();
        let mut out = String::new();
        for y in 0..buffer.area.height {
            let mut line = String::new();
            let mut skip = 0;
            for x in 0..buffer.area.width {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let symbol = buffer[(x, y)].symbol();
                skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
                line.push_str(symbol);
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The picture as text, each line followed by its styles: `column+length fg/bg modifiers`.
    pub(crate) fn styled(&mut self) -> String {
        let text = self.text();
        let buffer = self.draw();
        let mut out = String::new();
        for (y, line) in (0..buffer.area.height).zip(text.lines()) {
            out.push_str(&format!("|{line}\n"));
            let mut runs: Vec<(u16, u16, String)> = Vec::new();
            for x in 0..buffer.area.width {
                let style = style_text(&buffer[(x, y)]);
                match runs.last_mut() {
                    Some((_, length, last)) if *last == style => *length += 1,
                    _ => runs.push((x, 1, style)),
                }
            }
            let runs: Vec<String> =
                runs.iter().filter(|(.., s)| !s.is_empty()).map(|(x, n, s)| format!("{x}+{n} {s}")).collect();
            if !runs.is_empty() {
                out.push_str(&format!("    {}\n", runs.join("; ")));
            }
        }
        out
    }

    /// The terminal has another size.
    pub(crate) fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        (self.width, self.height) = (width, height);
        self.send(Msg::Resize { width, height })
    }

    pub(crate) fn health(&mut self, back_end: BackEnd, health: Health) -> &mut Self {
        self.send(Msg::Health(back_end, health))
    }
}

fn style_text(cell: &ratatui::buffer::Cell) -> String {
    let colour = |c: Color| match c {
        Color::Reset => String::new(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        other => format!("{other:?}"),
    };
    let mut parts = vec![colour(cell.fg)];
    if cell.bg != Color::Reset {
        parts.push(format!("on {}", colour(cell.bg)));
    }
    for (modifier, name) in
        [(Modifier::BOLD, "bold"), (Modifier::UNDERLINED, "underline"), (Modifier::REVERSED, "reverse")]
    {
        if cell.modifier.contains(modifier) {
            parts.push(name.to_owned());
        }
    }
    parts.retain(|p| !p.is_empty());
    parts.join(" ")
}

pub(crate) fn down(text: &str) -> Health {
    let mut problem = Problem::new("cluster", ProblemKind::Unreachable, text);
    problem.retry_at = Some(now() + SignedDuration::from_secs(12));
    Health::Down { since: ago(30), problem }
}

fn host(name: &str, phase: Phase, groups: &str, address: &str, created: i64, seen: i64) -> Run {
    let mut run = run(&format!("{name}.lan.example.org"), phase);
    run.groups = groups.split_whitespace().map(str::to_owned).collect();
    run.address = address.parse().ok();
    (run.created, run.seen) = (ago(created), ago(seen));
    run.branch = Some("main".into());
    run.key = Some("ed25519 SHA256:7rXkPq2v0bqVJm1mZ0r3QwT5c8hYt4n6".into());
    if phase != Phase::Pending {
        let (by, at) = ("ann".to_owned(), ago(created - 5));
        run.decision = Some(Decision { verdict: Verdict::Approved, by, at });
        run.delivered = Some(ago(created - 6));
        run.started = Some(ago(created - 10));
    }
    if phase.finished() {
        run.finished = Some(ago(created - 112));
    }
    run
}

fn outcome(exit: ExitCode, text: &str, ok: u32, changed: u32, failed: u32) -> Outcome {
    let counts = Counts { ok, changed, failed, ..Counts::default() };
    Outcome { exit, at: ago(7_000), text: text.into(), counts: Some(counts) }
}

/// The runs of a small site: three pending hosts, one that runs, one that failed, many that are ready.
pub(crate) fn runs() -> Vec<Run> {
    let mut runs = vec![
        host("db-3", Phase::Pending, "postgres", "10.0.4.13", 120, 12),
        host("web-7", Phase::Pending, "web k8s_worker", "10.0.4.27", 540, 41),
        host("web-9", Phase::Pending, "web", "10.0.4.31", 660, 180),
        host("web-8", Phase::Running, "web k8s_worker", "10.0.4.28", 3_700, 3_660),
        host("nas-1", Phase::Failed, "storage", "10.0.4.9", 7_300, 7_260),
        host("gw-1", Phase::Ready, "router", "10.0.4.1", 21_700, 21_600),
    ];
    runs[4].number = 2;
    runs[4].outcome =
        Some(outcome(ExitCode::FailedTask, "zfs : import pool: cannot import 'tank'", 41, 6, 1));
    runs[5].outcome = Some(outcome(ExitCode::Ready, "", 38, 12, 0));
    let mut before = host("web-7", Phase::Failed, "web", "10.0.4.27", 3 * 86_400, 3 * 86_400);
    (before.uid, before.key) = ("before".into(), runs[1].key.clone());
    before.outcome = Some(outcome(ExitCode::UnreachableHost, "no route to host", 0, 0, 0));
    runs[1].number = 2;
    runs.push(before);
    let mut check = host("gw-1", Phase::Ready, "router", "10.0.4.1", 86_400, 86_400);
    (check.uid, check.kind) = ("check".into(), Kind::Check);
    runs.push(check);
    for n in 1..=30 {
        let mut ready = host(
            &format!("node-{n:02}"),
            Phase::Ready,
            "k8s_worker",
            &format!("10.0.5.{n}"),
            86_400 + n,
            80_000,
        );
        ready.outcome = Some(outcome(ExitCode::Ready, "", 29, 3, 0));
        runs.push(ready);
    }
    runs
}

/// The console with those runs and all back ends up.
/// The targets, one of them of unknown form.
pub(crate) fn targets(width: u16, height: u16) -> Scene {
    let mut scene = site(width, height);
    let names = ["web-8.lan.example.org", "nas-1.lan.example.org", "gw-1.lan.example.org"];
    let mut items: Vec<Item> =
        names.iter().map(|name| lists::target(&format!("{name}:9103"), name)).collect();
    items.push(lists::unknown("{\"targets\": \"gw-2:9103\"}"));
    items.push(lists::target("[2001:db8::1]:9103", "gw-3.lan.example.org"));
    let fresh = Fresh { items, note: "default/scrape-collectd".to_owned(), warning: false, since: None };
    scene.press("3").send(Msg::Listed { topic: Topic::Targets, result: Ok(fresh) });
    scene.press("j space");
    scene
}

/// Tokens of every kind.
pub(crate) fn tokens(width: u16, height: u16) -> Scene {
    let mut scene = site(width, height);
    let items = vec![
        lists::token("abcdef", Some(42), &[]),
        lists::token("ghijkl", Some(-5), &[]),
        lists::token("mnopqr", None, &[]),
        lists::token("ODD", Some(5), &["its id is not 6 lower-case letters and digits"]),
    ];
    let fresh = Fresh { items, note: "kube-system".to_owned(), warning: false, since: None };
    scene.press("5").send(Msg::Listed { topic: Topic::Tokens, result: Ok(fresh) });
    scene
}

/// Queues and dead letters.
pub(crate) fn queues(width: u16, height: u16) -> Scene {
    let mut scene = site(width, height);
    let items = vec![
        lists::letter("web-7", true),
        lists::letter("3f2a9b11", false),
        lists::queue("web-8.lan.example.org", 0),
        lists::queue("node-40.lan.example.org", 1),
    ];
    let fresh = Fresh { items, note: "2 queues, 2 dead letters".to_owned(), warning: true, since: None };
    scene.press("6").send(Msg::Listed { topic: Topic::Queue, result: Ok(fresh) });
    scene
}

/// What was done.
pub(crate) fn deeds(width: u16, height: u16) -> Scene {
    let mut scene = site(width, height);
    let items = vec![
        lists::activity("1", "ann", "approve", "run provision-web-8-lan-example-org-bcxt5rud2l-1", 0),
        lists::activity("2", "server", "deliver", "run provision-web-8-lan-example-org-bcxt5rud2l-1", 3),
        lists::activity("3", "ben@example.org", "remove targets", "targets default/scrape-collectd", 50),
    ];
    let note = "the cluster forgets after an hour".to_owned();
    let fresh = Fresh { items, note, warning: false, since: Some(ago(3480)) };
    scene.press("8").send(Msg::Listed { topic: Topic::Activity, result: Ok(fresh) });
    scene
}

pub(crate) fn site(width: u16, height: u16) -> Scene {
    let mut scene = Scene::new(width, height);
    for back_end in [BackEnd::Cluster, BackEnd::Queue, BackEnd::Ara] {
        scene.health(back_end, Health::Up);
    }
    scene.send(Msg::Runs(RunsMsg::Reset));
    scene.send(Msg::Runs(RunsMsg::Batch(runs())));
    scene.send(Msg::Runs(RunsMsg::Listed));
    scene.rested();
    scene.effects.clear();
    scene
}

/// The details of the run that is under the cursor arrive.
pub(crate) fn details(scene: &mut Scene) {
    let Some(run) = scene.state.current().cloned() else { return };
    let mut facts = serde_json::Map::new();
    facts.insert("os".into(), "debian 13".into());
    facts.insert("cores".into(), 16.into());
    facts.insert("memory".into(), "64 GiB".into());
    let raw = RawAnnouncement { hostname: run.host.to_string(), facts, ..RawAnnouncement::default() };
    let details = Box::new(RunDetails { run, announcement: raw.check().unwrap(), parameters: None });
    answer(scene, |e| matches!(e, Effect::OpenRun { .. }), Answer::Run(details));
}

/// The newest effect of a kind is answered.
pub(crate) fn answer(scene: &mut Scene, which: impl Fn(&Effect) -> bool, answer: Answer) {
    let id =
        scene.effects.iter().rev().find(|e| which(e)).and_then(Effect::id).expect("that effect was sent");
    scene.send(Msg::Answer { id, result: Ok(answer) });
}

pub(crate) fn lines(texts: &[&str]) -> LogEvent {
    let line = |t: &&str| LogLine { at: None, bytes: t.as_bytes().into() };
    LogEvent::Lines(texts.iter().map(line).collect())
}

pub(crate) fn recorded() -> RunResults {
    use ResultStatus as S;
    let mut list = Vec::new();
    let mut id = 0;
    for (role, tasks) in [("base", 14), ("collectd", 7), ("users", 20)] {
        for n in 0..tasks {
            id += 1;
            let status = if n % 5 == 0 { S::Changed } else { S::Ok };
            list.push(result(id, role, &format!("{role} step {n}"), status));
        }
    }
    list.push(result(101, "zfs", "install packages", S::Changed));
    list.push(result(102, "zfs", "load module", S::Skipped));
    list.push(result(103, "zfs", "import pool", S::Failed));
    let playbook = Playbook {
        id: 1,
        status: PlaybookStatus::Failed,
        started: Some(ago(7_250)),
        ended: Some(ago(7_188)),
        labels: Vec::new(),
        path: "site.yml".into(),
    };
    let counts = RunResults::count(&list);
    RunResults { playbooks: vec![playbook], counts, results: list, truncated: false }
}

/// Inside the failed run, its results and its log there, the failed task's result open.
pub(crate) fn failed_run(width: u16, height: u16) -> Scene {
    let mut scene = site(width, height);
    scene.press("j j j j enter");
    details(&mut scene);
    let run = uid("nas-1.lan.example.org", 1);
    scene.send(Msg::Results { run: run.clone(), results: Ok(Box::new(recorded())), complete: true });
    let log = [
        "TASK [zfs : install packages] **************************************************",
        "\u{1b}[0;33mchanged: [nas-1.lan.example.org]\u{1b}[0m",
        "TASK [zfs : import pool] *******************************************************",
        "\u{1b}[0;31mfatal: [nas-1.lan.example.org]: FAILED! => {\"changed\": false, \"cmd\": [\"zpool\", \"import\", \"-N\", \"tank\"]}\u{1b}[0m",
        "PLAY RECAP *********************************************************************",
        "\u{1b}[0;31mnas-1.lan.example.org\u{1b}[0m : ok=41   changed=6    unreachable=0    failed=1",
        "10%\r50%\r100%\tdone",
        "hostile: \u{1b}]0;title\u{7} \u{1b}[2J end",
    ];
    scene.send(Msg::Log { run: run.clone(), event: lines(&log) });
    scene.send(Msg::Log { run, event: LogEvent::Ended });
    scene.rested();
    let mut found = result_details(103);
    found.message = "cannot import 'tank': no such pool available".into();
    found.stderr = "cannot import 'tank': no such pool available\n\tDestroy and re-create the pool from a backup source.".into();
    found.rc = Some(1);
    found.content = serde_json::json!({
        "cmd": ["zpool", "import", "-N", "tank"],
        "invocation": { "module_args": { "name": "tank", "state": "imported", "force": null } }
    });
    found.diffs = vec![FileDiff {
        before_header: "/etc/zfs/zpool.cache.d/tank".into(),
        after_header: "/etc/zfs/zpool.cache.d/tank".into(),
        before: "pool = none\nreadonly = off\nmount = no\n".into(),
        after: "pool = tank\nreadonly = off\nmount = no\n".into(),
        prepared: String::new(),
    }];
    answer(&mut scene, |e| matches!(e, Effect::FetchResult { .. }), Answer::Result(Box::new(found)));
    scene
}

/// Runs of so many hosts, for many rows.
pub(crate) fn many(count: usize) -> Vec<Run> {
    let phases = [Phase::Ready, Phase::Pending, Phase::Failed, Phase::Running];
    (0..count).map(|n| host(&format!("h{n}"), phases[n % 4], "web", "10.1.2.3", 100 + n as i64, 50)).collect()
}

/// Keys that replace the default ones.
pub(crate) fn keymap(scope: &str, action: &str, keys: &[&str]) -> Keymap {
    let keys = keys.iter().map(|k| (*k).to_owned()).collect();
    Keymap::new(&BTreeMap::from([(scope.to_owned(), BTreeMap::from([(action.to_owned(), keys)]))])).unwrap()
}
