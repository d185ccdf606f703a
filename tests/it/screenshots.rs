//! The pictures of the README, taken of the real console in a playground. `tests/screenshots` writes them; a test run compares what
//! frames each of them (header, tabs, footer) with the console as it is, so that they can't go stale unnoticed.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use crate::journey::{Play, call_hook, environment};
use crate::pty::Pty;

const SIZE: (u16, u16) = (120, 40);

const HOSTS: [(&str, &str, &str); 4] = [
    ("web-1", "web", "10.20.0.7"),
    ("web-2", "web", "10.20.0.8"),
    ("node-1", "k8s_worker", "10.20.0.21"),
    ("broken-1", "web", "10.20.0.9"),
];

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio root@play";

#[tokio::test(flavor = "multi_thread")]
async fn the_pictures_in_docs_show_the_console_as_it_is() {
    let play = Play::start(&["--no-machines"]).await;
    for (name, group, address) in HOSTS {
        let facts = json!({"os": "debian 13", "cores": 8});
        let host = format!("{name}.play.test");
        let body =
            json!({"hostname": host, "groups": [group], "address": address, "facts": facts, "sshkeys": KEY});
        assert_eq!(call_hook(&play, &body).await.0, 202);
    }
    let stale = tokio::task::spawn_blocking(move || {
        let done = play.run(&["hosts", "approve", "web-1.play.test", "broken-1.play.test", "--wait"]);
        assert_eq!(done.status.code(), Some(1), "broken-1 fails");
        let mut album = Album::default();
        take(&play, &mut album);
        album.stale
    });
    let stale = stale.await.unwrap();
    assert!(stale.is_empty(), "pictures in docs/ are old: run tests/screenshots\n{}", stale.join("\n"));
}

fn take(play: &Play, album: &mut Album) {
    let mut command = Pty::hostwright(["-e", "play"]);
    for (name, value) in environment(&play.folder) {
        command.env(name, value);
    }
    command.env("COLORTERM", "truecolor");
    let mut pty = Pty::start(command, SIZE);
    pty.wait_for("● queue").wait_for("● ara").wait_for("2 pending");
    assert!(play.run(&["hosts", "approve", "web-2.play.test"]).status.success());
    pty.wait_for("1 running").wait_for("node-1.play.test   announced");
    album.picture(&pty, "hosts");
    pty.keys("a").wait_for("Approve node-1.play.test").wait_for("Runs on play");
    album.picture(&pty, "approve");
    pty.keys("n").wait_gone("Approve node-1.play.test").wait_for("2 ready").keys("/");

    pty.write(b"web-1\r").wait_for("3 hidden").keys("<enter>").wait_for("ok 20").wait_for("PLAY RECAP");
    // What was told of web-2 is gone, and the tasks are there.
    pty.wait_for("Every host").wait_gone("web-2.play.test is ready");
    album.picture(&pty, "run");
    // Which of the four it begins with depends on what came first, the end of the run or its results.
    while !pty.screen().contains("only changed") {
        let mark = pty.mark();
        pty.keys("f").wait_bytes(mark, b"\x1b[?2026l");
    }
    pty.keys("g j j j j").wait_for("base : Message of the day");
    pty.wait_for("Provisioned by Hostwright").keys("d").wait_for("enter zoom");
    album.picture(&pty, "result");

    pty.keys("3").wait_for("web-1.play.test:9103").wait_for("web-2.play.test:9103");
    album.picture(&pty, "targets");
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
}

/// The pictures in `docs/`.
#[derive(Default)]
struct Album {
    /// What a picture has that the console has not, and the other way round.
    stale: Vec<String>,
}

impl Album {
    fn picture(&mut self, pty: &Pty, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(format!("{name}.svg"));
        let now = pty.snapshot_svg();
        if std::env::var_os("HOSTWRIGHT_WRITE_DOCS").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let (kept, now) = (frame(&kept), frame(&now));
        if kept != now {
            self.stale.push(format!("docs/{name}.svg has {kept:#?}\nthe console {now:#?}"));
        }
    }
}

/// Header, tabs and footer of a picture: its texts without what differs from one time to the next.
fn frame(svg: &str) -> Vec<String> {
    let mut rows: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for line in svg.lines().filter(|line| line.starts_with("<text ")) {
        let y = line.split_once(" y=\"").unwrap().1.split_once('"').unwrap().0;
        let row = ((y.parse::<f32>().unwrap() - 25.5) / 18.0).round() as usize;
        let text = line.split_once('>').unwrap().1.strip_suffix("</text>").unwrap();
        rows.entry(row).or_default().extend(text.split_whitespace().map(str::to_owned));
    }
    let last = usize::from(SIZE.1) - 1;
    let row = |row: usize| {
        let words = rows.get(&row).cloned().unwrap_or_default();
        words.into_iter().filter(|word| !is_span(word)).collect::<Vec<_>>().join(" ")
    };
    [0, 1, last].map(row).to_vec()
}

/// `44s`, `1m`, `0.1s`.
fn is_span(word: &str) -> bool {
    let number = word.strip_suffix(['s', 'm', 'h', 'd']);
    number.is_some_and(|number| number.parse::<f32>().is_ok())
}

#[test]
fn a_frame_is_its_words_without_times() {
    let line = |y: f32, text: &str| format!("<text x=\"1\" y=\"{y}\" fill=\"#fff\">{text}</text>\n");
    let svg = [
        line(25.5, "hostwright"),
        line(43.5, " ✓ ready after 1m 44s"),
        line(61.5, "x"),
        line(727.5, "? help"),
    ];
    assert_eq!(frame(&svg.concat()), ["hostwright", "✓ ready after", "? help"]);
}
