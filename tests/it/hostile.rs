//! S07: what hosts, programs and Ansible wrote, through the real console to the bytes that reach the terminal and the clipboard.

use axum::Router;
use axum::extract::{Path, State};
use data_encoding::BASE64;
use hostwright::domain::results::run_label;
use hostwright::domain::{RawAnnouncement, Run};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::console::Far;
use crate::ground::{Ground, first_run};
use crate::logs::with_pod;
use crate::pty::Pty;

/// The lines of the scenario, and some of its kind.
const CORPUS: [&[u8]; 16] = [
    b"\x1b[2J",
    b"\x1b]0;x\x07",
    b"\x1b]52;c;aGk=\x07",
    b"\x1b[?1049l",
    b"\x1b[8mhidden",
    b"\x9b31m",
    "\u{9b}31m".as_bytes(),
    b"\x1bPq",
    b"\x1b[38;5",
    b"[red]x[-]",
    b"{ofUfac]>t[898dfs",
    b"\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\",
    b"\x1bc\x1b7\x1b[6n\x1b[c\x05",
    b"10%\r20%\rdone\x08\x08",
    "\u{202e}gpj.exe\u{2066}".as_bytes(),
    b"\xff\0end",
];

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// Fails at the first thing that the console has no reason of its own to send. Returns what it put into the clipboard.
fn only_our_own(sent: &[u8]) -> Vec<Vec<u8>> {
    let sent = std::str::from_utf8(sent).expect("UTF-8 all through");
    let mut copied = Vec::new();
    let mut rest = sent;
    while let Some(at) =
        rest.find(|c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    {
        let here = &rest[at..];
        let near: String = here.chars().take(30).collect();
        let length = if let Some(body) = here.strip_prefix("\x1b[") {
            let end = body.find(|c: char| c.is_ascii_alphabetic()).unwrap();
            let (numbers, last) = (&body[..end], &body[end..=end]);
            let plain = numbers.chars().all(|c| c.is_ascii_digit() || c == ';');
            // 8 is only ever a part of a colour.
            let concealed = numbers.split(';').take_while(|n| !["38", "48"].contains(n)).any(|n| n == "8");
            let modes = ["?1049", "?2004", "?25", "?2026", "?1000", "?1006"];
            let ours = match last {
                "m" => plain && !concealed,
                "H" | "B" | "C" | "D" => plain,
                "K" => numbers.is_empty(),
                "J" => numbers == "2",
                "h" | "l" => modes.contains(&numbers),
                _ => false,
            };
            assert!(ours, "{near:?}");
            2 + end + 1
        } else if let Some(body) = here.strip_prefix("\x1b]52;c;") {
            let end = body.find('\x07').unwrap();
            copied.push(BASE64.decode(&body.as_bytes()[..end]).unwrap());
            here.len() - body.len() + end + 1
        } else if here.starts_with("\x1b]11;?") {
            "\x1b]11;?".len() + if here.starts_with("\x1b]11;?\x07") { 1 } else { 2 }
        } else {
            assert!(here.starts_with('\r'), "{near:?}");
            1
        };
        rest = &here[length..];
    }
    copied
}

/// An ARA whose every text is hostile.
async fn ara(run: &Run) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new()
        .route("/api/v1/{list}", axum::routing::get(list))
        .route("/api/v1/results/{id}", axum::routing::get(details))
        .with_state(run.uid.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}

fn all() -> String {
    text(&CORPUS.join(b"\n".as_slice()))
}

fn playbook(run: &str) -> Value {
    json!({"id": 1, "status": "failed", "started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:01:00Z",
        "labels": [{"name": run_label(run)}], "path": all(), "items": {"results": CORPUS.len()}})
}

fn play() -> Value {
    json!({"id": 1, "name": all()})
}

fn host() -> Value {
    json!({"id": 1, "name": all(), "failed": CORPUS.len()})
}

fn task(n: usize) -> Value {
    json!({"id": n + 1, "name": text(CORPUS[n]), "action": text(CORPUS[n]), "path": text(CORPUS[n]), "lineno": 1})
}

fn result(n: usize) -> Value {
    json!({"id": n + 1, "play": 1, "task": n + 1, "host": 1, "status": "failed",
        "started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:00:01Z"})
}

async fn list(State(run): State<String>, Path(list): Path<String>) -> axum::Json<Value> {
    let results: Vec<Value> = match list.as_str() {
        "playbooks" => vec![playbook(&run)],
        "plays" => vec![play()],
        "hosts" => vec![host()],
        "tasks" => (0..CORPUS.len()).map(task).collect(),
        "results" => (0..CORPUS.len()).map(result).collect(),
        _ => vec![],
    };
    axum::Json(json!({"count": results.len(), "next": null, "previous": null, "results": results}))
}

async fn details(State(run): State<String>, Path(id): Path<usize>) -> axum::Json<Value> {
    let mut found = result(id - 1);
    let content = json!({
        "msg": all(), "stdout": all(), "stderr": all(), "exception": all(), "cmd": all(),
        "invocation": {"module_args": {all(): all()}}, "diff": {"before": "a\n", "after": all()},
    });
    for (key, value) in [
        ("playbook", playbook(&run)),
        ("play", play()),
        ("task", task(id - 1)),
        ("host", host()),
        ("content", content),
    ] {
        found[key] = value;
    }
    axum::Json(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_others_wrote_passes_and_what_is_copied_is_what_came() {
    let ground = Ground::loopback(|_| {}).await;
    let raw = RawAnnouncement {
        hostname: "web-1.example.org".into(),
        sshkeys: format!("{KEY} {}", text(CORPUS[4])),
        facts: CORPUS.iter().map(|line| (text(line), json!(text(line)))).collect(),
        ..RawAnnouncement::default()
    };
    let announcement = raw.check().expect("the hook takes facts as they are");
    assert_eq!(
        announcement.keys.iter().map(|key| key.as_str()).collect::<Vec<_>>(),
        [KEY],
        "without its comment"
    );
    let new = first_run(&announcement);
    let run = ground.kube.create_run(&ground.permit(), &ground.template(), &new).await.unwrap().run;
    let far = Far::at(&ground.url);
    far.append(&format!("ara.url = {:?}\n", ara(&run).await));
    let mut pty = Pty::start(far.command(&[]), (160, 50));
    pty.wait_for("web-1.example.org").wait_for("{ofUfac]>t[898dfs").keys("a").wait_for("Approve web-1");
    pty.keys("n").wait_gone("Approve web-1");
    let log = with_pod(&ground, &run).await;
    for line in CORPUS {
        log.line(line);
    }
    log.line(&[b"TASK [".as_slice(), &CORPUS.concat(), b"] ***"].concat());
    pty.wait_for("queued").keys("<enter>").wait_for("[red]x[-]").wait_for("failed 16").wait_for("hidden");
    // Every task's page, then all of the log.
    for _ in CORPUS {
        pty.keys("j");
    }
    pty.keys("<enter>").wait_for("enter zoom").wait_for("DIFF").keys("G");
    let from = pty.mark();
    pty.keys("l g");
    for line in CORPUS {
        let copy = format!("\x1b]52;c;{}\x07", BASE64.encode(line));
        pty.keys("y").wait_bytes(from, copy.as_bytes()).keys("j");
    }
    pty.keys("m").wait_for("Messages").keys("<esc>").wait_gone("Messages").keys("q");
    assert_eq!(pty.wait_exit(), 0);
    let copied = only_our_own(&pty.bytes());
    assert_eq!(copied, CORPUS.map(<[u8]>::to_vec), "copied is what came");

    // The same for what commands print: exact for programs, harmless for eyes.
    let config = ["hosts", "show", "web-1.example.org"];
    let json = ground.run(&[&config[..], &["-o", "json"]].concat()).await.json();
    let facts = json.to_string();
    assert!(
        CORPUS.iter().all(|line| facts.contains(json!(text(line)).to_string().trim_matches('"'))),
        "{facts}"
    );
    let table = ground.run(&config).await.done();
    assert!(!table.chars().any(|c| c.is_control() && c != '\n'), "{table:?}");
}
