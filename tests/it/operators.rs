//! What operators can do and may not do: each change has an op and a command, and read-only changes nothing, whatever is pressed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostwright::domain::{RawAnnouncement, Run};

use crate::cloud::{Cloud, Desk};
use crate::console::{Far, wait_for_console};
use crate::gate::{Gate, Request};
use crate::ground::Ground;
use crate::pty::Pty;

/// Action, effects, op and command of each change.
struct Deed {
    action: &'static str,
    op: &'static str,
    command: Vec<&'static str>,
}

fn deeds() -> Vec<Deed> {
    let rows = include_str!("../data/deeds.txt").lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let [action, _, op, command] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        Deed { action, op, command: command.split_whitespace().collect() }
    })
    .collect()
}

/// The sources of a module and those in it, as one text.
fn sources(part: &str) -> String {
    fn of(path: &Path) -> String {
        if path.is_file() {
            return std::fs::read_to_string(path).unwrap();
        }
        std::fs::read_dir(path).unwrap().map(|entry| of(&entry.unwrap().path())).collect()
    }
    of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(part))
}

/// A pending run of a host.
pub(crate) async fn pending(ground: &Ground, host: &str) -> Run {
    let raw = RawAnnouncement { hostname: host.into(), ..RawAnnouncement::default() };
    let announcement = raw.check().unwrap();
    ground
        .kube
        .create_run(&ground.permit(), &ground.template(), &crate::ground::first_run(&announcement))
        .await
        .unwrap()
        .run
}

#[tokio::test]
async fn every_change_of_the_console_is_an_op_that_a_command_calls_too() {
    let ground = Ground::new().await;
    let (console, cli) = (sources("console"), sources("cli"));
    for Deed { action, op, command } in deeds() {
        let (_, name) = op.rsplit_once(['.', ':']).unwrap();
        let ops = sources("ops");
        assert!(ops.contains(&format!("pub async fn {name}(")), "{action}: there is no op {op}");
        for (who, text) in [("console", &console), ("cli", &cli)] {
            // A call may begin a line of its own.
            let (of, dot) =
                op.split_once('.').map_or((op, String::new()), |(of, name)| (of, format!(".{name}(")));
            let calls = if dot.is_empty() {
                text.contains(&format!("{op}("))
            } else {
                text.split(of).skip(1).any(|after| after.trim_start().starts_with(&dot))
            };
            assert!(calls, "{action}: {who} does not call {op}");
        }
        let words: Vec<&str> = command.iter().copied().take(2).chain(["--help"]).collect();
        let said = ground.run(&words).await.done();
        let usage = format!("Usage: hostwright {}", words[..2].join(" "));
        assert!(said.contains(&usage), "{action}: {said}");
    }
}

fn changes(gate: &Gate) -> Vec<String> {
    let all = gate.seen();
    all.iter()
        .filter(|request| request.changes())
        .map(|r: &Request| format!("{} {}", r.method, r.path))
        .collect()
}

/// S05: the same for the commands.
#[tokio::test(flavor = "multi_thread")]
async fn read_only_commands_refuse_and_send_nothing() {
    let ground = Ground::new().await;
    pending(&ground, "web-1.example.org").await;
    let gate = Gate::start(&ground.url).await;
    crate::ground::write_kubeconfig(&ground.dir.path().join("kubeconfig"), &gate.url());
    for Deed { action, command, .. } in deeds() {
        // Without a broker there is nothing to refuse in a queue; machines call their hook, which is elsewhere.
        if matches!(command[0], "queue" | "play") {
            continue;
        }
        let said = ground.run(&[&["--read-only"], &command[..]].concat()).await;
        assert_eq!(said.code, 4, "{action}: {}{}", said.out, said.err);
        assert!(said.err.contains("read-only"), "{action}: {}", said.err);
    }
    assert_eq!(changes(&gate), [""; 0]);
    ground.run(&["--read-only", "hosts", "list"]).await.done();
    assert!(!gate.seen().is_empty(), "nothing went through the gate");
}

/// Something that listens for a back end's clients: it counts them, and hangs up.
async fn recorder() -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let came = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            came.fetch_add(1, Ordering::SeqCst);
            drop(connection);
        }
    });
    (port, count)
}

/// S05: below all views: no command that changes something says a word to the cluster, S3 and KMS, the broker or the hook, and each says
/// why; without read-only the same commands do speak to them.
#[tokio::test(flavor = "multi_thread")]
async fn read_only_commands_open_no_connection_to_any_back_end() {
    let desk = Desk::new(&Cloud::new().await);
    let ground = Ground::new().await;
    let gate = Gate::start(&ground.url).await;
    let recorders = [recorder().await, recorder().await, recorder().await];
    let [aws, queue, hook] = recorders.each_ref().map(|(port, _)| *port);
    let came = || recorders.each_ref().map(|(_, came)| came.load(Ordering::SeqCst));
    desk.write(
        "config.toml",
        &format!(
            "[environments.staging]\npolicy.source = \"/nowhere\"\naws.endpoint = \"http://127.0.0.1:{aws}\"\n\
             hook = \"http://127.0.0.1:{hook}/\"\namqp.url = \"amqp://127.0.0.1:{queue}\"\n\
             kubernetes.kubeconfig = {:?}\n",
            desk.path().join("kubeconfig")
        ),
    );
    crate::ground::write_kubeconfig(&desk.path().join("kubeconfig"), &gate.url());
    desk.write("platform/secrets/staging/common/a", "a: 1\n");
    let mut commands: Vec<Vec<&str>> = deeds().into_iter().map(|deed| deed.command).collect();
    // That one is of the playground, whatever the environment.
    commands.retain(|command| command[0] != "play");
    commands.push(vec!["hosts", "announce", "web-1.example.org"]);
    for command in &commands {
        let said = desk.run(&[&["--read-only"], &command[..]].concat()).await;
        assert_eq!(said.code, 4, "{command:?}: {said:?}");
        assert!(said.err.contains("read-only"), "{command:?}: {said:?}");
        assert_eq!((came(), gate.seen().len()), ([0; 3], 0), "{command:?}");
    }
    for command in [
        &["hosts", "approve", "web-1.example.org"][..],
        &["secrets", "upload", "common/a"],
        &["queue", "list"],
        &["hosts", "announce", "web-1.example.org"],
    ] {
        assert_ne!(desk.run(command).await.code, 0, "{command:?}: nobody is there");
    }
    assert!(came().iter().all(|came| *came > 0) && !gate.seen().is_empty(), "{:?}", came());
}

/// Every key of `docs/keys.md`, as the terminal sends it; without those that end or stop the console or give its terminal away.
fn keys_of_the_page() -> Vec<String> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/keys.md")).unwrap();
    let mut keys = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        if ["`quit`", "`suspend`", "`interrupt`", "`shell`"].contains(&cells[1]) {
            continue;
        }
        let names = cells[0].trim_start_matches("| ").split("` `").map(|key| key.trim_matches('`'));
        keys.extend(names.map(|key| if key.is_empty() { "`".to_owned() } else { key.to_owned() }));
    }
    assert!(keys.len() > 60 && keys.iter().any(|key| key == "X"), "{keys:?}");
    keys.sort();
    keys.dedup();
    keys
}

/// As [`Pty::keys`] names it.
fn named(key: &str) -> String {
    match key {
        "shift-tab" => "<backtab>".to_owned(),
        "space" | "enter" | "esc" | "tab" | "home" | "end" | "pageup" | "pagedown" | "up" | "down"
        | "left" | "right" | "f1" => format!("<{key}>"),
        _ => key.replace("ctrl-", "C-").replace("alt-", "M-"),
    }
}

/// Waits until all keys are worked off: the whole screen is drawn again when the last one is. Closes whatever is open meanwhile.
fn caught_up(pty: &mut Pty, after: &str) {
    for attempt in 0..100 {
        let mark = pty.mark();
        // Where nothing is open the first key cancels what is under way, or asks whether to quit.
        pty.keys(if attempt == 0 { "C-l" } else { "C-c n C-l" });
        let drawn = pty.comes(mark, b"\x1b[2J", Duration::from_millis(300))
            && pty.comes(mark, b"\x1b[?2026l", Duration::from_millis(300));
        if drawn && !pty.screen().contains('╭') {
            return;
        }
        assert!(
            pty.alive(),
            "it ended after {after}: {}",
            String::from_utf8_lossy(&pty.bytes()).lines().last().unwrap_or_default()
        );
    }
    panic!("it does not catch up after {after}; the screen:\n{}", pty.screen());
}

/// Presses every key on every screen and says yes to everything; then quits.
fn press_everything(far: &Far, arguments: &[&str], token: &str) -> Pty {
    // A console comes back to where the last one was left.
    let arguments_and_place = [&["--screen", "hosts"], arguments].concat();
    let mut pty = Pty::start(far.command(&arguments_and_place), (100, 30));
    wait_for_console(&mut pty);
    pty.wait_for("web-1.example.org");
    let screens = [
        ("1 g", "HOST"),
        ("2 g", "RUN"),
        ("1 g <enter>", "announced"),
        ("3 g", "web-1.example.org:9103"),
        ("5 g", token),
        ("6 g", "queue"),
        ("8 g", "create token"),
    ];
    for (screen, rows) in screens {
        pty.keys(screen).wait_for(rows);
        caught_up(&mut pty, screen);
        // Escape is what an arrow begins with, too: what comes right behind it would belong to it.
        // And where it may, a shell takes the terminal and the keys that follow: it has a test of its own.
        let taken = |key: &str| key == "esc" || (key == "!" && arguments.is_empty());
        for key in keys_of_the_page().iter().filter(|key| !taken(key)) {
            // A filter would hide the rows from the keys that follow.
            let answers =
                if key == "/" { "C-u <enter>" } else { "y <enter> <enter> <enter> <enter> <enter> <enter>" };
            pty.keys(screen).keys(&named(key)).keys(answers);
            caught_up(&mut pty, &format!("{screen:?} {key:?}"));
        }
    }
    // Something that was fetched may still open, and take a key for itself.
    for _ in 0..20 {
        pty.keys("C-c n q y");
        if !pty.alive() || pty.comes(0, b"\x1b[?1049l", Duration::from_millis(500)) {
            break;
        }
    }
    assert_eq!(pty.wait_exit(), 0);
    pty
}

/// S05: every key on every screen in read-only mode, against a gate that records: no request changes anything, and it says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_console_sends_nothing_that_changes_whatever_is_pressed() {
    let ground = Ground::new().await;
    for host in ["web-1.example.org", "web-2.example.org"] {
        pending(&ground, host).await;
    }
    for target in ["web-1.example.org", "web-2.example.org"] {
        ground.run(&["-e", "test", "targets", "add", target]).await.done();
    }
    let token = ground.run(&["-e", "test", "tokens", "create"]).await.done();
    let token = token.split('.').next().unwrap().to_owned();
    let same = token.clone();
    let gate = Gate::start(&ground.url).await;
    let far = Far::at(&gate.url());
    let far = tokio::task::spawn_blocking(move || {
        let pty = press_everything(&far, &["--read-only"], &same);
        let said = String::from_utf8_lossy(&pty.bytes()).contains("read-only");
        assert!(said, "it never said why");
        far
    })
    .await
    .unwrap();
    assert_eq!(changes(&gate), [""; 0]);
    let looked = |resource: &str| gate.seen().iter().any(|r| r.resource == resource && r.status == 200);
    for resource in ["jobs", "configmaps", "secrets", "events"] {
        assert!(looked(resource), "{resource} were never looked at: {:?}", gate.seen());
    }
    // The same keys without read-only: they do change something, so the test above could fail.
    tokio::task::spawn_blocking(move || press_everything(&far, &[], &token)).await.unwrap();
    let changed = changes(&gate);
    for wanted in [
        "PATCH /apis/batch/v1/namespaces/hostwright/jobs/",
        "PUT /api/v1/namespaces/default/configmaps/scrape-collectd",
    ] {
        assert!(changed.iter().any(|request| request.starts_with(wanted)), "{wanted}: {changed:?}");
    }
}
