//! Scenarios of terminals: not read, of every kind, resized all the time, stopped for long.

use std::time::{Duration, Instant};

use hostwright::domain::Phase;
use rustix::process::{Signal, kill_process};

use crate::console::{Near, child_of, colours};
use crate::pty::Pty;

/// So long nobody reads what the console writes: the input of the issue.
const UNREAD: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn unread_for_ten_seconds_it_goes_on_then_shows_the_newest_and_ends_in_two() {
    let near = Near::new().await;
    let run = near.pending("web-1.example.org").await;
    let open = || {
        let mut pty = Pty::start(near.far.command(&[]), (120, 40));
        pty.wait_for("web-1.example.org");
        pty
    };
    let (mut read_again, mut ended) = (open(), open());
    read_again.keys("a").wait_for("Approve web-1");
    let since = Instant::now();
    for pty in [&mut read_again, &mut ended] {
        pty.ignore(|pty| {
            pty.keys("C-l");
        });
        pty.fill();
    }
    // Keys and news are handled meanwhile.
    read_again.keys("y");
    while near.again(&run).await.phase != Phase::Queued {
        assert!(since.elapsed() < Duration::from_secs(60), "the key was never handled");
        tokio::task::yield_now().await;
    }
    near.pending("web-2.example.org").await;
    tokio::time::sleep(UNREAD.saturating_sub(since.elapsed())).await;
    near.pending("web-3.example.org").await;
    ended.resize((150, 60));
    let begun = Instant::now();
    ended.signal(Signal::TERM);
    assert_eq!(ended.wait_exit(), 143);
    assert!(begun.elapsed() < Duration::from_secs(2), "it took {:?} to end", begun.elapsed());
    read_again.resize((121, 41)).read();
    read_again.wait_for("web-2.example.org").wait_for("web-3.example.org").wait_for("queued");
    read_again.keys("q");
    assert_eq!(read_again.wait_exit(), 0);
}

/// Whether there is an OSC that sets a colour; asking for the background is none.
fn palette_changed(text: &str) -> bool {
    text.split("\x1b]").skip(1).any(|osc| {
        let number = osc.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let asks = osc.starts_with("11;?");
        matches!(number.parse(), Ok(4 | 5 | 10..=19 | 104 | 105 | 110..=119)) && !asks
    })
}

/// S13.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_terminal_gets_what_it_understands() {
    let near = Near::new().await;
    near.pending("web-1.example.org").await;
    for term in [None, Some("dumb"), Some("vt100"), Some("linux"), Some("xterm-256color"), Some("tmux")] {
        for plain in [false, true] {
            for lang in ["C", "en_US.UTF-8"] {
                for piped in [false, true] {
                    one_terminal(&near, term, plain, lang, piped);
                }
            }
        }
    }
}

fn one_terminal(near: &Near, term: Option<&str>, plain: bool, lang: &str, piped: bool) {
    let case = format!("TERM={term:?} NO_COLOR={plain} LANG={lang} piped={piped}");
    let script = match (term, piped) {
        (None, false) => "unset TERM; exec \"$0\"",
        (Some(_), false) => "exec \"$0\"",
        (None, true) => "unset TERM; \"$0\" | cat; exit ${PIPESTATUS[0]}",
        (Some(_), true) => "\"$0\" | cat; exit ${PIPESTATUS[0]}",
    };
    let mut command = Pty::command("bash");
    command.args(["--norc", "-c", script, env!("CARGO_BIN_EXE_hostwright")]);
    near.far.equip(&mut command);
    command.env("LANG", lang);
    match term {
        Some(term) => command.env("TERM", term),
        None => command.env_remove("TERM"),
    }
    if plain {
        command.env("NO_COLOR", "1");
    }
    let mut pty = Pty::start(command, (300, 24));
    if piped || matches!(term, None | Some("dumb")) {
        assert_eq!(pty.wait_exit(), 2, "{case}");
        let text = String::from_utf8_lossy(&pty.bytes()).into_owned();
        assert!(!text.contains('\x1b') && text.contains("hosts list"), "{case}: {text:?}");
        assert_eq!(text.trim_end().lines().count(), 1, "{case}: {text:?}");
        return;
    }
    pty.wait_for("web-1.example.org").wait_for("pending").keys("a").wait_for("Approve web-1");
    pty.keys("n").wait_gone("Approve web-1").keys("q");
    assert_eq!(pty.wait_exit(), 0, "{case}");
    let bytes = pty.bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!palette_changed(&text), "{case}");
    let colours = colours(&bytes);
    let codes: Vec<&str> = colours.iter().flat_map(|sequence| sequence.split(';')).collect();
    if plain || term == Some("vt100") {
        assert!(
            codes.iter().all(|code| ["", "0", "1", "2", "3", "4", "7"].contains(code)),
            "{case}: {colours:?}"
        );
        assert!(codes.contains(&"7"), "{case}: the selection is not seen");
    } else {
        assert!(codes.iter().any(|code| code.starts_with('3') && code.len() == 2), "{case}: {colours:?}");
    }
    let ascii = lang == "C" || term == Some("linux");
    assert_eq!(bytes.is_ascii(), ascii, "{case}");
}

/// S09: two hundred sizes in two seconds while runs come.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_resizes_in_two_seconds_while_runs_come() {
    let near = Near::new().await;
    near.pending("web-0.example.org").await;
    let mut pty = Pty::start(near.far.command(&[]), (120, 40));
    pty.wait_for("web-0.example.org");
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        u16::try_from(1 + random % limit).unwrap()
    };
    for n in 0..200 {
        pty.resize((next(200), next(60)));
        if n % 10 == 9 {
            near.pending(&format!("web-{}.example.org", n / 10 + 1)).await;
        }
        // The pace is the input.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mark = pty.mark();
    pty.resize((123, 45)).wait_bytes(mark, b"\x1b[2J");
    for n in 0..=20 {
        pty.wait_for(&format!("web-{n}.example.org"));
    }
    pty.keys("q");
    assert_eq!(pty.wait_exit(), 0);
    assert_eq!(pty.modes_left(), Vec::<String>::new());
}

/// S11: stopped for so long that the watch is cut; resized and changed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_stop_the_screen_is_whole_and_the_data_new() {
    for outside in [false, true] {
        let near = Near::new().await;
        let run = near.pending("web-1.example.org").await;
        let mut pty = near.far.shell();
        pty.write(b"stty -a >before; echo done\r").wait_for("\ndone");
        pty.write(format!("{}\r", env!("CARGO_BIN_EXE_hostwright")).as_bytes()).wait_for("web-1.example.org");
        if outside {
            kill_process(child_of(&pty), Signal::TSTP).unwrap();
        } else {
            pty.keys("C-z");
        }
        pty.wait_until("the shell", |s| !s.alternate_screen() && s.contents().contains("Stopped"));
        pty.write(b"stty -a >between; echo again\r").wait_for("\nagain");
        let read = |name: &str| std::fs::read_to_string(near.far.path().join(name)).unwrap();
        assert_eq!(read("before"), read("between"));
        near.proxy.cut();
        near.pending("web-2.example.org").await;
        let details = near.again(&run).await;
        near.reject(&details).await;
        pty.resize((140, 45));
        let mark = pty.mark();
        pty.write(b"fg\r").wait_bytes(mark, b"\x1b[2J");
        pty.wait_for("web-2.example.org").wait_for("rejected").wait_until("the new width", |screen| {
            screen.alternate_screen() && screen.rows(0, 200).any(|row| row.chars().count() == 140)
        });
        pty.keys("q").wait_until("the shell", |screen| !screen.alternate_screen());
        assert_eq!(pty.modes_left(), Vec::<String>::new());
    }
}
